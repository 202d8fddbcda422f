/*
 * The buffers of a frame: sizes for these shapes, aliasing, lifetimes, and arena offsets. Sizes are checked against
 * each other here, once, so that runs need no checks.
 */
#include "base/window.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/memory_plan.h"
#include "runtime/frame/shape.h"

static enum ingot_status no_memory(struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
}

static const struct ig_plan_buffer *buffer_at(const struct ig_frame_env *env, const struct ig_frame *frame,
                                              uint32_t b) {
    return &env->file->plan.buffers[frame->sub->buffers + b];
}

const char *ig_frame_label(const struct ig_plan *plan, const struct ig_plan_step *step) {
    return step ? ig_plan_text(plan, step->label) : "the plan";
}

enum ingot_status ig_frame_size(const struct ig_frame_env *env, const struct ig_plan_step *step, ig_slot slot,
                                const char *what, size_t *out_size, struct ingot_error *error) {
    int64_t value = env->slots[slot];
    if (value < 0) {
        char symbols[IG_SHAPE_DESCRIPTION_SIZE];
        const struct ig_plan *plan = &env->file->plan;
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s: %s would be %lld with %s", ig_frame_label(plan, step), what,
                      (long long)value, ig_shape_describe(plan, env->slots, symbols, sizeof symbols));
    }
    *out_size = (size_t)value;
    return INGOT_OK;
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* The first step that uses buffer b, to name it in messages. */
static const struct ig_plan_step *step_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b) {
    const struct ig_plan *plan = &env->file->plan;
    for (uint32_t s = 0; s < frame->sub->n_steps; s++) {
        const struct ig_plan_step *step = &plan->steps[frame->sub->steps + s];
        for (uint32_t k = 0; k < step->n_operands; k++) {
            if (plan->operands[step->operands + k] == b) return step;
        }
    }
    return NULL;
}

/* Like ig_frame_size, for buffer b; searches for the step to name only on failure. */
static enum ingot_status size_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b, ig_slot slot,
                                 const char *what, size_t *out_size, struct ingot_error *error) {
    const struct ig_plan_step *step = env->slots[slot] < 0 ? step_of(env, frame, b) : NULL;
    return ig_frame_size(env, step, slot, what, out_size, error);
}

static enum ingot_status bad_plan(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b,
                                  const char *what, struct ingot_error *error) {
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: buffer %u %s", ig_frame_label(&env->file->plan, step_of(env, frame, b)),
                  b, what);
}

static enum ingot_status size_ports(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_subplan *sub = frame->sub;
    frame->ports = ig_arena_alloc(env->memory, ((size_t)sub->n_inputs + sub->n_outputs) * sizeof *frame->ports);
    if (!frame->ports) return no_memory(error);
    frame->inputs = frame->ports;
    frame->outputs = frame->ports + sub->n_inputs;
    for (uint32_t i = 0; i < sub->n_inputs; i++)
        IG_TRY(
            ig_shape_tensor_bytes(plan, &plan->tensors[sub->inputs + i], env->slots, &frame->inputs[i].bytes, error));
    for (uint32_t i = 0; i < sub->n_outputs; i++)
        IG_TRY(
            ig_shape_tensor_bytes(plan, &plan->tensors[sub->outputs + i], env->slots, &frame->outputs[i].bytes, error));
    return INGOT_OK;
}

static enum ingot_status check_size(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b,
                                    struct ingot_error *error) {
    const struct ig_plan_buffer *buffer = buffer_at(env, frame, b);
    size_t bytes = frame->bytes[b], weights = env->file->weights_size;
    bool fits = true;
    switch ((enum ig_plan_buffer_kind)buffer->kind) {
    case IG_PLAN_INPUT:
        fits = buffer->index < frame->sub->n_inputs && bytes <= frame->inputs[buffer->index].bytes;
        break;
    case IG_PLAN_OUTPUT:
        fits = buffer->index < frame->sub->n_outputs && bytes <= frame->outputs[buffer->index].bytes;
        break;
    case IG_PLAN_WEIGHT: fits = buffer->index <= weights / 64 && bytes <= weights - 64 * (size_t)buffer->index; break;
    case IG_PLAN_SEAT: fits = bytes <= sizeof(struct ig_window_seat); break;
    case IG_PLAN_ARENA:
    case IG_PLAN_ALIAS: break;
    }
    return fits ? INGOT_OK : bad_plan(env, frame, b, "is larger than the memory it is in", error);
}

/* Finds the buffer whose memory b uses: b itself or, of an alias, the root of the aliased buffer, which precedes it. */
static enum ingot_status find_root(const struct ig_frame_env *env, struct ig_frame *frame, uint32_t b,
                                   struct ingot_error *error) {
    const struct ig_plan_buffer *buffer = buffer_at(env, frame, b);
    uint32_t root = b;
    size_t offset = 0;
    if (buffer->kind == IG_PLAN_ALIAS) {
        if (buffer->offset != IG_PLAN_NONE)
            IG_TRY(size_of(env, frame, b, buffer->offset, "the offset of a part", &offset, error));
        if (buffer->index >= b || !ig_size_add(offset, frame->offset[buffer->index], &offset))
            return bad_plan(env, frame, b, "is an alias of nothing", error);
        root = frame->root[buffer->index];
    }
    if (offset > frame->bytes[root] || frame->bytes[b] > frame->bytes[root] - offset)
        return bad_plan(env, frame, b, "is larger than the memory it is a part of", error);
    frame->root[b] = root;
    frame->offset[b] = offset;
    return INGOT_OK;
}

