/*
 * Shared by the tests of kernels: tolerances and their reasons, a list of cases to compile together, builders.
 */
#ifndef TESTS_KERNEL_CASES_H
#define TESTS_KERNEL_CASES_H

#include "support/check/graph_check.h"
#include "support/support.h"

/* For elementwise results, relative to each element (GRAPH_EACH); 0 for integers. */
double tolerance_of(enum ingot_dtype dtype);
/* For sums added in another order and results computed from them, relative to the largest result. */
double sum_tolerance(enum ingot_dtype dtype);

#define TEST_TYPES 13 /* floats first, bool last */
extern const enum ingot_dtype test_types[TEST_TYPES];

/* Adds a case to the list; check_all compiles and checks the list, and empties it. `name` must live until then. */
void add_case(const char *name, void (*build)(struct ig_graph *, const void *), const void *argument, double tolerance,
              unsigned flags);
/* The same with a formatted name, and symbols of these sizes; exact unless the caller says otherwise. */
struct graph_case *add_named_case(void (*build)(struct ig_graph *, const void *), const void *argument, unsigned flags,
                                  const int64_t sizes[4], const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void check_all(void);
void check_all_for_cpu(void);
void check_all_for_cuda(void);

struct shaped {
    enum ingot_dtype dtype;
    int rank;
    int64_t sizes[INGOT_MAX_RANK]; /* -1 … -4: the symbols "s0" … "s3", of size 5, 7, 33, 128 */
};
ig_dim number(struct ig_graph *g, int64_t n);
ig_value input(struct ig_graph *g, const char *name, enum ingot_dtype dtype, int rank, const int64_t *sizes);

#endif
