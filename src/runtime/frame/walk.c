/* Runs a frame; see walk.h. Each segment is one list launch; the host reads the scalars of control flow. */
#include "runtime/frame/walk.h"

#include <string.h>

#include "runtime/frame/collective.h"
#include "runtime/frame/shape.h"

#define LINE 64

/* ---- Scalars of control flow ------------------------------------------------------------------------------------- */

static enum ingot_status read_scalar(struct ig_walk *walk, const void *address, void *out, size_t size,
                                     struct ingot_error *error) {
    const struct ig_device_api *api = walk->device->api;
    IG_TRY(api->copy(walk->device, walk->stream, walk->scalars, address, size, error));
    IG_TRY(api->stream_wait(walk->device, walk->stream, error));
    memcpy(out, walk->scalars, size);
    return INGOT_OK;
}

/* Reuses one pinned cell: the stream is waited for between two writes, since a loop reads its condition after every
 * iteration. */
static enum ingot_status write_scalar(struct ig_walk *walk, void *address, const void *value, size_t size,
                                      struct ingot_error *error) {
    char *pinned = (char *)walk->scalars + LINE;
    memcpy(pinned, value, size);
    return walk->device->api->copy(walk->device, walk->stream, address, pinned, size, error);
}

static enum ingot_status read_bool(struct ig_walk *walk, const void *address, bool *out, struct ingot_error *error) {
    unsigned char byte = 0;
    IG_TRY(read_scalar(walk, address, &byte, 1, error));
    *out = byte != 0;
    return INGOT_OK;
}

/* ---- IF ---------------------------------------------------------------------------------------------------------- */

static enum ingot_status run_if(struct ig_walk *walk, struct ig_frame_step *step, struct ingot_error *error) {
    bool condition;
    IG_TRY(read_bool(walk, step->operands[0], &condition, error));
    int branch = condition ? 0 : 1;
    ig_frame_bind_branch(walk->device, step, branch);
    return ig_frame_run(walk, step->body[branch], error);
}

/* ---- LOOP -------------------------------------------------------------------------------------------------------- */

/* State of a running loop. */
struct loop {
    struct ig_walk *walk;
    struct ig_frame *outer; /* the frame of the LOOP step */
    struct ig_frame_step *step;
    int64_t iteration, trip;
    bool go;
};

static uint32_t count_scanned(const struct loop *loop) {
    return loop->step->body[0]->sub->n_outputs - 1 - loop->step->plan->n_carried;
}

/* Bytes of one slice of scanned output k, and of the buffer that its slices are stacked in. */
static size_t slice_bytes(const struct loop *loop, uint32_t k) {
    return loop->step->body[0]->outputs[1 + loop->step->plan->n_carried + k].bytes;
}

static size_t stack_bytes(const struct loop *loop, uint32_t k) {
    const struct ig_plan_step *p = loop->step->plan;
    return loop->outer->bytes[ig_plan_operand(loop->walk->plan, p, p->n_operands - count_scanned(loop) + k)];
}

/* The shapes fix the size of stacked outputs, but the number of iterations is known only at run time. */
static enum ingot_status check_room(const struct loop *loop, struct ingot_error *error) {
    for (uint32_t k = 0; k < count_scanned(loop); k++) {
        size_t slice = slice_bytes(loop, k), room = stack_bytes(loop, k);
        if (slice != 0 && (uint64_t)loop->iteration >= room / slice)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "%s: the loop goes on after the %zu iterations that it has room for",
                          ig_frame_label(loop->walk->plan, loop->step->plan), room / slice);
    }
    return INGOT_OK;
}

static enum ingot_status check_filled(const struct loop *loop, struct ingot_error *error) {
    for (uint32_t k = 0; k < count_scanned(loop); k++) {
        size_t slice = slice_bytes(loop, k), room = stack_bytes(loop, k);
        if (slice != 0 && (uint64_t)loop->iteration * slice != room)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "%s: the loop ended after %lld iterations, but its stacked outputs are made for %zu",
                          ig_frame_label(loop->walk->plan, loop->step->plan), (long long)loop->iteration, room / slice);
    }
    return INGOT_OK;
}

static char *work_of(const struct loop *loop) {
    return loop->outer->base + loop->step->work;
}

static enum ingot_status begin_loop(struct loop *loop, struct ingot_error *error) {
    struct ig_walk *walk = loop->walk;
    void **operands = loop->step->operands;
    const bool yes = true;
    loop->trip = INT64_MAX;
    loop->go = true;
    if (operands[0]) IG_TRY(read_scalar(walk, operands[0], &loop->trip, sizeof loop->trip, error));
    if (operands[1]) IG_TRY(read_bool(walk, operands[1], &loop->go, error));
    IG_TRY(write_scalar(walk, work_of(loop) + IG_LOOP_CONDITION_IN, &yes, 1, error)); /* it runs only while true */
    return walk->device->api->stream_wait(walk->device, walk->stream, error);
}

static enum ingot_status iterate(struct loop *loop, struct ingot_error *error) {
    struct ig_walk *walk = loop->walk;
    IG_TRY(check_room(loop, error));
    IG_TRY(write_scalar(walk, work_of(loop) + IG_LOOP_ITERATION, &loop->iteration, sizeof loop->iteration, error));
    ig_frame_bind_iteration(walk->device, loop->outer, loop->step, loop->iteration);
    IG_TRY(ig_frame_run(walk, loop->step->body[0], error));
    IG_TRY(read_bool(walk, work_of(loop) + IG_LOOP_CONDITION_OUT, &loop->go, error));
    loop->iteration++;
    return INGOT_OK;
}

