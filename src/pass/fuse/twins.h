/* Pairs of products that one kernel computes: two weights, one first operand of few rows. */
#ifndef IG_PASS_TWINS_H
#define IG_PASS_TWINS_H

#include "pass/pass.h"

/* Have the products the same first operand, of at most 16 rows, and constant second ones that lie in the same way? */
bool ig_are_twins(struct ig_graph *graph, const struct ig_node *a, const struct ig_node *b);
/* Can one kernel compute two recurrences side by side, such as the directions of a layer? */
bool ig_are_alike_recurrences(const struct ig_graph *graph, const struct ig_node *a, const struct ig_node *b);

#endif
