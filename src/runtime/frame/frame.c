/* Creates frames: steps, their work space, the uses of ports, segments; see frame.h. */
#include "runtime/frame/frame.h"

#include "runtime/frame/branches.h"
#include "runtime/frame/collective.h"
#include "runtime/frame/shape.h"

/* With less work per worker (in vector operations, around a nanosecond each), a further worker saves less than its
 * part in the barrier costs. */
#define WORK_PER_WORKER 2048

static enum ingot_status no_memory(struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
}

/* ---- Kernels and copies ------------------------------------------------------------------------------------------ */

static uint32_t worthwhile_workers(const struct ig_frame_env *env, const struct ig_plan_step *step) {
    if (step->work == IG_PLAN_NONE) return 0;
    int64_t workers = env->slots[step->work] / WORK_PER_WORKER;
    if (workers < 1) return 1;
    return workers < UINT32_MAX ? (uint32_t)workers : UINT32_MAX;
}

/* Results must lie in writable memory: not in an input, which is the caller's, nor in a weight, which all contexts
 * share and which on the CPU is a mapped file. Cannot be checked for kernels: only their code knows what they write. */
enum ingot_status ig_frame_check_written(const struct ig_frame_env *env, const struct ig_frame *frame,
                                         const struct ig_plan_step *step, uint32_t k, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    uint32_t b = ig_plan_operand(plan, step, k);
    uint32_t kind = plan->buffers[frame->sub->buffers + frame->root[b]].kind;
    if (kind == IG_PLAN_ARENA || kind == IG_PLAN_OUTPUT) return INGOT_OK;
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: operand %u is a result, but lies in %s", ig_frame_label(plan, step), k,
                  kind == IG_PLAN_WEIGHT ? "the weights" : "an input");
}

/* A library trusts its arguments, but these come from a file and from shapes: checks them first. */
static enum ingot_status make_call(struct ig_frame_env *env, const struct ig_frame *frame, struct ig_frame_step *step,
                                   const struct ig_library_call *call, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    uint32_t count = step->plan->n_operands;
    IG_TRY(ig_frame_check_written(env, frame, step->plan, call->out, error));
    size_t *bytes = ig_arena_alloc(env->memory, count * sizeof *bytes);
    if (!bytes) return no_memory(error);
    for (uint32_t k = 0; k < count; k++)
        bytes[k] = frame->bytes[ig_plan_operand(plan, step->plan, k)];
    const char *wrong = ig_library_sizes_error(call, step->launch.dims, bytes);
    if (wrong)
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a call of %s has %s", ig_frame_label(plan, step->plan),
                      ig_library_name(call->library), wrong);
    step->launch.library = call;
    return INGOT_OK;
}

/* Likewise for a kernel's tensor maps, which the copy engine trusts. */
static enum ingot_status check_maps(const struct ig_frame_env *env, const struct ig_frame *frame,
                                    const struct ig_frame_step *step, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    for (uint32_t i = 0; i < step->launch.n_maps && step->launch.tiles > 0; i++) {
        const struct ig_tensor_map *map = &step->launch.maps[i];
        size_t bytes = frame->bytes[ig_plan_operand(plan, step->plan, map->buffer)];
        const char *wrong = ig_tensor_map_sizes_error(map, step->launch.dims, bytes);
        if (wrong)
            return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a tensor map has %s", ig_frame_label(plan, step->plan), wrong);
    }
    return INGOT_OK;
}

