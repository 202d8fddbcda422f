#include "support/plan/tiny_plan.h"

#include <stdlib.h>
#include <string.h>

static ig_plan_string add_string(struct tiny_plan *tiny, const char *text) {
    uint32_t at = tiny->plan.strings_size, size = (uint32_t)strlen(text) + 1;
    if (at + size > sizeof tiny->strings) abort();
    memcpy(tiny->strings + at, text, size);
    tiny->plan.strings_size += size;
    return at;
}

void tiny_init(struct tiny_plan *tiny) {
    memset(tiny, 0, sizeof *tiny);
    tiny->plan = (struct ig_plan){.symbols = tiny->symbols,
                                  .instrs = tiny->instrs,
                                  .tensors = tiny->tensors,
                                  .buffers = tiny->buffers,
                                  .operands = tiny->operands,
                                  .dims = tiny->dims,
                                  .steps = tiny->steps,
                                  .kernels = tiny->kernels,
                                  .collectives = tiny->collectives,
                                  .subplans = tiny->subplans,
                                  .checks = tiny->checks,
                                  .strings = tiny->strings};
    add_string(tiny, "");
}

struct ig_engine_file tiny_file(const struct tiny_plan *tiny) {
    return (struct ig_engine_file){.target = "cpu",
                                   .plan = tiny->plan,
                                   .code = tiny->code.bytes,
                                   .code_size = tiny->code.size,
                                   .weights = tiny->weights,
                                   .weights_size = sizeof tiny->weights,
                                   .section_size = sizeof tiny->weights,
                                   .explanation = "{}"};
}

ig_slot tiny_symbol(struct tiny_plan *tiny, const char *name, uint32_t input, uint32_t axis, int64_t lo, int64_t hi) {
    if (tiny->plan.n_instrs) abort();
    tiny->symbols[tiny->plan.n_symbols] =
        (struct ig_plan_symbol){.name = add_string(tiny, name), .input = input, .axis = axis, .lo = lo, .hi = hi};
    if (axis != IG_PLAN_NONE) tiny->symbols[tiny->plan.n_symbols].mixes = IG_PLAN_NONE;
    return tiny->plan.n_symbols++;
}

static ig_slot add_instr(struct tiny_plan *tiny, struct ig_shape_instr instr) {
    if (tiny->plan.n_instrs == TINY_CAPACITY) abort();
    tiny->instrs[tiny->plan.n_instrs] = instr;
    return tiny->plan.n_symbols + tiny->plan.n_instrs++;
}

ig_slot tiny_const(struct tiny_plan *tiny, int64_t value) {
    return add_instr(tiny, (struct ig_shape_instr){.op = IG_SHAPE_CONST, .value = value});
}

ig_slot tiny_op(struct tiny_plan *tiny, enum ig_shape_op op, ig_slot a, ig_slot b) {
    return add_instr(tiny, (struct ig_shape_instr){.op = op, .a = a, .b = b});
}

uint32_t tiny_kernel(struct tiny_plan *tiny, const char *name, stub_kernel kernel) {
    tiny->kernels[tiny->plan.n_kernels] =
        (struct ig_plan_kernel){.entry = stub_code_add(&tiny->code, kernel), .name = add_string(tiny, name)};
    return tiny->plan.n_kernels++;
}

uint32_t tiny_subplan(struct tiny_plan *tiny) {
    tiny->current = &tiny->subplans[tiny->plan.n_subplans];
    *tiny->current = (struct ig_subplan){.inputs = tiny->plan.n_tensors,
                                         .outputs = tiny->plan.n_tensors,
                                         .buffers = tiny->plan.n_buffers,
                                         .steps = tiny->plan.n_steps,
                                         .checks = tiny->plan.n_checks};
    return tiny->plan.n_subplans++;
}

void tiny_check(struct tiny_plan *tiny, ig_slot a, ig_slot b) {
    if (tiny->plan.n_checks == sizeof tiny->checks / sizeof *tiny->checks) abort();
    tiny->checks[tiny->plan.n_checks++] = (struct ig_plan_check){a, b, tiny->symbols[b].name};
    tiny->current->n_checks++;
}

static uint32_t add_buffer(struct tiny_plan *tiny, struct ig_plan_buffer buffer) {
    if (tiny->plan.n_buffers == TINY_CAPACITY) abort();
    tiny->buffers[tiny->plan.n_buffers++] = buffer;
    return tiny->current->n_buffers++;
}

static uint32_t add_tensor(struct tiny_plan *tiny, const char *name, enum ingot_dtype dtype, uint32_t rank,
                           const ig_slot *dims, uint32_t kind, uint32_t index) {
    ig_slot bytes = tiny_const(tiny, (int64_t)ingot_dtype_size(dtype));
    for (uint32_t i = 0; i < rank; i++)
        bytes = tiny_op(tiny, IG_SHAPE_MUL, bytes, dims[i]);
    struct ig_plan_tensor tensor = {.name = add_string(tiny, name), .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < INGOT_MAX_RANK; i++) {
        bool is_symbol = i < rank && dims[i] < tiny->plan.n_symbols;
        tensor.dims[i] = i < rank ? dims[i] : IG_PLAN_NONE;
        tensor.symbols[i] = is_symbol ? tiny->symbols[dims[i]].name : 0;
    }
    tensor.buffer =
        add_buffer(tiny, (struct ig_plan_buffer){.kind = kind, .index = index, .bytes = bytes, .offset = IG_PLAN_NONE});
    tiny->tensors[tiny->plan.n_tensors++] = tensor;
    return tensor.buffer;
}

