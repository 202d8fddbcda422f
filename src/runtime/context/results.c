/* Sets of result buffers and leases on them; see results.h. */
#include "runtime/context/results.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/stop.h"
#include "runtime/context/transfer.h"

struct ig_results_pool {
    struct ig_device *device;
    const struct ingot_allocator *allocator;
    size_t n_outputs;
    struct ig_results *first; /* sets are added but never removed: instances refer to them */
    atomic_size_t owners;     /* the context and the leases */
    pthread_mutex_t lock;     /* of leases' readers, since several threads may share a lease */
    bool any_unmarked;        /* readers, perhaps */
};

/* An allocator may return NULL for size 0. */
static size_t tensors_size(const struct ig_results_pool *pool) {
    return (pool->n_outputs + 1) * sizeof(struct ingot_tensor);
}

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

enum ingot_status ig_results_pool_create(struct ig_device *device, size_t n_outputs,
                                         const struct ingot_allocator *allocator, struct ig_results_pool **out_pool,
                                         struct ingot_error *error) {
    struct ig_results_pool *pool = ig_allocate(allocator, sizeof *pool, _Alignof(struct ig_results_pool));
    if (!pool) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for results");
    pool->device = device;
    pool->allocator = allocator;
    pool->n_outputs = n_outputs;
    atomic_init(&pool->owners, 1);
    pthread_mutex_init(&pool->lock, NULL);
    ig_device_retain(device);
    *out_pool = pool;
    return INGOT_OK;
}

/* It has been waited for. */
static void free_reader(struct ig_reader *reader) {
    reader->native = NULL;
    reader->ended = reader->unmarked = false;
}

static enum ingot_status mark(struct ig_device *device, struct ig_reader *reader, struct ingot_error *error) {
    IG_TRY(device->api->event_record_native(device, reader->native, reader->end, error));
    reader->unmarked = false;
    return INGOT_OK;
}

/* Neither the host nor the device may free what readers on a caller's stream still read. */
static void await_readers(struct ig_results *results) {
    struct ig_device *device = results->pool->device;
    struct ingot_error ignored;
    bool done;
    for (struct ig_reader *reader = results->readers; reader; reader = reader->next) {
        if (!reader->ended) continue;
        if (!reader->unmarked || mark(device, reader, &ignored) == INGOT_OK)
            (void)device->api->event_await(device, reader->end, true, &done, &ignored);
        free_reader(reader);
    }
}

static void release_memory(struct ig_results *results) {
    struct ig_device *device = results->pool->device;
    await_readers(results);
    if (results->host)
        (device->host_memory ? device->api->release : device->api->release_host)(device, results->host,
                                                                                 results->host_size);
    if (results->device) device->api->release(device, results->device, results->device_size);
    results->host = results->device = NULL;
    results->host_size = results->device_size = 0;
}

static void destroy_set(struct ig_results *results) {
    struct ig_results_pool *pool = results->pool;
    struct ig_device *device = pool->device;
    release_memory(results);
    for (struct ig_reader *at = results->readers, *next; at; at = next) {
        next = at->next;
        device->api->event_destroy(device, at->end);
        ig_release(pool->allocator, at, sizeof *at);
    }
    if (results->end) device->api->event_destroy(device, results->end);
    ig_release(pool->allocator, results->tensors, tensors_size(pool));
    ig_release(pool->allocator, results, sizeof *results);
}

void ig_results_pool_drop(struct ig_results_pool *pool) {
    if (!pool || atomic_fetch_sub_explicit(&pool->owners, 1, memory_order_acq_rel) != 1) return;
    for (struct ig_results *at = pool->first, *next; at; at = next) {
        next = at->next;
        destroy_set(at);
    }
    struct ig_device *device = pool->device;
    pthread_mutex_destroy(&pool->lock);
    ig_release(pool->allocator, pool, sizeof *pool);
    ig_device_release(device);
}

size_t ig_results_pool_bytes(const struct ig_results_pool *pool) {
    size_t bytes = 0;
    for (const struct ig_results *at = pool->first; at; at = at->next)
        bytes += at->host_size + at->device_size;
    return bytes;
}