static enum ingot_status make_kernel(struct ig_frame_env *env, const struct ig_frame *frame, struct ig_frame_step *step,
                                     struct ingot_error *error) {
    const struct ig_plan_step *plan_step = step->plan;
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_plan_kernel *kernel = &plan->kernels[plan_step->kernel];
    size_t tiles = 0, scratch = 0;
    IG_TRY(ig_frame_size(env, plan_step, plan_step->tiles, "the number of tiles", &tiles, error));
    if (plan_step->scratch != IG_PLAN_NONE)
        IG_TRY(ig_frame_size(env, plan_step, plan_step->scratch, "the bytes of scratch", &scratch, error));
    int64_t *dims = ig_arena_alloc(env->memory, plan_step->n_dims * sizeof *dims);
    if (!dims) return no_memory(error);
    for (uint32_t i = 0; i < plan_step->n_dims; i++)
        dims[i] = env->slots[plan->dims[plan_step->dims + i]];
    step->launch = (struct ig_launch){.module = env->module,
                                      .entry = kernel->entry,
                                      .portable = kernel->portable,
                                      .name = ig_plan_text(plan, kernel->name),
                                      .threads = kernel->threads,
                                      .shared = kernel->shared_bytes,
                                      .waits = kernel->waits != 0,
                                      .buffers = step->operands,
                                      .n_buffers = plan_step->n_operands,
                                      .dims = dims,
                                      .n_dims = plan_step->n_dims,
                                      .maps = kernel->maps,
                                      .n_maps = kernel->n_maps,
                                      .tiles = (int64_t)tiles,
                                      .lasting = kernel->lasting,
                                      .turn = kernel->turn,
                                      .whole = kernel->whole != 0,
                                      .scratch = scratch,
                                      .max_workers = worthwhile_workers(env, plan_step)};
    if (scratch > env->scratch) env->scratch = scratch;
    IG_TRY(check_maps(env, frame, step, error));
    return kernel->library ? make_call(env, frame, step, &plan->calls[kernel->library - 1], error) : INGOT_OK;
}

static enum ingot_status make_copy(struct ig_frame_env *env, struct ig_frame *frame, struct ig_frame_step *step,
                                   struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    if (step->plan->n_operands != 2 || ig_plan_operand(plan, step->plan, 0) == IG_PLAN_NONE ||
        ig_plan_operand(plan, step->plan, 1) == IG_PLAN_NONE)
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a copy takes two operands", ig_frame_label(plan, step->plan));
    size_t from = frame->bytes[ig_plan_operand(plan, step->plan, 0)],
           to = frame->bytes[ig_plan_operand(plan, step->plan, 1)];
    if (from != to)
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: copies %zu bytes to a buffer of %zu",
                      ig_frame_label(plan, step->plan), from, to);
    step->copy_bytes = to;
    return ig_frame_check_written(env, frame, step->plan, 1, error);
}

/* ---- Control flow ------------------------------------------------------------------------------------------------ */

/* The operand that a step passes for a port must have the size that the body expects. */
static enum ingot_status check_port(struct ig_frame_env *env, const struct ig_frame *frame,
                                    const struct ig_plan_step *step, uint32_t k, size_t wanted,
                                    struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    uint32_t b = ig_plan_operand(plan, step, k);
    size_t found = b == IG_PLAN_NONE ? 0 : frame->bytes[b];
    if (b != IG_PLAN_NONE && found == wanted) return INGOT_OK;
    char symbols[IG_SHAPE_DESCRIPTION_SIZE];
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: operand %u has %zu bytes, its body wants %zu (%s)",
                  ig_frame_label(plan, step), k, found, wanted,
                  ig_shape_describe(plan, env->slots, symbols, sizeof symbols));
}

static enum ingot_status check_counts(struct ig_frame_env *env, const struct ig_plan_step *step,
                                      const struct ig_frame *body, uint64_t inputs, uint64_t outputs,
                                      struct ingot_error *error) {
    if (body->sub->n_inputs == inputs && body->sub->n_outputs == outputs) return INGOT_OK;
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a body has %u inputs and %u outputs, wanted %llu and %llu",
                  ig_frame_label(&env->file->plan, step), body->sub->n_inputs, body->sub->n_outputs,
                  (unsigned long long)inputs, (unsigned long long)outputs);
}

