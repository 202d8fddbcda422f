/* The addresses of a frame, and its captured lists, which are kept consistent with them; see frame.h. */
#include "runtime/frame/collective.h"
#include "runtime/frame/frame.h"

uint32_t ig_frame_port_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b) {
    const struct ig_plan_buffer *root = &env->file->plan.buffers[frame->sub->buffers + frame->root[b]];
    if (root->kind == IG_PLAN_INPUT) return root->index;
    if (root->kind == IG_PLAN_OUTPUT) return frame->sub->n_inputs + root->index;
    return IG_PLAN_NONE;
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

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

/* The address of a buffer that is not a port; ig_frame_bind sets those of ports. Empty buffers have none of their own:
 * they may be placed behind the last byte of the arena. */
static void *address_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b) {
    uint32_t root = frame->root[b];
    const struct ig_plan_buffer *buffer = &env->file->plan.buffers[frame->sub->buffers + root];
    if (frame->bytes[b] == 0) return env->dummy;
    if (buffer->kind == IG_PLAN_WEIGHT)
        return (char *)ig_weight_address(env->weights, 64 * (uint64_t)buffer->index) + frame->offset[b];
    if (buffer->kind == IG_PLAN_SEAT) return env->group ? ig_group_seat(env->group) : env->dummy;
    return frame->base + frame->place[root] + frame->offset[b];
}

