/*
 * Products of f32 by tiles of AMX, whose operands are divided into parts (cpu/contract_parts.c), against the reference: sizes that
 * leave rows, columns, steps and cuts over, rows whose number is known when it runs, infinities, NaN and numbers close to the
 * limits, which are computed once more. Runs on machines with AMX; elsewhere these are products by vectors.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/kernel.h"
#include "support/check/conv_cases.h"
#include "support/check/passes.h"
#include "support/support.h"

enum { MOST = 64 };
static struct graph_case cases[MOST];
static char names[MOST][96];

struct product {
    int a_rank, b_rank;
    int64_t a[3], b[3];
    bool constant;   /* b */
    bool transposed; /* b is given as [..., n, k] */
    bool prologue, bias;
    double scale_a, scale_b; /* 0: 1 */
};

static ig_value scaled(struct ig_graph *g, ig_value x, double scale) {
    return scale == 0 ? x : ig_map2(g, IG_OP_mul, x, ig_build_scalar(g, INGOT_F32, scale));
}

static void build(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    struct ig_type a_type = sized_type(g, INGOT_F32, p->a_rank, p->a),
                   b_type = sized_type(g, INGOT_F32, p->b_rank, p->b);
    ig_value a = ig_build_input(g, "a", &a_type);
    ig_value b = p->constant ? random_constant(g, INGOT_F32, p->b_rank, p->b, 3) : ig_build_input(g, "b", &b_type);
    if (p->transposed) b = ig_build_transpose(g, b, (const int64_t[]){0, 2, 1});
    if (p->prologue) a = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_add, a, ig_build_scalar(g, INGOT_F32, 0.5)), a);
    ig_value y = ig_build_matmul(g, scaled(g, a, p->scale_a), scaled(g, b, p->scale_b), INGOT_F32);
    if (p->bias) y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_F32, 1, &p->b[p->b_rank - 1], 5));
    ig_build_output(g, "y", y);
}

static const struct product products[] = {
    {2, 2, {64, 256}, {256, 192}, .constant = true},
    {2, 2, {61, 511}, {511, 500}, .constant = true, .bias = true},
    {2, 2, {197, 511}, {511, 270}, .constant = true, .bias = true, .prologue = true},
    {2, 2, {47, 511}, {511, 600}, .constant = true},
    {2, 2, {127, 349}, {349, 176}, .constant = true, .bias = true},
    {2, 2, {129, 2305}, {2305, 224}, .constant = true}, /* in cuts */
    {3, 3, {3, 96, 287}, {3, 287, 260}, .bias = false},
    {3, 3, {2, 64, 256}, {2, 257, 256}, .transposed = true},
    {3, 2, {-1, -2, 250}, {250, 150}, .constant = true, .bias = true},
    {3, 2, {-1, -2, 250}, {250, 290}, .constant = true, .prologue = true},
    {3, 2, {-1, -2, 2400}, {2400, 176}, .constant = true, .bias = true},
};

/* The same sizes of the symbols for all: many rows, fewer than a tile's, one, and a tile's. */
static const int64_t sizes[][2] = {{3, 50}, {3, 5}, {1, 1}, {2, 8}};

static void test_products(void **state) {
    (void)state;
    int count = 0;
    for (int i = 0; i < COUNT(products); i++) {
        bool fixed = products[i].a[0] > 0;
        for (int s = 0; s < (fixed ? 1 : COUNT(sizes)); s++) {
            for (int poison = 0; poison < 2; poison++) {
                snprintf(names[count], sizeof names[count], "product %d, sizes %d%s", i, s, poison ? ", poison" : "");
                unsigned flags = poison ? GRAPH_POISON : 0;
                cases[count] =
                    (struct graph_case){names[count], build, &products[i], 1e-5, flags, {sizes[s][0], sizes[s][1]}};
                count++;
            }
        }
    }
    check_graphs_for_cpu(cases, count);
}

/* Each element keeps the accuracy of f32 wherever all parts are normal numbers; close to the largest number as well, whose upper
 * part rounds to infinity. */
