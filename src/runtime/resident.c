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
    struct ig_plan_seats seats; /* whose weights it has, on a device with memory of its own; shared memory has all */
    struct ig_device *device;   /* owned, since the devices of contexts come and go */
    struct ig_module *module;
    enum origin origin;
    int descriptor;              /* of imported memory, while it is opened */
    struct ig_weight_sets own;   /* in the device's memory */
    struct ig_weight_sets *sets; /* those, or the host's */
    struct ig_weight_set *fresh; /* while new weights are brought: the set that has them */
    size_t users;                /* contexts */
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

static size_t piece_of(size_t size) {
    return size < PIECE ? size : PIECE;
}

static enum ingot_status bring(struct ig_device *device, void *to, const unsigned char *from, size_t size,
                               struct ingot_error *error) {
    struct upload upload = {.device = device, .piece = piece_of(size)};
    if (size == 0) return INGOT_OK;
    enum ingot_status status = begin_upload(&upload, error);
    if (status == INGOT_OK) status = send_pieces(&upload, to, from, size, error);
    if (status == INGOT_OK) status = device->api->stream_wait(device, upload.stream, error);
    end_upload(&upload);
    return status;
}

/* ---- Sets of weights --------------------------------------------------------------------------------------------- */

static struct ig_weight_set *current_of(const struct ig_weight_sets *sets) {
    return atomic_load_explicit(&sets->current, memory_order_relaxed); /* with the lock */
}

static void add_set(struct ig_weight_sets *sets, struct ig_weight_set *set) {
    set->next = sets->first;
    sets->first = set;
}

static void make_current(struct ig_weight_sets *sets, struct ig_weight_set *set) {
    atomic_store_explicit(&sets->current, set, memory_order_release);
}

/* A set that nobody uses, and that a refit can write, which borrows the same weights. */
static struct ig_weight_set *spare_of(const struct ig_weight_sets *sets, const void *const *borrowed) {
    struct ig_weight_set *set = sets->first;
    while (set && (set->users > 0 || set == current_of(sets) || set->kind == IG_WEIGHTS_FILE ||
                   !ig_weight_set_has_layout(set, borrowed)))
        set = set->next;
    return set;
}

/* What the current set borrows. */
static const void *const *borrowed_of(const struct ig_weight_sets *sets) {
    const struct ig_weight_set *set = current_of(sets);
    return set ? set->borrowed : NULL;
}

/* Frees the sets that nobody uses but the current one and a spare one. */
static void trim(const struct ig_resident_store *store, struct ig_weight_sets *sets, struct ig_device *device) {
    const struct ig_weight_set *spare = spare_of(sets, borrowed_of(sets));
    for (struct ig_weight_set **link = &sets->first; *link;) {
        struct ig_weight_set *set = *link;
        bool stays = set->users > 0 || set == current_of(sets) || set == spare;
        if (stays) {
            link = &set->next;
            continue;
        }
        *link = set->next;
        ig_weight_set_destroy(set, device, store->allocator);
    }
}

static void destroy_sets(const struct ig_resident_store *store, struct ig_weight_sets *sets, struct ig_device *device) {
    for (struct ig_weight_set *set = sets->first, *next; set; set = next) {
        next = set->next;
        ig_weight_set_destroy(set, device, store->allocator);
    }
}

