/* Schedules of the rest family that have a file of their own. */
#ifndef IG_KERNEL_REST_H
#define IG_KERNEL_REST_H

#include "kernel/kernel.h"

/* scatter_elements and scatter_nd (rest_scatter.c) */
struct ig_kernel *ig_kernel_scatter(struct ig_graph *graph, const struct ig_region *region,
                                    const struct ig_target *target);

#endif
