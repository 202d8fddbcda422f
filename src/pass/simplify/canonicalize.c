/*
 * canonicalize: reduces equivalent forms to one, and removes arithmetic that has no effect.
 *
 * Requires:   nothing.
 * Guarantees: constants are the right operand of commutative operators; one-element constants in elementwise operators
 *             are of rank 0; no operator is an identity; no elementwise operator reads a broadcast: it is computed
 *             before the broadcast. Results are the same bit for bit, except for the sign of zero, powers by a small
 *             constant (one rounding), the power 0.5 of minus infinity, and merged reductions of reductions.
 *
 * One rule per operator, in a table; the rules are in canonical_*.c. As in LuaJIT's FOLD, a rule looks at the operands'
 * definitions in the new graph and returns another value. Sweeps repeat until nothing changes.
 */
#include "pass/passes.h"
#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

static const ig_rule rules[IG_OP_COUNT] = {
    [IG_OP_add] = ig_canonical_add,
    [IG_OP_sub] = ig_canonical_sub,
    [IG_OP_mul] = ig_canonical_mul,
    [IG_OP_div] = ig_canonical_div,
    [IG_OP_pow] = ig_canonical_pow,
    [IG_OP_neg] = ig_canonical_negation,
    [IG_OP_not] = ig_canonical_negation,
    [IG_OP_bitnot] = ig_canonical_negation,
    [IG_OP_abs] = ig_canonical_abs,
    [IG_OP_min] = ig_canonical_clamp,
    [IG_OP_max] = ig_canonical_clamp,
    [IG_OP_where] = ig_canonical_where,
    [IG_OP_and] = ig_canonical_logic,
    [IG_OP_or] = ig_canonical_logic,
    [IG_OP_lt] = ig_canonical_compare,
    [IG_OP_le] = ig_canonical_compare,
    [IG_OP_cast] = ig_canonical_cast,
    [IG_OP_slice] = ig_canonical_slice,
    [IG_OP_concat] = ig_canonical_concat,
    [IG_OP_gather] = ig_canonical_gather,
    [IG_OP_gather_nd] = ig_canonical_gather_nd,
    [IG_OP_scatter_nd] = ig_canonical_scatter_nd,
    [IG_OP_pad] = ig_canonical_pad,
    [IG_OP_broadcast] = ig_canonical_broadcast,
    [IG_OP_reshape] = ig_canonical_reshape,
    [IG_OP_transpose] = ig_canonical_transpose,
    [IG_OP_reduce_sum] = ig_canonical_reduce,
    [IG_OP_reduce_mean] = ig_canonical_reduce,
    [IG_OP_reduce_prod] = ig_canonical_reduce,
    [IG_OP_reduce_max] = ig_canonical_reduce,
    [IG_OP_reduce_min] = ig_canonical_reduce,
    [IG_OP_matmul] = ig_canonical_matmul,
    [IG_OP_conv] = ig_canonical_conv,
    [IG_OP_pool_max] = ig_canonical_pool,
    [IG_OP_pool_avg] = ig_canonical_pool,
    [IG_OP_pool_sum] = ig_canonical_pool,
};

/* Strips broadcasts off an operand of an elementwise node, so that the node computes equal elements once and its result
 * is broadcast; turns a one-element constant into a scalar. */
static ig_value plain_operand(struct ig_graph *g, ig_value v) {
    const struct ig_node *wide;
    while ((wide = ig_def_op(g, v, IG_OP_broadcast)))
        v = wide->in[0];
    struct ig_type type = *ig_type_of(g, v);
    bool single = ig_info(g, v)->is_const && type.rank > 0 && ig_type_is_single(g->dims, &type);
    return single ? ig_view_reshape(g, v, type.dim, 0) : v;
}

/* Returns true if an operand changed. */
static bool plain_operands(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_in) {
    bool changed = false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        out_in[i] = plain_operand(rw->out, in[i]);
        changed |= out_in[i] != in[i];
    }
    return changed;
}

static bool canonicalize(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    ig_value operands[3];
    bool changed = false;
    if (ig_op_info(n->op)->is_map || n->op == IG_OP_where || n->op == IG_OP_cast) {
        changed = plain_operands(rw, n, in, operands);
        in = operands;
    }
    ig_value v = rules[n->op] ? rules[n->op](rw, n, in) : IG_NO_VALUE;
    if (v == IG_NO_VALUE && changed) v = ig_build_copy(rw->out, rw->in, n, in);
    if (v != IG_NO_VALUE) v = ig_fit_result(rw, n, v);
    out_values[0] = v;
    return v != IG_NO_VALUE;
}

struct ig_graph *ig_pass_canonicalize(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite_until_stable(in, options, canonicalize, NULL, 8);
}
