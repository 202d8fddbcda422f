/*
 * Measures the candidates of regions: compile, check, time.
 *
 * Compiling takes longest and uses all processors; measuring uses one. So several regions are compiled together, then
 * measured one after the other.
 */
#ifndef IG_TUNE_MEASURE_H
#define IG_TUNE_MEASURE_H

#include "tune/bench.h"
#include "tune/tune.h"

struct ig_tuned_candidate {
    const struct ig_kernel *kernel;
    int choice;           /* its number for ig_kernel_candidate */
    uint64_t nanoseconds; /* 0: not measured; or IG_TIMING_REJECTED */
    const char *reason;   /* for the rejection; NULL: unknown */
    bool is_new;          /* measured in this run */
    bool is_absent;       /* cannot be measured here: it calls a library that is missing */
};

static inline bool ig_candidate_is_open(const struct ig_tuned_candidate *candidate) {
    return !candidate->nanoseconds && !candidate->is_absent;
}

struct ig_trials; /* the compiled candidates of one region */

/* A region at certain sizes, those of `tuned`. */
struct ig_tuned_region {
    struct ig_graph *graph;
    const struct ig_region *region;
    const char *fingerprint;
    uint32_t uses;
    uint32_t further;   /* 0: at the usual sizes; i: at the further sizes i - 1 */
    uint32_t usual;     /* the number of the same region at the usual sizes */
    double work;        /* total over all uses */
    bool sized;         /* its symbols have values */
    bool open;          /* still to be measured */
    const char *device; /* of a usual one: whose times decide at all sizes; NULL: there are none */
    struct ig_tuned tuned;
    IG_VEC(struct ig_tuned_candidate) candidates;
    struct ig_trials *trials; /* between compiling and measuring */
};

struct ig_measuring {
    struct ig_job *job;
    const struct ig_tune_options *options;
    struct ig_bench *bench;
    uint64_t weights;    /* total bytes of the model's weights */
    double end;          /* end of the budget, by options->now */
    unsigned measured;   /* out: number of candidates measured */
    const char *failure; /* out: why the last region could not be measured; NULL: it could */
};

/* Compiles the candidates of several regions that have no time yet. Compile errors become rejections. */
void ig_measure_compile(struct ig_measuring *measuring, struct ig_tuned_region *const *regions, uint32_t count);
/* Measures the candidates of a compiled region that have no time yet, as far as the budget allows. False if the device
 * is no longer usable; `failure` then says why. */
bool ig_measure(struct ig_measuring *measuring, struct ig_tuned_region *region);

#endif
