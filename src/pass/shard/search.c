/* The walk that chooses among ways to divide nodes; see search.h. */
#include "pass/shard/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/hash.h"

enum { MOST_STATES = 128 };

/* The layouts in which a value that is still needed lies there: the one that its node gave, and those made of it. */
struct held {
    uint16_t has; /* bits, by number of the layout */
    uint8_t first;
    uint8_t unused; /* 0: states are compared by their bytes */
};

/* One way to have computed all nodes so far. */
struct state {
    double time, collectives;
    uint32_t parent; /* its number before the node */
    uint8_t way;     /* of the node: 0 whole, else 1 + its number */
};
/* Of all states kept behind a node. */
struct step {
    uint32_t *parents;
    uint8_t *ways;
};

struct search {
    struct ig_graph *g;
    struct ig_job *job;
    int ranks;
    const struct ig_shard_costs *costs;
    const struct ig_shard_plan *only; /* NULL: all ways are open */
    const struct ig_shard_asks *asks; /* NULL: nothing is asked of nodes */
    struct ig_shard_space space;
    uint32_t *last_use; /* by value: the last node that reads it, plus 1 */
    bool *is_output;    /* by value */
    double *bytes;      /* by value */
    double **share;     /* by value and layout: of the slowest rank */
    uint32_t *place;    /* by value: in the states' lists of held values */
    ig_value *live;     /* what these lists are of */
    uint32_t n_live;
    struct state *states, *next;
    struct held *held, *next_held; /* by state and place */
    uint32_t n_states, n_next, row, most_rows;
    struct step *steps; /* by node */
};

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

static int64_t size_of(const struct search *s, ig_dim dim) {
    return s->costs->size(s->costs->user, dim);
}

static double bytes_of(const struct search *s, ig_value v) {
    const struct ig_type *type = ig_type_of(s->g, v);
    double bytes = (double)ingot_dtype_size(type->dtype);
    for (int i = 0; i < type->rank; i++)
        bytes *= (double)size_of(s, type->dim[i]);
    return bytes;
}

static double share_of(const struct search *s, const struct ig_layout *layout) {
    if (layout->kind != IG_LAYOUT_SPLIT) return 1;
    int64_t count = size_of(s, layout->count);
    int64_t most = (count + s->ranks - 1) / s->ranks; /* of one rank */
    return count > 0 ? (double)most / (double)count : 1;
}

static void prepare(struct search *s) {
    struct ig_graph *g = s->g;
    s->last_use = IG_NEW_ARRAY(s->job, uint32_t, g->values.count + 1);
    s->is_output = IG_NEW_ARRAY(s->job, bool, g->values.count + 1);
    s->bytes = IG_NEW_ARRAY(s->job, double, g->values.count + 1);
    s->share = IG_NEW_ARRAY(s->job, double *, g->values.count + 1);
    s->place = IG_NEW_ARRAY(s->job, uint32_t, g->values.count + 1);
    s->live = IG_NEW_ARRAY(s->job, ig_value, g->values.count + 1);
    s->steps = IG_NEW_ARRAY(s->job, struct step, g->nodes.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        for (uint32_t i = 0; i < n->n_in && n->n_out > 0 && !ig_info(g, n->out)->is_const; i++) {
            if (n->in[i] != IG_NO_VALUE) s->last_use[n->in[i]] = id + 1;
        }
    }
    for (uint32_t i = 0; i < g->outputs.count; i++)
        s->is_output[g->outputs.at[i].value] = true;
    for (ig_value v = 0; v < g->values.count; v++) {
        const struct ig_value_layouts *all = &s->space.layouts[v];
        s->bytes[v] = bytes_of(s, v);
        s->share[v] = IG_NEW_ARRAY(s->job, double, (size_t)all->count);
        for (int i = 0; i < all->count; i++)
            s->share[v][i] = share_of(s, &all->at[i]);
    }
}

/* ---- Conversions ------------------------------------------------------------------------------------------------- */

static double collective(const struct search *s, enum ig_op op, ig_value v) {
    return s->costs->collective(s->costs->user, op, s->bytes[v], s->ranks);
}

