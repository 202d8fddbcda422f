/*
 * Results that are stored part by part: stacked caches of a decoder's layers, say, of which each layer stores its own where it
 * is to lie.
 */
#ifndef IG_PASS_IN_PLACE_H
#define IG_PASS_IN_PLACE_H

#include "ir/target.h"
#include "pass/pass.h"

/* By node: the concatenations that no region needs to compute, since the regions of their operands store these in their memory
 * (ig_part_stored). None unless `any`. `uses`: ig_graph_use_counts. */
bool *ig_find_in_place(struct ig_graph *graph, const struct ig_target *target, const uint32_t *uses, bool any);

#endif
