/*
 * What the pass `integers` makes of quantised graphs: the operators that are left, and results that differ from the literal
 * ones by a step at most.
 */
#include <math.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "support/check/apply.h"
#include "support/check/graph_check.h"
#include "support/check/passes.h"
#include "support/random/random_quantized.h"
#include "support/support.h"

static const struct ig_target cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};

struct fixture {
    struct ig_graph *g;
    ig_value x; /* f32[2,4,6,5] */
};

static ig_value number(struct fixture *f, double value) {
    return ig_build_scalar(f->g, INGOT_F32, value);
}

static ig_value quantize(struct fixture *f, ig_value x, double scale, enum ingot_dtype dtype, int64_t zero) {
    ig_value in[] = {x, number(f, scale), ig_build_scalar_int(f->g, dtype, zero)};
    return apply(f->g, "QuantizeLinear", in, 3, NULL);
}

static ig_value dequantize(struct fixture *f, ig_value q, double scale, int64_t zero) {
    ig_value in[] = {q, number(f, scale), ig_build_scalar_int(f->g, ig_type_of(f->g, q)->dtype, zero)};
    return apply(f->g, "DequantizeLinear", in, 3, NULL);
}

static ig_value trip(struct fixture *f, ig_value x, double scale, enum ingot_dtype dtype, int64_t zero) {
    return dequantize(f, quantize(f, x, scale, dtype, zero), scale, zero);
}

/* Weights of 1/64, [6,4,3,3] by default. */
static ig_value weights(struct fixture *f, int rank, const int64_t *dims, enum ingot_dtype dtype, int64_t zero) {
    return trip(f, random_constant(f->g, INGOT_F32, rank, dims, 7), 1.0 / 64, dtype, zero);
}

static ig_value bias(struct fixture *f, int64_t n, double scale) {
    return dequantize(f, ig_build_cast(f->g, random_constant(f->g, INGOT_I8, 1, &n, 5), INGOT_I32), scale, 0);
}

static ig_value convolve(struct fixture *f, ig_value x, ig_value w, ig_value b) {
    static const int64_t pads[] = {1, 1, 1, 1};
    const struct ingot_attribute attributes[] = {attribute_ints("pads", pads, 4), {0}};
    return apply(f->g, "Conv", (ig_value[]){x, w, b}, b == IG_NO_VALUE ? 2 : 3, attributes);
}

static const int64_t filters[] = {6, 4, 3, 3};

static ig_value plain(struct fixture *f) {
    return convolve(f, trip(f, f->x, 1.0 / 32, INGOT_U8, 114), weights(f, 4, filters, INGOT_I8, 0), IG_NO_VALUE);
}

static ig_value conv(struct fixture *f) {
    return quantize(f, plain(f), 0.05, INGOT_U8, 100);
}

static ig_value conv_of_i8(struct fixture *f) {
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_I8, -3);
    x = trip(f, convolve(f, x, weights(f, 4, filters, INGOT_I8, 0), bias(f, 6, 1.0 / 2048)), 0.05, INGOT_I8, 7);
    return quantize(f, ig_map2(f->g, IG_OP_max, x, number(f, 0)), 0.05, INGOT_I8, 7);
}

static ig_value conv_and_float_bias(struct fixture *f) {
    static const int64_t n = 6;
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 0);
    x = convolve(f, x, weights(f, 4, filters, INGOT_U8, 128), random_constant(f->g, INGOT_F32, 1, &n, 9));
    return quantize(f, x, 0.05, INGOT_U8, 100);
}

static ig_value conv_of_odd_weights(struct fixture *f) {
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 9);
    return quantize(f, convolve(f, x, weights(f, 4, filters, INGOT_U8, 120), IG_NO_VALUE), 0.05, INGOT_U8, 100);
}

/* Values of 250 less 3 fit no i8. */
static ig_value wide_weights(struct fixture *f, const int64_t *dims) {
    ig_value w = ig_build_cast(f->g, random_constant(f->g, INGOT_I8, 4, dims, 3), INGOT_U8);
    return dequantize(f, w, 1.0 / 64, 3);
}

static ig_value conv_of_wide_weights(struct fixture *f) {
    ig_value w = wide_weights(f, filters);
    return quantize(f, convolve(f, trip(f, f->x, 1.0 / 32, INGOT_U8, 9), w, IG_NO_VALUE), 0.5, INGOT_U8, 100);
}

