/*
 * A stand-in for cuBLASLt that works with the stand-in for the driver: products are computed on the host when the
 * stream executes them. It counts objects that are not destroyed, detects invalid handles and descriptions that the
 * real library would reject, and records what it was last asked for.
 */
#ifndef TESTS_FAKE_CUBLASLT_H
#define TESTS_FAKE_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

struct fake_cublaslt {
    /* The simulated library. */
    int ways;         /* number of algorithms for a product; below 0: heuristics fail with that status, negated */
    size_t workspace; /* bytes that each needs */
    /* Call number `fail_at` (from 1) of any function returns `fail_status`; 0: no call fails. */
    uint64_t fail_at;
    int fail_status;
    /* Observations. */
    uint64_t live, questions, products; /* live objects; heuristic queries; products computed */
    uint32_t alignment, epilogue;       /* of the last query */
    int compute, fast, way;             /* compute, fast: of the last query; way: the algorithm executed last */
    char misuse[128];
};

typedef struct fake_cublaslt *fake_cublaslt_state_function(void);

#endif
