/*
 * A frame: one subplan (the main plan or a body of control flow) for one set of shapes, ready to run. It knows the size
 * and place of every buffer, holds the addresses of every step's operands, and its straight stretches as captured lists.
 *
 * Frames nest: a step IF or LOOP owns the frames of its bodies, whose arenas lie within the step's work space, a part of
 * the arena of the frame that the step is in.
 */
#ifndef IG_RUNTIME_FRAME_H
#define IG_RUNTIME_FRAME_H

#include "base/memory.h"
#include "device/device.h"
#include "engine/engine.h"

/* An input or output of the frame: memory that somebody else owns. */
struct ig_frame_port {
    void *address; /* NULL: never bound */
    size_t bytes;
    uint32_t uses, n_uses; /* a range of the frame's uses */
};

/* A place where a port's address, plus an offset, stands as an operand. */
struct ig_frame_use {
    uint32_t step, operand;
    size_t offset;
};

struct ig_frame_step {
    const struct ig_plan_step *plan;
    void **operands;         /* addresses; NULL where the plan says IG_PLAN_NONE */
    struct ig_launch launch; /* KERNEL */
    size_t copy_bytes;       /* COPY */
    struct ig_list *list;    /* KERNEL, COPY: which holds it as number `item`; NULL: not captured */
    uint32_t item;
    uint32_t level;        /* the memory plan's time: the step's number, or that of the steps beside which it runs */
    const uint32_t *after; /* the steps that it comes after, from the segment's first on; NULL: all before it */
    uint32_t n_after;
    struct ig_frame *body[2];            /* IF: then, else; LOOP: the body */
    size_t work, work_bytes, work_floor; /* IF, LOOP: place and size of the work space in the arena */
    size_t *carried; /* LOOP: places of the second buffers of what is carried, from the work space's beginning */
};

/* A stretch of kernels and copies, captured as one list where lists are used, or one step of control flow. */
struct ig_frame_segment {
    uint32_t first, count;
    bool control;
    struct ig_list *list;
};

/* The work space of a LOOP begins with these, a line each; then the carried buffers; then the body's arena. */
enum { IG_LOOP_ITERATION = 0, IG_LOOP_CONDITION_IN = 64, IG_LOOP_CONDITION_OUT = 128, IG_LOOP_HEADER = 192 };

/* What runs side by side, see branches.h. */
struct ig_frame_branches {
    uint32_t steps; /* that have others beside them */
    double gain;    /* the part of the time that this is estimated to save */
    size_t bytes;   /* more of the arena than one after the other */
};

/* Inputs on their way to the device, results on theirs: recorded before and behind the steps. */
struct ig_frame_copy {
    const void *from;
    void *to;
    size_t bytes;
};
struct ig_frame_copies {
    struct ig_frame_copy *at; /* with room for one more than there are ports; first those before the steps */
    uint32_t n_before, n_behind;
    uint32_t n_skipped; /* the first of those behind, which somebody else does this time */
};

struct ig_frame {
    const struct ig_subplan *sub;
    size_t *bytes;  /* by buffer */
    uint32_t *root; /* by buffer: whose memory it is (itself but for aliases) */
    size_t *offset; /* by buffer: from the beginning of its root's memory */
    size_t *place;  /* by buffer, of roots in the arena */
    char *base;     /* of the arena that the operands point into */
    size_t arena_bytes, lower_bound;
    struct ig_frame_port *ports;            /* the inputs, then the outputs */
    struct ig_frame_port *inputs, *outputs; /* parts of `ports` */
    struct ig_frame_use *uses;
    struct ig_frame_step *steps; /* in the order in which they run */
    struct ig_frame_segment *segments;
    uint32_t n_segments;
    struct ig_frame_branches branches;
    struct ig_frame_copies copies;            /* of the main plan */
    const struct ig_plan_check *failed_check; /* of a body: why it must not be run with these shapes; NULL: it may */
};

