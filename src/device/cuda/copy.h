/*
 * Copies as kernels. In a graph a copy is work for another engine of the GPU than its multiprocessors, and the driver takes
 * longer to launch a graph that has any: 4 us and more instead of 1.4 for one of 60 kernels alone, whatever their number. A
 * kernel that copies reaches pinned memory of the host as well, and it begins and ends sooner: from there to the GPU,
 * 4 KB take 5.6 us instead of 8.4, 4.8 MB 99.5 instead of 98.1, and 19 MB 382 instead of 357 (measured on an H100).
 */
#ifndef IG_DEVICE_CUDA_COPY_H
#define IG_DEVICE_CUDA_COPY_H

#include "device/cuda/context.h"

/* Copy engines are faster at larger ones, and then the launch does not count. */
#define IG_CUDA_COPY_LIMIT ((size_t)8 << 20)
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