/* The time to have v in that layout, too; as split.c converts it. */
static double convert(const struct search *s, ig_value v, struct held *h, int to) {
    const struct ig_layout *all = s->space.layouts[v].at, *first = &all[h->first];
    double time = 0;
    if (h->has >> to & 1) return 0;
    if (all[to].kind == IG_LAYOUT_PARTIAL) return INFINITY;
    if (to > 0 && first->kind == IG_LAYOUT_PARTIAL && !(h->has & 1)) {
        time = collective(s, IG_OP_reduce_scatter, v);
    } else if (!(h->has & 1)) {
        time = collective(s, first->kind == IG_LAYOUT_SPLIT ? IG_OP_all_gather : IG_OP_all_reduce, v);
        h->has |= 1;
    }
    h->has |= (uint16_t)(1u << to);
    return time;
}

/* ---- The walk ---------------------------------------------------------------------------------------------------- */

static void reserve(struct search *s, uint32_t row, uint32_t ways) {
    uint32_t rows = MOST_STATES * ways;
    if (row * rows <= s->most_rows && s->next) return;
    s->most_rows = 2 * row * rows;
    struct held *held = IG_NEW_ARRAY(s->job, struct held, s->most_rows + 1);
    if (s->held) memcpy(held, s->held, sizeof *held * s->n_states * s->row);
    s->held = held;
    s->next_held = IG_NEW_ARRAY(s->job, struct held, s->most_rows + 1);
    struct state *states = IG_NEW_ARRAY(s->job, struct state, MOST_STATES * (IG_MOST_WAYS + 1));
    if (s->states) memcpy(states, s->states, sizeof *states * s->n_states);
    s->states = states;
    s->next = IG_NEW_ARRAY(s->job, struct state, MOST_STATES * (IG_MOST_WAYS + 1));
}

static double node_time(const struct search *s, ig_node_id id, const struct ig_way *way) {
    const struct ig_node *n = &s->g->nodes.at[id];
    double in[64], out[64], work = 1;
    for (uint32_t i = 0; i < n->n_in && i < 64; i++) {
        in[i] = way && n->in[i] != IG_NO_VALUE ? share_of(s, &way->division.in[i]) : 1;
        work = fmin(work, in[i]);
    }
    for (uint32_t i = 0; i < n->n_out && i < 64; i++) {
        out[i] = way ? share_of(s, &way->division.out[i]) : 1;
        work = fmin(work, out[i]);
    }
    return n->n_in > 64 || n->n_out > 64 ? 0 : s->costs->node(s->costs->user, s->g, id, in, out, work);
}

/* Goes on from one state by one way: the states' held values, of the places before the node, are followed by the results. */
static void try_way(struct search *s, ig_node_id id, uint32_t parent, uint32_t way, double time, uint32_t row) {
    const struct ig_node *n = &s->g->nodes.at[id];
    const struct ig_way *w = way ? &s->space.ways[id].list.at[way - 1] : NULL;
    struct held *h = s->next_held + (size_t)s->n_next * row;
    double converting = 0;
    memcpy(h, s->held + (size_t)parent * s->row, s->row * sizeof *h);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE || ig_info(s->g, n->in[i])->is_const) continue;
        converting += convert(s, n->in[i], &h[s->place[n->in[i]]], w ? w->in[i] : 0);
    }
    for (uint32_t o = 0; o < n->n_out; o++) {
        struct held *result = &h[s->row + o];
        uint8_t first = w ? w->out[o] : 0;
        *result = (struct held){.has = (uint16_t)(1u << first), .first = first};
        if (s->is_output[n->out + o]) converting += convert(s, n->out + o, result, 0);
    }
    if (converting == INFINITY) return;
    const double own = ig_op_is_collective(n->op) ? time : 0;
    const struct state *from = &s->states[parent];
    s->next[s->n_next++] = (struct state){.time = from->time + time + converting,
                                          .collectives = from->collectives + converting + own,
                                          .parent = parent,
                                          .way = (uint8_t)way};
}

