/*
 * Parts of tensors that lie in one piece of the tensor's memory, such as one layer's part of stacked caches: they can be
 * read in place, as memory that begins within other memory.
 */
#ifndef IG_IR_PART_H
#define IG_IR_PART_H

#include "ir/graph.h"
#include "ir/target.h"

/* Is the node a slice whose elements lie in its operand's memory as one dense tensor, and within the operand for all
 * values of the symbols? Then *out_begin is the number of elements before it. */
bool ig_part_begin(struct ig_graph *g, const struct ig_node *n, ig_dim *out_begin);

/* Can a target's kernels access a tensor of that type which begins so many elements behind an aligned address? Those for
 * GPUs access up to 16 bytes at once. */
bool ig_part_is_aligned(struct ig_graph *g, const struct ig_target *target, enum ingot_dtype dtype, ig_dim begin);

/* Is the node a concatenation along the outermost axis, so that each operand's elements lie in one piece of its memory? */
bool ig_part_is_row_of_parts(const struct ig_graph *g, const struct ig_node *n);
/* Of an output of a divided graph: the concatenation that no region computes, because regions store its operands in its
 * memory; NULL: none. */
const struct ig_node *ig_part_stored(const struct ig_graph *g, ig_value output);
/* In a divided graph: does v lie in the memory of an input? */
bool ig_part_is_given(const struct ig_graph *g, ig_value v);
/* The value whose memory v shares through reshapes. */
ig_value ig_part_base(const struct ig_graph *g, ig_value v);
/* In a divided graph: the region that computes the memory which v is, or is a part of; IG_NO_REGION: none. */
uint32_t ig_part_producer(const struct ig_graph *g, ig_value v);

#endif
