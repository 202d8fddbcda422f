/* Kernels that ranks run together must be made alike on all of them. */
#ifndef IG_COMPILE_AGREE_H
#define IG_COMPILE_AGREE_H

#include "ir/graph.h"
#include "ir/target.h"

/* Where not all ranks' graphs, which are divided into regions, join the same region to a collective (ir/graph.h), none does. */
void ig_shard_agree(struct ig_graph *const *graphs, int ranks, const struct ig_target *target);

/* Where the product right before a collective has a kernel that sends its rows as it computes them, it does so for what is joined to the
 * collective (struct ig_region, pushed). Ranks need not agree on that. */
void ig_shard_push(struct ig_graph *graph, const struct ig_target *target);

/* Finds what one rank sends to only one other (struct ig_region, reader), on processors: GPUs have kernels of all. */
void ig_shard_pair(struct ig_graph *const *graphs, int ranks, const struct ig_target *target);

#endif
