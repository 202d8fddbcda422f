/* See norms.h. */
#include "pass/fuse/norms.h"

#include "ir/canonical.h"
#include "ir/part.h"
#include "pass/fuse/profit.h"
#include "pass/fuse/regions.h"

struct joining {
    struct ig_graph *g;
    const struct ig_pass_options *options;
    uint32_t *readers; /* by region: how many others read it */
    bool *is_result;   /* by region: it computes an output of the graph */
    bool *by_exchange; /* by region: it reads what ranks exchange, and may be joined with that (exchanges.h) */
    bool *dead;
};

static bool is_product(const struct ig_node *n) {
    return n->op == IG_OP_matmul || n->op == IG_OP_matmul_blocks;
}

/* What the estimator would decline, without asking it: products of many rows. */
static bool is_of_few_rows(const struct ig_graph *g, const struct ig_node *product) {
    enum { MOST_ROWS = 4 };
    const struct ig_type *out = ig_type_of(g, product->out);
    int64_t lo, most;
    ig_dim_range(g->dims, ig_dim_product(g->dims, out->dim, out->rank - 1), &lo, &most);
    return is_product(product) && most <= MOST_ROWS;
}

/* Is all that region r reads of p its products' first operand? */
static bool only_multiplies(const struct ig_graph *g, uint32_t r, uint32_t p) {
    const struct ig_region *region = &g->regions.at[r];
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[region->nodes.at[i]];
        for (uint32_t k = 0; k < n->n_in; k++) {
            if (n->in[k] == IG_NO_VALUE || ig_part_producer(g, n->in[k]) != p) continue;
            bool rows = ig_part_base(g, n->in[k]) == g->regions.at[p].outputs.at[0];
            if (!rows || !(n->op == IG_OP_reshape || (is_product(n) && k == 0))) return false;
        }
    }
    return true;
}

/* The rows that only the product of region r reads, all of them and as its first operand; IG_NO_REGION: there are none. */
static uint32_t rows_before(const struct joining *j, uint32_t r) {
    const struct ig_graph *g = j->g;
    const struct ig_node *product = &g->nodes.at[g->regions.at[r].anchor];
    if (!is_of_few_rows(g, product)) return IG_NO_REGION;
    const ig_value rows = ig_part_base(g, product->in[0]);
    const uint32_t p = ig_part_producer(g, rows);
    if (p == IG_NO_REGION || g->regions.at[p].family != IG_FAMILY_ROW || j->dead[p]) return IG_NO_REGION;
    const struct ig_region *from = &g->regions.at[p];
    bool alone = from->outputs.count == 1 && from->outputs.at[0] == rows && j->readers[p] == 1;
    if (!alone || j->is_result[p] || j->by_exchange[p]) return IG_NO_REGION;
    return only_multiplies(g, r, p) ? p : IG_NO_REGION;
}

static void add_node(struct ig_graph *g, struct ig_region *to, ig_node_id id) {
    for (uint32_t i = 0; i < to->nodes.count; i++) {
        if (to->nodes.at[i] == id) return; /* a view that both read through */
    }
    IG_PUSH(g->job, &to->nodes, id);
}

static void add_input(struct ig_graph *g, struct ig_region *to, ig_value v) {
    for (uint32_t i = 0; i < to->inputs.count; i++) {
        if (to->inputs.at[i] == v) return;
    }
    IG_PUSH(g->job, &to->inputs, v);
}

/* The region that does both, where all that the product reads of the rows are reshapes. */
static struct ig_region joined(struct ig_graph *g, uint32_t p, uint32_t r) {
    const struct ig_region *rows = &g->regions.at[p], *product = &g->regions.at[r];
    struct ig_region both = {.family = IG_FAMILY_CONTRACT, .anchor = product->anchor};
    for (uint32_t i = 0; i < rows->nodes.count; i++)
        add_node(g, &both, rows->nodes.at[i]);
    for (uint32_t i = 0; i < product->nodes.count; i++)
        add_node(g, &both, product->nodes.at[i]);
    for (uint32_t i = 0; i < rows->inputs.count; i++)
        add_input(g, &both, rows->inputs.at[i]);
    for (uint32_t i = 0; i < product->inputs.count; i++) {
        ig_value v = product->inputs.at[i];
        if (ig_part_producer(g, v) != p) {
            add_input(g, &both, v);
            continue;
        }
        for (; v != rows->outputs.at[0]; v = ig_def(g, v)->in[0])
            add_node(g, &both, ig_info(g, v)->node);
    }
    for (uint32_t i = 0; i < product->outputs.count; i++)
        IG_PUSH(g->job, &both.outputs, product->outputs.at[i]);
    ig_region_sort(&both);
    ig_region_arrange(g, &both);
    return both;
}

static void decide(struct joining *j, uint32_t r) {
    struct ig_graph *g = j->g;
    const uint32_t p = rows_before(j, r);
    if (p == IG_NO_REGION) return;
    const ig_value rows = g->regions.at[p].outputs.at[0];
    const struct ig_region both = joined(g, p, r);
    const double fused = ig_profit_time_of(g, j->options, &both);
    if (fused == 0) return; /* there is no such kernel */
    /* What the rows add to the product's kernel, beside what they take in their own: of all the product, it may be a small part. */
    const double added = fused - ig_profit_time_of(g, j->options, &g->regions.at[r]);
    const double apart = ig_profit_time_of(g, j->options, &g->regions.at[p]);
    if (ig_profit_is_better(g, j->options, rows, "several kernels", added, apart)) return;
    for (uint32_t i = 0; i < g->regions.at[p].nodes.count; i++) {
        struct ig_node *n = &g->nodes.at[g->regions.at[p].nodes.at[i]];
        if (n->region == p) n->region = r;
    }
    g->regions.at[r] = both;
    j->dead[p] = true;
}

static void find_readers(struct joining *j) {
    const struct ig_graph *g = j->g;
    uint32_t *last = IG_NEW_ARRAY(g->job, uint32_t, g->regions.count + 1);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        for (uint32_t i = 0; i < g->regions.at[r].inputs.count; i++) {
            const uint32_t p = ig_part_producer(g, g->regions.at[r].inputs.at[i]);
            if (p == IG_NO_REGION || last[p] == r + 1) continue;
            last[p] = r + 1;
            j->readers[p]++;
            j->by_exchange[r] |= g->regions.at[p].family == IG_FAMILY_COLLECTIVE;
        }
    }
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        const uint32_t p = ig_part_producer(g, g->outputs.at[i].value);
        if (p != IG_NO_REGION) j->is_result[p] = true;
    }
}

void ig_join_norms(struct ig_graph *g, const struct ig_pass_options *options) {
    struct joining j = {.g = g, .options = options};
    if (!options->target || !ig_target_is_cuda(options->target)) return;
    j.readers = IG_NEW_ARRAY(g->job, uint32_t, g->regions.count + 1);
    j.is_result = IG_NEW_ARRAY(g->job, bool, g->regions.count + 1);
    j.by_exchange = IG_NEW_ARRAY(g->job, bool, g->regions.count + 1);
    j.dead = IG_NEW_ARRAY(g->job, bool, g->regions.count + 1);
    find_readers(&j);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        if (g->regions.at[r].family == IG_FAMILY_CONTRACT) decide(&j, r);
    }
    ig_regions_remove(g, j.dead);
}
