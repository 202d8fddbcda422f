/* Applies the user's shape specs: fixed dims become constants throughout the graph, ranges narrow symbols. */
#ifndef IG_COMPILE_SPECIALIZE_H
#define IG_COMPILE_SPECIALIZE_H

#include "ir/graph.h"

/*
 * Returns the graph with the specs applied and its dims simplified by all that is known of the symbols. Raises
 * INGOT_INVALID_ARGUMENT for a name that is neither a symbol nor an input, or a spec that does not fit.
 *
 * Sets the usual value of every symbol: the OPT of its spec; else 1 along the first axis of an input (a batch) and 128
 * elsewhere, clamped to its range.
 *
 * `in_parts`: runs may compute their rows in parts (runtime/parts.h). Then a size of several rows that do not affect each
 * other stays a symbol though it is fixed (ig_dim_fix), with a range from 1 on.
 */
struct ig_graph *ig_specialize(struct ig_graph *graph, const struct ingot_shape_spec *specs, size_t count,
                               bool in_parts);

#endif
