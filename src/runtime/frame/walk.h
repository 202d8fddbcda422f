/* Runs a frame: launches its lists and evaluates its control flow. */
#ifndef IG_RUNTIME_WALK_H
#define IG_RUNTIME_WALK_H

#include "runtime/frame/frame.h"

/* Calls and time of one plan step. */
struct ig_step_time {
    uint64_t calls, nanoseconds; /* of all calls */
    uint64_t shortest;           /* of the shortest one */
};

struct ig_walk {
    const struct ig_plan *plan;
    const int64_t *slots; /* values of the shape program */
    struct ig_device *device;
    struct ig_stream *stream;
    void *scalars;              /* two cache lines of pinned host memory: for scalars read and scalars written */
    struct ig_step_time *times; /* by plan step; NULL: not profiling. Otherwise steps are launched one by one */
    struct ig_event **marks;    /* timed events, one more than steps, if the device has its own clock */
    uint64_t total;             /* nanoseconds, all steps so far */
    const struct ig_stop *stop; /* asked before every list and step of control flow */
};

/* All ports are bound and the frame is placed. Allocates nothing. INGOT_CANCELLED if `stop` asks for it. */
enum ingot_status ig_frame_run(struct ig_walk *walk, struct ig_frame *frame, struct ingot_error *error);

#endif
