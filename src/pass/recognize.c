/*
 * recognize: rewrites alternative formulas of composed operators to Ingot's own.
 *
 * Requires:   canonicalize (constants on the right, no pow, no double negation).
 * Guarantees: 1 / (1 + exp(-x)) becomes sigmoid(x); the gate of both forms of GELU, (1 + f(u)) * 0.5 in any order of
 *             its factors with x, becomes x * (f(u) * 0.5 + 0.5), and if f is tanh, x * sigmoid(2u). Results agree up
 *             to the rounding of a few operations.
 *
 * Softmax, normalisations, hard sigmoid and the like need no recognition: one kernel family computes any sequence of
 * elementwise steps and reductions (src/kernel/row.c), so however they are written they take one pass over memory.
 */
#include "pass/match.h"
#include "pass/passes.h"

/* 1 + f(u) with f erf or tanh, both odd and bounded by 1. */
static bool match_gate(struct ig_graph *g, ig_value v, enum ig_op *out_f, ig_value *out_fu) {
    double one;
    if (!ig_match_with_scalar(g, v, IG_OP_add, out_fu, &one) || one != 1) return false;
    const struct ig_node *n = ig_def(g, *out_fu);
    if (!n || (n->op != IG_OP_erf && n->op != IG_OP_tanh)) return false;
    *out_f = n->op;
    return true;
}

/* (1 + f(u)) / 2 */
static ig_value half_gate(struct ig_graph *g, enum ig_op f, ig_value fu) {
    if (f == IG_OP_tanh) {
        ig_value u = ig_def(g, fu)->in[0], x;
        double c;
        if (ig_match_with_scalar(g, u, IG_OP_mul, &x, &c))
            u = ig_map2(g, IG_OP_mul, x, ig_scalar_like(g, x, 2 * c));
        else
            u = ig_map2(g, IG_OP_mul, u, ig_scalar_like(g, u, 2));
        return ig_map1(g, IG_OP_sigmoid, u);
    }
    ig_value half = ig_scalar_like(g, fu, 0.5);
    return ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, fu, half), half);
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
    if (n->op == IG_OP_div) v = recognize_quotient(rw->out, in);
    if (v != IG_NO_VALUE) v = ig_fit_result(rw, n, v);
    out_values[0] = v;
    return v != IG_NO_VALUE;
}

struct ig_graph *ig_pass_recognize(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, recognize, NULL);
}
