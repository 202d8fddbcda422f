/*
 * A server's hot path: batches of 1 to 64 pictures come from many threads. Every thread has a context of one engine; all
 * contexts share one arena, so that they need the activation memory of one run; results are leased, so that they stay
 * while the next run is under way. On a GPU every batch size is a captured graph after its first run.
 *
 *     example-serving [MODEL [cpu|cuda]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingot/ingot.h"

enum { THREADS = 4, RUNS = 500, LARGEST = 64, PIXELS = 64, CLASSES = 10 };

static const char levels[] = " .:-=+*#@";
static const char picture[8][9] = {
    "  #@*-  ", "  **#*  ", "    +=  ", "   +#.  ", "  =@@*  ", "  =:=@. ", " :#-+#  ", " .*@#-  ",
};
static float pictures[LARGEST][PIXELS];

static struct ingot_engine *engine;
static struct ingot_arena *arena;
static atomic_ulong pictures_done, pictures_wrong;

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status == INGOT_OK) return;
    fprintf(stderr, "%s: %s\n", ingot_status_name(status), error->message);
    exit(1);
}

/* How many pictures of a batch are not seen as a 3. */
static unsigned long count_wrong(const struct ingot_tensor *output) {
    const float *p = output->data;
    unsigned long wrong = 0;
    for (int64_t b = 0; b < output->dims[0]; b++, p += CLASSES) {
        int best = 0;
        for (int i = 1; i < CLASSES; i++)
            best = p[i] > p[best] ? i : best;
        wrong += best != 3;
    }
    return wrong;
}

/* Reads the results of a run while the next one is under way. */
static void finish(struct ingot_lease *lease) {
    struct ingot_error error;
    struct ingot_tensor output;
    if (!lease) return;
    must(ingot_lease_wait(lease, &error), &error);
    must(ingot_lease_output(lease, 0, &output, &error), &error);
    atomic_fetch_add(&pictures_done, (unsigned long)output.dims[0]);
    atomic_fetch_add(&pictures_wrong, count_wrong(&output));
    ingot_lease_release(lease);
}

static void *serve(void *argument) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    struct ingot_error error;
    struct ingot_lease *last = NULL, *lease;
    unsigned state = *(const unsigned *)argument;
    options.arena = arena;
    must(ingot_context_create(engine, &options, &context, &error), &error);
    for (int i = 0; i < RUNS; i++) {
        state = state * 1664525u + 1013904223u;
        int64_t batch = 1 + (state >> 16) % LARGEST;
        struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, pictures, INGOT_HOST};
        must(ingot_context_set_input(context, 0, &input, &error), &error);
        must(ingot_context_enqueue(context, NULL, &error), &error);
        must(ingot_context_lease(context, &lease, &error), &error);
        finish(last);
        last = lease;
    }
    ingot_context_destroy(context); /* the last lease outlives it */
    finish(last);
    return NULL;
}

static void load(const char *path, const char *target) {
    struct ingot_error error;
    struct ingot_model *model;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    const struct ingot_shape_spec batch = {"batch", "1:8:64"}; /* least, usual and largest */
    char *copy;
    void *data;
    size_t size;
    options.target = target;
    options.shapes = &batch;
    options.n_shapes = 1;
    must(ingot_model_load(path, NULL, &model, &error), &error);
    must(ingot_model_build_memory(model, &options, &data, &size, &error), &error);
    copy = aligned_alloc(64, (size + 63) / 64 * 64); /* the engine's, until the process ends */
    if (!copy) exit(1);
    memcpy(copy, data, size);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    must(ingot_engine_load_memory(copy, size, NULL, &engine, &error), &error);
}

int main(int argc, char **argv) {
    const char *target = argc > 2 ? argv[2] : "cpu";
    struct ingot_arena_options options = INGOT_ARENA_OPTIONS_INIT;
    struct ingot_arena_info info;
    struct ingot_error error;
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (int b = 0; b < LARGEST; b++) {
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 8; x++)
                pictures[b][8 * y + x] = (float)(strchr(levels, picture[y][x]) - levels) / 8;
    }
    load(argc > 1 ? argv[1] : "examples/digits/digits.onnx", target);
    options.memory = strncmp(target, "cuda", 4) == 0 ? INGOT_CUDA : INGOT_HOST;
    must(ingot_arena_create(&options, &arena, &error), &error);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i;
        if (pthread_create(&threads[i], NULL, serve, &seeds[i]) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    must(ingot_arena_describe(arena, &info, &error), &error);
    printf("%d threads, %d runs of 1 to %d pictures each: %lu pictures, %lu not seen as a 3; one arena of %zu bytes\n",
           THREADS, RUNS, LARGEST, atomic_load(&pictures_done), atomic_load(&pictures_wrong), info.peak_bytes);
    ingot_arena_release(arena);
    ingot_engine_release(engine);
    return atomic_load(&pictures_wrong) != 0;
}
