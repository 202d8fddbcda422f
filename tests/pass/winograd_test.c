/*
 * Transformed filters: the matrices, the same results by the reference evaluator, and for which convolutions the pass takes
 * them. tests/kernel/contract_test.c checks the kernels.
 */
#include "pass/product/winograd.h"

#include <math.h>

#include "ir/eval/eval.h"
#include "ir/winograd.h"
#include "pass/pass.h"
#include "support/check/graph_check.h"
#include "support/check/passes.h"
#include "support/support.h"

static const struct ig_target cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_target vnni = {
    .isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16, .vnni = true};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};

static void in_job(void (*body)(struct ig_job *job, void *argument)) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* ---- The matrices ---------------------------------------------------------------------------------------------------- */

/* y = A' [(G g) * (B' d)] for unit vectors g and d is 1 where d is the element that g multiplies, else 0. */
static void check_matrices(int m) {
    struct ig_winograd f;
    ig_winograd_init(&f, m);
    assert_int_equal(f.t, m + 2);
    for (int g = 0; g < IG_WINOGRAD_KERNEL; g++) {
        for (int d = 0; d < f.t; d++) {
            for (int i = 0; i < m; i++) {
                double y = 0;
                for (int k = 0; k < f.t; k++)
                    y += f.output[i][k] * f.filter[k][g] * f.input[k][d];
                assert_true(fabs(y - (i + g == d)) < 1e-14);
            }
            double back = 0;
            for (int k = 0; k < f.t; k++)
                back += f.inverse[g][k] * f.filter[k][d % IG_WINOGRAD_KERNEL];
            assert_true(fabs(back - (g == d % IG_WINOGRAD_KERNEL)) < 1e-14);
        }
    }
}

static void test_matrices(void **state) {
    (void)state;
    check_matrices(2);
    check_matrices(4);
}

/* ---- Convolutions ---------------------------------------------------------------------------------------------------- */

struct conv {
    enum ingot_dtype dtype;
    int64_t size[4]; /* N, H, W, C; negative: symbols */
    int64_t out, kernel, stride, dilation, groups, border;
    int64_t usual; /* images, if not 0 */
    bool dynamic_weights, on_gpu, with_vnni;
    int m; /* expected */
};

static ig_value build(struct ig_graph *g, const struct conv *c, int m) {
    struct ig_type type = sized_type(g, c->dtype, 4, c->size);
    const int64_t dims[] = {c->out, c->size[3] / c->groups, c->kernel, c->kernel};
    bool bytes = c->dtype == INGOT_U8 || c->dtype == INGOT_I8;
    struct ig_type weight = sized_type(g, c->dtype, 4, dims);
    ig_value x = ig_build_input(g, "x", &type);
    ig_value w = c->dynamic_weights ? ig_build_input(g, "w", &weight)
                                    : random_constant(g, bytes ? INGOT_I16 : c->dtype, 4, dims, 3);
    if (bytes) /* most are extremes */
        w = ig_build_cast_saturating(g, ig_map2(g, IG_OP_mul, w, ig_build_scalar_int(g, INGOT_I16, 100)), INGOT_I8);
    if (c->usual) ig_dim_set_usual(g->dims, ig_dim_symbol(g->dims, "s0"), c->usual);
    const int64_t kernel[] = {c->kernel, c->kernel}, strides[] = {c->stride, c->stride},
                  dilations[] = {c->dilation, c->dilation};
    const ig_dim border[] = {ig_dim_const(g->dims, c->border), ig_dim_const(g->dims, c->border)};
    const struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2),
                                    ig_attr_of_ints(dilations, 2),
                                    ig_attr_of_dims(border, 2),
                                    ig_attr_of_dims(border, 2),
                                    ig_attr_of_int(c->groups),
                                    ig_attr_of_dtype(bytes ? INGOT_I32 : c->dtype),
                                    ig_attr_of_int(1),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(c->out),
                                    ig_attr_of_ints(kernel, 2),
                                    ig_attr_of_int(IG_MATH_EXACT),
                                    ig_attr_of_int(bytes ? 99 : 0)};
    ig_value filters = m == 0 ? w : bytes ? ig_winograd_integer_filters(g, w) : ig_winograd_filters(g, w, m);
    const ig_value in[] = {x, filters};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_value y = ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none);
    ig_build_output(g, "y", y);
    return y;
}

