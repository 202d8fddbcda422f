/*
 * The CPU device. Its memory is the host's. A stream executes work synchronously, on the calling thread and the pool's
 * threads: when a call returns, its work is done, so that waits and events have nothing to do.
 */
#define _GNU_SOURCE
#include "device/device.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "device/cpu/list.h"
#include "device/cpu/module.h"
#include "device/cpu/pool.h"
#include "device/cpu/speed.h"

#include <string.h>
#include <time.h>

#define BUFFER_ALIGNMENT 64
/* Copies are divided into pieces of this size. A worker pays only if it copies COPY_PER_WORKER bytes or more. */
#define COPY_PIECE ((size_t)64 << 10)
#define COPY_PER_WORKER ((size_t)128 << 10)
/* Chunks per worker's range, if there is much work: enough to balance the load, few enough to be cheap. Stealing
 * reads the other workers' counters, a cache line each, so short work is not divided into chunks. */
#define MIN_CHUNKS 4
#define MAX_CHUNKS 8

struct cpu_device {
    struct ig_device base;
    struct ig_pool *pool;
};

struct ig_stream {
    struct ig_list *recording; /* NULL: launches run at once */
};

struct ig_event {
    uint64_t time; /* nanoseconds */
};

static struct ig_pool *pool_of(const struct ig_device *device) {
    return ((const struct cpu_device *)device)->pool;
}

static void destroy(struct ig_device *device) {
    ig_pool_destroy(pool_of(device));
    ig_release(device->allocator, device, sizeof(struct cpu_device));
}

static uint32_t workers(const struct ig_device *device) {
    return ig_pool_size(pool_of(device));
}

/* ---- Memory and code ------------------------------------------------------------------------------------------- */

static enum ingot_status allocate(struct ig_device *device, size_t size, void **out_memory, struct ingot_error *error) {
    size_t bytes = size ? size : 1;
    /* Bypasses ig_allocate, which would touch every page before it is needed. */
    void *memory = device->allocator->alloc(device->allocator->user, bytes, BUFFER_ALIGNMENT);
    if (!memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a buffer of %zu bytes", size);
    *out_memory = memory;
    return INGOT_OK;
}

static void release(struct ig_device *device, void *memory, size_t size) {
    ig_release(device->allocator, memory, size ? size : 1);
}

static enum ingot_status module_create(struct ig_device *device, const void *code, size_t size,
                                       struct ig_module **out_module, struct ingot_error *error) {
    struct ig_module *module = ig_allocate(device->allocator, sizeof *module, _Alignof(struct ig_module));
    if (!module) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a module");
    enum ingot_status status = ig_module_init(module, code, size, error);
    if (status != INGOT_OK)
        ig_release(device->allocator, module, sizeof *module);
    else
        *out_module = module;
    return status;
}

static void module_destroy(struct ig_device *device, struct ig_module *module) {
    if (!module) return;
    ig_module_deinit(module);
    ig_release(device->allocator, module, sizeof *module);
}

/* ---- Streams and events ---------------------------------------------------------------------------------------- */

static enum ingot_status stream_create(struct ig_device *device, struct ig_stream **out_stream,
                                       struct ingot_error *error) {
    struct ig_stream *stream = ig_allocate(device->allocator, sizeof *stream, _Alignof(struct ig_stream));
    if (!stream) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a stream");
    *out_stream = stream;
    return INGOT_OK;
}

static enum ingot_status stream_adopt(struct ig_device *device, void *native, struct ig_stream **stream,
                                      struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED, "a CPU device has no streams but its own");
}

static void stream_destroy(struct ig_device *device, struct ig_stream *stream) {
    if (!stream) return;
    ig_list_destroy(stream->recording);
    ig_release(device->allocator, stream, sizeof *stream);
}

static enum ingot_status stream_wait(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    return INGOT_OK;
}

static enum ingot_status event_create(struct ig_device *device, bool timed, struct ig_event **out_event,
                                      struct ingot_error *error) {
    struct ig_event *event = ig_allocate(device->allocator, sizeof *event, _Alignof(struct ig_event));
    if (!event) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an event");
    *out_event = event;
    return INGOT_OK;
}

static void event_destroy(struct ig_device *device, struct ig_event *event) {
    ig_release(device->allocator, event, sizeof *event);
}

static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    event->time = ig_clock();
    return INGOT_OK;
}

