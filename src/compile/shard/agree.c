/* See agree.h. */
#include "compile/shard/agree.h"

#include <string.h>

#include "kernel/kernel.h"

/* The next region from *inout_at on that is a collective; NULL: none. */
static struct ig_region *next_collective(struct ig_graph *g, uint32_t *inout_at) {
    while (*inout_at < g->regions.count) {
        struct ig_region *region = &g->regions.at[(*inout_at)++];
        if (region->family == IG_FAMILY_COLLECTIVE) return region;
    }
    return NULL;
}

/* What is joined to a collective, as text. */
static const char *text_of(struct ig_graph *g, const struct ig_region *region, const struct ig_target *target) {
    return region->joined ? ig_region_fingerprint(g, region->joined, target).text : "";
}

void ig_shard_agree(struct ig_graph *const *graphs, int ranks, const struct ig_target *target) {
    struct ig_job *job = graphs[0]->job;
    uint32_t *at = IG_NEW_ARRAY(job, uint32_t, (size_t)ranks);
    struct ig_region **regions = IG_NEW_ARRAY(job, struct ig_region *, (size_t)ranks);
    for (;;) {
        bool same = true;
        for (int r = 0; r < ranks; r++) {
            regions[r] = next_collective(graphs[r], &at[r]);
            if (!regions[r]) return;
        }
        const char *first = text_of(graphs[0], regions[0], target);
        for (int r = 1; r < ranks && same; r++)
            same = strcmp(first, text_of(graphs[r], regions[r], target)) == 0;
        for (int r = 0; r < ranks && !same; r++)
            regions[r]->joined = NULL;
    }
}

/* The rank that reads the collective's result, or how many do: none gives 0, one 1 + its number, several -1. */
static int reader_of(struct ig_region **regions, struct ig_graph *const *graphs, uint32_t **uses, int ranks) {
    int reader = 0;
    for (int r = 0; r < ranks; r++) {
        const ig_value result = graphs[r]->nodes.at[regions[r]->anchor].out;
        if (uses[r][result] > 0) reader = reader ? -1 : r + 1;
    }
    return reader;
}

void ig_shard_pair(struct ig_graph *const *graphs, int ranks, const struct ig_target *target) {
    struct ig_job *job = graphs[0]->job;
    if (ig_target_is_cuda(target)) return;
    uint32_t *at = IG_NEW_ARRAY(job, uint32_t, (size_t)ranks), **uses = IG_NEW_ARRAY(job, uint32_t *, (size_t)ranks);
    struct ig_region **regions = IG_NEW_ARRAY(job, struct ig_region *, (size_t)ranks);
    for (int r = 0; r < ranks; r++)
        uses[r] = ig_graph_use_counts(graphs[r]);
    for (;;) {
        for (int r = 0; r < ranks; r++) {
            regions[r] = next_collective(graphs[r], &at[r]);
            if (!regions[r]) return;
        }
        const struct ig_node *n = &graphs[0]->nodes.at[regions[0]->anchor];
        const int reader = ig_gathers_from_one(graphs[0], n) ? reader_of(regions, graphs, uses, ranks) : -1;
        if (reader <= 0 || reader - 1 == ig_gathers_from(graphs[0], n)) continue;
        for (int r = 0; r < ranks; r++)
            regions[r]->reader = reader;
    }
}