void ig_frame_place(const struct ig_frame_env *env, struct ig_frame *frame, char *base) {
    const struct ig_plan *plan = &env->file->plan;
    frame->base = base;
    frame->weights = env->weights->number;
    IG_EACH_OPERAND(plan, frame, s, k, b) {
        if (ig_frame_port_of(env, frame, b) == IG_PLAN_NONE)
            set_operand(env->device, &frame->steps[s], k, address_of(env, frame, b));
    }
    for (uint32_t s = 0; s < frame->n_steps; s++) {
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

/* ---- Bodies of control flow -------------------------------------------------------------------------------------- */

void ig_frame_bind_branch(struct ig_device *device, struct ig_frame_step *step, int branch) {
    struct ig_frame *body = step->body[branch];
    void **captures = step->operands + 1, **results = captures + step->plan->n_inputs;
    for (uint32_t i = 0; i < body->sub->n_inputs; i++)
        ig_frame_bind(device, body, &body->inputs[i], captures[i]);
    for (uint32_t i = 0; i < body->sub->n_outputs; i++)
        ig_frame_bind(device, body, &body->outputs[i], results[i]);
}

/* The initial value, then alternately the final buffer and the second buffer in the work space. */
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

enum ingot_status ig_frame_submit(struct ig_device *device, struct ig_stream *stream, const struct ig_frame_step *step,
                                  struct ingot_error *error) {
    if (step->plan->kind == IG_STEP_KERNEL) return device->api->launch(device, stream, &step->launch, error);
    if (step->plan->kind == IG_STEP_COLLECTIVE) return ig_frame_submit_collective(device, stream, step, error);
    return device->api->copy(device, stream, step->operands[1], step->operands[0], step->copy_bytes, error);
}

/* ---- Capture ----------------------------------------------------------------------------------------------------- */

/* A list during capture. */
struct recording {
    const struct ig_frame_env *env;
    const struct ig_device_api *api;
    const struct ig_frame_copies *copies; /* NULL: none */
    struct ig_frame_step *steps;
    uint32_t count;
    uint32_t *items; /* room for item numbers, then a flag per step; NULL: items are ordered as recorded */
};

static enum ingot_status record_copy(const struct recording *r, uint32_t i, struct ingot_error *error) {
    const struct ig_frame_copy *copy = &r->copies->at[i];
    return r->api->copy(r->env->device, r->env->stream, copy->to, copy->from, copy->bytes, error);
}

/* Steps without predecessors follow the copies before the steps; the others then do so transitively. */
static enum ingot_status order_step(const struct recording *r, const struct ig_frame_step *step,
                                    struct ingot_error *error) {
    uint32_t n_before = r->copies ? r->copies->n_before : 0, n = 0;
    if (!r->items) return INGOT_OK;
    for (uint32_t i = 0; i < step->n_after; i++)
        r->items[n++] = n_before + step->after[i];
    for (uint32_t i = 0; step->n_after == 0 && i < n_before; i++)
        r->items[n++] = i;
    return r->api->list_after(r->env->device, r->env->stream, r->items, n, error);
}

/* The copies behind the steps follow the steps that have no successor. */
static enum ingot_status record_behind(const struct recording *r, struct ingot_error *error) {
    uint32_t n_before = r->copies->n_before, n = 0;
    uint32_t *followed = r->items ? r->items + n_before + r->count : NULL;
    for (uint32_t i = 0; r->items && i < r->count; i++) {
        for (uint32_t k = 0; k < r->steps[i].n_after; k++)
            followed[r->steps[i].after[k]] = 1;
    }
    for (uint32_t i = 0; r->items && i < r->count; i++) {
        if (!followed[i]) r->items[n++] = n_before + i;
    }
    for (uint32_t i = 0; i < r->copies->n_behind; i++) {
        if (r->items) IG_TRY(r->api->list_after(r->env->device, r->env->stream, r->items, n, error));
        IG_TRY(record_copy(r, n_before + i, error));
    }
    return INGOT_OK;
}

static enum ingot_status record(const struct recording *r, struct ingot_error *error) {
    struct ig_device *device = r->env->device;
    for (uint32_t i = 0; r->copies && i < r->copies->n_before; i++) {
        if (r->items) IG_TRY(r->api->list_after(device, r->env->stream, NULL, 0, error));
        IG_TRY(record_copy(r, i, error));
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct ig_frame_step *step = &r->steps[i];
        IG_TRY(order_step(r, step, error));
        IG_TRY(ig_frame_submit(device, r->env->stream, step, error));
    }
    return r->copies ? record_behind(r, error) : INGOT_OK;
}

static enum ingot_status record_list(const struct recording *r, struct ig_list **out_list, struct ingot_error *error) {
    struct ig_device *device = r->env->device;
    struct ig_list *list = NULL;
    IG_TRY(r->api->list_begin(device, r->env->stream, error));
    enum ingot_status status = record(r, error);
    /* Ends the capture in any case. */
    struct ingot_error ignored;
    enum ingot_status end = r->api->list_end(device, r->env->stream, &list, status ? &ignored : error);
    if (status == INGOT_OK && end == INGOT_OK) {
        *out_list = list;
        return INGOT_OK;
    }
    if (end == INGOT_OK) r->api->list_destroy(device, list);
    return status != INGOT_OK ? status : end;
}

static enum ingot_status capture_segment(const struct ig_frame_env *env, struct ig_frame *frame,
                                         struct ig_frame_segment *segment, struct ingot_error *error) {
    struct recording r = {.env = env,
                          .api = env->device->api,
                          .copies = ig_frame_takes_copies(frame) ? &frame->copies : NULL,
                          .steps = frame->steps + segment->first,
                          .count = segment->count};
    uint32_t n_before = r.copies ? r.copies->n_before : 0;
    size_t bytes = (2 * (size_t)segment->count + n_before) * sizeof *r.items;
    if (r.steps->after && r.api->list_after) {
        r.items = ig_allocate(env->allocator, bytes, _Alignof(uint32_t));
        if (!r.items) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list of launches");
    }
    enum ingot_status status = record_list(&r, &segment->list, error);
    ig_release(env->allocator, r.items, bytes);
    for (uint32_t i = 0; status == INGOT_OK && i < segment->count; i++) {
        r.steps[i].list = segment->list;
        r.steps[i].item = n_before + i;
    }
    for (uint32_t i = 0; status == INGOT_OK && r.copies && i < r.copies->n_ahead; i++)
        r.api->list_skip(env->device, segment->list, i, true);
    for (uint32_t i = 0; status == INGOT_OK && r.copies && i < r.copies->n_skipped; i++)
        r.api->list_skip(env->device, segment->list, n_before + segment->count + i, true);
    return status;
}

/* ---- Copies captured with the steps ------------------------------------------------------------------------------ */

bool ig_frame_is_straight(const struct ig_frame *frame) {
    return frame->n_segments == 1 && !frame->segments[0].control;
}

bool ig_frame_takes_copies(const struct ig_frame *frame) {
    return frame->copies.at && ig_frame_is_straight(frame);
}

static bool same_sizes(const struct ig_frame_copies *a, const struct ig_frame_copies *b) {
    if (a->n_before != b->n_before || a->n_behind != b->n_behind) return false;
    for (uint32_t i = 0; i < a->n_before + a->n_behind; i++) {
        if (a->at[i].bytes != b->at[i].bytes) return false;
    }
    return true;
}

static void forget_list(struct ig_frame *frame, struct ig_device *device) {
    struct ig_frame_segment *segment = &frame->segments[0];
    if (!segment->list) return;
    device->api->list_destroy(device, segment->list);
    segment->list = NULL;
    for (uint32_t i = 0; i < segment->count; i++)
        frame->steps[segment->first + i].list = NULL;
}

/* Makes the list skip the first `wanted` copies from item `first` on instead of the first `*skipped`. */
static void skip(struct ig_device *device, struct ig_list *list, uint32_t first, uint32_t *skipped, uint32_t wanted) {
    for (uint32_t i = *skipped; i < wanted; i++)
        device->api->list_skip(device, list, first + i, true);
    for (uint32_t i = wanted; i < *skipped; i++)
        device->api->list_skip(device, list, first + i, false);
    *skipped = wanted;
}

bool ig_frame_patch_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies) {
    const struct ig_frame_segment *segment = &frame->segments[0];
    if (!segment->list || !same_sizes(&frame->copies, copies)) return false;
    const uint32_t behind = copies->n_before + segment->count;
    skip(device, segment->list, 0, &frame->copies.n_ahead, copies->n_ahead);
    skip(device, segment->list, behind, &frame->copies.n_skipped, copies->n_skipped);
    for (uint32_t i = 0; i < copies->n_before + copies->n_behind; i++) {
        struct ig_frame_copy *old = &frame->copies.at[i];
        const struct ig_frame_copy *new = &copies->at[i];
        uint32_t item = i < copies->n_before ? i : i + segment->count;
        if (old->from != new->from)
            device->api->list_patch(device, segment->list, item, 0, (void *)(uintptr_t) new->from);
        if (old->to != new->to) device->api->list_patch(device, segment->list, item, 1, new->to);
        *old = *new;
    }
    return true;
}

void ig_frame_replace_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies) {
    forget_list(frame, device);
    for (uint32_t i = 0; i < copies->n_before + copies->n_behind; i++)
        frame->copies.at[i] = copies->at[i];
    frame->copies.n_before = copies->n_before;
    frame->copies.n_behind = copies->n_behind;
    frame->copies.n_ahead = copies->n_ahead;
    frame->copies.n_skipped = copies->n_skipped;
}