/* Drops what no node reads any more from the list of held values. */
static void drop_dead(struct search *s, ig_node_id id, uint32_t row) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < row; i++) {
        ig_value v = s->live[i];
        if (s->last_use[v] <= id + 1) continue;
        for (uint32_t k = 0; k < s->n_next; k++)
            s->next_held[(size_t)k * row + kept] = s->next_held[(size_t)k * row + i];
        s->live[kept] = v;
        s->place[v] = kept++;
    }
    for (uint32_t k = 0; k < s->n_next; k++)
        memmove(s->next_held + (size_t)k * kept, s->next_held + (size_t)k * row, kept * sizeof *s->next_held);
    s->n_live = kept;
}

struct rank {
    double time;
    uint32_t number;
};

static int compare(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Is that held by one of the states that are kept? */
static bool is_kept(const struct search *s, const struct held *h, uint32_t row, const uint64_t *hashes, uint64_t hash) {
    for (uint32_t i = 0; i < s->n_states; i++) {
        if (hashes[i] == hash && (!row || memcmp(s->held + (size_t)i * row, h, row * sizeof *h) == 0)) return true;
    }
    return false;
}

/* Keeps the cheapest states, of those that hold the same the cheapest one. */
static void keep_best(struct search *s, ig_node_id id) {
    struct rank order[MOST_STATES * (IG_MOST_WAYS + 1)];
    uint64_t hashes[MOST_STATES];
    uint32_t row = s->n_live;
    for (uint32_t i = 0; i < s->n_next; i++)
        order[i] = (struct rank){s->next[i].time, i};
    qsort(order, s->n_next, sizeof *order, compare);
    s->n_states = 0;
    for (uint32_t i = 0; i < s->n_next && s->n_states < MOST_STATES; i++) {
        const struct held *h = s->next_held + (size_t)order[i].number * row;
        uint64_t hash = row ? ig_hash64(h, row * sizeof *h) : 0;
        if (is_kept(s, h, row, hashes, hash)) continue;
        if (row) memcpy(s->held + (size_t)s->n_states * row, h, row * sizeof *h);
        hashes[s->n_states] = hash;
        s->states[s->n_states++] = s->next[order[i].number];
    }
    s->row = row;
    struct step *step = &s->steps[id];
    step->parents = IG_NEW_ARRAY(s->job, uint32_t, s->n_states + 1);
    step->ways = IG_NEW_ARRAY(s->job, uint8_t, s->n_states + 1);
    for (uint32_t i = 0; i < s->n_states; i++) {
        step->parents[i] = s->states[i].parent;
        step->ways[i] = s->states[i].way;
    }
}

/* Is that the way of the plan whose price is asked? */
static bool is_planned(const struct search *s, ig_node_id id, uint32_t way) {
    const struct ig_node *n = &s->g->nodes.at[id];
    const struct ig_division *d = s->only ? s->only->divisions[id] : NULL;
    if (!s->only || !d || way == 0) return !s->only || !d == (way == 0);
    const struct ig_division *other = &s->space.ways[id].list.at[way - 1].division;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!ig_layout_same(&d->in[i], &other->in[i])) return false;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!ig_layout_same(&d->out[i], &other->out[i])) return false;
    }
    return true;
}

/* May the node be computed that way? What is asked of one that reads a table comes first. */
static bool is_open(const struct search *s, ig_node_id id, uint32_t way) {
    const struct ig_division *d = way ? &s->space.ways[id].list.at[way - 1].division : NULL;
    const enum ig_shard_table table = s->space.tables ? s->space.tables[id] : IG_TABLE_NONE;
    if (!is_planned(s, id, way) || !ig_shard_asks_allow(s->asks, s->g, id, d)) return false;
    if (table == IG_TABLE_NONE || (s->asks && s->asks->of && s->asks->of[id])) return true;
    return ig_shard_divides_table(s->g, &s->g->nodes.at[id], d, table);
}

