/*
 * Schedules for GPUs, a file each: cuda_map.c, cuda_row.c, cuda_window.c, cuda_scan.c, cuda_rest.c. They build the same
 * loop IR as those for CPUs, to be read as in loop.h: a tile is a block of kernel->threads threads, which share its
 * vector loops.
 */
#ifndef IG_KERNEL_CUDA_H
#define IG_KERNEL_CUDA_H

#include "kernel/kernel.h"

struct ig_kernel *ig_kernel_map_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *);
struct ig_kernel *ig_kernel_row_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *);
struct ig_kernel *ig_kernel_window_cuda(struct ig_graph *, const struct ig_region *, const struct ig_target *);

/* The last step of all schedules (cuda_tiles.c): threads, tiles and parameters as the printer wants them. */
void ig_cuda_finish(struct ig_kernel *kernel);

#endif
