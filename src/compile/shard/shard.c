/* Chooses a strategy and divides a network; see shard.h. */
#include "compile/shard/shard.h"

#include <math.h>
#include <string.h>

#include "compile/shard/costs.h"
#include "pass/pass.h"
#include "pass/shard/own.h"

static const struct {
    const char *name;
    unsigned seeds;
} strategies[] = {
    {"none", 0}, {"batch", IG_SEED_BATCH}, {"tensor", IG_SEED_TENSOR}, {"mixed", IG_SEED_BATCH | IG_SEED_TENSOR}};

/* A pipeline is planned otherwise, and its place is behind these. */
enum { SEARCHED = sizeof strategies / sizeof *strategies, PIPELINE = SEARCHED };

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* The number of the strategy that the options ask for; -1: whatever is fastest. */
static int forced(const struct ingot_build_options *o) {
    for (int i = 0; o->sharding && i < SEARCHED; i++) {
        if (strcmp(o->sharding, strategies[i].name) == 0) return i;
    }
    return o->sharding && strcmp(o->sharding, "pipeline") == 0 ? PIPELINE : -1;
}

static bool for_throughput(const struct ingot_build_options *o) {
    return o->objective && strcmp(o->objective, "throughput") == 0;
}

void ig_sharding_check(struct ig_job *job, const struct ingot_build_options *o) {
    bool known = !o->sharding || strcmp(o->sharding, "auto") == 0 || forced(o) >= 0;
    if (!known)
        ig_raise(job, INGOT_INVALID_ARGUMENT,
                 "unknown sharding '%s': expected auto, none, batch, tensor, mixed or pipeline", o->sharding);
    if (o->objective && strcmp(o->objective, "latency") != 0 && !for_throughput(o))
        ig_raise(job, INGOT_INVALID_ARGUMENT, "unknown objective '%s': expected latency or throughput", o->objective);
    if (o->memory > 0 && o->n_ranks == 0)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "a limit of memory: say for how many ranks the engine is");
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

static bool is_narrow(const struct ig_sharding *s) {
    return s->precisions->base == IG_PRECISION_FP16 || s->precisions->base == IG_PRECISION_BF16;
}

/* What another strategy must gain: less is within the estimates' errors, and exchanging costs more than time. */
#define IG_WORTH 0.97

static bool fits(const struct ig_sharding *s, const struct ig_strategy *c) {
    return s->memory == 0 || c->memory.weights + c->memory.values <= s->memory;
}

/* Of a pipeline, with as many runs under way as it has stages. */
static double rate_of(const struct ig_sharding *s, const struct ig_strategy *c) {
    const double time = c->result.stages ? c->result.slowest : c->result.time;
    return time > 0 ? s->samples * 1e6 / time : 0;
}

/* Microseconds that a sample takes, or a run. */
static double score(const struct ig_sharding *s, const struct ig_strategy *c) {
    if (s->throughput) return c->rate > 0 ? 1e6 / c->rate : 0;
    return c->result.time;
}

/* The one that is asked for, or the fastest that fits, the simplest of several; false: none fits. */
static bool choose(struct ig_sharding *s, const struct ingot_build_options *o) {
    const int asked = forced(o);
    bool found = false;
    s->is_forced = asked >= 0 && asked < s->n_considered; /* of one rank, there is nothing to divide */
    s->chosen = s->is_forced ? asked : 0;
    for (int i = 0; i < s->n_considered; i++) {
        const struct ig_strategy *c = &s->considered[i];
        if ((s->is_forced && i != asked) || !fits(s, c)) continue;
        if (found && score(s, c) >= IG_WORTH * score(s, &s->considered[s->chosen])) continue;
        s->chosen = i;
        found = true;
    }
    return found;
}

