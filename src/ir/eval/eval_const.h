/* State that the evaluator keeps with a graph: cached small constants, and the visit marks of walks. */
#ifndef IG_IR_EVAL_CONST_H
#define IG_IR_EVAL_CONST_H

#include "ir/graph.h"

/* An array with one mark per value of the graph, and a generation number that none of the marks has yet. */
uint64_t *ig_const_marks(struct ig_graph *graph, uint32_t *out_generation);

#endif