/* Sees to it that there is a current set in host memory. */
static enum ingot_status need_host_set(struct ig_resident_store *store, struct ingot_error *error) {
    struct ig_weight_set *set;
    if (current_of(&store->host)) return INGOT_OK;
    if (store->file->stripped)
        return IG_ERR(error, INGOT_BAD_ENGINE,
                      "the engine was built without its weights: put them in (ingot refit, ingot_refit_file, "
                      "ingot_engine_refit)");
    IG_TRY(ig_weight_set_of_file(store->file, store->allocator, &set, error));
    add_set(&store->host, set);
    make_current(&store->host, set);
    return INGOT_OK;
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

void ig_resident_store_init(struct ig_resident_store *store, const struct ig_engine_file *file,
                            const struct ingot_allocator *allocator) {
    *store = (struct ig_resident_store){.allocator = allocator, .file = file};
    pthread_mutex_init(&store->lock, NULL);
}

static void destroy(const struct ig_resident_store *store, struct ig_residence *residence) {
    struct ig_device *device = residence->device;
    struct ig_weight_set *set = current_of(&residence->own);
    if (residence->module) device->api->module_destroy(device, residence->module);
    if (set && residence->origin != ORDINARY && set->memory) {
        device->api->release_shared(device, set->memory, set->size);
        set->memory = NULL;
    }
    destroy_sets(store, &residence->own, device);
    if (device) device->api->destroy(device);
    ig_release(store->allocator, residence, sizeof *residence);
}

void ig_resident_store_deinit(struct ig_resident_store *store) {
    for (struct ig_residence *at = store->first, *next; at; at = next) {
        next = at->next;
        destroy(store, at);
    }
    destroy_sets(store, &store->host, NULL);
    pthread_mutex_destroy(&store->lock);
}

/* Memory that processes share, for the weights. */
static enum ingot_status take_shared(const struct ig_residence *residence, size_t size, void **out_memory,
                                     struct ingot_error *error) {
    struct ig_device *device = residence->device;
    const struct ig_device_api *api = device->api;
    if (!api->allocate_shared)
        return IG_ERR(error, INGOT_UNSUPPORTED, "the device '%s' has no memory that processes can share", api->name);
    if (residence->origin == SHARED) return api->allocate_shared(device, size, out_memory, error);
    return api->import_shared(device, residence->descriptor, size, out_memory, error);
}

static bool has_borrowed(const struct ig_weight_set *set) {
    return !ig_weight_set_has_layout(set, NULL);
}

static enum ingot_status refuse_elsewhere(const struct ig_resident_store *store, int there, int here,
                                          struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED,
                  "the engine borrows weights in the memory of GPU %d, which kernels on GPU %d "
                  "do not read",
                  there, here);
}

/* Fills a device's new set with what the host's has, which borrows the same. */
static enum ingot_status bring_all(struct ig_device *device, const struct ig_weight_set *to,
                                   const struct ig_weight_set *host, struct ingot_error *error) {
    for (uint32_t i = 0; i < to->places.n_spans; i++) {
        const struct ig_weight_span *span = &to->spans[i];
        if (span->is_borrowed || span->is_absent) continue;
        IG_TRY(bring(device, (void *)(uintptr_t)span->address, ig_weight_address(&host->places, span->begin),
                     (size_t)(span->end - span->begin), error));
    }
    return INGOT_OK;
}

/* Whose weights a set there has; NULL: all. */
static const struct ig_plan_seats *seats_of(const struct ig_residence *residence) {
    return residence->origin == ORDINARY ? &residence->seats : NULL;
}

static enum ingot_status bring_weights(struct ig_resident_store *store, struct ig_residence *residence,
                                       struct ingot_error *error) {
    struct ig_device *device = residence->device;
    struct ig_weight_set *set;
    IG_TRY(need_host_set(store, error));
    const struct ig_weight_set *host = current_of(&store->host);
    residence->sets = &store->host;
    if (device->host_memory) return INGOT_OK;
    if (has_borrowed(host) && residence->ordinal != store->borrowed_ordinal)
        return refuse_elsewhere(store, store->borrowed_ordinal, residence->ordinal, error);
    residence->sets = &residence->own;
    IG_TRY(ig_weight_set_on_device(store->file, host->borrowed, device, seats_of(residence), store->allocator, &set,
                                   error));
    add_set(&residence->own, set);
    make_current(&residence->own, set);
    if (residence->origin != ORDINARY) {
        void *memory = NULL;
        enum ingot_status status = take_shared(residence, set->size, &memory, error);
        if (status != INGOT_OK) {
            ig_error_prefix(error, "weights of %zu bytes", store->file->weights_size);
            return status;
        }
        ig_weight_set_use(set, memory);
    }
    if (set->n_weights) memcpy(set->made, host->made, set->n_weights * sizeof *set->made);
    if (residence->origin == IMPORTED) return INGOT_OK;
    return bring_all(device, set, host, error);
}

