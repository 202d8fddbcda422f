/* A device with memory of its own that executes work as late as allowed; see remote_device.h. */
#define _GNU_SOURCE
#include "support/device/remote_device.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"

#define REGION ((size_t)1 << 30) /* of address space; untouched pages take no memory */
#define PAGE 4096
#define MAX_PINNED 1024

enum kind { COPY, LAUNCH, RECORD, WAIT };

struct op {
    enum kind kind;
    void *to;
    const void *from;
    size_t size;
    struct ig_launch launch; /* its buffers and dims are copies */
    struct ig_event *event;
    bool skipped;             /* COPY in a list: not executed */
    unsigned target;          /* WAIT: number of the event's records to wait for */
    struct ig_stream *source; /* WAIT: the stream of the last of these */
};

struct ops {
    struct op *at;
    size_t count, capacity;
};

struct ig_list {
    struct ops ops;
    bool ready;
};

struct ig_stream {
    struct remote_device *owner;
    struct ops queue;
    size_t done; /* executed operations of the queue */
    bool running;
    struct ig_list *recording;
    struct ig_stream *next; /* of all devices */
};

struct ig_event {
    struct ig_stream *stream; /* of the last record; NULL: never recorded, or the stream and its work are done */
    unsigned recorded, reached;
    uint64_t time;
};

struct remote_device {
    struct ig_device base;
    struct ig_device *inner;
    struct ig_stream *inner_stream;
    struct remote_counts counts;
    bool fail;
    unsigned hold; /* see remote_device_hold */
    uint64_t clock;
};

/*
 * What all devices share, as those of one GPU do: streams and events, and the memory, which is allocated in pages from
 * the region's beginning and never reused, so that work that uses released memory is detected too.
 */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* of this, and of all work */
static struct ig_stream *streams;
static struct {
    const char *memory;
    size_t size;
} pinned[MAX_PINNED];
static bool interleaved;
static bool released[REGION / PAGE];
static char *region;
static size_t region_begin, region_used, live_bytes, peak_bytes, limit_bytes; /* all before the beginning is released */
static size_t open_from;
static unsigned open_count;

static struct remote_device *self(const struct ig_device *device) {
    return (struct remote_device *)(uintptr_t)device;
}

static void end_test(const char *why) {
    fprintf(stderr, "remote device: %s\n", why);
    abort();
}

static void protect_region(int protection) {
    if (mprotect(region + open_from, REGION - open_from, protection) != 0) end_test("cannot open or close its memory");
}

/* From here to close_region, this thread works for all devices. */
static void open_region(void) {
    pthread_mutex_lock(&lock);
    if (open_count++ > 0) return;
    open_from = region_begin;
    protect_region(PROT_READ | PROT_WRITE);
}

static void close_region(void) {
    if (--open_count == 0) protect_region(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static bool is_ours(const void *memory) {
    return (uintptr_t)memory - (uintptr_t)region < REGION;
}

static bool is_pinned(const void *memory, size_t size) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_PINNED && !found; i++) {
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)pinned[i].memory;
        found = pinned[i].memory && offset <= pinned[i].size && size <= pinned[i].size - offset;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void remote_device_pin(struct ig_device *device, const void *memory, size_t size) {
    int slot = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_PINNED; i++) {
        if (pinned[i].memory == memory) slot = i;
        if (slot < 0 && !pinned[i].memory) slot = i;
    }
    if (slot < 0) end_test("too much pinned memory");
    pinned[slot].memory = size ? memory : NULL;
    pinned[slot].size = size;
    pthread_mutex_unlock(&lock);
}

void remote_device_read(void *to, const void *from, size_t size) {
    open_region();
    memcpy(to, from, size);
    close_region();
}

void remote_device_write(void *to, const void *from, size_t size) {
    remote_device_read(to, from, size);
}

struct remote_counts remote_device_counts(struct ig_device *device) {
    struct remote_counts counts = self(device)->counts;
    self(device)->counts = (struct remote_counts){0};
    return counts;
}

void remote_device_fail(struct ig_device *device) {
    self(device)->fail = true;
}

