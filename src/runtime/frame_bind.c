/* The addresses of a frame, and its captured lists, which must agree with them; see frame.h. */
#include "runtime/frame.h"

uint32_t ig_frame_port_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b) {
    const struct ig_plan_buffer *root = &env->file->plan.buffers[frame->sub->buffers + frame->root[b]];
    if (root->kind == IG_PLAN_INPUT) return root->index;
    if (root->kind == IG_PLAN_OUTPUT) return frame->sub->n_inputs + root->index;
    return IG_PLAN_NONE;
}

/* ---- Addresses ---------------------------------------------------------------------------------------------------------- */

static void set_operand(struct ig_device *device, struct ig_frame_step *step, uint32_t k, void *address) {
    if (step->operands[k] == address) return;
    step->operands[k] = address;
    if (step->list) device->api->list_patch(device, step->list, step->item, k, address);
}

void ig_frame_bind(struct ig_device *device, struct ig_frame *frame, struct ig_frame_port *port, void *address) {
    if (port->address == address) return;
    port->address = address;
    for (uint32_t i = 0; i < port->n_uses; i++) {
        const struct ig_frame_use *use = &frame->uses[port->uses + i];
        set_operand(device, &frame->steps[use->step], use->operand, (char *)address + use->offset);
    }
}

/* Of buffers that are no ports: those belong to ig_frame_bind. */
static void *address_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b) {
    uint32_t root = frame->root[b];
    const struct ig_plan_buffer *buffer = &env->file->plan.buffers[frame->sub->buffers + root];
    if (buffer->kind == IG_PLAN_WEIGHT) {
        uintptr_t weights = (uintptr_t)env->weights;
        return frame->bytes[b] ? (void *)(weights + 64 * (size_t)buffer->index + frame->offset[b]) : env->dummy;
    }
    return frame->base + frame->place[root] + frame->offset[b];
}

void ig_frame_place(const struct ig_frame_env *env, struct ig_frame *frame, char *base) {
    const struct ig_plan *plan = &env->file->plan;
    frame->base = base;
    IG_EACH_OPERAND(plan, frame, s, k, b) {
        if (ig_frame_port_of(env, frame, b) == IG_PLAN_NONE)
            set_operand(env->device, &frame->steps[s], k, address_of(env, frame, b));
    }
    for (uint32_t s = 0; s < frame->sub->n_steps; s++) {
        struct ig_frame_step *step = &frame->steps[s];
        size_t skip = step->work;
        if (step->plan->kind == IG_STEP_LOOP) skip += step->work_bytes - step->body[0]->arena_bytes;
        for (int i = 0; i < 2; i++) {
            if (step->body[i]) ig_frame_place(env, step->body[i], base + skip);
        }
        for (uint32_t k = 0; step->plan->kind == IG_STEP_KERNEL && k < step->plan->n_operands; k++) {
            if (ig_plan_operand(plan, step->plan, k) == IG_PLAN_NONE) set_operand(env->device, step, k, env->dummy);
        }
    }
}

/* ---- Bodies of control flow -------------------------------------------------------------------------------------------- */

void ig_frame_bind_branch(struct ig_device *device, struct ig_frame_step *step, int branch) {
    struct ig_frame *body = step->body[branch];
    void **captures = step->operands + 1, **results = captures + step->plan->n_inputs;
    for (uint32_t i = 0; i < body->sub->n_inputs; i++)
        ig_frame_bind(device, body, &body->inputs[i], captures[i]);
    for (uint32_t i = 0; i < body->sub->n_outputs; i++)
        ig_frame_bind(device, body, &body->outputs[i], results[i]);
}

/* It starts as the initial value, then alternates between the final buffer and the second one in the work space. */
void *ig_frame_carried(const struct ig_frame *outer, const struct ig_frame_step *step, uint32_t i, int64_t n) {
    void **initial = step->operands + 2, ** final = initial + step->plan->n_carried + step->plan->n_inputs;
    if (n == 0) return initial[i];
    return n % 2 ? final[i] : outer->base + step->work + step->carried[i];
}

