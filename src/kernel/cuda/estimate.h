/* Estimates of what kernels for GPUs take, from their loops: for families without a model of their own. */
#ifndef IG_KERNEL_CUDA_ESTIMATE_H
#define IG_KERNEL_CUDA_ESTIMATE_H

#include "kernel/kernel.h"

/*
 * Microseconds that the kernel takes by itself, its start included. The loops are walked as they will be printed: how
 * often each expression is evaluated, and which sectors of memory the threads of a warp touch with each access, by
 * evaluating its index for neighbouring threads. Calls of templates count nothing: their models add them.
 */
double ig_cuda_estimate(const struct ig_kernel *kernel, const struct ig_sizes *at);

/* What such a walk counts. The kernel must not have been printed yet: printers rewrite its loops. */
struct ig_cuda_walk {
    double tiles, threads; /* threads of a block */
    double resident;       /* blocks on a multiprocessor at once, as far as threads and shared memory allow */
    double issues, lines,
        turns;          /* of a tile: instructions of warps; lines of the first cache; loads waited for in turn */
    double moved, once; /* bytes, of all tiles: between the caches; the same, but no more of a buffer than it has */
};
/* Zeros for a kernel of another kind, or one without tiles. */
struct ig_cuda_walk ig_cuda_walk(const struct ig_kernel *kernel, const struct ig_sizes *at);

#endif
