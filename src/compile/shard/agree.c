/* See agree.h. */
#include "compile/shard/agree.h"

#include <string.h>

#include "ir/part.h"
#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/exchange_block.h"
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

/* Is a result of the region stored in the memory of an input? */
static bool updates_input(const struct ig_graph *g, const struct ig_region *region) {
    for (uint32_t o = 0; o < g->outputs.count; o++) {
        for (uint32_t i = 0; g->outputs.at[o].updates && i < region->outputs.count; i++)
            if (ig_part_base(g, g->outputs.at[o].value) == ig_part_base(g, region->outputs.at[i])) return true;
    }
    return false;
}

/* The product may still run when what it sends has been taken: so nothing may be written then that it reads. */
static void push(struct ig_graph *g, uint32_t product, const struct ig_target *target) {
    struct ig_region *from = &g->regions.at[product], *to = &g->regions.at[product + 1];
    const struct ig_node *collective = &g->nodes.at[to->anchor];
    if (from->family != IG_FAMILY_CONTRACT || from->outputs.at[0] != collective->in[0]) return;
    if (updates_input(g, to->joined)) return;
    struct ig_region sender = *from, *receiver = ig_memdup(g->job, to->joined, sizeof *receiver);
    sender.pushed = receiver->pushed = (int)ig_attr_int(g, collective, IG_ATTR_ranks);
    const struct ig_kernel *giver = ig_kernel_candidate(g, &sender, target, NULL, 0);
    const struct ig_kernel *taker = ig_kernel_candidate(g, receiver, target, NULL, 0);
    const struct ig_cuda_exchange *sent = giver ? ig_cuda_contract_pushes(giver) : NULL;
    if (!sent || !taker || taker->exchange->row != sent->row || taker->exchange->dtype != sent->dtype) return;
    from->pushed = sender.pushed;
    to->joined = receiver;
}

void ig_shard_push(struct ig_graph *g, const struct ig_target *target) {
    for (uint32_t r = 1; r < g->regions.count; r++) {
        if (g->regions.at[r].joined) push(g, r - 1, target);
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
