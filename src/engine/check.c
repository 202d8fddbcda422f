/* The rules of a plan, table by table. See check.h; plan.h describes the tables. */
#include "engine/check.h"

#include <string.h>

#include "base/cpu_time.h"

struct checker {
    const struct ig_plan *plan;
    uint64_t n_slots, code_size, weights_size, section; /* weights_size: with copies, section: without */
    struct ingot_error *error;
    uint8_t depth[IG_PLAN_MAX_SUBPLANS]; /* nesting depth of the bodies claimed by a step; 0: unclaimed */
    uint8_t ranks[IG_PLAN_MAX_SUBPLANS]; /* of a main plan: the ranks that it is for; 0: it is none */
};

/* One rule: a condition, and the message if it does not hold. */
#define REQUIRE(c, condition, ...)                                                  \
    do {                                                                            \
        if (!(condition)) return IG_ERR((c)->error, INGOT_BAD_ENGINE, __VA_ARGS__); \
    } while (0)

static bool is_string(const struct checker *c, ig_plan_string string) {
    return string < c->plan->strings_size;
}

static bool in_table(uint32_t first, uint32_t count, uint32_t size) {
    return first <= size && count <= size - first;
}

/* ---- Strings, shape program, symbols ---- */

static enum ingot_status check_strings(const struct checker *c) {
    const struct ig_plan *p = c->plan;
    REQUIRE(c, p->strings_size == 0 || p->strings[p->strings_size - 1] == '\0', "the strings are not terminated");
    return INGOT_OK;
}

/* Of instructions whose first one fills slot `result`. */
static enum ingot_status check_program(const struct checker *c, const char *name, const struct ig_shape_instr *instrs,
                                       uint32_t count, uint64_t result) {
    for (uint32_t i = 0; i < count; i++, result++) {
        const struct ig_shape_instr *instr = &instrs[i];
        REQUIRE(c, instr->op <= IG_SHAPE_MAX, "%s instruction %u has the unknown operation %u", name, i, instr->op);
        REQUIRE(c, instr->reserved == 0, "%s instruction %u has something in its reserved field", name, i);
        if (instr->op == IG_SHAPE_CONST) continue;
        REQUIRE(c, instr->a < result && instr->b < result, "%s instruction %u uses what comes after it", name, i);
    }
    return INGOT_OK;
}

static enum ingot_status check_demands(const struct checker *c) {
    const struct ig_plan *p = c->plan;
    uint64_t n_slots = c->n_slots + p->n_demand_instrs;
    IG_TRY(check_program(c, "demand", p->demand_instrs, p->n_demand_instrs, c->n_slots));
    for (uint32_t i = 0; i < p->n_demands; i++) {
        const struct ig_plan_demand *d = &p->demands[i];
        bool known = d->constants < n_slots && d->reads < n_slots && d->writes < n_slots && d->turns < n_slots;
        for (int u = 0; u < IG_UNIT_COUNT; u++)
            known = known && d->operations[u] < n_slots;
        REQUIRE(c, known, "demand %u has no numbers", i);
    }
    return INGOT_OK;
}

static enum ingot_status check_shape_program(const struct checker *c) {
    const struct ig_plan *p = c->plan;
    IG_TRY(check_program(c, "shape", p->instrs, p->n_instrs, p->n_symbols));
    IG_TRY(check_demands(c));
    for (uint32_t i = 0; i < p->n_checks; i++) {
        const struct ig_plan_check *check = &p->checks[i];
        REQUIRE(c, check->a < c->n_slots && check->b < c->n_slots, "check %u has no numbers", i);
        REQUIRE(c, is_string(c, check->text), "check %u has no text", i);
    }
    for (uint32_t i = 0; i < p->n_dims; i++) {
        REQUIRE(c, p->dims[i] < c->n_slots, "dim %u is number %u of %llu", i, p->dims[i],
                (unsigned long long)c->n_slots);
    }
    return INGOT_OK;
}

static bool is_integer(uint32_t dtype) {
    return dtype >= INGOT_I8 && dtype <= INGOT_BOOL;
}