static ig_value grouped(struct fixture *f, int64_t groups) {
    static const int64_t pads[] = {1, 1, 1, 1};
    const int64_t dims[] = {4, 4 / groups, 3, 3};
    const struct ingot_attribute attributes[] = {
        attribute_ints("pads", pads, 4), {.name = "group", .kind = INGOT_ATTRIBUTE_INT, .i = groups}, {0}};
    const ig_value in[] = {trip(f, f->x, 1.0 / 32, INGOT_I8, 9), wide_weights(f, dims)};
    return quantize(f, apply(f->g, "Conv", in, 2, attributes), 0.5, INGOT_U8, 100);
}

static ig_value depthwise_of_wide_weights(struct fixture *f) {
    return grouped(f, 4);
}

static ig_value groups_of_wide_weights(struct fixture *f) {
    return grouped(f, 2);
}

static ig_value matmul(struct fixture *f) {
    static const int64_t dims[] = {5, 7}, n = 7;
    ig_value y =
        ig_build_matmul(f->g, trip(f, f->x, 1.0 / 32, INGOT_U8, 9), weights(f, 2, dims, INGOT_I8, 0), INGOT_F32);
    y = ig_map2(f->g, IG_OP_add, y, bias(f, n, 1.0 / 2048));
    return quantize(f, y, 0.02, INGOT_U8, 100);
}

static ig_value matmul_of_activations(struct fixture *f) {
    ig_value a = trip(f, f->x, 1.0 / 32, INGOT_U8, 9), b = ig_build_transpose(f->g, a, (const int64_t[]){0, 1, 3, 2});
    return quantize(f, ig_build_matmul(f->g, a, b, INGOT_F32), 0.05, INGOT_U8, 100);
}

static ig_value residual(struct fixture *f) {
    static const int64_t square[] = {4, 4, 3, 3};
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 114);
    ig_value y = convolve(f, x, weights(f, 4, square, INGOT_I8, 0), IG_NO_VALUE);
    return quantize(f, ig_map2(f->g, IG_OP_max, ig_map2(f->g, IG_OP_add, y, x), number(f, 0)), 0.05, INGOT_U8, 0);
}

static ig_value same_scales(struct fixture *f) {
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 114);
    x = ig_build_transpose(f->g, x, (const int64_t[]){0, 2, 3, 1});
    return quantize(f, x, 1.0 / 32, INGOT_U8, 114);
}

static ig_value other_scales(struct fixture *f) {
    return quantize(f, trip(f, f->x, 1.0 / 32, INGOT_U8, 114), 1.0 / 16, INGOT_U8, 114);
}

static ig_value sigmoid(struct fixture *f) {
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 114);
    x = trip(f, ig_map1(f->g, IG_OP_sigmoid, x), 1.0 / 256, INGOT_U8, 0);
    return quantize(f, x, 1.0 / 256, INGOT_U8, 0);
}

/* x * sigmoid(x) / 2, quantised in between: one table, though nothing behind the first is inexact. */
static ig_value silu(struct fixture *f) {
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_I8, 0);
    ig_value y = trip(f, ig_map1(f->g, IG_OP_sigmoid, x), 1.0 / 256, INGOT_U8, 0);
    y = trip(f, ig_map2(f->g, IG_OP_mul, x, y), 1.0 / 64, INGOT_I8, 3);
    return quantize(f, ig_map2(f->g, IG_OP_mul, y, number(f, 0.5)), 1.0 / 64, INGOT_I8, 0);
}

static ig_value concat(struct fixture *f) {
    ig_value parts[] = {trip(f, f->x, 1.0 / 32, INGOT_U8, 114), trip(f, f->x, 1.0 / 16, INGOT_U8, 100)};
    return quantize(f, ig_build_concat(f->g, parts, 2, 1), 1.0 / 32, INGOT_U8, 114);
}