/* Work enqueued before the record has completed; an event that was never recorded blocks nobody. */
static enum ingot_status event_wait(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                    struct ingot_error *error) {
    return INGOT_OK;
}

static enum ingot_status event_sync(struct ig_device *device, struct ig_event *event, struct ingot_error *error) {
    return INGOT_OK;
}

static enum ingot_status event_await(struct ig_device *device, struct ig_event *event, bool block, bool *out_done,
                                     struct ingot_error *error) {
    *out_done = true;
    return INGOT_OK;
}

static enum ingot_status event_elapsed(struct ig_device *device, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *error) {
    *out_nanoseconds = end->time - begin->time;
    return INGOT_OK;
}

/* ---- Copies and launches ----------------------------------------------------------------------------------------- */

static enum ingot_status submit(struct ig_device *device, struct ig_stream *stream, const struct ig_pool_item *item,
                                uint32_t n_buffers, uint32_t n_dims, struct ingot_error *error) {
    if (stream->recording) return ig_list_add(stream->recording, item, n_buffers, n_dims, error);
    ig_pool_run(pool_of(device), item, 1, device->stop);
    return INGOT_OK;
}

/* Divides an item among workers. `worth`: how many workers its work would pay for; if that far exceeds the pool, the
 * work is long enough to pay for load balancing, unless a worker's part must stay `whole`. */
static void divide(const struct ig_device *device, struct ig_pool_item *item, uint64_t worth, bool whole) {
    uint64_t size = ig_pool_size(pool_of(device)), tiles = item->tiles > 0 ? (uint64_t)item->tiles : 0;
    if (item->turn > 0 && tiles > (uint64_t)item->turn) { /* the work is that of all turns */
        worth = worth / (tiles / (uint64_t)item->turn);
        tiles = (uint64_t)item->turn;
    }
    uint64_t workers = worth < size ? worth : size;
    if (workers > tiles) workers = tiles;
    if (workers < 1) workers = 1;
    uint64_t chunks = worth / workers;
    item->workers = (uint32_t)workers;
    if (chunks > MAX_CHUNKS) chunks = MAX_CHUNKS;
    item->chunks = chunks < MIN_CHUNKS || item->turn > 0 || whole ? 1 : (uint32_t)chunks; /* turns are short */
}

static void copy_tiles(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    size_t size = (size_t)dims[0], from = (size_t)begin * COPY_PIECE, to = (size_t)end * COPY_PIECE;
    if (to > size) to = size;
    /* They may overlap, since plans and callers need not be sound. */
    if (buffers[0] != buffers[1]) memmove((char *)buffers[1] + from, (const char *)buffers[0] + from, to - from);
}

static enum ingot_status copy(struct ig_device *device, struct ig_stream *stream, void *to, const void *from,
                              size_t size, struct ingot_error *error) {
    void *const buffers[2] = {(void *)(uintptr_t)from, to};
    const int64_t dims[1] = {(int64_t)size};
    struct ig_pool_item item = {.kernel = copy_tiles,
                                .buffers = buffers,
                                .dims = dims,
                                .tiles = (int64_t)(size / COPY_PIECE + (size % COPY_PIECE != 0))};
    divide(device, &item, size / COPY_PER_WORKER, false);
    return submit(device, stream, &item, 2, 1, error);
}

static enum ingot_status need_library(struct ig_device *device, uint32_t library, struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED, "%s is a library for GPUs", ig_library_name(library));
}

static enum ingot_status launch(struct ig_device *device, struct ig_stream *stream, const struct ig_launch *launch,
                                struct ingot_error *error) {
    if (launch->library) return need_library(device, launch->library->library, error);
    if (launch->entry >= launch->module->size)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "kernel entry %llu lies outside the %zu bytes of code",
                      (unsigned long long)launch->entry, launch->module->size);
    IG_TRY(ig_pool_reserve_scratch(pool_of(device), launch->scratch, error));
    struct ig_pool_item item = {.kernel = (ig_pool_kernel)((uintptr_t)launch->module->code + launch->entry),
                                .buffers = launch->buffers,
                                .dims = launch->dims,
                                .tiles = launch->tiles,
                                .turn = launch->turn};
    divide(device, &item, launch->max_workers ? launch->max_workers : UINT32_MAX, launch->whole);
    return submit(device, stream, &item, launch->n_buffers, launch->n_dims, error);
}

