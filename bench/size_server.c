/*
 * An engine that answers streams of sizes, for bench/compare_*.py: size_server THREADS ENGINE [NAME=MIN:OPT:MAX]...
 *
 * Prints a line when the GPU is initialised, reads one, prepares every size of the first axis of the first input, and
 * prints what that took. Each further line that it reads is a stream of such sizes; it enqueues a run for each, waits for
 * the last, and prints the time. Inputs and results stay in the GPU's memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/bench/bench.h"
#include "../cli/cli.h"

enum { MAX_SIZES = 1024, MAX_STREAM = 65536 };

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

static size_t bytes_of(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

static void take_shape(size_t shape) {
    for (size_t i = 0; i < sizes.n_inputs; i++)
        memcpy(inputs[i].dims, sizes.shapes[shape * sizes.n_inputs + i].dims, sizeof inputs[i].dims);
}

static void bind(size_t shape) {
    take_shape(shape);
    for (size_t i = 0; i < sizes.n_inputs; i++)
        must(ingot_context_set_input(context, i, &inputs[i], &error), &error);
}

/* What ingot.h has no function for; resolved where there is a driver. */
static struct {
    int (*retain)(void **out_context, int device);
    int (*push)(void *context);
    int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
    int (*synchronize)(void *stream);
    int (*memory)(size_t *out_free, size_t *out_total);
} driver;

/* Makes GPU 0's context current, which lasts as long as the process. */
static void open_gpu(void) {
    struct ingot_gpu *held;
    must(ingot_gpu_hold(0, &held, &error), &error);
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *primary;
    const char *const names[] = {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemcpyAsync",
                                 "cuStreamSynchronize", "cuMemGetInfo_v2"};
    void **functions[] = {(void **)&driver.retain, (void **)&driver.push, (void **)&driver.copy,
                          (void **)&driver.synchronize, (void **)&driver.memory};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *functions[i] = library ? dlsym(library, names[i]) : NULL;
        if (!*functions[i]) {
            fprintf(stderr, "the driver has no %s\n", names[i]);
            exit(4);
        }
    }
    if (driver.retain(&primary, 0) || driver.push(primary)) {
        fputs("GPU 0 cannot be used\n", stderr);
        exit(4);
    }
}

static size_t gpu_bytes_used(bool gpu) {
    size_t left, total;
    return gpu && driver.memory(&left, &total) == 0 ? total - left : 0;
}

static void upload(void *to, const void *from, size_t bytes) {
    if (driver.copy((uintptr_t)to, (uintptr_t)from, bytes, NULL) == 0 && driver.synchronize(NULL) == 0) return;
    fputs("the inputs cannot be copied to the GPU\n", stderr);
    exit(4);
}

static void place_inputs(bool gpu) {
    enum ingot_memory memory = gpu ? INGOT_CUDA : INGOT_HOST;
    inputs = calloc(sizes.n_inputs, sizeof *inputs);
    for (size_t i = 0; i < sizes.n_inputs; i++) {
        size_t bytes = bytes_of(&sizes.largest[i]);
        inputs[i] = sizes.largest[i];
        inputs[i].memory = memory;
        must(ingot_context_allocate(context, memory, bytes, &inputs[i].data, &error), &error);
        if (gpu)
            upload(inputs[i].data, sizes.largest[i].data, bytes);
        else
            memcpy(inputs[i].data, sizes.largest[i].data, bytes);
    }
    for (size_t i = 0; gpu && i < session.n_outputs; i++)
        must(ingot_context_set_output_in(context, i, INGOT_CUDA, NULL, 0, &error), &error);
}

static int64_t size_of(size_t shape) {
    return sizes.shapes[shape * sizes.n_inputs].dims[0];
}

static int compare_sizes(const void *a, const void *b) {
    int64_t x = size_of(*(const size_t *)a), y = size_of(*(const size_t *)b);
    return (x < y) - (x > y);
}

