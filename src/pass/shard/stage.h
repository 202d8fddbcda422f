/*
 * Stages of a pipeline: nodes are divided among ranks, instead of what they compute. A rank has the weights of its nodes alone.
 * A value that another rank reads is gathered from the one rank that has it: an all-gather of which the others' parts are empty.
 *
 * The last stage is rank 0's, so that a context of several ranks, whose results are those of rank 0, has them at once. They are not
 * sent to the others, where they are tensors with none of their first axis's elements: so a rank is done when its stage is, and its
 * next run overlaps with this one's later stages. Results of other stages, scalars, and what is stored in an input are sent to all.
 *
 * Nodes follow in the order of the graph, which is cut where the slowest stage is fastest, with what values cost that cross the
 * cuts. What follows from inputs for less than it takes to send it (masks, positions) belongs to no stage: every rank that reads
 * it computes it.
 *
 * A stage does not know how large the numbers can be that it is sent, and takes them for activations. Where types are narrow, cuts
 * avoid what they are not: squares, statistics, integers in floats. What kernels of one rank would store in a narrow type for each
 * other is sent in it: it is cast by the graphs themselves, since later each rank decides about types for itself.
 */
#ifndef IG_PASS_SHARD_STAGE_H
#define IG_PASS_SHARD_STAGE_H

#include "pass/precision/precision.h"
#include "pass/shard/search.h"

/* What is known of values where types are narrow, by value; both NULL where they are not. */
struct ig_shard_numbers {
    const struct ig_range *ranges;
    const enum ingot_dtype *sent; /* ig_precision_sent; kept by the plan */
};

/* Plans the graph, which has no dead nodes, in as many stages as ranks. Of fewer nodes, the last ones stay empty. */
void ig_shard_stages(struct ig_graph *graph, int ranks, struct ig_shard_numbers numbers,
                     const struct ig_shard_costs *costs, struct ig_shard_result *out_result);

/* For ig_shard_split: one rank's graph of such a plan. */
struct ig_graph *ig_shard_split_stages(struct ig_graph *graph, const struct ig_shard_plan *plan, int rank);

#endif