/* The function and its argument lie in the dims. */
static void call_tile(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    void (*function)(void *, void *const *) = (void (*)(void *, void *const *))(intptr_t)dims[0];
    function((void *)(intptr_t)dims[1], buffers);
}

static enum ingot_status call_host(struct ig_device *device, struct ig_stream *stream, const struct ig_host_call *call,
                                   struct ingot_error *error) {
    const int64_t dims[2] = {(int64_t)(intptr_t)call->function, (int64_t)(intptr_t)call->user};
    const struct ig_pool_item item = {
        .kernel = call_tile, .buffers = call->buffers, .dims = dims, .tiles = 1, .workers = 1, .chunks = 1};
    return submit(device, stream, &item, call->n_buffers, 2, error);
}

static enum ingot_status reserve_scratch(struct ig_device *device, struct ig_stream *stream, size_t bytes,
                                         struct ingot_error *error) {
    return ig_pool_reserve_scratch(pool_of(device), bytes, error);
}

static size_t scratch_bytes(const struct ig_device *device, size_t bytes) {
    return bytes * ig_pool_size(pool_of(device));
}

/* ---- Lists ----------------------------------------------------------------------------------------------------- */

static enum ingot_status list_begin(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    if (stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is recording a list already");
    return ig_list_create(device->allocator, &stream->recording, error);
}

static enum ingot_status list_end(struct ig_device *device, struct ig_stream *stream, struct ig_list **out_list,
                                  struct ingot_error *error) {
    if (!stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is not recording a list");
    *out_list = stream->recording;
    stream->recording = NULL;
    return INGOT_OK;
}

static void list_destroy(struct ig_device *device, struct ig_list *list) {
    ig_list_destroy(list);
}

static size_t list_bytes(const struct ig_device *device, const struct ig_list *list) {
    return sizeof *list + list->capacity * sizeof *list->items + ig_arena_bytes(&list->arena);
}

static enum ingot_status list_launch(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                     struct ingot_error *error) {
    if (stream->recording) return IG_ERR(error, INGOT_UNSUPPORTED, "a list cannot be recorded into another");
    ig_pool_run(pool_of(device), list->items, list->count, device->stop);
    return INGOT_OK;
}

static void list_patch(struct ig_device *device, struct ig_list *list, uint32_t item, uint32_t buffer, void *address) {
    ((void **)(uintptr_t)list->items[item].buffers)[buffer] = address;
}

static const struct ig_device_api api = {
    .name = "cpu",
    .destroy = destroy,
    .workers = workers,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate,
    .release_host = release,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .stream_create = stream_create,
    .stream_adopt = stream_adopt,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_await = event_await,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .launch = launch,
    .call_host = call_host,
    .need_library = need_library,
    .reserve_scratch = reserve_scratch,
    .scratch_bytes = scratch_bytes,
    .list_begin = list_begin,
    .list_end = list_end,
    .list_destroy = list_destroy,
    .list_bytes = list_bytes,
    .list_launch = list_launch,
    .list_patch = list_patch,
};

/* Each thread's second-level cache, and what a processor core mostly has of the third, which virtual machines report as a
 * whole although they share it with others. */
static size_t cache_of(unsigned threads) {
    enum { SHARE = 4 << 20 };
    struct ig_cpu_caches caches = ig_cpu_caches();
    size_t share = caches.l3 < (size_t)SHARE * threads ? caches.l3 : (size_t)SHARE * threads;
    return threads * caches.l2 + share;
}

enum ingot_status ig_device_cpu_measure(struct ig_device *device, struct ig_machine *out_machine,
                                        struct ingot_error *error) {
    return ig_cpu_measure(pool_of(device), device->allocator, out_machine, error);
}

enum ingot_status ig_device_cpu_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error) {
    struct ig_processors processors;
    ig_processors_read(&processors);
    if (threads == 0) threads = ig_processors_usable(&processors);
    struct cpu_device *device = ig_allocate(allocator, sizeof *device, _Alignof(struct cpu_device));
    if (!device) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a device");
    device->base = (struct ig_device){
        .api = &api, .allocator = allocator, .host_memory = true, .threads = threads, .cache_bytes = cache_of(threads)};
    enum ingot_status status = ig_pool_create(threads, &processors, allocator, &device->pool, error);
    if (status != INGOT_OK)
        ig_release(allocator, device, sizeof *device);
    else
        *out_device = &device->base;
    return status;
}
