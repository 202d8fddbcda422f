/* From a graph with regions to the plan that the runtime follows. */
#ifndef IG_COMPILE_PLAN_BUILD_H
#define IG_COMPILE_PLAN_BUILD_H

#include "compile/kernels.h"
#include "engine/plan.h"

struct ig_weight {
    struct ig_graph *graph;
    ig_value value;  /* constant */
    uint64_t offset; /* into the weights section */
    uint64_t size;
};

struct ig_built_plan {
    struct ig_plan plan;
    IG_VEC(struct ig_weight) weights;
};

/* `set` gets a kernel for every region, bodies of control flow included, and need not be compiled yet: entries are
 * filled in by ig_plan_set_entries. */
void ig_plan_build(struct ig_graph *graph, struct ig_kernel_set *set, struct ig_built_plan *out_built);
void ig_plan_set_entries(struct ig_built_plan *built, const struct ig_kernel_set *set);

#endif
