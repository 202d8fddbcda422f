/*
 * merge-matmul: products of one operand with several weights become one.
 *
 * Requires:   move-views and fold-batch-norm, so that biases directly follow the products.
 * Guarantees: two or more products of the same value with constant matrices, each with or without a bias, that only
 *             views read (the queries, keys and values of attention) become one product with the weights side by side,
 *             and slices of its result. Weights and biases are recipes. Results are the same.
 *
 * The gain is that the rows of the common operand are read and packed once. If something other than views reads the
 * results, each product keeps that as its epilogue, which gains more.
 */
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

static void find_product(struct merging *m, const struct readers *readers, ig_node_id id) {
    struct ig_graph *g = m->graph;
    const struct ig_node *n = &g->nodes.at[id];
    if (n->op != IG_OP_matmul || ig_info(g, n->out)->is_const || !ig_info(g, n->in[1])->is_const) return;
    if (ig_type_of(g, n->in[1])->rank != 2 || ig_attr_int(g, n, IG_ATTR_packed) != 0) return;
    struct product p = {id, IG_NO_NODE, n->in[0], n->in[1], IG_NO_VALUE};
    ig_value result = n->out;
    ig_node_id reader = readers->only[result];
    const struct ig_node *sum = reader == IG_NO_NODE ? NULL : &g->nodes.at[reader];
    if (sum && sum->op == IG_OP_add && sum->in[0] == result &&
        is_bias(g, sum->in[1], ig_type_of(g, n->in[1])->dim[1])) {
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

static bool mergeable(const struct ig_graph *g, const struct product *a, const struct product *b) {
    const struct ig_node *x = &g->nodes.at[a->matmul], *y = &g->nodes.at[b->matmul];
    return a->x == b->x && (a->sum == IG_NO_NODE) == (b->sum == IG_NO_NODE) &&
           ig_attr_int(g, x, IG_ATTR_acc) == ig_attr_int(g, y, IG_ATTR_acc) &&
           ig_type_of(g, a->w)->dtype == ig_type_of(g, b->w)->dtype;
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
    for (int i = 0; i < count; i++) {
        weights[i] = new_constant(rw, merged[i]->w);
        biases[i] = first->sum == IG_NO_NODE ? IG_NO_VALUE : new_constant(rw, merged[i]->bias);
    }
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(m->graph, &m->graph->nodes.at[first->matmul], IG_ATTR_acc);
    ig_value product = ig_build_matmul(g, rw->map[first->x], ig_build_concat(g, weights, count, 1), acc);
    ig_value result = product;
    if (first->sum != IG_NO_NODE) result = ig_map2(g, IG_OP_add, product, ig_build_concat(g, biases, count, 0));
    ig_dim start = ig_dim_const(g->dims, 0);
    for (int i = 0; i < count; i++) {
        ig_dim size = ig_type_of(g, weights[i])->dim[1];
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
    for (uint32_t i = 0; n->op == IG_OP_matmul && m->instead[n->out] == IG_NO_VALUE && i < m->products.count; i++) {
        if (m->graph->nodes.at[m->products.at[i].matmul].out == n->out) merge(rw, m, &m->products.at[i]);
    }
    out_values[0] = n->n_out == 1 ? m->instead[n->out] : IG_NO_VALUE;
    return out_values[0] != IG_NO_VALUE;
}

struct ig_graph *ig_pass_merge_matmul(struct ig_graph *in, const struct ig_pass_options *options) {
    struct merging m = {.graph = NULL};
    return ig_rewrite(in, options, merge_node, &m);
}
