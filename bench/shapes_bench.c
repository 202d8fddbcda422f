/*
 * What changing shapes cost: shapes_bench ENGINE [NAME=MIN:OPT:MAX]…
 *
 * Draws shapes at random from the ranges of the engine's symbols, or from narrower ones, and prints
 *  - the first and the second run of shapes never seen, and the time until all are ready;
 *  - runs that alternate at random between eight shapes beside the same runs sorted by shape, in turns, with the
 *    captures, and the allocations once all eight are known.
 * Inputs and results are in pinned memory, and every run is waited for.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/bench/bench.h"
#include "../cli/cli.h"

enum { FRESH = 32, SHAPES = 8, RUNS = 2000, ROUNDS = 5 };

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

static double run(size_t shape) {
    double start = now_ms();
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        memcpy(inputs[i].dims, sizes.shapes[shape * sizes.n_inputs + i].dims, sizeof inputs[i].dims);
        must(ingot_context_set_input(context, i, &inputs[i], &error), &error);
    }
    must(ingot_context_run(context, &error), &error);
    return now_ms() - start;
}

static void open_context(void) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.allocator = &counting;
    must(ingot_context_create(session.engine, &options, &context, &error), &error);
    inputs = calloc(sizes.n_inputs, sizeof *inputs);
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        inputs[i] = sizes.largest[i];
        inputs[i].memory = INGOT_PINNED;
        size_t bytes = (size_t)ingot_tensor_elements(&inputs[i]) * ingot_dtype_size(inputs[i].dtype);
        must(ingot_context_allocate(context, INGOT_PINNED, bytes, &inputs[i].data, &error), &error);
        memcpy(inputs[i].data, sizes.largest[i].data, bytes);
    }
}

static bool same_shape(size_t a, size_t b) {
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        const struct ingot_tensor *x = &sizes.shapes[a * sizes.n_inputs + i],
                                  *y = &sizes.shapes[b * sizes.n_inputs + i];
        if (memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0) return false;
    }
    return true;
}

/* The first distinct shapes of the stream. */
static size_t find_distinct(size_t *out, size_t most) {
    size_t n = 0;
    for (size_t s = 0; s < sizes.count && n < most; s++) {
        bool known = false;
        for (size_t i = 0; i < n && !known; i++)
            known = same_shape(out[i], s);
        if (!known) out[n++] = s;
    }
    return n;
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
    printf("fresh shapes   first run %.3f ms, %.3f ms more than the second (medians of %zu; most %.3f), all ready "
           "after %.1f ms\n",
           median(first, n - 1), median(more, n - 1), n - 1, more[n - 2], all);
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

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: shapes_bench ENGINE [NAME=MIN:OPT:MAX]...\n", stderr);
        return 2;
    }
    struct option_list shapes = {(const char **)argv + 2, (size_t)argc - 2}, none = {0};
    struct build_arguments build = BUILD_ARGUMENTS_DEFAULT;
    struct tensor_list given = {0};
    struct ingot_tensor *tensors;
    size_t distinct[FRESH];
    must(session_open(&session, argv[1], &build, &error), &error);
    must(inputs_prepare(session.inputs, session.n_inputs, &none, &none, 1, &given, &tensors, &error), &error);
    must(sizes_init_stream(&sizes, &session, tensors, &shapes, 7, 1, &given, &error), &error);
    open_context();
    size_t n = find_distinct(distinct, FRESH);
    if (n < 2) {
        fputs("the engine's shapes are fixed\n", stderr);
        return 2;
    }
    measure_fresh(distinct, n);
    measure_order(distinct, n < SHAPES ? n : SHAPES);
    return 0; /* the process ends, and with it everything that it holds */
}
