/* Activation memory, of one context or shared; see activations.h. */
#include "runtime/frame/activations.h"

#include <pthread.h>

#include "base/memory.h"
#include "runtime/context/transfer.h"

/* A thread that waits for its turn. */
struct waiter {
    pthread_cond_t changed;
    bool granted;
    struct waiter *next;
};

struct ig_activations {
    struct ig_activations_config config;
    void *memory; /* NULL: none now */
    size_t size;
    /* Only if it is shared: */
    struct ig_stream *stream; /* that memory is released on */
    struct ig_event *event;   /* behind the last use; NULL where the device is the host */
    bool marked;              /* the event has been recorded since the memory was allocated */
    struct ig_execution last; /* the last use; its members are only compared */
    size_t wanted;            /* the most that executions have needed since the last trim */
    struct ingot_arena_info info;
    /* All of the above belongs to the thread whose turn it is. Turns are taken in the order of asking: a mutex alone
     * would let a thread that runs again at once keep the others out. */
    pthread_mutex_t lock; /* of the following; held for a moment only */
    bool taken;
    struct waiter *line, **line_end; /* those who have asked, in that order */
    struct ingot_arena_info shown;   /* a copy of `info`, and the number of contexts */
};

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

static void wait_in_line(struct ig_activations *a) {
    struct waiter self = {.changed = PTHREAD_COND_INITIALIZER};
    *a->line_end = &self;
    a->line_end = &self.next;
    while (!self.granted)
        pthread_cond_wait(&self.changed, &a->lock);
    pthread_cond_destroy(&self.changed);
}

static void take_turn(struct ig_activations *a) {
    if (!a->config.shared) return;
    pthread_mutex_lock(&a->lock);
    if (a->taken) wait_in_line(a);
    a->taken = true;
    pthread_mutex_unlock(&a->lock);
}

