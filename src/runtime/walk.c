/* Running a frame; see walk.h. Straight stretches are one call each; control flow reads its scalars on the host. */
#define _GNU_SOURCE
#include "runtime/walk.h"

#include <time.h>

#include "runtime/shape.h"

/* ---- Scalars of control flow ---------------------------------------------------------------------------------------- */

static enum ingot_status read_scalar(struct ig_walk *walk, const void *address, void *out, size_t size,
                                     struct ingot_error *error) {
    const struct ig_device_api *api = walk->device->api;
    IG_TRY(api->copy(walk->device, walk->stream, out, address, size, error));
    return api->stream_wait(walk->device, walk->stream, error);
}

/* The stream must have done the copy before `value` goes out of scope; the read of a condition waits for it. */
static enum ingot_status write_scalar(struct ig_walk *walk, void *address, const void *value, size_t size,
                                      struct ingot_error *error) {
    return walk->device->api->copy(walk->device, walk->stream, address, value, size, error);
}

static enum ingot_status read_bool(struct ig_walk *walk, const void *address, bool *out, struct ingot_error *error) {
    unsigned char byte = 0;
    IG_TRY(read_scalar(walk, address, &byte, 1, error));
    *out = byte != 0;
    return INGOT_OK;
}

/* ---- IF --------------------------------------------------------------------------------------------------------------- */

static enum ingot_status run_if(struct ig_walk *walk, struct ig_frame_step *step, struct ingot_error *error) {
    bool condition;
    IG_TRY(read_bool(walk, step->operands[0], &condition, error));
    struct ig_frame *body = step->body[condition ? 0 : 1];
    void **captures = step->operands + 1, **results = captures + step->plan->n_inputs;
    for (uint32_t i = 0; i < body->sub->n_inputs; i++)
        ig_frame_bind(walk->device, body, &body->inputs[i], captures[i]);
    for (uint32_t i = 0; i < body->sub->n_outputs; i++)
        ig_frame_bind(walk->device, body, &body->outputs[i], results[i]);
    return ig_frame_run(walk, body, error);
}

/* ---- LOOP ------------------------------------------------------------------------------------------------------------- */

/* The operands of a LOOP by what they are, and where it stands. */
struct loop {
    struct ig_walk *walk;
    struct ig_frame_step *step;
    struct ig_frame *body;
    char *work;
    void **initial, **captures, **final, **scanned;
    uint32_t n_carried, n_scanned;
    int64_t iteration, trip;
    bool go;
};

/* Where carried value i is after `n` iterations: it starts as the initial value, then alternates between the final
 * buffer and the second one in the work space. */
static void *carried_after(const struct loop *loop, uint32_t i, int64_t n) {
    if (n == 0) return loop->initial[i];
    return n % 2 ? loop->final[i] : loop->work + loop->step->carried[i];
}

/* The bytes of scanned output k's buffer are fixed by the shapes, but how often a loop runs is known only now. */
static enum ingot_status bind_scanned(struct loop *loop, const struct ig_frame *outer, struct ingot_error *error) {
    const struct ig_plan *plan = loop->walk->plan;
    const struct ig_plan_step *p = loop->step->plan;
    for (uint32_t k = 0; k < loop->n_scanned; k++) {
        struct ig_frame_port *port = &loop->body->outputs[1 + loop->n_carried + k];
        uint32_t buffer = plan->operands[p->operands + p->n_operands - loop->n_scanned + k];
        size_t room = outer->bytes[buffer];
        if (port->bytes != 0 && (uint64_t)loop->iteration >= room / port->bytes)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "%s: the loop goes on after the %zu iterations that it has room for", ig_frame_label(plan, p),
                          room / port->bytes);
        ig_frame_bind(loop->walk->device, loop->body, port,
                      (char *)loop->scanned[k] + (size_t)loop->iteration * port->bytes);
    }
    return INGOT_OK;
}

static enum ingot_status check_scanned(const struct loop *loop, const struct ig_frame *outer,
                                       struct ingot_error *error) {
    const struct ig_plan *plan = loop->walk->plan;
    const struct ig_plan_step *p = loop->step->plan;
    for (uint32_t k = 0; k < loop->n_scanned; k++) {
        size_t slice = loop->body->outputs[1 + loop->n_carried + k].bytes;
        uint32_t buffer = plan->operands[p->operands + p->n_operands - loop->n_scanned + k];
        if (slice != 0 && (uint64_t)loop->iteration * slice != outer->bytes[buffer])
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "%s: the loop ended after %lld iterations, but its stacked outputs are made for %zu",
                          ig_frame_label(plan, p), (long long)loop->iteration, outer->bytes[buffer] / slice);
    }
    return INGOT_OK;
}

static enum ingot_status begin_loop(struct loop *loop, struct ingot_error *error) {
    struct ig_walk *walk = loop->walk;
    struct ig_frame *body = loop->body;
    const bool yes = true;
    loop->trip = INT64_MAX;
    loop->go = true;
    if (loop->step->operands[0])
        IG_TRY(read_scalar(walk, loop->step->operands[0], &loop->trip, sizeof loop->trip, error));
    if (loop->step->operands[1]) IG_TRY(read_bool(walk, loop->step->operands[1], &loop->go, error));
    ig_frame_bind(walk->device, body, &body->inputs[0], loop->work + IG_LOOP_ITERATION);
    ig_frame_bind(walk->device, body, &body->inputs[1], loop->work + IG_LOOP_CONDITION_IN);
    ig_frame_bind(walk->device, body, &body->outputs[0], loop->work + IG_LOOP_CONDITION_OUT);
    for (uint32_t i = 0; i < loop->step->plan->n_inputs; i++)
        ig_frame_bind(walk->device, body, &body->inputs[2 + loop->n_carried + i], loop->captures[i]);
    IG_TRY(write_scalar(walk, loop->work + IG_LOOP_CONDITION_IN, &yes, 1, error)); /* it only runs while true */
    return walk->device->api->stream_wait(walk->device, walk->stream, error);
}