/* Loads the engine again, as a server would, prepares all sizes, the largest first, and runs the smallest. */
static void prepare_all(const char *path, unsigned threads, bool gpu, size_t *shapes, size_t n) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_plans_info plans;
    options.threads = threads;
    size_t before = gpu_bytes_used(gpu);
    double start = now_ms();
    must(ingot_engine_load(path, NULL, &session.engine, &error), &error);
    double loaded = now_ms();
    must(ingot_context_create(session.engine, &options, &context, &error), &error);
    double created = now_ms();
    place_inputs(gpu);
    qsort(shapes, n, sizeof *shapes, compare_sizes);
    double placed = now_ms();
    for (size_t i = 0; i < n; i++) {
        take_shape(shapes[i]);
        must(ingot_context_prepare(context, inputs, sizes.n_inputs, 0, &error), &error);
    }
    bind(shapes[n - 1]); /* a run, so that nothing is left to come */
    must(ingot_context_run(context, &error), &error);
    double end = now_ms();
    must(ingot_context_plans(context, &plans, &error), &error);
    printf("{\"sizes\": %zu, \"load_ms\": %.3f, \"create_ms\": %.3f, \"prepare_ms\": %.3f, \"ready_ms\": %.3f, "
           "\"captures\": %llu, \"plan_bytes\": %zu, \"gpu_bytes\": %zu}\n",
           n, loaded - start, created - loaded, end - placed, end - placed + created - start,
           (unsigned long long)plans.captures, plans.bytes, gpu_bytes_used(gpu) - before);
}

/* The shapes of a line of sizes; exits at one that is not prepared. */
static size_t read_stream(const char *line, const size_t *shapes, size_t n, size_t *out_stream) {
    size_t count = 0;
    char *end;
    for (int64_t size; size = strtoll(line, &end, 10), end != line && count < MAX_STREAM; line = end) {
        size_t i = 0;
        while (i < n && size_of(shapes[i]) != size)
            i++;
        if (i == n) {
            fprintf(stderr, "size %lld is out of range\n", (long long)size);
            exit(2);
        }
        out_stream[count++] = shapes[i];
    }
    return count;
}

static void answer(const size_t *shapes, size_t n) {
    static size_t stream[MAX_STREAM];
    struct ingot_plans_info before, after;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        size_t count = read_stream(line, shapes, n, stream);
        must(ingot_context_plans(context, &before, &error), &error);
        double start = now_ms();
        for (size_t i = 0; i < count; i++) {
            bind(stream[i]);
            must(ingot_context_enqueue(context, NULL, &error), &error);
        }
        must(ingot_context_wait(context, &error), &error);
        double ms = now_ms() - start;
        must(ingot_context_plans(context, &after, &error), &error);
        printf("{\"ms\": %.6f, \"captures\": %llu}\n", ms / (double)(count ? count : 1),
               (unsigned long long)(after.captures - before.captures));
        fflush(stdout);
    }
    free(line);
}

static void serve(const char *path, unsigned threads, size_t *shapes, size_t n) {
    bool gpu = session_is_gpu(&session);
    ingot_engine_release(session.engine);
    if (gpu) open_gpu();
    puts("{\"bare\": true}");
    fflush(stdout);
    if (getchar() != '\n') exit(2);
    prepare_all(path, threads, gpu, shapes, n);
    fflush(stdout);
    answer(shapes, n);
}

int main(int argc, char **argv) {
    char *end = NULL;
    unsigned threads = argc > 2 ? (unsigned)strtoul(argv[1], &end, 10) : 0;
    if (argc < 3 || *end) {
        fputs("usage: size_server THREADS ENGINE [NAME=MIN:OPT:MAX]...\n", stderr);
        return 2;
    }
    struct option_list shapes = {(const char **)argv + 3, (size_t)(argc - 3)}, none = {0};
    struct build_arguments build = BUILD_ARGUMENTS_DEFAULT;
    struct context_arguments defaults = {0};
    struct stream stream = {&shapes, &defaults, .seed = 7, .data_seed = 1};
    struct tensor_list given = {0};
    struct ingot_tensor *tensors;
    size_t distinct[MAX_SIZES];
    must(session_open(&session, argv[2], &build, &error), &error);
    must(inputs_prepare(session.inputs, session.n_inputs, &none, &none, 1, &given, &tensors, &error), &error);
    if (ingot_engine_symbol_count(session.engine) == 0)
        sizes_init_fixed(&sizes, &session, tensors);
    else
        must(sizes_init_stream(&sizes, &session, tensors, &stream, &given, &error), &error);
    serve(argv[2], threads, distinct, sizes_find_distinct(&sizes, MAX_SIZES, distinct));
    return 0; /* the process ends, and with it everything that it holds */
}