static enum ingot_status fill(struct ig_resident_store *store, struct ig_residence *residence, ig_device_opener open,
                              struct ingot_error *error) {
    const struct ig_engine_file *file = store->file;
    IG_TRY(open(residence->ordinal, store->allocator, &residence->device, error));
    IG_TRY(bring_weights(store, residence, error));
    struct ig_device *device = residence->device;
    return device->api->module_create(device, file->code, file->code_size, &residence->module, error);
}

static struct ig_plan_seats seat_number(const struct ig_resident_store *store, uint32_t seat) {
    const struct ig_plan_seats *all = &store->file->seats;
    return (struct ig_plan_seats){all->ranks, all->first + seat, 1};
}

static enum ingot_status add(struct ig_resident_store *store, ig_device_opener open, int ordinal, uint32_t seat,
                             enum origin origin, int descriptor, struct ingot_error *error) {
    struct ig_residence *residence = ig_allocate(store->allocator, sizeof *residence, _Alignof(struct ig_residence));
    if (!residence) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine's weights");
    residence->ordinal = ordinal;
    residence->seats = seat_number(store, seat);
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

/* What is on the device and serves that number of the process's ranks; NULL: nothing. */
static struct ig_residence *find(const struct ig_resident_store *store, int ordinal, uint32_t seat) {
    const struct ig_plan_seats seats = seat_number(store, seat);
    struct ig_residence *at = store->first;
    while (at && (at->ordinal != ordinal || (at->origin == ORDINARY && at->seats.first != seats.first)))
        at = at->next;
    return at;
}

/* What is on the device for whatever rank; NULL: nothing. */
static struct ig_residence *find_any(const struct ig_resident_store *store, int ordinal) {
    struct ig_residence *at = store->first;
    while (at && at->ordinal != ordinal)
        at = at->next;
    return at;
}

enum ingot_status ig_resident_store_get(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                        uint32_t seat, struct ig_resident *out_resident, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    pthread_mutex_lock(&store->lock);
    if (!find(store, ordinal, seat)) status = add(store, open, ordinal, seat, ORDINARY, -1, error);
    if (status == INGOT_OK) {
        struct ig_residence *residence = find(store, ordinal, seat);
        struct ig_weight_set *set = current_of(residence->sets);
        residence->users++;
        set->users++;
        *out_resident =
            (struct ig_resident){&set->places, residence->module, residence, set, &residence->sets->current};
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* What nobody uses, on a lost device, only keeps that device from being opened afresh. */
static void drop_if_lost(struct ig_resident_store *store, int ordinal) {
    for (struct ig_residence **link = &store->first; *link;) {
        struct ig_residence *residence = *link;
        struct ig_device *device = residence->device;
        const bool unused = residence->ordinal == ordinal && residence->users == 0;
        if (!unused || !device->api->lost || !device->api->lost(device)) {
            link = &residence->next;
            continue;
        }
        *link = residence->next;
        destroy(store, residence);
    }
}

void ig_resident_store_drop_lost(struct ig_resident_store *store, int ordinal) {
    pthread_mutex_lock(&store->lock);
    drop_if_lost(store, ordinal);
    pthread_mutex_unlock(&store->lock);
}

void ig_resident_store_put(struct ig_resident_store *store, const struct ig_resident *resident) {
    pthread_mutex_lock(&store->lock);
    struct ig_residence *residence = resident->residence;
    residence->users--;
    resident->set->users--;
    trim(store, residence->sets, residence->device);
    drop_if_lost(store, residence->ordinal);
    pthread_mutex_unlock(&store->lock);
}

void ig_resident_store_switch(struct ig_resident_store *store, struct ig_resident *inout_resident) {
    pthread_mutex_lock(&store->lock);
    struct ig_weight_set *set = atomic_load_explicit(inout_resident->current, memory_order_relaxed);
    inout_resident->set->users--;
    set->users++;
    inout_resident->set = set;
    inout_resident->weights = &set->places;
    pthread_mutex_unlock(&store->lock);
}

/* ---- Refitting --------------------------------------------------------------------------------------------------- */

/* What a weight is that was to be written when something failed. */
#define UNKNOWN UINT64_MAX

static enum ingot_status refuse_shared(const struct ig_resident_store *store, struct ingot_error *error) {
    for (const struct ig_residence *at = store->first; at; at = at->next) {
        if (at->origin != ORDINARY)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "the weights on GPU %d are shared with other processes, which would not get new ones",
                          at->ordinal);
    }
    return INGOT_OK;
}

/* Memory of one GPU is read by its kernels alone. */
static enum ingot_status check_borrowed(const struct ig_resident_store *store, const struct ig_weight_change *change,
                                        struct ingot_error *error) {
    bool any = false;
    for (uint32_t i = 0; change->borrowed && i < store->file->refit.n_weights; i++)
        any = any || change->borrowed[i];
    for (const struct ig_residence *at = store->first; any && at; at = at->next) {
        if (at->sets == &at->own && at->ordinal != change->ordinal)
            return refuse_elsewhere(store, change->ordinal, at->ordinal, error);
    }
    return INGOT_OK;
}

/* Finds a set to write, or makes one; it counts as used. */
static enum ingot_status reserve(struct ig_resident_store *store, const struct ig_weight_change *change,
                                 struct ig_weight_set **out_set, struct ingot_error *error) {
    struct ig_weight_set *set = spare_of(&store->host, change->borrowed);
    IG_TRY(refuse_shared(store, error));
    IG_TRY(check_borrowed(store, change, error));
    if (!store->file->stripped) IG_TRY(need_host_set(store, error));
    const struct ig_weight_set *current = current_of(&store->host); /* NULL: they are put in now */
    if (set) {
        ig_weight_set_borrow(set, &store->file->refit, change->borrowed);
        ig_weight_set_follow(set, current, &store->file->refit, change->stale);
    } else {
        IG_TRY(ig_weight_set_copy(store->file, current, change->borrowed, store->allocator, &set, error));
        add_set(&store->host, set);
    }
    set->users++;
    *out_set = set;
    return INGOT_OK;
}

enum ingot_status ig_resident_store_refit_begin(struct ig_resident_store *store, const struct ig_weight_change *change,
                                                struct ig_weight_set **out_set, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    enum ingot_status status = reserve(store, change, out_set, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}

static void mark_stale(struct ig_weight_set *set, const bool *stale, uint64_t made) {
    for (uint32_t i = 0; i < set->n_weights; i++) {
        if (stale[i]) set->made[i] = made;
    }
}

void ig_resident_store_refit_abort(struct ig_resident_store *store, const struct ig_weight_change *change,
                                   struct ig_weight_set *set) {
    pthread_mutex_lock(&store->lock);
    mark_stale(set, change->stale, UNKNOWN);
    set->users--;
    trim(store, &store->host, NULL);
    pthread_mutex_unlock(&store->lock);
}

/* Sends what the device has of a range of the section. */
static enum ingot_status send_range(struct upload *upload, const struct ig_weight_set *to,
                                    const struct ig_weight_set *from, uint64_t begin, uint64_t end,
                                    struct ingot_error *error) {
    for (uint32_t i = ig_weight_span_of(&to->places, begin); i < to->places.n_spans && begin < end; i++) {
        const struct ig_weight_span *span = &to->spans[i];
        const uint64_t until = span->end < end ? span->end : end;
        if (!span->is_absent)
            IG_TRY(send_pieces(upload, ig_weight_address(&to->places, begin), ig_weight_address(&from->places, begin),
                               (size_t)(until - begin), error));
        begin = until;
    }
    return INGOT_OK;
}

/* Sends the weights that differ. */
static enum ingot_status send_changes(const struct ig_resident_store *store, struct upload *upload,
                                      struct ig_weight_set *to, const struct ig_weight_set *from,
                                      struct ingot_error *error) {
    for (uint32_t i = 0; i < to->n_weights; i++) {
        const struct ig_weight_entry *w = &store->file->refit.weights[i];
        if (to->borrowed[i] || to->made[i] == from->made[i]) continue;
        uint64_t made = from->made[i];
        to->made[i] = UNKNOWN;
        IG_TRY(send_range(upload, to, from, w->offset, w->offset + w->size, error));
        to->made[i] = made;
    }
    return INGOT_OK;
}

/* What is put together of weights, of which some differ. */
static enum ingot_status send_copies(struct upload *upload, const struct ig_weight_set *to,
                                     const struct ig_weight_set *from, struct ingot_error *error) {
    for (uint32_t i = 0; i < to->places.n_spans; i++) {
        const struct ig_weight_span *span = &to->spans[i];
        if (!span->is_copied || span->is_absent) continue;
        IG_TRY(send_pieces(upload, (char *)(uintptr_t)span->address, ig_weight_address(&from->places, span->begin),
                           (size_t)(span->end - span->begin), error));
    }
    return INGOT_OK;
}

/* A device's set with the new weights: a spare one, or a copy of the current one, made there. */
static enum ingot_status bring_changes(const struct ig_resident_store *store, struct ig_residence *residence,
                                       const struct ig_weight_set *host, struct ig_weight_set **out_set,
                                       struct ingot_error *error) {
    struct ig_device *device = residence->device;
    struct ig_weight_set *set = spare_of(&residence->own, host->borrowed), *current = current_of(&residence->own);
    struct upload upload = {.device = device, .piece = piece_of(store->file->weights_size)};
    bool fresh = !set;
    if (fresh) {
        IG_TRY(ig_weight_set_on_device(store->file, host->borrowed, device, seats_of(residence), store->allocator, &set,
                                       error));
        memset(set->made, 0xff, set->n_weights * sizeof *set->made);
        add_set(&residence->own, set);
    } else {
        ig_weight_set_borrow(set, &store->file->refit, host->borrowed);
    }
    *out_set = set;
    if (upload.piece == 0) return INGOT_OK;
    enum ingot_status status = begin_upload(&upload, error);
    if (status == INGOT_OK && fresh && ig_weight_set_has_layout(current, set->borrowed)) {
        status = device->api->copy(device, upload.stream, set->memory, current->memory, set->size, error);
        if (status == INGOT_OK) memcpy(set->made, current->made, set->n_weights * sizeof *set->made);
    }
    if (status == INGOT_OK) status = send_changes(store, &upload, set, host, error);
    if (status == INGOT_OK) status = send_copies(&upload, set, host, error);
    if (status == INGOT_OK) status = device->api->stream_wait(device, upload.stream, error);
    if (status != INGOT_OK) memset(set->made, 0xff, set->n_weights * sizeof *set->made);
    end_upload(&upload);
    return status;
}

/* Prepares the sets of all devices, then makes all of them current. */
static enum ingot_status publish(struct ig_resident_store *store, struct ig_weight_set *host,
                                 struct ingot_error *error) {
    for (struct ig_residence *at = store->first; at; at = at->next) {
        at->fresh = NULL;
        if (at->sets == &at->own) IG_TRY(bring_changes(store, at, host, &at->fresh, error));
    }
    for (struct ig_residence *at = store->first; at; at = at->next) {
        if (!at->fresh) continue;
        make_current(&at->own, at->fresh);
        trim(store, &at->own, at->device);
    }
    make_current(&store->host, host);
    return INGOT_OK;
}

enum ingot_status ig_resident_store_refit_commit(struct ig_resident_store *store, const struct ig_weight_change *change,
                                                 struct ig_weight_set *set, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    mark_stale(set, change->stale, store->refits + 1);
    ig_weight_set_put_together(set, &store->file->plan);
    enum ingot_status status = refuse_shared(store, error);
    if (status == INGOT_OK) status = check_borrowed(store, change, error);
    if (status == INGOT_OK) status = publish(store, set, error);
    if (status == INGOT_OK) {
        store->refits++;
        store->borrowed_ordinal = change->ordinal;
    } else {
        mark_stale(set, change->stale, UNKNOWN);
    }
    set->users--;
    trim(store, &store->host, NULL);
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- The caller's memory ------------------------------------------------------------------------------------------ */

/* Nobody reads what a set has that nobody is bound to any more. */
static bool set_borrows(const struct ig_weight_sets *sets, const void *data) {
    for (const struct ig_weight_set *set = sets->first; set; set = set->next) {
        for (uint32_t i = 0; (set->users > 0 || set == current_of(sets)) && i < set->n_weights; i++) {
            if (set->borrowed[i] == data) return true;
        }
    }
    return false;
}

bool ig_resident_store_borrows(struct ig_resident_store *store, const void *data) {
    pthread_mutex_lock(&store->lock);
    bool borrows = set_borrows(&store->host, data);
    for (const struct ig_residence *at = store->first; !borrows && at; at = at->next)
        borrows = set_borrows(&at->own, data);
    pthread_mutex_unlock(&store->lock);
    return borrows;
}

static enum ingot_status fetch_pieces(struct upload *u, char *to, const char *from, size_t size,
                                      struct ingot_error *error) {
    struct ig_device *device = u->device;
    for (size_t done = 0; done < size;) {
        size_t part = size - done < u->piece ? size - done : u->piece;
        IG_TRY(device->api->copy(device, u->stream, u->pinned, from + done, part, error));
        IG_TRY(device->api->stream_wait(device, u->stream, error));
        memcpy(to + done, u->pinned, part);
        done += part;
    }
    return INGOT_OK;
}

enum ingot_status ig_resident_fetch(ig_device_opener open, int ordinal, const struct ingot_allocator *allocator,
                                    const struct ig_fetch *fetches, size_t count, struct ingot_error *error) {
    struct upload upload = {.piece = PIECE};
    IG_TRY(open(ordinal, allocator, &upload.device, error));
    enum ingot_status status = begin_upload(&upload, error);
    for (size_t i = 0; status == INGOT_OK && i < count; i++)
        status = fetch_pieces(&upload, fetches[i].to, fetches[i].from, fetches[i].size, error);
    end_upload(&upload);
    upload.device->api->destroy(upload.device);
    return status;
}

/* ---- Sharing among processes ------------------------------------------------------------------------------------- */

static enum ingot_status export(const struct ig_residence *residence, int *out_descriptor, struct ingot_error *error) {
    struct ig_device *device = residence->device;
    if (residence->origin == SHARED) return device->api->export_shared(device, current_of(&residence->own)->memory,
                                                                       out_descriptor, error);
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
    enum ingot_status status = INGOT_OK;
    if (!find_any(store, ordinal)) status = add(store, open, ordinal, 0, SHARED, -1, error);
    if (status == INGOT_OK) status = export(find_any(store, ordinal), out_descriptor, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}

enum ingot_status ig_resident_store_import(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int descriptor, struct ingot_error *error) {
    pthread_mutex_lock(&store->lock);
    drop_if_lost(store, ordinal);
    enum ingot_status status;
    if (find_any(store, ordinal))
        status =
            IG_ERR(error, INGOT_INVALID_ARGUMENT,
                   "the weights are on GPU %d already: import them before the engine's first context there", ordinal);
    else
        status = add(store, open, ordinal, 0, IMPORTED, descriptor, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}
