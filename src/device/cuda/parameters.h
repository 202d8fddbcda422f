/*
 * The parameters of a kernel as one block of memory, laid out as in its constant memory: 8-byte values (buffers, dims,
 * tiles, scratch memory), then tensor maps, which begin where the driver says. Passed this way, with its size, and not
 * as an array of pointers, the driver reads no more than the block, whatever the kernel declares: missing parameters
 * are undefined in the kernel, and surplus ones are refused.
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
