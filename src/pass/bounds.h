/* Interval analysis: between which numbers the elements of values lie, from literals, shapes, types and operators alone. */
#ifndef IG_PASS_BOUNDS_H
#define IG_PASS_BOUNDS_H

#include "ir/graph.h"

/* Bounds of all elements that are not NaN; infinities if unknown. */
struct ig_bounds {
    double lo, hi;
};

/* Of one value, from at most a few operators before it. */
struct ig_bounds ig_bounds_of(struct ig_graph *g, ig_value v);
/* Of all values: an array by value, in the graph's arena. */
struct ig_bounds *ig_bounds_of_all(struct ig_graph *g);

/* The larger of the absolute values. */
double ig_bounds_most(struct ig_bounds bounds);
/* The least absolute value; 0 if zero may lie in between. */
double ig_bounds_least(struct ig_bounds bounds);

#endif
