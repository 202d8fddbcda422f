/* Running a frame: launches its lists, and decides what control flow decides. */
#ifndef IG_RUNTIME_WALK_H
#define IG_RUNTIME_WALK_H

#include "runtime/frame.h"

/* Calls and time of one step of the plan. */
struct ig_step_time {
    uint64_t calls, nanoseconds;
};

struct ig_walk {
    const struct ig_plan *plan;
    const int64_t *slots; /* the shape program's numbers */
    struct ig_device *device;
    struct ig_stream *stream;
    void *scalars;              /* two lines of pinned host memory: for what is read, for what is written */
    struct ig_step_time *times; /* by step of the plan; NULL: not asked for. Otherwise steps are launched one by one. */
    struct ig_event **marks;    /* by which a device with a clock of its own measures: one more than steps */
    uint64_t total;             /* nanoseconds of all steps so far */
};

/* All ports are bound and the frame is placed. Allocates nothing. */
enum ingot_status ig_frame_run(struct ig_walk *walk, struct ig_frame *frame, struct ingot_error *error);

#endif
