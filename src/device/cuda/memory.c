/*
 * GPU memory. It comes from a memory pool of the device's own, with allocations and frees ordered on a stream of their
 * own: a free then waits on the GPU for the work that uses the memory, where cuMemFree would block the host and all
 * other users of the GPU. GPUs without pools (some virtual ones) use cuMemAlloc and cuMemFree.
 */
#include "device/cuda/context.h"

#include <unistd.h>

#define MEBIBYTE ((double)(1 << 20))

enum ingot_status ig_cuda_memory_init(struct ig_cuda *cuda, struct ingot_error *error) {
    int pools = 0;
    IG_CUDA_TRY(cuda, error, "cannot ask the GPU whether it has memory pools", cuDeviceGetAttribute, &pools,
                CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, cuda->handle);
    if (!pools) return INGOT_OK;
    IG_CUDA_TRY(cuda, error, "cannot create a stream", cuStreamCreate, &cuda->memory_stream, CU_STREAM_NON_BLOCKING);
    IG_CUDA_TRY(cuda, error, "cannot create an event", cuEventCreate, &cuda->fence, CU_EVENT_DISABLE_TIMING);
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, cuda->handle}};
    return IG_CUDA_STATUS(cuda, error, "cannot create a memory pool", cuMemPoolCreate, &cuda->pool, &properties);
}

void ig_cuda_memory_deinit(struct ig_cuda *cuda) {
    if (cuda->memory_stream) IG_CUDA(cuda, cuStreamSynchronize, cuda->memory_stream);
    if (cuda->pool) IG_CUDA(cuda, cuMemPoolDestroy, cuda->pool);
    if (cuda->fence) IG_CUDA(cuda, cuEventDestroy, cuda->fence);
    if (cuda->memory_stream) IG_CUDA(cuda, cuStreamDestroy, cuda->memory_stream);
}

/* ---- Device memory ----------------------------------------------------------------------------------------------- */

static CUresult take(struct ig_cuda *cuda, size_t size, CUdeviceptr *out_memory) {
    if (!cuda->pool) return IG_CUDA(cuda, cuMemAlloc, out_memory, size);
    CUresult result = IG_CUDA(cuda, cuMemAllocFromPoolAsync, out_memory, size, cuda->pool, cuda->memory_stream);
    if (result != CUDA_SUCCESS) return result;
    result = IG_CUDA(cuda, cuStreamSynchronize, cuda->memory_stream); /* so that any stream may use it at once */
    if (result != CUDA_SUCCESS) IG_CUDA(cuda, cuMemFreeAsync, *out_memory, cuda->memory_stream);
    return result;
}

enum ingot_status ig_cuda_allocate(struct ig_cuda *cuda, size_t size, void **out_memory, struct ingot_error *error) {
    CUdeviceptr memory = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (size <= cuda->info.memory) result = take(cuda, size ? size : 1, &memory);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        size_t available = 0, total = 0;
        IG_CUDA(cuda, cuMemGetInfo, &available, &total);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY,
                      "out of GPU memory: %zu bytes (%.1f MiB) wanted, %zu (%.1f MiB) of %.1f MiB free on %s", size,
                      (double)size / MEBIBYTE, available, (double)available / MEBIBYTE,
                      (double)cuda->info.memory / MEBIBYTE, cuda->info.name);
    }
    IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error, "cannot allocate %zu bytes of GPU memory", size));
    *out_memory = (void *)(uintptr_t)memory;
    return INGOT_OK;
}

/* Failures cannot be handled here; those of enqueued work are reported when its stream is waited for. */
void ig_cuda_release(struct ig_cuda *cuda, void *memory) {
    if (!memory) return;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    if (!cuda->pool) {
        IG_CUDA(cuda, cuMemFree, address); /* waits for all work */
        return;
    }
    for (const struct ig_stream *stream = cuda->streams; stream; stream = stream->next) {
        if (!stream->handle) continue;
        IG_CUDA(cuda, cuEventRecord, cuda->fence, stream->handle);
        IG_CUDA(cuda, cuStreamWaitEvent, cuda->memory_stream, cuda->fence, 0);
    }
    IG_CUDA(cuda, cuMemFreeAsync, address, cuda->memory_stream);
}

/* ---- Host memory ------------------------------------------------------------------------------------------------- */

static double host_mebibytes(void) {
    return (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / MEBIBYTE;
}

enum ingot_status ig_cuda_allocate_host(struct ig_cuda *cuda, size_t size, void **out_memory,
                                        struct ingot_error *error) {
    void *memory = NULL;
    CUresult result = IG_CUDA(cuda, cuMemHostAlloc, &memory, size ? size : 1, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY,
                      "out of pinned memory: %zu bytes (%.1f MiB) wanted of the host, which has %.1f MiB free", size,
                      (double)size / MEBIBYTE, host_mebibytes());
    IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error, "cannot allocate %zu bytes of pinned memory", size));
    *out_memory = memory;
    return INGOT_OK;
}

enum ingot_status ig_cuda_pin_host(struct ig_cuda *cuda, void *memory, size_t size, struct ingot_error *error) {
    CUresult result = IG_CUDA(cuda, cuMemHostRegister, memory, size, CU_MEMHOSTREGISTER_PORTABLE);
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot pin %zu bytes of memory", size);
}

/* ---- Scratch ----------------------------------------------------------------------------------------------------- */

uint32_t ig_cuda_scratch_blocks(const struct ig_cuda *cuda, size_t bytes) {
    size_t most = (size_t)cuda->info.processors * IG_CUDA_SCRATCH_BLOCKS;
    size_t affordable = bytes ? IG_CUDA_SCRATCH_LIMIT / bytes : most;
    if (affordable > most) affordable = most;
    return affordable ? (uint32_t)affordable : 1;
}

/* Also enough for launches with less scratch per block, which may have more blocks. */
size_t ig_cuda_scratch_bytes(const struct ig_cuda *cuda, size_t bytes) {
    size_t total;
    if (bytes > IG_CUDA_SCRATCH_LIMIT) return bytes;
    if (!ig_size_mul(bytes, (size_t)cuda->info.processors * IG_CUDA_SCRATCH_BLOCKS, &total)) return bytes;
    return total < IG_CUDA_SCRATCH_LIMIT ? total : IG_CUDA_SCRATCH_LIMIT;
}

enum ingot_status ig_cuda_reserve_workspace(struct ig_cuda *cuda, struct ig_stream *stream, size_t total,
                                            struct ingot_error *error) {
    if (total <= stream->scratch_size) return INGOT_OK;
    void *memory = NULL;
    ig_cuda_release(cuda, stream->scratch); /* first, so that its memory can be reused */
    stream->scratch = NULL;
    stream->scratch_size = 0;
    IG_TRY(ig_cuda_allocate(cuda, total, &memory, error));
    stream->scratch = memory;
    stream->scratch_size = total;
    return INGOT_OK;
}

enum ingot_status ig_cuda_reserve_scratch(struct ig_cuda *cuda, struct ig_stream *stream, size_t bytes,
                                          struct ingot_error *error) {
    return ig_cuda_reserve_workspace(cuda, stream, ig_cuda_scratch_bytes(cuda, bytes), error);
}