/* What frames are made from and run with. */
struct ig_frame_env {
    const struct ig_engine_file *file;
    const int64_t *slots; /* the shape program's numbers; live as long as the frame */
    struct ig_device *device;
    struct ig_stream *stream;
    struct ig_module *module;
    const void *weights;                     /* where kernels find them: the file's, or the device's copy */
    void *dummy;                             /* 64 bytes that stand for what is absent */
    const struct ingot_allocator *allocator; /* for temporary memory */
    struct ig_arena *memory;                 /* where frames live */
    unsigned char *seen;                     /* by subplan: has a frame already (each has one at most) */
    size_t scratch;                          /* out: the most that any kernel wants, per worker */
};

/* Sizes, lifetimes and places of subplan number `index` and the bodies within; no addresses yet. */
enum ingot_status ig_frame_create(struct ig_frame_env *env, uint32_t index, struct ig_frame **out_frame,
                                  struct ingot_error *error);
/* Gives back the captured lists; the memory is the environment's. NULL and half-made frames are fine. */
void ig_frame_destroy(struct ig_frame *frame, struct ig_device *device);

/* Points all operands into the arena at `base`, bodies included, and patches what was captured. */
void ig_frame_place(const struct ig_frame_env *env, struct ig_frame *frame, char *base);
/* Points a port to memory of its size. Nothing to do where it points there already. */
void ig_frame_bind(struct ig_device *device, struct ig_frame *frame, struct ig_frame_port *port, void *address);
/* Points the ports of a branch to what its step passes. */
void ig_frame_bind_branch(struct ig_device *device, struct ig_frame_step *step, int branch);
/* Points the ports of a loop's body to where its values are in one iteration; `outer` is the frame that the step is in. */
void ig_frame_bind_iteration(struct ig_device *device, const struct ig_frame *outer, struct ig_frame_step *step,
                             int64_t iteration);
/* Where value i of what a loop carries is after `n` iterations. */
void *ig_frame_carried(const struct ig_frame *outer, const struct ig_frame_step *step, uint32_t i, int64_t n);

/* Captures the straight stretches, bodies included; those that were captured before are left as they are. The frame is
 * placed and its ports are bound: a device may look at the addresses. */
enum ingot_status ig_frame_capture(const struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
/* Can copies be recorded with its steps? Where control flow does not divide these. */
bool ig_frame_takes_copies(const struct ig_frame *frame);
/* Changes what was captured to these copies, and leaves out those to be skipped. False where it was not captured, or with
 * copies of other sizes. */
bool ig_frame_patch_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies);
/* What is captured has these copies; what was captured is given back, and must not be under way. */
void ig_frame_replace_copies(struct ig_frame *frame, struct ig_device *device, const struct ig_frame_copies *copies);
/* What its lists take, bodies included. */
size_t ig_frame_list_bytes(const struct ig_frame *frame, const struct ig_device *device);

/* The buffer number of operand k, IG_PLAN_NONE where there is none. */
static inline uint32_t ig_plan_operand(const struct ig_plan *plan, const struct ig_plan_step *step, uint32_t k) {
    return plan->operands[step->operands + k];
}

/* For every operand k (buffer b) of every step s that is there. */
#define IG_EACH_OPERAND(plan_, frame_, s_, k_, b_)                                                     \
    for (uint32_t s_ = 0; s_ < (frame_)->sub->n_steps; s_++)                                           \
        for (uint32_t k_ = 0, b_; k_ < (frame_)->steps[s_].plan->n_operands &&                         \
                                  (b_ = ig_plan_operand((plan_), (frame_)->steps[s_].plan, k_), true); \
             k_++)                                                                                     \
            if (b_ != IG_PLAN_NONE)

/* Frame construction, in its parts: frame_buffers.c, then steps in frame.c; addresses and lists in frame_bind.c. */
/* The number of the port that buffer b is or is a part of; IG_PLAN_NONE where it is none. */
uint32_t ig_frame_port_of(const struct ig_frame_env *env, const struct ig_frame *frame, uint32_t b);
enum ingot_status ig_frame_size_buffers(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
enum ingot_status ig_frame_plan_memory(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);
/* The name of a step for messages. */
const char *ig_frame_label(const struct ig_plan *plan, const struct ig_plan_step *step);

/* IG_ERR for a slot that must not be negative; `what` is its use. */
enum ingot_status ig_frame_size(const struct ig_frame_env *env, const struct ig_plan_step *step, ig_slot slot,
                                const char *what, size_t *out_size, struct ingot_error *error);

#endif
