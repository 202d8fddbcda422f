/*
 * group-heads: the queries of heads that share their keys and values become rows of one product.
 *
 * Requires:   the final order of axes (after join-transposes); before precision and fuse.
 * Guarantees: an attention of one query a head (one token of a decoder) whose keys and values are the same for groups of
 *             heads ("grouped-query attention", Ainslie et al. 2023; "multi-query": Shazeer 2019) reads each of them
 *             once: [.., heads, 1, depth] becomes [.., groups, heads / groups, depth], and the keys and values are no
 *             longer repeated. Reshapes are free, so the rest of the graph sees the same values.
 *
 * With more queries a head, masks would have to be repeated instead; there repeated keys are read through the views.
 */
#include <stdlib.h>

#include "ir/attend.h"
#include "pass/passes.h"
#include "pass/view/view.h"

struct grouping {
    struct ig_rewriter *rw;
    struct ig_attend a;
    struct ig_map built; /* old value -> folded value */
    int64_t heads, each; /* each: heads that share keys */
};

static bool is_equal(const struct ig_graph *g, ig_dim a, ig_dim b) {
    return ig_dim_equal(g->dims, a, b) == IG_YES;
}

/* The only axis along which the broadcast repeats its operand, by how often; -1: there is none. */
static int repeated_axis(const struct ig_graph *g, const struct ig_node *broadcast, int64_t *out_each) {
    const struct ig_type *from = ig_type_of(g, broadcast->in[0]), *to = ig_type_of(g, broadcast->out);
    int found = -1;
    for (int i = 0; i < to->rank; i++) {
        int j = i - (to->rank - from->rank);
        if (j >= 0 ? is_equal(g, from->dim[j], to->dim[i]) : ig_dim_is(g->dims, to->dim[i], 1)) continue;
        if (found >= 0 || (j >= 0 && !ig_dim_is(g->dims, from->dim[j], 1))) return -1;
        if (!ig_dim_is_const(g->dims, to->dim[i], out_each)) return -1;
        found = i;
    }
    return found;
}

/* If v, [.., heads, m, n], consists of matrices each of which is repeated for several heads in a row, returns a value
 * with the elements of [.., heads / each, m, n]. */
static ig_value match_repeated(const struct grouping *s, ig_value v, int64_t *out_each) {
    struct ig_graph *g = s->rw->in;
    struct ig_dims *dims = g->dims;
    const struct ig_type *type = ig_type_of(g, v);
    int head = type->rank - 3;
    int64_t heads;
    if (head < 0 || !ig_dim_is_const(dims, type->dim[head], &heads)) return IG_NO_VALUE;
    if (heads == 1) {
        *out_each = s->heads; /* the product itself repeats it */
        return v;
    }
    const struct ig_node *n = ig_def(g, v);
    while (n && n->op == IG_OP_reshape)
        n = ig_def(g, n->in[0]);
    if (!n || n->op != IG_OP_broadcast || ig_info(g, v)->is_const) return IG_NO_VALUE;
    int axis = repeated_axis(g, n, out_each);
    if (axis < 0 || heads % *out_each) return IG_NO_VALUE;
    const struct ig_type *to = ig_type_of(g, n->out);
    ig_dim groups = ig_dim_const(dims, heads / *out_each);
    ig_dim before = ig_dim_mul(dims, ig_dim_product(dims, type->dim, head), groups);
    bool fits = is_equal(g, before, ig_dim_product(dims, to->dim, axis)) &&
                is_equal(g, ig_dim_mul(dims, type->dim[head + 1], type->dim[head + 2]),
                         ig_dim_product(dims, to->dim + axis + 1, to->rank - axis - 1));
    return fits ? n->in[0] : IG_NO_VALUE;
}

/* Does perm exchange the last two axes and nothing else? */
static bool exchanges_last(const struct ig_attr *perm) {
    for (int i = 0; i < perm->count - 2; i++) {
        if (perm->ints[i] != i) return false;
    }
    return perm->count >= 2 && perm->ints[perm->count - 1] == perm->count - 2;
}

/* Builds the keys or values `v` without repetitions, or returns IG_NO_VALUE. */
static ig_value single(struct grouping *s, ig_value v, int64_t *out_each) {
    struct ig_graph *g = s->rw->in, *out = s->rw->out;
    const struct ig_node *order = ig_def_op(g, v, IG_OP_transpose);
    bool exchanged = order && exchanges_last(ig_attr(g, order, IG_ATTR_perm));
    ig_value from = exchanged ? order->in[0] : v, base = match_repeated(s, from, out_each);
    if (base == IG_NO_VALUE) return IG_NO_VALUE;
    struct ig_type type = *ig_type_of(g, from);
    type.dim[type.rank - 3] = ig_dim_const(g->dims, s->heads / *out_each);
    ig_value x = ig_view_reshape(out, s->rw->map[base], type.dim, type.rank);
    return exchanged ? ig_view_transpose(out, x, ig_attr(g, order, IG_ATTR_perm)->ints) : x;
}

