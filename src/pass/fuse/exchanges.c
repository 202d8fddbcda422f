/* See exchanges.h. */
#include "pass/fuse/exchanges.h"

#include "ir/canonical.h"
#include "ir/part.h"
#include "pass/fuse/profit.h"

static bool reads(const struct ig_graph *g, uint32_t region, uint32_t from) {
    for (uint32_t i = 0; i < g->regions.at[region].inputs.count; i++) {
        if (ig_part_producer(g, g->regions.at[region].inputs.at[i]) == from) return true;
    }
    return false;
}

/* The rows behind collective c, the first that read it, with no collective in between, whose order is the same on all ranks;
 * IG_NO_REGION: none. */
static uint32_t rows_behind(const struct ig_graph *g, uint32_t c) {
    for (uint32_t r = c + 1; r < g->regions.count; r++) {
        const enum ig_family family = g->regions.at[r].family;
        if (reads(g, r, c)) return family == IG_FAMILY_ROW ? r : IG_NO_REGION;
        if (family == IG_FAMILY_COLLECTIVE) break;
    }
    return IG_NO_REGION;
}

static bool is_stored_for_others(const struct ig_graph *g, uint32_t c, uint32_t rows) {
    for (uint32_t r = rows + 1; r < g->regions.count; r++) {
        if (reads(g, r, c)) return true;
    }
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        if (ig_part_producer(g, g->outputs.at[i].value) == c) return true;
    }
    return false;
}

/* The only input of the rows that is the collective's result, reshaped at most; IG_NO_VALUE: another or several. */
static ig_value only_input_from(const struct ig_graph *g, uint32_t c, uint32_t rows) {
    const struct ig_region *r = &g->regions.at[rows];
    const ig_value result = g->nodes.at[g->regions.at[c].anchor].out;
    ig_value found = IG_NO_VALUE;
    for (uint32_t i = 0; i < r->inputs.count; i++) {
        ig_value v = r->inputs.at[i];
        if (ig_part_producer(g, v) != c) continue;
        if (found != IG_NO_VALUE || ig_part_base(g, v) != result) return IG_NO_VALUE;
        found = v;
    }
    return found;
}

/* What both do; v: the collective's result as the rows read it. */
static struct ig_region *join(struct ig_graph *g, uint32_t c, uint32_t rows, ig_value v) {
    const struct ig_region *first = &g->regions.at[c], *second = &g->regions.at[rows];
    struct ig_region *r = IG_NEW(g->job, struct ig_region);
    *r = (struct ig_region){.family = IG_FAMILY_COLLECTIVE, .anchor = first->anchor};
    const ig_value source = g->nodes.at[first->anchor].in[0];
    IG_PUSH(g->job, &r->inputs, source);
    for (uint32_t i = 0; i < second->inputs.count; i++) {
        if (second->inputs.at[i] != v && second->inputs.at[i] != source)
            IG_PUSH(g->job, &r->inputs, second->inputs.at[i]);
    }
    for (ig_node_id id; (id = ig_info(g, v)->node) != first->anchor; v = g->nodes.at[id].in[0])
        IG_PUSH(g->job, &r->nodes, id);
    IG_PUSH(g->job, &r->nodes, first->anchor);
    for (uint32_t i = 0; i < second->nodes.count; i++)
        IG_PUSH(g->job, &r->nodes, second->nodes.at[i]);
    ig_region_sort(r);
    for (uint32_t i = 0; i < second->outputs.count; i++)
        IG_PUSH(g->job, &r->outputs, second->outputs.at[i]);
    if (is_stored_for_others(g, c, rows)) IG_PUSH(g->job, &r->outputs, g->nodes.at[first->anchor].out);
    ig_region_arrange(g, r);
    return r;
}

/* Moves region c right before a later one; the regions in between do not read it. */
static void move_before(struct ig_graph *g, uint32_t c, uint32_t later) {
    const struct ig_region moved = g->regions.at[c];
    for (uint32_t r = c; r + 1 < later; r++)
        g->regions.at[r] = g->regions.at[r + 1];
    g->regions.at[later - 1] = moved;
    for (ig_node_id id = 0; id < g->nodes.count && later - c > 1; id++) {
        struct ig_node *n = &g->nodes.at[id];
        if (n->region == IG_NO_REGION || n->region < c || n->region >= later) continue;
        n->region = n->region == c ? later - 1 : n->region - 1;
    }
}

/* The operand is computed, so that nothing in between changes it: an output may be stored in the memory of an input. */
static bool may_wait(const struct ig_graph *g, uint32_t c) {
    const struct ig_node *n = &g->nodes.at[g->regions.at[c].anchor];
    return n->op == IG_OP_all_reduce && ig_part_producer(g, n->in[0]) != IG_NO_REGION;
}

static void decide(struct ig_graph *g, const struct ig_pass_options *options, uint32_t c) {
    const uint32_t rows = may_wait(g, c) ? rows_behind(g, c) : IG_NO_REGION;
    const ig_value v = rows == IG_NO_REGION ? IG_NO_VALUE : only_input_from(g, c, rows);
    if (v == IG_NO_VALUE) return;
    const struct ig_region *joined = join(g, c, rows, v);
    const double fused = ig_profit_time_of(g, options, joined);
    if (fused == 0) return; /* there is no such kernel */
    const double apart =
        ig_profit_time_of(g, options, &g->regions.at[c]) + ig_profit_time_of(g, options, &g->regions.at[rows]);
    const ig_value result = g->nodes.at[g->regions.at[c].anchor].out;
    if (ig_profit_is_better(g, options, result, "several kernels", fused, apart)) return;
    g->regions.at[c].joined = joined;
    move_before(g, c, rows);
}

void ig_join_exchanges(struct ig_graph *g, const struct ig_pass_options *options) {
    for (uint32_t c = g->regions.count; c-- > 0;) {
        if (g->regions.at[c].family == IG_FAMILY_COLLECTIVE) decide(g, options, c);
    }
}
