/* Streams, events, and eager launches; see stream.h. */
#include "device/cuda/stream.h"

#include <limits.h>

#include "device/cuda/library.h"
#include "device/cuda/list.h"
#include "device/cuda/module.h"
#include "device/cuda/parameters.h"
#include "device/cuda/tensor_map.h"

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

enum ingot_status ig_cuda_stream_create(struct ig_cuda *cuda, CUstream native, struct ig_stream **out_stream,
                                        struct ingot_error *error) {
    struct ig_stream *stream = ig_allocate(cuda->base.allocator, sizeof *stream, _Alignof(struct ig_stream));
    if (!stream) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a stream");
    stream->handle = native;
    stream->adopted = native != NULL;
    if (!native) {
        enum ingot_status status = IG_CUDA_STATUS(cuda, error, "cannot create a stream", cuStreamCreate,
                                                  &stream->handle, CU_STREAM_NON_BLOCKING);
        if (status != INGOT_OK) {
            ig_release(cuda->base.allocator, stream, sizeof *stream);
            return status;
        }
    }
    stream->next = cuda->streams;
    stream->link = &cuda->streams;
    if (stream->next) stream->next->link = &stream->next;
    cuda->streams = stream;
    *out_stream = stream;
    return INGOT_OK;
}

/* Waits for the stream: once it has left the list of streams, ig_cuda_release cannot order frees after its work. */
void ig_cuda_stream_destroy(struct ig_cuda *cuda, struct ig_stream *stream) {
    if (!stream) return;
    if (stream->handle) IG_CUDA(cuda, cuStreamSynchronize, stream->handle);
    ig_cuda_list_destroy(cuda, stream->recording);
    *stream->link = stream->next;
    if (stream->next) stream->next->link = stream->link;
    ig_cuda_release(cuda, stream->scratch);
    if (!stream->adopted) IG_CUDA(cuda, cuStreamDestroy, stream->handle);
    ig_release(cuda->base.allocator, stream, sizeof *stream);
}

void ig_cuda_stream_wait_all(struct ig_cuda *cuda) {
    for (const struct ig_stream *stream = cuda->streams; stream; stream = stream->next) {
        if (stream->handle) IG_CUDA(cuda, cuStreamSynchronize, stream->handle);
    }
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

struct ig_event {
    CUevent handle;
};

enum ingot_status ig_cuda_event_create(struct ig_cuda *cuda, bool timed, struct ig_event **out_event,
                                       struct ingot_error *error) {
    struct ig_event *event = ig_allocate(cuda->base.allocator, sizeof *event, _Alignof(struct ig_event));
    if (!event) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an event");
    enum ingot_status status = IG_CUDA_STATUS(cuda, error, "cannot create an event", cuEventCreate, &event->handle,
                                              timed ? 0 : CU_EVENT_DISABLE_TIMING);
    if (status != INGOT_OK)
        ig_release(cuda->base.allocator, event, sizeof *event);
    else
        *out_event = event;
    return status;
}

void ig_cuda_event_destroy(struct ig_cuda *cuda, struct ig_event *event) {
    if (!event) return;
    IG_CUDA(cuda, cuEventDestroy, event->handle);
    ig_release(cuda->base.allocator, event, sizeof *event);
}

enum ingot_status ig_cuda_event_elapsed(struct ig_cuda *cuda, struct ig_event *begin, struct ig_event *end,
                                        uint64_t *out_nanoseconds, struct ingot_error *error) {
    float milliseconds = 0;
    IG_CUDA_TRY(cuda, error, "cannot tell the time between two events", cuEventElapsedTime, &milliseconds,
                begin->handle, end->handle);
    *out_nanoseconds = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6 + 0.5) : 0;
    return INGOT_OK;
}

CUevent ig_cuda_event_handle(const struct ig_event *event) {
    return event->handle;
}

/* ---- Copies and launches ----------------------------------------------------------------------------------------- */

enum ingot_status ig_cuda_copy(struct ig_cuda *cuda, struct ig_stream *stream, void *to, const void *from, size_t size,
                               struct ingot_error *error) {
    if (stream->recording) return ig_cuda_list_add_copy(stream->recording, to, from, size, error);
    if (size == 0 || to == from) return INGOT_OK;
    CUresult result = IG_CUDA(cuda, cuMemcpyAsync, (uintptr_t)to, (uintptr_t)from, size, stream->handle);
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot copy %zu bytes", size);
}

