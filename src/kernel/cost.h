/*
 * What regions demand of a machine, symbolically in their sizes (base/machine.h turns demands into floors). It is the graph's
 * demand: blind to how kernels are scheduled, and equal for all of them.
 *
 *   - An operand counts as much as is read of it, once: through slices, and by windows that do not touch all, only that
 *     part; through gathers, as many elements as there are results, at most all (as if no two indices were equal).
 *   - Weights count by their stored size, literals not at all. What other regions computed counts as read, results as
 *     written; values within the region cost nothing.
 *   - Products count by the type of their operands; of convolutions only those with elements inside the image. Where
 *     filters are transformed for Winograd's algorithm, the products are that algorithm's, and its transforms cost nothing.
 *     Of causal attention, only scores that the mask leaves count.
 *   - Elementwise operators count one operation per element, casts none; reductions, windows and prefix sums one per
 *     element that they read.
 *   - Recurrences take a turn per time step.
 */
#ifndef IG_KERNEL_COST_H
#define IG_KERNEL_COST_H

#include "base/machine.h"
#include "ir/graph.h"
#include "ir/target.h"
#include "kernel/sizes.h"

/* As struct ig_demand. */
struct ig_region_demand {
    ig_dim constants, reads, writes;
    ig_dim operations[IG_UNIT_COUNT];
    ig_dim turns;
};

/* Of a region of any family but control flow, whose bodies have regions of their own. */
void ig_region_demand(struct ig_graph *graph, const struct ig_region *region, struct ig_region_demand *out_demand);
struct ig_demand ig_region_demand_at(const struct ig_region_demand *demand, const struct ig_sizes *at);

/* The machine that a target usually runs on; of CPUs, with that many threads. */
struct ig_machine ig_target_machine(const struct ig_target *target, unsigned threads);

#endif
