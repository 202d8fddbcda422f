/*
 * Tuning: which of a region's candidates (kernel/kernel.h) its kernel is made of.
 *
 * What decides are the times in a timing cache; measuring adds to them. The fastest candidate that has a time is taken, and
 * where none has, the cost model's first choice. So a build depends on its input, its options and the timing cache: what was
 * measured once can be built again, on any machine, to the very same bytes.
 *
 * Measuring has a budget of seconds, which goes to the regions with the largest share of the model's work first; what is
 * under way when it is spent is finished. A
 * candidate's time counts only if its results are right, by the reference evaluator at the very sizes that are timed. Where
 * that would take too long (half a billion products, about a second), it is checked at the least sizes of the symbols, and
 * at those that are timed it is compared with the schedule that computes an element at a time, which was checked with it;
 * without symbols, with that schedule alone. A candidate that cannot be compiled or run, or is wrong, is never taken; where
 * that is true of all, the kernel is the one that computes an element at a time.
 */
#ifndef IG_TUNE_TUNE_H
#define IG_TUNE_TUNE_H

#include "toolchain/toolchain.h"
#include "tune/cache.h"
#include "tune/subject.h"

struct ig_tune_options {
    const struct ig_target *target;
    uint64_t features;     /* that code for it needs of a processor */
    int gpu;               /* CUDA: the number of the GPU to measure on */
    const char *compiler;  /* what prints and compiles kernels, with versions */
    unsigned jobs;         /* how many it compiles at once */
    bool generated;        /* no candidates that call libraries */
    double seconds;        /* for measuring; 0: none */
    struct ig_sizes sizes; /* at which is measured: of all symbols */
    const char *(*print)(void *user, const struct ig_kernel *kernel, const char *symbol);
    void (*compile)(void *user, const struct ig_source *sources, unsigned count, struct ig_code *out_code);
    void (*progress)(void *user, unsigned done, unsigned total); /* may be NULL */
    void (*note)(void *user, const char *text);                  /* what was not done and why; may be NULL */
    void *user;
};

struct ig_rival {
    const char *tactic;
    uint64_t nanoseconds; /* 0: not measured; IG_TIMING_REJECTED */
    const char *reason;   /* of the rejection; NULL: none is known */
};

/* What is known of a region. */
struct ig_tuned {
    int choice;                     /* the candidate that is taken; may be IG_CHOICE_PLAIN */
    const char *device;             /* that the times are of; NULL: there are none */
    const char *shapes;             /* that they are for */
    IG_VEC(struct ig_rival) rivals; /* all candidates, in the cost model's order, the chosen one among them */
};

struct ig_tuner;

/* The cache is borrowed and gets what is measured. */
struct ig_tuner *ig_tuner_create(struct ig_job *job, const struct ig_tune_options *options,
                                 struct ig_timing_cache *cache);
/* Regions are counted by their fingerprints: call it for every one. */
void ig_tuner_add(struct ig_tuner *tuner, struct ig_graph *graph, const struct ig_region *region);
/* Measures, then decides. Returns how many measurements were made. Where this machine has no device for the target, or it
 * fails, a note says so and the decision rests on the times that there are. */
unsigned ig_tuner_run(struct ig_tuner *tuner);
/* NULL for regions with one candidate. */
const struct ig_tuned *ig_tuner_get(const struct ig_tuner *tuner, const char *fingerprint);

/* The 32 digits by which a timing cache knows a region. */
const char *ig_tuner_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target);

#endif
