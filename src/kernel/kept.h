/*
 * Values that many iterations have in common, one for each lane of a vector loop: they are computed into small arrays before
 * the loops, so that the innermost one neither repeats them nor reads what is not side by side.
 */
#ifndef IG_KERNEL_KEPT_H
#define IG_KERNEL_KEPT_H

#include "kernel/affine.h"

struct ig_kept_value {
    ig_x value;
    int array;
};
struct ig_kept {
    struct ig_loops *k;
    int64_t lanes;
    int64_t threads; /* positive: arrays are registers of so many threads, each with its lanes */
    uint32_t most;   /* values; 0: any number */
    bool (*wanted)(const void *user, ig_x x); /* may and shall this be kept? */
    const void *user;
    IG_VEC(struct ig_kept_value) values;
};

/* Adds the largest parts of x, floats, that are wanted and not kept yet. */
void ig_kept_add(struct ig_kept *kept, ig_x x);
/* x with its kept parts read from the arrays at `lane`. */
ig_x ig_kept_read(const struct ig_kept *kept, ig_x x, ig_x lane);

#endif
