/*
 * From graph to expressions: one element of a graph value at a given index, as an expression over the region's inputs.
 * Views (transpose, slice, reshape, pad, concat, gather, …) become index arithmetic.
 */
#ifndef IG_KERNEL_LOWER_H
#define IG_KERNEL_LOWER_H

#include "base/map.h"
#include "ir/canonical.h"
#include "ir/eval/eval.h"
#include "kernel/loop.h"

struct ig_lower {
    struct ig_loops *loops;
    struct ig_graph *graph;
    const struct ig_region *region;
    /* Called first for every value: lets a schedule substitute what is already computed (an accumulator, a row buffer,
     * a contraction's tile). Returns IG_NO_X to lower the value as usual. May be NULL. */
    ig_x (*known)(void *user, ig_value value, const ig_x *index);
    void *user;
    int *buffer_of;     /* by value: loop buffer of a region input or output; -1: none */
    bool *is_input;     /* by value: read from buffer_of */
    struct ig_map memo; /* of the current call of ig_lower_value */
    int depth;
};

/* Creates buffers for the region's inputs and outputs, in their order, dense and row-major. One-element constants
 * become literals. */
void ig_lower_init(struct ig_lower *lower, struct ig_loops *loops, struct ig_graph *graph,
                   const struct ig_region *region);
/* The element of `value` at index[0 … rank-1] (i64 expressions, in range), in the compute type of its dtype. */
ig_x ig_lower_value(struct ig_lower *lower, ig_value value, const ig_x *index);
/* The row-major offset of `index` in a dense tensor of that type. */
ig_x ig_lower_linear(struct ig_lower *lower, const struct ig_type *type, const ig_x *index);
/* The inverse of ig_lower_linear. */
void ig_lower_split(struct ig_lower *lower, const struct ig_type *type, ig_x linear, ig_x *out_index);
/* Maps an index in `from` to the same element's index in `to`, where one is a reshape of the other. Groups of dims with
 * equal products are mapped separately, so that only what is really regrouped costs divisions. */
void ig_lower_reindex(struct ig_lower *lower, const struct ig_type *from, const ig_x *index, const struct ig_type *to,
                      ig_x *out_index);
#endif
