/*
 * merge-matmul: products of one operand with several weights become one.
 *
 * Requires:   move-views and fold-batch-norm, so that biases directly follow the products.
 * Guarantees: two or more products of the same value with constant matrices, each with or without a bias, that only
 *             views read (the queries, keys and values of attention) become one product with the weights side by side,
 *             and slices of its result. Weights and biases are recipes. Results are the same. So do products with codes in
 *             blocks of one kind.
 *
 * The gain is that the rows of the common operand are read and packed once. If something other than views reads the
 * results, each product keeps that as its epilogue, which gains more.
 */
#include "ir/blocks.h"
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

/* A product that may be merged. */
struct product {
    ig_node_id matmul, sum; /* sum: the addition of the bias, or IG_NO_NODE */
    ig_value x, w, bias;    /* in the old graph */
};

/* What was found in the graph being read, once per graph. */
struct merging {
    struct ig_graph *graph;
    IG_VEC(struct product) products;
    ig_value *instead; /* by old value: its replacement; IG_NO_VALUE: not built yet */
};

/* ---- Finding products -------------------------------------------------------------------------------------------- */

/* By value: its only reader, or IG_NO_NODE; whether all its readers are views. */
struct readers {
    ig_node_id *only;
    bool *by_views;
};

static struct readers find_readers(struct ig_graph *g) {
    struct readers r = {IG_NEW_ARRAY(g->job, ig_node_id, g->values.count + 1),
                        IG_NEW_ARRAY(g->job, bool, g->values.count + 1)};
    const uint32_t *uses = ig_graph_use_counts(g);
    for (uint32_t v = 0; v < g->values.count; v++) {
        r.only[v] = IG_NO_NODE;
        r.by_views[v] = true;
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        bool view = n->op == IG_OP_reshape || n->op == IG_OP_transpose || n->op == IG_OP_slice;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] == IG_NO_VALUE) continue;
            if (uses[n->in[i]] == 1) r.only[n->in[i]] = id;
            if (!view) r.by_views[n->in[i]] = false;
        }
    }
    for (uint32_t i = 0; i < g->outputs.count; i++)
        r.by_views[g->outputs.at[i].value] = false;
    return r;
}

static bool is_bias(const struct ig_graph *g, ig_value v, ig_dim columns) {
    const struct ig_type *type = ig_type_of(g, v);
    return ig_info(g, v)->is_const && type->rank == 1 && type->dim[0] == columns;
}

/* Are all but the first operand matrices in memory that can be joined? */
static bool has_weights(const struct ig_graph *g, const struct ig_node *n) {
    bool coded = n->op == IG_OP_matmul_blocks;
    if ((n->op != IG_OP_matmul && !coded) || ig_info(g, n->out)->is_const) return false;
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE && !ig_info(g, n->in[i])->is_const) return false;
    }
    return ig_type_of(g, n->in[1])->rank == 2 && ig_attr_int(g, n, IG_ATTR_packed) == 0;
}

static ig_dim columns_of(const struct ig_graph *g, const struct ig_node *n) {
    const struct ig_type *type = ig_type_of(g, n->out);
    return type->dim[type->rank - 1];
}

static void find_product(struct merging *m, const struct readers *readers, ig_node_id id) {
    struct ig_graph *g = m->graph;
    const struct ig_node *n = &g->nodes.at[id];
    if (!has_weights(g, n)) return;
    struct product p = {id, IG_NO_NODE, n->in[0], n->in[1], IG_NO_VALUE};
    ig_value result = n->out;
    ig_node_id reader = readers->only[result];
    const struct ig_node *sum = reader == IG_NO_NODE ? NULL : &g->nodes.at[reader];
    if (sum && sum->op == IG_OP_add && sum->in[0] == result && is_bias(g, sum->in[1], columns_of(g, n))) {
        p.sum = reader;
        p.bias = sum->in[1];
        result = sum->out;
    }
    if (readers->by_views[result]) IG_PUSH(g->job, &m->products, p);
}

