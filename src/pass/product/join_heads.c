/*
 * join-heads: on GPUs, heads of linear attentions that are no whole loads become one product of all heads' columns.
 *
 * Requires:   canonicalize; before move-views, which cancels the transposes made here with those that made the heads.
 * Guarantees: queries times the product of transposed keys and values, each of few columns ("linear attention", Katharopoulos et al., 2020;
 *             factorised, Xu et al., 2021), are two products whose rows hold all heads beside each other: of keys and values, which yields
 *             what every head's keys make with every head's values, and of queries by that with zeros outside the blocks of one head. The
 *             sums get zeros as further terms, so results are the same where queries are finite; where one is not, the other heads of
 *             its row become NaN, too.
 *
 * Heads of 19 columns lie 38 bytes apart, which threads load in pieces of two bytes; a row of eight of them is 19 loads. That the products
 * have as many times as many steps as there are heads, takes tensor cores less time than memory takes for the rows, up to MOST_COLUMNS; not
 * other units, so only products of narrow operands are rewritten.
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "pass/view/view.h"

enum { LOAD = 16 /* bytes */, MOST_COLUMNS = 256 /* of all heads */ };

/* queries * (factor * (keys * values)): operands of [images..., heads, rows, columns] in the new graph, keys transposed. */
struct heads {
    ig_value queries, keys, values;
    struct ig_node inner; /* the product of keys and values */
    double factor;
    int rank;
    int64_t count, depth, columns; /* heads; columns of a head's queries, and of its values */
};

static bool is_plain_product(struct ig_graph *g, const struct ig_node *n, int rank) {
    const struct ig_type *a = ig_type_of(g, n->in[0]), *b = ig_type_of(g, n->in[1]);
    bool plain = n->op == IG_OP_matmul && n->n_in == 2 && a->rank == rank && b->rank == rank &&
                 ig_attr_int(g, n, IG_ATTR_packed) == 0 && !ig_info(g, n->in[1])->is_const;
    for (int i = 0; plain && i < rank - 2; i++)
        plain = a->dim[i] == b->dim[i];
    return plain;
}

/* Does nothing else read the product below v, of which the old graph knows? */
static bool is_read_once(const struct ig_rewriter *rw, ig_value v) {
    struct ig_graph *g = rw->in;
    for (const struct ig_node *n; rw->uses[v] == 1 && (n = ig_def(g, v)) && n->op != IG_OP_matmul;) {
        if (n->op != IG_OP_mul) return false;
        v = n->in[ig_info(g, n->in[0])->is_const];
    }
    return rw->uses[v] == 1;
}

static bool find_heads(struct ig_graph *g, const struct ig_node *n, const ig_value *in, struct heads *out) {
    ig_value product = in[1];
    const int rank = ig_type_of(g, in[0])->rank;
    *out = (struct heads){.queries = in[0], .factor = 1, .rank = rank};
    for (double factor; ig_match_with_scalar(g, product, IG_OP_mul, &product, &factor);)
        out->factor *= factor;
    const struct ig_node *inner = ig_def_op(g, product, IG_OP_matmul);
    if (n->n_in != 2 || rank < 3 || ig_type_of(g, in[1])->rank != rank || !inner || !is_plain_product(g, inner, rank))
        return false;
    out->inner = *inner;
    out->keys = inner->in[0];
    out->values = inner->in[1];
    const struct ig_type *q = ig_type_of(g, in[0]), *v = ig_type_of(g, out->values);
    for (int i = 0; i < rank - 2; i++) {
        if (q->dim[i] != v->dim[i]) return false;
    }
    return q->dtype == v->dtype && ig_dim_is_const(g->dims, q->dim[rank - 3], &out->count) &&
           ig_dim_is_const(g->dims, q->dim[rank - 1], &out->depth) &&
           ig_dim_is_const(g->dims, v->dim[rank - 1], &out->columns);
}

