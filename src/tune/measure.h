/*
 * Measuring the candidates of regions: compile, check, time.
 *
 * Compiling takes longest and is done by all processors, measuring by one: so several regions are compiled together, then
 * measured one after the other.
 */
#ifndef IG_TUNE_MEASURE_H
#define IG_TUNE_MEASURE_H

#include "tune/bench.h"
#include "tune/tune.h"

struct ig_tuned_candidate {
    const struct ig_kernel *kernel;
    int choice;           /* its number as ig_kernel_candidate counts */
    uint64_t nanoseconds; /* 0: not measured; IG_TIMING_REJECTED */
    const char *reason;   /* of the rejection; NULL: none is known */
    bool is_new;          /* measured now */
    bool is_absent;       /* cannot be measured here: it calls a library that this machine lacks */
};

static inline bool ig_candidate_is_open(const struct ig_tuned_candidate *candidate) {
    return !candidate->nanoseconds && !candidate->is_absent;
}

struct ig_trials; /* of one region: what was compiled */

struct ig_tuned_region {
    struct ig_graph *graph;
    const struct ig_region *region;
    const char *fingerprint;
    uint32_t uses;
    double work; /* of all uses */
    bool sized;  /* its sizes are known */
    bool open;   /* is to be measured */
    struct ig_tuned tuned;
    IG_VEC(struct ig_tuned_candidate) candidates;
    struct ig_trials *trials; /* between compiling and measuring */
};

struct ig_measuring {
    struct ig_job *job;
    const struct ig_tune_options *options;
    struct ig_bench *bench;
    uint64_t weights; /* bytes of all weights of the model */
    double end;       /* when the budget is spent, by now() */
    double (*now)(void);
    unsigned measured;   /* result: how many candidates */
    const char *failure; /* result: why the last region could not be measured; NULL: it could */
};

/* Compiles the candidates of some regions that have no time. What does not compile is noted with its candidate. */
void ig_measure_compile(struct ig_measuring *measuring, struct ig_tuned_region *const *regions, uint32_t count);
/* Gives times to the candidates that have none, as far as the budget goes, of a region that was compiled. False where the
 * device is not usable any more; `failure` then says why. */
bool ig_measure(struct ig_measuring *measuring, struct ig_tuned_region *region);

#endif
