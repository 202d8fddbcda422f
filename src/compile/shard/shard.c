/* Chooses a strategy and divides a network; see shard.h. */
#include "compile/shard/shard.h"

#include <math.h>
#include <string.h>

#include "compile/explain.h"
#include "compile/shard/costs.h"
#include "kernel/sizes.h"
#include "pass/pass.h"
#include "pass/shard/own.h"

static const struct {
    const char *name;
    unsigned seeds;
} strategies[IG_STRATEGIES] = {
    {"none", 0}, {"batch", IG_SEED_BATCH}, {"tensor", IG_SEED_TENSOR}, {"mixed", IG_SEED_BATCH | IG_SEED_TENSOR}};

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* The number of the strategy that the options ask for; -1: whatever is fastest. */
static int forced(const struct ingot_build_options *o) {
    for (int i = 0; o->sharding && i < IG_STRATEGIES; i++) {
        if (strcmp(o->sharding, strategies[i].name) == 0) return i;
    }
    return -1;
}

void ig_sharding_check(struct ig_job *job, const struct ingot_build_options *o) {
    bool known = !o->sharding || strcmp(o->sharding, "auto") == 0 || forced(o) >= 0;
    if (!known)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "unknown sharding '%s': expected auto, none, batch, tensor or mixed",
                 o->sharding);
    if (o->n_shard_of > 0 && o->n_ranks == 0)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "shard '%s': say for how many ranks the engine is", o->shard_of[0]);
    for (size_t i = 0; i < o->n_ranks; i++) {
        if (o->ranks[i] < 1 || o->ranks[i] > IG_MOST_RANKS)
            ig_raise(job, INGOT_INVALID_ARGUMENT, "an engine for %u ranks: from 1 to %u can be", o->ranks[i],
                     IG_MOST_RANKS);
        if (i > 0 && o->ranks[i] <= o->ranks[i - 1])
            ig_raise(job, INGOT_INVALID_ARGUMENT, "the numbers of ranks must ascend: %u comes after %u", o->ranks[i],
                     o->ranks[i - 1]);
    }
}

void ig_sharding_check_alone(const struct ig_graph *graph) {
    const struct ig_node *own = ig_shard_own(graph);
    if (own)
        ig_raise(graph->job, INGOT_INVALID_ARGUMENT,
                 "%s is a collective, so the model is one rank's: say for how many ranks the engine is",
                 own->origin ? own->origin : ig_op_info(own->op)->name);
}

/* ---- The choice -------------------------------------------------------------------------------------------------- */

static bool is_narrow(const struct ingot_build_options *o) {
    return o->precision && (strcmp(o->precision, "fp16") == 0 || strcmp(o->precision, "bf16") == 0);
}

/* What another strategy must gain: less is within the estimates' errors, and exchanging costs more than time. */
#define IG_WORTH 0.97

/* The one that is asked for, or the fastest, the simplest of several. */
static void choose(struct ig_sharding *s, const struct ingot_build_options *o) {
    const int asked = forced(o);
    s->is_forced = asked >= 0 && asked < s->n_considered; /* of one rank, there is nothing to divide */
    for (int i = 0; i < s->n_considered; i++) {
        bool is_better = s->considered[i].result.time < IG_WORTH * s->considered[s->chosen].result.time;
        if (s->is_forced ? i == asked : is_better) s->chosen = i;
    }
}

/*
 * Who forces a strategy wants the network divided even where that does not pay. Then the contractions that are not
 * divided count, and collectives by so little that they decide between ways that divide as much. If nothing can be divided at the
 * usual sizes (a batch of one), symbols are so much larger.
 */
#define IG_FORCED 1e-6
enum { LARGER = 64 };

struct forcing {
    const struct ig_shard_costs *real;
    const struct ig_dims *dims;
    int64_t larger;
};

static double forced_collective(void *user, enum ig_op op, double bytes, int ranks) {
    const struct forcing *f = user;
    return IG_FORCED * f->real->collective(f->real->user, op, bytes, ranks);
}

static double forced_node(void *user, struct ig_graph *g, ig_node_id id, const double *in, const double *out,
                          double work) {
    enum ig_family family = ig_op_info(g->nodes.at[id].op)->family;
    bool counts = family == IG_FAMILY_CONTRACT || family == IG_FAMILY_SCAN;
    return counts && work == 1; /* uneven parts are as good as even ones */
}

