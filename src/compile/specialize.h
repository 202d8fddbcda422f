/* Shape specs of the user: fixed dims become numbers all through the graph, ranges narrow the symbols. */
#ifndef IG_COMPILE_SPECIALIZE_H
#define IG_COMPILE_SPECIALIZE_H

#include "ir/graph.h"

/*
 * Returns the graph with the specs applied (the same graph where none fixes a dim). Raises INGOT_INVALID_ARGUMENT for a
 * name that is neither a symbol nor an input, or a spec that does not fit.
 *
 * All symbols get a usual value: the OPT of their specs; else 1 along the first axis of an input (a batch) and 128 elsewhere, or
 * what of their range is nearest.
 */
struct ig_graph *ig_specialize(struct ig_graph *graph, const struct ingot_shape_spec *specs, size_t count);

#endif