static ig_value pools(struct fixture *f) {
    static const int64_t kernel[] = {2, 2}, axes[] = {2, 3};
    const struct ingot_attribute attributes[] = {attribute_ints("kernel_shape", kernel, 2), {0}};
    ig_value x = trip(f, f->x, 1.0 / 32, INGOT_U8, 114), y = apply(f->g, "MaxPool", &x, 1, attributes);
    y = apply(f->g, "AveragePool", &y, 1, attributes);
    y = trip(f, y, 1.0 / 32, INGOT_U8, 114);
    return quantize(f, ig_build_reduce(f->g, IG_OP_reduce_mean, y, axes, 2), 1.0 / 32, INGOT_U8, 114);
}

/* clip(round(x / s) + z) less z, times s, in f32 */
static ig_value decomposed(struct fixture *f) {
    struct ig_graph *g = f->g;
    ig_value y = ig_map1(g, IG_OP_round, ig_map2(g, IG_OP_mul, f->x, number(f, 32)));
    y = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_add, y, number(f, 5)), number(f, -127));
    y = ig_map2(g, IG_OP_sub, ig_map2(g, IG_OP_min, y, number(f, 127)), number(f, 5));
    y = ig_map2(g, IG_OP_mul, y, number(f, 1.0 / 32));
    return quantize(f, convolve(f, y, weights(f, 4, filters, INGOT_I8, 0), IG_NO_VALUE), 0.05, INGOT_U8, 100);
}

/* Bounds that are no integers, or too far apart: nothing to find. */
static ig_value no_bytes(struct fixture *f) {
    struct ig_graph *g = f->g;
    ig_value y = ig_map1(g, IG_OP_round, ig_map2(g, IG_OP_mul, f->x, number(f, 32)));
    y = ig_map2(g, IG_OP_min, ig_map2(g, IG_OP_max, y, number(f, -200)), number(f, 200));
    return convolve(f, ig_map2(g, IG_OP_mul, y, number(f, 1.0 / 32)), weights(f, 4, filters, INGOT_I8, 0), IG_NO_VALUE);
}

static ig_value unquantised(struct fixture *f) {
    return quantize(f, convolve(f, f->x, weights(f, 4, filters, INGOT_I8, 0), IG_NO_VALUE), 0.05, INGOT_U8, 100);
}

#define Q "div round add cast "
#define DONE "cast mul round add cast"

static const struct {
    const char *name;
    ig_value (*build)(struct fixture *f);
    const char *left; /* the operators that run, in order */
    double step;      /* the largest difference from the literal result */
    const struct ig_target *target;
} cases[] = {
    {"conv", conv, Q "conv add " DONE, 1, &cpu},
    {"conv of floats", plain, Q "conv add cast mul", 1e-5, &cpu},
    {"conv of i8", conv_of_i8, Q "conv add " DONE " max bitxor cast", 1, &cpu},
    {"conv of i8 on a GPU", conv_of_i8, Q "conv add " DONE " max bitxor cast", 1, &gpu},
    {"conv and a bias of f32", conv_and_float_bias, Q "conv cast mul add round add cast", 1, &cpu},
    {"conv of weights that fit", conv_of_odd_weights, Q "conv add " DONE, 1, &cpu},
    {"conv of weights that do not", conv_of_wide_weights, Q "conv cast sub reduce_sum pool_sum mul add add " DONE, 1,
     &cpu},
    {"depthwise conv of weights that do not", depthwise_of_wide_weights, Q "conv cast sub pool_sum mul add add " DONE,
     1, &cpu},
    {"groups of weights that do not", groups_of_wide_weights, Q "cast sub mul conv " Q, 0, &cpu},
    {"matmul", matmul, Q "matmul add " DONE, 1, &cpu},
    {"matmul of activations", matmul_of_activations,
     Q "transpose bitxor cast matmul cast reduce_sum mul cast reduce_sum mul add add add " DONE, 1, &cpu},
    {"residual", residual, Q "cast sub conv add cast mul mul add round cast", 1, &cpu},
    {"the same scale", same_scales, Q "transpose", 0, &cpu},
    {"another scale", other_scales, Q "cast sub mul round add cast", 0, &cpu},
    {"sigmoid", sigmoid, Q "cast gather", 0, &cpu},
    {"silu", silu, Q "cast gather bitxor cast", 0, &cpu},
    {"concat", concat, Q Q "cast sub mul round add cast concat", 0, &cpu},
    {"pools", pools, Q "pool_max cast sub pool_sum " DONE " cast reduce_sum sub " DONE, 1, &cpu},
    {"decomposed", decomposed, "mul round add cast max conv add " DONE, 1, &cpu},
    {"no bytes", no_bytes, "mul round max min mul conv", 0, &cpu},
    {"not quantised", unquantised, "conv div round add cast", 0, &cpu},
};

