/*
 * What changing shapes and large inputs cost: shapes_bench ENGINE [--only PART] [NAME=MIN:OPT:MAX]…
 *
 * Draws shapes at random from the ranges of the engine's symbols, or from narrower ones, and prints
 *  - fresh: the first and the second run of shapes never seen, and the time until all are ready;
 *  - order: runs that alternate at random between eight shapes beside the same runs sorted by shape, in turns, with the
 *    captures, and the allocations once all eight are known;
 *  - background: runs of the smallest shape of eight while the others are prepared in the background beside as many runs
 *    without that, in turns;
 *  - pipeline, on a GPU: runs of the largest shape enqueued in a row beside the larger of the GPU's time to compute and to
 *    copy the inputs, both by its own clock.
 * Inputs and results are in pinned memory, and every run is waited for, but for what `pipeline` says.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/bench/bench.h"
#include "../cli/cli.h"

enum { FRESH = 32, SHAPES = 8, RUNS = 2000, ROUNDS = 5, MOST_ROUNDS = 64, ROW = 24 };

static atomic_ullong allocations;

static void *count_alloc(void *user, size_t size, size_t alignment) {
    (void)user;
    atomic_fetch_add(&allocations, 1);
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *memory, size_t size) {
    (void)user;
    (void)size;
    free(memory);
}

static const struct ingot_allocator counting = {NULL, count_alloc, count_release};

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status == INGOT_OK) return;
    fprintf(stderr, "%s: %s\n", ingot_status_name(status), error->message);
    exit(4);
}

static struct ingot_error error;
static struct session session;
static struct sizes sizes;
static struct ingot_context *context;
static struct ingot_tensor *inputs;

static void set_shape(size_t shape) {
    for (size_t i = 0; i < sizes.n_inputs; i++)
        memcpy(inputs[i].dims, sizes.shapes[shape * sizes.n_inputs + i].dims, sizeof inputs[i].dims);
}

static void bind(const struct ingot_tensor *tensors) {
    for (size_t i = 0; i < sizes.n_inputs; i++)
        must(ingot_context_set_input(context, i, &tensors[i], &error), &error);
}

static double run(size_t shape) {
    double start = now_ms();
    set_shape(shape);
    bind(inputs);
    must(ingot_context_run(context, &error), &error);
    return now_ms() - start;
}

static size_t bytes_of(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

static void open_context(bool timing) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.allocator = &counting;
    options.timing = timing;
    must(ingot_context_create(session.engine, &options, &context, &error), &error);
    inputs = calloc(sizes.n_inputs, sizeof *inputs);
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        inputs[i] = sizes.largest[i];
        inputs[i].memory = INGOT_PINNED;
        must(ingot_context_allocate(context, INGOT_PINNED, bytes_of(&inputs[i]), &inputs[i].data, &error), &error);
        memcpy(inputs[i].data, sizes.largest[i].data, bytes_of(&inputs[i]));
    }
}

static void close_context(void) {
    for (size_t i = 0; i < sizes.n_inputs; i++)
        ingot_context_free(context, INGOT_PINNED, inputs[i].data, bytes_of(&sizes.largest[i]));
    ingot_context_destroy(context);
    free(inputs);
}

static int compare_doubles(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *at, size_t n) {
    qsort(at, n, sizeof *at, compare_doubles);
    return at[n / 2];
}

static void measure_fresh(const size_t *shapes, size_t n) {
    double first[FRESH], more[FRESH], all = 0;
    run(shapes[n - 1]); /* memory for transfers and the like; the largest is not known */
    for (size_t i = 0; i + 1 < n; i++) {
        first[i] = run(shapes[i]);
        double second = run(shapes[i]);
        all += first[i];
        more[i] = first[i] - second;
    }
    double middle = median(more, n - 1); /* which sorts them */
    printf("fresh shapes   first run %.3f ms, %.3f ms more than the second (medians of %zu; most %.3f), all ready "
           "after %.1f ms\n",
           median(first, n - 1), middle, n - 1, more[n - 2], all);
}

static double run_order(const size_t *order) {
    double start = now_ms();
    for (size_t i = 0; i < RUNS; i++)
        run(order[i]);
    return (now_ms() - start) / RUNS;
}

