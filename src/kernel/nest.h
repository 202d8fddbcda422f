/*
 * Loop nests before loops are emitted: extents, a free variable for each, and the expressions over these variables that
 * the nest computes (values, and the positions they are stored at). Extents are split where that removes divisions from
 * the expressions, and merged where all of them step evenly across the border: elementwise work becomes one flat loop,
 * and reshaped data get the loops of both shapes.
 */
#ifndef IG_KERNEL_NEST_H
#define IG_KERNEL_NEST_H

#include "kernel/affine.h"
#include "kernel/sizes.h"

#define IG_NEST_DIMS 24

struct ig_nest {
    struct ig_loops *k;
    const struct ig_sizes *at; /* sizes for estimates */
    int rank;
    ig_dim extent[IG_NEST_DIMS];
    ig_x var[IG_NEST_DIMS];    /* free variables */
    bool border[IG_NEST_DIMS]; /* must not be merged with the preceding dim */
    IG_VEC(ig_x) x;            /* the expressions; rewritten by the functions below */
};

void ig_nest_init(struct ig_nest *nest, struct ig_loops *k, const struct ig_sizes *at);
/* Adds an innermost dim and returns its variable; an extent of 1 gets the constant 0 instead. */
ig_x ig_nest_dim(struct ig_nest *nest, ig_dim extent);
/* Adds an expression; returns its index in nest->x. */
int ig_nest_add(struct ig_nest *nest, ig_x x);
/* Splits, then merges. */
void ig_nest_simplify(struct ig_nest *nest);
/* Calls visit for every index expression in nest->x, as a sum: load positions in `buffer`; for comparisons and for
 * indices used as data, buffer is -1. */
void ig_nest_indices(struct ig_nest *nest, void (*visit)(void *user, const struct ig_affine *sum, int buffer),
                     void *user);
/* The vector width, 1, 2, 4, 8 or 16: how many neighbours along the last dim one thread can compute with aligned
 * accesses of at most 16 bytes, for all stores and for loads that are contiguous. positions: which of nest->x are
 * buffer positions. `tail`: if the last dim is the only one, it need not divide evenly. */
int ig_nest_vector(struct ig_nest *nest, const int *positions, const int *buffers, int count, bool tail);
/* The same for stores only, whatever the loads; the last dim must divide evenly. */
int ig_nest_store_vector(struct ig_nest *nest, const int *positions, const int *buffers, int count);
/* nest->x[which] with the nest's variables replaced by `vars`. */
ig_x ig_nest_bind(struct ig_nest *nest, int which, const ig_x *vars);
/* An estimate of an extent, for choosing tiles. */
int64_t ig_nest_guess(const struct ig_nest *nest, int dim);
/* Cost of computing an expression once, in simple vector operations. */
int64_t ig_x_cost(const struct ig_loops *k, ig_x x);

#endif
