/*
 * The throughput of a group of processes that run an engine again and again, each as fast as the others let it: of a pipeline, runs
 * overlap (docs/distributed.md).
 *
 *     stages_bench ENGINE RUNS [NAME=SIZE]...
 *
 * is one of them, by INGOT_RANK, INGOT_RANKS and INGOT_RENDEZVOUS; without these, the only one. Each computes with one thread, or on
 * the GPU of its rank's number, where each run is enqueued behind another. Inputs are zeros in pinned memory; symbols without a
 * size are 1. bench/stages starts several.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ingot/ingot.h"

extern char **environ;

enum { WARM_UP = 3 };

static struct ingot_error error;

static void must(enum ingot_status status) {
    if (status == INGOT_OK) return;
    fprintf(stderr, "%s: %s\n", ingot_status_name(status), error.message);
    exit(4);
}

static int64_t size_of(const char *symbol, char **sizes, int count) {
    const size_t length = strlen(symbol);
    for (int i = 0; i < count; i++)
        if (strncmp(sizes[i], symbol, length) == 0 && sizes[i][length] == '=') return atoll(sizes[i] + length + 1);
    return 1;
}

static void bind(struct ingot_engine *engine, struct ingot_context *context, char **sizes, int count) {
    for (size_t i = 0; i < ingot_engine_input_count(engine); i++) {
        struct ingot_tensor_info info;
        ingot_engine_input(engine, i, &info);
        struct ingot_tensor tensor = {.dtype = info.dtype, .rank = info.rank};
        for (int axis = 0; axis < info.rank; axis++)
            tensor.dims[axis] = info.dims[axis] >= 0 ? info.dims[axis] : size_of(info.symbols[axis], sizes, count);
        const size_t bytes = (size_t)ingot_tensor_elements(&tensor) * ingot_dtype_size(info.dtype);
        tensor.memory = INGOT_PINNED;
        must(ingot_context_allocate(context, tensor.memory, bytes + 1, &tensor.data, &error));
        memset(tensor.data, 0, bytes);
        must(ingot_context_set_input(context, i, &tensor, &error));
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    struct ingot_group_options group = INGOT_GROUP_OPTIONS_INIT;
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_context *context;
    if (argc < 3) {
        fprintf(stderr, "usage: stages_bench ENGINE RUNS [NAME=SIZE]...\n");
        return 2;
    }
    group.environment = (const char *const *)environ;
    if (getenv("INGOT_RANK")) must(ingot_group_join(&group, &load.group, &error));
    if (!load.group) load.ranks = 1;
    const unsigned rank = load.group ? ingot_group_rank(load.group) : 0;
    must(ingot_engine_load(argv[1], &load, &engine, &error));
    options.threads = 1;
    options.device = (int)rank;
    must(ingot_context_create(engine, &options, &context, &error));
    bind(engine, context, argv + 3, argc - 3);
    const int runs = atoi(argv[2]);
    for (int i = 0; i < WARM_UP; i++)
        must(ingot_context_run(context, &error));
    const double begin = seconds();
    for (int i = 0; i < runs; i++)
        must(ingot_context_enqueue(context, NULL, &error));
    must(ingot_context_wait(context, &error));
    if (rank == 0) printf("%.2f runs/s\n", runs / (seconds() - begin));
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_group_release(load.group);
    return 0;
}
