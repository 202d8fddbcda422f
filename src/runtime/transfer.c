/* Inputs to the device and results back; see transfer.h. */
#include "runtime/transfer.h"

#include <string.h>

#include "base/memory.h"

/* A piece is on its way for about as long as the next is copied; more pieces than needed cost a call each. */
#define PIECE ((size_t)1 << 20)

void ig_transfer_init(struct ig_transfer *transfer, struct ig_device *device) {
    transfer->device = device;
}

void ig_transfer_deinit(struct ig_transfer *transfer) {
    struct ig_device *device = transfer->device;
    if (!device) return;
    if (transfer->inputs) device->api->release(device, transfer->inputs, transfer->inputs_size);
    if (transfer->outputs) device->api->release(device, transfer->outputs, transfer->outputs_size);
    if (transfer->pinned_inputs)
        device->api->release_host(device, transfer->pinned_inputs, transfer->pinned_inputs_size);
    if (transfer->pinned_outputs)
        device->api->release_host(device, transfer->pinned_outputs, transfer->pinned_outputs_size);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------- */

/*
 * The first time it gets just what is needed; when it must grow again, half as much more, since shapes that grew twice (a
 * sequence that gets longer with every run) will grow again, and on the CPU pages that are never touched cost nothing.
 * Given back first, so that both need not fit.
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

bool ig_transfer_has_room(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes) {
    return sizes->inputs <= transfer->inputs_size && sizes->outputs <= transfer->outputs_size &&
           sizes->pinned_inputs <= transfer->pinned_inputs_size / 2 &&
           sizes->pinned_outputs <= transfer->pinned_outputs_size;
}

enum ingot_status ig_transfer_reserve(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                      struct ingot_error *error) {
    size_t twice;
    if (!ig_size_mul(sizes->pinned_inputs, 2, &twice))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the inputs of these shapes exceed the address space");
    IG_TRY(grow(transfer, false, sizes->inputs, &transfer->inputs, &transfer->inputs_size, error));
    IG_TRY(grow(transfer, false, sizes->outputs, &transfer->outputs, &transfer->outputs_size, error));
    IG_TRY(grow(transfer, true, twice, &transfer->pinned_inputs, &transfer->pinned_inputs_size, error));
    return grow(transfer, true, sizes->pinned_outputs, &transfer->pinned_outputs, &transfer->pinned_outputs_size,
                error);
}

size_t ig_transfer_bytes(const struct ig_transfer *transfer) {
    return transfer->inputs_size + transfer->outputs_size + transfer->pinned_inputs_size +
           transfer->pinned_outputs_size;
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------------- */

void ig_transfer_begin(struct ig_transfer *transfer, unsigned half) {
    transfer->half = half;
    transfer->written = transfer->on_the_way = 0;
}

static char *pinned_half(const struct ig_transfer *transfer) {
    return transfer->pinned_inputs + (transfer->half ? transfer->pinned_inputs_size / 2 : 0);
}

static enum ingot_status send(struct ig_transfer *transfer, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = transfer->device;
    size_t from = transfer->on_the_way, bytes = transfer->written - from;
    transfer->on_the_way = transfer->written;
    if (bytes == 0) return INGOT_OK;
    return device->api->copy(device, stream, transfer->inputs + from, pinned_half(transfer) + from, bytes, error);
}

enum ingot_status ig_transfer_put(struct ig_transfer *transfer, struct ig_stream *stream, size_t place,
                                  const void *data, size_t bytes, struct ingot_error *error) {
    char *to = pinned_half(transfer) + place;
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < PIECE ? bytes - done : PIECE;
        memcpy(to + done, (const char *)data + done, part);
        transfer->written = place + done + part;
        if (transfer->written - transfer->on_the_way >= PIECE) IG_TRY(send(transfer, stream, error));
    }
    return INGOT_OK;
}

enum ingot_status ig_transfer_end(struct ig_transfer *transfer, struct ig_stream *stream, struct ingot_error *error) {
    return send(transfer, stream, error);
}
