/* Collectives of a rank's graph as kernels, beside the steps that the group executes. */
#ifndef IG_KERNEL_CUDA_EXCHANGE_H
#define IG_KERNEL_CUDA_EXCHANGE_H

#include "base/collective.h"
#include "kernel/kernel.h"

/* Of a collective and the rows behind it (graph.h, joined). NULL: there is no such kernel. Its buffers are those of the region,
 * then the seat; its dims begin with the number of the collective and that of the lines of the message (base/window.h), which must be
 * short, and have at most IG_WINDOW_HEADERS rows, the kernel's tiles. */
struct ig_kernel *ig_kernel_exchange_row_cuda(struct ig_graph *graph, const struct ig_region *region,
                                              const struct ig_target *target, const struct ig_sizes *at);
/* Microseconds of an all-reduce of so many bytes, from kernel to kernel. */
double ig_exchange_time(double bytes, uint32_t ranks);

enum { IG_EXCHANGE_MOST_SIZES = 2 + IG_MOST_RANKS };

/* Is there a kernel for this region of a collective? Its buffers are operand, result and seat (base/window.h). */
bool ig_exchange_has_kernel(const struct ig_graph *graph, const struct ig_region *region,
                            const struct ig_target *target);
/* The parameter for the rank's seat, behind those of a region's inputs and outputs. Returns its buffer. */
int ig_exchange_seat(struct ig_loops *loops, const struct ig_graph *graph, const struct ig_region *region);
/* The dim of kernels that is the number of the collective: equal collectives share a kernel. */
ig_dim ig_exchange_number(struct ig_dims *dims);

/* What a node of a collective does, and its sizes: outer, inner, and the part of each rank. Returns how many there are. */
struct ig_collective ig_exchange_collective(const struct ig_graph *graph, const struct ig_node *node);
uint32_t ig_exchange_sizes(const struct ig_graph *graph, const struct ig_node *node,
                           ig_dim out_sizes[IG_EXCHANGE_MOST_SIZES]);

#endif
