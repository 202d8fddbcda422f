/*
 * Small copies as kernels. In a graph a copy is work for another engine of the GPU than its multiprocessors, and the driver
 * takes 3 us longer to launch a graph that has any: twice as long as for one of 60 kernels alone (measured on an H100). A
 * kernel that copies reaches pinned memory of the host as well, at once.
 */
#ifndef IG_DEVICE_CUDA_COPY_H
#define IG_DEVICE_CUDA_COPY_H

#include "device/cuda/context.h"

/* Larger ones take so long that the launch does not count, and multiprocessors are better used otherwise. */
#define IG_CUDA_COPY_LIMIT ((size_t)1 << 20)
#define IG_CUDA_COPY_THREADS 256

/* The kernel, for any grid; NULL where the driver cannot compile it. */
CUfunction ig_cuda_copy_kernel(struct ig_cuda *cuda);
uint32_t ig_cuda_copy_blocks(size_t bytes);
/* The kernel's parameters for a copy: source and destination as the GPU calls them, and bytes. False where the copy is not
 * for a kernel: it is large, addresses do not allow vectors, or the GPU cannot reach them. */
bool ig_cuda_copy_parameters(struct ig_cuda *cuda, uint64_t from, uint64_t to, size_t bytes,
                             uint64_t out_parameters[3]);
void ig_cuda_copy_deinit(struct ig_cuda *cuda);

#endif
