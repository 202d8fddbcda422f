/*
 * Tuning: chooses a candidate (kernel/kernel.h) for each region.
 *
 * Choices depend only on the times in a timing cache, to which measuring adds: the fastest candidate with a time is
 * taken, or the cost model's first choice if none has one. A candidate that was rejected at any sizes is not taken. So a build depends on its input, its options and the timing
 * cache: once measured, it can be reproduced on any machine, bit for bit.
 *
 * Measuring has a budget of seconds, spent first on the regions with the largest share of the model's work; a
 * measurement in progress at the end is completed. A candidate's time counts only if its results agree with the
 * reference evaluator at the very sizes that are timed. If that would take too long (half a billion products, about a
 * second), the candidate is checked against the reference at the smallest sizes of the symbols, and at the timed sizes
 * against the plain schedule (one element at a time), which was checked in the same way; without symbols, only against
 * the plain schedule. A candidate that cannot be compiled or run, or is wrong, is never taken; if that holds for all,
 * the plain schedule is taken.
 */
#ifndef IG_TUNE_TUNE_H
#define IG_TUNE_TUNE_H

#include "device/device.h"
#include "toolchain/toolchain.h"
#include "tune/cache.h"
#include "tune/subject.h"

struct ig_tune_options {
    const struct ig_target *target;
    uint64_t features;     /* processor features that the target's code needs */
    int gpu;               /* CUDA: the GPU to measure on */
    const char *compiler;  /* names and versions of what prints and compiles kernels */
    unsigned jobs;         /* kernels compiled in parallel */
    bool generated;        /* exclude candidates that call libraries */
    double seconds;        /* budget; 0: do not measure */
    struct ig_sizes sizes; /* values of all symbols to measure at */
    /* Further values, the more important ones first: regions whose candidates have a cost model are measured at these
     * too, with the few candidates that it puts first there, after all regions were at the sizes above. Borrowed. */
    const struct ig_sizes *further;
    uint32_t n_further;
    const char *(*print)(void *user, const struct ig_kernel *kernel, const char *symbol);
    void (*compile)(void *user, const struct ig_source *sources, unsigned count, struct ig_code *out_code);
    void (*progress)(void *user, unsigned done, unsigned total); /* may be NULL */
    void (*note)(void *user, const char *text);                  /* reports what was skipped and why; may be NULL */
    double (*now)(void *user); /* the clock of the budget, in seconds; NULL: the system's */
    void *user;
    /* Measures on this device, by its own clock, as if it were this machine's. Borrowed. NULL: opens this machine's. */
    struct ig_device *device;
};

struct ig_rival {
    const struct ig_kernel *kernel;
    int choice; /* its number for ig_kernel_candidate */
    const char *tactic;
    uint64_t nanoseconds; /* 0: not measured; or IG_TIMING_REJECTED */
    const char *reason;   /* for the rejection; NULL: unknown */
};

/* The tuning result of a region. */
struct ig_tuned {
    int choice;                     /* the chosen candidate; may be IG_CHOICE_PLAIN */
    const char *device;             /* device of the times; NULL: there are no times */
    const struct ig_sizes *at;      /* sizes of the times */
    const char *shapes;             /* the same for people */
    IG_VEC(struct ig_rival) rivals; /* all candidates in the cost model's order, the chosen one included */
    /* At further sizes for which the same device has times. */
    IG_VEC(const struct ig_tuned *) elsewhere;
};

struct ig_tuner;

/* The cache is borrowed; new measurements are added to it. */
struct ig_tuner *ig_tuner_create(struct ig_job *job, const struct ig_tune_options *options,
                                 struct ig_timing_cache *cache);
/* Call it for every region: uses are counted by fingerprint. */
void ig_tuner_add(struct ig_tuner *tuner, struct ig_graph *graph, const struct ig_region *region);
/* Measures, then decides. Returns the number of new measurements. If this machine has no device for the target, or the
 * device fails, a note says so, and decisions use the times there are. */
unsigned ig_tuner_run(struct ig_tuner *tuner);
/* NULL for regions with one candidate. */
const struct ig_tuned *ig_tuner_get(const struct ig_tuner *tuner, const char *fingerprint);

/* The 32 digits that identify a region in timing caches. */
const char *ig_tuner_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target);

#endif