static void visit(struct search *s, ig_node_id id) {
    const struct ig_node *n = &s->g->nodes.at[id];
    const uint32_t ways = 1 + s->space.ways[id].list.count, row = s->row + n->n_out;
    double times[IG_MOST_WAYS + 1];
    reserve(s, row, IG_MOST_WAYS + 1);
    for (uint32_t w = 0; w < ways; w++)
        times[w] = node_time(s, id, w ? &s->space.ways[id].list.at[w - 1] : NULL);
    for (uint32_t o = 0; o < n->n_out; o++) {
        s->live[s->row + o] = n->out + o;
        s->place[n->out + o] = s->row + o;
    }
    s->n_next = 0;
    for (uint32_t k = 0; k < s->n_states; k++) {
        for (uint32_t w = 0; w < ways; w++)
            if (is_open(s, id, w)) try_way(s, id, k, w, times[w], row);
    }
    drop_dead(s, id, row);
    keep_best(s, id);
}

/* From the inputs, which all ranks have whole. */
static void begin(struct search *s) {
    struct ig_graph *g = s->g;
    reserve(s, g->inputs.count + 1, 1);
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        ig_value v = g->inputs.at[i].value;
        if (s->last_use[v] == 0) continue;
        s->live[s->row] = v;
        s->place[v] = s->row;
        s->held[s->row++] = (struct held){.has = 1};
    }
    s->states[0] = (struct state){.time = 0};
    s->n_states = 1;
}

static void trace(struct search *s, struct ig_shard_result *out) {
    uint32_t at = 0; /* the cheapest */
    out->time = s->states[0].time;
    out->computing = out->time - s->states[0].collectives;
    for (ig_node_id id = s->g->nodes.count; id-- > 0;) {
        const struct step *step = &s->steps[id];
        if (!step->parents) continue; /* constant */
        if (step->ways[at]) {
            out->plan.divisions[id] = &s->space.ways[id].list.at[step->ways[at] - 1].division;
            out->divided++;
        }
        at = step->parents[at];
    }
}

/* Can each node be computed as is asked of it? */
static void check_asks(const struct search *s) {
    for (ig_node_id id = 0; s->asks && s->asks->of && id < s->g->nodes.count; id++) {
        bool allowed = ig_shard_asks_allow(s->asks, s->g, id, NULL);
        const struct ig_node_ways *ways = &s->space.ways[id];
        for (uint32_t i = 0; i < ways->list.count && !allowed; i++)
            allowed = ig_shard_asks_allow(s->asks, s->g, id, &ways->list.at[i].division);
        if (!allowed) ig_shard_ask_fail(s->asks->of[id], s->g, id, s->ranks);
    }
}

static void walk(struct search *s, struct ig_shard_seeds seeds) {
    struct ig_graph *g = s->g;
    s->asks = seeds.asks;
    ig_shard_spread(g, s->ranks, seeds, &s->space);
    check_asks(s);
    prepare(s);
    begin(s);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->n_out > 0 && !ig_info(g, n->out)->is_const) visit(s, id);
    }
}

void ig_shard_search(struct ig_graph *g, int ranks, struct ig_shard_seeds seeds, const struct ig_shard_costs *costs,
                     struct ig_shard_result *out_result) {
    struct search s = {.g = g, .job = g->job, .ranks = ranks, .costs = costs};
    *out_result = (struct ig_shard_result){.plan = {.ranks = ranks}};
    out_result->plan.divisions = IG_NEW_ARRAY(g->job, const struct ig_division *, g->nodes.count + 1);
    walk(&s, seeds);
    trace(&s, out_result);
    out_result->untied = s.space.n_untied;
}

void ig_shard_price(struct ig_graph *g, struct ig_shard_seeds seeds, const struct ig_shard_costs *costs,
                    struct ig_shard_result *result) {
    struct search s = {.g = g, .job = g->job, .ranks = result->plan.ranks, .costs = costs, .only = &result->plan};
    walk(&s, seeds);
    IG_ASSERT(g->job, s.n_states > 0);
    result->time = s.states[0].time;
    result->computing = s.states[0].time - s.states[0].collectives;
}