static int64_t forced_size(void *user, ig_dim dim) {
    const struct forcing *f = user;
    int64_t size = f->real->size(f->real->user, dim);
    return ig_dim_is_const(f->dims, dim, NULL) ? size : f->larger * size;
}

static void search_forced(struct ig_graph *graph, int ranks, struct ig_shard_seeds seeds,
                          const struct ig_shard_costs *real, struct ig_shard_result *out) {
    struct forcing forcing = {real, graph->dims, 1};
    const struct ig_shard_costs costs = {forced_node, forced_collective, forced_size, &forcing};
    ig_shard_search(graph, ranks, seeds, &costs, out);
    if (seeds.of && out->divided == 0) {
        forcing.larger = LARGER;
        ig_shard_search(graph, ranks, seeds, &costs, out);
    }
    ig_shard_price(graph, seeds, real, out);
}

/* A network with collectives of its own: each rank runs it as it is. */
static void adopt(struct ig_sharding *s, const struct ig_target *target, const struct ingot_build_options *o) {
    if (forced(o) > 0 || o->n_shard_of > 0)
        ig_raise(s->graph->job, INGOT_INVALID_ARGUMENT,
                 "shard%s '%s': the model is one rank's, with collectives of its own, and is not divided again",
                 forced(o) > 0 ? "ing" : "", forced(o) > 0 ? o->sharding : o->shard_of[0]);
    for (int r = 0; r < s->ranks; r++)
        s->graphs[r] = ig_shard_adopt(s->graph, s->ranks, r);
    s->graph = s->graphs[0];
    const struct ig_shard_costs costs = ig_shard_costs_open(s->graph, target, is_narrow(o));
    s->considered[s->n_considered++].name = "own";
    ig_shard_search(s->graph, s->ranks, (struct ig_shard_seeds){0, NULL}, &costs, &s->considered[0].result);
}

static void divide(struct ig_sharding *s, const struct ig_target *target, const struct ingot_build_options *o) {
    const struct ig_shard_costs costs = ig_shard_costs_open(s->graph, target, is_narrow(o));
    const bool asked = s->ranks > 1 && s->asks.count > 0;
    for (int i = 0; i < IG_STRATEGIES; i++) {
        if (i > 0 && s->ranks == 1) break;
        struct ig_strategy *strategy = &s->considered[s->n_considered++];
        const struct ig_shard_seeds seeds = {strategies[i].seeds, asked ? &s->asks : NULL};
        strategy->name = i == 0 && asked ? "patterns" : strategies[i].name;
        if (forced(o) == i)
            search_forced(s->graph, s->ranks, seeds, &costs, &strategy->result);
        else
            ig_shard_search(s->graph, s->ranks, seeds, &costs, &strategy->result);
    }
    choose(s, o);
    for (int r = 0; r < s->ranks; r++)
        s->graphs[r] = ig_shard_split(s->graph, &s->considered[s->chosen].result.plan, r);
}

void ig_sharding_make(struct ig_graph *graph, const struct ig_target *target, const struct ingot_build_options *o,
                      int ranks, struct ig_sharding *out) {
    *out = (struct ig_sharding){.ranks = ranks, .link = ig_link_of(target), .graph = graph};
    out->graphs = IG_NEW_ARRAY(graph->job, struct ig_graph *, (size_t)ranks);
    ig_shard_asks_parse(graph->job, o->shard_of, o->n_shard_of, &out->asks);
    ig_shard_asks_bind(&out->asks, graph);
    if (ig_shard_own(graph))
        adopt(out, target, o);
    else
        divide(out, target, o);
    out->collectives = ig_shard_check(out->graphs, ranks);
}

void ig_sharding_verify(const struct ig_sharding *s) {
    uint32_t count = ig_shard_check(s->graphs, s->ranks);
    if (count != s->collectives)
        ig_raise(s->graph->job, INGOT_INTERNAL, "passes have left %u of %u collectives", count, s->collectives);
}

/* ---- The explanation --------------------------------------------------------------------------------------------- */

