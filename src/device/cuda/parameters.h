/*
 * The parameters of a kernel as one block of memory, laid out as its signature: 8-byte values (buffers, dims, tiles,
 * scratch memory), then tensor maps at the next multiple of their alignment. Passed this way, with its size, and not as
 * an array of pointers, the driver reads no more than the block, whatever the kernel declares: missing parameters are
 * undefined in the kernel, and surplus ones are refused.
 */
#ifndef IG_DEVICE_CUDA_PARAMETERS_H
#define IG_DEVICE_CUDA_PARAMETERS_H

#include "device/cuda/driver.h"
#include "device/device.h"

/* Room for the `extra` argument of a launch, which points into it. */
struct ig_cuda_extra {
    size_t size;
    void *at[5];
};

static inline uint32_t ig_cuda_launch_values(const struct ig_launch *launch) {
    return launch->n_buffers + launch->n_dims + 2;
}

/* The size of a block, in bytes. It must be aligned for CUtensorMap. */
static inline size_t ig_cuda_block_size(uint32_t n_values, uint32_t n_maps) {
    const size_t alignment = _Alignof(CUtensorMap), size = n_values * sizeof(uint64_t);
    return n_maps ? (size + alignment - 1) / alignment * alignment + n_maps * sizeof(CUtensorMap) : size;
}

/* The first tensor map of a block. */
static inline CUtensorMap *ig_cuda_block_maps(uint64_t *block, uint32_t n_values, uint32_t n_maps) {
    char *end = (char *)block + ig_cuda_block_size(n_values, n_maps);
    return (CUtensorMap *)(void *)(end - n_maps * sizeof(CUtensorMap));
}

/* Writes the values of a launch. */
static inline void ig_cuda_block_fill(uint64_t *block, const struct ig_launch *launch, const void *scratch) {
    for (uint32_t i = 0; i < launch->n_buffers; i++)
        *block++ = (uint64_t)(uintptr_t)launch->buffers[i];
    for (uint32_t i = 0; i < launch->n_dims; i++)
        *block++ = (uint64_t)launch->dims[i];
    *block++ = (uint64_t)launch->tiles;
    *block = (uint64_t)(uintptr_t)scratch;
}

/* The `extra` argument that passes a block. */
static inline void **ig_cuda_pass(struct ig_cuda_extra *extra, uint64_t *block, size_t size) {
    extra->size = size;
    extra->at[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    extra->at[1] = block;
    extra->at[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    extra->at[3] = &extra->size;
    extra->at[4] = CU_LAUNCH_PARAM_END;
    return extra->at;
}

#endif
