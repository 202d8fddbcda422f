/* See regions.h. */
#include "pass/fuse/regions.h"

void ig_regions_remove(struct ig_graph *g, const bool *dead) {
    uint32_t *index = IG_NEW_ARRAY(g->job, uint32_t, g->regions.count + 1), count = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        if (dead[r]) continue;
        index[r] = count;
        g->regions.at[count++] = g->regions.at[r];
    }
    g->regions.count = count;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        struct ig_node *n = &g->nodes.at[id];
        if (n->region != IG_NO_REGION) n->region = index[n->region];
    }
}
