/*
 * Index arithmetic in canonical form: a sum of atoms times symbolic factors plus a symbolic constant, where an atom is
 * a loop variable or anything that is not a sum (a loaded index, a quotient). Equal indices are equal expressions, and
 * the ranges of the loop variables show which clamps, quotients and remainders are not needed.
 */
#ifndef IG_KERNEL_AFFINE_H
#define IG_KERNEL_AFFINE_H

#include "kernel/loop.h"

#define IG_AFFINE_TERMS 24

struct ig_affine_term {
    ig_x atom;
    ig_dim factor;
};
/* Terms in the order of their atoms, which is that of the loops from outermost to innermost. */
struct ig_affine {
    int count;
    struct ig_affine_term term[IG_AFFINE_TERMS];
    ig_dim constant;
};

/* x, of type i64, as a sum; what is not a sum is an atom of its own. */
void ig_affine_of(struct ig_loops *k, ig_x x, struct ig_affine *out_affine);
/* The expression of a sum. */
ig_x ig_affine_x(struct ig_loops *k, const struct ig_affine *affine);
/* The factor of an atom; the constant 0 where it does not occur. */
ig_dim ig_affine_factor(struct ig_loops *k, const struct ig_affine *affine, ig_x atom);
/* True where x depends on `what` other than as a term of the sum. */
bool ig_affine_entangled(struct ig_loops *k, const struct ig_affine *affine, ig_x what);
/* Bounds that hold for all values of the loop variables: *out_lo <= x <= *out_hi; IG_DIM_NONE where not known. */
void ig_x_bounds(struct ig_loops *k, ig_x x, ig_dim *out_lo, ig_dim *out_hi);
/* True where `what` occurs in x. */
bool ig_x_contains(const struct ig_loops *k, ig_x x, ig_x what);

/* For loop.c: a node as it is, hash-consed. */
ig_x ig_x_node_add(struct ig_loops *k, const struct ig_x_node *node);

#endif