static enum ingot_status make_if(struct ig_frame_env *env, struct ig_frame *frame, struct ig_frame_step *step,
                                 struct ingot_error *error) {
    const struct ig_plan_step *p = step->plan;
    IG_TRY(check_port(env, frame, p, 0, 1, error));
    for (int branch = 0; branch < 2; branch++) {
        IG_TRY(ig_frame_create(env, branch ? p->b : p->a, &step->body[branch], error));
        const struct ig_frame *body = step->body[branch];
        IG_TRY(check_counts(env, p, body, p->n_inputs, (uint64_t)p->n_operands - 1 - p->n_inputs, error));
        for (uint32_t i = 0; i < p->n_inputs; i++)
            IG_TRY(check_port(env, frame, p, 1 + i, body->inputs[i].bytes, error));
        for (uint32_t i = 0; i < body->sub->n_outputs; i++) {
            IG_TRY(check_port(env, frame, p, 1 + p->n_inputs + i, body->outputs[i].bytes, error));
            IG_TRY(ig_frame_check_written(env, frame, p, 1 + p->n_inputs + i, error));
        }
        if (body->arena_bytes > step->work_bytes) step->work_bytes = body->arena_bytes;
        if (body->lower_bound > step->work_floor) step->work_floor = body->lower_bound;
    }
    return INGOT_OK;
}

static enum ingot_status check_loop(struct ig_frame_env *env, struct ig_frame *frame, struct ig_frame_step *step,
                                    struct ingot_error *error) {
    const struct ig_plan_step *p = step->plan;
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_frame *body = step->body[0];
    uint32_t carried = p->n_carried, finals = 2 + carried + p->n_inputs;
    if (ig_plan_operand(plan, p, 0) != IG_PLAN_NONE) IG_TRY(check_port(env, frame, p, 0, sizeof(int64_t), error));
    if (ig_plan_operand(plan, p, 1) != IG_PLAN_NONE) IG_TRY(check_port(env, frame, p, 1, 1, error));
    if (body->inputs[0].bytes != sizeof(int64_t) || body->inputs[1].bytes != 1 || body->outputs[0].bytes != 1)
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: the body's iteration and conditions are no scalars",
                      ig_frame_label(plan, p));
    for (uint32_t i = 0; i < carried + p->n_inputs; i++)
        IG_TRY(check_port(env, frame, p, 2 + i, body->inputs[2 + i].bytes, error));
    for (uint32_t i = 0; i < carried; i++) {
        IG_TRY(check_port(env, frame, p, 2 + i, body->outputs[1 + i].bytes, error));
        IG_TRY(check_port(env, frame, p, finals + i, body->outputs[1 + i].bytes, error));
    }
    for (uint32_t k = finals + carried; k < p->n_operands; k++) {
        if (ig_plan_operand(plan, p, k) == IG_PLAN_NONE)
            return IG_ERR(error, INGOT_BAD_ENGINE, "%s: operand %u is missing", ig_frame_label(plan, p), k);
    }
    for (uint32_t k = finals; k < p->n_operands; k++)
        IG_TRY(ig_frame_check_written(env, frame, p, k, error));
    return INGOT_OK;
}

/* Lays out the work space: the scalars, second buffers for carried values, the body's arena. */
static enum ingot_status make_loop(struct ig_frame_env *env, struct ig_frame *frame, struct ig_frame_step *step,
                                   struct ingot_error *error) {
    const struct ig_plan_step *p = step->plan;
    IG_TRY(ig_frame_create(env, p->a, &step->body[0], error));
    const struct ig_frame *body = step->body[0];
    uint64_t fixed = 2 + 2 * (uint64_t)p->n_carried + p->n_inputs;
    if (p->n_operands < fixed)
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a loop of %u operands, wanted at least %llu",
                      ig_frame_label(&env->file->plan, p), p->n_operands, (unsigned long long)fixed);
    IG_TRY(check_counts(env, p, body, fixed - p->n_carried, 1 + p->n_carried + (p->n_operands - fixed), error));
    IG_TRY(check_loop(env, frame, step, error));
    step->carried = ig_arena_alloc(env->memory, p->n_carried * sizeof *step->carried);
    if (!step->carried) return no_memory(error);
    size_t end = IG_LOOP_HEADER, floor = 0;
    bool fits = true;
    for (uint32_t i = 0; i < p->n_carried; i++) {
        size_t bytes = body->outputs[1 + i].bytes, rounded;
        step->carried[i] = end;
        fits = fits && ig_size_add(bytes, 63, &rounded) && ig_size_add(end, rounded / 64 * 64, &end);
        floor += bytes;
    }
    if (!fits || !ig_size_add(end, body->arena_bytes, &step->work_bytes))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the activations of these shapes exceed the address space");
    step->work_floor = floor + body->lower_bound;
    return INGOT_OK;
}

