/*
 * Rows: does a model treat the samples that a symbol counts (those of a batch, mostly) independently? Then it may run
 * with more of them than there are, and the first results are the same, whatever the others contain, NaN included.
 */
#ifndef IG_IR_ROWS_H
#define IG_IR_ROWS_H

#include "ir/graph.h"

enum { IG_ROWS_NONE = -1 }; /* knows nothing of the symbol */

/* Where a value has its rows: along an axis of outer x symbol x inner elements, in that order. */
struct ig_rows_at {
    int axis; /* or IG_ROWS_NONE */
    ig_dim inner;
    /* Of integers, if `step` is not IG_DIM_NONE: each is step times the number of its row (0 where there are none) plus
     * something from least to most. */
    ig_dim step, least, most;
};

/*
 * NULL if the graph treats the rows of a symbol independently, and every input and output has them along exactly one
 * axis, of the symbol's size, or has none. Otherwise the reason, in the arena, about "them": "ReduceMean 'pool' mixes
 * them (reduce_mean(f32[batch,64]): f32[1,64])". It names the first node, in the graph's order, that mixes rows.
 *
 * NULL is a promise; a reason is not always a proof: operators for which it would be hard to tell count as mixing.
 */
const char *ig_rows_mixed(struct ig_graph *graph, ig_dim symbol);
/* The same, and where each value that outputs depend on has its rows, by value, in the arena. */
const char *ig_rows_find(struct ig_graph *graph, ig_dim symbol, const struct ig_rows_at **out_at);

#endif