/* Each block loops over tiles, so that any grid size is correct. */
static uint32_t grid_of(const struct ig_cuda *cuda, const struct ig_launch *launch) {
    uint64_t tiles = launch->tiles > 0 ? (uint64_t)launch->tiles : 0;
    uint64_t most = launch->scratch ? ig_cuda_scratch_blocks(cuda, launch->scratch) : INT_MAX;
    uint64_t lasting = (uint64_t)launch->lasting * cuda->info.processors;
    if (lasting > 0 && lasting < most) most = lasting;
    return (uint32_t)(tiles < most ? tiles : most);
}

/* Makes room for a block of parameters; never shrinks. */
static enum ingot_status reserve_block(struct ig_cuda *cuda, size_t size, struct ingot_error *error) {
    if (size <= cuda->block_size) return INGOT_OK;
    uint64_t *larger = ig_allocate(cuda->base.allocator, 2 * size, _Alignof(uint64_t));
    if (!larger) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the parameters of a kernel");
    ig_release(cuda->base.allocator, cuda->block, cuda->block_size);
    cuda->block = larger;
    cuda->block_size = 2 * size;
    return INGOT_OK;
}

static enum ingot_status launch_now(struct ig_cuda *cuda, struct ig_stream *stream, const struct ig_launch *launch,
                                    struct ig_cuda_function function, uint32_t grid, struct ingot_error *error) {
    const size_t size = function.maps_at + launch->n_maps * sizeof(CUtensorMap);
    if (launch->scratch) IG_TRY(ig_cuda_reserve_scratch(cuda, stream, launch->scratch, error));
    IG_TRY(reserve_block(cuda, size, error));
    ig_cuda_block_fill(cuda->block, launch, launch->scratch ? stream->scratch : NULL);
    char *map = (char *)cuda->block + function.maps_at;
    for (uint32_t i = 0; i < launch->n_maps; i++, map += sizeof(CUtensorMap)) {
        uint64_t address = (uint64_t)(uintptr_t)launch->buffers[launch->maps[i].buffer];
        IG_TRY(ig_cuda_encode_tensor_map(cuda, &launch->maps[i], address, launch->dims, map, error));
    }
    struct ig_cuda_extra extra;
    CUresult result = IG_CUDA(cuda, cuLaunchKernel, function.handle, grid, 1, 1, launch->threads, 1, 1, launch->shared,
                              stream->handle, NULL, ig_cuda_pass(&extra, cuda->block, size));
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot launch kernel '%s' with %u blocks of %u threads",
                                launch->name, grid, launch->threads);
}

static enum ingot_status call_library(struct ig_cuda *cuda, struct ig_stream *stream, const struct ig_launch *launch,
                                      struct ingot_error *error) {
    const struct ig_library_call *call = launch->library;
    size_t workspace = 0;
    if (stream->recording) return ig_cuda_list_add_library(stream->recording, launch, error);
    if (ig_library_is_empty(call, launch->dims)) return INGOT_OK;
    IG_TRY(ig_cuda_library_workspace(cuda, call, launch->dims, launch->buffers, &workspace, error));
    IG_TRY(ig_cuda_reserve_workspace(cuda, stream, workspace, error));
    return ig_cuda_library_enqueue(cuda, call, launch->dims, launch->buffers, stream->scratch, stream->handle, error);
}

enum ingot_status ig_cuda_launch(struct ig_cuda *cuda, struct ig_stream *stream, const struct ig_launch *launch,
                                 struct ingot_error *error) {
    if (launch->library) return call_library(cuda, stream, launch, error);
    struct ig_cuda_function function;
    uint32_t grid = grid_of(cuda, launch);
    IG_TRY(ig_cuda_module_function(cuda, launch, &function, error));
    if (stream->recording) return ig_cuda_list_add_kernel(stream->recording, launch, function, grid, error);
    return grid ? launch_now(cuda, stream, launch, function, grid, error) : INGOT_OK;
}
