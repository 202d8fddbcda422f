/* The rules of canonicalize, by topic. A rule returns IG_NO_VALUE if it does not apply. */
#ifndef IG_PASS_CANONICAL_H
#define IG_PASS_CANONICAL_H

#include "pass/match.h"

/* canonical_arithmetic.c */
ig_value ig_canonical_add(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_sub(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_mul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_div(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_pow(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_negation(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_abs(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

/* canonical_choice.c */
ig_value ig_canonical_clamp(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_where(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_logic(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_compare(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_cast(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

/* canonical_masks.c. A constant whose elements are all the same flag, possibly broadcast. */
bool ig_match_flag(struct ig_graph *g, ig_value v, bool *out_flag);
/* Of a constant mask that is a band about the diagonal, a choice by indices between what it lets through and what it hides; else
 * IG_NO_VALUE. Of floats, such a mask that is added: 0, and less than -2^100. */
ig_value ig_choose_by_band(struct ig_graph *g, ig_value mask, ig_value yes, ig_value no);
ig_value ig_mask_of_band(struct ig_graph *g, ig_value v);

/* canonical_movement.c */
ig_value ig_canonical_slice(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_concat(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_gather(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_gather_nd(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_pad(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_broadcast(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_reshape(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_transpose(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

/* canonical_pairs.c; of reshapes */
ig_value ig_canonical_pairs(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

/* canonical_scatter.c */
ig_value ig_canonical_scatter_nd(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

/* canonical_compute.c */
ig_value ig_canonical_reduce(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_matmul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);
ig_value ig_canonical_pool(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in);

#endif