/* Runs last: symbols refer to the main plan's inputs, which must have been checked. */
static enum ingot_status check_symbols(const struct checker *c) {
    const struct ig_plan *p = c->plan;
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        const struct ig_plan_symbol *symbol = &p->symbols[i];
        REQUIRE(c, is_string(c, symbol->name), "symbol %u has no name", i);
        REQUIRE(c, symbol->input < p->subplans[0].n_inputs, "symbol %u is read from input %u of %u", i, symbol->input,
                p->subplans[0].n_inputs);
        const struct ig_plan_tensor *input = &p->tensors[p->subplans[0].inputs + symbol->input];
        if (symbol->axis == IG_PLAN_NONE) {
            REQUIRE(c, is_integer(input->dtype), "symbol %u is read from an input that holds no integers", i);
        } else {
            REQUIRE(c, symbol->axis < input->rank, "symbol %u is dim %u of %u", i, symbol->axis, input->rank);
        }
        REQUIRE(c, symbol->lo <= symbol->hi, "symbol %u has an empty range", i);
        REQUIRE(c, symbol->mixes == IG_PLAN_NONE || is_string(c, symbol->mixes), "symbol %u has no reason to mix rows",
                i);
        REQUIRE(c, symbol->mixes != IG_PLAN_NONE || symbol->axis != IG_PLAN_NONE, "symbol %u counts no rows", i);
        REQUIRE(c, symbol->reserved == 0, "symbol %u has something in its reserved field", i);
    }
    return INGOT_OK;
}

/* ---- Tensors and buffers ---- */

static enum ingot_status check_tensor(const struct checker *c, const struct ig_subplan *sub, uint32_t index) {
    const struct ig_plan_tensor *tensor = &c->plan->tensors[index];
    REQUIRE(c, is_string(c, tensor->name), "tensor %u has no name", index);
    REQUIRE(c, tensor->dtype > INGOT_DTYPE_NONE && tensor->dtype < INGOT_DTYPE_COUNT, "tensor %u has type %u", index,
            tensor->dtype);
    REQUIRE(c, tensor->rank <= INGOT_MAX_RANK, "tensor %u has rank %u", index, tensor->rank);
    REQUIRE(c, tensor->buffer < sub->n_buffers, "tensor %u is in buffer %u of %u", index, tensor->buffer,
            sub->n_buffers);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        REQUIRE(c, tensor->dims[i] < c->n_slots && is_string(c, tensor->symbols[i]), "tensor %u has no dim %u", index,
                i);
    }
    return INGOT_OK;
}

/* An output that is stored in an input's memory must be like it, and the only one. */
static enum ingot_status check_updates(const struct checker *c, const struct ig_subplan *sub, bool is_main) {
    const struct ig_plan_tensor *inputs = &c->plan->tensors[sub->inputs], *outputs = &c->plan->tensors[sub->outputs];
    for (uint32_t i = 0; i < sub->n_inputs; i++)
        REQUIRE(c, inputs[i].updates == 0 && inputs[i].reserved == 0, "input %u updates something", i);
    for (uint32_t i = 0; i < sub->n_outputs; i++) {
        const struct ig_plan_tensor *output = &outputs[i];
        REQUIRE(c, output->reserved == 0, "output %u has something in its reserved field", i);
        if (output->updates == 0) continue;
        REQUIRE(c, is_main && output->updates <= sub->n_inputs, "output %u updates no input", i);
        const struct ig_plan_tensor *input = &inputs[output->updates - 1];
        REQUIRE(c,
                input->dtype == output->dtype && input->rank == output->rank &&
                    memcmp(input->dims, output->dims, sizeof input->dims) == 0,
                "output %u is not like the input that it updates", i);
        for (uint32_t j = 0; j < i; j++)
            REQUIRE(c, outputs[j].updates != output->updates, "outputs %u and %u update the same input", j, i);
    }
    return INGOT_OK;
}

