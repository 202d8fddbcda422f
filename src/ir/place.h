/*
 * Constants whose elements follow from their position by a few cheap operators: indices, comparisons of indices, masks
 * made of these. Computing them is faster than reading them, and in this form their contents can be recognised.
 */
#ifndef IG_IR_PLACE_H
#define IG_IR_PLACE_H

#include "ir/graph.h"

/* Is v such a value? False if all its elements are equal. */
bool ig_follows_from_place(struct ig_graph *g, ig_value v);
/* The axis whose index, and *out_first more, the elements of v are; -1 if they are something else. */
int ig_counted_axis(struct ig_graph *g, ig_value v, int64_t *out_first);

#endif