static void measure_order(const size_t *shapes, size_t n) {
    static size_t mixed[RUNS], sorted[RUNS];
    double mixed_ms[ROUNDS], sorted_ms[ROUNDS];
    struct ingot_plans_info before, after;
    unsigned state = 1;
    size_t at = 0;
    for (size_t i = 0; i < RUNS; i++) {
        state = state * 1664525u + 1013904223u;
        mixed[i] = shapes[(state >> 8) % n];
    }
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < RUNS; i++) {
            if (mixed[i] == shapes[s]) sorted[at++] = shapes[s];
        }
        run(shapes[s]);
    }
    must(ingot_context_plans(context, &before, &error), &error);
    unsigned long long allocated = atomic_load(&allocations);
    for (int round = 0; round < ROUNDS; round++) {
        mixed_ms[round] = run_order(mixed);
        sorted_ms[round] = run_order(sorted);
    }
    must(ingot_context_plans(context, &after, &error), &error);
    double m = median(mixed_ms, ROUNDS), s = median(sorted_ms, ROUNDS);
    printf("%zu shapes       in random order %.4f ms a run, sorted %.4f, ratio %.3f; %llu captures and %llu "
           "allocations in "
           "%d runs\n",
           n, m, s, m / s, (unsigned long long)(after.captures - before.captures),
           atomic_load(&allocations) - allocated, 2 * ROUNDS * RUNS);
}

/* ---- In the background ------------------------------------------------------------------------------------------- */

static size_t elements_of(size_t shape) {
    size_t elements = 0;
    for (size_t i = 0; i < sizes.n_inputs; i++)
        elements += (size_t)ingot_tensor_elements(&sizes.shapes[shape * sizes.n_inputs + i]);
    return elements;
}

/* The shape with the fewest elements comes first. */
static void put_smallest_first(size_t *shapes, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if (elements_of(shapes[i]) >= elements_of(shapes[0])) continue;
        size_t smaller = shapes[i];
        shapes[i] = shapes[0];
        shapes[0] = smaller;
    }
}

static size_t instances(void) {
    struct ingot_plans_info info;
    must(ingot_context_plans(context, &info, &error), &error);
    return info.instances;
}

/* A run for each shape that is asked for, then more until all are there. Returns how long that took. */
static double run_beside(const size_t *shapes, size_t n, struct samples *samples) {
    double start = now_ms();
    for (size_t i = 1; i < n; i++) {
        set_shape(shapes[i]);
        must(ingot_context_prepare(context, inputs, sizes.n_inputs, INGOT_PREPARE_IN_BACKGROUND, &error), &error);
        samples_add(samples, run(shapes[0]));
    }
    while (instances() < n)
        samples_add(samples, run(shapes[0]));
    return now_ms() - start;
}

static void print_latency(const char *what, struct samples *samples) {
    samples_sort(samples);
    printf("%s p50 %.4f, p99 %.4f, most %.4f ms", what, samples_part(samples, 0.5), samples_part(samples, 0.99),
           samples->at[samples->count - 1]);
}

static void measure_background(size_t *shapes, size_t n) {
    struct samples beside = {0}, quiet = {0};
    double ready[MOST_ROUNDS], start = now_ms();
    size_t rounds = 0;
    put_smallest_first(shapes, n);
    close_context();
    for (; rounds < 3 || (rounds < MOST_ROUNDS && beside.count < RUNS && now_ms() - start < 8000); rounds++) {
        open_context(false);
        for (int i = 0; i < 50; i++)
            run(shapes[0]);
        size_t before = beside.count;
        ready[rounds] = run_beside(shapes, n, &beside);
        for (size_t i = beside.count - before; i > 0; i--)
            samples_add(&quiet, run(shapes[0]));
        close_context();
    }
    print_latency("background     runs beside", &beside);
    print_latency("; without", &quiet);
    printf("; ratio of p99 %.3f (%zu runs each); %zu shapes ready after %.1f ms\n",
           samples_part(&beside, 0.99) / samples_part(&quiet, 0.99), beside.count, n - 1, median(ready, rounds));
    open_context(false);
}

/* ---- In a row ---------------------------------------------------------------------------------------------------- */

static double run_row(const struct ingot_tensor *tensors) {
    bind(tensors);
    for (int i = 0; i < 4; i++)
        must(ingot_context_enqueue(context, NULL, &error), &error);
    must(ingot_context_wait(context, &error), &error);
    double start = now_ms();
    for (int i = 0; i < ROW; i++)
        must(ingot_context_enqueue(context, NULL, &error), &error);
    must(ingot_context_wait(context, &error), &error);
    return (now_ms() - start) / ROW;
}

