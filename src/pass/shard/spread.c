/* The layouts that values may have, found by spreading them from seeds through the rules; see search.h. */
#include "ir/build.h"
#include "pass/shard/search.h"

struct reached {
    ig_value value;
    uint8_t layout;
};
struct reader {
    ig_node_id node;
    uint32_t operand;
};
struct readers {
    IG_VEC(struct reader) list;
};

struct spreading {
    struct ig_graph *g;
    int ranks;
    struct ig_shard_space *space;
    struct readers *readers; /* by value */
    IG_VEC(struct reached) queue;
};

/* The number of a layout of a value, which may be a new one; -1: there is no room for it, or a rank would have nothing. */
static int number_of(struct spreading *s, ig_value v, const struct ig_layout *layout) {
    struct ig_value_layouts *all = &s->space->layouts[v];
    if (layout->kind == IG_LAYOUT_WHOLE) return 0;
    if (ig_info(s->g, v)->is_const) return layout->kind == IG_LAYOUT_PARTIAL ? -1 : 0;
    if (!ig_layout_serves(s->g->dims, layout, s->ranks)) return -1;
    for (int i = 0; i < all->count; i++) {
        if (ig_layout_same(&all->at[i], layout)) return i;
    }
    if (all->count == IG_MOST_LAYOUTS) return -1;
    all->at[all->count] = *layout;
    IG_PUSH(s->g->job, &s->queue, ((struct reached){v, (uint8_t)all->count}));
    return all->count++;
}

static bool same_way(const struct ig_node *n, const struct ig_way *a, const struct ig_way *b) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!ig_layout_same(&a->division.in[i], &b->division.in[i])) return false;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!ig_layout_same(&a->division.out[i], &b->division.out[i])) return false;
    }
    return true;
}

/* Asks for the way to divide a node that a layout of one operand or result leads to. */
static void ask(struct spreading *s, ig_node_id id, struct ig_slot_of slot, const struct ig_layout *given) {
    struct ig_job *job = s->g->job;
    const struct ig_node *n = &s->g->nodes.at[id];
    struct ig_node_ways *ways = &s->space->ways[id];
    if (ways->list.count == IG_MOST_WAYS) return;
    struct ig_way w = {.in = IG_NEW_ARRAY(job, uint8_t, n->n_in + 1), .out = IG_NEW_ARRAY(job, uint8_t, n->n_out + 1)};
    w.division.in = IG_NEW_ARRAY(job, struct ig_layout, n->n_in + 1);
    w.division.out = IG_NEW_ARRAY(job, struct ig_layout, n->n_out + 1);
    if (!ig_shard_divide(s->g, n, slot, given, &w.division)) return;
    for (uint32_t i = 0; i < ways->list.count; i++) {
        if (same_way(n, &ways->list.at[i], &w)) return;
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE) continue;
        if (!ig_layout_serves(s->g->dims, &w.division.in[i], s->ranks)) return;
        int number = number_of(s, n->in[i], &w.division.in[i]);
        if (number < 0) return;
        w.in[i] = (uint8_t)number;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        int number = number_of(s, n->out + i, &w.division.out[i]);
        if (number < 0) return;
        w.out[i] = (uint8_t)number;
    }
    IG_PUSH(job, &ways->list, w);
}

static void spread_one(struct spreading *s, const struct reached *r) {
    const struct ig_layout layout = s->space->layouts[r->value].at[r->layout];
    ig_node_id id = ig_info(s->g, r->value)->node;
    if (id != IG_NO_NODE) {
        struct ig_slot_of slot = {.is_result = true, .index = r->value - s->g->nodes.at[id].out};
        ask(s, id, slot, &layout);
    }
    for (uint32_t i = 0; i < s->readers[r->value].list.count; i++) {
        const struct reader *reader = &s->readers[r->value].list.at[i];
        ask(s, reader->node, (struct ig_slot_of){.index = reader->operand}, &layout);
    }
}

