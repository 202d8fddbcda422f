/* What a context is made of: context.c makes and binds it, context_run.c runs it. */
#ifndef IG_RUNTIME_CONTEXT_H
#define IG_RUNTIME_CONTEXT_H

#include "runtime/instance.h"
#include "runtime/runtime.h"
#include "runtime/shape.h"
#include "runtime/transfer.h"
#include "runtime/walk.h"

/* An empty buffer has this much memory all the same, so that it has an address of its own. */
#define IG_LINE 64

/* Addresses of the caller's that kernels may be given: they load several elements at once. */
#define IG_KERNEL_ALIGNMENT 16

/* An input or output that does not lie in the blocks of ig_transfer. */
#define IG_NO_PLACE SIZE_MAX

struct ig_output {
    void *own; /* the context's memory, where the device's is the host's */
    size_t own_size;
    void *given; /* the caller's memory */
    size_t given_size;
    enum ingot_memory memory; /* of the result, whoever's it is */
    size_t place;             /* in the transfers' block; IG_NO_PLACE: kernels write where it is wanted */
    void *deliver_to;         /* where the host copies it after the run; NULL: nowhere */
    size_t bytes;             /* of the last run's */
    bool ready;               /* there is a last run's */
};

struct ig_input {
    bool bound;   /* was it ever set? */
    size_t place; /* as above */
};

/* A caller's stream, kept because most callers have few of them. */
struct ig_adopted {
    void *native;
    struct ig_stream *stream;
};
enum { IG_ADOPTED_STREAMS = 4 };

/* By the device's clock: a run's beginning, after its inputs, before its outputs, its end. */
enum { IG_MARK_BEGIN, IG_MARK_COMPUTE, IG_MARK_OUTPUT, IG_MARK_END, IG_MARKS };

struct ig_context {
    struct ig_frame_env env;
    const struct ig_plan *plan;
    uint32_t n_inputs, n_outputs;
    struct ingot_tensor *tensors; /* what the inputs are bound to */
    struct ig_input *inputs;
    struct ig_output *outputs;
    int64_t *symbols;
    int64_t *elements; /* by symbol: pinned memory for the elements of inputs that the device has */
    struct ig_instance_cache cache;
    struct ig_instance *current; /* whose shapes were bound last; NULL: none yet, or the last binding failed */
    bool inputs_changed;         /* since shapes were bound last */
    void *arena;                 /* one for all instances: as large as the largest needs */
    size_t arena_size;
    void *scalars;              /* pinned memory for control flow; see walk.h */
    struct ig_step_time *times; /* NULL: not profiling */
    struct ig_event **step_marks;

    /* What follows is for devices with memory of their own. */
    struct ig_transfer transfer;
    struct ig_transfer_sizes sizes; /* what the current bindings take */
    struct ig_frame_copies
        copies;          /* of this run, in its list or beside it; those to be skipped leave with large results */
    bool results_beside; /* of this run: they leave on a stream of their own */
    struct ig_adopted adopted[IG_ADOPTED_STREAMS];
    unsigned next_adopted;            /* which is given up for another */
    struct ig_stream *last;           /* which the last run was put on */
    struct ig_event *done[2];         /* for the ends of the last two */
    struct ig_event *end[2];          /* which event is there: that of results that leave last, or one of `done` */
    unsigned turn;                    /* which of them is the last one's */
    bool pending[2];                  /* they may not have ended */
    bool unmarked;                    /* the last ones' ends have no events: they are on the context's own stream */
    bool under_way;                   /* the last run was not waited for */
    struct ig_event *marks[IG_MARKS]; /* NULL: not timing */
    bool timed;                       /* they are of a run that has ended well */
};

const struct ig_plan_tensor *ig_context_input_tensor(const struct ig_context *context, size_t index);
const struct ig_plan_tensor *ig_context_output_tensor(const struct ig_context *context, size_t index);
const char *ig_context_tensor_name(const struct ig_context *context, const struct ig_plan_tensor *tensor);

/* The instance for what is bound, with its memory in place. What must be read from the device for that is read behind the
 * stream's work. */
enum ingot_status ig_context_prepare(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error);
/* Waits until the last run has ended, if it is under way. What was enqueued stays to be waited for. */
enum ingot_status ig_context_settle(struct ig_context *context, struct ingot_error *error);

/* Decides where inputs and results of this run lie, sees to memory for them, and points the frame's ports there. */
enum ingot_status ig_context_bind_ports(struct ig_context *context, struct ingot_error *error);
/* Sees to it that the instance's list, once captured, has this run's copies of what the device fetches and brings by
 * itself, where a list can have them and nobody wants to know how long they take. */
enum ingot_status ig_context_bind_copies(struct ig_context *context, struct ingot_error *error);
/* Enqueued: inputs on their way to the device, results on theirs, but for what lists have. */
enum ingot_status ig_context_send_inputs(struct ig_context *context, struct ig_stream *stream,
                                         struct ingot_error *error);
enum ingot_status ig_context_fetch_outputs(struct ig_context *context, struct ig_stream *stream,
                                           struct ingot_error *error);
/* Copies what has come back to where the caller wants it; what comes in parts need not be there yet. */
enum ingot_status ig_context_deliver(struct ig_context *context, struct ingot_error *error);
/* Where output `index` is when it is there. */
void *ig_context_result(const struct ig_context *context, size_t index);

#endif
