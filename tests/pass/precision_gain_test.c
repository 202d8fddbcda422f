/*
 * What narrow builds gain: on CPUs, weights of few rows are narrow and multiplied by f32 rows, and nothing else is; GPUs narrow
 * all; a rule is followed anyway. Then the results of such products, with the kernels of CPUs.
 */
#include <string.h>

#include "pass/precision/precision.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"

static const struct ig_target cpus[] = {
    {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16},
    {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32},
};
static const struct ig_target amx = {.isa = IG_ISA_AMX, .vector_bytes = 64, .vector_registers = 32, .vnni = true};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};

/* ---- What becomes narrow -------------------------------------------------------------------------------------------- */

enum { SIZE = 1024 };

struct decision {
    const struct ig_target *target;
    enum ig_precision precision;
    int64_t rows, size; /* rows 0: a symbol whose usual size is not known */
    const char *rule;   /* for all nodes; NULL: none */
    enum ingot_dtype a, b;
    const char *kept; /* why what the first product stores is wide; NULL: it is not */
};

static const char as_fast[] = "f32 is as fast";

static const struct decision decisions[] = {
    {&cpus[0], IG_PRECISION_BF16, 1, SIZE, NULL, INGOT_F32, INGOT_BF16, as_fast},
    {&cpus[1], IG_PRECISION_BF16, 4, SIZE, NULL, INGOT_F32, INGOT_BF16, as_fast},
    {&cpus[1], IG_PRECISION_BF16, 5, SIZE, NULL, INGOT_F32, INGOT_F32, as_fast},
    {&cpus[1], IG_PRECISION_FP16, 8, SIZE, NULL, INGOT_F32, INGOT_F16, as_fast},
    {&cpus[1], IG_PRECISION_FP16, 9, SIZE, NULL, INGOT_F32, INGOT_F32, as_fast},
    {&cpus[1], IG_PRECISION_FP16, 0, SIZE, NULL, INGOT_F32, INGOT_F32, as_fast},
    {&cpus[1], IG_PRECISION_FP16, 1, SIZE / 2, NULL, INGOT_F32, INGOT_F32, as_fast}, /* the caches keep the weights */
    {&cpus[1], IG_PRECISION_FP16, 99, SIZE, "*=fp16", INGOT_F16, INGOT_F16, NULL},
    {&amx, IG_PRECISION_BF16, 99, SIZE, NULL, INGOT_BF16, INGOT_BF16, NULL},
    {&amx, IG_PRECISION_FP16, 99, SIZE, NULL, INGOT_F32, INGOT_F32, as_fast},
    {&gpu, IG_PRECISION_FP16, 99, SIZE, NULL, INGOT_F16, INGOT_F16, NULL},
    {&gpu, IG_PRECISION_BF16, 0, SIZE / 2, NULL, INGOT_BF16, INGOT_BF16, NULL},
};

static ig_value product(struct ig_graph *g, ig_value x, int64_t size, uint32_t seed) {
    ig_value y = ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, (int64_t[]){size, size}, seed), INGOT_F32);
    g->nodes.at[ig_info(g, y)->node].origin = "MatMul 'p'";
    return y;
}

/* What the result of the second product is computed from: the types of its operands, and why its rows were stored wide. */
static void check_decision(struct ig_job *job, void *argument) {
    const struct decision *d = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){d->rows ? d->rows : -1, d->size});
    ig_build_output(g, "y", product(g, product(g, x, d->size, 1), d->size, 2));
    struct ig_precisions precisions;
    ig_precisions_parse(g, ig_precision_names[d->precision], &d->rule, d->rule != NULL, &precisions);
    struct ig_pass_options options = {.target = d->target, .precisions = &precisions};
    g = passes_named(g, "precision", &options);
    const struct ig_node *second = ig_def_op(g, g->outputs.at[0].value, IG_OP_matmul);
    assert_non_null(second);
    assert_int_equal(ig_type_of(g, second->in[0])->dtype, d->a);
    assert_int_equal(ig_type_of(g, second->in[1])->dtype, d->b);
    const char *kept = ig_info(g, second->in[0])->kept;
    if (!d->kept) assert_null(kept);
    if (d->kept) assert_string_equal(kept, d->kept);
}

static void test_decisions(void **state) {
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
        struct decision d = decisions[i];
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, check_decision, &d, &error);
        if (status != INGOT_OK) fail_msg("decision %zu: %s", i, error.message);
        ig_job_deinit(&job);
    }
}

/* ---- Numbers -------------------------------------------------------------------------------------------------------- */

struct mixed {
    enum ingot_dtype dtype;
    int64_t rows, depth, columns;
};

static void build_product(struct ig_graph *g, const void *argument) {
    const struct mixed *m = argument;
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){m->rows, m->depth});
    ig_value w = random_constant(g, INGOT_F32, 2, (int64_t[]){m->depth, m->columns}, 3);
    ig_value y = ig_build_matmul(g, x, ig_build_cast(g, w, m->dtype), INGOT_F32);
    ig_build_output(g, "y", ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0)));
}

/* A convolution with windows of 3x3 over 2x2 positions, as at the end of a network. */
static void build_convolution(struct ig_graph *g, const void *argument) {
    const struct mixed *m = argument;
    const int64_t ones[] = {1, 1}, window[] = {3, 3}, dims[] = {m->columns, m->depth, 3, 3};
    ig_dim pad[] = {number(g, 1), number(g, 1)};
    struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(pad, 2),
                              ig_attr_of_dims(pad, 2),
                              ig_attr_of_int(1),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(m->columns),
                              ig_attr_of_ints(window, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value x = input(g, "x", INGOT_F32, 4, (int64_t[]){m->rows, m->depth, 2, 2});
    ig_value w = ig_build_cast(g, random_constant(g, INGOT_F32, 4, dims, 5), m->dtype);
    ig_value in[] = {x, w, random_constant(g, INGOT_F32, 1, &m->columns, 6)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, in, 3, 1, attrs, none));
}

static void test_numbers(void **state) {
    static const struct mixed products[] = {{INGOT_F16, 1, 33, 70},  {INGOT_BF16, 1, 33, 70}, {INGOT_F16, 3, 64, 64},
                                            {INGOT_BF16, 4, 65, 31}, {INGOT_F16, 17, 40, 96}, {INGOT_BF16, -1, 40, 96}};
    static const struct mixed convolutions[] = {{INGOT_F16, 1, 24, 40}, {INGOT_BF16, -2, 16, 33}};
    static const unsigned flags[] = {0, GRAPH_RAW, GRAPH_POISON};
    static struct graph_case cases[(6 + 2) * 3];
    int n = 0;
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 6; i++)
            cases[n++] = (struct graph_case){"product", build_product, &products[i], 1e-5, flags[way], {5, 7, 0, 0}};
        for (int i = 0; i < 2; i++)
            cases[n++] =
                (struct graph_case){"convolution", build_convolution, &convolutions[i], 1e-5, flags[way], {5, 7}};
    }
    check_graphs_for_cpu(cases, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
