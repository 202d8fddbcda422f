/* Types of inputs and outputs that the user chose in place of the model's. */
#ifndef IG_COMPILE_IO_TYPES_H
#define IG_COMPILE_IO_TYPES_H

#include "ir/graph.h"

/*
 * Returns the graph (a model's, as imported; unchanged) with the ports that `options->io_types` name in their new types,
 * and casts behind its inputs and before its outputs. An output that is stored in an input's memory has that input's type.
 *
 * Raises INGOT_INVALID_ARGUMENT for what cannot be read, for a pattern that fits no input and no output of floats, and
 * where an output and the input that it updates would differ.
 */
struct ig_graph *ig_io_types_set(struct ig_graph *graph, const struct ingot_build_options *options);

#endif