static void study(struct merging *m, struct ig_graph *g) {
    *m = (struct merging){.graph = g};
    m->instead = IG_NEW_ARRAY(g->job, ig_value, g->values.count + 1);
    for (uint32_t v = 0; v < g->values.count; v++)
        m->instead[v] = IG_NO_VALUE;
    struct readers readers = find_readers(g);
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        find_product(m, &readers, id);
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

/* The old constant in the new graph; copied if the sweep has not reached it yet. */
static ig_value new_constant(struct ig_rewriter *rw, ig_value old) {
    if (rw->map[old] != IG_NO_VALUE) return rw->map[old];
    const struct ig_node *n = ig_def(rw->in, old);
    ig_value *in = IG_NEW_ARRAY(rw->in->job, ig_value, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : new_constant(rw, n->in[i]);
    return ig_build_copy(rw->out, rw->in, n, in) + (old - n->out);
}

/* Do codes mean the same, but for scales and zero points? */
static bool same_codes(const struct ig_graph *g, const struct ig_node *x, const struct ig_node *y) {
    static const enum ig_attr_name names[] = {IG_ATTR_bits, IG_ATTR_block, IG_ATTR_offset};
    for (int i = 0; i < 3; i++) {
        if (ig_attr_int(g, x, names[i]) != ig_attr_int(g, y, names[i])) return false;
    }
    for (uint32_t i = 2; i < 5; i++) {
        ig_value a = i < x->n_in ? x->in[i] : IG_NO_VALUE, b = i < y->n_in ? y->in[i] : IG_NO_VALUE;
        if ((a == IG_NO_VALUE) != (b == IG_NO_VALUE) || (i == 4 && a != b)) return false;
        if (a != IG_NO_VALUE && ig_type_of(g, a)->dtype != ig_type_of(g, b)->dtype) return false;
    }
    return true;
}

static bool mergeable(const struct ig_graph *g, const struct product *a, const struct product *b) {
    const struct ig_node *x = &g->nodes.at[a->matmul], *y = &g->nodes.at[b->matmul];
    return a->x == b->x && (a->sum == IG_NO_NODE) == (b->sum == IG_NO_NODE) &&
           ig_attr_int(g, x, IG_ATTR_acc) == ig_attr_int(g, y, IG_ATTR_acc) &&
           ig_type_of(g, a->w)->dtype == ig_type_of(g, b->w)->dtype && x->op == y->op &&
           (x->op == IG_OP_matmul || same_codes(g, x, y));
}

/* One product with codes for all, side by side. */
static ig_value merge_codes(struct ig_rewriter *rw, const struct merging *m, const struct product **merged, int count,
                            ig_value x, enum ingot_dtype acc) {
    const struct ig_node *first = &m->graph->nodes.at[merged[0]->matmul];
    ig_value joined[5] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    ig_value *parts = IG_NEW_ARRAY(rw->out->job, ig_value, (size_t)count);
    for (uint32_t i = 1; i < first->n_in && i < 4; i++) {
        if (first->in[i] == IG_NO_VALUE) continue;
        for (int p = 0; p < count; p++)
            parts[p] = new_constant(rw, m->graph->nodes.at[merged[p]->matmul].in[i]);
        joined[i] = ig_build_concat(rw->out, parts, count, 0);
    }
    if (first->n_in > 4 && first->in[4] != IG_NO_VALUE) joined[4] = new_constant(rw, first->in[4]);
    struct ig_blocks b = {.codes = joined[1],
                          .scale = joined[2],
                          .zero = joined[3],
                          .table = joined[4],
                          .bits = (int)ig_attr_int(m->graph, first, IG_ATTR_bits),
                          .block = ig_attr_int(m->graph, first, IG_ATTR_block),
                          .offset = ig_attr_int(m->graph, first, IG_ATTR_offset)};
    return ig_build_matmul_blocks(rw->out, x, &b, acc);
}

/* Builds one product for `first` and all that can be merged with it, and for each the slice that replaces it. */
static void merge(struct ig_rewriter *rw, struct merging *m, const struct product *first) {
    struct ig_graph *g = rw->out;
    ig_value *weights = IG_NEW_ARRAY(g->job, ig_value, m->products.count);
    ig_value *biases = IG_NEW_ARRAY(g->job, ig_value, m->products.count);
    const struct product **merged = IG_NEW_ARRAY(g->job, const struct product *, m->products.count);
    int count = 0;
    for (uint32_t i = 0; i < m->products.count; i++) {
        if (mergeable(m->graph, first, &m->products.at[i])) merged[count++] = &m->products.at[i];
    }
    if (count < 2) return;
    bool coded = m->graph->nodes.at[first->matmul].op == IG_OP_matmul_blocks;
    for (int i = 0; i < count; i++) {
        if (!coded) weights[i] = new_constant(rw, merged[i]->w);
        biases[i] = first->sum == IG_NO_NODE ? IG_NO_VALUE : new_constant(rw, merged[i]->bias);
    }
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(m->graph, &m->graph->nodes.at[first->matmul], IG_ATTR_acc);
    ig_value x = rw->map[first->x], product = coded ? merge_codes(rw, m, merged, count, x, acc)
                                                    : ig_build_matmul(g, x, ig_build_concat(g, weights, count, 1), acc);
    ig_value result = product;
    if (first->sum != IG_NO_NODE) result = ig_map2(g, IG_OP_add, product, ig_build_concat(g, biases, count, 0));
    ig_dim start = ig_dim_const(g->dims, 0);
    for (int i = 0; i < count; i++) {
        ig_dim size = columns_of(m->graph, &m->graph->nodes.at[merged[i]->matmul]);
        int axis = ig_type_of(g, result)->rank - 1;
        ig_node_id sum = merged[i]->sum;
        m->instead[m->graph->nodes.at[merged[i]->matmul].out] = ig_build_slice_axis(g, product, axis, start, size, 1);
        if (sum != IG_NO_NODE)
            m->instead[m->graph->nodes.at[sum].out] = ig_build_slice_axis(g, result, axis, start, size, 1);
        start = ig_dim_add(g->dims, start, size);
    }
}

static bool merge_node(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct merging *m = rw->state;
    if (m->graph != rw->in) study(m, rw->in);
    bool product = n->op == IG_OP_matmul || n->op == IG_OP_matmul_blocks;
    for (uint32_t i = 0; product && m->instead[n->out] == IG_NO_VALUE && i < m->products.count; i++) {
        if (m->graph->nodes.at[m->products.at[i].matmul].out == n->out) merge(rw, m, &m->products.at[i]);
    }
    out_values[0] = n->n_out == 1 ? m->instead[n->out] : IG_NO_VALUE;
    return out_values[0] != IG_NO_VALUE;
}

struct ig_graph *ig_pass_merge_matmul(struct ig_graph *in, const struct ig_pass_options *options) {
    struct merging m = {.graph = NULL};
    return ig_rewrite(in, options, merge_node, &m);
}
