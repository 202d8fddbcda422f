/* The demand table of a plan: what its steps demand of a machine (engine/plan.h), each distinct demand once. */
#ifndef IG_COMPILE_DEMANDS_H
#define IG_COMPILE_DEMANDS_H

#include "compile/slots.h"

struct ig_demands {
    struct ig_job *job;
    struct ig_slots *slots; /* instructions that are added from now on are the demand program */
    uint32_t n_shape_instrs;
    struct ig_map index; /* by record */
    IG_VEC(struct ig_plan_demand) records;
};

/* When the shape program is complete. */
void ig_demands_init(struct ig_demands *demands, struct ig_slots *slots);
/* Return the number of a step's demand, which is ig_plan_step.demand: of a region's kernels; of a copy of so many bytes. */
uint32_t ig_demands_of_region(struct ig_demands *demands, struct ig_graph *graph, const struct ig_region *region);
uint32_t ig_demands_of_copy(struct ig_demands *demands, ig_slot bytes);
/* Divides the instructions between the two programs and puts the table into the plan. */
void ig_demands_finish(struct ig_demands *demands, struct ig_plan *plan);

#endif
