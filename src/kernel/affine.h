/*
 * Index arithmetic in canonical form: a sum of atoms times symbolic factors, plus a symbolic constant. An atom is a
 * loop variable or anything that is not a sum (a loaded index, a quotient). Equal indices become equal expressions, and
 * the ranges of the loop variables prove clamps, quotients and remainders redundant.
 */
#ifndef IG_KERNEL_AFFINE_H
#define IG_KERNEL_AFFINE_H

#include "kernel/loop.h"

#define IG_AFFINE_TERMS 24

struct ig_affine_term {
    ig_x atom;
    ig_dim factor;
};
/* Terms are sorted by atom, which is the order of the loops from outermost to innermost. */
struct ig_affine {
    int count;
    struct ig_affine_term term[IG_AFFINE_TERMS];
    ig_dim constant;
};

/* Decomposes x (i64) into a sum; what is not a sum becomes an atom. */
void ig_affine_of(struct ig_loops *k, ig_x x, struct ig_affine *out_affine);
/* The sum as an expression. */
ig_x ig_affine_x(struct ig_loops *k, const struct ig_affine *affine);
/* The factor of `atom`; constant 0 if it does not occur. */
ig_dim ig_affine_factor(struct ig_loops *k, const struct ig_affine *affine, ig_x atom);
/* Does x depend on `what` other than linearly, by a term of the sum? */
bool ig_affine_entangled(struct ig_loops *k, const struct ig_affine *affine, ig_x what);
/* Bounds over all values of the loop variables: *out_lo <= x <= *out_hi; IG_DIM_NONE if unknown. */
void ig_x_bounds(struct ig_loops *k, ig_x x, ig_dim *out_lo, ig_dim *out_hi);
/* Does `what` occur in x? */
bool ig_x_contains(const struct ig_loops *k, ig_x x, ig_x what);

/* For loop.c: hash-conses a node without simplifying it. */
ig_x ig_x_node_add(struct ig_loops *k, const struct ig_x_node *node);

#endif
