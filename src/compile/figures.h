/* Figures of a network at certain sizes, by counting: what its steps demand, their floors, and estimates of their times. */
#ifndef IG_COMPILE_FIGURES_H
#define IG_COMPILE_FIGURES_H

#include "base/machine.h"
#include "compile/plan_build.h"

/* Times are in microseconds. */
struct ig_step_figures {
    struct ig_demand demand;
    struct ig_floor floor; /* its time is 0 for what is no region's kernel */
    double estimate;       /* of the kernel's cost model; 0: it has none */
};

struct ig_figures {
    struct ig_machine machine;     /* that the target usually runs on; of CPUs, one thread */
    const char *sizes;             /* of the inputs' symbols: "batch=8"; "" if there are none */
    struct ig_step_figures *steps; /* by step of the plan */
    /* Sums over the regions; bodies of control flow count once. */
    uint32_t regions, estimated; /* estimated: those with a cost model */
    struct ig_demand demand;
    double floor;
    double estimate; /* of regions without a cost model, the floor */
};

/* Of the graph that a main plan was built from, subplan 0 of an engine for one rank. `at`: values of the symbols; NULL: the
 * usual ones. Collectives count nothing. */
void ig_figures_make(struct ig_graph *graph, uint32_t subplan, const struct ig_built_plan *built,
                     const struct ig_kernel_set *set, const struct ig_sizes *at, struct ig_figures *out_figures);

#endif
