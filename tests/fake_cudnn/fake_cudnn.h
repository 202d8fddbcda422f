/*
 * A stand-in for cuDNN that works with the stand-in for the driver: convolutions are computed on the host when the
 * stream executes them. It counts objects that are not destroyed, detects descriptors that the real library would
 * reject, and records what it was last asked for.
 */
#ifndef TESTS_FAKE_CUDNN_H
#define TESTS_FAKE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

struct fake_cudnn {
    /* The simulated library. */
    size_t version;
    /* The number of engine configurations for a graph; below 0: heuristics fail with that status, negated. */
    int ways;
    int tensor_cores; /* the first this many use tensor cores */
    int noted;        /* the configuration with numerical note `note`; -1: none */
    int note;
    uint32_t compiled;   /* bit set: configurations that are compiled at run time */
    uint32_t impossible; /* bit set: configurations without an execution plan */
    int64_t workspace;   /* bytes that each needs */
    /* Call number `fail_at` (from 1) of any function returns `fail_status`; 0: no call fails. */
    uint64_t fail_at;
    int fail_status;
    /* Observations. */
    uint64_t live, questions, convolutions; /* live objects; heuristic queries; convolutions computed */
    int64_t alignment;                      /* of the last tensor */
    int way;                                /* the configuration executed last */
    char misuse[128];
};

typedef struct fake_cudnn *fake_cudnn_state_function(void);

/* Version 9.19 with three configurations, all on tensor cores. */
#define FAKE_CUDNN \
    { .version = 91900, .ways = 3, .tensor_cores = 3, .noted = -1, .workspace = 4096 }

#endif