/* Do heads by themselves lack whole loads, which all of a row together have, and are they few? */
static bool pays(const struct heads *h) {
    const int64_t load = LOAD / 2;
    bool whole = h->depth % load == 0 && h->columns % load == 0;
    return h->count > 1 && !whole && h->count * h->depth % load == 0 && h->count * h->columns % load == 0 &&
           h->count * h->depth <= MOST_COLUMNS && h->count * h->columns <= MOST_COLUMNS;
}

/* Exchanges heads and rows, or rows and heads. */
static ig_value exchange(struct ig_graph *g, ig_value v) {
    const int rank = ig_type_of(g, v)->rank;
    int64_t perm[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 3] = rank - 2;
    perm[rank - 2] = rank - 3;
    return ig_view_transpose(g, v, perm);
}

/* [images..., heads, rows, columns] as [images..., rows, heads * columns]. */
static ig_value join(struct ig_graph *g, ig_value v) {
    v = exchange(g, v);
    struct ig_type type = *ig_type_of(g, v);
    const int rank = type.rank;
    type.dim[rank - 2] = ig_dim_mul(g->dims, type.dim[rank - 2], type.dim[rank - 1]);
    return ig_view_reshape(g, v, type.dim, rank - 1);
}

/* The inverse of join. */
static ig_value part(struct ig_graph *g, ig_value v, const struct heads *h) {
    struct ig_type type = *ig_type_of(g, v);
    type.dim[h->rank - 2] = ig_dim_const(g->dims, h->count);
    type.dim[h->rank - 1] = ig_dim_const(g->dims, h->columns);
    return exchange(g, ig_view_reshape(g, v, type.dim, h->rank));
}

/* [heads * depth, heads * columns]: is this within one head? */
static ig_value blocks(struct ig_graph *g, const struct heads *h) {
    const int64_t dims[] = {h->count * h->depth, h->count * h->columns};
    bool *at = IG_NEW_ARRAY(g->job, bool, dims[0] * dims[1]);
    for (int64_t i = 0; i < dims[0]; i++) {
        for (int64_t j = 0; j < dims[1]; j++)
            at[i * dims[1] + j] = i / h->depth == j / h->columns;
    }
    struct ig_data *data = IG_NEW(g->job, struct ig_data);
    *data = (struct ig_data){.bytes = at, .size = (size_t)(dims[0] * dims[1]) * sizeof *at};
    return ig_build_constant(g, INGOT_BOOL, 2, dims, data);
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct heads h;
    if (n->op != IG_OP_matmul || !is_read_once(rw, n->in[1]) || !find_heads(g, n, in, &h) || !pays(&h)) return false;
    const enum ingot_dtype dtype = ig_type_of(g, h.queries)->dtype;
    if (!ig_precision_is_half(rw->options->precisions, n, dtype) ||
        !ig_precision_is_half(rw->options->precisions, &h.inner, dtype))
        return false;
    struct ig_type type = *ig_type_of(g, h.keys);
    type.dim[h.rank - 3] = ig_dim_const(g->dims, h.count * h.depth);
    type.dim[h.rank - 2] = type.dim[h.rank - 1];
    const ig_value operands[] = {ig_view_reshape(g, h.keys, type.dim, h.rank - 1), join(g, h.values)};
    ig_value all = ig_build_copy(g, g, &h.inner, operands);
    if (h.factor != 1) all = ig_map2(g, IG_OP_mul, all, ig_scalar_like(g, all, h.factor));
    const ig_value rows[] = {join(g, h.queries), ig_build_where(g, blocks(g, &h), all, ig_scalar_like(g, all, 0))};
    out_values[0] = part(g, ig_build_copy(g, rw->in, n, rows), &h);
    return true;
}

struct ig_graph *ig_pass_join_heads(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_target_is_cuda(options->target) ? ig_rewrite(in, options, rewrite, NULL) : in;
}
