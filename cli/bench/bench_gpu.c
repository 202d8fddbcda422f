/* ingot bench on a GPU: host time and GPU time; also samples, for all devices. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* ---- Samples */

bool samples_make_room(struct samples *samples) {
    if (samples->count < samples->capacity) return false;
    samples->capacity = samples->capacity ? 2 * samples->capacity : 1024;
    samples->at = cli_resize(samples->at, samples->capacity, sizeof *samples->at);
    return true;
}

void samples_add(struct samples *samples, double value) {
    samples_make_room(samples);
    samples->at[samples->count++] = value;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(struct samples *samples) {
    qsort(samples->at, samples->count, sizeof *samples->at, by_value);
}

double samples_part(const struct samples *samples, double part) {
    return samples->at[(size_t)(part * (double)(samples->count - 1) + 0.5)];
}

/* ---- Host time */

/* Runs enqueued per wait. */
#define ROW 8

static size_t bytes_of(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

static enum ingot_status pin_inputs(struct session *session, const struct ingot_tensor *tensors,
                                    struct ingot_tensor *out_pinned, struct ingot_error *error) {
    for (size_t i = 0; i < session->n_inputs; i++) {
        struct ingot_tensor pinned = tensors[i];
        pinned.memory = INGOT_PINNED;
        CLI_TRY(ingot_context_allocate(session->context, INGOT_PINNED, bytes_of(&pinned), &pinned.data, error));
        memcpy(pinned.data, tensors[i].data, bytes_of(&pinned));
        out_pinned[i] = pinned;
    }
    return inputs_bind(session, out_pinned, error);
}

static void unpin_inputs(struct session *session, const struct ingot_tensor *pinned) {
    for (size_t i = 0; i < session->n_inputs; i++) {
        if (pinned[i].data) ingot_context_free(session->context, INGOT_PINNED, pinned[i].data, bytes_of(&pinned[i]));
    }
}

/* True until one measurement has had its share of the time. */
static bool goes_on(const struct bench_arguments *a, double start, int runs) {
    return runs < 20 || (runs < 10000 && now_ms() - start < 200 * a->seconds);
}

/* Waits for each run: every enqueue finds the GPU idle. */
static enum ingot_status run_singly(const struct bench_arguments *a, struct session *session, struct taker *taker,
                                    struct gpu_measurement *out_gpu, struct ingot_error *error) {
    double start = now_ms();
    CLI_TRY(ingot_context_run(session->context, error)); /* patches the changed addresses, outside the measurement */
    CLI_TRY(taker_take(taker, error));
    for (int runs = 0; goes_on(a, start, runs); runs++) {
        double before = now_ms();
        CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
        double between = now_ms();
        CLI_TRY(ingot_context_wait(session->context, error));
        CLI_TRY(taker_take(taker, error));
        samples_add(&out_gpu->pinned, now_ms() - before);
        samples_add(&out_gpu->idle, 1e3 * (between - before));
    }
    samples_sort(&out_gpu->pinned);
    samples_sort(&out_gpu->idle);
    return INGOT_OK;
}

/* Enqueues several runs per wait, as a server with pending work does; the last one's results are taken. */
static enum ingot_status run_in_rows(const struct bench_arguments *a, struct session *session, struct taker *taker,
                                     struct gpu_measurement *out_gpu, struct ingot_error *error) {
    double start = now_ms();
    for (int runs = 0; goes_on(a, start, runs); runs += ROW) {
        for (int i = 0; i < ROW; i++) {
            double before = now_ms();
            CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
            if (i > 0) samples_add(i > 1 ? &out_gpu->row : &out_gpu->enqueue, 1e3 * (now_ms() - before));
        }
        CLI_TRY(ingot_context_wait(session->context, error));
        CLI_TRY(taker_take(taker, error));
    }
    samples_sort(&out_gpu->enqueue);
    samples_sort(&out_gpu->row);
    return INGOT_OK;
}

/* No wait per run: with inputs in host memory, the library itself keeps at most two runs in flight. */
static enum ingot_status run_in_a_row(const struct bench_arguments *a, struct session *session,
                                      struct gpu_measurement *out_gpu, struct ingot_error *error) {
    int runs = 0;
    for (int i = 0; i < 3; i++)
        CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
    CLI_TRY(ingot_context_wait(session->context, error));
    double start = now_ms();
    for (; goes_on(a, start, runs); runs++)
        CLI_TRY(ingot_context_enqueue(session->context, NULL, error));
    CLI_TRY(ingot_context_wait(session->context, error));
    out_gpu->row_per_s = 1e3 * runs / (now_ms() - start);
    return INGOT_OK;
}

static enum ingot_status measure_pinned(const struct bench_arguments *a, struct session *session,
                                        const struct outputs *outputs, struct gpu_measurement *out_gpu,
                                        struct ingot_error *error) {
    struct taker taker;
    enum ingot_status status = taker_init(&taker, outputs, session->context, INGOT_PINNED, 1, error);
    if (status == INGOT_OK) status = run_singly(a, session, &taker, out_gpu, error);
    if (status == INGOT_OK) status = run_in_rows(a, session, &taker, out_gpu, error);
    taker_deinit(&taker);
    return status;
}

static enum ingot_status measure_ordinary(const struct bench_arguments *a, struct session *session,
                                          const struct outputs *outputs, struct gpu_measurement *out_gpu,
                                          struct ingot_error *error) {
    struct taker taker;
    enum ingot_status status = taker_init(&taker, outputs, session->context, INGOT_HOST, 1, error);
    if (status == INGOT_OK) status = run_in_a_row(a, session, out_gpu, error);
    taker_deinit(&taker);
    return status;
}

enum ingot_status bench_enqueue(const struct bench_arguments *a, struct session *session,
                                const struct ingot_tensor *tensors, const struct outputs *outputs,
                                struct gpu_measurement *out_gpu, struct ingot_error *error) {
    struct ingot_tensor *pinned = cli_alloc(session->n_inputs, sizeof *pinned);
    enum ingot_status status = pin_inputs(session, tensors, pinned, error);
    if (status == INGOT_OK) status = measure_pinned(a, session, outputs, out_gpu, error);
    if (status == INGOT_OK) status = inputs_bind(session, tensors, error);
    if (status == INGOT_OK) status = measure_ordinary(a, session, outputs, out_gpu, error);
    unpin_inputs(session, pinned);
    free(pinned);
    return status;
}

/* ---- GPU time */

/* Measures the second of two runs enqueued back to back, so that the GPU does not wait for the host. */
enum ingot_status bench_clock(const struct bench_arguments *a, struct session *session, struct gpu_measurement *out_gpu,
                              struct ingot_error *error) {
    struct samples inputs = {0}, outputs = {0};
    struct ingot_timing timing;
    enum ingot_status status = INGOT_OK;
    for (int i = 0; i < 3 && status == INGOT_OK; i++)
        status = ingot_context_run(session->context, error);
    double start = now_ms();
    for (int runs = 0; status == INGOT_OK && (runs < 10 || now_ms() - start < 500 * a->seconds); runs++) {
        for (int i = 0; i < 2 && status == INGOT_OK; i++)
            status = ingot_context_enqueue(session->context, NULL, error);
        if (status == INGOT_OK) status = ingot_context_wait(session->context, error);
        if (status == INGOT_OK) status = ingot_context_timing(session->context, &timing, error);
        if (status != INGOT_OK) break;
        samples_add(&inputs, timing.input_ms);
        samples_add(&out_gpu->compute, timing.compute_ms);
        samples_add(&outputs, timing.output_ms);
    }
    if (status == INGOT_OK) {
        samples_sort(&out_gpu->compute);
        samples_sort(&inputs);
        samples_sort(&outputs);
        out_gpu->input_ms = samples_part(&inputs, 0.5);
        out_gpu->output_ms = samples_part(&outputs, 0.5);
    }
    free(inputs.at);
    free(outputs.at);
    return status;
}