/* By the GPU's clock, the second of two runs, which the GPU need not wait for. */
static struct ingot_timing clock_runs(void) {
    double copies[ROUNDS], computed[ROUNDS];
    struct ingot_timing timing;
    bind(inputs);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 4; i++)
            must(ingot_context_enqueue(context, NULL, &error), &error);
        must(ingot_context_wait(context, &error), &error);
        must(ingot_context_timing(context, &timing, &error), &error);
        copies[round] = timing.input_ms;
        computed[round] = timing.compute_ms;
    }
    return (struct ingot_timing){.input_ms = median(copies, ROUNDS), .compute_ms = median(computed, ROUNDS)};
}

static void measure_pipeline(const size_t *shapes, size_t n) {
    double ordinary[ROUNDS], pinned[ROUNDS], bytes = 0;
    size_t largest = shapes[0];
    struct ingot_tensor *hosts = calloc(sizes.n_inputs, sizeof *hosts);
    if (!session_is_gpu(&session)) return;
    for (size_t i = 1; i < n; i++)
        largest = elements_of(shapes[i]) > elements_of(largest) ? shapes[i] : largest;
    close_context();
    open_context(true);
    set_shape(largest);
    struct ingot_timing timing = clock_runs();
    close_context();
    open_context(false);
    set_shape(largest);
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        hosts[i] = inputs[i];
        hosts[i].memory = INGOT_HOST;
        hosts[i].data = sizes.largest[i].data;
        bytes += (double)bytes_of(&inputs[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        ordinary[round] = run_row(hosts);
        pinned[round] = run_row(inputs);
    }
    double larger = timing.compute_ms > timing.input_ms ? timing.compute_ms : timing.input_ms;
    double o = median(ordinary, ROUNDS), p = median(pinned, ROUNDS);
    printf("pipeline       %.1f MB of inputs: the GPU computes %.4f ms and copies %.4f ms (%.1f GB/s); in a row from "
           "ordinary memory %.4f ms a run, ratio %.3f, from pinned %.4f ms, ratio %.3f\n",
           bytes / 1e6, timing.compute_ms, timing.input_ms, bytes / timing.input_ms / 1e6, o, o / larger, p,
           p / larger);
    free(hosts);
}

/* ---- Main -------------------------------------------------------------------------------------------------------- */

static bool wanted(const char *only, const char *part) {
    return !only || strcmp(only, part) == 0;
}

int main(int argc, char **argv) {
    if (argc < 2 || (argc > 2 && strcmp(argv[2], "--only") == 0 && argc < 4)) {
        fputs("usage: shapes_bench ENGINE [--only fresh|order|background|pipeline] [NAME=MIN:OPT:MAX]...\n", stderr);
        return 2;
    }
    const char *only = argc > 2 && strcmp(argv[2], "--only") == 0 ? argv[3] : NULL;
    int n_options = only ? 4 : 2;
    struct option_list shapes = {(const char **)argv + n_options, (size_t)(argc - n_options)}, none = {0};
    struct build_arguments build = BUILD_ARGUMENTS_DEFAULT;
    struct context_arguments defaults = {0};
    struct stream stream = {&shapes, &defaults, .seed = 7, .data_seed = 1};
    struct tensor_list given = {0};
    struct ingot_tensor *tensors;
    size_t distinct[FRESH];
    must(session_open(&session, argv[1], &build, &error), &error);
    must(inputs_prepare(session.inputs, session.n_inputs, &none, &none, 1, &given, &tensors, &error), &error);
    must(sizes_init_stream(&sizes, &session, tensors, &stream, &given, &error), &error);
    open_context(false);
    size_t n = sizes_find_distinct(&sizes, FRESH, distinct);
    if (n < 2) {
        fputs("the engine's shapes are fixed\n", stderr);
        return 2;
    }
    if (wanted(only, "fresh")) measure_fresh(distinct, n);
    if (wanted(only, "order")) measure_order(distinct, n < SHAPES ? n : SHAPES);
    if (wanted(only, "background")) measure_background(distinct, n < SHAPES ? n : SHAPES);
    if (wanted(only, "pipeline")) measure_pipeline(distinct, n);
    return 0; /* the process ends, and with it everything that it holds */
}
