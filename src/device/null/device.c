/*
 * The null device: an example of how to write a device, and a record for tests of what the runtime asks for.
 *
 * A device is a struct that begins with a struct ig_device, whose `api` points to a table of functions. Streams,
 * events, modules and lists are the device's own structs, opaque to callers. This one executes nothing. It allocates
 * real memory (callers may write there) and logs every call as text, with names instead of addresses, so that two runs
 * give the same text: b0, b1, … are buffers in the order of allocation, m0 modules, s0 streams, e0 events, l0 lists.
 * Addresses that it did not allocate (weights, the caller's tensors) are "host". Its memory is the host's; a test may
 * set `host_memory` to false to see how the runtime behaves then.
 */
#include "device/null/null.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

struct buffer {
    char *memory;
    size_t size;
    unsigned number;
    struct buffer *next;
};

struct ig_module {
    unsigned number;
};
struct ig_stream {
    unsigned number;
    struct ig_list *recording;
};
struct ig_event {
    unsigned number;
};
struct ig_list {
    unsigned number;
    uint32_t items; /* launches and copies recorded so far */
};

struct null_device {
    struct ig_device base;
    struct buffer *buffers;                                      /* in use */
    unsigned n_buffers, n_modules, n_streams, n_events, n_lists; /* ever created; also the next number */
    char *record;
    size_t length, capacity;
};

static struct null_device *self(const struct ig_device *device) {
    return (struct null_device *)(uintptr_t)device;
}

/* ---- The record ------------------------------------------------------------------------------------------------ */

static bool make_room(struct null_device *null, size_t more) {
    size_t needed = null->length + more + 1;
    if (needed <= null->capacity) return true;
    size_t capacity = 2 * needed;
    char *record = ig_allocate(null->base.allocator, capacity, 1);
    if (!record) return false;
    if (null->record) memcpy(record, null->record, null->length + 1);
    ig_release(null->base.allocator, null->record, null->capacity);
    null->record = record;
    null->capacity = capacity;
    return true;
}

/* What does not fit into memory is not recorded: recording must not change behaviour. */
static void note(struct null_device *null, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct null_device *null, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    if (!make_room(null, size)) return;
    memcpy(null->record + null->length, text, size + 1);
    null->length += size;
}

static void note_address(struct null_device *null, const void *address) {
    for (const struct buffer *b = null->buffers; b; b = b->next) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)b->memory;
        if (offset > b->size) continue; /* wraps to a huge offset if the address is below the buffer */
        if (offset)
            note(null, "b%u+%zu", b->number, (size_t)offset);
        else
            note(null, "b%u", b->number);
        return;
    }
    note(null, address ? "host" : "null");
}

const char *ig_device_null_record(const struct ig_device *device) {
    return self(device)->record ? self(device)->record : "";
}

void ig_device_null_clear(struct ig_device *device) {
    self(device)->length = 0;
    if (self(device)->record) self(device)->record[0] = '\0';
}

/* ---- Memory and code: `allocate` and `release` come in pairs with the same size. --------------------------------- */

static enum ingot_status out_of_memory(struct ingot_error *error, const char *what) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %s", what);
}

static enum ingot_status take(struct ig_device *device, const char *how, size_t size, void **out_memory,
                              struct ingot_error *error) {
    struct null_device *null = self(device);
    struct buffer *buffer = ig_allocate(device->allocator, sizeof *buffer, _Alignof(struct buffer));
    if (!buffer) return out_of_memory(error, "a buffer");
    buffer->memory = ig_allocate(device->allocator, size ? size : 1, 64);
    if (!buffer->memory) {
        ig_release(device->allocator, buffer, sizeof *buffer);
        return out_of_memory(error, "a buffer");
    }
    buffer->size = size;
    buffer->number = null->n_buffers++;
    buffer->next = null->buffers;
    null->buffers = buffer;
    note(null, "%s b%u size=%zu\n", how, buffer->number, size);
    *out_memory = buffer->memory;
    return INGOT_OK;
}

static void give_back(struct ig_device *device, const char *how, void *memory, size_t size) {
    struct null_device *null = self(device);
    struct buffer **link = &null->buffers;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    struct buffer *buffer = *link;
    if (!buffer) return;
    *link = buffer->next;
    note(null, "%s b%u size=%zu\n", how, buffer->number, size);
    ig_release(device->allocator, buffer->memory, buffer->size ? buffer->size : 1);
    ig_release(device->allocator, buffer, sizeof *buffer);
}

static enum ingot_status allocate(struct ig_device *device, size_t size, void **out_memory, struct ingot_error *error) {
    return take(device, "allocate", size, out_memory, error);
}

static void release(struct ig_device *device, void *memory, size_t size) {
    give_back(device, "release", memory, size);
}

static enum ingot_status allocate_host(struct ig_device *device, size_t size, void **out_memory,
                                       struct ingot_error *error) {
    return take(device, "allocate_host", size, out_memory, error);
}

static void release_host(struct ig_device *device, void *memory, size_t size) {
    give_back(device, "release_host", memory, size);
}

