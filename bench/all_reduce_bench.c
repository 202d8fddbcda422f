/*
 * The latency of an all-reduce of f32 by size, among threads of this process, or among processes that a launcher started:
 *
 *     all_reduce_bench RANKS
 *     mpirun -n RANKS all_reduce_bench launched|mpi
 *
 * A line has the median and the least time of a call on rank 0. bench/all_reduce shows it beside MPI's own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "dist/dist.h"

extern char **environ;

enum { MOST_CALLS = 20000, LARGEST = 16 << 20 };

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void fail(const struct ingot_error *error) {
    fprintf(stderr, "all_reduce_bench: %s\n", error->message);
    exit(4);
}

static void *measure(void *argument) {
    struct ig_group *seat = argument;
    float *data = calloc(LARGEST, 1);
    uint64_t *times = calloc(MOST_CALLS, sizeof *times);
    struct ingot_error error;
    for (size_t bytes = 256; bytes <= LARGEST; bytes *= 4) {
        const struct ig_collective_sizes sizes = {.outer = 1, .inner = bytes / sizeof *data};
        const struct ig_collective_call call = {
            {IG_ALL_REDUCE, INGOT_F32, IG_REDUCE_SUM, 0}, &sizes, data, data, "bench", NULL};
        size_t calls = bytes <= 65536 ? MOST_CALLS : (size_t)600 * 1048576 / bytes;
        for (size_t i = 0; i < calls; i++) {
            uint64_t begin = ig_clock();
            if (ig_group_call(seat, &call, &error)) fail(&error);
            times[i] = ig_clock() - begin;
        }
        if (ig_group_rank(seat) != 0) continue;
        qsort(times, calls, sizeof *times, by_size);
        printf("%9zu bytes  median %9.2f us  least %9.2f us\n", bytes, (double)times[calls / 2] / 1e3,
               (double)times[0] / 1e3);
    }
    free(times);
    free(data);
    return NULL;
}

static void measure_processes(enum ig_transport transport) {
    const struct ig_join_options options = {.environment = (const char *const *)environ, .transport = transport};
    struct ig_group *seat;
    struct ingot_error error;
    if (ig_group_join(&options, &seat, &error)) fail(&error);
    measure(seat);
    ig_group_destroy(seat);
}

static void measure_threads(uint32_t ranks) {
    struct ig_group *seats[IG_MOST_RANKS];
    pthread_t threads[IG_MOST_RANKS];
    struct ingot_error error;
    if (ig_group_create_local(ranks, NULL, seats, &error)) fail(&error);
    for (uint32_t r = 0; r < ranks; r++)
        pthread_create(&threads[r], NULL, measure, seats[r]);
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < ranks; r++)
        ig_group_destroy(seats[r]);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "2";
    if (strcmp(how, "launched") == 0)
        measure_processes(IG_TRANSPORT_BEST);
    else if (strcmp(how, "mpi") == 0)
        measure_processes(IG_TRANSPORT_MPI);
    else
        measure_threads((uint32_t)atoi(how));
    return 0;
}
