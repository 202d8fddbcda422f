/*
 * Literals that become weights; see literals.h. All literals that might are marked, which leaves fingerprints without
 * their values; regions with equal ones are compared; and those literals whose values differ among enough of them stay
 * marked.
 */
#include "compile/refit/literals.h"

#include <string.h>

#include "base/map.h"
#include "ir/canonical.h"
#include "kernel/kernel.h"

/* A literal is free, and a kernel takes a fraction of a second to compile: that many kernels are worth it. */
enum { LEAST_KERNELS = 4 };

/* Regions that are equal but for literals. */
struct likes {
    IG_VEC(struct ig_graph *) graphs;
    IG_VEC(const struct ig_region *) regions;
    struct ig_map literals; /* their texts, each once */
};

struct lifting {
    struct ig_job *job;
    const struct ig_target *target;
    IG_VEC(struct ig_graph *) graphs; /* the main one, and bodies */
    struct ig_map by_text;
    IG_VEC(struct likes) likes;
};

/* ---- Candidates -------------------------------------------------------------------------------------------------- */

/* Operators for which it makes no difference whether the operand is known. */
static bool takes_from_memory(const struct ig_graph *g, const struct ig_node *n) {
    switch (n->op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_eq:
    case IG_OP_lt:
    case IG_OP_le:
    case IG_OP_where: return true;
    case IG_OP_div: return ig_dtype_is_float(ig_type_of(g, n->out)->dtype);
    default: return false;
    }
}

/* Marks the literals that are read by such operators only. */
static void mark_candidates(struct ig_graph *g) {
    for (ig_value v = 0; v < g->values.count; v++)
        g->values.at[v].in_memory = ig_info(g, v)->is_const && ig_is_literal(g, v);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const || takes_from_memory(g, n)) continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) g->values.at[n->in[i]].in_memory = false;
        }
    }
    for (uint32_t i = 0; i < g->outputs.count; i++)
        g->values.at[g->outputs.at[i].value].in_memory = false;
}

static void find_graphs(struct lifting *l, struct ig_graph *g) {
    IG_PUSH(l->job, &l->graphs, g);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        for (int k = 0; k < 2; k++) {
            if (g->nodes.at[id].body[k]) find_graphs(l, g->nodes.at[id].body[k]);
        }
    }
}

/* ---- Likes ------------------------------------------------------------------------------------------------------- */

/* The values of a region's candidates; NULL: it has none. */
static const char *literals_of(struct ig_graph *g, const struct ig_region *region) {
    struct ig_canon canon = {.graph = g};
    struct ig_text text;
    ig_text_init(&text, g->job);
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        if (ig_info(g, region->inputs.at[i])->in_memory) ig_canon_literal(&canon, region->inputs.at[i], &text);
    }
    return text.at;
}

static void add_region(struct lifting *l, struct ig_graph *g, const struct ig_region *region) {
    const char *literals = literals_of(g, region);
    uint32_t index;
    if (!literals || !ig_family_has_kernels(region->family)) return;
    const char *text = ig_region_fingerprint(g, region, l->target).text;
    if (!ig_map_get_name(&l->by_text, text, &index)) {
        struct likes none = {0};
        index = l->likes.count;
        ig_map_init(&none.literals, l->job);
        IG_PUSH(l->job, &l->likes, none);
        ig_map_put_name(&l->by_text, text, index);
    }
    struct likes *likes = &l->likes.at[index];
    IG_PUSH(l->job, &likes->graphs, g);
    IG_PUSH(l->job, &likes->regions, region);
    ig_map_put_name(&likes->literals, literals, 1);
}

/* Is the literal at a position the same in all of them? */
static bool is_same(struct lifting *l, const struct likes *likes, uint32_t position) {
    struct ig_map values;
    ig_map_init(&values, l->job);
    for (uint32_t i = 0; i < likes->regions.count; i++) {
        struct ig_canon canon = {.graph = likes->graphs.at[i]};
        struct ig_text text;
        ig_text_init(&text, l->job);
        ig_canon_literal(&canon, likes->regions.at[i]->inputs.at[position], &text);
        ig_map_put_name(&values, text.at, 1);
    }
    return values.count == 1;
}

/* Notes the literals that differ. */
static void keep(struct lifting *l, const struct likes *likes, struct ig_map *kept) {
    const struct ig_region *first = likes->regions.at[0];
    for (uint32_t k = 0; k < first->inputs.count; k++) {
        if (!ig_info(likes->graphs.at[0], first->inputs.at[k])->in_memory || is_same(l, likes, k)) continue;
        for (uint32_t i = 0; i < likes->regions.count; i++) {
            uint64_t key[2] = {(uintptr_t)likes->graphs.at[i], likes->regions.at[i]->inputs.at[k]};
            ig_map_put(kept, key, sizeof key, 1);
        }
    }
}

void ig_literals_to_memory(struct ig_graph *graph, const struct ig_target *target) {
    struct lifting l = {.job = graph->job, .target = target};
    struct ig_map kept;
    ig_map_init(&l.by_text, l.job);
    ig_map_init(&kept, l.job);
    find_graphs(&l, graph);
    for (uint32_t i = 0; i < l.graphs.count; i++) {
        mark_candidates(l.graphs.at[i]);
        for (uint32_t r = 0; r < l.graphs.at[i]->regions.count; r++)
            add_region(&l, l.graphs.at[i], &l.graphs.at[i]->regions.at[r]);
    }
    for (uint32_t i = 0; i < l.likes.count; i++) {
        if (l.likes.at[i].literals.count >= LEAST_KERNELS) keep(&l, &l.likes.at[i], &kept);
    }
    for (uint32_t i = 0; i < l.graphs.count; i++) {
        for (ig_value v = 0; v < l.graphs.at[i]->values.count; v++) {
            uint64_t key[2] = {(uintptr_t)l.graphs.at[i], v};
            uint32_t found;
            l.graphs.at[i]->values.at[v].in_memory =
                ig_info(l.graphs.at[i], v)->in_memory && ig_map_get(&kept, key, sizeof key, &found);
        }
    }
}
