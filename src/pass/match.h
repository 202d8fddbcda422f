/* Looking at values of a graph under construction: what rules ask before they fire. */
#ifndef IG_PASS_MATCH_H
#define IG_PASS_MATCH_H

#include "ir/build.h"
#include "pass/pass.h"

/* A constant of one element, whatever its rank, possibly broadcast. */
bool ig_match_scalar(struct ig_graph *g, ig_value v, double *out_value);
/* … of exactly that value. */
bool ig_match_value(struct ig_graph *g, ig_value v, double value);
/* A scalar of the type of `like`. */
ig_value ig_scalar_like(struct ig_graph *g, ig_value like, double value);

/* op(x, scalar), in either order where op commutes: x and the scalar. */
bool ig_match_with_scalar(struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, double *out_scalar);
/* op(x): x. */
bool ig_match_unary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x);
/* op(x, y) in this order. */
bool ig_match_binary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, ig_value *out_y);

/* `value` brought to the type of the old node's result: itself, broadcast, or IG_NO_VALUE where the element types
 * differ. */
ig_value ig_fit_result(struct ig_rewriter *rw, const struct ig_node *node, ig_value value);

/* Bounds of all elements that are not NaN; infinities where nothing is known. */
void ig_value_bounds(struct ig_graph *g, ig_value v, double *out_lo, double *out_hi);

/* A rule: the value to take instead of the node's, or IG_NO_VALUE. `in` are its operands in rw->out. */
typedef ig_value (*ig_rule)(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in);

#endif