enum ingot_status ig_frame_size_buffers(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    uint32_t n = frame->sub->n_buffers;
    frame->bytes = ig_arena_alloc(env->memory, n * sizeof *frame->bytes);
    frame->root = ig_arena_alloc(env->memory, n * sizeof *frame->root);
    frame->offset = ig_arena_alloc(env->memory, n * sizeof *frame->offset);
    frame->place = ig_arena_alloc(env->memory, n * sizeof *frame->place);
    if (!frame->bytes || !frame->root || !frame->offset || !frame->place) return no_memory(error);
    IG_TRY(size_ports(env, frame, error));
    for (uint32_t b = 0; b < n; b++) {
        const struct ig_plan_buffer *buffer = buffer_at(env, frame, b);
        IG_TRY(size_of(env, frame, b, buffer->bytes, "the bytes of an operand", &frame->bytes[b], error));
        IG_TRY(check_size(env, frame, b, error));
    }
    for (uint32_t b = 0; b < n; b++)
        IG_TRY(find_root(env, frame, b, error));
    return INGOT_OK;
}

/* ---- Lifetimes --------------------------------------------------------------------------------------------------- */

static void extend(struct ig_lifetime *life, uint32_t step) {
    if (step < life->first) life->first = step;
    if (step > life->last || life->last == UINT32_MAX) life->last = step;
}

/* Runs before the steps are reordered. A root lives from the first to the last step that uses it or an alias of it,
 * and at least over the range that the plan states. */
static void find_lifetimes(const struct ig_frame_env *env, const struct ig_frame *frame, struct ig_lifetime *lives) {
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_subplan *sub = frame->sub;
    for (uint32_t b = 0; b < sub->n_buffers; b++)
        lives[b].first = lives[b].last = UINT32_MAX;
    for (uint32_t s = 0; s < sub->n_steps; s++) {
        const struct ig_plan_step *step = frame->steps[s].plan;
        for (uint32_t k = 0; k < step->n_operands; k++) {
            uint32_t b = plan->operands[step->operands + k];
            if (b != IG_PLAN_NONE) extend(&lives[frame->root[b]], frame->steps[s].level);
        }
    }
    for (uint32_t b = 0; b < sub->n_buffers; b++) {
        const struct ig_plan_buffer *buffer = buffer_at(env, frame, b);
        struct ig_lifetime *life = &lives[b];
        if (buffer->kind != IG_PLAN_ARENA || life->last == UINT32_MAX) continue;
        if (buffer->first < sub->n_steps) extend(life, frame->steps[buffer->first].level);
        if (buffer->last < sub->n_steps) extend(life, frame->steps[buffer->last].level);
        life->size = life->floor = frame->bytes[b];
    }
}

/* Collects what needs memory in the arena (buffers, then the work spaces of control flow) and plans it. */
static enum ingot_status plan_lifetimes(struct ig_frame_env *env, struct ig_frame *frame, struct ig_lifetime *lives,
                                        size_t *offsets, size_t **owners, struct ingot_error *error) {
    find_lifetimes(env, frame, lives);
    uint32_t n = 0;
    for (uint32_t b = 0; b < frame->sub->n_buffers; b++) {
        bool in_arena = buffer_at(env, frame, b)->kind == IG_PLAN_ARENA && lives[b].last != UINT32_MAX;
        if (!in_arena) continue;
        owners[n] = &frame->place[b];
        lives[n++] = lives[b];
    }
    for (uint32_t s = 0; s < frame->n_steps; s++) {
        struct ig_frame_step *step = &frame->steps[s];
        if (step->work_bytes == 0) continue;
        owners[n] = &step->work;
        lives[n++] = (struct ig_lifetime){step->work_bytes, step->work_floor, step->level, step->level};
    }
    IG_TRY(ig_memory_plan(lives, n, env->allocator, offsets, &frame->arena_bytes, &frame->lower_bound, error));
    for (uint32_t i = 0; i < n; i++)
        *owners[i] = offsets[i];
    return INGOT_OK;
}

enum ingot_status ig_frame_plan_memory(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    size_t n = (size_t)frame->sub->n_buffers + frame->n_steps;
    size_t each = sizeof(struct ig_lifetime) + sizeof(size_t) + sizeof(size_t *);
    if (n == 0) return INGOT_OK;
    struct ig_lifetime *lives = ig_allocate(env->allocator, n * each, _Alignof(struct ig_lifetime));
    if (!lives) return no_memory(error);
    size_t *offsets = (size_t *)(lives + n);
    enum ingot_status status = plan_lifetimes(env, frame, lives, offsets, (size_t **)(offsets + n), error);
    ig_release(env->allocator, lives, n * each);
    return status;
}