static void mark_readers(struct ig_results *results) {
    struct ingot_error ignored;
    for (struct ig_reader *reader = results->readers; reader; reader = reader->next) {
        if (!reader->unmarked) continue;
        enum ingot_status status = mark(results->pool->device, reader, &ignored);
        if (status == INGOT_UNSUPPORTED) atomic_store(&results->leased, true); /* for ever: see ig_results_release */
        if (status != INGOT_OK) free_reader(reader);
    }
}

void ig_results_pool_let_go(struct ig_results_pool *pool) {
    if (!pool || pool->device->host_memory) return;
    pthread_mutex_lock(&pool->lock);
    for (struct ig_results *at = pool->first; at; at = at->next) {
        at->native = NULL;
        if (pool->any_unmarked) mark_readers(at);
    }
    pool->any_unmarked = false;
    pthread_mutex_unlock(&pool->lock);
}

/* A lease's holder may learn the outcome at the same time, and first. */
static void conclude(struct ig_results *results, bool good) {
    int open = IG_OUTCOME_OPEN;
    atomic_compare_exchange_strong(&results->outcome, &open, good ? IG_OUTCOME_GOOD : IG_OUTCOME_BAD);
}

void ig_results_pool_settle(struct ig_results_pool *pool, bool good) {
    for (struct ig_results *at = pool->first; at; at = at->next)
        conclude(at, good);
}

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

bool ig_results_have_room(const struct ig_results *results, size_t host, size_t device) {
    return host <= results->host_size && device <= results->device_size;
}

/* The release that it reads from: whoever held the lease has finished with the buffers. */
static bool is_free(const struct ig_results *results) {
    return results && !atomic_load_explicit(&results->leased, memory_order_acquire);
}

void ig_results_pool_trim(struct ig_results_pool *pool) {
    for (struct ig_results *at = pool->first; at; at = at->next) {
        if (is_free(at)) release_memory(at);
    }
}

struct ig_results *ig_results_find(const struct ig_results_pool *pool, struct ig_results *first,
                                   struct ig_results *second, size_t host, size_t device) {
    struct ig_results *free = NULL;
    if (is_free(first) && ig_results_have_room(first, host, device)) return first;
    if (is_free(second) && ig_results_have_room(second, host, device)) return second;
    for (struct ig_results *at = pool->first; at; at = at->next) {
        if (!is_free(at)) continue;
        if (ig_results_have_room(at, host, device)) return at;
        free = at;
    }
    return free;
}

enum ingot_status ig_results_add(struct ig_results_pool *pool, struct ig_results **out_results,
                                 struct ingot_error *error) {
    struct ig_results *results = ig_allocate(pool->allocator, sizeof *results, _Alignof(struct ig_results));
    struct ingot_tensor *tensors =
        results ? ig_allocate(pool->allocator, tensors_size(pool), _Alignof(struct ingot_tensor)) : NULL;
    if (!tensors) {
        ig_release(pool->allocator, results, sizeof *results);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for results");
    }
    results->pool = pool;
    results->tensors = tensors;
    results->next = pool->first;
    pool->first = results;
    *out_results = results;
    return INGOT_OK;
}

static enum ingot_status grow(struct ig_device *device, bool pinned, size_t needed, char **memory, size_t *size,
                              struct ingot_error *error) {
    void *at = *memory;
    enum ingot_status status = ig_device_grow(device, pinned, needed, &at, size, error);
    *memory = at;
    return status;
}

enum ingot_status ig_results_reserve(struct ig_results *results, size_t host, size_t device,
                                     struct ingot_error *error) {
    struct ig_device *at = results->pool->device;
    await_readers(results);
    IG_TRY(grow(at, !at->host_memory, host, &results->host, &results->host_size, error));
    return grow(at, false, device, &results->device, &results->device_size, error);
}