static enum ingot_status check_buffer(const struct checker *c, const struct ig_subplan *sub, uint32_t index) {
    const struct ig_plan_buffer *buffer = &c->plan->buffers[sub->buffers + index];
    REQUIRE(c, buffer->bytes < c->n_slots, "buffer %u has no size", index);
    switch (buffer->kind) {
    case IG_PLAN_ARENA:
        REQUIRE(c, buffer->first <= buffer->last && buffer->last < sub->n_steps,
                "buffer %u lives from step %u to %u of %u", index, buffer->first, buffer->last, sub->n_steps);
        return INGOT_OK;
    case IG_PLAN_INPUT:
        REQUIRE(c, buffer->index < sub->n_inputs, "buffer %u is input %u of %u", index, buffer->index, sub->n_inputs);
        return INGOT_OK;
    case IG_PLAN_OUTPUT:
        REQUIRE(c, buffer->index < sub->n_outputs, "buffer %u is output %u of %u", index, buffer->index,
                sub->n_outputs);
        return INGOT_OK;
    case IG_PLAN_WEIGHT:
        REQUIRE(c, (uint64_t)buffer->index * 64 <= c->weights_size, "buffer %u lies beyond the weights", index);
        REQUIRE(c, !c->plan->n_copies || ig_plan_copies_hold(c->plan, c->section, buffer),
                "buffer %u lies in no copy of weights", index);
        return INGOT_OK;
    case IG_PLAN_ALIAS:
        /* Of an earlier one only, so that chains of aliases end. */
        REQUIRE(c, buffer->index < index, "buffer %u is an alias of what comes after it", index);
        REQUIRE(c, buffer->offset == IG_PLAN_NONE || buffer->offset < c->n_slots, "buffer %u has no offset", index);
        return INGOT_OK;
    case IG_PLAN_SEAT:
        REQUIRE(c, buffer->index == 0, "buffer %u is seat %u of a rank", index, buffer->index);
        return INGOT_OK;
    default: REQUIRE(c, false, "buffer %u is of the unknown kind %u", index, buffer->kind);
    }
}

static enum ingot_status check_calls(const struct checker *c) {
    for (uint32_t i = 0; i < c->plan->n_calls; i++) {
        const char *wrong = ig_library_call_error(&c->plan->calls[i]);
        REQUIRE(c, !wrong, "library call %u has %s", i, wrong);
    }
    return INGOT_OK;
}

/* Sets the size of the weights, to which the copies belong. */
static enum ingot_status check_copies(struct checker *c) {
    uint64_t end = c->weights_size, size, span;
    for (uint32_t i = 0; i < c->plan->n_copies; i++) {
        const struct ig_weight_copy *copy = &c->plan->copies[i];
        bool follows = copy->to == (end + 63) / 64 * 64 || (i > 0 && copy->to == end);
        REQUIRE(c, follows, "copy %u of weights has no place of its own", i);
        bool exists = copy->piece > 0 && copy->count > 0 && !__builtin_mul_overflow(copy->piece, copy->count, &size) &&
                      size <= INT64_MAX / 2 && end <= INT64_MAX / 2 &&
                      !__builtin_mul_overflow(copy->stride, copy->count - 1, &span) && copy->from <= c->weights_size &&
                      span <= c->weights_size - copy->from && copy->piece <= c->weights_size - copy->from - span;
        REQUIRE(c, exists, "copy %u is of what lies beyond the weights", i);
        end = copy->to + size;
    }
    c->weights_size = ig_plan_copies_end(c->plan, c->weights_size);
    return INGOT_OK;
}

static enum ingot_status check_collectives(const struct checker *c) {
    for (uint32_t i = 0; i < c->plan->n_collectives; i++) {
        const char *wrong = ig_collective_error(&c->plan->collectives[i], IG_MOST_RANKS);
        REQUIRE(c, !wrong, "collective %u has %s", i, wrong);
    }
    return INGOT_OK;
}

