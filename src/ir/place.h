/*
 * Constants whose elements follow from their place by a few cheap operators: indices, comparisons of them, the masks made of
 * them. Memory behind them is read more slowly than they are computed, and as they are written they tell what they hold.
 */
#ifndef IG_IR_PLACE_H
#define IG_IR_PLACE_H

#include "ir/graph.h"

/* True of such a value; not of one that is the same everywhere. */
bool ig_follows_from_place(struct ig_graph *g, ig_value v);
/* The axis whose index an element of v is; -1 where its elements are something else. */
int ig_counted_axis(struct ig_graph *g, ig_value v);

#endif
