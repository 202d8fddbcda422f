/* Recurrences on CPUs whose steps are shared by threads. */
#ifndef IG_IR_TURNS_H
#define IG_IR_TURNS_H

#include "ir/graph.h"
#include "ir/target.h"

/*
 * Of a few sequences, each step of a recurrence reads all its weights: what exceeds a processor's own cache is better read
 * by several, each its share. Their threads meet after each step, which costs about as much as a thread's reading of 100 kB.
 * Then what the next step reads must lie where all see it: the region has the states y as a result, and an LSTM's cells,
 * wanted or not. Here because the fuse pass sees to that and the kernel relies on it.
 */
bool ig_takes_turns(const struct ig_graph *g, const struct ig_node *n, const struct ig_target *target);

#endif
