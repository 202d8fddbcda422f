/*
 * The parts of an attention as they stand in a graph: two products with a softmax over the keys between them. What the
 * fuse pass makes one region of, and what the kernel of such a region computes.
 */
#ifndef IG_IR_ATTEND_H
#define IG_IR_ATTEND_H

#include "ir/graph.h"

struct ig_attend {
    ig_node_id scores; /* the product of queries and keys */
    ig_value changed;  /* what became of the scores, by elementwise work on values of their shape: scales, masks, … */
    ig_node_id product;       /* of the weights and the values */
    bool repaired;            /* weights that are NaN count as zero */
    bool guarded;             /* where all scores are -infinity, all weights are zero, not NaN */
    IG_VEC(ig_node_id) nodes; /* from the scores to the weights, both included; not `product` */
};

/* True where `product` multiplies a softmax of a product with something, and nothing else reads what is between. `uses`:
 * of the graph's values; NULL: that nobody else does is known. */
bool ig_attend_match(struct ig_graph *graph, const uint32_t *uses, ig_node_id product, struct ig_attend *out_attend);

#endif
