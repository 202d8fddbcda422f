/* ingot bench --contexts N --inflight M --stream-of-sizes SEED: what a server does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* One context, its thread and its copy of the inputs. */
struct lane {
    pthread_t thread;
    struct crew *crew;
    struct ingot_context *context;
    struct ingot_tensor *inputs; /* in memory of the context; with the sizes of the next run */
    size_t next;                 /* in the stream of sizes */
    struct taker taker;
    double *began; /* by run in flight */
    /* What it measured. */
    struct samples latency;
    double start, end, samples;
    enum ingot_status status;
    struct ingot_error error;
};

struct crew {
    const struct bench_arguments *arguments;
    const struct sizes *sizes;
    const struct buckets *buckets;
    const struct outputs *outputs;
    struct lane *lanes;
    bool waits; /* is a run over only after a wait? */
    atomic_bool failed;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_warm;
    bool go;
};

static size_t bytes_of(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

/* ---- One context */

static enum ingot_status bind_next(struct lane *lane, struct ingot_error *error) {
    const struct sizes *sizes = lane->crew->sizes;
    if (sizes->count == 1) return INGOT_OK; /* bound once and for all */
    const struct ingot_tensor *shapes = &sizes->shapes[lane->next * sizes->n_inputs];
    lane->next = (lane->next + 1) % sizes->count;
    for (size_t i = 0; i < sizes->n_inputs; i++) {
        memcpy(lane->inputs[i].dims, shapes[i].dims, sizeof shapes[i].dims);
        CLI_TRY(ingot_context_set_input(lane->context, i, &lane->inputs[i], error));
    }
    return INGOT_OK;
}

/* Enqueues runs, then waits for them. On the CPU each is over when it is enqueued. */
static enum ingot_status run_row(struct lane *lane, bool measure, struct ingot_error *error) {
    const struct crew *crew = lane->crew;
    unsigned n = crew->arguments->inflight;
    for (unsigned i = 0; i < n; i++) {
        lane->began[i] = now_ms();
        CLI_TRY(bind_next(lane, error));
        CLI_TRY(n > 1 ? taker_enqueue(&lane->taker, error) : ingot_context_enqueue(lane->context, NULL, error));
        if (measure && crew->sizes->has_samples) lane->samples += (double)lane->inputs[0].dims[0];
        if (measure && !crew->waits) samples_add(&lane->latency, now_ms() - lane->began[i]);
    }
    CLI_TRY(ingot_context_wait(lane->context, error));
    CLI_TRY(taker_take(&lane->taker, error));
    double now = now_ms();
    for (unsigned i = 0; i < n && measure && crew->waits; i++)
        samples_add(&lane->latency, now - lane->began[i]);
    return INGOT_OK;
}

static enum ingot_status warm_up(struct lane *lane) {
    const struct bench_arguments *a = lane->crew->arguments;
    double start = now_ms();
    for (int rows = 0; rows < 3 || now_ms() - start < 100 * a->seconds; rows++)
        CLI_TRY(run_row(lane, false, &lane->error));
    return INGOT_OK;
}

/* All begin at once, when all are warm; where one has failed, none does. */
static void await_others(struct crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->n_warm++;
    pthread_cond_broadcast(&crew->changed);
    while (!crew->go)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

static void *lane_main(void *argument) {
    struct lane *lane = argument;
    struct crew *crew = lane->crew;
    lane->status = warm_up(lane);
    if (lane->status != INGOT_OK) atomic_store(&crew->failed, true);
    await_others(crew);
    lane->start = lane->end = now_ms();
    double until = lane->start + 1e3 * crew->arguments->seconds;
    for (size_t rows = 0; !atomic_load(&crew->failed) && (rows < 1 || lane->end < until); rows++) {
        lane->status = run_row(lane, true, &lane->error);
        if (lane->status != INGOT_OK) atomic_store(&crew->failed, true);
        lane->end = now_ms();
    }
    return NULL;
}

/* ---- All of them */

static enum ingot_status lane_init(struct lane *lane, const struct session *session, struct ingot_error *error) {
    const struct sizes *sizes = lane->crew->sizes;
    const struct bench_arguments *a = lane->crew->arguments;
    lane->inputs = cli_alloc(sizes->n_inputs, sizeof *lane->inputs);
    lane->began = cli_alloc(a->inflight, sizeof *lane->began);
    CLI_TRY(session_context_create(session, &a->context, CLOCK_NONE, &lane->context, error));
    CLI_TRY(buckets_set(lane->crew->buckets, lane->context, error));
    for (size_t i = 0; i < sizes->n_inputs; i++) {
        struct ingot_tensor pinned = sizes->largest[i];
        pinned.memory = INGOT_PINNED;
        CLI_TRY(ingot_context_allocate(lane->context, INGOT_PINNED, bytes_of(&pinned), &pinned.data, error));
        memcpy(pinned.data, sizes->largest[i].data, bytes_of(&pinned));
        lane->inputs[i] = pinned;
        CLI_TRY(ingot_context_set_input(lane->context, i, &pinned, error));
    }
    return taker_init(&lane->taker, lane->crew->outputs, lane->context, INGOT_PINNED, a->inflight, error);
}

static void lane_deinit(struct lane *lane) {
    const struct sizes *sizes = lane->crew->sizes;
    if (lane->context) ingot_context_wait(lane->context, NULL); /* a failed lane may have runs in flight */
    taker_deinit(&lane->taker);
    for (size_t i = 0; lane->inputs && i < sizes->n_inputs; i++) {
        if (lane->inputs[i].data)
            ingot_context_free(lane->context, INGOT_PINNED, lane->inputs[i].data, bytes_of(&sizes->largest[i]));
    }
    if (lane->context) ingot_context_destroy(lane->context);
    free(lane->inputs);
    free(lane->began);
    free(lane->latency.at);
}

static enum ingot_status run_all(struct crew *crew, struct ingot_error *error) {
    size_t n = crew->arguments->contexts, n_started = 0;
    enum ingot_status status = INGOT_OK;
    for (; n_started < n && status == INGOT_OK; n_started += status == INGOT_OK) {
        struct lane *lane = &crew->lanes[n_started];
        int failure = pthread_create(&lane->thread, NULL, lane_main, lane);
        if (failure)
            status = cli_error(error, INGOT_DEVICE, "cannot start thread %zu of %zu: %s", n_started + 1, n,
                               strerror(failure));
    }
    if (status != INGOT_OK) atomic_store(&crew->failed, true);
    pthread_mutex_lock(&crew->lock);
    while (crew->n_warm < n_started)
        pthread_cond_wait(&crew->changed, &crew->lock);
    crew->go = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < n_started; i++) {
        pthread_join(crew->lanes[i].thread, NULL);
        if (status != INGOT_OK || crew->lanes[i].status == INGOT_OK) continue;
        status = crew->lanes[i].status;
        if (error) *error = crew->lanes[i].error;
    }
    return status;
}

/* The memory that one context needs for the largest sizes. */
static enum ingot_status take_memory(struct lane *lane, struct measurement *m, struct ingot_error *error) {
    for (size_t i = 0; i < lane->crew->sizes->n_inputs; i++) {
        memcpy(lane->inputs[i].dims, lane->crew->sizes->largest[i].dims, sizeof lane->inputs[i].dims);
        CLI_TRY(ingot_context_set_input(lane->context, i, &lane->inputs[i], error));
    }
    return ingot_context_memory(lane->context, &m->memory, error);
}

static void take_results(const struct crew *crew, struct measurement *m) {
    struct contexts_measurement *c = &m->contexts;
    double start = crew->lanes[0].start, end = crew->lanes[0].end;
    c->least = SIZE_MAX;
    for (size_t i = 0; i < crew->arguments->contexts; i++) {
        const struct lane *lane = &crew->lanes[i];
        for (size_t k = 0; k < lane->latency.count; k++)
            samples_add(&m->latency, lane->latency.at[k]);
        if (lane->latency.count < c->least) c->least = lane->latency.count;
        if (lane->latency.count > c->most) c->most = lane->latency.count;
        if (lane->start < start) start = lane->start;
        if (lane->end > end) end = lane->end;
        c->samples += lane->samples;
    }
    m->total_ms = end - start;
    samples_sort(&m->latency);
}

static enum ingot_status measure(struct crew *crew, const struct session *session, struct measurement *m,
                                 struct ingot_error *error) {
    size_t n = crew->arguments->contexts;
    for (size_t i = 0; i < n; i++) {
        crew->lanes[i].crew = crew;
        crew->lanes[i].next = i * crew->sizes->count / n; /* each from another place of the stream */
        CLI_TRY(lane_init(&crew->lanes[i], session, error));
    }
    CLI_TRY(run_all(crew, error));
    take_results(crew, m);
    for (size_t i = 0; i < n; i++)
        CLI_TRY(buckets_add(&m->contexts.buckets, crew->lanes[i].context, error));
    m->peak_bytes = peak_bytes();
    return take_memory(&crew->lanes[0], m, error);
}

enum ingot_status bench_contexts(const struct bench_arguments *a, struct session *session,
                                 const struct ingot_tensor *tensors, struct tensor_list *given, struct measurement *m,
                                 struct ingot_error *error) {
    struct sizes *sizes = &m->contexts.sizes;
    struct outputs outputs;
    struct stream stream = {&a->build.shapes, &a->context, a->stream.value, a->seed};
    if (a->stream.given)
        CLI_TRY(sizes_init_stream(sizes, session, tensors, &stream, given, error));
    else
        sizes_init_fixed(sizes, session, tensors);
    CLI_TRY(buckets_init(&m->contexts.buckets, a->buckets, session, sizes, error));
    enum ingot_status status = outputs_init(&outputs, a->mode, session, sizes, error);
    struct crew crew = {.arguments = a,
                        .sizes = sizes,
                        .buckets = &m->contexts.buckets,
                        .outputs = &outputs,
                        .lanes = cli_alloc(a->contexts, sizeof *crew.lanes),
                        .waits = session_is_gpu(session),
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER};
    if (status == INGOT_OK) status = measure(&crew, session, m, error);
    for (size_t i = 0; i < a->contexts; i++) {
        if (crew.lanes[i].crew) lane_deinit(&crew.lanes[i]);
    }
    free(crew.lanes);
    outputs_deinit(&outputs);
    return status;
}
