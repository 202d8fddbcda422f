/*
 * Samples: sizes at which an engine with symbolic dims is judged before any are known.
 *
 * A point gives every symbol a value. Symbols that inputs determine vary over their ranges; all others keep their usual
 * values. Small and large sizes count alike: what matters is by how much a size differs from the next, as a ratio.
 */
#ifndef IG_COMPILE_SAMPLES_H
#define IG_COMPILE_SAMPLES_H

#include "ir/graph.h"
#include "kernel/sizes.h"

struct ig_samples {
    IG_VEC(struct ig_sizes) points; /* the first has all usual values */
    double *weights;                /* by point; the sum is 1, or 0 if the usual point is alone */
};

/* Up to some 160 points. One alone: no symbol varies. */
void ig_samples_make(struct ig_graph *graph, struct ig_samples *out_samples);
/* A handful, for measuring: behind the usual point those at the ends of the ranges, then those between; no weights. */
void ig_samples_make_few(struct ig_graph *graph, struct ig_samples *out_samples);

#endif