void ig_frame_bind_iteration(struct ig_device *device, const struct ig_frame *outer, struct ig_frame_step *step,
                             int64_t iteration) {
    struct ig_frame *body = step->body[0];
    uint32_t carried = step->plan->n_carried, captured = step->plan->n_inputs;
    void **captures = step->operands + 2 + carried, **scanned = captures + captured + carried;
    char *work = outer->base + step->work;
    ig_frame_bind(device, body, &body->inputs[0], work + IG_LOOP_ITERATION);
    ig_frame_bind(device, body, &body->inputs[1], work + IG_LOOP_CONDITION_IN);
    ig_frame_bind(device, body, &body->outputs[0], work + IG_LOOP_CONDITION_OUT);
    for (uint32_t i = 0; i < carried; i++) {
        ig_frame_bind(device, body, &body->inputs[2 + i], ig_frame_carried(outer, step, i, iteration));
        ig_frame_bind(device, body, &body->outputs[1 + i], ig_frame_carried(outer, step, i, iteration + 1));
    }
    for (uint32_t i = 0; i < captured; i++)
        ig_frame_bind(device, body, &body->inputs[2 + carried + i], captures[i]);
    for (uint32_t i = 1 + carried; i < body->sub->n_outputs; i++) {
        struct ig_frame_port *slice = &body->outputs[i];
        ig_frame_bind(device, body, slice, (char *)scanned[i - 1 - carried] + (size_t)iteration * slice->bytes);
    }
}

/* ---- Capture --------------------------------------------------------------------------------------------------------------- */

static enum ingot_status record(const struct ig_frame_env *env, struct ig_frame_step *steps, uint32_t count,
                                struct ingot_error *error) {
    const struct ig_device_api *api = env->device->api;
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].after && api->list_after)
            IG_TRY(api->list_after(env->device, env->stream, steps[i].after, steps[i].n_after, error));
        if (steps[i].plan->kind == IG_STEP_KERNEL)
            IG_TRY(api->launch(env->device, env->stream, &steps[i].launch, error));
        else
            IG_TRY(api->copy(env->device, env->stream, steps[i].operands[1], steps[i].operands[0], steps[i].copy_bytes,
                             error));
    }
    return INGOT_OK;
}

static enum ingot_status capture_segment(const struct ig_frame_env *env, struct ig_frame *frame,
                                         struct ig_frame_segment *segment, struct ingot_error *error) {
    const struct ig_device_api *api = env->device->api;
    struct ig_frame_step *steps = frame->steps + segment->first;
    struct ig_list *list = NULL;
    IG_TRY(api->list_begin(env->device, env->stream, error));
    enum ingot_status status = record(env, steps, segment->count, error);
    /* The recording must end in any case. */
    struct ingot_error ignored;
    enum ingot_status end = api->list_end(env->device, env->stream, &list, status ? &ignored : error);
    if (status != INGOT_OK || end != INGOT_OK) {
        if (end == INGOT_OK) api->list_destroy(env->device, list);
        return status != INGOT_OK ? status : end;
    }
    segment->list = list;
    for (uint32_t i = 0; i < segment->count; i++) {
        steps[i].list = list;
        steps[i].item = i;
    }
    return INGOT_OK;
}

/* Is there memory for what the first iteration stacks? A loop that has none ends before it. */
static bool has_room(const struct ig_plan *plan, const struct ig_frame *outer, const struct ig_frame_step *step) {
    const struct ig_frame *body = step->body[0];
    uint32_t n_scanned = body->sub->n_outputs - 1 - step->plan->n_carried;
    for (uint32_t k = 0; k < n_scanned; k++) {
        uint32_t buffer = ig_plan_operand(plan, step->plan, step->plan->n_operands - n_scanned + k);
        if (outer->bytes[buffer] < body->outputs[1 + step->plan->n_carried + k].bytes) return false;
    }
    return true;
}

/* Bodies are captured with the addresses of their first run. */
static enum ingot_status capture_bodies(const struct ig_frame_env *env, struct ig_frame *frame,
                                        struct ig_frame_step *step, struct ingot_error *error) {
    if (step->plan->kind == IG_STEP_LOOP) {
        if (!has_room(&env->file->plan, frame, step)) return INGOT_OK;
        ig_frame_bind_iteration(env->device, frame, step, 0);
        return ig_frame_capture(env, step->body[0], error);
    }
    for (int branch = 0; branch < 2; branch++) {
        ig_frame_bind_branch(env->device, step, branch);
        IG_TRY(ig_frame_capture(env, step->body[branch], error));
    }
    return INGOT_OK;
}

enum ingot_status ig_frame_capture(const struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error) {
    for (uint32_t i = 0; i < frame->n_segments; i++) {
        struct ig_frame_segment *segment = &frame->segments[i];
        if (segment->control)
            IG_TRY(capture_bodies(env, frame, &frame->steps[segment->first], error));
        else if (!segment->list)
            IG_TRY(capture_segment(env, frame, segment, error));
    }
    return INGOT_OK;
}

size_t ig_frame_list_bytes(const struct ig_frame *frame, const struct ig_device *device) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &frame->segments[i];
        if (segment->list) bytes += device->api->list_bytes(device, segment->list);
        for (int b = 0; segment->control && b < 2; b++) {
            const struct ig_frame *body = frame->steps[segment->first].body[b];
            if (body) bytes += ig_frame_list_bytes(body, device);
        }
    }
    return bytes;
}
