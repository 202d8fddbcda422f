/* The thread that captures instances; see preparer.h. */
#include "runtime/context/preparer.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/* The driver instantiates graphs on this stack. */
#define STACK_BYTES ((size_t)1 << 20)
#define SECOND 1000000000u
#define LONGEST_REST ((uint64_t)INT32_MAX * SECOND)

struct ig_preparer {
    struct ig_frame_env env; /* the context's, with this device and stream */
    pthread_t thread;
    bool started;
    const struct ig_stop *stop; /* the context's, which numbers its runs */
    unsigned long long run;     /* the last one when the thread began its last work */
    uint64_t until;             /* it rests, if there was another since */
    pthread_mutex_t lock;       /* of what follows, up to `error` */
    pthread_cond_t changed;
    struct ig_instance *first, **last; /* to be captured, linked by `chain` */
    bool busy, stopping, awaited;
    unsigned rest;
    struct ingot_error error; /* the first failure; status INGOT_OK: none */
    /* Captured, the last one first: the context's thread looks here before every run. */
    _Atomic(struct ig_instance *) done;
};

/* ---- The thread -------------------------------------------------------------------------------------------------- */

static bool rests(const struct ig_preparer *p) {
    return !p->awaited && atomic_load_explicit(&p->stop->run, memory_order_relaxed) != p->run && ig_clock() < p->until;
}

static void sleep_until(struct ig_preparer *p, uint64_t until) {
    const struct timespec time = {.tv_sec = (time_t)(until / SECOND), .tv_nsec = (long)(until % SECOND)};
    pthread_cond_timedwait(&p->changed, &p->lock, &time);
}

/* The next instance to capture; NULL: stop. */
static struct ig_instance *next(struct ig_preparer *p) {
    struct ig_instance *instance = NULL;
    pthread_mutex_lock(&p->lock);
    p->busy = false;
    pthread_cond_broadcast(&p->changed);
    while (!p->stopping && (!p->first || rests(p))) {
        if (p->first)
            sleep_until(p, p->until);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    if (!p->stopping) {
        instance = p->first;
        p->first = instance->chain;
        if (!p->first) p->last = &p->first;
        p->busy = true;
    }
    pthread_mutex_unlock(&p->lock);
    return instance;
}

static void note_failure(struct ig_preparer *p, const struct ingot_error *error) {
    pthread_mutex_lock(&p->lock);
    if (p->error.status == INGOT_OK) p->error = *error;
    pthread_mutex_unlock(&p->lock);
}

static void hand_over(struct ig_preparer *p, struct ig_instance *instance) {
    instance->chain = atomic_load_explicit(&p->done, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&p->done, &instance->chain, instance, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

static void capture(struct ig_preparer *p, struct ig_instance *instance) {
    struct ingot_error error;
    uint64_t begin = ig_clock();
    p->run = atomic_load_explicit(&p->stop->run, memory_order_relaxed);
    enum ingot_status status = ig_instance_capture(instance, &p->env, &error);
    if (status == INGOT_OK) status = ig_instance_make_ready(instance, p->env.device, p->env.stream, &error);
    if (status != INGOT_OK) note_failure(p, &error);
    pthread_mutex_lock(&p->lock);
    uint64_t end = ig_clock();
    p->until = p->rest == UINT_MAX ? LONGEST_REST : end + (end - begin) * p->rest;
    pthread_mutex_unlock(&p->lock);
}

static void *prepare(void *argument) {
    struct ig_preparer *p = argument;
    for (struct ig_instance *instance; (instance = next(p)); hand_over(p, instance))
        capture(p, instance);
    return NULL;
}

/* Blocks all signals in the thread: the application's handlers must not run on it. */
static enum ingot_status start(struct ig_preparer *p, struct ingot_error *error) {
    sigset_t all, old;
    pthread_attr_t attributes;
    int failure = pthread_attr_init(&attributes);
    if (failure == 0) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        failure = pthread_create(&p->thread, &attributes, prepare, p);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attributes);
    }
    p->started = failure == 0;
    return p->started ? INGOT_OK : IG_ERR(error, INGOT_DEVICE, "cannot start the thread that prepares shapes");
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

/* Rests are measured by ig_clock. */
static void init_lock(struct ig_preparer *p) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

enum ingot_status ig_preparer_create(const struct ig_frame_env *env, struct ig_device *device,
                                     struct ig_preparer **out_preparer, struct ingot_error *error) {
    struct ig_preparer *p = ig_allocate(env->allocator, sizeof *p, _Alignof(struct ig_preparer));
    if (!p) {
        ig_device_release(device);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for preparing shapes");
    }
    p->env = *env;
    p->env.device = device;
    p->env.stream = NULL;
    p->stop = env->device->stop;
    p->rest = IG_PREPARER_REST;
    p->last = &p->first;
    init_lock(p);
    enum ingot_status status = device->api->stream_create(device, &p->env.stream, error);
    if (status == INGOT_OK && device->api->list_for) device->api->list_for(device, p->env.stream, env->stream);
    if (status == INGOT_OK) status = start(p, error);
    if (status != INGOT_OK) {
        ig_preparer_destroy(p);
        return status;
    }
    *out_preparer = p;
    return INGOT_OK;
}

static void drop(const struct ig_preparer *p, struct ig_instance *first) {
    for (struct ig_instance *at = first, *chain; at; at = chain) {
        chain = at->chain;
        ig_instance_destroy(at, &p->env);
    }
}

void ig_preparer_stop(struct ig_preparer *p) {
    if (!p || !p->started) return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->started = false;
    drop(p, p->first);
    drop(p, ig_preparer_take(p));
}

void ig_preparer_destroy(struct ig_preparer *p) {
    if (!p) return;
    struct ig_device *device = p->env.device;
    ig_preparer_stop(p);
    if (p->env.stream) device->api->stream_destroy(device, p->env.stream);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    ig_release(p->env.allocator, p, sizeof *p);
    ig_device_release(device);
}

/* ---- The context's side ------------------------------------------------------------------------------------------ */

void ig_preparer_set_rest(struct ig_preparer *p, unsigned rest) {
    pthread_mutex_lock(&p->lock);
    p->rest = rest;
    pthread_mutex_unlock(&p->lock);
}

void ig_preparer_add(struct ig_preparer *p, struct ig_instance *instance) {
    instance->chain = NULL;
    pthread_mutex_lock(&p->lock);
    *p->last = instance;
    p->last = &instance->chain;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

struct ig_instance *ig_preparer_take(struct ig_preparer *p) {
    if (!atomic_load_explicit(&p->done, memory_order_relaxed)) return NULL;
    return atomic_exchange_explicit(&p->done, NULL, memory_order_acquire);
}

enum ingot_status ig_preparer_wait(struct ig_preparer *p, struct ingot_error *error) {
    pthread_mutex_lock(&p->lock);
    p->awaited = true;
    pthread_cond_broadcast(&p->changed);
    while (p->first || p->busy)
        pthread_cond_wait(&p->changed, &p->lock);
    p->awaited = false;
    enum ingot_status status = p->error.status;
    if (status != INGOT_OK && error) *error = p->error;
    p->error.status = INGOT_OK;
    pthread_mutex_unlock(&p->lock);
    return status;
}