static _Noreturn void refuse(const struct ig_sharding *s) {
    const struct ig_strategy *least = &s->considered[s->is_forced ? s->chosen : 0];
    for (int i = 0; i < s->n_considered && !s->is_forced; i++) {
        const struct ig_strategy *c = &s->considered[i];
        if (c->memory.weights + c->memory.values < least->memory.weights + least->memory.values) least = c;
    }
    ig_raise(s->graph->job, INGOT_INVALID_ARGUMENT,
             "no plan for %d rank%s fits %.3f MB of memory each: '%s'%s needs %.3f MB, of which weights are %.3f MB",
             s->ranks, s->ranks > 1 ? "s" : "", s->memory / 1e6, least->name, s->is_forced ? "" : ", the smallest,",
             (least->memory.weights + least->memory.values) / 1e6, least->memory.weights / 1e6);
}

const char *ig_sharding_why(const struct ig_sharding *s, int considered) {
    const struct ig_strategy *c = &s->considered[considered], *chosen = &s->considered[s->chosen];
    if (!fits(s, c)) return "needs too much memory";
    if (considered == s->chosen) return s->is_forced ? "asked for" : "chosen";
    if (s->is_forced) return "another was asked for";
    return score(s, c) < score(s, chosen) ? "hardly faster" : "not faster";
}

/*
 * Who forces a strategy wants the network divided even where that does not pay. Then the contractions that are not
 * divided count, and collectives by so little that they decide between ways that divide as much. If nothing can be divided at the
 * usual sizes (a batch of one), symbols are so much larger. Products with less than 1/256 of the weights that a contraction has on
 * average, such as the routers of mixtures of experts, do not count: they would only add a collective.
 */
#define IG_FORCED 1e-6
enum { LARGER = 64, SMALL = 256 };

struct forcing {
    const struct ig_shard_costs *real;
    const struct ig_dims *dims;
    int64_t larger;
    double mean; /* elements of a contraction's constant weights */
};

static double weights_of(const struct ig_shard_costs *real, const struct ig_graph *g, const struct ig_node *n) {
    if (ig_op_info(n->op)->family != IG_FAMILY_CONTRACT || !ig_info(g, n->in[1])->is_const) return 0;
    const struct ig_type *type = ig_type_of(g, n->in[1]);
    double count = 1;
    for (int i = 0; i < type->rank; i++)
        count *= (double)real->size(real->user, type->dim[i]);
    return count;
}

static double mean_weights(const struct ig_shard_costs *real, const struct ig_graph *g) {
    double sum = 0, nodes = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        double weights = weights_of(real, g, &g->nodes.at[id]);
        sum += weights;
        nodes += weights > 0;
    }
    return nodes > 0 ? sum / nodes : 0;
}

static double forced_collective(void *user, enum ig_op op, double bytes, int ranks) {
    const struct forcing *f = user;
    return IG_FORCED * f->real->collective(f->real->user, op, bytes, ranks);
}

static double forced_node(void *user, struct ig_graph *g, ig_node_id id, const double *in, const double *out,
                          double work) {
    const struct forcing *f = user;
    const struct ig_node *n = &g->nodes.at[id];
    enum ig_family family = ig_op_info(n->op)->family;
    bool counts = family == IG_FAMILY_CONTRACT || family == IG_FAMILY_SCAN;
    if (n->op == IG_OP_matmul && ig_info(g, n->in[1])->is_const) counts = SMALL * weights_of(f->real, g, n) >= f->mean;
    return counts && work == 1; /* uneven parts are as good as even ones */
}

static int64_t forced_size(void *user, ig_dim dim) {
    const struct forcing *f = user;
    int64_t size = f->real->size(f->real->user, dim);
    return ig_dim_is_const(f->dims, dim, NULL) ? size : f->larger * size;
}

static void search_forced(struct ig_graph *graph, int ranks, struct ig_shard_seeds seeds,
                          const struct ig_shard_costs *real, struct ig_shard_result *out) {
    struct forcing forcing = {real, graph->dims, 1, mean_weights(real, graph)};
    const struct ig_shard_costs costs = {forced_node, forced_collective, forced_size, &forcing};
    ig_shard_search(graph, ranks, seeds, &costs, out);
    if (seeds.of && out->divided == 0) {
        forcing.larger = LARGER;
        ig_shard_search(graph, ranks, seeds, &costs, out);
    }
    ig_shard_price(graph, seeds, real, out);
}

