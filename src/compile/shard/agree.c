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
