/*
 * recognize: rewrites alternative formulas of composed operators to Ingot's own.
 *
 * Requires:   canonicalize (constants on the right, no pow, no double negation).
 * Guarantees: 1 / (1 + exp(-x)) becomes sigmoid(x); the gate of both forms of GELU, (1 + f(u)) * 0.5 in any order of
 *             its factors with x, becomes x * normcdf(u * sqrt 2) if f is erf, and x * sigmoid(2u) if f is tanh. So
 *             GELU is x * normcdf(x). Results agree up to the rounding of a few operations.
 *
 * Softmax, normalisations, hard sigmoid and the like need no recognition: one kernel family computes any sequence of
 * elementwise steps and reductions (src/kernel/family/row.c), so however they are written they take one pass over memory.
 */
#include <math.h>

#include "pass/match.h"
#include "pass/passes.h"

/* f(u) with f erf or tanh, both odd and bounded by 1. */
static bool match_curve(const struct ig_graph *g, ig_value v, enum ig_op *out_f) {
    const struct ig_node *n = ig_def(g, v);
    if (!n || (n->op != IG_OP_erf && n->op != IG_OP_tanh)) return false;
    *out_f = n->op;
    return true;
}

/* 1 + f(u) */
static bool match_gate(struct ig_graph *g, ig_value v, enum ig_op *out_f, ig_value *out_fu) {
    double one;
    return ig_match_with_scalar(g, v, IG_OP_add, out_fu, &one) && one == 1 && match_curve(g, *out_fu, out_f);
}

/* Relative rounding error of constants in models, with a few units of reserve. */
static double rounding_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F64: return 0x1p-50;
    case INGOT_F16: return 0x1p-10;
    case INGOT_BF16: return 0x1p-7;
    default: return 1e-6;
    }
}

/* u * factor. A constant factor or divisor of u is merged with it, unless their product might leave the type's range;
 * if that is 1 but for rounding, nothing remains to be multiplied. */
static ig_value scaled(struct ig_graph *g, ig_value u, double factor) {
    ig_value x;
    double c;
    bool product = ig_match_with_scalar(g, u, IG_OP_mul, &x, &c);
    if (!product && ig_match_with_scalar(g, u, IG_OP_div, &x, &c)) {
        product = true;
        c = 1 / c;
    }
    if (product && fabs(c) > 1e-3 && fabs(c) < 1e3) {
        u = x;
        factor *= c;
    }
    if (fabs(factor - 1) <= rounding_of(ig_type_of(g, u)->dtype)) return u;
    return ig_map2(g, IG_OP_mul, u, ig_scalar_like(g, u, factor));
}

/* (1 + f(u)) / 2 */
static ig_value half_gate(struct ig_graph *g, enum ig_op f, ig_value fu) {
    ig_value u = ig_def(g, fu)->in[0];
    if (f == IG_OP_tanh) return ig_map1(g, IG_OP_sigmoid, scaled(g, u, 2));
    return ig_map1(g, IG_OP_normcdf, scaled(g, u, sqrt(2)));
}

static ig_value recognize_product(struct ig_graph *g, const ig_value *in) {
    enum ig_op f;
    ig_value fu, x;
    double half;
    /* (1 + f(u)) * 0.5 */
    if (ig_match_value(g, in[1], 0.5) && match_gate(g, in[0], &f, &fu)) return half_gate(g, f, fu);
    for (int i = 0; i < 2; i++) {
        ig_value a = in[i], b = in[1 - i], y;
        /* (x * 0.5) * (1 + f(u)) */
        if (ig_match_with_scalar(g, a, IG_OP_mul, &x, &half) && half == 0.5 && match_gate(g, b, &f, &fu))
            return ig_map2(g, IG_OP_mul, x, half_gate(g, f, fu));
        /* (x * (1 + f(u))) * 0.5 */
        if (!ig_match_value(g, b, 0.5) || !ig_match_binary(g, a, IG_OP_mul, &x, &y)) continue;
        if (match_gate(g, y, &f, &fu)) return ig_map2(g, IG_OP_mul, x, half_gate(g, f, fu));
        if (match_gate(g, x, &f, &fu)) return ig_map2(g, IG_OP_mul, y, half_gate(g, f, fu));
    }
    return IG_NO_VALUE;
}

/* f(u) * 0.5 + 0.5 */
static ig_value recognize_sum(struct ig_graph *g, const ig_value *in) {
    enum ig_op f;
    ig_value fu;
    double half;
    if (!ig_match_value(g, in[1], 0.5) || !ig_match_with_scalar(g, in[0], IG_OP_mul, &fu, &half) || half != 0.5)
        return IG_NO_VALUE;
    return match_curve(g, fu, &f) ? half_gate(g, f, fu) : IG_NO_VALUE;
}

static ig_value recognize_quotient(struct ig_graph *g, const ig_value *in) {
    ig_value e, x;
    double one;
    if (!ig_match_value(g, in[0], 1) || !ig_match_with_scalar(g, in[1], IG_OP_add, &e, &one) || one != 1)
        return IG_NO_VALUE;
    if (!ig_match_unary(g, e, IG_OP_exp, &x) || !ig_match_unary(g, x, IG_OP_neg, &x)) return IG_NO_VALUE;
    return ig_map1(g, IG_OP_sigmoid, x);
}

static bool recognize(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    ig_value v = IG_NO_VALUE;
    if (n->op == IG_OP_mul && ig_dtype_is_float(ig_type_of(rw->out, in[0])->dtype)) v = recognize_product(rw->out, in);
    if (n->op == IG_OP_add) v = recognize_sum(rw->out, in);
    if (n->op == IG_OP_div) v = recognize_quotient(rw->out, in);
    if (v != IG_NO_VALUE) v = ig_fit_result(rw, n, v);
    out_values[0] = v;
    return v != IG_NO_VALUE;
}

struct ig_graph *ig_pass_recognize(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, recognize, NULL);
}
