/* Builds the runtime's plan from a graph with regions. */
#ifndef IG_COMPILE_PLAN_BUILD_H
#define IG_COMPILE_PLAN_BUILD_H

#include "compile/kernels.h"
#include "engine/plan.h"

struct ig_weight {
    struct ig_graph *graph;
    ig_value value;  /* constant */
    uint64_t offset; /* in the weights section */
    uint64_t size;
};

struct ig_built_plan {
    struct ig_plan plan;
    IG_VEC(struct ig_weight) weights;
};

/* A rank's graph; ranks and rank as in ig_plan_rank. */
struct ig_rank_graph {
    struct ig_graph *graph;
    uint32_t ranks, rank;
};

/* Adds a kernel for every region to `set`, bodies of control flow included. The set need not be compiled yet:
 * ig_plan_set_entries fills in the entries. `imported` is the graph as it was before the passes: what is said of the
 * symbols' rows names its nodes. */
void ig_plan_build(struct ig_graph *graph, struct ig_graph *imported, struct ig_kernel_set *set,
                   struct ig_built_plan *out_built);
/* The same for the graphs of several ranks, in the order of the plan's table: one plan, with a main plan for each. */
void ig_plan_build_ranks(const struct ig_rank_graph *graphs, uint32_t count, struct ig_graph *imported,
                         struct ig_kernel_set *set, struct ig_built_plan *out_built);
void ig_plan_set_entries(struct ig_built_plan *built, const struct ig_kernel_set *set);

#endif