/* ---- Seeds ------------------------------------------------------------------------------------------------------- */

static void seed(struct spreading *s, ig_value v, int axis) {
    struct ig_layout layout = ig_layout_along(s->g->dims, ig_type_of(s->g, v), axis);
    number_of(s, v, &layout);
}

/* The columns that a product with weights gives, and the depth that it reads. */
static void seed_product(struct spreading *s, const struct ig_node *n) {
    if (ig_op_info(n->op)->family != IG_FAMILY_CONTRACT || !ig_info(s->g, n->in[1])->is_const) return;
    const struct ig_type *in = ig_type_of(s->g, n->in[0]), *out = ig_type_of(s->g, n->out);
    const int columns = ig_shard_columns(s->g, n);
    seed(s, n->out, columns);
    seed(s, n->in[0], columns == out->rank - 1 ? in->rank - 1 : columns);
}

static void seed_table(struct spreading *s, ig_node_id id, int axis) {
    struct ig_layout layout = ig_layout_along(s->g->dims, ig_type_of(s->g, s->g->nodes.at[id].in[0]), axis);
    ask(s, id, (struct ig_slot_of){.index = 0}, &layout);
}

/* The rows of tables; and what is within them where they may be divided so, or cannot be added up. */
static void seed_tables(struct spreading *s, bool widths) {
    s->space->tables = ig_shard_tables(s->g, s->ranks);
    for (ig_node_id id = 0; id < s->g->nodes.count; id++) {
        const struct ig_node *n = &s->g->nodes.at[id];
        uint8_t *table = &s->space->tables[id];
        if (*table == IG_TABLE_NONE) continue;
        const int axis = (int)ig_attr_int(s->g, n, IG_ATTR_axis), rank = ig_type_of(s->g, n->in[0])->rank;
        s->space->n_untied += *table == IG_TABLE_ANY;
        seed_table(s, id, axis);
        if (s->space->ways[id].list.count > 0 && !widths) *table = IG_TABLE_ROWS;
        if (s->space->ways[id].list.count == 0) *table = IG_TABLE_ANY;
        for (int i = 0; i < rank && *table == IG_TABLE_ANY; i++)
            if (i != axis) seed_table(s, id, i);
    }
}

/* A table that cannot be divided is no matter. */
static void drop_whole_tables(struct spreading *s) {
    for (ig_node_id id = 0; s->space->tables && id < s->g->nodes.count; id++) {
        const struct ig_node_ways *ways = &s->space->ways[id];
        uint8_t *table = &s->space->tables[id];
        bool found = false;
        for (uint32_t i = 0; *table && i < ways->list.count; i++)
            found |= ig_shard_divides_table(s->g, &s->g->nodes.at[id], &ways->list.at[i].division, *table);
        if (!found) *table = IG_TABLE_NONE;
    }
}

/* What is asked of a node: layouts of its result, and of what it multiplies or gathers from. */
static void seed_ask(struct spreading *s, ig_node_id id, const struct ig_shard_ask *ask) {
    const struct ig_node *n = &s->g->nodes.at[id];
    const int rank = ig_type_of(s->g, n->out)->rank, columns = ig_shard_columns(s->g, n);
    for (int axis = 0; axis < rank; axis++) {
        bool asked = ask->how == IG_SHARD_DIVIDED || (ask->how == IG_SHARD_AXIS && axis == ask->axis) ||
                     (ask->how == IG_SHARD_COLUMNS && axis == columns);
        if (asked) seed(s, n->out, axis);
    }
    if (n->op == IG_OP_gather && ask->how == IG_SHARD_ROWS) seed_table(s, id, (int)ig_attr_int(s->g, n, IG_ATTR_axis));
    if (columns < 0 || (ask->how != IG_SHARD_ROWS && ask->how != IG_SHARD_DIVIDED)) return;
    const int in = ig_type_of(s->g, n->in[0])->rank;
    seed(s, n->in[0], columns == rank - 1 ? in - 1 : columns);
}

