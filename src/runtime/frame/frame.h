/*
 * A frame: one subplan (the main plan or a body of control flow) prepared for one set of shapes. It knows the size and
 * offset of every buffer, holds the operand addresses of every step, and its control-free segments as captured lists.
 *
 * Frames nest: an IF or LOOP step owns the frames of its bodies. Their arenas lie within the step's work space, which
 * is part of the arena of the enclosing frame.
 */
#ifndef IG_RUNTIME_FRAME_H
#define IG_RUNTIME_FRAME_H

#include "base/memory.h"
#include "device/device.h"
#include "engine/engine.h"
#include "runtime/weight_places.h"

/* An input or output of the frame; it does not own the memory. */
struct ig_frame_port {
    void *address; /* NULL: not bound yet */
    size_t bytes;
    uint32_t uses, n_uses; /* range in the frame's `uses` */
};

/* An operand whose address is that of a port plus `offset`. */
struct ig_frame_use {
    uint32_t step, operand;
    size_t offset;
};

struct ig_frame_collective; /* collective.h */

struct ig_frame_step {
    const struct ig_plan_step *plan;        /* the alternative that runs at these sizes */
    void **operands;                        /* addresses; NULL for IG_PLAN_NONE */
    struct ig_launch launch;                /* of a KERNEL step */
    size_t copy_bytes;                      /* of a COPY step */
    struct ig_frame_collective *collective; /* of a COLLECTIVE step */
    bool has_ways;                          /* it is a COLLECTIVE, or the kernel of one, that could be the other */
    bool does_next;                         /* it is a COLLECTIVE's kernel, which does the next step too */
    size_t launches;      /* of a COLLECTIVE's kernel, if calls are split (collective.h); 0: the one of a list */
    struct ig_list *list; /* KERNEL, COPY, COLLECTIVE: the list that holds it as `item`; NULL: not captured */
    uint32_t item;
    uint32_t level;        /* time in the memory plan: the step's number or, if steps run concurrently, its level */
    const uint32_t *after; /* steps it depends on, as offsets from the segment's first; NULL: all before it */
    uint32_t n_after;
    struct ig_frame *body[2];            /* IF: then, else; LOOP: the body */
    size_t work, work_bytes, work_floor; /* IF, LOOP: offset and size of the work space in the arena */
    size_t *carried;                     /* LOOP: offsets in the work space of the second buffers of carried values */
};

/* A run of kernels and copies, captured as one list if the device uses lists; or one step of control flow. */
struct ig_frame_segment {
    uint32_t first, count;
    bool control;
    struct ig_list *list;
};

/* The layout of a LOOP's work space: these scalars, one cache line each; the second buffers of carried values; the
 * arena of the body. */
enum { IG_LOOP_ITERATION = 0, IG_LOOP_CONDITION_IN = 64, IG_LOOP_CONDITION_OUT = 128, IG_LOOP_HEADER = 192 };

/* Result of ig_branches_apply; see branches.h. */
struct ig_frame_branches {
    uint32_t steps; /* that run beside others */
    double gain;    /* estimated fraction of the time that this saves */
    size_t bytes;   /* growth of the arena over sequential execution */
};

/* A copy of inputs to the device or of results from it, recorded before or after the steps. */
struct ig_frame_copy {
    const void *from;
    void *to;
    size_t bytes;
};
struct ig_frame_copies {
    struct ig_frame_copy *at; /* capacity: one more than there are ports; those before the steps come first */
    uint32_t n_before, n_behind;
    /* Skipped in this run, because another stream copies them: the first n_ahead of n_before, the first n_skipped of
     * n_behind. */
    uint32_t n_ahead, n_skipped;
};

struct ig_frame {
    const struct ig_subplan *sub;
    size_t *bytes;    /* by buffer */
    uint32_t *root;   /* by buffer: the buffer whose memory it uses (itself unless an alias) */
    size_t *offset;   /* by buffer: byte offset in its root */
    size_t *place;    /* by buffer: offset of arena roots in the arena */
    char *base;       /* the arena address that the operands are based on */
    uint64_t weights; /* the number of the weights' places that they are based on */
    size_t arena_bytes, lower_bound;
    struct ig_frame_port *ports;            /* inputs, then outputs */
    struct ig_frame_port *inputs, *outputs; /* point into `ports` */
    struct ig_frame_use *uses;
    struct ig_frame_step *steps; /* in execution order */
    uint32_t n_steps;            /* the plan's; once memory is planned without those that others do */
    struct ig_frame_segment *segments;
    uint32_t n_segments;
    struct ig_frame_branches branches;
    struct ig_frame_copies copies;            /* main plan only */
    const struct ig_plan_check *failed_check; /* bodies: the check that these shapes fail, so that it must not run;
                                                 NULL: none */
};

