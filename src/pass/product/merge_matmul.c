/*
 * merge-matmul: products of one operand with several weights become one.
 *
 * Requires:   move-views and fold-batch-norm, so that biases directly follow the products.
 * Guarantees: two or more products of the same value with constant matrices, each with or without a bias, that only
 *             views read (the queries, keys and values of attention) become one product with the weights side by side,
 *             and slices of its result. Weights and biases are recipes. Results are the same. So do products with codes in
 *             blocks of one kind, and those of floats of 8 bits or of bytes with the scales that follow them; where some
 *             have a scale or a bias more, those of the others are 1 and -0.
 *
 * The gain is that the rows of the common operand are read and packed once. If something other than views reads the
 * results, each product keeps that as its epilogue, which gains more.
 */
#include "ir/blocks.h"
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

enum { MOST_STEPS = 4 };

/* A product that may be merged. */
struct product {
    ig_node_id matmul, step[MOST_STEPS]; /* what follows, with constants: the scales of a quantised product, the bias */
    int steps;
    ig_value x, w, constant[MOST_STEPS]; /* in the old graph; IG_NO_VALUE: the step is a cast */
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

/* Is the node that reads a product's result one that the merged product can do for all? */
static bool is_step(const struct ig_graph *g, const struct ig_node *n, ig_value result, ig_dim columns,
                    bool quantized) {
    if (quantized && n->op == IG_OP_cast) return true;
    if ((n->op != IG_OP_add && (n->op != IG_OP_mul || !quantized)) || n->in[0] != result) return false;
    const struct ig_type *type = ig_type_of(g, n->in[1]);
    return is_bias(g, n->in[1], columns) || (quantized && ig_info(g, n->in[1])->is_const && type->rank == 0);
}

static void find_product(struct merging *m, const struct readers *readers, ig_node_id id) {
    struct ig_graph *g = m->graph;
    const struct ig_node *n = &g->nodes.at[id];
    if (!has_weights(g, n)) return;
    struct product p = {.matmul = id, .x = n->in[0], .w = n->in[1]};
    ig_value result = n->out;
    bool quantized = n->op == IG_OP_matmul && ingot_dtype_size(ig_type_of(g, p.w)->dtype) == 1;
    while (p.steps < (quantized ? MOST_STEPS : 1) && readers->only[result] != IG_NO_NODE) {
        ig_node_id reader = readers->only[result];
        const struct ig_node *step = &g->nodes.at[reader];
        if (!is_step(g, step, result, columns_of(g, n), quantized)) break;
        p.constant[p.steps] = step->op == IG_OP_cast ? IG_NO_VALUE : step->in[1];
        p.step[p.steps++] = reader;
        result = step->out;
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

/* Are a's steps the first of b's, and does nothing come of the others where their constants are ones and negative zeros? */
static bool begins_like(const struct ig_graph *g, const struct product *a, const struct product *b) {
    for (int i = 0; i < a->steps && i < b->steps; i++) {
        const struct ig_node *x = &g->nodes.at[a->step[i]], *y = &g->nodes.at[b->step[i]];
        if (x->op != y->op || ig_type_of(g, x->out)->dtype != ig_type_of(g, y->out)->dtype) return false;
    }
    for (int i = a->steps; i < b->steps; i++) {
        if (g->nodes.at[b->step[i]].op == IG_OP_cast) return false;
    }
    return a->steps <= b->steps;
}

/* May a become a part of b? */
static bool mergeable(const struct ig_graph *g, const struct product *a, const struct product *b) {
    const struct ig_node *x = &g->nodes.at[a->matmul], *y = &g->nodes.at[b->matmul];
    if (x->op == IG_OP_matmul && ig_attr_int(g, x, IG_ATTR_math) != ig_attr_int(g, y, IG_ATTR_math)) return false;
    return a->x == b->x && begins_like(g, a, b) && ig_attr_int(g, x, IG_ATTR_acc) == ig_attr_int(g, y, IG_ATTR_acc) &&
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

static ig_value merge_weights(struct ig_rewriter *rw, const struct merging *m, const struct product **merged, int count,
                              ig_value x) {
    const struct ig_node *first = &m->graph->nodes.at[merged[0]->matmul];
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_value *weights = IG_NEW_ARRAY(rw->out->job, ig_value, (size_t)count);
    for (int i = 0; i < count; i++)
        weights[i] = new_constant(rw, merged[i]->w);
    const ig_value in[] = {x, ig_build_concat(rw->out, weights, count, 1)};
    return ig_build_node(rw->out, IG_OP_matmul, in, 2, 1, first->attr, none);
}

/* The step `like` on what all products have become so far, number `i` of those that have one. One number for all columns stays one where
 * all have it. */
static ig_value merge_step(struct ig_rewriter *rw, const struct merging *m, const struct product **merged, int count,
                           int i, const struct ig_node *like, ig_value result) {
    struct ig_graph *g = rw->out;
    if (like->op == IG_OP_cast) return ig_build_copy(g, m->graph, like, &result);
    enum ingot_dtype dtype = ig_type_of(m->graph, like->in[1])->dtype;
    ig_value *constants = IG_NEW_ARRAY(g->job, ig_value, (size_t)count);
    bool same = true;
    for (int p = 0; p < count; p++) {
        constants[p] = i < merged[p]->steps ? new_constant(rw, merged[p]->constant[i])
                                            : ig_build_scalar(g, dtype, like->op == IG_OP_mul ? 1 : -0.0);
        same = same && constants[p] == constants[0];
    }
    if (same && ig_type_of(g, constants[0])->rank == 0) return ig_map2(g, like->op, result, constants[0]);
    for (int p = 0; p < count; p++) {
        ig_dim size = columns_of(m->graph, &m->graph->nodes.at[merged[p]->matmul]);
        if (ig_type_of(g, constants[p])->rank == 0) constants[p] = ig_build_broadcast(g, constants[p], &size, 1);
    }
    return ig_map2(g, like->op, result, ig_build_concat(g, constants, count, 0));
}

/* The slices of `result` that take the place of what the products' nodes gave: the products, or a step, or the last one of those
 * that have fewer. */
static void take_slices(struct ig_rewriter *rw, struct merging *m, const struct product **merged, int count, int step,
                        ig_value result) {
    struct ig_graph *g = rw->out;
    ig_dim start = ig_dim_const(g->dims, 0);
    for (int i = 0; i < count; i++) {
        const struct product *p = merged[i];
        ig_node_id id = step < 0 || p->steps == 0 ? p->matmul : p->step[step < p->steps ? step : p->steps - 1];
        ig_dim size = columns_of(m->graph, &m->graph->nodes.at[p->matmul]);
        int axis = ig_type_of(g, result)->rank - 1;
        m->instead[m->graph->nodes.at[id].out] = ig_build_slice_axis(g, result, axis, start, size, 1);
        start = ig_dim_add(g->dims, start, size);
    }
}

static bool is_merged(const struct merging *m, const struct product *p) {
    return m->instead[m->graph->nodes.at[p->matmul].out] != IG_NO_VALUE;
}

/* Builds one product for `first` and all that can be merged with it, and for each the slice that replaces it. What those have whose
 * steps are the most decides. */
static void merge(struct ig_rewriter *rw, struct merging *m, const struct product *first) {
    struct ig_graph *g = rw->out;
    const struct product **merged = IG_NEW_ARRAY(g->job, const struct product *, m->products.count), *longest = first;
    int count = 0;
    for (uint32_t i = 0; i < m->products.count; i++) {
        const struct product *p = &m->products.at[i];
        if (!is_merged(m, p) && p->steps > longest->steps && mergeable(m->graph, first, p)) longest = p;
    }
    for (uint32_t i = 0; i < m->products.count; i++) {
        const struct product *p = &m->products.at[i];
        if (!is_merged(m, p) && mergeable(m->graph, p, longest)) merged[count++] = p;
    }
    if (count < 2) return;
    bool coded = m->graph->nodes.at[first->matmul].op == IG_OP_matmul_blocks;
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(m->graph, &m->graph->nodes.at[first->matmul], IG_ATTR_acc);
    ig_value x = rw->map[first->x];
    ig_value result = coded ? merge_codes(rw, m, merged, count, x, acc) : merge_weights(rw, m, merged, count, x);
    take_slices(rw, m, merged, count, -1, result);
    for (int i = 0; i < longest->steps; i++) {
        result = merge_step(rw, m, merged, count, i, &m->graph->nodes.at[longest->step[i]], result);
        take_slices(rw, m, merged, count, i, result);
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