void remote_device_hold(struct ig_device *device, unsigned questions) {
    self(device)->hold = questions;
}

void remote_device_reuse(void) {
    if (live_bytes) end_test("memory is to be reused that is not released");
    memset(released, 0, sizeof released);
    region_begin = region_used = 0;
}

void remote_device_limit(size_t bytes) {
    limit_bytes = bytes;
}

void remote_device_interleave(bool on) {
    interleaved = on;
}

size_t remote_device_peak(void) {
    size_t peak = peak_bytes;
    peak_bytes = live_bytes;
    return peak;
}

/* ---- Queues ------------------------------------------------------------------------------------------------------------- */

static void free_op(struct op *op) {
    if (op->kind != LAUNCH) return;
    free((void *)(uintptr_t)op->launch.buffers);
    free((void *)(uintptr_t)op->launch.dims);
}

static void free_ops(struct ops *ops) {
    for (size_t i = 0; i < ops->count; i++)
        free_op(&ops->at[i]);
    free(ops->at);
    *ops = (struct ops){0};
}

static void *duplicate(const void *from, size_t size) {
    void *copy = malloc(size ? size : 1);
    if (!copy) end_test("out of memory");
    if (size) memcpy(copy, from, size);
    return copy;
}

static void add_op(struct ops *ops, const struct op *op) {
    if (ops->count == ops->capacity) {
        ops->capacity = ops->capacity ? 2 * ops->capacity : 16;
        ops->at = realloc(ops->at, ops->capacity * sizeof *ops->at);
        if (!ops->at) end_test("out of memory");
    }
    struct op *added = &ops->at[ops->count++];
    *added = *op;
    if (op->kind != LAUNCH) return;
    added->launch.buffers = duplicate(op->launch.buffers, op->launch.n_buffers * sizeof *op->launch.buffers);
    added->launch.dims = duplicate(op->launch.dims, op->launch.n_dims * sizeof *op->launch.dims);
}

static void submit(struct ig_stream *stream, const struct op *op) {
    pthread_mutex_lock(&lock);
    add_op(stream->recording ? &stream->recording->ops : &stream->queue, op);
    pthread_mutex_unlock(&lock);
}

static void run_until(struct remote_device *remote, const struct ig_event *event, struct ig_stream *source,
                      unsigned target);

static void check_alive(const void *memory) {
    if (is_ours(memory) && released[(size_t)((const char *)memory - region) / PAGE])
        end_test("work uses memory that was released before it");
}

static void check_op(const struct op *op) {
    if (op->kind == COPY && op->size) check_alive(op->to), check_alive(op->from);
    for (uint32_t i = 0; op->kind == LAUNCH && op->launch.tiles > 0 && i < op->launch.n_buffers; i++)
        check_alive(op->launch.buffers[i]);
}

static void run_op(struct remote_device *remote, struct op *op) {
    remote->clock++;
    check_op(op);
    switch (op->kind) {
    case COPY: memmove(op->to, op->from, op->size); return;
    case LAUNCH:
        if (remote->inner->api->launch(remote->inner, remote->inner_stream, &op->launch, NULL) != INGOT_OK)
            end_test("a launch failed");
        return;
    case RECORD:
        op->event->time = 1000 * remote->clock;
        op->event->reached++;
        return;
    case WAIT: run_until(remote, op->event, op->source, op->target); return;
    }
}

static void run_next(struct remote_device *remote, struct ig_stream *stream) {
    struct op op = stream->queue.at[stream->done++];
    stream->running = true;
    run_op(remote, &op); /* may run other streams but not this one: no wait depends on later work */
    stream->running = false;
    free_op(&op);
    if (stream->done < stream->queue.count) return;
    stream->queue.count = stream->done = 0;
}

static bool may_run(const struct ig_stream *stream) {
    if (stream->running || stream->done == stream->queue.count) return false;
    const struct op *op = &stream->queue.at[stream->done];
    return op->kind != WAIT || op->event->reached >= op->target;
}