/* A carried value is in its final buffer after one iteration and then alternates; one that ended elsewhere is copied
 * there. */
static enum ingot_status end_loop(struct loop *loop, struct ingot_error *error) {
    struct ig_device *device = loop->walk->device;
    for (uint32_t i = 0; i < loop->step->plan->n_carried; i++) {
        void *last = ig_frame_carried(loop->outer, loop->step, i, loop->iteration);
        void *final = ig_frame_carried(loop->outer, loop->step, i, 1);
        size_t bytes = loop->step->body[0]->outputs[1 + i].bytes;
        if (last != final) IG_TRY(device->api->copy(device, loop->walk->stream, final, last, bytes, error));
    }
    return INGOT_OK;
}

static enum ingot_status run_loop(struct ig_walk *walk, struct ig_frame *outer, struct ig_frame_step *step,
                                  struct ingot_error *error) {
    struct loop loop = {.walk = walk, .outer = outer, .step = step};
    IG_TRY(begin_loop(&loop, error));
    while (loop.go && loop.iteration < loop.trip)
        IG_TRY(iterate(&loop, error));
    IG_TRY(check_filled(&loop, error));
    return end_loop(&loop, error);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static enum ingot_status run_control(struct ig_walk *walk, struct ig_frame *frame, struct ig_frame_step *step,
                                     struct ingot_error *error) {
    if (step->launches > 0) return ig_frame_launch_split(walk->device, walk->stream, step, error);
    if (step->plan->kind == IG_STEP_COLLECTIVE)
        return ig_frame_enqueue_collective(walk->device, walk->stream, step, error);
    return step->plan->kind == IG_STEP_IF ? run_if(walk, step, error) : run_loop(walk, frame, step, error);
}

static enum ingot_status submit(struct ig_walk *walk, const struct ig_frame_step *step, struct ingot_error *error) {
    return ig_frame_submit(walk->device, walk->stream, step, error);
}

static void count_time(struct ig_walk *walk, const struct ig_frame_step *step, uint64_t nanoseconds) {
    struct ig_step_time *time = &walk->times[step->plan - walk->plan->steps];
    if (time->calls == 0 || nanoseconds < time->shortest) time->shortest = nanoseconds;
    time->calls++;
    time->nanoseconds += nanoseconds;
    walk->total += nanoseconds;
}

/* Measures by the host's clock. A step of control flow counts its own time, without its inner steps. */
static enum ingot_status time_by_host(struct ig_walk *walk, struct ig_frame *frame, struct ig_frame_step *step,
                                      bool control, struct ingot_error *error) {
    uint64_t begin = ig_clock(), before = walk->total;
    IG_TRY(control ? run_control(walk, frame, step, error) : submit(walk, step, error));
    IG_TRY(walk->device->api->stream_wait(walk->device, walk->stream, error));
    uint64_t taken = ig_clock() - begin, within = walk->total - before;
    count_time(walk, step, taken > within ? taken - within : 0);
    return INGOT_OK;
}

/* Measures by the device's clock: events between the steps, so that the device need not wait for the host. */
static enum ingot_status time_by_device(struct ig_walk *walk, const struct ig_frame_step *steps, uint32_t count,
                                        struct ingot_error *error) {
    struct ig_device *device = walk->device;
    for (uint32_t s = 0; s < count; s++) {
        IG_TRY(device->api->event_record(device, walk->stream, walk->marks[s], error));
        IG_TRY(submit(walk, &steps[s], error));
    }
    IG_TRY(device->api->event_record(device, walk->stream, walk->marks[count], error));
    IG_TRY(device->api->stream_wait(device, walk->stream, error));
    for (uint32_t s = 0; s < count; s++) {
        uint64_t taken;
        IG_TRY(device->api->event_elapsed(device, walk->marks[s], walk->marks[s + 1], &taken, error));
        count_time(walk, &steps[s], taken);
    }
    return INGOT_OK;
}

static enum ingot_status run_timed(struct ig_walk *walk, struct ig_frame *frame, const struct ig_frame_segment *segment,
                                   struct ingot_error *error) {
    struct ig_frame_step *steps = frame->steps + segment->first;
    if (walk->marks && !segment->control) return time_by_device(walk, steps, segment->count, error);
    for (uint32_t s = 0; s < segment->count; s++)
        IG_TRY(time_by_host(walk, frame, &steps[s], segment->control, error));
    return INGOT_OK;
}

enum ingot_status ig_frame_run(struct ig_walk *walk, struct ig_frame *frame, struct ingot_error *error) {
    if (frame->failed_check) return ig_shape_refuse(walk->plan, frame->failed_check, walk->slots, error);
    for (uint32_t i = 0; i < frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &frame->segments[i];
        if (ig_stop_asked(walk->stop)) return IG_ERR(error, INGOT_CANCELLED, "the run was stopped");
        if (walk->times)
            IG_TRY(run_timed(walk, frame, segment, error));
        else if (segment->control)
            IG_TRY(run_control(walk, frame, frame->steps + segment->first, error));
        else
            IG_TRY(walk->device->api->list_launch(walk->device, walk->stream, segment->list, error));
    }
    return INGOT_OK;
}
