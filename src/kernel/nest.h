/*
 * Loop nests before they are loops: the extents, a free variable for each, and the expressions over these variables that
 * the nest is to compute (values and the positions they are stored at). Extents are split where that removes divisions
 * from the expressions and merged where all of them step evenly across the border, so that what is elementwise becomes
 * one flat loop and what was reshaped has the loops of both shapes.
 */
#ifndef IG_KERNEL_NEST_H
#define IG_KERNEL_NEST_H

#include "kernel/affine.h"

#define IG_NEST_DIMS 24

struct ig_nest {
    struct ig_loops *k;
    int rank;
    ig_dim extent[IG_NEST_DIMS];
    ig_x var[IG_NEST_DIMS];    /* free variables */
    bool border[IG_NEST_DIMS]; /* not to be merged with the dim before */
    IG_VEC(ig_x) x;            /* what is computed: rewritten by the functions below */
};

void ig_nest_init(struct ig_nest *nest, struct ig_loops *k);
/* Adds an innermost dim; returns its variable, or 0 for an extent of 1, which needs none. */
ig_x ig_nest_dim(struct ig_nest *nest, ig_dim extent);
/* Adds an expression; returns its position in nest->x. */
int ig_nest_add(struct ig_nest *nest, ig_x x);
/* Splits, then merges. */
void ig_nest_simplify(struct ig_nest *nest);
/* Calls visit for every index expression within nest->x, as a sum: positions of loads from `buffer`; comparisons, indices
 * as data (buffer -1). */
void ig_nest_indices(struct ig_nest *nest, void (*visit)(void *user, const struct ig_affine *sum, int buffer),
                     void *user);
/* How many neighbours along the last dim one thread may compute, so that they are stored, and loaded where they lie side
 * by side, by aligned accesses of 16 bytes: 1, 2, 4, 8 or 16. positions: which of nest->x are positions in buffers.
 * `tail`: the last dim, alone, need not divide evenly. */
int ig_nest_vector(struct ig_nest *nest, const int *positions, const int *buffers, int count, bool tail);
/* The same for the stores alone, wherever loads lie; the last dim divides evenly. */
int ig_nest_store_vector(struct ig_nest *nest, const int *positions, const int *buffers, int count);
/* nest->x[which] with the variables replaced by these. */
ig_x ig_nest_bind(struct ig_nest *nest, int which, const ig_x *vars);
/* A guess at an extent, for choosing tiles: the number, or something usual for a symbol. */
int64_t ig_nest_guess(const struct ig_nest *nest, int dim);
/* Cost of computing an expression once, in simple vector operations. */
int64_t ig_x_cost(const struct ig_loops *k, ig_x x);

#endif
