/* Weights on devices; see weights.h. */
#include "runtime/weights.h"

#include <string.h>

#include "base/memory.h"

/* Size of a staging buffer. There are two in pinned memory: the host fills one while the other is in flight. */
#define PIECE ((size_t)4 << 20)

struct ig_weights {
    int ordinal;
    struct ig_device *device; /* owned, since the devices of contexts come and go */
    void *memory;
    size_t size;
    struct ig_weights *next;
};

/* ---- Upload ------------------------------------------------------------------------------------------------------ */

struct upload {
    struct ig_device *device;
    struct ig_stream *stream;
    struct ig_event *sent[2];
    char *pinned; /* two pieces */
    size_t piece;
};

static enum ingot_status begin_upload(struct upload *upload, struct ingot_error *error) {
    struct ig_device *device = upload->device;
    IG_TRY(device->api->stream_create(device, &upload->stream, error));
    for (int i = 0; i < 2; i++)
        IG_TRY(device->api->event_create(device, false, &upload->sent[i], error));
    void *pinned;
    IG_TRY(device->api->allocate_host(device, 2 * upload->piece, &pinned, error));
    upload->pinned = pinned;
    return INGOT_OK;
}

static enum ingot_status send_pieces(struct upload *upload, char *to, const unsigned char *from, size_t size,
                                     struct ingot_error *error) {
    struct ig_device *device = upload->device;
    for (size_t done = 0, turn = 0; done < size; turn ^= 1) {
        size_t part = size - done < upload->piece ? size - done : upload->piece;
        char *pinned = upload->pinned + turn * upload->piece;
        IG_TRY(device->api->event_sync(device, upload->sent[turn], error));
        memcpy(pinned, from + done, part);
        IG_TRY(device->api->copy(device, upload->stream, to + done, pinned, part, error));
        IG_TRY(device->api->event_record(device, upload->stream, upload->sent[turn], error));
        done += part;
    }
    return INGOT_OK;
}

static void end_upload(struct upload *upload) {
    struct ig_device *device = upload->device;
    struct ingot_error ignored;
    /* Before the staging memory is freed. */
    if (upload->stream) (void)device->api->stream_wait(device, upload->stream, &ignored);
    if (upload->pinned) device->api->release_host(device, upload->pinned, 2 * upload->piece);
    for (int i = 0; i < 2; i++)
        device->api->event_destroy(device, upload->sent[i]);
    device->api->stream_destroy(device, upload->stream);
}

static enum ingot_status bring(struct ig_device *device, void *to, const unsigned char *from, size_t size,
                               struct ingot_error *error) {
    struct upload upload = {.device = device, .piece = size < PIECE ? size : PIECE};
    if (size == 0) return INGOT_OK;
    enum ingot_status status = begin_upload(&upload, error);
    if (status == INGOT_OK) status = send_pieces(&upload, to, from, size, error);
    if (status == INGOT_OK) status = device->api->stream_wait(device, upload.stream, error);
    end_upload(&upload);
    return status;
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

void ig_weight_store_init(struct ig_weight_store *store, const struct ig_engine_file *file,
                          const struct ingot_allocator *allocator) {
    *store = (struct ig_weight_store){.allocator = allocator, .file = file};
    pthread_mutex_init(&store->lock, NULL);
}

static void destroy(const struct ig_weight_store *store, struct ig_weights *weights) {
    struct ig_device *device = weights->device;
    if (weights->memory) device->api->release(device, weights->memory, weights->size);
    if (device) device->api->destroy(device);
    ig_release(store->allocator, weights, sizeof *weights);
}

void ig_weight_store_deinit(struct ig_weight_store *store) {
    for (struct ig_weights *at = store->first, *next; at; at = next) {
        next = at->next;
        destroy(store, at);
    }
    pthread_mutex_destroy(&store->lock);
}

static enum ingot_status fill(const struct ig_weight_store *store, struct ig_weights *weights, ig_device_opener open,
                              struct ingot_error *error) {
    const struct ig_engine_file *file = store->file;
    IG_TRY(open(weights->ordinal, store->allocator, &weights->device, error));
    struct ig_device *device = weights->device;
    weights->size = file->weights_size ? file->weights_size : 64; /* never 0, so that there is an address */
    enum ingot_status status = device->api->allocate(device, weights->size, &weights->memory, error);
    if (status != INGOT_OK) {
        ig_error_prefix(error, "weights of %zu bytes", file->weights_size);
        return status;
    }
    return bring(device, weights->memory, file->weights, file->weights_size, error);
}

static enum ingot_status add(struct ig_weight_store *store, ig_device_opener open, int ordinal,
                             struct ingot_error *error) {
    struct ig_weights *weights = ig_allocate(store->allocator, sizeof *weights, _Alignof(struct ig_weights));
    if (!weights) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine's weights");
    weights->ordinal = ordinal;
    enum ingot_status status = fill(store, weights, open, error);
    if (status != INGOT_OK) {
        destroy(store, weights);
        return status;
    }
    weights->next = store->first;
    store->first = weights;
    return INGOT_OK;
}

static const struct ig_weights *find(const struct ig_weight_store *store, int ordinal) {
    const struct ig_weights *at = store->first;
    while (at && at->ordinal != ordinal)
        at = at->next;
    return at;
}

enum ingot_status ig_weight_store_get(struct ig_weight_store *store, ig_device_opener open, int ordinal,
                                      const void **out_weights, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    enum ingot_status status = find(store, ordinal) ? INGOT_OK : add(store, open, ordinal, error);
    if (status == INGOT_OK) *out_weights = find(store, ordinal)->memory;
    pthread_mutex_unlock(&store->lock);
    return status;
}
