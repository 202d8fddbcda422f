#include "support/check/kernel_cases.h"

#include <stdio.h>
#include <string.h>

/*
 * Tolerances, relative to each element.
 *   f32    the prelude's functions are accurate to 3 units in the last place (at most 2^-23 each), exact operators to half
 *   f64    pow multiplies the error of its logarithm by its exponent, up to 1000; the others: 4 units of 2^-53
 *   f16    computed in f32 and rounded once more: half a unit (2^-11), or one where two roundings meet
 *   bf16   the same with 2^-8
 */
double tolerance_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F32: return 3 * 0x1p-23;
    case INGOT_F64: return 64 * 0x1p-53;
    case INGOT_F16: return 0x1p-10;
    case INGOT_BF16: return 0x1p-7;
    default: return 0;
    }
}

/* For sums of n terms of size 1, added in another order, and results computed from them; relative to the largest
 * result. */
double sum_tolerance(enum ingot_dtype dtype) {
    double unit = dtype == INGOT_F64 ? 1e-13 : 2e-6;
    return dtype == INGOT_F16 ? 2e-3 : dtype == INGOT_BF16 ? 2e-2 : ig_dtype_is_float(dtype) ? unit : 0;
}

const enum ingot_dtype test_types[TEST_TYPES] = {INGOT_F32, INGOT_F64, INGOT_F16, INGOT_BF16, INGOT_I8,
                                                 INGOT_I16, INGOT_I32, INGOT_I64, INGOT_U8,   INGOT_U16,
                                                 INGOT_U32, INGOT_U64, INGOT_BOOL};

enum { MAX_CASES = 512 };
static struct graph_case cases[MAX_CASES];
static char names[MAX_CASES][96]; /* formatted names */
static int case_count;

void add_case(const char *name, void (*build)(struct ig_graph *, const void *), const void *argument, double tolerance,
              unsigned flags) {
    assert_true(case_count < MAX_CASES);
    cases[case_count] = (struct graph_case){name, build, argument, tolerance, flags, {5, 7, 33, 128}};
    case_count++;
}

struct graph_case *add_named_case(void (*build)(struct ig_graph *, const void *), const void *argument, unsigned flags,
                                  const int64_t sizes[4], const char *format, ...) {
    va_list arguments;
    struct graph_case *added = &cases[case_count];
    char *name = names[case_count];
    add_case(name, build, argument, 0, flags);
    va_start(arguments, format);
    vsnprintf(name, sizeof names[0], format, arguments);
    va_end(arguments);
    memcpy(added->sizes, sizes, GRAPH_SIZES * sizeof *sizes);
    return added;
}

void check_all(void) {
    int count = case_count;
    case_count = 0; /* first: a failing check does not return */
    check_graphs(cases, count);
}

void check_all_for_cpu(void) {
    int count = case_count;
    case_count = 0;
    check_graphs_for_cpu(cases, count);
}

void check_all_for_cuda(void) {
    int count = case_count;
    case_count = 0;
    check_graphs_for_cuda(cases, count);
}

ig_dim number(struct ig_graph *g, int64_t n) {
    return ig_dim_const(g->dims, n);
}

ig_value input(struct ig_graph *g, const char *name, enum ingot_dtype dtype, int rank, const int64_t *sizes) {
    struct ig_type type = sized_type(g, dtype, rank, sizes);
    return ig_build_input(g, name, &type);
}
