/* Weights and code on devices; see resident.h. */
#include "runtime/resident.h"

#include <string.h>

#include "base/memory.h"

/* Size of a staging buffer. There are two in pinned memory: the host fills one while the other is in flight. */
#define PIECE ((size_t)4 << 20)

/* The memory that weights lie in: ordinary, or this process's to share, or another's. */
enum origin { ORDINARY, SHARED, IMPORTED };

struct ig_residence {
    int ordinal;
    struct ig_device *device; /* owned, since the devices of contexts come and go */
    void *memory;             /* of the weights; NULL: they are in the mapped file */
    size_t size;
    enum origin origin;
    int descriptor; /* of imported memory, while it is opened */
    struct ig_resident resident;
    size_t users; /* contexts */
    struct ig_residence *next;
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

void ig_resident_store_init(struct ig_resident_store *store, const struct ig_engine_file *file,
                            const struct ingot_allocator *allocator) {
    *store = (struct ig_resident_store){.allocator = allocator, .file = file};
    pthread_mutex_init(&store->lock, NULL);
}

static void destroy(const struct ig_resident_store *store, struct ig_residence *residence) {
    struct ig_device *device = residence->device;
    if (residence->resident.module) device->api->module_destroy(device, residence->resident.module);
    if (residence->memory)
        (residence->origin == ORDINARY ? device->api->release : device->api->release_shared)(device, residence->memory,
                                                                                             residence->size);
    if (device) device->api->destroy(device);
    ig_release(store->allocator, residence, sizeof *residence);
}

void ig_resident_store_deinit(struct ig_resident_store *store) {
    for (struct ig_residence *at = store->first, *next; at; at = next) {
        next = at->next;
        destroy(store, at);
    }
    pthread_mutex_destroy(&store->lock);
}

static enum ingot_status take_memory(struct ig_residence *residence, struct ingot_error *error) {
    struct ig_device *device = residence->device;
    const struct ig_device_api *api = device->api;
    if (residence->origin == ORDINARY) return api->allocate(device, residence->size, &residence->memory, error);
    if (!api->allocate_shared)
        return IG_ERR(error, INGOT_UNSUPPORTED, "the device '%s' has no memory that processes can share", api->name);
    if (residence->origin == SHARED) return api->allocate_shared(device, residence->size, &residence->memory, error);
    return api->import_shared(device, residence->descriptor, residence->size, &residence->memory, error);
}

static enum ingot_status bring_weights(const struct ig_engine_file *file, struct ig_residence *residence,
                                       struct ingot_error *error) {
    struct ig_device *device = residence->device;
    residence->resident.weights = file->weights;
    if (device->host_memory) return INGOT_OK;
    residence->size = file->weights_size ? file->weights_size : 64; /* never 0, so that there is an address */
    enum ingot_status status = take_memory(residence, error);
    if (status != INGOT_OK) {
        ig_error_prefix(error, "weights of %zu bytes", file->weights_size);
        return status;
    }
    residence->resident.weights = residence->memory;
    if (residence->origin == IMPORTED) return INGOT_OK;
    return bring(device, residence->memory, file->weights, file->weights_size, error);
}

static enum ingot_status fill(const struct ig_resident_store *store, struct ig_residence *residence,
                              ig_device_opener open, struct ingot_error *error) {
    const struct ig_engine_file *file = store->file;
    IG_TRY(open(residence->ordinal, store->allocator, &residence->device, error));
    IG_TRY(bring_weights(file, residence, error));
    struct ig_device *device = residence->device;
    return device->api->module_create(device, file->code, file->code_size, &residence->resident.module, error);
}

static enum ingot_status add(struct ig_resident_store *store, ig_device_opener open, int ordinal, enum origin origin,
                             int descriptor, struct ingot_error *error) {
    struct ig_residence *residence = ig_allocate(store->allocator, sizeof *residence, _Alignof(struct ig_residence));
    if (!residence) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine's weights");
    residence->ordinal = ordinal;
    residence->origin = origin;
    residence->descriptor = descriptor;
    enum ingot_status status = fill(store, residence, open, error);
    if (status != INGOT_OK) {
        destroy(store, residence);
        return status;
    }
    residence->next = store->first;
    store->first = residence;
    return INGOT_OK;
}

/* The link that points to what is on the device, or the last one. */
static struct ig_residence **find(struct ig_resident_store *store, int ordinal) {
    struct ig_residence **at = &store->first;
    while (*at && (*at)->ordinal != ordinal)
        at = &(*at)->next;
    return at;
}

enum ingot_status ig_resident_store_get(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                        struct ig_resident *out_resident, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    enum ingot_status status = *find(store, ordinal) ? INGOT_OK : add(store, open, ordinal, ORDINARY, -1, error);
    if (status == INGOT_OK) {
        struct ig_residence *residence = *find(store, ordinal);
        residence->users++;
        *out_resident = residence->resident;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* What nobody uses, on a lost device, only keeps that device from being opened afresh. */
static void drop_if_lost(struct ig_resident_store *store, int ordinal) {
    struct ig_residence **link = find(store, ordinal), *residence = *link;
    if (!residence || residence->users > 0) return;
    struct ig_device *device = residence->device;
    if (!device->api->lost || !device->api->lost(device)) return;
    *link = residence->next;
    destroy(store, residence);
}

void ig_resident_store_drop_lost(struct ig_resident_store *store, int ordinal) {
    pthread_mutex_lock(&store->lock);
    drop_if_lost(store, ordinal);
    pthread_mutex_unlock(&store->lock);
}

void ig_resident_store_put(struct ig_resident_store *store, int ordinal) {
    pthread_mutex_lock(&store->lock);
    struct ig_residence *residence = *find(store, ordinal);
    if (residence) residence->users--;
    drop_if_lost(store, ordinal);
    pthread_mutex_unlock(&store->lock);
}

/* ---- Sharing among processes ------------------------------------------------------------------------------------- */

static enum ingot_status export(const struct ig_residence *residence, int *out_descriptor, struct ingot_error *error) {
    struct ig_device *device = residence->device;
    if (residence->origin == SHARED) return device->api->export_shared(device, residence->memory, out_descriptor,
                                                                       error);
    return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                  residence->origin == IMPORTED
                      ? "the weights on GPU %d were imported: pass on the descriptor that they came with"
                      : "the weights are on GPU %d already, in memory that cannot be shared: export them before the "
                        "engine's first context there",
                  residence->ordinal);
}

enum ingot_status ig_resident_store_export(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int *out_descriptor, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    drop_if_lost(store, ordinal);
    enum ingot_status status = *find(store, ordinal) ? INGOT_OK : add(store, open, ordinal, SHARED, -1, error);
    if (status == INGOT_OK) status = export(*find(store, ordinal), out_descriptor, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}

enum ingot_status ig_resident_store_import(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int descriptor, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    drop_if_lost(store, ordinal);
    enum ingot_status status;
    if (*find(store, ordinal))
        status =
            IG_ERR(error, INGOT_INVALID_ARGUMENT,
                   "the weights are on GPU %d already: import them before the engine's first context there", ordinal);
    else
        status = add(store, open, ordinal, IMPORTED, descriptor, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}
