/*
 * A library that stands in for cuDNN beside the stand-in for the driver: it convolves on the host when a stream's work is
 * done. It counts what is not given back, notices descriptors that the real one would refuse, and notes what it was told
 * last.
 */
#ifndef TESTS_FAKE_CUDNN_H
#define TESTS_FAKE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

struct fake_cudnn {
    /* What it pretends to be. */
    size_t version;
    int ways; /* how many configurations it has for a graph; below 0: heuristics fail with that status, times -1 */
    int tensor_cores; /* how many of them, the first ones, use these */
    int noted;        /* which of them has `note`; -1: none */
    int note;
    uint32_t compiled;   /* those that have to be compiled first: a set of bits */
    uint32_t impossible; /* those of which no plan can be made, likewise */
    int64_t workspace;   /* bytes that they need */
    /* Call number `fail_at` (from 1) of any function returns `fail_status`; 0: none. */
    uint64_t fail_at;
    int fail_status;
    /* What it has seen. */
    uint64_t live, questions, convolutions; /* objects that exist; graphs that heuristics were asked for; done */
    int64_t alignment;                      /* of the last tensor */
    int way;                                /* number of the configuration that was last done */
    char misuse[128];
};

typedef struct fake_cudnn *fake_cudnn_state_function(void);

/* Three ways on tensor cores, the version 9.19. */
#define FAKE_CUDNN \
    { .version = 91900, .ways = 3, .tensor_cores = 3, .noted = -1, .workspace = 4096 }

#endif