static enum ingot_status module_create(struct ig_device *device, const void *code, size_t size,
                                       struct ig_module **out_module, struct ingot_error *error) {
    struct ig_module *module = ig_allocate(device->allocator, sizeof *module, _Alignof(struct ig_module));
    if (!module) return out_of_memory(error, "a module");
    module->number = self(device)->n_modules++;
    note(self(device), "module_create m%u size=%zu\n", module->number, size);
    *out_module = module;
    return INGOT_OK;
}

static void module_destroy(struct ig_device *device, struct ig_module *module) {
    if (!module) return;
    note(self(device), "module_destroy m%u\n", module->number);
    ig_release(device->allocator, module, sizeof *module);
}

/* ---- Streams and events: work on a stream is ordered; an event extends the order to another stream. -------------- */

static enum ingot_status stream_create(struct ig_device *device, struct ig_stream **out_stream,
                                       struct ingot_error *error) {
    struct ig_stream *stream = ig_allocate(device->allocator, sizeof *stream, _Alignof(struct ig_stream));
    if (!stream) return out_of_memory(error, "a stream");
    stream->number = self(device)->n_streams++;
    note(self(device), "stream_create s%u\n", stream->number);
    *out_stream = stream;
    return INGOT_OK;
}

static enum ingot_status stream_adopt(struct ig_device *device, void *native, struct ig_stream **stream,
                                      struct ingot_error *error) {
    return *stream ? INGOT_OK : stream_create(device, stream, error);
}

static void stream_let_go(struct ig_device *device, struct ig_stream *stream) {
}

static void free_list(struct ig_device *device, struct ig_list *list) {
    ig_release(device->allocator, list, sizeof *list);
}

static void stream_destroy(struct ig_device *device, struct ig_stream *stream) {
    if (!stream) return;
    note(self(device), "stream_destroy s%u\n", stream->number);
    free_list(device, stream->recording);
    ig_release(device->allocator, stream, sizeof *stream);
}

/* A real device reports failures since the last wait here; this one has none. */
static enum ingot_status stream_wait(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    note(self(device), "stream_wait s%u\n", stream->number);
    return INGOT_OK;
}

static enum ingot_status event_create(struct ig_device *device, bool timed, struct ig_event **out_event,
                                      struct ingot_error *error) {
    struct ig_event *event = ig_allocate(device->allocator, sizeof *event, _Alignof(struct ig_event));
    if (!event) return out_of_memory(error, "an event");
    event->number = self(device)->n_events++;
    note(self(device), "event_create e%u\n", event->number);
    *out_event = event;
    return INGOT_OK;
}

static void event_destroy(struct ig_device *device, struct ig_event *event) {
    if (!event) return;
    note(self(device), "event_destroy e%u\n", event->number);
    ig_release(device->allocator, event, sizeof *event);
}

static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    note(self(device), "event_record s%u e%u\n", stream->number, event->number);
    return INGOT_OK;
}

static enum ingot_status event_wait(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                    struct ingot_error *error) {
    note(self(device), "event_wait s%u e%u\n", stream->number, event->number);
    return INGOT_OK;
}

static enum ingot_status event_sync(struct ig_device *device, struct ig_event *event, struct ingot_error *error) {
    note(self(device), "event_sync e%u\n", event->number);
    return INGOT_OK;
}

/* Everything is done at once, as far as a device that does nothing can tell. */
static enum ingot_status event_await(struct ig_device *device, struct ig_event *event, bool block, bool *out_done,
                                     struct ingot_error *error) {
    *out_done = true;
    return INGOT_OK;
}

static enum ingot_status event_elapsed(struct ig_device *device, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *error) {
    *out_nanoseconds = 0;
    return INGOT_OK;
}

/* ---- Copies and launches: enqueued or, between list_begin and list_end, recorded. -------------------------------- */

/* Begins the line of a copy or launch; numbers it while a list is recorded. */
static void note_work(struct ig_device *device, struct ig_stream *stream, const char *what) {
    if (stream->recording) note(self(device), "l%u[%u]: ", stream->recording->number, stream->recording->items++);
    note(self(device), "%s ", what);
}

static enum ingot_status copy(struct ig_device *device, struct ig_stream *stream, void *to, const void *from,
                              size_t size, struct ingot_error *error) {
    note_work(device, stream, "copy");
    note_address(self(device), from);
    note(self(device), " to ");
    note_address(self(device), to);
    note(self(device), " size=%zu\n", size);
    return INGOT_OK;
}

static enum ingot_status launch(struct ig_device *device, struct ig_stream *stream, const struct ig_launch *launch,
                                struct ingot_error *error) {
    struct null_device *null = self(device);
    note_work(device, stream, "launch");
    if (launch->library)
        note(null, "%s buffers=", ig_library_name(launch->library->library));
    else
        note(null, "m%u+%llu tiles=%lld buffers=", launch->module->number, (unsigned long long)launch->entry,
             (long long)launch->tiles);
    for (uint32_t i = 0; i < launch->n_buffers; i++) {
        if (i) note(null, ",");
        note_address(null, launch->buffers[i]);
    }
    note(null, " dims=");
    for (uint32_t i = 0; i < launch->n_dims; i++)
        note(null, "%s%lld", i ? "," : "", (long long)launch->dims[i]);
    note(null, "\n");
    return INGOT_OK;
}