static enum ingot_status check_kernels(const struct checker *c) {
    for (uint32_t i = 0; i < c->plan->n_kernels; i++) {
        const struct ig_plan_kernel *kernel = &c->plan->kernels[i];
        REQUIRE(c, kernel->library <= c->plan->n_calls, "kernel %u is library call %u of %u", i, kernel->library,
                c->plan->n_calls);
        if (kernel->library) {
            REQUIRE(c, kernel->entry == 0 && kernel->portable == UINT64_MAX, "kernel %u is a library's and has code",
                    i);
        } else {
            REQUIRE(c, kernel->entry < c->code_size, "kernel %u begins beyond the code", i);
            REQUIRE(c, kernel->portable == UINT64_MAX || kernel->portable < c->code_size,
                    "kernel %u has its portable form beyond the code", i);
        }
        REQUIRE(c, is_string(c, kernel->name) && is_string(c, kernel->fingerprint) && is_string(c, kernel->tactic),
                "kernel %u has no name", i);
        REQUIRE(c, kernel->waits <= 1, "kernel %u says neither that it waits nor that it does not", i);
        REQUIRE(c, kernel->lasting <= IG_MOST_LASTING, "kernel %u wants %u blocks of a multiprocessor", i,
                kernel->lasting);
        REQUIRE(c, kernel->whole <= 1, "kernel %u says neither that parts of it are whole nor that they are not", i);
        REQUIRE(c, kernel->kind < IG_CPU_KINDS, "kernel %u is of unknown kind %u", i, kernel->kind);
        REQUIRE(c, kernel->n_maps <= (kernel->library ? 0 : IG_MOST_TENSOR_MAPS), "kernel %u has %u tensor maps", i,
                kernel->n_maps);
        for (uint32_t m = kernel->n_maps; m < IG_MOST_TENSOR_MAPS; m++) {
            static const struct ig_tensor_map none;
            REQUIRE(c, memcmp(&kernel->maps[m], &none, sizeof none) == 0, "kernel %u has something in tensor map %u", i,
                    m);
        }
    }
    return INGOT_OK;
}

/* ---- Ranks ---- */

static bool is_nothing(const struct ig_plan *p, ig_slot slot) {
    if (slot < p->n_symbols || slot - p->n_symbols >= p->n_instrs) return false;
    const struct ig_shape_instr *instr = &p->instrs[slot - p->n_symbols];
    return instr->op == IG_SHAPE_CONST && instr->value == 0;
}

/* All main plans have the inputs and outputs of the first, each in a buffer of its own. A rank that has no part of a result has none of
 * its first axis's elements. */
static enum ingot_status check_same_tensors(const struct checker *c, uint32_t index) {
    const struct ig_plan *p = c->plan;
    const struct ig_subplan *first = &p->subplans[0], *sub = &p->subplans[index];
    REQUIRE(c, sub->n_inputs == first->n_inputs && sub->n_outputs == first->n_outputs,
            "plan %u of a rank has other inputs or outputs", index);
    for (uint32_t i = 0; i < sub->n_inputs + sub->n_outputs; i++) {
        bool is_input = i < sub->n_inputs;
        struct ig_plan_tensor a = p->tensors[is_input ? first->inputs + i : first->outputs + i - sub->n_inputs];
        const struct ig_plan_tensor *b = &p->tensors[is_input ? sub->inputs + i : sub->outputs + i - sub->n_inputs];
        a.buffer = b->buffer;
        if (!is_input && b->rank > 0 && b->updates == 0 && is_nothing(p, b->dims[0])) a.dims[0] = b->dims[0];
        REQUIRE(c, memcmp(&a, b, sizeof a) == 0, "plan %u of a rank has another tensor %u", index, i);
    }
    return INGOT_OK;
}

static enum ingot_status check_ranks(struct checker *c) {
    const struct ig_plan *p = c->plan;
    c->ranks[0] = 1;
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        const struct ig_plan_rank *r = &p->ranks[i], *before = i ? r - 1 : NULL;
        bool goes_on = before && before->rank + 1 < before->ranks;
        bool in_order = goes_on ? r->ranks == before->ranks && r->rank == before->rank + 1
                                : r->rank == 0 && (!before || r->ranks > before->ranks);
        REQUIRE(c, r->ranks >= 1 && r->ranks <= IG_MOST_RANKS && r->rank < r->ranks && r->reserved == 0,
                "rank %u of %u cannot be", r->rank, r->ranks);
        REQUIRE(c, in_order, "rank %u of %u is out of order", r->rank, r->ranks);
        REQUIRE(c, r->subplan < p->n_subplans && (i > 0) == (r->subplan > 0) && (i == 0 || !c->ranks[r->subplan]),
                "rank %u of %u has no plan of its own", r->rank, r->ranks);
        c->ranks[r->subplan] = (uint8_t)r->ranks;
    }
    const struct ig_plan_rank *last = p->n_ranks ? &p->ranks[p->n_ranks - 1] : NULL;
    REQUIRE(c, !last || last->rank + 1 == last->ranks, "not all of %u ranks have a plan", last->ranks);
    return INGOT_OK;
}

