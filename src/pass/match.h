/* Pattern matching on values of a graph under construction, for the conditions of rules. */
#ifndef IG_PASS_MATCH_H
#define IG_PASS_MATCH_H

#include "ir/build.h"
#include "pass/pass.h"

/* Matches a one-element constant of any rank, possibly broadcast. */
bool ig_match_scalar(struct ig_graph *g, ig_value v, double *out_value);
/* Matches such a constant with exactly that value. */
bool ig_match_value(struct ig_graph *g, ig_value v, double value);
/* A scalar of the type of `like`. */
ig_value ig_scalar_like(struct ig_graph *g, ig_value like, double value);

/* Matches op(x, scalar), in either order if op commutes; returns x and the scalar. */
bool ig_match_with_scalar(struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, double *out_scalar);
/* Matches op(x); returns x. */
bool ig_match_unary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x);
/* Matches op(x, y) in this order. */
bool ig_match_binary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, ig_value *out_y);

/* Converts `value` to the type of the old node's result: itself, broadcast, or IG_NO_VALUE if the element types
 * differ. */
ig_value ig_fit_result(struct ig_rewriter *rw, const struct ig_node *node, ig_value value);

/* A rule: returns the replacement for the node's value, or IG_NO_VALUE. `in` are its operands in rw->out. */
typedef ig_value (*ig_rule)(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in);

#endif
