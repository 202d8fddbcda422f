/*
 * From one graph to those of the ranks of a group: rewrites it as a plan says, with collectives where what one node gives is
 * not what another reads.
 *
 * Inputs are whole on every rank, and so are outputs. Constants are sliced by nodes, as far up in their recipes as the rules
 * lead, so that what a rank's kernels read is its part, and refitting holds. Control flow is whole.
 */
#ifndef IG_PASS_SHARD_SPLIT_H
#define IG_PASS_SHARD_SPLIT_H

#include "pass/shard/rule.h"

#define IG_EVERY_RANK (-1)

struct ig_shard_plan {
    int ranks;
    const struct ig_division **divisions; /* by node of the graph; NULL: every rank computes it whole */
    const int *places; /* NULL, or of a pipeline, by node: the only rank that computes it, or IG_EVERY_RANK */
    /* NULL, or of a pipeline, by value: as which it is sent; INGOT_DTYPE_NONE: as it is */
    const enum ingot_dtype *sent;
};

/* The graph of one rank. All ranks' graphs have the same collectives in the same order. */
struct ig_graph *ig_shard_split(struct ig_graph *graph, const struct ig_shard_plan *plan, int rank);

/* Raises INGOT_INTERNAL unless these are the graphs of one group: the same inputs, outputs and collectives, numbered from 0. So a
 * pass that drops or moves one, even on all ranks, is found. Returns how many there are, which passes do not change. */
uint32_t ig_shard_check(struct ig_graph *const *graphs, int ranks);

#endif