/* ---- Steps ---- */

/* Claims a step's body: a later plan, which no other step runs. */
static enum ingot_status claim_body(struct checker *c, uint32_t own, uint32_t index, uint32_t body) {
    REQUIRE(c, body > own && body < c->plan->n_subplans, "step %u runs plan %u of %u", index, body,
            c->plan->n_subplans);
    REQUIRE(c, c->ranks[body] == 0, "step %u runs plan %u, which is a rank's", index, body);
    REQUIRE(c, c->depth[body] == 0, "plan %u is the body of two steps", body);
    REQUIRE(c, c->depth[own] < IG_PLAN_MAX_DEPTH, "control flow is nested deeper than %d", IG_PLAN_MAX_DEPTH);
    c->depth[body] = c->depth[own] + 1;
    return INGOT_OK;
}

static enum ingot_status check_if(struct checker *c, uint32_t own, uint32_t index, const struct ig_plan_step *step) {
    IG_TRY(claim_body(c, own, index, step->a));
    IG_TRY(claim_body(c, own, index, step->b));
    for (int branch = 0; branch < 2; branch++) {
        const struct ig_subplan *body = &c->plan->subplans[branch ? step->b : step->a];
        REQUIRE(c, step->n_inputs == body->n_inputs, "step %u passes %u values, its body takes %u", index,
                step->n_inputs, body->n_inputs);
        REQUIRE(c, step->n_operands == 1 + (uint64_t)step->n_inputs + body->n_outputs,
                "step %u has %u operands, its body returns %u values", index, step->n_operands, body->n_outputs);
    }
    return INGOT_OK;
}

static enum ingot_status check_loop(struct checker *c, uint32_t own, uint32_t index, const struct ig_plan_step *step) {
    IG_TRY(claim_body(c, own, index, step->a));
    const struct ig_subplan *body = &c->plan->subplans[step->a];
    uint64_t carried = step->n_carried, taken = 2 + carried + step->n_inputs;
    REQUIRE(c, body->n_inputs == taken, "step %u passes %llu values, its body takes %u", index,
            (unsigned long long)taken, body->n_inputs);
    REQUIRE(c, body->n_outputs >= 1 + carried, "step %u carries %llu values, its body returns %u", index,
            (unsigned long long)carried, body->n_outputs);
    REQUIRE(c, step->n_operands == taken + body->n_outputs - 1, "step %u has %u operands, its body returns %u values",
            index, step->n_operands, body->n_outputs);
    return INGOT_OK;
}

/* The library call that a step makes; NULL: none. */
static const struct ig_library_call *call_of(const struct checker *c, const struct ig_plan_step *step) {
    if (step->kind != IG_STEP_KERNEL || step->kernel >= c->plan->n_kernels) return NULL;
    uint32_t library = c->plan->kernels[step->kernel].library;
    return library ? &c->plan->calls[library - 1] : NULL;
}

/* Operand k may be absent: of a generated kernel any that it does not read, of a loop the trip count and condition, of a
 * collective the one that it does not have. */
static bool is_optional(const struct checker *c, const struct ig_plan_step *step, uint32_t k) {
    if (step->kind == IG_STEP_COLLECTIVE && step->kernel < c->plan->n_collectives)
        return c->plan->collectives[step->kernel].kind == (k == 0 ? IG_RECEIVE : IG_SEND);
    return (step->kind == IG_STEP_KERNEL && !call_of(c, step)) || (step->kind == IG_STEP_LOOP && k < 2);
}

