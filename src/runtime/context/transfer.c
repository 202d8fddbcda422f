/* Copies of inputs and results; see transfer.h. */
#include "runtime/context/transfer.h"

#include <string.h>

#include "base/memory.h"

/* The device copies a piece in about the time that the host stages the next; smaller ones would only cost more
 * calls. */
#define PIECE ((size_t)1 << 20)
#define ALIGNMENT 64

void ig_transfer_init(struct ig_transfer *transfer, struct ig_device *device, unsigned threads) {
    transfer->device = device;
    transfer->threads = threads;
}

static void release_large(struct ig_transfer *transfer) {
    struct ig_device *device = transfer->device;
    ig_copier_destroy(transfer->copier);
    if (transfer->beside) device->api->stream_destroy(device, transfer->beside);
    if (transfer->arrived) device->api->event_destroy(device, transfer->arrived);
    if (transfer->away) device->api->stream_destroy(device, transfer->away);
    if (transfer->computed) device->api->event_destroy(device, transfer->computed);
    for (int i = 0; i < 2; i++) {
        if (transfer->left[i]) device->api->event_destroy(device, transfer->left[i]);
    }
    for (int i = 0; i < IG_TRANSFER_PARTS; i++) {
        if (transfer->parts[i]) device->api->event_destroy(device, transfer->parts[i]);
    }
}

static void release_block(struct ig_transfer *transfer, bool pinned, char **block, size_t *size) {
    struct ig_device *device = transfer->device;
    if (*block) (pinned ? device->api->release_host : device->api->release)(device, *block, *size);
    *block = NULL;
    *size = 0;
}

void ig_transfer_trim(struct ig_transfer *transfer) {
    if (!transfer->device) return;
    release_block(transfer, false, &transfer->inputs, &transfer->inputs_size);
    release_block(transfer, false, &transfer->inputs_twice, &transfer->inputs_twice_size);
    release_block(transfer, false, &transfer->direct_twice, &transfer->direct_twice_size);
    release_block(transfer, false, &transfer->outputs_twice, &transfer->outputs_twice_size);
    release_block(transfer, false, &transfer->outputs, &transfer->outputs_size);
    release_block(transfer, true, &transfer->pinned_inputs, &transfer->pinned_inputs_size);
    transfer->cleared = 0;
}

