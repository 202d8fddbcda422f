/* Where a pipeline is cut; see stage.h. */
#include "pass/shard/stage.h"

#include <math.h>
#include <string.h>

/* Nodes that every rank has may read so many bytes of constants. */
enum { SMALL_CONSTANTS = 64 << 10 };

/* More than any network takes, in microseconds: of a value that stages shall not be sent. */
#define IG_AVOIDED 1e9

/* Of the network's time, what a cut must gain that may tear apart what is one kernel. */
#define IG_WITHIN 0.02

struct staging {
    struct ig_graph *g;
    struct ig_shard_numbers numbers;
    const struct ig_shard_costs *costs;
    int ranks;
    double *cone;      /* by node: to compute its results from inputs, at most */
    int *places;       /* by node: IG_EVERY_RANK, or at first anything else */
    ig_node_id *order; /* the nodes that belong to stages */
    uint32_t count;    /* of `order` */
    /* By place between nodes of `order`: the time of those before it; to send their results; to exchange what crosses it; and what is
     * against a cut there. */
    double *before, *results, *cut, *avoided;
};

static double node_time(const struct staging *s, ig_node_id id) {
    const struct ig_node *n = &s->g->nodes.at[id];
    double *ones = IG_NEW_ARRAY(s->g->job, double, n->n_in + n->n_out + 1);
    for (uint32_t i = 0; i < n->n_in + n->n_out; i++)
        ones[i] = 1;
    return s->costs->node(s->costs->user, s->g, id, ones, ones, 1);
}

static double bytes_of(const struct staging *s, ig_value v) {
    const struct ig_type *type = ig_type_of(s->g, v);
    double bytes = (double)ingot_dtype_size(type->dtype);
    for (int i = 0; i < type->rank; i++)
        bytes *= (double)s->costs->size(s->costs->user, type->dim[i]);
    return bytes;
}

static double exchange_time(const struct staging *s, ig_value v) {
    return s->costs->collective(s->costs->user, IG_OP_broadcast_from, bytes_of(s, v), s->ranks);
}

static bool is_simple(const struct ig_node *n) {
    switch (ig_op_info(n->op)->family) {
    case IG_FAMILY_SOURCE:
    case IG_FAMILY_VIEW:
    case IG_FAMILY_MAP:
    case IG_FAMILY_ROW: return true;
    default: return false;
    }
}

/* Is the node computed faster than its result is sent, on every rank and from inputs? Contents that sizes are read from stay with
 * their readers. */
static bool belongs_to_all(struct staging *s, ig_node_id id) {
    const struct ig_node *n = &s->g->nodes.at[id];
    double time = node_time(s, id), constants = 0;
    if (!is_simple(n) || n->n_out != 1) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE) continue;
        const struct ig_value_info *info = ig_info(s->g, n->in[i]);
        if (info->is_const) constants += bytes_of(s, n->in[i]);
        if (info->is_const || info->node == IG_NO_NODE) continue;
        if (s->places[info->node] != IG_EVERY_RANK) return false;
        time += s->cone[info->node];
    }
    s->cone[id] = time;
    return ig_info(s->g, n->out)->elements || (constants <= SMALL_CONSTANTS && time <= exchange_time(s, n->out));
}

static bool is_staged(const struct staging *s, ig_node_id id) {
    return s->places[id] != IG_EVERY_RANK;
}

/* To send results of the node to all. */
static double results_time(const struct staging *s, ig_node_id id) {
    double time = 0;
    for (uint32_t i = 0; i < s->g->outputs.count; i++)
        time += ig_info(s->g, s->g->outputs.at[i].value)->node == id ? exchange_time(s, s->g->outputs.at[i].value) : 0;
    return time;
}

static void find_order(struct staging *s) {
    for (ig_node_id id = 0; id < s->g->nodes.count; id++) {
        const struct ig_node *n = &s->g->nodes.at[id];
        bool is_const = n->n_out == 0 || ig_info(s->g, n->out)->is_const;
        s->places[id] = is_const || belongs_to_all(s, id) ? IG_EVERY_RANK : 0;
        if (!is_staged(s, id)) continue;
        s->before[s->count + 1] = s->before[s->count] + node_time(s, id);
        s->results[s->count + 1] = s->results[s->count] + results_time(s, id);
        s->order[s->count++] = id;
    }
}

/* Shall stages not be sent the value? */
static bool is_avoided(const struct staging *s, ig_value v) {
    const struct ig_range *r = s->numbers.ranges ? &s->numbers.ranges[v] : NULL;
    return r && (r->large || r->statistic || r->quantized || r->rounded || r->small);
}

/* Does a cut between these two tear apart what may be one kernel: parts of a node of the model, or what an elementwise operator or a view does
 * to the result right before it? */
static bool belong_together(const struct ig_node *a, const struct ig_node *b) {
    bool reads = false;
    for (uint32_t i = 0; i < b->n_in; i++)
        reads |= b->in[i] != IG_NO_VALUE && b->in[i] - a->out < a->n_out;
    return (reads && (ig_op_info(b->op)->is_map || ig_op_info(b->op)->family == IG_FAMILY_VIEW)) ||
           (a->origin && b->origin && strcmp(a->origin, b->origin) == 0);
}