#define OTHER(type, k, s, d, g) .dtype = type, .kernel = k, .stride = s, .dilation = d, .groups = g, .border = 1
#define SIZES(n, h, w, i, o) .size = {n, h, w, i}, .out = o
#define CONV(n, h, w, i, o) OTHER(INGOT_F32, 3, 1, 1, 1), SIZES(n, h, w, i, o)

/* By the reference, a convolution with transformed filters gives the same results as that with the filters. */
static void check_results(struct ig_job *job, void *argument) {
    static const struct conv convs[] = {{CONV(2, 7, 9, 5, 6)}, {CONV(1, 1, 1, 3, 2)}, {CONV(1, 4, 12, 1, 1)}};
    (void)argument;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        struct ingot_tensor x = {INGOT_F32, 4, {0}, NULL, INGOT_HOST}, expected, found;
        for (int axis = 0; axis < 4; axis++)
            x.dims[axis] = convs[i].size[axis];
        int64_t count = ingot_tensor_elements(&x);
        float *numbers = x.data = ig_alloc(job, (size_t)count * sizeof *numbers);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (float)(k * 37 % 101) / 50 - 1;
        for (int m = 2; m <= 4; m += 2) {
            struct ig_graph *direct = ig_graph_create(job, ig_dims_create(job)),
                            *transformed = ig_graph_create(job, ig_dims_create(job));
            build(direct, &convs[i], 0);
            ig_value y = build(transformed, &convs[i], m);
            assert_int_equal(ig_winograd_of(direct, ig_def(direct, direct->outputs.at[0].value)), 0);
            assert_int_equal(ig_winograd_of(transformed, ig_def(transformed, y)), m);
            ig_eval_graph(job, direct, &x, &expected);
            ig_eval_graph(job, transformed, &x, &found);
            assert_int_equal(ingot_tensor_elements(&expected), ingot_tensor_elements(&found));
            for (int64_t k = 0; k < ingot_tensor_elements(&expected); k++)
                assert_true(fabsf(((float *)expected.data)[k] - ((float *)found.data)[k]) < 5e-6f);
            ig_eval_release(job, &expected);
            ig_eval_release(job, &found);
        }
    }
}

/* The same of bytes, exactly. */
static void check_bytes(struct ig_job *job, void *argument) {
    static const struct conv convs[] = {{OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(2, 7, 9, 6, 5)},
                                        {OTHER(INGOT_I8, 3, 1, 2, 1), SIZES(1, 5, 4, 2, 3)},
                                        {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 3, 3, IG_WINOGRAD_CHANNELS - 1, 2)}};
    (void)argument;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        struct ingot_tensor x = {convs[i].dtype, 4, {0}, NULL, INGOT_HOST}, expected, found;
        for (int axis = 0; axis < 4; axis++)
            x.dims[axis] = convs[i].size[axis];
        int64_t count = ingot_tensor_elements(&x);
        uint8_t *numbers = x.data = ig_alloc(job, (size_t)count);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (uint8_t)(k % 5 == 0 ? 128 : k * 37 % 3 == 0 ? 0 : 255);
        struct ig_graph *direct = ig_graph_create(job, ig_dims_create(job)),
                        *transformed = ig_graph_create(job, ig_dims_create(job));
        build(direct, &convs[i], 0);
        assert_int_equal(ig_winograd_of(transformed, ig_def(transformed, build(transformed, &convs[i], 2))), 2);
        ig_eval_graph(job, direct, &x, &expected);
        ig_eval_graph(job, transformed, &x, &found);
        assert_int_equal(found.dtype, INGOT_I32);
        assert_memory_equal(expected.data, found.data, (size_t)ingot_tensor_elements(&expected) * sizeof(int32_t));
        ig_eval_release(job, &expected);
        ig_eval_release(job, &found);
    }
}