static enum ingot_status check_operands(const struct checker *c, const struct ig_subplan *sub, uint32_t index,
                                        const struct ig_plan_step *step) {
    REQUIRE(c, in_table(step->operands, step->n_operands, c->plan->n_operands), "step %u has no operands", index);
    for (uint32_t k = 0; k < step->n_operands; k++) {
        uint32_t operand = c->plan->operands[step->operands + k];
        if (operand == IG_PLAN_NONE && is_optional(c, step, k)) continue;
        REQUIRE(c, operand < sub->n_buffers, "step %u: operand %u is buffer %u of %u", index, k, operand,
                sub->n_buffers);
        const struct ig_plan_buffer *buffer = &c->plan->buffers[sub->buffers + operand];
        REQUIRE(c, buffer->kind != IG_PLAN_ARENA || (buffer->first <= index && index <= buffer->last),
                "step %u uses buffer %u, which does not live then", index, operand);
    }
    return INGOT_OK;
}

static enum ingot_status check_kernel_step(const struct checker *c, uint32_t index, const struct ig_plan_step *step) {
    REQUIRE(c, step->kernel < c->plan->n_kernels, "step %u runs kernel %u of %u", index, step->kernel,
            c->plan->n_kernels);
    REQUIRE(c, step->tiles < c->n_slots, "step %u has no number of tiles", index);
    REQUIRE(c, step->scratch == IG_PLAN_NONE || step->scratch < c->n_slots, "step %u has no scratch", index);
    const struct ig_library_call *call = call_of(c, step);
    const char *wrong = call ? ig_library_use_error(call, step->n_operands, step->n_dims) : NULL;
    REQUIRE(c, !wrong, "step %u calls a library with %s", index, wrong);
    const struct ig_plan_kernel *kernel = &c->plan->kernels[step->kernel];
    for (uint32_t i = 0; i < kernel->n_maps; i++) {
        wrong = ig_tensor_map_error(&kernel->maps[i], step->n_operands, step->n_dims);
        REQUIRE(c, !wrong, "step %u has a tensor map with %s", index, wrong);
        REQUIRE(c, c->plan->operands[step->operands + kernel->maps[i].buffer] != IG_PLAN_NONE,
                "step %u has a tensor map of an operand that is missing", index);
    }
    return INGOT_OK;
}

static enum ingot_status check_collective_step(const struct checker *c, uint32_t own, uint32_t index,
                                               const struct ig_plan_step *step) {
    uint32_t ranks = c->plan->n_ranks ? c->ranks[own] : step->n_dims - 2; /* bodies have no collectives then */
    REQUIRE(c, step->kernel < c->plan->n_collectives, "step %u is collective %u of %u", index, step->kernel,
            c->plan->n_collectives);
    REQUIRE(c, step->n_operands == 2, "step %u is a collective of %u operands", index, step->n_operands);
    REQUIRE(c, step->n_dims > 2 && step->n_dims - 2 <= IG_MOST_RANKS, "step %u is a collective with %u dims", index,
            step->n_dims);
    REQUIRE(c, step->n_dims - 2 == ranks, "step %u is a collective of %u ranks in a plan for %u", index,
            step->n_dims - 2, ranks);
    const char *wrong = ig_collective_error(&c->plan->collectives[step->kernel], step->n_dims - 2);
    REQUIRE(c, !wrong, "step %u is a collective with %s", index, wrong);
    return INGOT_OK;
}

static enum ingot_status check_step(struct checker *c, uint32_t own, uint32_t index, const struct ig_plan_step *step) {
    const struct ig_subplan *sub = &c->plan->subplans[own];
    REQUIRE(c, is_string(c, step->label), "step %u has no label", index);
    REQUIRE(c, in_table(step->dims, step->n_dims, c->plan->n_dims), "step %u has no dims", index);
    REQUIRE(c, step->n_operands <= IG_PLAN_MAX_OPERANDS && step->n_dims <= IG_PLAN_MAX_DIMS,
            "step %u has %u operands and %u dims, not at most %u and %u", index, step->n_operands, step->n_dims,
            IG_PLAN_MAX_OPERANDS, IG_PLAN_MAX_DIMS);
    REQUIRE(c, step->work == IG_PLAN_NONE || step->work < c->n_slots, "step %u has no work", index);
    bool moves = step->kind == IG_STEP_KERNEL || step->kind == IG_STEP_COPY;
    REQUIRE(c, step->demand <= (moves ? c->plan->n_demands : 0), "step %u has demand %u of %u", index, step->demand,
            c->plan->n_demands);
    IG_TRY(check_operands(c, sub, index, step));
    switch (step->kind) {
    case IG_STEP_KERNEL: return check_kernel_step(c, index, step);
    case IG_STEP_COPY:
        REQUIRE(c, step->n_operands == 2, "step %u copies %u operands", index, step->n_operands);
        return INGOT_OK;
    case IG_STEP_IF: return check_if(c, own, index, step);
    case IG_STEP_LOOP: return check_loop(c, own, index, step);
    case IG_STEP_COLLECTIVE: return check_collective_step(c, own, index, step);
    default: REQUIRE(c, false, "step %u is of the unknown kind %u", index, step->kind);
    }
}

