/*
 * A library that stands in for cuBLASLt beside the stand-in for the driver: it multiplies on the host when a stream's work is
 * done. It counts what is not given back, notices handles that it did not give out and descriptions that the real one would
 * refuse, and notes what it was told last.
 */
#ifndef TESTS_FAKE_CUBLASLT_H
#define TESTS_FAKE_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

struct fake_cublaslt {
    /* What it pretends to be. */
    int ways;         /* how many algorithms it has for a product; below 0: it fails with that status, times -1 */
    size_t workspace; /* bytes that they need */
    /* Call number `fail_at` (from 1) of any function returns `fail_status`; 0: none. */
    uint64_t fail_at;
    int fail_status;
    /* What it has seen. */
    uint64_t live, questions, products; /* objects that exist; heuristics asked for; products done */
    uint32_t alignment, epilogue;       /* that it was last asked for */
    int compute, way;                   /* number of the algorithm that was last done */
    char misuse[128];
};

typedef struct fake_cublaslt *fake_cublaslt_state_function(void);

#endif