/* ---- Checks ---- */

static const char *operators_of(struct ig_graph *g) {
    struct ig_text text;
    ig_text_init(&text, g->job);
    ig_text_add(&text, "");
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (!ig_info(g, n->out)->is_const)
            ig_text_printf(&text, "%s%s", text.length ? " " : "", ig_op_info(n->op)->name);
    }
    return text.at;
}

static int wrong; /* cases; all are tried */

static void check_case(struct ig_job *job, void *argument) {
    size_t at = *(const size_t *)argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct ig_type type = sized_type(g, INGOT_F32, 4, (const int64_t[]){2, 4, 6, 5});
    struct fixture f = {g, ig_build_input(g, "x", &type)};
    ig_build_output(g, "y", cases[at].build(&f));
    const struct ig_pass_options options = {.target = cases[at].target};
    struct ig_graph *after = passes_named(g, "integers", &options);
    const char *found = operators_of(after);
    size_t length = strlen(cases[at].left);
    while (length && cases[at].left[length - 1] == ' ')
        length--;
    if (strlen(found) != length || strncmp(found, cases[at].left, length) != 0)
        wrong++, print_error("%s: found %s, expected %s\n", cases[at].name, found, cases[at].left);
    float numbers[240];
    for (int i = 0; i < 240; i++)
        numbers[i] = (float)((i * 37) % 241 - 120) / 30;
    struct ingot_tensor x = {.dtype = INGOT_F32, .rank = 4, .dims = {2, 4, 6, 5}, .data = numbers}, want, got;
    ig_eval_graph(job, g, &x, &want);
    ig_eval_graph(job, after, &x, &got);
    for (int64_t i = 0; i < ingot_tensor_elements(&want); i++) {
        double a = ig_load_f64(want.dtype, want.data, i), b = ig_load_f64(got.dtype, got.data, i);
        if (!(fabs(a - b) <= cases[at].step))
            wrong++, print_error("%s: element %d was %g, is %g\n", cases[at].name, (int)i, a, b);
    }
    ig_eval_release(job, &want);
    ig_eval_release(job, &got);
}

static void in_job(void (*body)(struct ig_job *job, void *argument), void *argument) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void rewrites(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        in_job(check_case, &i);
    assert_int_equal(wrong, 0);
}

/* Zero points of a second operand, all that is known of whose number is a symbol: one for all columns, or one for each. */
static void check_zeros(struct ig_job *job, void *argument) {
    enum { ROWS = 3, DEPTH = 8, COLUMNS = 6 };
    (void)argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct ig_type first = sized_type(g, INGOT_U8, 2, (const int64_t[]){ROWS, DEPTH}),
                         second = sized_type(g, INGOT_I8, 2, (const int64_t[]){DEPTH, COLUMNS});
    struct ig_type zeros = {.dtype = INGOT_I8, .rank = 1, .dim = {ig_dim_symbol(g->dims, "C")}};
    ig_value a = ig_build_input(g, "a", &first), b = ig_build_input(g, "b", &second),
             z = ig_build_input(g, "z", &zeros);
    ig_build_output(g, "y",
                    apply(g, "MatMulInteger", (ig_value[]){a, b, ig_build_scalar_int(g, INGOT_U8, 9), z}, 4, NULL));
    const struct ig_pass_options options = {.target = &cpu};
    struct ig_graph *after = passes_named(g, "integers", &options);
    for (ig_node_id id = 0; id < after->nodes.count; id++) {
        const struct ig_node *n = &after->nodes.at[id];
        if (n->op == IG_OP_matmul) assert_int_equal(ig_type_of(after, n->in[1])->dtype, INGOT_I8);
    }
    uint8_t x[ROWS * DEPTH];
    int8_t w[DEPTH * COLUMNS];
    static int8_t zero[COLUMNS] = {-128, 0, 3, 127, -5, 64};
    for (int i = 0; i < ROWS * DEPTH; i++)
        x[i] = (uint8_t)(i * 53);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        w[i] = (int8_t)(i * 71);
    for (int64_t count = 1; count <= COLUMNS; count += COLUMNS - 1) {
        const struct ingot_tensor in[] = {{.dtype = INGOT_U8, .rank = 2, .dims = {ROWS, DEPTH}, .data = x},
                                          {.dtype = INGOT_I8, .rank = 2, .dims = {DEPTH, COLUMNS}, .data = w},
                                          {.dtype = INGOT_I8, .rank = 1, .dims = {count}, .data = zero}};
        struct ingot_tensor want, got;
        ig_eval_graph(job, g, in, &want);
        ig_eval_graph(job, after, in, &got);
        assert_memory_equal(got.data, want.data, sizeof(int32_t) * ROWS * COLUMNS);
        ig_eval_release(job, &want);
        ig_eval_release(job, &got);
    }
}

