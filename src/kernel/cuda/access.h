/* The values of index expressions for given values of the loop variables, and what a warp touches with an access. */
#ifndef IG_KERNEL_CUDA_ACCESS_H
#define IG_KERNEL_CUDA_ACCESS_H

#include "kernel/loop.h"
#include "kernel/sizes.h"

struct ig_evaluation {
    const struct ig_loops *k;
    const struct ig_sizes *at;
    int64_t *var; /* by loop variable: set by the caller */
    /* Private: */
    int64_t *value;
    uint32_t *when, now;
    int64_t *dim; /* by parameter */
};

void ig_evaluation_init(struct ig_evaluation *e, const struct ig_loops *k, const struct ig_sizes *at);
/* An expression of an integer type or bool. What is loaded is unknown: an index is taken for its own position, as if a
 * gather took rows in order. */
int64_t ig_evaluate(struct ig_evaluation *e, ig_x x);

/* The loops around an access that spread it over the threads of a warp; a variable of -1: there is no such loop. */
struct ig_spread {
    int team, lanes; /* teams of so many threads */
    int thread;      /* of the block, or of the team */
    int64_t thread_lo, thread_step, threads;
    int vector, width; /* elements that a thread accesses side by side */
};
struct ig_touch {
    double accesses; /* per execution by a warp: 1 if a thread's elements lie side by side, else one for each */
    double lines;    /* of 128 bytes that a warp touches with one access */
    double sectors;  /* of 32 bytes, touched by several warps together, for each warp */
};
/* What an access with this index, of elements of so many bytes, touches. */
struct ig_touch ig_access_touch(struct ig_evaluation *e, ig_x index, int bytes, const struct ig_spread *spread);

#endif