/* Kernels of a collective have the seat as last operand. The first has the collective's before it; the second does the next
 * step too, and the lines of its message are its second dim. */
static enum ingot_status check_exchange(const struct checker *c, uint32_t own, uint32_t index,
                                        const struct ig_plan_step *step, uint32_t which) {
    const struct ig_subplan *sub = &c->plan->subplans[own];
    const struct ig_plan_step *other = &c->plan->steps[step->alternatives + which];
    const uint32_t *a = c->plan->operands + step->operands, *b = c->plan->operands + other->operands;
    const uint32_t last = other->n_operands > 0 ? b[other->n_operands - 1] : IG_PLAN_NONE;
    bool same = other->n_operands == 3 && step->n_operands == 2 && a[0] == b[0] && a[1] == b[1];
    REQUIRE(c, which > 0 || same, "step %u is a collective, and its kernel has other operands", index);
    REQUIRE(c, last < sub->n_buffers && c->plan->buffers[sub->buffers + last].kind == IG_PLAN_SEAT,
            "step %u is a collective, and its kernel has no seat", index);
    bool follows = index + 1 < sub->n_steps && c->plan->steps[sub->steps + index + 1].kind == IG_STEP_KERNEL;
    REQUIRE(c, which == 0 || (follows && other->n_dims >= 2),
            "step %u is a collective, and the kernel of it and the next step cannot be one", index);
    return INGOT_OK;
}

/* An alternative is a kernel, in the place of its step, and has no alternatives of its own. */
static enum ingot_status check_alternatives(struct checker *c, uint32_t own, uint32_t index) {
    const struct ig_plan *p = c->plan;
    const struct ig_plan_step *step = &p->steps[p->subplans[own].steps + index];
    REQUIRE(c, in_table(step->alternatives, step->n_alternatives, p->n_steps), "step %u has no alternatives", index);
    if (step->n_alternatives == 0) return INGOT_OK;
    REQUIRE(c, step->kind == IG_STEP_KERNEL || (step->kind == IG_STEP_COLLECTIVE && step->n_alternatives <= 2),
            "step %u has alternatives and is no kernel", index);
    REQUIRE(c, step->kind == IG_STEP_COLLECTIVE || step->choice < c->n_slots,
            "step %u has no choice among its alternatives", index);
    for (uint32_t i = 0; i < step->n_alternatives; i++) {
        const struct ig_plan_step *other = &p->steps[step->alternatives + i];
        REQUIRE(c, other->kind == IG_STEP_KERNEL && other->n_alternatives == 0,
                "step %u has an alternative that is no kernel, or has alternatives", index);
        IG_TRY(check_step(c, own, index, other));
        if (step->kind == IG_STEP_COLLECTIVE) IG_TRY(check_exchange(c, own, index, step, i));
    }
    return INGOT_OK;
}

/* ---- Plans ---- */

static enum ingot_status check_ranges(const struct checker *c, uint32_t index) {
    const struct ig_plan *p = c->plan;
    const struct ig_subplan *sub = &p->subplans[index];
    REQUIRE(c, in_table(sub->inputs, sub->n_inputs, p->n_tensors), "plan %u has no inputs", index);
    REQUIRE(c, in_table(sub->outputs, sub->n_outputs, p->n_tensors), "plan %u has no outputs", index);
    REQUIRE(c, in_table(sub->buffers, sub->n_buffers, p->n_buffers), "plan %u has no buffers", index);
    REQUIRE(c, in_table(sub->steps, sub->n_steps, p->n_steps), "plan %u has no steps", index);
    REQUIRE(c, in_table(sub->checks, sub->n_checks, p->n_checks), "plan %u has no checks", index);
    REQUIRE(c, sub->n_steps <= IG_PLAN_MAX_STEPS && sub->n_buffers <= IG_PLAN_MAX_BUFFERS,
            "plan %u has %u steps and %u buffers, not at most %u and %u", index, sub->n_steps, sub->n_buffers,
            IG_PLAN_MAX_STEPS, IG_PLAN_MAX_BUFFERS);
    return INGOT_OK;
}