/* Runs the stream's next operation; if streams are interleaved, after one of each other stream that need not wait. */
static void run_one(struct remote_device *remote, struct ig_stream *stream) {
    for (struct ig_stream *other = streams; interleaved && other; other = other->next) {
        if (other != stream && may_run(other)) run_next(remote, other);
    }
    if (stream->done < stream->queue.count) run_next(remote, stream);
}

static void run_until(struct remote_device *remote, const struct ig_event *event, struct ig_stream *source,
                      unsigned target) {
    while (event->reached < target && source->done < source->queue.count)
        run_one(remote, source);
}

static void run_all(struct remote_device *remote, struct ig_stream *stream) {
    while (stream->done < stream->queue.count)
        run_one(remote, stream);
}

static void drain(struct remote_device *remote) {
    open_region();
    for (struct ig_stream *stream = streams; stream; stream = stream->next) {
        if (stream->owner == remote) run_all(remote, stream);
    }
    close_region();
}

/* ---- Memory and code ---------------------------------------------------------------------------------------------------- */

static enum ingot_status allocate(struct ig_device *device, size_t size, void **out_memory, struct ingot_error *error) {
    size_t rounded = (size + PAGE) / PAGE * PAGE; /* a gap after each block */
    enum ingot_status status = INGOT_OK;
    self(device)->counts.allocations++;
    /* Lets the caller's allocator inject a failure. */
    void *token = size > REGION ? NULL : ig_allocate(device->allocator, 1, 1);
    ig_release(device->allocator, token, 1);
    pthread_mutex_lock(&lock);
    if (!token || rounded > REGION - region_used || (limit_bytes && live_bytes + size > limit_bytes)) {
        status = IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a buffer of %zu bytes", size);
    } else {
        *out_memory = region + region_used;
        region_used += rounded;
        live_bytes += size;
        if (live_bytes > peak_bytes) peak_bytes = live_bytes;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void release(struct ig_device *device, void *memory, size_t size) {
    if (!is_ours(memory)) end_test("releases memory that it did not give out");
    open_region();
    drain(self(device));
    for (size_t page = (size_t)((char *)memory - region) / PAGE, end = page + size / PAGE; page <= end; page++)
        released[page] = true;
    /* Protecting memory takes time for each page that was touched. */
    madvise(memory, size, MADV_DONTNEED);
    while (region_begin < region_used && released[region_begin / PAGE])
        region_begin += PAGE;
    live_bytes -= size;
    close_region();
}

static enum ingot_status allocate_host(struct ig_device *device, size_t size, void **out_memory,
                                       struct ingot_error *error) {
    self(device)->counts.allocations++;
    void *memory = ig_allocate(device->allocator, size ? size : 1, 64);
    if (!memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a pinned buffer of %zu bytes", size);
    remote_device_pin(device, memory, size ? size : 1);
    *out_memory = memory;
    return INGOT_OK;
}

static bool uses(const struct op *op, const char *memory, size_t size) {
    uintptr_t to = (uintptr_t)op->to - (uintptr_t)memory, from = (uintptr_t)op->from - (uintptr_t)memory;
    return op->kind == COPY && (to < size || from < size);
}

static void release_host(struct ig_device *device, void *memory, size_t size) {
    pthread_mutex_lock(&lock);
    for (struct ig_stream *stream = streams; stream; stream = stream->next) {
        for (size_t i = stream->done; i < stream->queue.count; i++) {
            if (uses(&stream->queue.at[i], memory, size)) end_test("pinned memory is released that a copy will use");
        }
    }
    pthread_mutex_unlock(&lock);
    remote_device_pin(device, memory, 0);
    ig_release(device->allocator, memory, size ? size : 1);
}

static enum ingot_status pin_host(struct ig_device *device, void *memory, size_t size, struct ingot_error *error) {
    remote_device_pin(device, memory, size);
    return INGOT_OK;
}

static void unpin_host(struct ig_device *device, void *memory) {
    remote_device_pin(device, memory, 0);
}

static enum ingot_status module_create(struct ig_device *device, const void *code, size_t size,
                                       struct ig_module **out_module, struct ingot_error *error) {
    return self(device)->inner->api->module_create(self(device)->inner, code, size, out_module, error);
}

static void module_destroy(struct ig_device *device, struct ig_module *module) {
    drain(self(device));
    self(device)->inner->api->module_destroy(self(device)->inner, module);
}

/* ---- Streams and events --------------------------------------------------------------------------------------------------- */

static enum ingot_status stream_create(struct ig_device *device, struct ig_stream **out_stream,
                                       struct ingot_error *error) {
    struct ig_stream *stream = ig_allocate(device->allocator, sizeof *stream, _Alignof(struct ig_stream));
    if (!stream) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a stream");
    stream->owner = self(device);
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    *out_stream = stream;
    return INGOT_OK;
}

/* A caller's stream was made by this device, and all who adopt it share its queue: adopting returns the same stream. */
static enum ingot_status stream_adopt(struct ig_device *device, void *native, struct ig_stream **stream,
                                      struct ingot_error *error) {
    *stream = native;
    return INGOT_OK;
}

static void stream_let_go(struct ig_device *device, struct ig_stream *stream) {
}

static bool is_known(const struct ig_stream *stream) {
    pthread_mutex_lock(&lock);
    const struct ig_stream *at = streams;
    while (at && at != stream)
        at = at->next;
    pthread_mutex_unlock(&lock);
    return at != NULL;
}

/* An adopted stream is destroyed both by its adopter, which has no effect, and by the test that made it with a device
 * that outlives the context. Pending work is done first. */
static void stream_destroy(struct ig_device *device, struct ig_stream *stream) {
    struct remote_device *remote = self(device);
    if (!stream || !is_known(stream)) return;
    drain(remote);
}

static enum ingot_status host_wait(struct remote_device *remote, bool undone, struct ingot_error *error) {
    remote->counts.syncs++;
    if (undone) remote->counts.blocked++;
    if (!remote->fail) return INGOT_OK;
    remote->fail = false;
    return IG_ERR(error, INGOT_DEVICE, "the remote device failed");
}

static enum ingot_status stream_wait(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    struct remote_device *remote = self(device);
    open_region();
    bool undone = stream->done < stream->queue.count;
    run_all(remote, stream);
    close_region();
    return host_wait(remote, undone, error);
}

static enum ingot_status event_create(struct ig_device *device, bool timed, struct ig_event **out_event,
                                      struct ingot_error *error) {
    struct ig_event *event = ig_allocate(device->allocator, sizeof *event, _Alignof(struct ig_event));
    if (!event) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an event");
    *out_event = event;
    return INGOT_OK;
}

static void event_destroy(struct ig_device *device, struct ig_event *event) {
    if (!event) return;
    drain(self(device));
    ig_release(device->allocator, event, sizeof *event);
}

static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    self(device)->counts.records++;
    pthread_mutex_lock(&lock);
    event->stream = stream;
    event->recorded++;
    submit(stream, &(struct op){.kind = RECORD, .event = event});
    pthread_mutex_unlock(&lock);
    return INGOT_OK;
}

static enum ingot_status event_wait(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                    struct ingot_error *error) {
    self(device)->counts.waits++;
    submit(stream, &(struct op){.kind = WAIT, .event = event, .target = event->recorded, .source = event->stream});
    return INGOT_OK;
}

static enum ingot_status event_sync(struct ig_device *device, struct ig_event *event, struct ingot_error *error) {
    struct remote_device *remote = self(device);
    open_region();
    bool undone = event->reached < event->recorded;
    run_until(remote, event, event->stream, event->recorded);
    close_region();
    return host_wait(remote, undone, error);
}

static enum ingot_status event_await(struct ig_device *device, struct ig_event *event, bool block, bool *out_done,
                                     struct ingot_error *error) {
    struct remote_device *remote = self(device);
    *out_done = event->reached >= event->recorded || block;
    if (!*out_done && remote->hold != UINT_MAX) *out_done = remote->hold == 0 || --remote->hold == 0;
    return *out_done ? event_sync(device, event, error) : INGOT_OK;
}

/* A stream of a caller's is one of these; see stream_adopt. */
static enum ingot_status event_record_native(struct ig_device *device, void *native, struct ig_event *event,
                                             struct ingot_error *error) {
    return event_record(device, native, event, error);
}

static enum ingot_status event_wait_native(struct ig_device *device, void *native, struct ig_event *event,
                                           struct ingot_error *error) {
    return event_wait(device, native, event, error);
}

static bool native_keeps_order(struct ig_device *device, void *native) {
    return true;
}

static enum ingot_status event_elapsed(struct ig_device *device, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *error) {
    if (begin->reached < begin->recorded || end->reached < end->recorded) end_test("an event is asked too early");
    *out_nanoseconds = end->time - begin->time;
    return INGOT_OK;
}

/* ---- Work ------------------------------------------------------------------------------------------------------------------ */

static void check_copy(const void *to, const void *from, size_t size) {
    if (!is_ours(to) && !is_pinned(to, size)) end_test("copies to host memory that is not pinned");
    if (!is_ours(from) && !is_pinned(from, size)) end_test("copies from host memory that is not pinned");
}

/* The addresses of recorded copies matter when they are launched. */
static enum ingot_status copy(struct ig_device *device, struct ig_stream *stream, void *to, const void *from,
                              size_t size, struct ingot_error *error) {
    if (!stream->recording) check_copy(to, from, size);
    if (!stream->recording) self(device)->counts.copies++;
    submit(stream, &(struct op){.kind = COPY, .to = to, .from = from, .size = size});
    return INGOT_OK;
}

static void check_buffers(const struct ig_launch *launch) {
    for (uint32_t i = 0; i < launch->n_buffers; i++) {
        if (!is_ours(launch->buffers[i])) end_test("a kernel gets memory that is not the device's");
        if ((uintptr_t)launch->buffers[i] % 4 != 0) end_test("a kernel gets a crooked address");
    }
}

static enum ingot_status launch(struct ig_device *device, struct ig_stream *stream, const struct ig_launch *launch,
                                struct ingot_error *error) {
    check_buffers(launch);
    if (!stream->recording) self(device)->counts.launches++;
    submit(stream, &(struct op){.kind = LAUNCH, .launch = *launch});
    return INGOT_OK;
}

static enum ingot_status need_library(struct ig_device *device, uint32_t library, struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED, "%s is a library for GPUs", ig_library_name(library));
}

static enum ingot_status reserve_scratch(struct ig_device *device, struct ig_stream *stream, size_t bytes,
                                         struct ingot_error *error) {
    struct remote_device *remote = self(device);
    return remote->inner->api->reserve_scratch(remote->inner, remote->inner_stream, bytes, error);
}

static size_t scratch_bytes(const struct ig_device *device, size_t bytes) {
    return self(device)->inner->api->scratch_bytes(self(device)->inner, bytes);
}

/* ---- Lists ------------------------------------------------------------------------------------------------------------------ */

static enum ingot_status list_begin(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    if (stream->recording) end_test("a list is begun within another");
    stream->recording = ig_allocate(device->allocator, sizeof *stream->recording, _Alignof(struct ig_list));
    if (!stream->recording) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list");
    self(device)->counts.captures++;
    return INGOT_OK;
}

static enum ingot_status list_end(struct ig_device *device, struct ig_stream *stream, struct ig_list **out_list,
                                  struct ingot_error *error) {
    *out_list = stream->recording;
    stream->recording = NULL;
    return INGOT_OK;
}

static enum ingot_status list_ready(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                    struct ingot_error *error) {
    if (list->ready) end_test("a list is made ready twice");
    list->ready = true;
    self(device)->counts.ready++;
    return INGOT_OK;
}

static void list_destroy(struct ig_device *device, struct ig_list *list) {
    if (!list) return;
    free_ops(&list->ops);
    ig_release(device->allocator, list, sizeof *list);
}

static size_t list_bytes(const struct ig_device *device, const struct ig_list *list) {
    return list->ops.count * sizeof *list->ops.at;
}

/* Later patches do not affect this launch: the operations are copied. */
static enum ingot_status list_launch(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                     struct ingot_error *error) {
    self(device)->counts.lists++;
    self(device)->counts.unready += !list->ready;
    for (size_t i = 0; i < list->ops.count; i++) {
        const struct op *op = &list->ops.at[i];
        if (op->skipped) continue;
        if (op->kind == LAUNCH) check_buffers(&op->launch);
        if (op->kind == COPY) check_copy(op->to, op->from, op->size);
        submit(stream, op);
    }
    return INGOT_OK;
}

static void list_patch(struct ig_device *device, struct ig_list *list, uint32_t item, uint32_t buffer, void *address) {
    struct op *op = &list->ops.at[item];
    self(device)->counts.patches++;
    if (op->kind == LAUNCH)
        ((void **)(uintptr_t)op->launch.buffers)[buffer] = address;
    else if (buffer == 0)
        op->from = address;
    else
        op->to = address;
}

static void list_skip(struct ig_device *device, struct ig_list *list, uint32_t item, bool skipped) {
    if (list->ops.at[item].kind != COPY) end_test("what is left out of a list is no copy");
    self(device)->counts.skips++;
    list->ops.at[item].skipped = skipped;
}

/* ---- Lifetime --------------------------------------------------------------------------------------------------------------- */

static void destroy(struct ig_device *device) {
    struct remote_device *remote = self(device);
    pthread_mutex_lock(&lock);
    for (struct ig_stream **link = &streams, *stream; (stream = *link);) {
        if (stream->owner != remote) {
            link = &stream->next;
            continue;
        }
        *link = stream->next;
        if (stream->done < stream->queue.count) end_test("the device goes before its work is done");
        free_ops(&stream->queue);
        ig_release(device->allocator, stream, sizeof *stream);
    }
    pthread_mutex_unlock(&lock);
    if (remote->inner_stream) remote->inner->api->stream_destroy(remote->inner, remote->inner_stream);
    if (remote->inner) remote->inner->api->destroy(remote->inner);
    ig_release(device->allocator, remote, sizeof *remote);
}

static uint32_t workers(const struct ig_device *device) {
    return self(device)->inner->api->workers(self(device)->inner);
}

static const struct ig_device_api api = {
    .name = "remote",
    .destroy = destroy,
    .workers = workers,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .pin_host = pin_host,
    .unpin_host = unpin_host,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .stream_create = stream_create,
    .stream_adopt = stream_adopt,
    .stream_let_go = stream_let_go,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_await = event_await,
    .event_record_native = event_record_native,
    .event_wait_native = event_wait_native,
    .native_keeps_order = native_keeps_order,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .launch = launch,
    .need_library = need_library,
    .reserve_scratch = reserve_scratch,
    .scratch_bytes = scratch_bytes,
    .list_begin = list_begin,
    .list_end = list_end,
    .list_ready = list_ready,
    .list_destroy = list_destroy,
    .list_bytes = list_bytes,
    .list_launch = list_launch,
    .list_patch = list_patch,
    .list_skip = list_skip,
};

enum ingot_status remote_device_create(unsigned threads, const struct ingot_allocator *allocator,
                                       struct ig_device **out_device, struct ingot_error *error) {
    pthread_mutex_lock(&lock);
    if (!region) region = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) end_test("no addresses");
    pthread_mutex_unlock(&lock);
    struct remote_device *remote = ig_allocate(allocator, sizeof *remote, _Alignof(struct remote_device));
    if (!remote) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a device");
    remote->base = (struct ig_device){.api = &api, .allocator = allocator};
    remote->hold = UINT_MAX;
    enum ingot_status status = ig_device_cpu_create(threads, allocator, &remote->inner, error);
    if (status == INGOT_OK) status = remote->inner->api->stream_create(remote->inner, &remote->inner_stream, error);
    if (status != INGOT_OK)
        destroy(&remote->base);
    else
        *out_device = &remote->base;
    return status;
}
