/* Images between convolutions get whole loads of channels on GPUs (pass/product/pad_channels.c): the results stay, bit by bit. */
#include "ir/eval/eval.h"
#include "ir/graph.h"
#include "pass/pass.h"
#include "support/check/graph_check.h"
#include "support/check/passes.h"
#include "support/support.h"

static const struct ig_target cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};

/* A convolution to `out` channels with a bias, and half-precision results. */
static ig_value conv(struct ig_graph *g, ig_value x, int64_t out, int64_t kernel, int64_t groups) {
    int64_t channels = 0;
    assert_true(ig_dim_is_const(g->dims, ig_type_of(g, x)->dim[3], &channels));
    const int64_t dims[] = {out, channels / groups, kernel, kernel}, kernels[] = {kernel, kernel}, ones[] = {1, 1};
    const ig_dim border[] = {ig_dim_const(g->dims, kernel / 2), ig_dim_const(g->dims, kernel / 2)};
    const struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                                    ig_attr_of_ints(ones, 2),
                                    ig_attr_of_dims(border, 2),
                                    ig_attr_of_dims(border, 2),
                                    ig_attr_of_int(groups),
                                    ig_attr_of_dtype(INGOT_F32),
                                    ig_attr_of_int(1),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(out),
                                    ig_attr_of_ints(kernels, 2),
                                    ig_attr_of_int(IG_MATH_EXACT),
                                    ig_attr_of_int(0)};
    enum ingot_dtype dtype = ig_type_of(g, x)->dtype;
    const ig_value in[] = {x, random_constant(g, dtype, 4, dims, (uint32_t)out),
                           random_constant(g, INGOT_F32, 1, &out, 7)};
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_build_cast(g, ig_build_node(g, IG_OP_conv, in, 3, 1, attrs, none), dtype);
}

/* Two convolutions beside which their input passes, as of a residual network; the input is computed otherwise. */
static ig_value residual(struct ig_graph *g, ig_value x) {
    ig_value zero = ig_build_scalar(g, ig_type_of(g, x)->dtype, 0);
    ig_value first = ig_map2(g, IG_OP_max, conv(g, x, 18, 3, 1), zero);
    return conv(g, ig_map2(g, IG_OP_add, conv(g, first, 18, 3, 1), x), 18, 3, 1);
}

/* A factor for each channel of each image, one for each image, and a number for each channel. */
static ig_value gated(struct ig_graph *g, ig_value x) {
    const int64_t channels = 18;
    const ig_value halves[] = {ig_build_slice_axis(g, x, 3, ig_dim_const(g->dims, 0), ig_dim_const(g->dims, 1), 1),
                               ig_build_slice_axis(g, x, 1, ig_dim_const(g->dims, 0), ig_dim_const(g->dims, 1), 1)};
    ig_value y = ig_map2(g, IG_OP_mul, conv(g, x, 18, 1, 1), ig_map1(g, IG_OP_sigmoid, halves[0]));
    y = ig_map2(g, IG_OP_mul, y, ig_map1(g, IG_OP_tanh, halves[1]));
    y = ig_map2(g, IG_OP_sub, y, random_constant(g, INGOT_F16, 1, &channels, 5));
    return conv(g, y, 11, 1, 1);
}

/* What reads a padded value otherwise reads its numbers alone. */
static ig_value also_joined(struct ig_graph *g, ig_value x) {
    ig_value y = conv(g, x, 26, 3, 1);
    const ig_value parts[] = {y, conv(g, y, 6, 3, 1)};
    return ig_build_concat(g, parts, 2, 3);
}

/* Between convolutions the rows and columns are one axis. */
static ig_value reshaped(struct ig_graph *g, ig_value x) {
    ig_value y = conv(g, x, 18, 3, 1);
    const struct ig_type type = *ig_type_of(g, y);
    ig_dim places = ig_dim_mul(g->dims, type.dim[1], type.dim[2]), one = ig_dim_const(g->dims, 1);
    y = ig_build_reshape(g, y, (const ig_dim[]){type.dim[0], places, one, type.dim[3]}, 4);
    return conv(g, ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F16, 0)), 8, 3, 1);
}