/* What frames are created from and run with. */
struct ig_frame_env {
    const struct ig_engine_file *file;
    const int64_t *slots; /* values of the shape program; outlive the frame */
    struct ig_device *device;
    struct ig_stream *stream;
    struct ig_module *module;
    const struct ig_weight_places *weights;  /* in the engine file, the device's copy or the caller's memory */
    struct ig_group *group;                  /* of the rank whose plan this is; NULL: it computes alone */
    const struct ig_stop *stop;              /* of the context's runs */
    void *dummy;                             /* 64 bytes that stand in for absent buffers */
    const struct ingot_allocator *allocator; /* for temporary memory */
    struct ig_arena *memory;                 /* arena that frames are allocated from */
    unsigned char *seen;                     /* by subplan: a frame exists (at most one each) */
    size_t scratch;                          /* out: the most scratch that any kernel needs, in bytes per worker */
};

/* Computes sizes, lifetimes and offsets of subplan `index` and the bodies inside; assigns no addresses yet. */
enum ingot_status ig_frame_create(struct ig_frame_env *env, uint32_t index, struct ig_frame **out_frame,
                                  struct ingot_error *error);
/* Destroys the captured lists; the frame's memory is the environment's. Accepts NULL and partially built frames. */
void ig_frame_destroy(struct ig_frame *frame, struct ig_device *device);

/* Points all operands into the arena at `base` and to the environment's weights, bodies included, and patches the
 * captured lists. */
void ig_frame_place(const struct ig_frame_env *env, struct ig_frame *frame, char *base);
/* Binds a port to memory of its size; a no-op if it is bound there already. */
void ig_frame_bind(struct ig_device *device, struct ig_frame *frame, struct ig_frame_port *port, void *address);
/* Binds the ports of a branch to the operands of its IF step. */
void ig_frame_bind_branch(struct ig_device *device, struct ig_frame_step *step, int branch);
/* Binds the ports of a loop's body to its values in one iteration; `outer` is the frame of the LOOP step. */
void ig_frame_bind_iteration(struct ig_device *device, const struct ig_frame *outer, struct ig_frame_step *step,
                             int64_t iteration);
/* The address of carried value `i` after `n` iterations. */
void *ig_frame_carried(const struct ig_frame *outer, const struct ig_frame_step *step, uint32_t i, int64_t n);

/* Captures the segments that are not captured yet, bodies included. The frame is placed and its ports are bound, since
 * a device may look at addresses. */
enum ingot_status ig_frame_capture(const struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
/* Makes the captured lists ready for many launches, bodies included. */
enum ingot_status ig_frame_make_ready(struct ig_device *device, struct ig_stream *stream, struct ig_frame *frame,
                                      struct ingot_error *error);
/* Is all of it one list, launched once in a run? */
bool ig_frame_is_straight(const struct ig_frame *frame);
/* Can copies be recorded in the same list as the steps? Only if control flow does not split them. */
bool ig_frame_takes_copies(const struct ig_frame *frame);
/* Changes the captured copies to these and skips those to be skipped. False if the frame is not captured or has copies
 * of other sizes. */
bool ig_frame_patch_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies);
/* Sets the copies that the next capture will include. Destroys the captured lists, which must not be in flight. */
void ig_frame_replace_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies);
/* Bytes of the captured lists, bodies included. */
size_t ig_frame_list_bytes(const struct ig_frame *frame, const struct ig_device *device);

/* The buffer of operand k, or IG_PLAN_NONE. */
static inline uint32_t ig_plan_operand(const struct ig_plan *plan, const struct ig_plan_step *step, uint32_t k) {
    return plan->operands[step->operands + k];
}

/* Launches or records a step that is no control flow. */
enum ingot_status ig_frame_submit(struct ig_device *device, struct ig_stream *stream, const struct ig_frame_step *step,
                                  struct ingot_error *error);

/* Iterates over all present operands k (buffer b) of all steps s. */
#define IG_EACH_OPERAND(plan_, frame_, s_, k_, b_)                                                     \
    for (uint32_t s_ = 0; s_ < (frame_)->n_steps; s_++)                                                \
        for (uint32_t k_ = 0, b_; k_ < (frame_)->steps[s_].plan->n_operands &&                         \
                                  (b_ = ig_plan_operand((plan_), (frame_)->steps[s_].plan, k_), true); \
             k_++)                                                                                     \
            if (b_ != IG_PLAN_NONE)

/* Internal parts of frame construction: frame_buffers.c, then steps in frame.c, then addresses and lists in
 * frame_bind.c. */
/* The port that buffer b is or aliases; IG_PLAN_NONE if none. */
uint32_t ig_frame_port_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b);
enum ingot_status ig_frame_size_buffers(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
enum ingot_status ig_frame_plan_memory(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
/* Refuses operand k of a step if it is a result and lies where nothing may be written. */
enum ingot_status ig_frame_check_written(const struct ig_frame_env *env, const struct ig_frame *frame,
                                         const struct ig_plan_step *step, uint32_t k, struct ingot_error *error);
/* The step's name for messages. */
const char *ig_frame_label(const struct ig_plan *plan, const struct ig_plan_step *step);

/* Reads a slot that must not be negative; `what` names its use in the error. */
enum ingot_status ig_frame_size(const struct ig_frame_env *env, const struct ig_plan_step *step, ig_slot slot,
                                const char *what, size_t *out_size, struct ingot_error *error);

#endif
