/* What fuse asks of scatters. */
#ifndef IG_PASS_FUSE_SCATTERS_H
#define IG_PASS_FUSE_SCATTERS_H

#include "ir/graph.h"

/* The value that the indices `v` of a scatter are read from, through repetitions: those of whole rows would else be stored for each
 * element. Indices that do not repeat are read as they are. */
ig_value ig_beneath_repeats(const struct ig_graph *graph, ig_value v);
/* Is this a scatter whose kernel on GPUs collects what it adds up, or takes the extremes of, before it stores it
 * (kernel/cuda/scatter.c), so that more can be computed of it then? There are many updates of few places, and whole rows of
 * them. */
bool ig_collects_updates(const struct ig_graph *graph, const struct ig_node *node);

#endif