/* ---- Ports and segments ------------------------------------------------------------------------------------------ */

/* Groups the uses of ports by port: counting sort. */
static enum ingot_status find_uses(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    uint32_t total = 0, next = 0;
    IG_EACH_OPERAND(plan, frame, s, k, b) {
        uint32_t port = ig_frame_port_of(env, frame, b);
        if (port != IG_PLAN_NONE) frame->ports[port].n_uses++, total++;
    }
    frame->uses = ig_arena_alloc(env->memory, total * sizeof *frame->uses);
    if (!frame->uses) return no_memory(error);
    for (uint32_t i = 0; i < frame->sub->n_inputs + frame->sub->n_outputs; i++) {
        frame->ports[i].uses = next;
        next += frame->ports[i].n_uses;
        frame->ports[i].n_uses = 0;
    }
    IG_EACH_OPERAND(plan, frame, s, k, b) {
        uint32_t number = ig_frame_port_of(env, frame, b);
        if (number == IG_PLAN_NONE) continue;
        struct ig_frame_port *port = &frame->ports[number];
        frame->uses[port->uses + port->n_uses++] = (struct ig_frame_use){s, k, frame->offset[b]};
    }
    return INGOT_OK;
}

/* What the host does between lists. */
static bool is_control(const struct ig_frame_env *env, const struct ig_frame_step *step) {
    const bool branches = step->plan->kind == IG_STEP_IF || step->plan->kind == IG_STEP_LOOP;
    return branches || ig_frame_is_between_lists(env->device, step);
}

static enum ingot_status find_segments(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    frame->segments = ig_arena_alloc(env->memory, frame->n_steps * sizeof *frame->segments);
    if (!frame->segments) return no_memory(error);
    for (uint32_t s = 0; s < frame->n_steps; s++) {
        bool control = is_control(env, &frame->steps[s]);
        bool joins = frame->n_segments && !control && !frame->segments[frame->n_segments - 1].control;
        if (joins)
            frame->segments[frame->n_segments - 1].count++;
        else
            frame->segments[frame->n_segments++] = (struct ig_frame_segment){s, 1, control, NULL};
    }
    return INGOT_OK;
}

/* ---- Construction ------------------------------------------------------------------------------------------------ */

static enum ingot_status make_step(struct ig_frame_env *env, struct ig_frame *frame, struct ig_frame_step *step,
                                   struct ingot_error *error) {
    step->operands = ig_arena_alloc(env->memory, step->plan->n_operands * sizeof *step->operands);
    if (!step->operands) return no_memory(error);
    switch ((enum ig_plan_step_kind)step->plan->kind) {
    case IG_STEP_KERNEL: return make_kernel(env, frame, step, error);
    case IG_STEP_COPY: return make_copy(env, frame, step, error);
    case IG_STEP_IF: return make_if(env, frame, step, error);
    case IG_STEP_LOOP: return make_loop(env, frame, step, error);
    case IG_STEP_COLLECTIVE: return ig_frame_make_collective(env, frame, step, error);
    }
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: a step of unknown kind %u",
                  ig_frame_label(&env->file->plan, step->plan), step->plan->kind);
}