static void test_magnitudes(void **state) {
    (void)state;
    static const struct product extremes[] = {
        {2, 2, {64, 256}, {256, 192}, .constant = true, .scale_a = 3.4028234e38, .scale_b = 1e-25},
        {2, 2, {64, 256}, {256, 192}, .constant = true, .scale_a = 1e-25, .scale_b = 3.4028234e38},
        {2, 2, {64, 256}, {256, 192}, .constant = true, .scale_a = 1e-28, .scale_b = 1e28},
    };
    for (int i = 0; i < COUNT(extremes); i++) {
        snprintf(names[i], sizeof names[i], "magnitudes %d", i);
        cases[i] = (struct graph_case){names[i], build, &extremes[i], 1e-6, 0, {0}};
    }
    check_graphs_for_cpu(cases, COUNT(extremes));
}

static const struct conv convs[] = {
    {PLANE(1, 14, 15, 256, 128, 1, 1, 0), .bias = true, .relu = true},
    {PLANE(2, 21, 21, 250, 250, 1, 2, 0), .bias = true},
    {PLANE(1, 25, 23, 64, 220, 3, 2, 1), .residual = true},
    {PLANE(-1, 8, -2, 100, 200, 3, 2, 1), .bias = true, .relu = true},
};

static void test_convolutions(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(convs); i++) {
        snprintf(names[i], sizeof names[i], "convolution %d", i);
        cases[i] = (struct graph_case){names[i], build_conv, &convs[i], 2e-6, i == 0 ? GRAPH_POISON : 0, {3, 29}};
    }
    check_graphs_for_cpu(cases, COUNT(convs));
}

/* ---- Where it is chosen -------------------------------------------------------------------------------------------------- */

/* Products that vectors do. */
static const struct product others[] = {
    {2, 2, {31, 400}, {400, 512}, .constant = true}, /* too few rows */
    {2, 2, {64, 200}, {200, 16}, .constant = true},  /* dividing the rows would take longer than multiplying them */
    {2, 2, {64, 4}, {4, 512}, .constant = true},     /* tiles would be empty */
    {2, 2, {64, 96}, {96, 128}, .constant = true},   /* little work for each sum */
};

static const struct ig_kernel *only_kernel(struct ig_job *job, void (*make)(struct ig_graph *, const void *),
                                           const void *argument, const struct ig_target *target) {
    struct ig_pass_options options = {.target = target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    make(g, argument);
    g = passes_named(g, "pack fuse partition", &options);
    assert_int_equal(g->regions.count, 1);
    return ig_kernel_make(g, &g->regions.at[0], target);
}

#define PARTS "of three parts"

static void check_choices(struct ig_job *job, void *argument) {
    (void)argument;
    static const struct ig_target amx = {.isa = IG_ISA_AMX, .vector_bytes = 64, .vector_registers = 32, .vnni = true},
                                  v4 = {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32};
    for (int i = 0; i < COUNT(products); i++) {
        const struct ig_kernel *with = only_kernel(job, build, &products[i], &amx);
        const struct ig_kernel *without = only_kernel(job, build, &products[i], &v4);
        if (!strstr(with->tactic, PARTS)) fail_msg("product %d on AMX: %s", i, with->tactic);
        assert_true(with->whole); /* or rows would be divided for each stretch of tiles that a worker takes */
        if (strstr(without->tactic, PARTS)) fail_msg("product %d on AVX-512: %s", i, without->tactic);
    }
    for (int i = 0; i < COUNT(others); i++) {
        const char *tactic = only_kernel(job, build, &others[i], &amx)->tactic;
        if (strstr(tactic, PARTS)) fail_msg("product %d of others on AMX: %s", i, tactic);
    }
    for (int i = 0; i < COUNT(convs); i++) {
        const char *tactic = only_kernel(job, build_conv, &convs[i], &amx)->tactic;
        if (!strstr(tactic, PARTS)) fail_msg("convolution %d on AMX: %s", i, tactic);
    }
}

static void test_choices(void **state) {
    (void)state;
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, check_choices, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_magnitudes),
                                       cmocka_unit_test(test_convolutions), cmocka_unit_test(test_choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