/* An old value of the scores' shape, or one that is broadcast to it, in the shape of the folded scores: IG_NO_VALUE if
 * that needs more than a reshape. */
static ig_value folded(struct grouping *s, ig_value v) {
    struct ig_graph *g = s->rw->in;
    struct ig_type type = *ig_type_of(g, v);
    ig_value new = s->rw->map[v];
    int64_t heads;
    if (type.rank >= 2 && !ig_dim_is(g->dims, type.dim[type.rank - 2], 1)) return IG_NO_VALUE;
    if (type.rank < 3) return new;
    if (!ig_dim_is_const(g->dims, type.dim[type.rank - 3], &heads)) return IG_NO_VALUE;
    if (heads == 1) return new;
    type.dim[type.rank - 3] = ig_dim_const(g->dims, s->heads / s->each);
    type.dim[type.rank - 2] = ig_dim_const(g->dims, s->each);
    return heads == s->heads ? ig_view_reshape(s->rw->out, new, type.dim, type.rank) : IG_NO_VALUE;
}

static ig_value folded_operand(struct grouping *s, ig_value v) {
    uint32_t built;
    return ig_map_get(&s->built, &v, sizeof v, &built) ? built : folded(s, v);
}

static int compare_ids(const void *a, const void *b) {
    ig_node_id x = *(const ig_node_id *)a, y = *(const ig_node_id *)b;
    return (x > y) - (x < y);
}

/* Builds everything from the scores to the weights in the folded shape. */
static bool fold_weights(struct grouping *s, ig_value keys) {
    struct ig_graph *g = s->rw->in;
    qsort(s->a.nodes.at, s->a.nodes.count, sizeof *s->a.nodes.at, compare_ids);
    for (uint32_t i = 0; i < s->a.nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[s->a.nodes.at[i]];
        ig_value in[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
        IG_ASSERT(g->job, n->n_in <= 3);
        for (uint32_t j = 0; j < n->n_in; j++) {
            in[j] = s->a.nodes.at[i] == s->a.scores && j == 1 ? keys : folded_operand(s, n->in[j]);
            if (in[j] == IG_NO_VALUE) return false;
        }
        ig_value new = ig_build_copy(s->rw->out, g, n, in);
        ig_map_put(&s->built, &n->out, sizeof n->out, new);
    }
    return true;
}

/* Finds how many heads there are; false if they have several queries each. */
static bool has_single_queries(struct grouping *s) {
    const struct ig_graph *g = s->rw->in;
    const struct ig_type *type = ig_type_of(g, g->nodes.at[s->a.scores].out);
    const struct ig_type *queries = ig_type_of(g, g->nodes.at[s->a.scores].in[0]);
    return type->rank >= 3 && queries->rank == type->rank && ig_dim_is(g->dims, type->dim[type->rank - 2], 1) &&
           ig_dim_is_const(g->dims, type->dim[type->rank - 3], &s->heads) && s->heads > 1 &&
           ig_dim_is(g->dims, queries->dim[type->rank - 3], s->heads);
}

static bool group(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct grouping s = {.rw = rw};
    struct ig_graph *g = rw->in;
    int64_t each = 0;
    (void)in;
    if (n->op != IG_OP_matmul || ig_info(g, n->out)->is_const) return false;
    if (!ig_attend_match(g, rw->uses, ig_info(g, n->out)->node, &s.a) || !has_single_queries(&s)) return false;
    ig_map_init(&s.built, g->job);
    ig_value keys = single(&s, g->nodes.at[s.a.scores].in[1], &s.each);
    ig_value values = keys == IG_NO_VALUE ? IG_NO_VALUE : single(&s, n->in[1], &each);
    if (values == IG_NO_VALUE || each != s.each || !fold_weights(&s, keys)) return false;
    ig_value operands[3] = {folded_operand(&s, n->in[0]), values, IG_NO_VALUE};
    if (n->n_in > 2 || operands[0] == IG_NO_VALUE) return false;
    const struct ig_type type = *ig_type_of(g, n->out);
    ig_value product = ig_build_copy(rw->out, g, n, operands);
    out_values[0] = ig_view_reshape(rw->out, product, type.dim, type.rank);
    return true;
}

struct ig_graph *ig_pass_group_heads(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, group, NULL);
}