/* The record of step `s` that runs at these sizes. */
static enum ingot_status choose_step(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t s,
                                     const struct ig_plan_step **out_step, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_plan_step *step = &plan->steps[frame->sub->steps + s];
    const bool has_choice = step->n_alternatives > 0 && step->kind != IG_STEP_COLLECTIVE;
    int64_t choice = has_choice ? env->slots[step->choice] : 0;
    if (choice < 0 || choice > step->n_alternatives) {
        char symbols[IG_SHAPE_DESCRIPTION_SIZE];
        return IG_ERR(error, INGOT_BAD_ENGINE, "%s: kernel %lld of %u would run with %s", ig_frame_label(plan, step),
                      (long long)choice, step->n_alternatives + 1,
                      ig_shape_describe(plan, env->slots, symbols, sizeof symbols));
    }
    *out_step = choice ? &plan->steps[step->alternatives + choice - 1] : step;
    return INGOT_OK;
}

/* A collective and its kernel have operands of the same sizes, so that of the kernel is checked too. */
static enum ingot_status make_chosen(struct ig_frame_env *env, struct ig_frame *frame, uint32_t s,
                                     struct ingot_error *error) {
    struct ig_frame_step *step = &frame->steps[s];
    IG_TRY(choose_step(env, frame, s, &step->plan, error));
    step->level = s;
    IG_TRY(make_step(env, frame, step, error));
    if (step->plan->kind != IG_STEP_COLLECTIVE || step->plan->n_alternatives == 0) return INGOT_OK;
    uint32_t choice;
    IG_TRY(ig_frame_choose_exchange(env, step, &choice, error));
    if (choice == 0) return INGOT_OK;
    step->plan = &env->file->plan.steps[step->plan->alternatives + choice - 1];
    step->does_next = choice > 1;
    return make_step(env, frame, step, error);
}

/* Leaves out the steps that the ones before them do, once they have had their say about memory. */
static void leave_out(struct ig_frame *frame) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < frame->n_steps; s++) {
        if (s == 0 || !frame->steps[s - 1].does_next) frame->steps[count++] = frame->steps[s];
    }
    frame->n_steps = count;
}

enum ingot_status ig_frame_create(struct ig_frame_env *env, uint32_t index, struct ig_frame **out_frame,
                                  struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    if (index >= plan->n_subplans || env->seen[index])
        return IG_ERR(error, INGOT_BAD_ENGINE, "plan %u is missing or the body of two steps", index);
    env->seen[index] = 1; /* so that nesting ends */
    struct ig_frame *frame = ig_arena_alloc(env->memory, sizeof *frame);
    if (!frame) return no_memory(error);
    *out_frame = frame; /* even if construction fails: the parent destroys it */
    frame->sub = &plan->subplans[index];
    frame->failed_check = ig_shape_failed_check(plan, frame->sub, env->slots);
    if (index == 0 && frame->failed_check) return ig_shape_refuse(plan, frame->failed_check, env->slots, error);
    IG_TRY(ig_frame_size_buffers(env, frame, error));
    frame->n_steps = frame->sub->n_steps;
    frame->steps = ig_arena_alloc(env->memory, frame->n_steps * sizeof *frame->steps);
    if (!frame->steps) return no_memory(error);
    for (uint32_t s = 0; s < frame->n_steps; s++) {
        IG_TRY(make_chosen(env, frame, s, error));
    }
    IG_TRY(ig_frame_plan_memory(env, frame, error));
    leave_out(frame);
    IG_TRY(find_segments(env, frame, error));
    if (index == 0) {
        uint32_t n_ports = frame->sub->n_inputs + frame->sub->n_outputs;
        frame->copies.at = ig_arena_alloc(env->memory, (n_ports + 1) * sizeof *frame->copies.at);
        if (!frame->copies.at) return no_memory(error);
        IG_TRY(ig_branches_apply(env, frame, error));
    }
    return find_uses(env, frame, error);
}

void ig_frame_destroy(struct ig_frame *frame, struct ig_device *device) {
    if (!frame) return;
    for (uint32_t s = 0; frame->steps && s < frame->n_steps; s++) {
        ig_frame_destroy(frame->steps[s].body[0], device);
        ig_frame_destroy(frame->steps[s].body[1], device);
    }
    for (uint32_t i = 0; i < frame->n_segments; i++)
        device->api->list_destroy(device, frame->segments[i].list);
}
