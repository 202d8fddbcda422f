/* Estimates of a rank's memory; see memory.h. */
#include "compile/shard/memory.h"

#include <math.h>

#include "kernel/sizes.h"

/* The layouts in which a value is there. Views share the memory of what they are of. */
struct held {
    IG_VEC(struct ig_layout) list;
    double bytes;    /* of all of them */
    ig_node_id last; /* that reads it, or a view of it */
    ig_value next;   /* that ends with the same node, plus 1 */
};

struct counting {
    struct ig_graph *g;
    const struct ig_shard_plan *plan;
    int rank; /* of a pipeline, whose ranks differ */
    struct ig_sizes at;
    struct held *held; /* by value */
    ig_value *ending;  /* by node: the first value that nothing after it reads, plus 1; the others follow */
    bool narrow;
    struct ig_shard_memory found;
    double now; /* bytes of values */
};

static double bytes_of(const struct counting *c, ig_value v, const struct ig_layout *l) {
    const struct ig_type *type = ig_type_of(c->g, v);
    double size = (double)ingot_dtype_size(type->dtype), part = 1;
    if (c->narrow && type->dtype == INGOT_F32) size = 2;
    if (l->kind == IG_LAYOUT_SPLIT) {
        double count = fmax(1, (double)ig_sizes_guess(&c->at, l->count));
        part = ceil(count / c->plan->ranks) / count;
    }
    return (double)ig_sizes_guess(&c->at, ig_type_elements(c->g->dims, type)) * size * part;
}

/* A layout of a value, unless it is there. */
static void hold(struct counting *c, ig_value v, const struct ig_layout *l, bool shares) {
    struct held *h = &c->held[v];
    for (uint32_t i = 0; i < h->list.count; i++) {
        if (ig_layout_same(&h->list.at[i], l)) return;
    }
    IG_PUSH(c->g->job, &h->list, *l);
    double bytes = shares ? 0 : bytes_of(c, v, l);
    if (ig_info(c->g, v)->is_const) {
        c->found.weights += bytes;
    } else {
        h->bytes += bytes;
        c->now += bytes;
    }
}

static bool is_view(const struct ig_node *n) {
    return n->op == IG_OP_reshape || n->op == IG_OP_transpose || n->op == IG_OP_slice;
}

static void count_node(struct counting *c, ig_node_id id) {
    const struct ig_node *n = &c->g->nodes.at[id];
    const struct ig_division *d = c->plan->divisions[id];
    const struct ig_layout whole = ig_layout_whole();
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) hold(c, n->in[i], d ? &d->in[i] : &whole, false);
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        hold(c, n->out + i, d ? &d->out[i] : &whole, is_view(n));
    c->found.values = fmax(c->found.values, c->now);
    for (ig_value v = c->ending[id]; v; v = c->held[v - 1].next)
        c->now -= c->held[v - 1].bytes;
}

static bool is_computed(const struct ig_graph *g, const struct ig_node *n) {
    return n->n_out > 0 && !ig_info(g, n->out)->is_const;
}

/* What a view is of lives as long as the view; outputs live to the end. */
static void find_ends(struct counting *c) {
    const struct ig_graph *g = c->g;
    for (uint32_t i = 0; i < g->outputs.count; i++)
        c->held[g->outputs.at[i].value].last = g->nodes.count;
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        ig_node_id last = is_view(n) && c->held[n->out].last > id ? c->held[n->out].last : id;
        for (uint32_t i = 0; is_computed(g, n) && i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE && c->held[n->in[i]].last < last) c->held[n->in[i]].last = last;
        }
    }
    for (ig_value v = 0; v < g->values.count; v++) {
        c->held[v].next = c->ending[c->held[v].last];
        c->ending[c->held[v].last] = v + 1;
    }
}

static bool is_here(const struct counting *c, ig_node_id id) {
    const int *places = c->plan->places;
    return !places || places[id] == IG_EVERY_RANK || places[id] == c->rank;
}

static struct ig_shard_memory memory_of_rank(struct ig_graph *g, const struct ig_shard_plan *plan, bool narrow,
                                             int rank) {
    struct counting c = {.g = g, .plan = plan, .rank = rank, .narrow = narrow};
    const struct ig_layout whole = ig_layout_whole();
    ig_sizes_usual(g->dims, g->job, &c.at);
    c.held = IG_NEW_ARRAY(g->job, struct held, g->values.count + 1);
    c.ending = IG_NEW_ARRAY(g->job, ig_value, g->nodes.count + 1);
    find_ends(&c);
    for (uint32_t i = 0; i < g->inputs.count; i++)
        hold(&c, g->inputs.at[i].value, &whole, false);
    c.found.values = c.now;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        if (is_computed(g, &g->nodes.at[id]) && is_here(&c, id)) count_node(&c, id);
    }
    return c.found;
}

struct ig_shard_memory ig_shard_memory_of(struct ig_graph *g, const struct ig_shard_plan *plan, bool narrow) {
    struct ig_shard_memory most = memory_of_rank(g, plan, narrow, 0);
    for (int r = 1; plan->places && r < plan->ranks; r++) {
        const struct ig_shard_memory other = memory_of_rank(g, plan, narrow, r);
        if (other.weights + other.values > most.weights + most.values) most = other;
    }
    return most;
}
