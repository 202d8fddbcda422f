/*
 * Rules of canonicalize for sums, products and powers.
 */
#include <math.h>
#include <stdlib.h>

#include "pass/bounds.h"
#include "pass/simplify/canonical.h"

static bool is_float(struct ig_graph *g, ig_value v) {
    return ig_dtype_is_float(ig_type_of(g, v)->dtype);
}

/* op(c, x) as op(x, c). */
static ig_value constant_right(struct ig_graph *g, enum ig_op op, const ig_value *in) {
    bool swap = ig_info(g, in[0])->is_const && !ig_info(g, in[1])->is_const;
    return swap ? ig_map2(g, op, in[1], in[0]) : IG_NO_VALUE;
}

ig_value ig_canonical_add(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x;
    if (ig_match_value(g, in[1], 0)) return in[0];
    if (ig_match_value(g, in[0], 0)) return in[1];
    if (ig_match_unary(g, in[1], IG_OP_neg, &x) && !ig_info(g, x)->is_const) return ig_map2(g, IG_OP_sub, in[0], x);
    if (ig_match_unary(g, in[0], IG_OP_neg, &x) && !ig_info(g, x)->is_const) return ig_map2(g, IG_OP_sub, in[1], x);
    for (int i = 0; i < 2; i++) {
        if ((x = ig_mask_of_band(g, in[i])) != IG_NO_VALUE) return ig_map2(g, IG_OP_add, in[1 - i], x);
    }
    return constant_right(g, n->op, in);
}

ig_value ig_canonical_sub(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x;
    if (ig_match_value(g, in[1], 0)) return in[0];
    if (ig_match_value(g, in[0], 0)) return ig_map1(g, IG_OP_neg, in[1]);
    if (ig_match_unary(g, in[1], IG_OP_neg, &x)) return ig_map2(g, IG_OP_add, in[0], x);
    if (!is_float(g, in[0]) || !ig_info(g, in[1])->is_const || ig_info(g, in[0])->is_const) return IG_NO_VALUE;
    return ig_map2(g, IG_OP_add, in[0], ig_map1(g, IG_OP_neg, in[1]));
}

ig_value ig_canonical_mul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x, y;
    if (ig_match_value(g, in[1], 1)) return in[0];
    if (ig_match_value(g, in[0], 1)) return in[1];
    if (ig_match_value(g, in[1], -1) && ig_dtype_is_signed(ig_type_of(g, in[0])->dtype))
        return ig_map1(g, IG_OP_neg, in[0]);
    if (is_float(g, in[0]) && ig_match_value(g, in[1], -1)) return ig_map1(g, IG_OP_neg, in[0]);
    if (!is_float(g, in[0]) && ig_match_value(g, in[1], 0)) return in[1];
    if (ig_match_unary(g, in[0], IG_OP_neg, &x) && ig_match_unary(g, in[1], IG_OP_neg, &y))
        return ig_map2(g, IG_OP_mul, x, y);
    return constant_right(g, n->op, in);
}

/* Division by a power of two is multiplication by its reciprocal, exactly. */
static bool has_exact_reciprocal(enum ingot_dtype dtype, double c) {
    int exponent;
    double limit = dtype == INGOT_F16 ? 14 : 126;
    return fabs(frexp(c, &exponent)) == 0.5 && abs(exponent) < limit;
}

ig_value ig_canonical_div(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    double c;
    if (ig_match_value(g, in[1], 1)) return in[0];
    if (!is_float(g, in[0]) || !ig_match_scalar(g, in[1], &c)) return IG_NO_VALUE;
    if (!has_exact_reciprocal(ig_type_of(g, in[0])->dtype, c)) return IG_NO_VALUE;
    return ig_map2(g, IG_OP_mul, in[0], ig_scalar_like(g, in[0], 1 / c));
}

ig_value ig_canonical_pow(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x = in[0];
    double c;
    if (!ig_match_scalar(g, in[1], &c)) return IG_NO_VALUE;
    if (c == 1) return x;
    if (c == 2 || c == 3 || c == 4) {
        ig_value square = ig_map2(g, IG_OP_mul, x, x);
        return c == 2 ? square : ig_map2(g, IG_OP_mul, square, c == 3 ? x : square);
    }
    if (!is_float(g, x)) return IG_NO_VALUE;
    if (c == 0.5) return ig_map1(g, IG_OP_sqrt, x);
    if (c == -1) return ig_map2(g, IG_OP_div, ig_scalar_like(g, x, 1), x);
    if (c == -0.5) return ig_map2(g, IG_OP_div, ig_scalar_like(g, x, 1), ig_map1(g, IG_OP_sqrt, x));
    return IG_NO_VALUE;
}

ig_value ig_canonical_negation(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x, y;
    if (ig_match_unary(g, in[0], n->op, &x)) return x;
    if (n->op == IG_OP_neg && is_float(g, in[0]) && ig_match_binary(g, in[0], IG_OP_sub, &x, &y))
        return ig_map2(g, IG_OP_sub, y, x);
    if (n->op != IG_OP_not) return IG_NO_VALUE;
    /* Not for floats: neither a < b nor b <= a where one is NaN. */
    if (ig_match_binary(g, in[0], IG_OP_lt, &x, &y) && !is_float(g, x)) return ig_map2(g, IG_OP_le, y, x);
    if (ig_match_binary(g, in[0], IG_OP_le, &x, &y) && !is_float(g, x)) return ig_map2(g, IG_OP_lt, y, x);
    return IG_NO_VALUE;
}

ig_value ig_canonical_abs(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x;
    if (ig_bounds_of(g, in[0]).lo >= 0) return in[0];
    return ig_match_unary(g, in[0], IG_OP_neg, &x) ? ig_map1(g, IG_OP_abs, x) : IG_NO_VALUE;
}
