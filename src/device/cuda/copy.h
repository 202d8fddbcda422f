/*
 * Copies as kernels. A memcpy node in a graph runs on a copy engine, not on the multiprocessors, and a graph that has
 * any takes the driver longer to launch: 4 us and more, instead of 1.4 for a graph of 60 kernels, however many copies
 * there are. A kernel reaches pinned host memory as well, and starts and ends sooner: from the host to the GPU, 4 KB
 * take 5.6 us instead of 8.4, 4.8 MB 99.5 instead of 98.1, and 19 MB 382 instead of 357 (measured on an H100).
 */
#ifndef IG_DEVICE_CUDA_COPY_H
#define IG_DEVICE_CUDA_COPY_H

#include "device/cuda/context.h"

/* Above this size copy engines are faster, and launch time is negligible. */
#define IG_CUDA_COPY_LIMIT ((size_t)8 << 20)
#define IG_CUDA_COPY_THREADS 256
/* From this size, copies may be left out of launches (ig_device_api.list_skip), and starting the next kernel early gains
 * nothing. */
#define IG_CUDA_COPY_LARGE ((size_t)1 << 20)

/* The kernel, correct for any grid; NULL if the driver cannot compile it. */
CUfunction ig_cuda_copy_kernel(struct ig_cuda *cuda);
uint32_t ig_cuda_copy_blocks(size_t bytes);
/* The kernel's parameters for a copy: source and destination as device addresses, and the size in bytes. False if the
 * kernel cannot serve the copy: it is too large, its addresses do not allow vector access, or the GPU cannot reach
 * them. */
bool ig_cuda_copy_parameters(struct ig_cuda *cuda, uint64_t from, uint64_t to, size_t bytes,
                             uint64_t out_parameters[3]);
void ig_cuda_copy_deinit(struct ig_cuda *cuda);

#endif
