/* What the evaluator keeps with a graph: its small constants, and the marks of walks. */
#ifndef IG_IR_EVAL_CONST_H
#define IG_IR_EVAL_CONST_H

#include "ir/graph.h"

/* An array with one mark per value of the graph, and a number that no mark in it has yet. */
uint64_t *ig_const_marks(struct ig_graph *graph, uint32_t *out_generation);

#endif
