/* State that the evaluator keeps with a graph: cached small constants, and the visit marks of walks. */
#ifndef IG_IR_EVAL_CONST_H
#define IG_IR_EVAL_CONST_H

#include "ir/graph.h"

/* An array with one mark per value of the graph, and a generation number that none of the marks has yet. */
uint64_t *ig_const_marks(struct ig_graph *graph, uint32_t *out_generation);

/* Takes the elements that ig_const_tensor gave from the job: the caller frees them by ig_eval_free_detached. NULL: they
 * belong to the graph. */
void *ig_const_take(struct ig_graph *graph, const struct ingot_tensor *tensor);

#endif
