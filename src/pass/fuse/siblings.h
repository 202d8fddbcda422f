/*
 * Maps that read results of one kernel become one kernel: the queries, keys and values of one token, say, each turned
 * and stored in its own form. So do small maps that read only inputs and constants. A kernel of a map has parts already
 * (kernel/mapping.h), which run side by side.
 */
#ifndef IG_PASS_SIBLINGS_H
#define IG_PASS_SIBLINGS_H

#include "ir/graph.h"

/* Joins regions of the graph, once everything else about them is decided. Each joined region runs where the last of its members
 * did, or, if it reads nothing that a kernel computes, where the first one did. */
void ig_join_siblings(struct ig_graph *graph);

#endif
