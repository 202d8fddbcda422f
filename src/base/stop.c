/* The clock of deadlines; see stop.h. */
#define _GNU_SOURCE
#include "base/stop.h"

#include <sched.h>
#include <time.h>

#define SECOND 1000000000u
#define SHORTEST_SLEEP 2000u
#define LONGEST_SLEEP 1000000u

uint64_t ig_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

void ig_clock_pause(uint64_t begin) {
    uint64_t sleep = (ig_clock() - begin) / 16;
    if (sleep < SHORTEST_SLEEP) {
        sched_yield();
        return;
    }
    const struct timespec time = {.tv_nsec = sleep < LONGEST_SLEEP ? (long)sleep : LONGEST_SLEEP};
    nanosleep(&time, NULL);
}

uint64_t ig_clock_after(uint64_t begin, double seconds) {
    double most = (double)(UINT64_MAX / 2 / SECOND);
    return seconds < most ? begin + (uint64_t)(seconds * SECOND) : UINT64_MAX;
}