void ig_transfer_deinit(struct ig_transfer *transfer) {
    if (!transfer->device) return;
    release_large(transfer);
    ig_transfer_trim(transfer);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/*
 * The first allocation has the exact size; later ones grow by half at least, since shapes that grew twice (a sequence
 * that gets longer with every run) will grow again, and on the CPU untouched pages cost nothing. Releases the old
 * memory first, so that both need not fit.
 */
enum ingot_status ig_device_grow(struct ig_device *device, bool pinned, size_t needed, void **memory, size_t *size,
                                 struct ingot_error *error) {
    const struct ig_device_api *api = device->api;
    enum ingot_status (*allocate)(struct ig_device *, size_t, void **, struct ingot_error *) =
        pinned ? api->allocate_host : api->allocate;
    if (needed <= *size) return INGOT_OK;
    size_t more = *size / 2, wanted = *size && needed - *size < more ? *size + more : needed;
    if (*memory) (pinned ? api->release_host : api->release)(device, *memory, *size);
    *memory = NULL;
    *size = 0;
    if (wanted == needed || allocate(device, wanted, memory, NULL) != INGOT_OK) {
        wanted = needed;
        IG_TRY(allocate(device, wanted, memory, error));
    }
    *size = wanted;
    return INGOT_OK;
}

static enum ingot_status grow(struct ig_transfer *transfer, bool pinned, size_t needed, char **memory, size_t *size,
                              struct ingot_error *error) {
    void *at = *memory;
    enum ingot_status status = ig_device_grow(transfer->device, pinned, needed, &at, size, error);
    *memory = at;
    return status;
}

/* Size of a half, which is the offset of the second: aligned whatever the total. */
static size_t half_of(size_t size) {
    return size / 2 / ALIGNMENT * ALIGNMENT;
}

/* Helper threads copy only large data between the caller's memory and pinned memory. */
static bool wants_copier(const struct ig_transfer_sizes *sizes) {
    return sizes->inputs_beside || sizes->outputs_in_parts;
}

static bool wants_beside(const struct ig_transfer_sizes *sizes) {
    return sizes->inputs_beside || sizes->direct_inputs;
}

static bool has_means(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes) {
    if (wants_beside(sizes) && !transfer->arrived) return false;
    if (sizes->outputs_beside && !transfer->left[1]) return false;
    if (sizes->outputs_in_parts && !transfer->parts[IG_TRANSFER_PARTS - 1]) return false;
    return transfer->copier || !wants_copier(sizes);
}

bool ig_transfer_has_room(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes) {
    return sizes->inputs <= transfer->inputs_size && sizes->outputs <= transfer->outputs_size &&
           (!sizes->outputs_beside || sizes->host_outputs <= half_of(transfer->outputs_twice_size)) &&
           (!sizes->inputs_beside || sizes->pinned_inputs <= half_of(transfer->inputs_twice_size)) &&
           sizes->direct_inputs <= half_of(transfer->direct_twice_size) &&
           sizes->pinned_inputs <= half_of(transfer->pinned_inputs_size) && has_means(transfer, sizes);
}

static enum ingot_status reserve_away(struct ig_transfer *transfer, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    if (!transfer->away) IG_TRY(device->api->stream_create(device, &transfer->away, error));
    if (!transfer->computed) IG_TRY(device->api->event_create(device, false, &transfer->computed, error));
    for (int i = 0; i < 2; i++) {
        if (!transfer->left[i]) IG_TRY(device->api->event_create(device, false, &transfer->left[i], error));
    }
    return INGOT_OK;
}

/* Creates the streams, events and threads of large transfers. */
static enum ingot_status reserve_means(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                       struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    if (has_means(transfer, sizes)) return INGOT_OK;
    if (sizes->outputs_beside) IG_TRY(reserve_away(transfer, error));
    if (wants_copier(sizes) && !transfer->copier)
        IG_TRY(ig_copier_create(transfer->threads, device->allocator, &transfer->copier, error));
    if (wants_beside(sizes) && !transfer->beside) IG_TRY(device->api->stream_create(device, &transfer->beside, error));
    if (wants_beside(sizes) && !transfer->arrived)
        IG_TRY(device->api->event_create(device, false, &transfer->arrived, error));
    for (int i = 0; sizes->outputs_in_parts && i < IG_TRANSFER_PARTS; i++) {
        if (!transfer->parts[i]) IG_TRY(device->api->event_create(device, false, &transfer->parts[i], error));
    }
    return INGOT_OK;
}

static enum ingot_status clear(struct ig_transfer *transfer, struct ig_stream *stream, char *block, size_t size,
                               struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    size_t bytes = size < transfer->pinned_outputs_size ? size : transfer->pinned_outputs_size;
    if (bytes == 0) return INGOT_OK;
    return device->api->copy(device, stream, block, transfer->pinned_outputs, bytes, error);
}

/* The zeros come from the pinned block. */
enum ingot_status ig_transfer_clear(struct ig_transfer *transfer, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    size_t half = half_of(transfer->outputs_twice_size);
    memset(transfer->pinned_outputs, 0, transfer->pinned_outputs_size);
    IG_TRY(clear(transfer, stream, transfer->outputs, transfer->outputs_size, error));
    for (size_t i = 0; half > 0 && i < 2; i++)
        IG_TRY(clear(transfer, stream, transfer->outputs_twice + i * half, half, error));
    IG_TRY(device->api->stream_wait(device, stream, error));
    transfer->cleared = transfer->pinned_outputs_size;
    return INGOT_OK;
}

enum ingot_status ig_transfer_reserve(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                      struct ingot_error *error) {
    size_t twice, direct_twice, outputs_twice;
    if (!ig_size_mul(sizes->pinned_inputs, 2, &twice) || !ig_size_mul(sizes->direct_inputs, 2, &direct_twice) ||
        !ig_size_mul(sizes->host_outputs, 2, &outputs_twice))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the inputs and outputs of these shapes exceed the address space");
    transfer->cleared = 0; /* the blocks of results may move, also if this fails midway */
    IG_TRY(reserve_means(transfer, sizes, error));
    IG_TRY(grow(transfer, false, sizes->inputs, &transfer->inputs, &transfer->inputs_size, error));
    if (sizes->inputs_beside)
        IG_TRY(grow(transfer, false, twice, &transfer->inputs_twice, &transfer->inputs_twice_size, error));
    IG_TRY(grow(transfer, false, direct_twice, &transfer->direct_twice, &transfer->direct_twice_size, error));
    if (sizes->outputs_beside)
        IG_TRY(grow(transfer, false, outputs_twice, &transfer->outputs_twice, &transfer->outputs_twice_size, error));
    IG_TRY(grow(transfer, false, sizes->outputs, &transfer->outputs, &transfer->outputs_size, error));
    return grow(transfer, true, twice, &transfer->pinned_inputs, &transfer->pinned_inputs_size, error);
}

size_t ig_transfer_bytes(const struct ig_transfer *transfer) {
    return transfer->inputs_size + transfer->inputs_twice_size + transfer->direct_twice_size +
           transfer->outputs_twice_size + transfer->outputs_size + transfer->pinned_inputs_size;
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* Prefers the first half, so that the device's addresses stay the same. */
void ig_transfer_choose_half(struct ig_transfer *transfer, bool busy) {
    transfer->half = busy && !transfer->half;
}

char *ig_transfer_input(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place) {
    if (!sizes->inputs_beside) return transfer->inputs + place;
    return transfer->inputs_twice + place + (transfer->half ? half_of(transfer->inputs_twice_size) : 0);
}

void ig_transfer_begin(struct ig_transfer *transfer) {
    transfer->written = transfer->on_the_way = 0;
}

char *ig_transfer_pinned(const struct ig_transfer *transfer) {
    return transfer->pinned_inputs + (transfer->half ? half_of(transfer->pinned_inputs_size) : 0);
}

static enum ingot_status send(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                              struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    size_t from = transfer->on_the_way, bytes = transfer->written - from;
    transfer->on_the_way = transfer->written;
    if (bytes == 0) return INGOT_OK;
    return device->api->copy(device, sizes->inputs_beside ? transfer->beside : stream,
                             ig_transfer_input(transfer, sizes, from), ig_transfer_pinned(transfer) + from, bytes,
                             error);
}

static enum ingot_status send_pieces(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                     struct ig_stream *stream, struct ingot_error *error) {
    if (sizes->inputs_at_once || transfer->written - transfer->on_the_way < PIECE) return INGOT_OK;
    return send(transfer, sizes, stream, error);
}

/* If sending fails, the host copy completes all the same: helpers read the caller's memory until then. */
static enum ingot_status put_large(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                   struct ig_stream *stream, size_t place, const void *data, size_t bytes,
                                   struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    ig_copier_begin(transfer->copier, ig_transfer_pinned(transfer) + place, data, bytes);
    for (size_t there = 0; there < bytes;) {
        there = ig_copier_advance(transfer->copier);
        transfer->written = place + there;
        if (status == INGOT_OK) status = send_pieces(transfer, sizes, stream, error);
    }
    return status;
}

enum ingot_status ig_transfer_put(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, size_t place, const void *data, size_t bytes,
                                  struct ingot_error *error) {
    char *to = ig_transfer_pinned(transfer) + place;
    if (transfer->copier && bytes >= IG_TRANSFER_LARGE)
        return put_large(transfer, sizes, stream, place, data, bytes, error);
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < PIECE ? bytes - done : PIECE;
        memcpy(to + done, (const char *)data + done, part);
        transfer->written = place + done + part;
        IG_TRY(send_pieces(transfer, sizes, stream, error));
    }
    return INGOT_OK;
}

/* Orders `stream` behind the inputs on the stream of their own. */
static enum ingot_status follow_arrival(struct ig_transfer *transfer, struct ig_stream *stream,
                                        struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    IG_TRY(device->api->event_record(device, transfer->beside, transfer->arrived, error));
    return device->api->event_wait(device, stream, transfer->arrived, error);
}

enum ingot_status ig_transfer_end(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, struct ingot_error *error) {
    if (sizes->inputs_at_once) return INGOT_OK;
    IG_TRY(send(transfer, sizes, stream, error));
    return sizes->inputs_beside ? follow_arrival(transfer, stream, error) : INGOT_OK;
}

char *ig_transfer_direct(const struct ig_transfer *transfer, size_t place) {
    return transfer->direct_twice + place + (transfer->half ? half_of(transfer->direct_twice_size) : 0);
}

enum ingot_status ig_transfer_begin_direct(struct ig_transfer *transfer, struct ig_event *after,
                                           struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    return after ? device->api->event_wait(device, transfer->beside, after, error) : INGOT_OK;
}

enum ingot_status ig_transfer_send_direct(struct ig_transfer *transfer, void *to, const void *from, size_t bytes,
                                          struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    return device->api->copy(device, transfer->beside, to, from, bytes, error);
}

enum ingot_status ig_transfer_end_direct(struct ig_transfer *transfer, struct ig_stream *stream,
                                         struct ingot_error *error) {
    return follow_arrival(transfer, stream, error);
}

void ig_transfer_settle(struct ig_transfer *transfer) {
    struct ingot_error ignored;
    if (transfer->away) (void)transfer->device->api->stream_wait(transfer->device, transfer->away, &ignored);
    if (transfer->beside) (void)transfer->device->api->stream_wait(transfer->device, transfer->beside, &ignored);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

char *ig_transfer_output(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place) {
    if (!sizes->outputs_beside) return transfer->outputs + place;
    return transfer->outputs_twice + place + (transfer->half ? half_of(transfer->outputs_twice_size) : 0);
}

/* If this run's results leave on `away` too, it must wait only for those that leave from the same half. */
enum ingot_status ig_transfer_follow(struct ig_transfer *transfer, struct ig_stream *stream, bool all,
                                     struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    if (!transfer->leaving) return INGOT_OK;
    unsigned half = all ? transfer->last_left : transfer->half;
    return device->api->event_wait(device, stream, transfer->left[half], error);
}

bool ig_transfer_leaves_to(const struct ig_transfer *transfer, const void *memory, size_t bytes) {
    const char *from = memory;
    return transfer->leaving && from < transfer->leaving_to && transfer->leaving_from < from + bytes;
}

enum ingot_status ig_transfer_begin_leaving(struct ig_transfer *transfer, struct ig_stream *stream,
                                            struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    IG_TRY(device->api->event_record(device, stream, transfer->computed, error));
    return device->api->event_wait(device, transfer->away, transfer->computed, error);
}

enum ingot_status ig_transfer_leave(struct ig_transfer *transfer, void *to, const void *from, size_t bytes,
                                    struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    const char *begin = to, *end = begin + bytes;
    bool first = transfer->leaving_from == transfer->leaving_to;
    if (first || begin < transfer->leaving_from) transfer->leaving_from = begin;
    if (first || end > transfer->leaving_to) transfer->leaving_to = end;
    return device->api->copy(device, transfer->away, to, from, bytes, error);
}

enum ingot_status ig_transfer_end_leaving(struct ig_transfer *transfer, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    transfer->leaving = true;
    transfer->last_left = transfer->half;
    return device->api->event_record(device, transfer->away, transfer->left[transfer->half], error);
}

void ig_transfer_has_left(struct ig_transfer *transfer) {
    transfer->leaving = false;
    transfer->leaving_from = transfer->leaving_to = NULL;
}

enum ingot_status ig_transfer_fetch_parts(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                          struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    size_t size = sizes->pinned_outputs, part = size / IG_TRANSFER_PARTS + 1;
    if (part < PIECE) part = PIECE;
    for (size_t at = 0, i = 0; at < size; at += part, i++) {
        size_t bytes = size - at < part ? size - at : part;
        const char *from = ig_transfer_output(transfer, sizes, at);
        IG_TRY(device->api->copy(device, stream, transfer->pinned_outputs + at, from, bytes, error));
        IG_TRY(device->api->event_record(device, stream, transfer->parts[i], error));
    }
    transfer->part_bytes = part;
    return INGOT_OK;
}

static void copy_out(struct ig_transfer *transfer, char *to, const char *from, size_t bytes) {
    if (!transfer->copier) {
        memcpy(to, from, bytes);
        return;
    }
    ig_copier_begin(transfer->copier, to, from, bytes);
    while (ig_copier_advance(transfer->copier) < bytes)
        continue;
}

enum ingot_status ig_transfer_deliver(struct ig_transfer *transfer, size_t place, void *to, size_t bytes,
                                      struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    for (size_t done = 0, now; done < bytes; done += now) {
        size_t at = place + done, part = transfer->part_bytes;
        now = bytes - done;
        if (part) {
            size_t left = part - at % part; /* in this part */
            IG_TRY(device->api->event_sync(device, transfer->parts[at / part], error));
            if (now > left) now = left;
        }
        copy_out(transfer, (char *)to + done, transfer->pinned_outputs + at, now);
    }
    return INGOT_OK;
}
