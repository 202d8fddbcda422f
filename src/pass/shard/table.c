/* Tables that ranks divide; see table.h. */
#include "pass/shard/table.h"

#include "ir/build.h"

/* A table stays whole where its other parts are less than this share of what a rank reads. */
enum { SMALL = 50 };

struct tables {
    struct ig_graph *g;
    bool *of_products; /* by node: what the weights of products are computed from */
    double weights;    /* bytes of all constants that are read */
};

static double bytes_of(const struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    int64_t dims[INGOT_MAX_RANK];
    double bytes = (double)ingot_dtype_size(type->dtype);
    if (!ig_type_is_static(g->dims, type, dims)) return 0;
    for (int i = 0; i < type->rank; i++)
        bytes *= (double)dims[i];
    return bytes;
}

static bool is_computed(const struct ig_graph *g, const struct ig_node *n) {
    return n->n_out > 0 && !ig_info(g, n->out)->is_const;
}

static void mark(struct tables *t, ig_value v) {
    const ig_node_id id = v == IG_NO_VALUE ? IG_NO_NODE : ig_info(t->g, v)->node;
    if (id == IG_NO_NODE || t->of_products[id]) return;
    t->of_products[id] = true;
    for (uint32_t i = 0; i < t->g->nodes.at[id].n_in; i++)
        mark(t, t->g->nodes.at[id].in[i]);
}

/* Constants come before what reads them, and are counted once. */
static void find_weights(struct tables *t) {
    struct ig_graph *g = t->g;
    bool *counted = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (!is_computed(g, n)) continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const ig_value v = n->in[i];
            if (v == IG_NO_VALUE || !ig_info(g, v)->is_const || counted[v]) continue;
            counted[v] = true;
            t->weights += bytes_of(g, v);
        }
        if (ig_op_info(n->op)->family == IG_FAMILY_CONTRACT && ig_info(g, n->in[1])->is_const) mark(t, n->in[1]);
    }
}

/* Is the constant computed from an initialiser that weights of a product are computed from? */
static bool is_tied(const struct tables *t, ig_value v) {
    const struct ig_node *n = ig_def(t->g, v);
    if (n->n_in == 0) return t->of_products[ig_info(t->g, v)->node];
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE && is_tied(t, n->in[i])) return true;
    }
    return false;
}

uint8_t *ig_shard_tables(struct ig_graph *g, int ranks) {
    struct tables t = {.g = g};
    uint8_t *kinds = IG_NEW_ARRAY(g->job, uint8_t, g->nodes.count + 1);
    t.of_products = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    find_weights(&t);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->op != IG_OP_gather || !is_computed(g, n) || !ig_info(g, n->in[0])->is_const) continue;
        if (bytes_of(g, n->in[0]) * (ranks - 1) * SMALL <= t.weights) continue;
        kinds[id] = is_tied(&t, n->in[0]) ? IG_TABLE_ROWS : IG_TABLE_ANY;
    }
    return kinds;
}

bool ig_shard_divides_table(const struct ig_graph *g, const struct ig_node *gather, const struct ig_division *d,
                            enum ig_shard_table table) {
    if (!d || d->in[0].kind != IG_LAYOUT_SPLIT) return false;
    return table == IG_TABLE_ANY || d->in[0].axis == ig_attr_int(g, gather, IG_ATTR_axis);
}