/* ---- Capture of whole frames ------------------------------------------------------------------------------------- */

/* Is there room to stack the first iteration's slices? Without it, the body never runs. */
static bool has_room(const struct ig_plan *plan, const struct ig_frame *outer, const struct ig_frame_step *step) {
    const struct ig_frame *body = step->body[0];
    uint32_t n_scanned = body->sub->n_outputs - 1 - step->plan->n_carried;
    for (uint32_t k = 0; k < n_scanned; k++) {
        uint32_t buffer = ig_plan_operand(plan, step->plan, step->plan->n_operands - n_scanned + k);
        if (outer->bytes[buffer] < body->outputs[1 + step->plan->n_carried + k].bytes) return false;
    }
    return true;
}

/* Binds the bodies to the addresses of their first run, since capture needs some. */
static enum ingot_status capture_bodies(const struct ig_frame_env *env, struct ig_frame *frame,
                                        struct ig_frame_step *step, struct ingot_error *error) {
    if (ig_frame_is_between_lists(env->device, step)) return INGOT_OK;
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

enum ingot_status ig_frame_make_ready(struct ig_device *device, struct ig_stream *stream, struct ig_frame *frame,
                                      struct ingot_error *error) {
    for (uint32_t i = 0; device->api->list_ready && i < frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &frame->segments[i];
        if (segment->list) IG_TRY(device->api->list_ready(device, stream, segment->list, error));
        for (int b = 0; segment->control && b < 2; b++) {
            struct ig_frame *body = frame->steps[segment->first].body[b];
            if (body) IG_TRY(ig_frame_make_ready(device, stream, body, error));
        }
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
