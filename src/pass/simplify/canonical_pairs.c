/*
 * A rule of canonicalize for elements that are taken apart and put together again with the two of each pair exchanged, as
 * rotary embeddings of neighbours do (Su et al. 2021): a stack of x[…, 1::2] and x[…, 0::2], one of them perhaps negated, as one
 * axis. It is a view of x: pairs as an axis of their own, read backwards, and a sign that depends on the position. So what
 * reads it computes it, where a concatenation would be stored first.
 */
#include <string.h>

#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

enum { DEEPEST = 4 };

/* Every second element of x along the last axis. */
struct half {
    ig_value slice; /* a slice of x */
    bool negated;
};

/* Finds the half beneath a reshape and a negation, in either order. */
static bool find_half(struct ig_graph *g, ig_value v, struct half *out_half) {
    *out_half = (struct half){.slice = v};
    for (int depth = 0; depth < DEEPEST; depth++) {
        const struct ig_node *n = ig_def(g, out_half->slice);
        if (!n || ig_info(g, out_half->slice)->is_const) return false;
        if (n->op == IG_OP_slice) return true;
        if (n->op != IG_OP_reshape && n->op != IG_OP_neg) return false;
        out_half->negated ^= n->op == IG_OP_neg;
        out_half->slice = n->in[0];
    }
    return false;
}

/* Do the slices differ in where they begin along the last axis alone, by one, of two steps? */
static bool alternate(struct ig_graph *g, ig_value a, ig_value b, bool *out_backwards) {
    const struct ig_node *x = ig_def(g, a), *y = ig_def(g, b);
    int last = ig_type_of(g, a)->rank - 1;
    if (last < 0 || x->in[0] != y->in[0]) return false;
    for (int i = 0; i <= last; i++) {
        ig_dim from = ig_attr(g, x, IG_ATTR_starts)->dims[i], to = ig_attr(g, y, IG_ATTR_starts)->dims[i];
        int64_t step = ig_attr(g, x, IG_ATTR_steps)->ints[i];
        if (ig_attr(g, y, IG_ATTR_steps)->ints[i] != step) return false;
        if (ig_attr(g, x, IG_ATTR_sizes)->dims[i] != ig_attr(g, y, IG_ATTR_sizes)->dims[i]) return false;
        if (i < last && from != to) return false;
        if (i < last) continue;
        *out_backwards = ig_dim_is(g->dims, ig_dim_sub(g->dims, from, to), 1);
        return step == 2 && (*out_backwards || ig_dim_is(g->dims, ig_dim_sub(g->dims, to, from), 1));
    }
    return false;
}

/* Both halves, as they lie in x: what a slice of twice the size takes. */
static ig_value both(struct ig_graph *g, ig_value half) {
    const struct ig_node n = *ig_def(g, half);
    int rank = ig_type_of(g, half)->rank;
    ig_dim sizes[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK];
    memcpy(sizes, ig_attr(g, &n, IG_ATTR_sizes)->dims, (size_t)rank * sizeof *sizes);
    memcpy(steps, ig_attr(g, &n, IG_ATTR_steps)->ints, (size_t)rank * sizeof *steps);
    sizes[rank - 1] = ig_dim_mul(g->dims, sizes[rank - 1], ig_dim_const(g->dims, 2));
    steps[rank - 1] = 1;
    return ig_build_slice(g, n.in[0], ig_attr(g, &n, IG_ATTR_starts)->dims, sizes, steps);
}

/* Negates the elements at even or at odd positions of the last axis. */
static ig_value negate_every_second(struct ig_graph *g, ig_value v, bool odd) {
    const struct ig_type type = *ig_type_of(g, v);
    ig_value at = ig_build_iota(g, type.dim + type.rank - 1, 1, 0);
    ig_value parity = ig_map2(g, IG_OP_mod, at, ig_build_scalar_int(g, INGOT_I64, 2));
    ig_value chosen = ig_map2(g, IG_OP_eq, parity, ig_build_scalar_int(g, INGOT_I64, odd));
    return ig_build_where(g, chosen, ig_map1(g, IG_OP_neg, v), v);
}

ig_value ig_canonical_pairs(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    const struct ig_node *stack = ig_def_op(g, in[0], IG_OP_concat);
    const struct ig_type out = *ig_type_of(rw->in, n->out);
    struct half first, second;
    bool backwards;
    if (!stack || rw->uses[n->in[0]] != 1 || stack->n_in != 2) return IG_NO_VALUE;
    struct ig_type type = *ig_type_of(g, in[0]);
    const int last = type.rank - 1;
    if (ig_attr_int(g, stack, IG_ATTR_axis) != last || out.rank != last) return IG_NO_VALUE;
    for (int i = 0; i < 2; i++) {
        if (!ig_dim_is(g->dims, ig_type_of(g, stack->in[i])->dim[last], 1)) return IG_NO_VALUE;
    }
    if (!find_half(g, stack->in[0], &first) || !find_half(g, stack->in[1], &second)) return IG_NO_VALUE;
    if (!alternate(g, first.slice, second.slice, &backwards)) return IG_NO_VALUE;
    ig_value x = both(g, backwards ? second.slice : first.slice);
    if (!ig_same_dims(ig_type_of(g, x), &out)) return IG_NO_VALUE;
    if (backwards) {
        ig_value pairs = ig_build_reshape(g, x, type.dim, type.rank);
        ig_dim one = ig_dim_const(g->dims, 1), two = ig_dim_const(g->dims, 2);
        x = ig_build_reshape(g, ig_build_slice_axis(g, pairs, last, one, two, -1), out.dim, out.rank);
    }
    if (first.negated && second.negated) return ig_map1(g, IG_OP_neg, x);
    return first.negated || second.negated ? negate_every_second(g, x, second.negated) : x;
}