/* To the first in line: it stays taken. */
static void pass_turn(struct ig_activations *a) {
    if (!a->config.shared) return;
    pthread_mutex_lock(&a->lock);
    a->info.contexts = a->shown.contexts;
    a->shown = a->info;
    struct waiter *next = a->line;
    a->taken = next != NULL;
    if (next) {
        a->line = next->next;
        if (!a->line) a->line_end = &a->line;
        next->granted = true;
        pthread_cond_signal(&next->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

static enum ingot_status init(struct ig_activations *a, struct ingot_error *error) {
    struct ig_device *device = a->config.device;
    if (!a->config.shared || device->host_memory) return INGOT_OK;
    IG_TRY(device->api->stream_create(device, &a->stream, error));
    return device->api->event_create(device, false, &a->event, error);
}

enum ingot_status ig_activations_create(const struct ig_activations_config *config,
                                        struct ig_activations **out_activations, struct ingot_error *error) {
    struct ig_activations *a = ig_allocate(config->allocator, sizeof *a, _Alignof(struct ig_activations));
    if (!a) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an arena");
    a->config = *config;
    a->memory = config->data;
    a->size = config->data ? config->size : 0;
    a->info.bytes = a->info.peak_bytes = a->size;
    a->shown = a->info;
    pthread_mutex_init(&a->lock, NULL);
    a->line_end = &a->line;
    enum ingot_status status = init(a, error);
    if (status != INGOT_OK)
        ig_activations_destroy(a);
    else
        *out_activations = a;
    return status;
}

/* Releases the memory behind its last user; where the device cannot order this, the host waits. */
static void drop(struct ig_activations *a) {
    struct ig_device *device = a->config.device;
    struct ingot_error ignored;
    if (a->marked && device->api->event_wait(device, a->stream, a->event, &ignored) != INGOT_OK)
        (void)device->api->event_sync(device, a->event, &ignored);
    if (a->memory && !a->config.data) device->api->release(device, a->memory, a->size);
    a->memory = NULL;
    a->size = a->info.bytes = 0;
    a->marked = false; /* new memory has had no user */
}

void ig_activations_destroy(struct ig_activations *a) {
    if (!a) return;
    struct ig_device *device = a->config.device;
    drop(a);
    if (a->event) device->api->event_destroy(device, a->event);
    if (a->stream) device->api->stream_destroy(device, a->stream);
    pthread_mutex_destroy(&a->lock);
    ig_release(a->config.allocator, a, sizeof *a);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static enum ingot_status refuse(size_t needed, size_t limit, const char *what, struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "%zu bytes needed, %s %zu: %zu bytes are missing", needed, what, limit,
                  needed - limit);
}

/* Shared memory gets exactly the size of its largest user. The old memory goes first, so that both need not fit; the
 * allocation waits until it has gone. */
static enum ingot_status grow_shared(struct ig_activations *a, size_t needed, struct ingot_error *error) {
    struct ig_device *device = a->config.device;
    drop(a);
    IG_TRY(device->api->allocate(device, needed, &a->memory, error));
    a->size = a->info.bytes = needed;
    if (needed > a->info.peak_bytes) a->info.peak_bytes = needed;
    return INGOT_OK;
}

static enum ingot_status reserve(struct ig_activations *a, size_t needed, struct ingot_error *error) {
    const struct ig_activations_config *config = &a->config;
    if (needed > a->size && config->data)
        return refuse(needed, config->size, "the memory given for the arena has", error);
    if (needed > a->size && config->max_bytes && needed > config->max_bytes)
        return refuse(needed, config->max_bytes, "the arena's bound is", error);
    if (!config->shared) return ig_device_grow(config->device, false, needed, &a->memory, &a->size, error);
    if (needed > a->size) IG_TRY(grow_shared(a, needed, error));
    if (needed > a->wanted) a->wanted = needed;
    return INGOT_OK;
}

/* ---- Executions -------------------------------------------------------------------------------------------------- */

enum ingot_status ig_activations_reserve(struct ig_activations *a, size_t needed, char **out_base,
                                         struct ingot_error *error) {
    take_turn(a);
    enum ingot_status status = reserve(a, needed, error);
    if (status == INGOT_OK) *out_base = a->memory;
    pass_turn(a);
    return status;
}

/* Orders the execution's stream behind the last user. */
static enum ingot_status follow(struct ig_activations *a, const struct ig_execution *execution,
                                struct ingot_error *error) {
    const struct ig_device_api *api = execution->device->api;
    if (a->marked && a->last.order != execution->order && !a->config.unordered)
        IG_TRY(api->event_wait(execution->device, execution->stream, a->event, error));
    a->info.executions++;
    if (a->last.context && a->last.context != execution->context) a->info.followed++;
    return INGOT_OK;
}

enum ingot_status ig_activations_begin(struct ig_activations *a, const struct ig_execution *execution, size_t needed,
                                       char **out_base, struct ingot_error *error) {
    take_turn(a);
    enum ingot_status status = reserve(a, needed, error);
    if (status == INGOT_OK && a->config.shared) status = follow(a, execution, error);
    if (status == INGOT_OK) *out_base = a->memory;
    if (status != INGOT_OK || a->config.unordered) pass_turn(a);
    return status;
}

/* Without an event behind this use, the next user could not wait for it: the host does. */
static enum ingot_status mark(struct ig_activations *a, const struct ig_execution *execution,
                              struct ingot_error *error) {
    const struct ig_device_api *api = execution->device->api;
    struct ingot_error ignored;
    enum ingot_status status = api->event_record(execution->device, execution->stream, a->event, error);
    if (status != INGOT_OK) (void)api->stream_wait(execution->device, execution->stream, &ignored);
    a->marked = status == INGOT_OK;
    return status;
}

enum ingot_status ig_activations_end(struct ig_activations *a, const struct ig_execution *execution,
                                     struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    if (!a->config.shared) return INGOT_OK;
    if (a->config.unordered) take_turn(a);
    if (a->event) status = mark(a, execution, error);
    a->last = *execution;
    pass_turn(a);
    return status;
}

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

void ig_activations_join(struct ig_activations *a) {
    pthread_mutex_lock(&a->lock);
    a->shown.contexts++;
    pthread_mutex_unlock(&a->lock);
}

void ig_activations_leave(struct ig_activations *a) {
    pthread_mutex_lock(&a->lock);
    a->shown.contexts--;
    pthread_mutex_unlock(&a->lock);
}

void ig_activations_trim(struct ig_activations *a) {
    struct ingot_error ignored;
    take_turn(a);
    size_t wanted = a->wanted;
    a->wanted = 0;
    if (wanted < a->size && !a->config.data) {
        drop(a);
        if (wanted) (void)grow_shared(a, wanted, &ignored); /* without it, the next execution allocates */
    }
    pass_turn(a);
}

void ig_activations_describe(struct ig_activations *a, struct ingot_arena_info *out_info) {
    pthread_mutex_lock(&a->lock);
    *out_info = a->shown;
    pthread_mutex_unlock(&a->lock);
}