static enum ingot_status need_library(struct ig_device *device, uint32_t library, struct ingot_error *error) {
    note(self(device), "need_library %s\n", ig_library_name(library));
    return INGOT_OK;
}

static enum ingot_status reserve_scratch(struct ig_device *device, struct ig_stream *stream, size_t bytes,
                                         struct ingot_error *error) {
    note(self(device), "reserve_scratch s%u bytes=%zu\n", stream->number, bytes);
    return INGOT_OK;
}

static size_t scratch_bytes(const struct ig_device *device, size_t bytes) {
    return bytes;
}

/* ---- Lists ------------------------------------------------------------------------------------------------------ */

static enum ingot_status list_begin(struct ig_device *device, struct ig_stream *stream, struct ingot_error *error) {
    if (stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is recording a list already");
    struct ig_list *list = ig_allocate(device->allocator, sizeof *list, _Alignof(struct ig_list));
    if (!list) return out_of_memory(error, "a list");
    list->number = self(device)->n_lists++;
    stream->recording = list;
    note(self(device), "list_begin s%u l%u\n", stream->number, list->number);
    return INGOT_OK;
}

static enum ingot_status list_after(struct ig_device *device, struct ig_stream *stream, const uint32_t *items,
                                    uint32_t count, struct ingot_error *error) {
    if (!stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is not recording a list");
    note(self(device), "after");
    for (uint32_t i = 0; i < count; i++)
        note(self(device), " %u", items[i]);
    note(self(device), count ? "\n" : " nothing\n");
    return INGOT_OK;
}

static enum ingot_status list_end(struct ig_device *device, struct ig_stream *stream, struct ig_list **out_list,
                                  struct ingot_error *error) {
    if (!stream->recording) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the stream is not recording a list");
    *out_list = stream->recording;
    stream->recording = NULL;
    note(self(device), "list_end l%u items=%u\n", (*out_list)->number, (*out_list)->items);
    return INGOT_OK;
}

static enum ingot_status list_ready(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                    struct ingot_error *error) {
    note(self(device), "list_ready s%u l%u\n", stream->number, list->number);
    return INGOT_OK;
}

static void list_destroy(struct ig_device *device, struct ig_list *list) {
    if (!list) return;
    note(self(device), "list_destroy l%u\n", list->number);
    free_list(device, list);
}

static size_t list_bytes(const struct ig_device *device, const struct ig_list *list) {
    return sizeof *list;
}

static enum ingot_status list_launch(struct ig_device *device, struct ig_stream *stream, struct ig_list *list,
                                     struct ingot_error *error) {
    if (stream->recording) return IG_ERR(error, INGOT_UNSUPPORTED, "a list cannot be recorded into another");
    note(self(device), "list_launch s%u l%u\n", stream->number, list->number);
    return INGOT_OK;
}

static void list_patch(struct ig_device *device, struct ig_list *list, uint32_t item, uint32_t buffer, void *address) {
    note(self(device), "list_patch l%u[%u] buffer=%u ", list->number, item, buffer);
    note_address(self(device), address);
    note(self(device), "\n");
}

static void list_skip(struct ig_device *device, struct ig_list *list, uint32_t item, bool skipped) {
    note(self(device), "list_%s l%u[%u]\n", skipped ? "skip" : "take", list->number, item);
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

static void destroy(struct ig_device *device) {
    struct null_device *null = self(device);
    while (null->buffers)
        release(device, null->buffers->memory, null->buffers->size);
    ig_release(device->allocator, null->record, null->capacity);
    ig_release(device->allocator, null, sizeof *null);
}

static uint32_t workers(const struct ig_device *device) {
    return 1;
}

static const struct ig_device_api api = {
    .name = "null",
    .destroy = destroy,
    .workers = workers,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release_host,
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
    .event_elapsed = event_elapsed,
    .copy = copy,
    .launch = launch,
    .need_library = need_library,
    .reserve_scratch = reserve_scratch,
    .scratch_bytes = scratch_bytes,
    .list_begin = list_begin,
    .list_after = list_after,
    .list_end = list_end,
    .list_ready = list_ready,
    .list_destroy = list_destroy,
    .list_bytes = list_bytes,
    .list_launch = list_launch,
    .list_patch = list_patch,
    .list_skip = list_skip,
};

enum ingot_status ig_device_null_create(const struct ingot_allocator *allocator, struct ig_device **out_device,
                                        struct ingot_error *error) {
    struct null_device *null = ig_allocate(allocator, sizeof *null, _Alignof(struct null_device));
    if (!null) return out_of_memory(error, "a device");
    null->base = (struct ig_device){.api = &api, .allocator = allocator, .host_memory = true};
    *out_device = &null->base;
    return INGOT_OK;
}
