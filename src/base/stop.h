/*
 * A request to stop the run in progress, made from any thread or by a deadline. Runs are numbered, so that a request
 * that comes late stops no later run.
 */
#ifndef IG_BASE_STOP_H
#define IG_BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ig_stop {
    atomic_ullong run;       /* number of the last run begun; only the runs' own thread changes it */
    atomic_ullong cancelled; /* number of the last run that someone asked to stop */
    uint64_t deadline;       /* of the run, in nanoseconds of ig_clock; 0: none */
};

/* Nanoseconds of a clock that only goes forward. */
uint64_t ig_clock(void);
/* Sleeps between two looks at something that others do, the longer the longer the wait has been since `begin`: a
 * sixteenth of that, so that little time is lost, and at most a millisecond. */
void ig_clock_pause(uint64_t begin);
/* `seconds` (at least 0; may be infinite) after `begin`; UINT64_MAX: never. */
uint64_t ig_clock_after(uint64_t begin, double seconds);

static inline bool ig_stop_is_cancelled(const struct ig_stop *stop) {
    unsigned long long run = atomic_load_explicit(&stop->run, memory_order_relaxed);
    return run && atomic_load_explicit(&stop->cancelled, memory_order_relaxed) == run;
}

/* Once true, it stays true until the next run begins. */
static inline bool ig_stop_asked(const struct ig_stop *stop) {
    return ig_stop_is_cancelled(stop) || (stop->deadline && ig_clock() >= stop->deadline);
}

#endif
