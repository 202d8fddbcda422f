/*
 * Recognises attention in a graph: two products with a softmax over the keys between them. The fuse pass makes one
 * region of it, and the kernel of such a region reads it again.
 */
#ifndef IG_IR_ATTEND_H
#define IG_IR_ATTEND_H

#include "ir/graph.h"

struct ig_attend {
    ig_node_id scores;        /* the product Q K^T */
    ig_value changed;         /* the scores after elementwise work on values of their shape (scales, masks, …), with
                                 their batches perhaps in other dims */
    ig_node_id product;       /* the product of weights and values */
    bool repaired;            /* NaN weights count as zero */
    bool guarded;             /* if all scores of a query are -infinity, its weights are zero instead of NaN */
    IG_VEC(ig_node_id) nodes; /* from the scores to the weights, inclusive; excludes `product` */
};

/* True if `product` multiplies a softmax of a product with something, and nothing else reads the values in between.
 * `uses`: use counts by value; NULL: the caller knows that nothing else reads them. */
bool ig_attend_match(struct ig_graph *graph, const uint32_t *uses, ig_node_id product, struct ig_attend *out_attend);

#endif