enum ingot_status ig_results_follow_readers(struct ig_results *results, struct ig_stream *stream, const void *native,
                                            struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    for (struct ig_reader *reader = results->readers; reader; reader = reader->next) {
        if (!reader->ended) continue;
        bool follows = reader->unmarked && reader->native == native;
        if (!follows && reader->unmarked) IG_TRY(mark(device, reader, error));
        if (!follows) IG_TRY(device->api->event_wait(device, stream, reader->end, error));
        free_reader(reader);
    }
    return INGOT_OK;
}

/* ---- Leases ------------------------------------------------------------------------------------------------------ */

enum ingot_status ig_results_lease(struct ig_results *results, struct ig_stream *stream, void *native,
                                   struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    /* Made once, so that later leases allocate nothing. */
    if (stream && !results->end) IG_TRY(device->api->event_create(device, false, &results->end, error));
    if (stream) IG_TRY(device->api->event_record(device, stream, results->end, error));
    results->taken = true;
    results->native = native;
    atomic_store(&results->outcome, stream ? IG_OUTCOME_OPEN : IG_OUTCOME_GOOD);
    atomic_fetch_add_explicit(&results->pool->owners, 1, memory_order_relaxed);
    atomic_store_explicit(&results->leased, true, memory_order_relaxed);
    return INGOT_OK;
}

/* The device's answer to a wait. */
static enum ingot_status answer(struct ig_results *results, enum ingot_status status, struct ingot_error *error) {
    conclude(results, status == INGOT_OK);
    if (status != INGOT_OK || atomic_load(&results->outcome) == IG_OUTCOME_GOOD) return status;
    return IG_ERR(error, INGOT_DEVICE, "the leased run failed, as a wait has told before");
}

enum ingot_status ig_results_wait(struct ig_results *results, struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    enum ingot_status status = INGOT_OK;
    bool done;
    if (atomic_load(&results->outcome) == IG_OUTCOME_OPEN)
        status = device->api->event_await(device, results->end, true, &done, error);
    return answer(results, status, error);
}

/* INGOT_TIMEOUT if the device has no answer by then. */
static enum ingot_status ask_until(struct ig_results *results, double seconds, struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    uint64_t begin = ig_clock(), deadline = ig_clock_after(begin, seconds);
    for (bool done;;) {
        IG_TRY(device->api->event_await(device, results->end, false, &done, error));
        if (done) return INGOT_OK;
        if (ig_clock() >= deadline)
            return IG_ERR(error, INGOT_TIMEOUT, "the leased run is not done after %g seconds", seconds);
        ig_clock_pause(begin);
    }
}

enum ingot_status ig_results_wait_for(struct ig_results *results, double seconds, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    if (!(seconds >= 0))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a wait for %g seconds: at least 0 wanted", seconds);
    if (atomic_load(&results->outcome) == IG_OUTCOME_OPEN) status = ask_until(results, seconds, error);
    return status == INGOT_TIMEOUT ? status : answer(results, status, error);
}

enum ingot_status ig_results_output(const struct ig_results *results, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error) {
    if (index >= results->pool->n_outputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no output %zu: the engine has %zu", index,
                      results->pool->n_outputs);
    const struct ingot_tensor *tensor = &results->tensors[index];
    int outcome = atomic_load(&results->outcome);
    if (tensor->dtype == INGOT_DTYPE_NONE)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "output %zu is not leased: its result was not in the context's memory", index);
    if (outcome == IG_OUTCOME_BAD)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output %zu has no result: the leased run failed", index);
    if (outcome == IG_OUTCOME_OPEN && tensor->memory != INGOT_CUDA)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output %zu is under way: ingot_lease_wait comes first", index);
    *out_tensor = *tensor;
    return INGOT_OK;
}

/* ---- Readers on the caller's streams --------------------------------------------------------------------------------- */

static enum ingot_status refuse_stream(const struct ig_device *device, const void *native, struct ingot_error *error) {
    if (!device->api->event_record_native)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the engine runs on the CPU, where no stream reads the results");
    if (!native)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "the default stream cannot be followed, only a created one: ingot_lease_release needs none");
    return INGOT_OK;
}