static void test_results(void **state) {
    (void)state;
    in_job(check_results);
    in_job(check_bytes);
}

/* ---- The pass -------------------------------------------------------------------------------------------------------- */

static const struct conv choices[] = {
    {CONV(1, 56, 56, 64, 64), .m = 4},
    {CONV(-1, 56, 56, 64, 64), .m = 4},
    {CONV(1, 14, 14, 256, 256), .m = 2}, /* weights from memory count */
    {CONV(1, 7, 7, 512, 512), .m = 2},
    {CONV(-1, 7, 7, 512, 512), .m = 2},
    {CONV(-1, 7, 7, 512, 512), .usual = 8, .m = 4}, /* shared by more positions */
    {CONV(1, 1, 1, 512, 512), .m = 0},              /* no more than one position of a tile */
    {CONV(1, 56, 56, 1, 1), .m = 0},                /* the transforms cost more than the products */
    {CONV(1, -2, 56, 64, 64), .m = 0},
    {OTHER(INGOT_F32, 3, 2, 1, 1), SIZES(1, 56, 56, 64, 64), .m = 0},
    {OTHER(INGOT_F32, 3, 1, 2, 1), SIZES(1, 56, 56, 64, 64), .m = 4},  /* four images of 28x28 */
    {OTHER(INGOT_F32, 3, 1, 24, 1), SIZES(1, 56, 56, 64, 64), .m = 0}, /* no more than one position of a tile */
    {OTHER(INGOT_F32, 3, 1, 1, 2), SIZES(1, 56, 56, 64, 64), .m = 0},
    {OTHER(INGOT_F32, 5, 1, 1, 1), SIZES(1, 56, 56, 64, 64), .m = 0},
    {OTHER(INGOT_F64, 3, 1, 1, 1), SIZES(1, 56, 56, 64, 64), .m = 0},
    {CONV(1, 56, 56, 64, 64), .dynamic_weights = true, .m = 0},
    {CONV(1, 56, 56, 64, 64), .on_gpu = true, .m = 0},
    {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 28, 28, 128, 128), .m = 2},
    {OTHER(INGOT_I8, 3, 1, 1, 1), SIZES(1, 28, 28, 128, 128), .m = 2},
    {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 28, 28, 128, 128), .with_vnni = true, .m = 0},
    {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 28, 28, 127, 128), .m = 0}, /* channels are multiplied in pairs */
    {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 28, 28, 2 * (IG_WINOGRAD_CHANNELS / 2 + 1), 8), .m = 0}, /* too large sums */
    {OTHER(INGOT_U8, 3, 1, 1, 1), SIZES(1, 28, 28, 128, 128), .on_gpu = true, .m = 0},
};

static void check_choices(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct conv *c = &choices[i];
        const struct ig_pass_options options = {.target = c->on_gpu ? &gpu : c->with_vnni ? &vnni : &cpu};
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        build(g, c, 0);
        g = passes_named(g, "winograd pack", &options);
        const struct ig_node *conv = ig_def(g, g->outputs.at[0].value);
        if (ig_winograd_of(g, conv) != c->m) fail_msg("convolution %zu: m = %d", i, ig_winograd_of(g, conv));
        if (!c->dynamic_weights) assert_true(ig_info(g, conv->in[1])->is_refittable);
        const int64_t again = ig_attr_int(g, conv, IG_ATTR_packed);
        g = passes_named(g, "winograd", &options); /* nothing is transformed twice */
        assert_int_equal(ig_attr_int(g, ig_def(g, g->outputs.at[0].value), IG_ATTR_packed), again);
    }
}

static void test_choices(void **state) {
    (void)state;
    in_job(check_choices);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
