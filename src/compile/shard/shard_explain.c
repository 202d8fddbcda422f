/* What was decided about ranks, as JSON; see shard.h. */
#include <math.h>

#include "compile/explain.h"
#include "compile/shard/shard.h"
#include "ir/build.h"
#include "kernel/sizes.h"

static void put_considered(struct ig_text *t, const struct ig_sharding *s) {
    ig_text_add(t, "\"considered\": [");
    for (int i = 0; i < s->n_considered; i++) {
        const struct ig_strategy *c = &s->considered[i];
        ig_text_printf(t, "%s{\"strategy\": \"%s\", \"us\": %.1f, \"computing_us\": %.1f, \"divided\": %u, ",
                       i ? ", " : "", c->name, c->result.time, c->result.computing, c->result.divided);
        ig_text_printf(t, "\"samples_per_s\": %.1f, \"weights_bytes\": %.0f, \"values_bytes\": %.0f, \"why\": \"%s\"}",
                       c->rate, c->memory.weights, c->memory.values, ig_sharding_why(s, i));
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

static bool is_told(const struct ig_graph *g, const struct ig_node *n, const struct ig_division *d) {
    bool table = n->op == IG_OP_gather && ig_info(g, n->in[0])->is_const && d->in[0].kind == IG_LAYOUT_SPLIT;
    return table || ig_op_info(n->op)->family == IG_FAMILY_CONTRACT;
}

/* How products, convolutions and look-ups in tables are divided: "whole, axis 1 by (12) x 64 -> axis 2 by (12) x 64". */
static void put_divisions(struct ig_text *t, const struct ig_sharding *s) {
    const struct ig_shard_plan *plan = &s->considered[s->chosen].result.plan;
    struct ig_graph *g = s->graph;
    bool first = true;
    ig_text_add(t, "\"divided\": [");
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        const struct ig_division *d = plan->divisions[id];
        if (!d || !is_told(g, n, d)) continue;
        ig_text_add(t, first ? "\n      {" : ",\n      {");
        first = false;
        ig_text_add(t, "\"node\": ");
        ig_explain_string(t, n->origin ? n->origin : ig_op_info(n->op)->name);
        ig_text_printf(t, ", \"how\": \"%s, %s -> %s\"}", ig_layout_text(g->job, g->dims, &d->in[0]),
                       ig_layout_text(g->job, g->dims, &d->in[1]), ig_layout_text(g->job, g->dims, &d->out[0]));
    }
    ig_text_add(t, "]");
}

/* A pipeline's stages, from the first on. */
static void put_stages(struct ig_text *t, const struct ig_sharding *s) {
    const struct ig_shard_result *result = &s->considered[s->chosen].result;
    ig_text_add(t, "\"stages\": [");
    for (int r = 0; r < s->ranks; r++) {
        const struct ig_shard_stage *stage = &result->stages[r];
        ig_text_printf(t, "%s\n      {\"rank\": %d, \"nodes\": %u, \"us\": %.1f", r ? "," : "", stage->rank,
                       stage->nodes, stage->time);
        for (int k = 0; k < 2 && stage->nodes > 0; k++) {
            const struct ig_node *n = &s->graph->nodes.at[k ? stage->last : stage->first];
            ig_text_add(t, k ? ", \"last\": " : ", \"first\": ");
            ig_explain_string(t, n->origin ? n->origin : ig_op_info(n->op)->name);
        }
        ig_text_add(t, "}");
    }
    ig_text_add(t, "], ");
}

void ig_sharding_explain(const struct ig_sharding *s, struct ig_text *t) {
    const struct ig_strategy *chosen = &s->considered[s->chosen];
    ig_text_printf(t, "{\"ranks\": %d, \"strategy\": \"%s\", \"forced\": %s, \"link\": \"%s\", \"us\": %.1f, ",
                   s->ranks, chosen->name, s->is_forced ? "true" : "false", s->link->name, chosen->result.time);
    ig_text_printf(t, "\"weights_bytes\": %llu, ", (unsigned long long)s->weights);
    ig_text_printf(t, "\"objective\": \"%s\", ", s->throughput ? "throughput" : "latency");
    if (s->memory > 0) ig_text_printf(t, "\"memory\": %.0f, ", s->memory);
    put_considered(t, s);
    put_collectives(t, s);
    if (s->asks.count > 0) put_asks(t, s);
    if (chosen->result.stages) put_stages(t, s);
    put_divisions(t, s);
    ig_text_add(t, "}");
}