uint32_t tiny_input(struct tiny_plan *tiny, const char *name, enum ingot_dtype dtype, uint32_t rank,
                    const ig_slot *dims) {
    tiny->current->outputs++;
    return add_tensor(tiny, name, dtype, rank, dims, IG_PLAN_INPUT, tiny->current->n_inputs++);
}

uint32_t tiny_output(struct tiny_plan *tiny, const char *name, enum ingot_dtype dtype, uint32_t rank,
                     const ig_slot *dims) {
    return add_tensor(tiny, name, dtype, rank, dims, IG_PLAN_OUTPUT, tiny->current->n_outputs++);
}

uint32_t tiny_arena(struct tiny_plan *tiny, ig_slot bytes) {
    return add_buffer(tiny, (struct ig_plan_buffer){
                                .kind = IG_PLAN_ARENA, .bytes = bytes, .offset = IG_PLAN_NONE, .first = UINT32_MAX});
}

uint32_t tiny_alias(struct tiny_plan *tiny, uint32_t of, ig_slot offset, ig_slot bytes) {
    return add_buffer(tiny,
                      (struct ig_plan_buffer){.kind = IG_PLAN_ALIAS, .index = of, .bytes = bytes, .offset = offset});
}

uint32_t tiny_weight(struct tiny_plan *tiny, uint32_t place, const float *values, uint32_t n) {
    memcpy(tiny->weights + 64 * (size_t)place, values, n * sizeof *values);
    ig_slot bytes = tiny_const(tiny, (int64_t)(n * sizeof *values));
    return add_buffer(
        tiny, (struct ig_plan_buffer){.kind = IG_PLAN_WEIGHT, .index = place, .bytes = bytes, .offset = IG_PLAN_NONE});
}

/* Extends an arena buffer's lifetime: from the first to the last step that touches it. */
static void touch(struct tiny_plan *tiny, uint32_t operand) {
    if (operand == IG_PLAN_NONE) return;
    struct ig_plan_buffer *buffer = &tiny->buffers[tiny->current->buffers + operand];
    if (buffer->kind == IG_PLAN_ALIAS) touch(tiny, buffer->index);
    if (buffer->kind != IG_PLAN_ARENA) return;
    if (buffer->first == UINT32_MAX) buffer->first = tiny->current->n_steps;
    buffer->last = tiny->current->n_steps;
}

struct ig_plan_step *tiny_step(struct tiny_plan *tiny, enum ig_plan_step_kind kind, const char *label,
                               const uint32_t *operands, uint32_t n_operands) {
    if (tiny->plan.n_steps == TINY_CAPACITY || tiny->plan.n_operands + n_operands > 4 * TINY_CAPACITY) abort();
    struct ig_plan_step *step = &tiny->steps[tiny->plan.n_steps++];
    *step = (struct ig_plan_step){.kind = kind,
                                  .kernel = IG_PLAN_NONE,
                                  .operands = tiny->plan.n_operands,
                                  .n_operands = n_operands,
                                  .dims = tiny->plan.n_dims,
                                  .tiles = IG_PLAN_NONE,
                                  .scratch = IG_PLAN_NONE,
                                  .work = IG_PLAN_NONE,
                                  .a = IG_PLAN_NONE,
                                  .b = IG_PLAN_NONE,
                                  .label = add_string(tiny, label)};
    for (uint32_t i = 0; i < n_operands; i++) {
        touch(tiny, operands[i]);
        tiny->operands[tiny->plan.n_operands++] = operands[i];
    }
    tiny->current->n_steps++;
    return step;
}

struct ig_plan_step *tiny_launch(struct tiny_plan *tiny, uint32_t kernel, ig_slot tiles, const uint32_t *operands,
                                 uint32_t n_operands, const ig_slot *dims, uint32_t n_dims) {
    ig_slot scratch = tiny_const(tiny, 128), work = tiny_const(tiny, 1 << 20);
    struct ig_plan_step *step =
        tiny_step(tiny, IG_STEP_KERNEL, tiny->strings + tiny->kernels[kernel].name, operands, n_operands);
    step->kernel = kernel;
    step->tiles = tiles;
    step->scratch = scratch;
    step->work = work;
    step->n_dims = n_dims;
    for (uint32_t i = 0; i < n_dims; i++)
        tiny->dims[tiny->plan.n_dims++] = dims[i];
    return step;
}

struct ig_plan_step *tiny_collective(struct tiny_plan *tiny, struct ig_collective what, const char *label,
                                     const uint32_t *operands, uint32_t ranks, const ig_slot *dims) {
    struct ig_plan_step *step = tiny_step(tiny, IG_STEP_COLLECTIVE, label, operands, 2);
    step->kernel = tiny->plan.n_collectives;
    step->n_dims = 2 + ranks;
    for (uint32_t i = 0; i < step->n_dims; i++)
        tiny->dims[tiny->plan.n_dims++] = dims[i];
    tiny->collectives[tiny->plan.n_collectives++] = what;
    return step;
}
