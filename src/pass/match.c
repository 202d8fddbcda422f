/*
 * Pattern matching on values of a graph under construction; see match.h.
 */
#include "pass/match.h"

#include "ir/eval/eval.h"
#include "pass/view/view.h"

bool ig_match_scalar(struct ig_graph *g, ig_value v, double *out_value) {
    const struct ig_node *wide;
    while (v != IG_NO_VALUE && (wide = ig_def_op(g, v, IG_OP_broadcast)))
        v = wide->in[0];
    return v != IG_NO_VALUE && ig_info(g, v)->is_const && ig_type_is_single(g->dims, ig_type_of(g, v)) &&
           ig_const_scalar(g, v, out_value);
}

bool ig_match_value(struct ig_graph *g, ig_value v, double value) {
    double d;
    return ig_match_scalar(g, v, &d) && d == value;
}

ig_value ig_scalar_like(struct ig_graph *g, ig_value like, double value) {
    return ig_build_scalar(g, ig_type_of(g, like)->dtype, value);
}

bool ig_match_unary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x) {
    const struct ig_node *n = ig_def_op(g, v, op);
    if (n) *out_x = n->in[0];
    return n != NULL;
}

bool ig_match_binary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, ig_value *out_y) {
    const struct ig_node *n = ig_def_op(g, v, op);
    if (!n) return false;
    *out_x = n->in[0];
    *out_y = n->in[1];
    return true;
}

bool ig_match_with_scalar(struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, double *out_scalar) {
    ig_value x, y;
    if (!ig_match_binary(g, v, op, &x, &y)) return false;
    if (ig_match_scalar(g, y, out_scalar)) {
        *out_x = x;
        return true;
    }
    *out_x = y;
    return (op == IG_OP_add || op == IG_OP_mul) && ig_match_scalar(g, x, out_scalar);
}

ig_value ig_fit_result(struct ig_rewriter *rw, const struct ig_node *node, ig_value value) {
    const struct ig_type *want = ig_type_of(rw->in, node->out);
    const struct ig_type *have = ig_type_of(rw->out, value);
    if (want->dtype != have->dtype) return IG_NO_VALUE;
    if (ig_same_dims(want, have)) return value;
    return have->rank <= want->rank ? ig_build_broadcast(rw->out, value, want->dim, want->rank) : IG_NO_VALUE;
}