static void put_considered(struct ig_text *t, const struct ig_sharding *s) {
    ig_text_add(t, "\"considered\": [");
    for (int i = 0; i < s->n_considered; i++) {
        const struct ig_strategy *c = &s->considered[i];
        ig_text_printf(t, "%s{\"strategy\": \"%s\", \"us\": %.1f, \"computing_us\": %.1f, \"divided\": %u}",
                       i ? ", " : "", c->name, c->result.time, c->result.computing, c->result.divided);
    }
    ig_text_add(t, "], ");
}

static double bytes_at(struct ig_graph *g, ig_value v, const struct ig_sizes *at) {
    const struct ig_type *type = ig_type_of(g, v);
    return (double)ig_sizes_guess(at, ig_type_elements(g->dims, type)) * (double)ingot_dtype_size(type->dtype);
}

/* The collectives of a run, by kind: how many, the bytes of the values that they are of, and what they take in all. */
static void put_collectives(struct ig_text *t, const struct ig_sharding *s) {
    struct ig_graph *g = s->graphs[0];
    struct ig_sizes at;
    bool first = true;
    double time = 0;
    ig_sizes_usual(g->dims, g->job, &at);
    ig_text_add(t, "\"collectives\": [");
    for (int op = 0; op < IG_OP_COUNT; op++) {
        uint32_t count = 0;
        double bytes = 0;
        for (ig_node_id id = 0; id < g->nodes.count; id++) {
            const struct ig_node *n = &g->nodes.at[id];
            if ((int)n->op != op || !ig_op_is_collective(n->op)) continue;
            count++;
            double whole = fmax(bytes_at(g, n->in[0], &at), bytes_at(g, n->out, &at));
            bytes += whole;
            time += ig_link_time(s->link, n->op, whole, s->ranks);
        }
        if (!count) continue;
        ig_text_printf(t, "%s{\"op\": \"%s\", \"count\": %u, \"bytes\": %.0f}", first ? "" : ", ",
                       ig_op_info((enum ig_op)op)->name, count, bytes);
        first = false;
    }
    ig_text_printf(t, "], \"links_us\": %.1f, ", time);
    if (s->kernels > 0) ig_text_printf(t, "\"kernels_us\": %.1f, ", s->kernels);
}

/* What was asked of nodes, and of how many. */
static void put_asks(struct ig_text *t, const struct ig_sharding *s) {
    ig_text_add(t, "\"asked\": [");
    for (size_t i = 0; i < s->asks.count; i++) {
        ig_text_add(t, i ? ", {\"shard\": " : "{\"shard\": ");
        ig_explain_string(t, s->asks.list[i].text);
        ig_text_printf(t, ", \"nodes\": %u}", s->asks.list[i].nodes);
    }
    ig_text_add(t, "], ");
}

/* How products and convolutions are divided: "whole, axis 1 by (12) x 64 -> axis 2 by (12) x 64". */
static void put_divisions(struct ig_text *t, const struct ig_sharding *s) {
    const struct ig_shard_plan *plan = &s->considered[s->chosen].result.plan;
    struct ig_graph *g = s->graph;
    bool first = true;
    ig_text_add(t, "\"divided\": [");
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        const struct ig_division *d = plan->divisions[id];
        if (!d || ig_op_info(n->op)->family != IG_FAMILY_CONTRACT) continue;
        ig_text_add(t, first ? "\n      {" : ",\n      {");
        first = false;
        ig_text_add(t, "\"node\": ");
        ig_explain_string(t, n->origin ? n->origin : ig_op_info(n->op)->name);
        ig_text_printf(t, ", \"how\": \"%s, %s -> %s\"}", ig_layout_text(g->job, g->dims, &d->in[0]),
                       ig_layout_text(g->job, g->dims, &d->in[1]), ig_layout_text(g->job, g->dims, &d->out[0]));
    }
    ig_text_add(t, "]");
}

void ig_sharding_explain(const struct ig_sharding *s, struct ig_text *t) {
    const struct ig_strategy *chosen = &s->considered[s->chosen];
    ig_text_printf(t, "{\"ranks\": %d, \"strategy\": \"%s\", \"forced\": %s, \"link\": \"%s\", \"us\": %.1f, ",
                   s->ranks, chosen->name, s->is_forced ? "true" : "false", s->link->name, chosen->result.time);
    put_considered(t, s);
    put_collectives(t, s);
    if (s->asks.count > 0) put_asks(t, s);
    put_divisions(t, s);
    ig_text_add(t, "}");
}
