/* Collectives of a rank's graph as kernels, beside the steps that the group executes. */
#ifndef IG_KERNEL_CUDA_EXCHANGE_H
#define IG_KERNEL_CUDA_EXCHANGE_H

#include "base/collective.h"
#include "kernel/kernel.h"

enum { IG_EXCHANGE_MOST_SIZES = 2 + IG_MOST_RANKS };

/* Is there a kernel for this region of a collective? Its buffers are operand, result and seat (base/window.h). */
bool ig_exchange_has_kernel(const struct ig_graph *graph, const struct ig_region *region,
                            const struct ig_target *target);
/* The dim of kernels that is the number of the collective: equal collectives share a kernel. */
ig_dim ig_exchange_number(struct ig_dims *dims);

/* What a node of a collective does, and its sizes: outer, inner, and the part of each rank. Returns how many there are. */
struct ig_collective ig_exchange_collective(const struct ig_graph *graph, const struct ig_node *node);
uint32_t ig_exchange_sizes(const struct ig_graph *graph, const struct ig_node *node,
                           ig_dim out_sizes[IG_EXCHANGE_MOST_SIZES]);

#endif
