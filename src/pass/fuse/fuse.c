/*
 * fuse: divides the non-constant part of the graph into regions, each computed by one kernel.
 *
 * Requires:   the graph in its final form; constants lazy.
 * Guarantees: graph->regions in an execution order; every value that a region reads is constant, an input of the graph,
 *             an output of an earlier region, or a reshape or part of one of these (which aliases the same memory).
 *
 * First the most fused regions are formed (form.c); on GPUs estimates then decide where less of it is faster (profit.c),
 * and regions are formed again with what was decided.
 */
#include "pass/fuse/exchanges.h"
#include "pass/fuse/form.h"
#include "pass/fuse/norms.h"
#include "pass/fuse/profit.h"
#include "pass/fuse/regions.h"
#include "pass/fuse/siblings.h"

/* ---- Decisions by estimates ---------------------------------------------------------------------------------------- */

/* An attention that is a region. */
struct attention {
    ig_node_id product;
    IG_VEC(ig_node_id) nodes; /* that the region computes */
    double time;
};

static struct attention look_attention(struct ig_graph *g, const struct ig_pass_options *options, uint32_t region) {
    const struct ig_region *r = &g->regions.at[region];
    struct attention a = {.product = r->anchor};
    for (uint32_t i = 0; i < r->nodes.count; i++) {
        if (g->nodes.at[r->nodes.at[i]].region == region) IG_PUSH(g->job, &a.nodes, r->nodes.at[i]);
    }
    a.time = ig_profit_time(g, options, a.nodes.at, a.nodes.count);
    return a;
}

/* Each attention, or the products and the softmax one by one: tried once for those that look alike. Returns whether any
 * is declined. */
static bool decide_attentions(struct ig_graph *g, const struct ig_pass_options *options, struct ig_choices *choices) {
    IG_VEC(struct attention) found = {0};
    bool any = false;
    for (uint32_t i = 0; i < g->regions.count; i++) {
        if (g->regions.at[i].family == IG_FAMILY_ATTEND) IG_PUSH(g->job, &found, look_attention(g, options, i));
    }
    for (uint32_t i = 0; i < found.count; i++) {
        const struct attention *a = &found.at[i];
        uint32_t like = 0;
        while (found.at[like].time != a->time || found.at[like].nodes.count != a->nodes.count)
            like++;
        if (like < i) {
            choices->declined[a->product] = choices->declined[found.at[like].product];
            continue;
        }
        choices->declined[a->product] = true;
        ig_regions_form(g, options, true, choices);
        double apart = ig_profit_time(g, options, a->nodes.at, a->nodes.count);
        choices->declined[a->product] =
            ig_profit_is_better(g, options, g->nodes.at[a->product].out, "several kernels", a->time, apart);
        any |= choices->declined[a->product];
    }
    if (found.count > 0) ig_regions_form(g, options, true, choices);
    return any;
}

static void decide_views(struct ig_graph *g, const struct ig_pass_options *options, struct ig_choices *choices) {
    enum { MOST_ROUNDS = 16 };
    for (int i = 0; i < MOST_ROUNDS && ig_profit_of_views(g, options, choices); i++)
        ig_regions_form(g, options, true, choices);
}

/* Each map that one region reads through views: computed there, or stored. */
static void decide_maps(struct ig_graph *g, const struct ig_pass_options *options, struct ig_choices *choices) {
    choices->beneath = true;
    ig_regions_form(g, options, true, choices);
    if (ig_profit_of_maps(g, options, choices)) ig_regions_form(g, options, true, choices);
}

/* A region for each node; as large ones as pay, but that what a view alone reads is stored; as large ones as pay. */
enum way { ONE_BY_ONE, STORED_BENEATH, MOST_FUSED };

static void divide(struct ig_graph *g, const struct ig_pass_options *options, enum way way, bool is_body) {
    struct ig_choices choices;
    bool join = way != ONE_BY_ONE;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        for (int b = 0; b < 2; b++) {
            if (g->nodes.at[id].body[b]) divide(g->nodes.at[id].body[b], options, way, true);
        }
    }
    if (g->regions.count > 0) return;
    ig_choices_init(&choices, g);
    choices.is_body = is_body;
    ig_regions_form(g, options, join, &choices);
    if (!join || !options->estimator) return;
    decide_views(g, options, &choices);
    if (decide_attentions(g, options, &choices)) decide_views(g, options, &choices);
    if (way == MOST_FUSED) decide_maps(g, options, &choices);
    ig_join_norms(g, options);
    ig_join_siblings(g);
    ig_join_exchanges(g, options);
}

struct ig_graph *ig_pass_fuse(struct ig_graph *in, const struct ig_pass_options *options) {
    struct ig_graph *out = ig_rewrite(in, options, NULL, NULL);
    divide(out, options, MOST_FUSED, false);
    return out;
}

struct ig_graph *ig_regions_stored(struct ig_graph *in, const struct ig_pass_options *options) {
    struct ig_graph *out = ig_rewrite(in, options, NULL, NULL);
    divide(out, options, STORED_BENEATH, false);
    return out;
}

struct ig_graph *ig_pass_partition(struct ig_graph *in, const struct ig_pass_options *options) {
    if (in->regions.count > 0) return in;
    struct ig_graph *out = ig_rewrite(in, options, NULL, NULL);
    divide(out, options, ONE_BY_ONE, false);
    return out;
}