static void find_readers(struct spreading *s) {
    struct ig_graph *g = s->g;
    s->readers = IG_NEW_ARRAY(g->job, struct readers, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->n_out == 0 || ig_info(g, n->out)->is_const) continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] == IG_NO_VALUE || ig_info(g, n->in[i])->is_const) continue;
            IG_PUSH(g->job, &s->readers[n->in[i]].list, ((struct reader){id, i}));
        }
    }
}

/* ---- Units ------------------------------------------------------------------------------------------------------- */

/* The same axis in larger units: whatever the smaller ones reach, these do too, and heads stay together. */
static bool is_coarser(const struct ig_dims *dims, const struct ig_layout *a, const struct ig_layout *b) {
    int64_t inner, other;
    return a->kind == IG_LAYOUT_SPLIT && b->kind == IG_LAYOUT_SPLIT && a->axis == b->axis && a->outer == b->outer &&
           ig_dim_is_const(dims, a->inner, &inner) && ig_dim_is_const(dims, b->inner, &other) && inner > other &&
           other > 0 && inner % other == 0;
}

static bool has_coarser(const struct spreading *s, ig_value v, int layout) {
    const struct ig_value_layouts *all = &s->space->layouts[v];
    for (int i = 0; i < all->count; i++) {
        if (is_coarser(s->g->dims, &all->at[i], &all->at[layout])) return true;
    }
    return false;
}

static bool is_superseded(const struct spreading *s, const struct ig_node *n, const struct ig_way *w) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (w->in[i] && has_coarser(s, n->in[i], w->in[i])) return true;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (w->out[i] && has_coarser(s, n->out + i, w->out[i])) return true;
    }
    return false;
}

/* Leaves out the ways in smaller units than those that a neighbour demands, which would only crowd the search. */
static void drop_superseded(struct spreading *s) {
    for (ig_node_id id = 0; id < s->g->nodes.count; id++) {
        struct ig_node_ways *ways = &s->space->ways[id];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < ways->list.count; i++) {
            if (!is_superseded(s, &s->g->nodes.at[id], &ways->list.at[i])) ways->list.at[kept++] = ways->list.at[i];
        }
        ways->list.count = kept;
    }
}

void ig_shard_spread(struct ig_graph *g, int ranks, struct ig_shard_seeds seeds, struct ig_shard_space *out_space) {
    struct spreading s = {.g = g, .ranks = ranks, .space = out_space};
    out_space->layouts = IG_NEW_ARRAY(g->job, struct ig_value_layouts, g->values.count + 1);
    out_space->ways = IG_NEW_ARRAY(g->job, struct ig_node_ways, g->nodes.count + 1);
    for (ig_value v = 0; v < g->values.count; v++)
        out_space->layouts[v] = (struct ig_value_layouts){.at = {ig_layout_whole()}, .count = 1};
    find_readers(&s);
    for (ig_node_id id = 0; seeds.asks && seeds.asks->of && id < g->nodes.count; id++) {
        if (seeds.asks->of[id]) seed_ask(&s, id, seeds.asks->of[id]);
    }
    if (seeds.of & IG_SEED_TENSOR) seed_tables(&s, seeds.of & IG_SEED_WIDTHS);
    for (ig_node_id id = 0; (seeds.of & IG_SEED_TENSOR) && id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->n_out > 0 && !ig_info(g, n->out)->is_const) seed_product(&s, n);
    }
    for (uint32_t i = 0; (seeds.of & IG_SEED_BATCH) && i < g->inputs.count; i++) {
        ig_value v = g->inputs.at[i].value;
        if (ig_type_of(g, v)->rank > 0) seed(&s, v, 0);
    }
    for (uint32_t next = 0; next < s.queue.count; next++) {
        const struct reached r = s.queue.at[next];
        spread_one(&s, &r);
    }
    drop_superseded(&s);
    drop_whole_tables(&s);
}