/* These return NULL with a status other than INGOT_OK. */
static struct ig_reader *add_reader(struct ig_results *results, enum ingot_status *out_status,
                                    struct ingot_error *error) {
    struct ig_results_pool *pool = results->pool;
    struct ig_reader *reader = ig_allocate(pool->allocator, sizeof *reader, _Alignof(struct ig_reader));
    if (!reader) {
        *out_status = IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a reader of results");
        return NULL;
    }
    *out_status = pool->device->api->event_create(pool->device, false, &reader->end, error);
    if (*out_status != INGOT_OK) {
        ig_release(pool->allocator, reader, sizeof *reader);
        return NULL;
    }
    reader->next = results->readers;
    results->readers = reader;
    return reader;
}

/* The reader of that stream, else a free one, else a new one. */
static struct ig_reader *find_reader(struct ig_results *results, void *native, enum ingot_status *out_status,
                                     struct ingot_error *error) {
    struct ig_reader *found = NULL;
    for (struct ig_reader *at = results->readers; at; at = at->next) {
        bool is_same = at->native == native && !at->ended;
        if (is_same || (!at->native && !found)) found = at;
        if (is_same) break;
    }
    if (!found) found = add_reader(results, out_status, error);
    if (found) found->native = native;
    return found;
}

enum ingot_status ig_results_follow(struct ig_results *results, void *native, struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    enum ingot_status status = refuse_stream(device, native, error);
    if (status != INGOT_OK) return status;
    pthread_mutex_lock(&results->pool->lock);
    bool known = find_reader(results, native, &status, error);
    pthread_mutex_unlock(&results->pool->lock);
    if (!known) return status;
    if (atomic_load(&results->outcome) != IG_OUTCOME_OPEN) return answer(results, INGOT_OK, error);
    status = device->api->event_wait_native(device, native, results->end, error);
    return status == INGOT_UNSUPPORTED ? ig_results_wait(results, error) : status; /* what is captured comes later */
}

/* With the lock. */
static enum ingot_status end_reader(struct ig_results *results, struct ig_reader *reader, struct ingot_error *error) {
    struct ig_device *device = results->pool->device;
    if (reader->native == results->native && device->api->native_keeps_order(device, reader->native))
        reader->unmarked = results->pool->any_unmarked = true;
    else
        IG_TRY(mark(device, reader, error));
    reader->ended = true;
    return INGOT_OK;
}

/* False: a reader's end cannot be told. With the lock. */
static bool end_readers(struct ig_results *results) {
    struct ingot_error ignored;
    bool all = true;
    for (struct ig_reader *reader = results->readers; reader; reader = reader->next) {
        if (!reader->native || reader->ended) continue;
        enum ingot_status status = end_reader(results, reader, &ignored);
        if (status == INGOT_UNSUPPORTED) all = false;
        if (status != INGOT_OK) free_reader(reader); /* else the GPU is lost, or the stream is gone with its work */
    }
    return all;
}

/* With the lock. */
static void give_back(struct ig_results *results) {
    if (end_readers(results)) atomic_store_explicit(&results->leased, false, memory_order_release);
}

/* The pool may go with the last owner, so nothing is touched after. */
void ig_results_release(struct ig_results *results) {
    struct ig_results_pool *pool = results->pool;
    pthread_mutex_lock(&pool->lock);
    give_back(results);
    pthread_mutex_unlock(&pool->lock);
    ig_results_pool_drop(pool);
}

enum ingot_status ig_results_release_after(struct ig_results *results, void *native, struct ingot_error *error) {
    struct ig_results_pool *pool = results->pool;
    enum ingot_status status = refuse_stream(pool->device, native, error);
    if (status != INGOT_OK) return status;
    pthread_mutex_lock(&pool->lock);
    struct ig_reader *reader = find_reader(results, native, &status, error);
    if (reader) status = end_reader(results, reader, error);
    if (status == INGOT_OK) give_back(results);
    pthread_mutex_unlock(&pool->lock);
    if (status == INGOT_OK) ig_results_pool_drop(pool);
    return status;
}
