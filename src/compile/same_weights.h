/* Which constants, in whichever graphs of a model, are the same: those that are computed in the same way from the same
 * initialisers. */
#ifndef IG_COMPILE_SAME_WEIGHTS_H
#define IG_COMPILE_SAME_WEIGHTS_H

#include "base/map.h"
#include "ir/graph.h"

struct ig_same_weights {
    struct ig_job *job;
    struct ig_map classes; /* contents of nodes, with classes for operands -> class */
    uint32_t count;
    const struct ig_graph *graph; /* the last one asked about */
    uint32_t *known;              /* by its values: class + 1; 0: not known yet */
    uint32_t n_known;
};

void ig_same_weights_init(struct ig_same_weights *same, struct ig_job *job);
/* A number that the same constants have, and no others. */
uint32_t ig_same_weights_class(struct ig_same_weights *same, struct ig_graph *graph, ig_value value);

#endif