/* The samples of a run: the usual size of the first input's first axis. */
static double samples_of(struct ig_graph *g, const struct ig_shard_costs *costs) {
    const struct ig_type *type = g->inputs.count > 0 ? ig_type_of(g, g->inputs.at[0].value) : NULL;
    return type && type->rank > 0 ? fmax(1, (double)costs->size(costs->user, type->dim[0])) : 1;
}

/* A network with collectives of its own: each rank runs it as it is. */
static void adopt(struct ig_sharding *s, const struct ingot_build_options *o) {
    if (forced(o) > 0 || o->n_shard_of > 0)
        ig_raise(s->graph->job, INGOT_INVALID_ARGUMENT,
                 "shard%s '%s': the model is one rank's, with collectives of its own, and is not divided again",
                 forced(o) > 0 ? "ing" : "", forced(o) > 0 ? o->sharding : o->shard_of[0]);
    for (int r = 0; r < s->ranks; r++)
        s->graphs[r] = ig_shard_adopt(s->graph, s->ranks, r);
    s->graph = s->graphs[0];
    const struct ig_shard_costs costs = ig_shard_costs_open(s->graph, s->target, is_narrow(s));
    struct ig_strategy *own = &s->considered[s->n_considered++];
    own->name = "own";
    ig_shard_search(s->graph, s->ranks, (struct ig_shard_seeds){0, NULL}, &costs, &own->result);
    own->memory = ig_shard_memory_of(s->graph, &own->result.plan, is_narrow(s));
    s->samples = samples_of(s->graph, &costs);
    own->rate = rate_of(s, own);
    if (!choose(s, o)) refuse(s);
}

static void search(const struct ig_sharding *s, struct ig_shard_seeds seeds, bool is_forced,
                   const struct ig_shard_costs *costs, struct ig_shard_result *out) {
    if (is_forced)
        search_forced(s->graph, s->ranks, seeds, costs, out);
    else
        ig_shard_search(s->graph, s->ranks, seeds, costs, out);
}

/* Finds what a strategy takes, and what it needs. Tables are divided within their rows where that is worth its pieces. */
static void consider(struct ig_sharding *s, int strategy, bool is_forced, const struct ig_shard_costs *costs) {
    const bool asked = s->ranks > 1 && s->asks.count > 0;
    struct ig_shard_seeds seeds = {strategies[strategy].seeds, asked ? &s->asks : NULL};
    struct ig_strategy *c = &s->considered[strategy];
    c->name = strategy == 0 && asked ? "patterns" : strategies[strategy].name;
    search(s, seeds, is_forced, costs, &c->result);
    if (c->result.untied > 0) {
        struct ig_shard_result other;
        seeds.of |= IG_SEED_WIDTHS;
        search(s, seeds, is_forced, costs, &other);
        if (other.time < IG_WORTH * c->result.time) c->result = other;
    }
    c->memory = ig_shard_memory_of(s->graph, &c->result.plan, is_narrow(s));
    c->rate = rate_of(s, c);
}

/* What is known of values that stages may be sent. */
static struct ig_shard_numbers numbers_of(const struct ig_sharding *s) {
    if (!is_narrow(s)) return (struct ig_shard_numbers){NULL, NULL};
    const struct ig_range *ranges = ig_precision_ranges(s->graph);
    return (struct ig_shard_numbers){ranges, ig_precision_sent(s->graph, s->target, s->precisions, ranges)};
}

/* Each rank has some of the nodes. A run takes no less time than on one rank, so that it is for throughput, or for want of
 * memory. */
static void consider_pipeline(struct ig_sharding *s, bool is_forced, const struct ig_shard_costs *costs) {
    if (s->ranks == 1) return;
    if (is_forced && s->asks.count > 0)
        ig_raise(s->graph->job, INGOT_INVALID_ARGUMENT,
                 "shard '%s': the stages of a pipeline have whole nodes, which are not divided", s->asks.list[0].text);
    if (s->asks.count > 0) return;
    struct ig_strategy *c = &s->considered[s->n_considered++];
    c->name = "pipeline";
    ig_shard_stages(s->graph, s->ranks, numbers_of(s), costs, &c->result);
    c->memory = ig_shard_memory_of(s->graph, &c->result.plan, is_narrow(s));
    c->rate = rate_of(s, c);
}

