/* Measuring the candidates of one region: compile, check, time. */
#ifndef IG_TUNE_MEASURE_H
#define IG_TUNE_MEASURE_H

#include "tune/bench.h"
#include "tune/tune.h"

struct ig_tuned_candidate {
    const struct ig_kernel *kernel;
    int choice;           /* its number as ig_kernel_candidate counts */
    uint64_t nanoseconds; /* 0: not measured; IG_TIMING_REJECTED */
    bool is_new;          /* measured now */
};

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
};

struct ig_measuring {
    struct ig_job *job;
    const struct ig_tune_options *options;
    struct ig_bench *bench;
    struct ig_tuned_region *region;
    uint64_t weights; /* bytes of all weights of the model */
    double end;       /* when the budget is spent, by now() */
    double (*now)(void);
    unsigned measured; /* result: how many candidates */
};

/* Gives times to the candidates that have none, as far as the budget goes. False where the device is not usable any more. */
bool ig_measure(struct ig_measuring *measuring);

#endif
