/*
 * Networks that have collectives of their own, as ONNX Runtime's models for one rank do: what they compute is one rank's
 * already, so they are not divided. Every rank runs the same graph.
 */
#ifndef IG_PASS_SHARD_OWN_H
#define IG_PASS_SHARD_OWN_H

#include "ir/graph.h"

/* The first collective of the graph or of its bodies; NULL: it has none. */
const struct ig_node *ig_shard_own(const struct ig_graph *graph);

/*
 * The graph of that rank: collectives are numbered in their order, and know the rank and the number of ranks. A reduction of one rank
 * is taken as one of however many there are, since models do not say. Raises INGOT_INVALID_ARGUMENT for a
 * collective of another number of ranks, INGOT_UNSUPPORTED for one in control flow.
 */
struct ig_graph *ig_shard_adopt(struct ig_graph *graph, int ranks, int rank);

#endif