/* Bytes that only inputs have. */
static void check_inputs(struct ig_job *job, void *argument) {
    (void)argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct ig_type first = sized_type(g, INGOT_I8, 2, (const int64_t[]){3, 8}),
                         second = sized_type(g, INGOT_I8, 2, (const int64_t[]){8, 6});
    ig_value in[] = {ig_build_input(g, "a", &first), ig_build_input(g, "b", &second)};
    ig_build_output(g, "y", apply(g, "MatMulInteger", in, 2, NULL));
    const struct ig_pass_options options = {.target = &gpu};
    assert_string_equal(operators_of(passes_named(g, "integers", &options)), "matmul");
}

static void bytes_of_inputs(void **state) {
    (void)state;
    in_job(check_inputs, NULL);
}

static void zeros_of_unknown_number(void **state) {
    (void)state;
    in_job(check_zeros, NULL);
}

/* Between kernels there are bytes only, even if a later one adds them up dequantised. */
static void check_bytes(struct ig_job *job, void *argument) {
    static const int64_t square[] = {4, 4, 3, 3};
    (void)argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const struct ig_type type = sized_type(g, INGOT_F32, 4, (const int64_t[]){2, 4, 6, 5});
    struct fixture f = {g, ig_build_input(g, "x", &type)};
    ig_value x = trip(&f, f.x, 1.0 / 32, INGOT_U8, 114), y = x;
    for (int i = 0; i < 3; i++) {
        y = trip(&f, convolve(&f, x, weights(&f, 4, square, INGOT_I8, 0), IG_NO_VALUE), 0.05, INGOT_U8, 100 + i);
        y = trip(&f, convolve(&f, y, weights(&f, 4, square, INGOT_I8, 0), IG_NO_VALUE), 0.07, INGOT_U8, 90 + i);
        x = trip(&f, ig_map2(g, IG_OP_add, x, y), 0.06, INGOT_U8, 117);
    }
    ig_build_output(g, "y", x);
    const struct ingot_build_options build = INGOT_BUILD_OPTIONS_INIT;
    const struct ig_pass_options options = {.target = &cpu};
    g = passes_of_build(g, &build, &options);
    uint32_t products = 0, floats = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        products += region->family == IG_FAMILY_CONTRACT;
        for (uint32_t i = 0; i < region->outputs.count; i++)
            floats += ig_type_of(g, region->outputs.at[i])->dtype != INGOT_U8;
    }
    assert_int_equal(products, 6);
    assert_int_equal(floats, 1); /* the result of the graph */
}

static void bytes_between_kernels(void **state) {
    (void)state;
    in_job(check_bytes, NULL);
}

/* Random networks stay valid graphs of the same types, whatever they contain. */
static void check_network(struct ig_job *job, void *argument) {
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    random_quantized_build(g, argument);
    const struct ig_pass_options options = {.target = &cpu};
    struct ig_graph *once = passes_named(g, "integers", &options);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        assert_true(ig_same_dims(ig_type_of(g, g->outputs.at[i].value), ig_type_of(once, once->outputs.at[i].value)));
}

static void networks(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 3000; seed++)
        in_job(check_network, &(struct random_quantized){seed});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rewrites), cmocka_unit_test(zeros_of_unknown_number),
                                       cmocka_unit_test(bytes_of_inputs), cmocka_unit_test(bytes_between_kernels),
                                       cmocka_unit_test(networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