static enum ingot_status check_subplan(struct checker *c, uint32_t index) {
    const struct ig_subplan *sub = &c->plan->subplans[index];
    bool is_main = c->ranks[index] > 0;
    REQUIRE(c, is_main || c->depth[index] != 0, "plan %u is nobody's body", index);
    for (uint32_t i = 0; i < sub->n_inputs; i++)
        IG_TRY(check_tensor(c, sub, sub->inputs + i));
    for (uint32_t i = 0; i < sub->n_outputs; i++)
        IG_TRY(check_tensor(c, sub, sub->outputs + i));
    if (is_main) IG_TRY(check_same_tensors(c, index));
    IG_TRY(check_updates(c, sub, is_main));
    for (uint32_t i = 0; i < sub->n_buffers; i++)
        IG_TRY(check_buffer(c, sub, i));
    for (uint32_t i = 0; i < sub->n_steps; i++) {
        IG_TRY(check_step(c, index, i, &c->plan->steps[sub->steps + i]));
        IG_TRY(check_alternatives(c, index, i));
    }
    return INGOT_OK;
}

/* Plans and steps may share ranges of tables, but the total must not exceed the tables: else checking or copying
 * could take for ever. */
static enum ingot_status check_total(const struct checker *c) {
    const struct ig_plan *p = c->plan;
    uint64_t tensors = 0, buffers = 0, steps = 0, checks = 0, operands = 0, dims = 0;
    for (uint32_t i = 0; i < p->n_subplans; i++) {
        tensors += (uint64_t)p->subplans[i].n_inputs + p->subplans[i].n_outputs;
        buffers += p->subplans[i].n_buffers;
        steps += p->subplans[i].n_steps;
        checks += p->subplans[i].n_checks;
    }
    bool apart = tensors <= p->n_tensors && buffers <= p->n_buffers && steps <= p->n_steps && checks <= p->n_checks;
    REQUIRE(c, apart, "plans overlap");
    for (uint32_t i = 0; i < p->n_steps; i++) {
        operands += p->steps[i].n_operands;
        dims += p->steps[i].n_dims;
        steps += p->steps[i].n_alternatives;
    }
    REQUIRE(c, operands <= p->n_operands && dims <= p->n_dims && steps <= p->n_steps, "steps overlap");
    return INGOT_OK;
}

enum ingot_status ig_plan_check(const struct ig_plan *plan, uint64_t code_size, uint64_t weights_size,
                                struct ingot_error *error) {
    struct checker c = {
        plan, (uint64_t)plan->n_symbols + plan->n_instrs, code_size, weights_size, weights_size, error, {0}, {0}};
    REQUIRE(&c, c.n_slots + plan->n_demand_instrs < IG_PLAN_NONE, "there are too many numbers");
    REQUIRE(&c, plan->n_subplans >= 1 && plan->n_subplans <= IG_PLAN_MAX_SUBPLANS, "there are %u plans, not 1 to %d",
            plan->n_subplans, IG_PLAN_MAX_SUBPLANS);
    IG_TRY(check_strings(&c));
    IG_TRY(check_shape_program(&c));
    IG_TRY(check_calls(&c));
    IG_TRY(check_collectives(&c));
    IG_TRY(check_copies(&c));
    IG_TRY(check_kernels(&c));
    for (uint32_t i = 0; i < plan->n_subplans; i++)
        IG_TRY(check_ranges(&c, i));
    IG_TRY(check_total(&c));
    IG_TRY(check_ranks(&c));
    /* Ascending: bodies come after the plan of their step, so a plan's depth is known before its steps are checked. */
    for (uint32_t i = 0; i < plan->n_subplans; i++)
        IG_TRY(check_subplan(&c, i));
    return check_symbols(&c);
}
