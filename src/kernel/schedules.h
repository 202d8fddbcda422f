/*
 * The schedules of the families, which kernel.c chooses from. Those for one kind of processor are in cpu/ and in cuda/.
 * Families without a schedule for GPUs use the common one, whose loops the threads of a block share.
 */
#ifndef IG_KERNEL_SCHEDULES_H
#define IG_KERNEL_SCHEDULES_H

#include "kernel/kernel.h"

/* For CPUs and GPUs. */
struct ig_kernel *ig_kernel_contract(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                     const struct ig_sizes *at, int choice);
struct ig_kernel *ig_kernel_attend(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                   const struct ig_sizes *at, int choice);
struct ig_kernel *ig_kernel_scan(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                 const struct ig_sizes *at);
struct ig_kernel *ig_kernel_rest(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                 const struct ig_sizes *at);

/* For CPUs: cpu/map.c, cpu/row.c, cpu/window.c. */
struct ig_kernel *ig_kernel_map(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                const struct ig_sizes *at);
struct ig_kernel *ig_kernel_row(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                const struct ig_sizes *at);
struct ig_kernel *ig_kernel_window(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                   const struct ig_sizes *at);

/* For GPUs: cuda/map.c, cuda/row.c, cuda/window.c, cuda/exchange.c. They build the loop IR of loop.h: a tile is done by a block of
 * kernel->threads threads, which share its vector loops. */
struct ig_kernel *ig_kernel_map_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                     const struct ig_sizes *at);
struct ig_kernel *ig_kernel_row_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                     const struct ig_sizes *at);
struct ig_kernel *ig_kernel_window_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                        const struct ig_sizes *at);
struct ig_kernel *ig_kernel_exchange_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                          const struct ig_sizes *at);

/* The last step of every schedule on GPUs (cuda/tiles.c): threads, tiles and parameters in the form that the printer
 * needs. */
void ig_cuda_finish(struct ig_kernel *kernel);

#endif