static enum ingot_status iterate(struct loop *loop, const struct ig_frame *outer, struct ingot_error *error) {
    struct ig_walk *walk = loop->walk;
    struct ig_frame *body = loop->body;
    IG_TRY(write_scalar(walk, loop->work + IG_LOOP_ITERATION, &loop->iteration, sizeof loop->iteration, error));
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        ig_frame_bind(walk->device, body, &body->inputs[2 + i], carried_after(loop, i, loop->iteration));
        ig_frame_bind(walk->device, body, &body->outputs[1 + i], carried_after(loop, i, loop->iteration + 1));
    }
    IG_TRY(bind_scanned(loop, outer, error));
    IG_TRY(ig_frame_run(walk, body, error));
    IG_TRY(read_bool(walk, loop->work + IG_LOOP_CONDITION_OUT, &loop->go, error));
    loop->iteration++;
    return INGOT_OK;
}

/* What ended in another buffer than the final one is copied there. */
static enum ingot_status end_loop(struct loop *loop, struct ingot_error *error) {
    struct ig_device *device = loop->walk->device;
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        void *last = carried_after(loop, i, loop->iteration);
        size_t bytes = loop->body->outputs[1 + i].bytes;
        if (last != loop->final[i])
            IG_TRY(device->api->copy(device, loop->walk->stream, loop->final[i], last, bytes, error));
    }
    return INGOT_OK;
}

static enum ingot_status run_loop(struct ig_walk *walk, const struct ig_frame *outer, struct ig_frame_step *step,
                                  struct ingot_error *error) {
    const struct ig_plan_step *p = step->plan;
    struct loop loop = {.walk = walk, .step = step, .body = step->body[0], .n_carried = p->n_carried};
    loop.work = outer->base + step->work;
    loop.initial = step->operands + 2;
    loop.captures = loop.initial + p->n_carried;
    loop.final = loop.captures + p->n_inputs;
    loop.scanned = loop.final + p->n_carried;
    loop.n_scanned = loop.body->sub->n_outputs - 1 - p->n_carried;
    IG_TRY(begin_loop(&loop, error));
    while (loop.go && loop.iteration < loop.trip)
        IG_TRY(iterate(&loop, outer, error));
    IG_TRY(check_scanned(&loop, outer, error));
    return end_loop(&loop, error);
}

/* ---- Steps -------------------------------------------------------------------------------------------------------------- */

static enum ingot_status run_control(struct ig_walk *walk, struct ig_frame *frame, struct ig_frame_step *step,
                                     struct ingot_error *error) {
    return step->plan->kind == IG_STEP_IF ? run_if(walk, step, error) : run_loop(walk, frame, step, error);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static enum ingot_status run_alone(struct ig_walk *walk, struct ig_frame *frame, struct ig_frame_step *step,
                                   struct ingot_error *error) {
    const struct ig_device_api *api = walk->device->api;
    if (step->plan->kind == IG_STEP_KERNEL) {
        IG_TRY(api->launch(walk->device, walk->stream, &step->launch, error));
    } else if (step->plan->kind == IG_STEP_COPY) {
        IG_TRY(api->copy(walk->device, walk->stream, step->operands[1], step->operands[0], step->copy_bytes, error));
    } else {
        IG_TRY(run_control(walk, frame, step, error));
    }
    return api->stream_wait(walk->device, walk->stream, error);
}

/* A step of control flow counts its own time, without that of the steps within. */
static enum ingot_status run_timed(struct ig_walk *walk, struct ig_frame *frame, struct ig_frame_step *step,
                                   struct ingot_error *error) {
    uint64_t begin = now(), before = walk->total;
    IG_TRY(run_alone(walk, frame, step, error));
    uint64_t taken = now() - begin, within = walk->total - before;
    struct ig_step_time *time = &walk->times[step->plan - walk->plan->steps];
    time->calls++;
    time->nanoseconds += taken - within;
    walk->total += taken - within;
    return INGOT_OK;
}

enum ingot_status ig_frame_run(struct ig_walk *walk, struct ig_frame *frame, struct ingot_error *error) {
    if (frame->failed_check) return ig_shape_refuse(walk->plan, frame->failed_check, walk->slots, error);
    for (uint32_t i = 0; i < frame->n_segments; i++) {
        const struct ig_frame_segment *segment = &frame->segments[i];
        struct ig_frame_step *steps = frame->steps + segment->first;
        if (walk->times) {
            for (uint32_t s = 0; s < segment->count; s++)
                IG_TRY(run_timed(walk, frame, &steps[s], error));
        } else if (segment->control) {
            IG_TRY(run_control(walk, frame, steps, error));
        } else {
            IG_TRY(walk->device->api->list_launch(walk->device, walk->stream, segment->list, error));
        }
    }
    return INGOT_OK;
}