/* A division of zeros is no number; it may only be padded afterwards. */
static ig_value divided(struct ig_graph *g, ig_value x) {
    ig_value y = conv(g, x, 18, 3, 1);
    return conv(g, ig_map2(g, IG_OP_div, y, ig_map1(g, IG_OP_abs, y)), 8, 3, 1);
}

/* Depthwise, and then one position a window: padding would be a copy. */
static ig_value depthwise(struct ig_graph *g, ig_value x) {
    return conv(g, conv(g, x, 18, 3, 18), 8, 1, 1);
}

/* Factors of channels. */
static ig_value squeezed(struct ig_graph *g, ig_value x) {
    const int64_t axes[] = {1, 2};
    const ig_dim one = ig_dim_const(g->dims, 1);
    ig_dim dims[] = {ig_type_of(g, x)->dim[0], one, one, ig_type_of(g, x)->dim[3]};
    ig_value largest = ig_build_reshape(g, ig_build_reduce(g, IG_OP_reduce_max, x, axes, 2), dims, 4);
    return ig_map2(g, IG_OP_mul, x, conv(g, conv(g, largest, 14, 1, 1), 8, 1, 1));
}

static ig_value plain(struct ig_graph *g, ig_value x) {
    return conv(g, conv(g, x, 16, 3, 1), 8, 3, 1);
}

static const struct network {
    ig_value (*build)(struct ig_graph *g, ig_value x);
    int64_t channels;
    enum ingot_dtype dtype;
    const struct ig_target *target;
    int uneven, left; /* convolutions of no whole loads of channels, before and after */
} networks[] = {
    {residual, 18, INGOT_F16, &gpu, 3, 0},    {residual, 18, INGOT_BF16, &gpu, 3, 0},
    {residual, 18, INGOT_F16, &cpu, 3, 3},    {residual, 18, INGOT_F32, &gpu, 3, 3},
    {gated, 18, INGOT_F16, &gpu, 2, 1},       {also_joined, 5, INGOT_F16, &gpu, 2, 1},
    {divided, 8, INGOT_F16, &gpu, 1, 0},      {depthwise, 18, INGOT_F16, &gpu, 2, 2},
    {plain, 8, INGOT_F16, &gpu, 0, 0},        {squeezed, 8, INGOT_F16, &gpu, 1, 1},
    {also_joined, 18, INGOT_F16, &gpu, 2, 0}, {also_joined, 8, INGOT_F16, &gpu, 1, 0},
    {reshaped, 8, INGOT_F16, &gpu, 1, 0},
};

static int uneven(struct ig_graph *g) {
    int found = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        int64_t channels = 0;
        if (n->op != IG_OP_conv) continue;
        assert_true(ig_dim_is_const(g->dims, ig_type_of(g, n->in[0])->dim[3], &channels));
        found += channels % 8 != 0;
    }
    return found;
}

static void check_network(struct ig_job *job, const struct network *network) {
    const struct ig_pass_options options = {.target = network->target};
    const int64_t sizes[] = {2, 5, 6, network->channels};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_type type = sized_type(g, INGOT_F32, 4, sizes);
    ig_value x = ig_build_input(g, "x", &type);
    ig_build_output(g, "y", network->build(g, ig_build_cast(g, x, network->dtype)));
    struct ig_graph *after = passes_named(g, "pad-channels", &options);
    assert_int_equal(uneven(g), network->uneven);
    assert_int_equal(uneven(after), network->left);
    struct ingot_tensor input = {INGOT_F32, 4, {2, 5, 6, network->channels}, NULL, INGOT_HOST}, expected, found;
    float *numbers = input.data = ig_alloc(job, (size_t)ingot_tensor_elements(&input) * sizeof *numbers);
    for (int64_t i = 0; i < ingot_tensor_elements(&input); i++)
        numbers[i] = (float)(i * 37 % 101) / 50 - 1;
    ig_eval_graph(job, g, &input, &expected);
    ig_eval_graph(job, after, &input, &found);
    assert_int_equal(ingot_tensor_elements(&expected), ingot_tensor_elements(&found));
    assert_memory_equal(expected.data, found.data,
                        (size_t)ingot_tensor_elements(&expected) * ingot_dtype_size(network->dtype));
    ig_eval_release(job, &expected);
    ig_eval_release(job, &found);
}

static void check_networks(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        check_network(job, &networks[i]);
}

static void test_networks(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    (void)state;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_networks, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
