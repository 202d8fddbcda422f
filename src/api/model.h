/* A model: one job, whose arena holds the imported graph and everything built from it. */
#ifndef IG_API_MODEL_H
#define IG_API_MODEL_H

#include "base/job.h"
#include "ir/graph.h"

struct ingot_model {
    const struct ingot_allocator *allocator;
    struct ig_job job;
    struct ig_graph *graph;
    size_t n_inputs, n_outputs;
    struct ingot_tensor_info *inputs, *outputs;
    struct ingot_tensor *results; /* of the last evaluation; data NULL if there is none */
};

#endif
