/* The state of a context: context.c creates and binds it, context_run.c runs it. */
#ifndef IG_RUNTIME_CONTEXT_H
#define IG_RUNTIME_CONTEXT_H

#include "base/machine.h"
#include "runtime/context/batch.h"
#include "runtime/context/preparer.h"
#include "runtime/context/results.h"
#include "runtime/context/transfer.h"
#include "runtime/frame/activations.h"
#include "runtime/frame/instance.h"
#include "runtime/frame/shape.h"
#include "runtime/frame/walk.h"
#include "runtime/runtime.h"

/* The size that an empty buffer still occupies, so that its address is its own. */
#define IG_LINE 64

/* The input or output does not lie in the blocks of ig_transfer. */
#define IG_NO_PLACE SIZE_MAX

struct ig_output {
    void *given; /* the caller's memory, or memory made for this run */
    size_t given_size;
    bool fresh;               /* `given` is made for each run, and the context's until it is taken */
    enum ingot_memory memory; /* kind of memory that the result is in, whoever owns it */
    /* Offset in the block of the context's results that it is in, or in that for transfers; IG_NO_PLACE: kernels write
     * directly to the destination. */
    size_t place;
    void *deliver_to; /* where the host copies it after the run; NULL: no copy */
    size_t bytes;     /* the caller's, in the last run */
    bool ready;       /* the last run has produced it */
};

struct ig_input {
    bool bound;          /* set at least once */
    uint32_t updated_by; /* the output that is stored in its memory; IG_PLAN_NONE: none */
    size_t place;        /* as in ig_output */
};

/* A wrapped stream of the caller's, cached because most callers use few of them. Once its work has been waited for, the
 * caller may destroy it. */
struct ig_adopted {
    void *native; /* NULL: none now; `stream` is ready for the next one */
    struct ig_stream *stream;
};
enum { IG_ADOPTED_STREAMS = 4 };

/* Pinned memory that results in flight may be written to, for inputs that could come before. */
struct ig_range {
    const char *begin, *end;
};
enum { IG_RANGES = 8 };

/* Events on the device's clock: start of the run, inputs copied, outputs about to be copied, end. */
enum { IG_MARK_BEGIN, IG_MARK_COMPUTE, IG_MARK_OUTPUT, IG_MARK_END, IG_MARKS };

struct ig_context {
    struct ig_frame_env env;
    struct ig_weight_places file_places; /* of the weights in the file */
    struct ig_weight_span file_span;
    struct ig_module *own_module; /* NULL: the engine's contexts share one */
    const struct ig_plan *plan;
    uint32_t n_inputs, n_outputs;
    struct ingot_tensor *tensors; /* the bound inputs */
    struct ig_input *inputs;
    struct ig_output *outputs;
    int64_t *symbols;
    /* By symbol: pinned copies of the elements that are symbols, of inputs in device memory. */
    int64_t *elements;
    struct ig_instance_cache cache;
    struct ig_instance *current;        /* of the last bound shapes; NULL: none yet, or the last binding failed */
    bool inputs_changed;                /* since shapes were last bound */
    bool updates_host;                  /* an input that runs update is, or was, in memory of the host's */
    struct ig_batch batch;              /* how sizes are rounded up */
    struct ig_preparer *preparer;       /* NULL: nothing has been prepared in the background */
    struct ig_activations *activations; /* of all instances */
    bool shares_activations;            /* with other contexts: they are not the context's own */
    struct ig_results_pool *pool;
    struct ig_results *results; /* of the last bound run; NULL: none is in the context's own memory */
    struct ig_stop stop;        /* requests to stop the run in progress; numbers the runs */
    double time_limit;          /* seconds; 0: none */
    void *scalars;              /* pinned memory for the scalars of control flow; see walk.h */
    struct ig_step_time *times; /* NULL: not profiling */
    struct ig_machine machine;  /* for floors; without a name: not known */
    struct ig_event **step_marks;

    /* Only for devices with memory of their own: */
    struct ig_transfer transfer;
    struct ig_transfer_sizes sizes;     /* of the current bindings */
    struct ig_frame_copies copies;      /* this run's copies; those skipped in the list leave on another stream */
    bool results_beside;                /* this run's results leave on a stream of their own */
    bool inputs_ahead;                  /* this run's direct inputs come on a stream of their own */
    struct ig_range written[IG_RANGES]; /* since all work was waited for; the last one encloses what does not fit */
    unsigned n_written;
    struct ig_adopted adopted[IG_ADOPTED_STREAMS];
    unsigned next_adopted;    /* index of the next entry to evict, if all are in use */
    struct ig_stream *last;   /* the stream of the last run */
    struct ig_event *done[2]; /* mark the ends of the last two runs */
    /* The event that marks each run's end: one of `done`, the transfer's where results leave on their own stream, or the
     * next run's if this one recorded none. */
    struct ig_event *end[2];
    unsigned turn;   /* index of the last run in these pairs */
    bool pending[2]; /* the run may be in flight */
    /* The last run's end has no event: ig_context_settle waits for the context's own stream. */
    bool unmarked;
    bool under_way;                   /* nobody has waited for the last run to end */
    bool dropped;                     /* its results were given up, but it may be in flight */
    bool in_graph;                    /* the only run is part of a graph of the caller's: no events, no other run */
    struct ig_event *marks[IG_MARKS]; /* NULL: no timing */
    bool timed;                       /* `marks` belong to a run that has completed successfully */
    /* Of several ranks: nobody has seen yet that the run has ended well; and since when the older one could have gone on. */
    bool unseen[2];
    uint64_t since;
};