/* Every rank has the whole network and samples of its own. */
static void consider_replicas(struct ig_sharding *s) {
    if (!s->throughput || s->ranks == 1 || s->asks.count > 0) return;
    struct ig_strategy *c = &s->considered[s->n_considered++];
    *c = s->considered[0];
    c->name = "replicas";
    c->rate *= s->ranks;
}

static void divide(struct ig_sharding *s, const struct ingot_build_options *o) {
    const struct ig_shard_costs costs = ig_shard_costs_open(s->graph, s->target, is_narrow(s));
    const int count = s->ranks == 1 ? 1 : SEARCHED;
    s->samples = samples_of(s->graph, &costs);
    s->n_considered = count;
    for (int i = 0; i < count; i++)
        consider(s, i, forced(o) == i, &costs);
    const bool pipeline = forced(o) == PIPELINE;
    if (pipeline || s->throughput) consider_pipeline(s, pipeline, &costs);
    consider_replicas(s);
    bool found = choose(s, o);
    if (!found || (s->chosen == PIPELINE && !pipeline)) {
        for (int i = 1; i < count; i++) /* divide what need not be, to need less */
            consider(s, i, true, &costs);
        found = choose(s, o);
    }
    if (!found && !pipeline && !s->throughput) {
        consider_pipeline(s, false, &costs);
        found = choose(s, o);
    }
    if (!found) refuse(s);
    for (int r = 0; r < s->ranks; r++)
        s->graphs[r] = ig_shard_split(s->graph, &s->considered[s->chosen].result.plan, r);
}

void ig_sharding_make(struct ig_graph *graph, const struct ig_target *target, const struct ig_precisions *precisions,
                      const struct ingot_build_options *o, int ranks, struct ig_sharding *out) {
    *out = (struct ig_sharding){.ranks = ranks,
                                .target = target,
                                .precisions = precisions,
                                .link = ig_link_of(target),
                                .graph = graph,
                                .throughput = for_throughput(o),
                                .memory = (double)o->memory};
    out->graphs = IG_NEW_ARRAY(graph->job, struct ig_graph *, (size_t)ranks);
    ig_shard_asks_parse(graph->job, o->shard_of, o->n_shard_of, &out->asks);
    ig_shard_asks_bind(&out->asks, graph);
    if (ig_shard_own(graph))
        adopt(out, o);
    else
        divide(out, o);
    out->collectives = ig_shard_check(out->graphs, ranks);
}

struct ingot_build_options ig_sharding_options(const struct ig_graph *imported, const struct ig_graph *graph,
                                               const struct ingot_build_options *o, unsigned ranks) {
    struct ingot_build_options all = *o;
    const char **asks = IG_NEW_ARRAY(imported->job, const char *, imported->n_notes + o->n_shard_of + 1);
    all.shard_of = asks;
    all.n_shard_of = 0;
    for (uint32_t i = 0; i < imported->n_notes; i++) {
        const struct ig_sharding_note *note = &imported->notes[i];
        if (note->devices != ranks) continue;
        if (note->problem)
            ig_raise(imported->job, INGOT_UNSUPPORTED, "the model's device configuration for %u devices: %s", ranks,
                     note->problem);
        if (ig_shard_ask_has_nodes(note->ask, graph)) asks[all.n_shard_of++] = note->ask;
    }
    for (size_t i = 0; i < o->n_shard_of; i++)
        asks[all.n_shard_of++] = o->shard_of[i];
    return all;
}

void ig_sharding_verify(const struct ig_sharding *s) {
    uint32_t count = ig_shard_check(s->graphs, s->ranks);
    if (count != s->collectives)
        ig_raise(s->graph->job, INGOT_INTERNAL, "passes have left %u of %u collectives", count, s->collectives);
}
