/*
 * The latency of an all-reduce of f32 among threads of this process, by size: all_reduce [RANKS]. A round is repeated until
 * half a second has passed; a line has the median and the least time of a call, of the slowest rank. bench/README.md
 * says how to see it beside MPI's.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stop.h"
#include "dist/dist.h"

enum { MOST_CALLS = 200000, LARGEST = 16 << 20 };

struct rank {
    pthread_t thread;
    struct ig_group *seat;
    uint64_t *times; /* of rank 0's calls, in nanoseconds */
};

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void fail(const struct ingot_error *error) {
    fprintf(stderr, "all_reduce: %s\n", error->message);
    exit(4);
}

static void *rank_main(void *argument) {
    struct rank *rank = argument;
    float *data = calloc(LARGEST, 1);
    struct ingot_error error;
    for (size_t bytes = 256; bytes <= LARGEST; bytes *= 4) {
        struct ig_collective_sizes sizes = {.outer = 1, .inner = bytes / sizeof *data};
        const struct ig_collective_call call = {
            {IG_ALL_REDUCE, INGOT_F32, IG_REDUCE_SUM, 0}, &sizes, data, data, "bench", NULL};
        size_t calls = bytes <= 65536 ? 20000 : (size_t)600 * 1048576 / bytes;
        for (size_t i = 0; i < calls; i++) {
            uint64_t begin = ig_clock();
            if (ig_group_call(rank->seat, &call, &error)) fail(&error);
            rank->times[i] = ig_clock() - begin;
        }
        if (ig_group_rank(rank->seat) != 0) continue;
        qsort(rank->times, calls, sizeof *rank->times, by_size);
        printf("%9zu bytes  median %9.2f us  least %9.2f us\n", bytes, (double)rank->times[calls / 2] / 1e3,
               (double)rank->times[0] / 1e3);
    }
    free(data);
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    struct ig_group *seats[IG_MOST_RANKS];
    struct rank all[IG_MOST_RANKS];
    struct ingot_error error;
    if (ig_group_create_local(ranks, NULL, seats, &error)) fail(&error);
    for (uint32_t r = 0; r < ranks; r++) {
        all[r] = (struct rank){.seat = seats[r], .times = calloc(MOST_CALLS, sizeof(uint64_t))};
        pthread_create(&all[r].thread, NULL, rank_main, &all[r]);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        pthread_join(all[r].thread, NULL);
        ig_group_destroy(seats[r]);
        free(all[r].times);
    }
    return 0;
}