/* What crosses each place, from the node that gives a value to the last one that reads it. */
static void find_cuts(struct staging *s) {
    uint32_t *last = IG_NEW_ARRAY(s->g->job, uint32_t, s->g->values.count + 1);
    for (uint32_t p = 0; p < s->count; p++) {
        const struct ig_node *n = &s->g->nodes.at[s->order[p]];
        for (uint32_t i = 0; i < n->n_in; i++)
            if (n->in[i] != IG_NO_VALUE) last[n->in[i]] = p;
    }
    for (uint32_t p = 0; p < s->count; p++) {
        const struct ig_node *n = &s->g->nodes.at[s->order[p]];
        for (ig_value v = n->out; v < n->out + n->n_out; v++) {
            for (uint32_t at = p + 1; at <= last[v]; at++) {
                s->cut[at] += exchange_time(s, v);
                s->avoided[at] += is_avoided(s, v) ? IG_AVOIDED : 0;
            }
        }
        if (p > 0 && belong_together(&s->g->nodes.at[s->order[p - 1]], n))
            s->avoided[p] += IG_WITHIN * s->before[s->count];
    }
}

/* A stage with what it exchanges; the last one sends no results. */
static double stage_time(const struct staging *s, int stage, uint32_t begin, uint32_t end) {
    if (begin == end) return 0;
    const double results = stage < s->ranks - 1 ? s->results[end] - s->results[begin] : 0;
    return s->cut[begin] + s->before[end] - s->before[begin] + results + s->cut[end];
}

/* Ends of stages that make the slowest one fastest: for each number of stages and each end, the best end of the one before. */
static void find_ends(const struct staging *s, uint32_t *out_ends) {
    const uint32_t n = s->count + 1;
    double *slowest = IG_NEW_ARRAY(s->g->job, double, n), *next = IG_NEW_ARRAY(s->g->job, double, n);
    uint32_t *from = IG_NEW_ARRAY(s->g->job, uint32_t, (size_t)n * (size_t)s->ranks);
    const bool may_be_empty = s->count < (uint32_t)s->ranks;
    for (uint32_t end = 1; end < n; end++)
        slowest[end] = INFINITY;
    for (int k = 0; k < s->ranks; k++) {
        for (uint32_t end = 0; end < n; end++) {
            uint32_t *best = &from[(size_t)k * n + end];
            next[end] = INFINITY;
            for (uint32_t begin = may_be_empty ? end + 1 : end; begin-- > 0;) {
                const double computing = s->before[end] - s->before[begin];
                const double stage = stage_time(s, k, begin, end) + s->avoided[begin] + s->avoided[end];
                if (computing >= next[end]) break;
                if (fmax(slowest[begin], stage) >= next[end]) continue;
                next[end] = fmax(slowest[begin], stage);
                *best = begin;
            }
        }
        double *done = slowest;
        slowest = next;
        next = done;
    }
    out_ends[s->ranks] = s->count;
    for (int k = s->ranks; k-- > 0;)
        out_ends[k] = from[(size_t)k * n + out_ends[k + 1]];
}

static void describe(const struct staging *s, const uint32_t *ends, struct ig_shard_result *out) {
    out->stages = IG_NEW_ARRAY(s->g->job, struct ig_shard_stage, (size_t)s->ranks);
    out->computing = s->before[s->count];
    out->time = out->computing + s->results[ends[s->ranks - 1]];
    for (int k = 0; k < s->ranks; k++) {
        const uint32_t begin = ends[k], end = ends[k + 1];
        struct ig_shard_stage *stage = &out->stages[k];
        *stage = (struct ig_shard_stage){.rank = s->ranks - 1 - k, .nodes = end - begin};
        if (begin == end) continue;
        stage->first = s->order[begin];
        stage->last = s->order[end - 1];
        stage->time = stage_time(s, k, begin, end);
        out->time += s->cut[begin];
        out->slowest = fmax(out->slowest, stage->time);
    }
}

void ig_shard_stages(struct ig_graph *g, int ranks, struct ig_shard_numbers numbers, const struct ig_shard_costs *costs,
                     struct ig_shard_result *out) {
    struct staging s = {.g = g, .numbers = numbers, .costs = costs, .ranks = ranks};
    *out = (struct ig_shard_result){.plan = {.ranks = ranks, .sent = numbers.sent}};
    s.cone = IG_NEW_ARRAY(g->job, double, g->nodes.count + 1);
    s.places = IG_NEW_ARRAY(g->job, int, g->nodes.count + 1);
    s.order = IG_NEW_ARRAY(g->job, ig_node_id, g->nodes.count + 1);
    s.before = IG_NEW_ARRAY(g->job, double, g->nodes.count + 2);
    s.avoided = IG_NEW_ARRAY(g->job, double, g->nodes.count + 2);
    s.results = IG_NEW_ARRAY(g->job, double, g->nodes.count + 2);
    s.cut = IG_NEW_ARRAY(g->job, double, g->nodes.count + 2);
    uint32_t *ends = IG_NEW_ARRAY(g->job, uint32_t, (size_t)ranks + 1);
    find_order(&s);
    find_cuts(&s);
    find_ends(&s, ends);
    describe(&s, ends, out);
    for (int k = 0; k < ranks; k++) {
        for (uint32_t p = ends[k]; p < ends[k + 1]; p++)
            s.places[s.order[p]] = out->stages[k].rank;
    }
    out->plan.divisions = IG_NEW_ARRAY(g->job, const struct ig_division *, g->nodes.count + 1);
    out->plan.places = s.places;
}
