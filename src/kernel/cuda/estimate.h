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

#endif
