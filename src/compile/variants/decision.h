/*
 * Decisions: which of a few kernels runs, as an expression of sizes.
 *
 * The costs of all kernels are known at sample points. A decision tree is fitted to them: each of its nodes compares one
 * of the sizes with a threshold, halfway between two that occur. The tree becomes one symbolic dim, so that the shape
 * program evaluates it like any other size, and the runtime knows nothing of trees.
 */
#ifndef IG_COMPILE_DECISION_H
#define IG_COMPILE_DECISION_H

#include "ir/dim/dim.h"
#include "kernel/kernel.h"

struct ig_decision_problem {
    struct ig_job *job;
    struct ig_dims *dims;
    const ig_dim *sizes; /* the IG_MODEL_SIZES expressions that may be compared */
    uint32_t n_points;
    const int64_t *values; /* of the sizes: IG_MODEL_SIZES by point */
    uint32_t n_kernels;
    const double *const *costs; /* by kernel, then by point; positive */
};

/* Where a kernel runs. */
struct ig_decision_range {
    uint32_t kernel;
    int64_t lo[IG_MODEL_SIZES], hi[IG_MODEL_SIZES]; /* lo <= size < hi; 0: no bound */
};

struct ig_decision {
    ig_dim sizes[IG_MODEL_SIZES];            /* those of the problem */
    ig_dim kernel;                           /* its number, whatever the values of the symbols */
    IG_VEC(struct ig_decision_range) ranges; /* a kernel may have several */
};

/* A range for people: "3136 <= 3136*batch < 9408"; "" if it is everywhere. The sizes are the decision's, or those of
 * another region in their place. */
const char *ig_decision_where(struct ig_job *job, const struct ig_dims *dims, const ig_dim *sizes,
                              const struct ig_decision_range *range);

/* At a sample point the kernel is at most 0.3% slower than the best, unless the tree would become too deep. */
void ig_decide(const struct ig_decision_problem *problem, struct ig_decision *out_decision);

#endif