const struct ig_plan_tensor *ig_context_input_tensor(const struct ig_context *context, size_t index);
const struct ig_plan_tensor *ig_context_output_tensor(const struct ig_context *context, size_t index);
const char *ig_context_tensor_name(const struct ig_context *context, const struct ig_plan_tensor *tensor);

/* Finds or makes the instance for the bound inputs; allocates no device memory. Symbols in device memory are read in
 * order on `stream`. */
enum ingot_status ig_context_prepare(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error);
/* Places the current instance before it is captured, which needs addresses. If the activations move later, the next run
 * places it again. */
enum ingot_status ig_context_make_room(struct ig_context *context, struct ingot_error *error);
/* Runs once per instance, after its ports are bound. */
enum ingot_status ig_context_capture(struct ig_context *context, struct ingot_error *error);
/* Takes over the instances that the preparer has captured. */
enum ingot_status ig_context_adopt(struct ig_context *context, struct ingot_error *error);
/* Blocks until the last run has completed, if it may be in flight; its results still need ig_context_wait. */
enum ingot_status ig_context_settle(struct ig_context *context, struct ingot_error *error);
/* Lets the caller's streams go, when all runs have been waited for. */
void ig_context_let_streams_go(struct ig_context *context);
/* The caller's stream behind this one; NULL: it is none. */
void *ig_context_native(const struct ig_context *context, const struct ig_stream *stream);

/* Refuses a tensor of another type, rank, fixed dim or kind of memory than `wanted`, an input's. */
enum ingot_status ig_context_check_shape(const struct ig_context *context, const struct ig_plan_tensor *wanted,
                                         const struct ingot_tensor *tensor, struct ingot_error *error);
/* Refuses memory of a kind that does not exist for the engine's target; `what` and `name` are for the message. */
enum ingot_status ig_context_check_memory(const struct ig_context *context, const char *what, const char *name,
                                          enum ingot_memory memory, struct ingot_error *error);
/* context_results.c: */
/* Chooses the set that this run's own results are written to, with room for so many bytes. */
enum ingot_status ig_context_choose_results(struct ig_context *context, size_t host, size_t device,
                                            struct ingot_error *error);
/* Makes the memory of fresh results for the current shapes. */
enum ingot_status ig_context_make_fresh(struct ig_context *context, struct ingot_error *error);
/* Frees a fresh result that nobody took. */
enum ingot_status ig_context_drop_fresh(struct ig_context *context, struct ig_output *output,
                                        struct ingot_error *error);

/* The caller's bytes of output i for the current shapes. */
size_t ig_context_output_bytes(const struct ig_context *context, uint32_t i);
/* Decides where the inputs and results of this run, on `stream`, lie, ensures memory for them, and binds the frame's ports
 * to it. */
enum ingot_status ig_context_bind_ports(struct ig_context *context, struct ig_stream *stream,
                                        struct ingot_error *error);
/* Puts the copies that the device can make by itself into the instance's list, if lists can hold them and no copy is to
 * be timed. */
enum ingot_status ig_context_bind_copies(struct ig_context *context, struct ingot_error *error);
/* Enqueue the copies of inputs to the device and of results from it, except those in lists. */
enum ingot_status ig_context_send_inputs(struct ig_context *context, struct ig_stream *stream,
                                         struct ingot_error *error);
enum ingot_status ig_context_fetch_outputs(struct ig_context *context, struct ig_stream *stream,
                                           struct ingot_error *error);
/* Copies results from pinned memory to the caller's. Results in parts may still be arriving: it waits for each part. */
enum ingot_status ig_context_deliver(struct ig_context *context, struct ingot_error *error);
/* INGOT_CANCELLED or INGOT_TIMEOUT if the run in progress, on a device that computes within the call, was stopped. */
enum ingot_status ig_context_refuse_stopped(const struct ig_context *context, struct ingot_error *error);
/* The address of output `index` once it is ready. */
void *ig_context_result(const struct ig_context *context, size_t index);

/* context_ranks.c: */
/* Do its runs need the GPUs of other ranks? All of the following does nothing for other contexts. */
bool ig_context_is_joint(const struct ig_context *context);
/* May a run of the current instance be under way together with the one before it, and when its enqueueing returns? */
bool ig_context_may_overlap(const struct ig_context *context);
/* Before a run: returns when the group has no other run under way but this context's last one. */
enum ingot_status ig_context_begin_joint(struct ig_context *context, struct ingot_error *error);
/* A run has been enqueued whose end event has been recorded. */
void ig_context_note_joint(struct ig_context *context);
/* Have the runs ended, or, without `all`, those before the last? A failure is the group's, and stays until ig_context_forget_ranks. */
enum ingot_status ig_context_ask_ranks(struct ig_context *context, bool all, bool *out_done, struct ingot_error *error);
/* Nothing is under way any more. */
void ig_context_forget_ranks(struct ig_context *context);
/* The context is about to be destroyed. */
void ig_context_leave_ranks(struct ig_context *context);

#endif
