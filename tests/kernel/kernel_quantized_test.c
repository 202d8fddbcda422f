/*
 * Quantised operators, as the importer writes them, compiled: the same numbers as the reference evaluator's, without any tolerance
 * where results are integers.
 */
#include "base/narrow.h"
#include "support/check/apply.h"
#include "support/check/kernel_cases.h"

static ig_value number_of(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

static ig_value zero_of(struct ig_graph *g, enum ingot_dtype dtype, int64_t value) {
    return ig_narrow_is_float(dtype) ? ig_build_scalar_int(g, dtype, 0) : ig_build_scalar_int(g, dtype, value);
}

static const enum ingot_dtype quantized[] = {
    INGOT_I8, INGOT_U8,       INGOT_I16,    INGOT_U16,        INGOT_I4,         INGOT_U4,    INGOT_I2,
    INGOT_U2, INGOT_F8E4M3FN, INGOT_F8E5M2, INGOT_F8E4M3FNUZ, INGOT_F8E5M2FNUZ, INGOT_F4E2M1};
enum { QUANTIZED = sizeof quantized / sizeof *quantized };

/* ---- QuantizeLinear and DequantizeLinear ---- */

/* Per tensor, per axis, in blocks; of f32 and f16. */
static void build_quantize(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 33}, rows[] = {33}, blocks[] = {1, 5};
    ig_value x = input(g, "x", INGOT_F32, 2, sizes), half = input(g, "half", INGOT_F16, 2, sizes);
    ig_value one[] = {x, number_of(g, 0.1), zero_of(g, dtype, 1)};
    ig_build_output(g, "tensor", apply(g, "QuantizeLinear", one, 3, NULL));
    ig_value scale = ig_map2(g, IG_OP_add, random_constant(g, INGOT_F32, 1, rows, 1), number_of(g, 1.5));
    ig_value axis[] = {x, scale, ig_build_broadcast(g, zero_of(g, dtype, 1), (ig_dim[]){number(g, 33)}, 1)};
    ig_build_output(g, "axis", apply(g, "QuantizeLinear", axis, 3, NULL));
    ig_value narrow[] = {half, ig_build_scalar(g, INGOT_F16, 0.3), zero_of(g, dtype, 1)};
    ig_build_output(g, "half", apply(g, "QuantizeLinear", narrow, 3, NULL));
    ig_value scales = ig_map2(g, IG_OP_add, random_constant(g, INGOT_F32, 2, blocks, 2), number_of(g, 1.5));
    ig_dim all[] = {ig_type_of(g, x)->dim[0], number(g, 5)};
    scales = ig_build_broadcast(g, scales, all, 2);
    ig_value blocked[] = {x, scales, ig_build_broadcast(g, zero_of(g, dtype, 1), all, 2)};
    const struct ingot_attribute attributes[] = {attribute_int("block_size", 7), attribute_int("axis", 1), {0}};
    ig_build_output(g, "blocked", apply(g, "QuantizeLinear", blocked, 3, attributes));
}

static void build_dequantize(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 33}, rows[] = {33};
    ig_value x = input(g, "x", dtype, 2, sizes), zero = input(g, "zero", dtype, 1, rows);
    ig_value one[] = {x, number_of(g, 0.1), zero_of(g, dtype, 1)};
    ig_build_output(g, "tensor", apply(g, "DequantizeLinear", one, 3, NULL));
    ig_value axis[] = {x, random_constant(g, INGOT_F32, 1, rows, 1), zero};
    ig_build_output(g, "axis", apply(g, "DequantizeLinear", axis, 3, NULL));
    const struct ingot_attribute attributes[] = {attribute_int("output_dtype", 10), {0}};
    ig_build_output(g, "half", apply(g, "DequantizeLinear", one, 3, attributes));
}

/* ---- Microscaling formats and NVFP4: blocks with scales of 8 bits ---- */

/* Any scales, so every power of two, and NaN. */
static void build_powers(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 70}, scales[] = {-1, 3};
    ig_value in[] = {input(g, "x", INGOT_F32, 2, sizes), input(g, "scale", INGOT_F8E8M0, 2, scales), IG_NO_VALUE};
    in[2] = ig_build_broadcast(g, zero_of(g, dtype, 0), ig_type_of(g, in[1])->dim, 2);
    const struct ingot_attribute attributes[] = {
        attribute_int("block_size", 32), attribute_int("axis", -1), attribute_int("output_dtype", 0), {0}};
    ig_build_output(g, "quantized", apply(g, "QuantizeLinear", in, 3, attributes));
    const struct ingot_attribute to_f32[] = {
        attribute_int("block_size", 32), attribute_int("axis", -1), attribute_int("output_dtype", 1), {0}};
    in[0] = input(g, "q", dtype, 2, sizes);
    ig_build_output(g, "wide", apply(g, "DequantizeLinear", in, 3, to_f32));
    const struct ingot_attribute to_f16[] = {
        attribute_int("block_size", 32), attribute_int("axis", -1), attribute_int("output_dtype", 10), {0}};
    ig_build_output(g, "half", apply(g, "DequantizeLinear", in, 2, to_f16));
}

/* A quantiser of activations: the largest magnitude of each block of 16 or 32 becomes its scale, which is rounded down to a power
 * of two as "OCP Microscaling Formats" 1.0, 6.3, says, or to f8e4m3fn below one scale for all (NVFP4). */
static void build_quantizer(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 64}, last[] = {2}, all[] = {0, 1};
    bool fp4 = dtype == INGOT_F4E2M1;
    int64_t block = fp4 ? 16 : 32;
    ig_value x = input(g, "x", INGOT_F32, 2, sizes), scale;
    ig_dim rows = ig_type_of(g, x)->dim[0], blocks[] = {rows, number(g, 64 / block), number(g, block)};
    ig_value size = ig_map1(g, IG_OP_abs, x);
    ig_value most = ig_build_reduce(g, IG_OP_reduce_max, ig_build_reshape(g, size, blocks, 3), last, 1);
    most = ig_build_reshape(g, most, blocks, 2);
    if (fp4) {
        ig_value whole = ig_build_reshape(g, ig_build_reduce(g, IG_OP_reduce_max, size, all, 2), NULL, 0);
        whole = ig_map2(g, IG_OP_div, whole, number_of(g, 448 * 6));
        scale = ig_map2(g, IG_OP_div, ig_map2(g, IG_OP_div, most, number_of(g, 6)), whole);
        scale = ig_build_cast_saturating(g, scale, INGOT_F8E4M3FN);
        ig_build_output(g, "scale", scale);
        scale = apply(g, "DequantizeLinear", (ig_value[]){scale, whole}, 2, NULL);
    } else {
        double largest = dtype == INGOT_F8E5M2 ? 0x1p15 : 0x1p8;
        scale = ig_build_cast_saturating(g, ig_map2(g, IG_OP_div, most, number_of(g, largest)), INGOT_F8E8M0);
        ig_build_output(g, "scale", scale);
    }
    ig_value zero = ig_build_broadcast(g, zero_of(g, dtype, 0), ig_type_of(g, scale)->dim, 2);
    const struct ingot_attribute attributes[] = {
        attribute_int("block_size", block), attribute_int("axis", 1), attribute_int("output_dtype", fp4 ? 0 : 1), {0}};
    ig_value q = apply(g, "QuantizeLinear", (ig_value[]){x, scale, zero}, 3,
                       (struct ingot_attribute[]){attribute_int("block_size", block), attribute_int("axis", 1), {0}});
    ig_build_output(g, "q", q);
    ig_build_output(g, "back", apply(g, "DequantizeLinear", (ig_value[]){q, scale}, 2, attributes));
}

static void microscaling(void **state) {
    static const enum ingot_dtype formats[] = {INGOT_F8E4M3FN, INGOT_F8E5M2, INGOT_F4E2M1};
    (void)state;
    for (int t = 0; t < 3; t++) {
        add_case(ingot_dtype_name(formats[t]), build_powers, &formats[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
        add_case(ingot_dtype_name(formats[t]), build_quantizer, &formats[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
        add_case(ingot_dtype_name(formats[t]), build_quantizer, &formats[t], 0, GRAPH_EACH);
    }
    check_all();
}

static void quantization(void **state) {
    (void)state;
    for (int t = 0; t < QUANTIZED; t++) {
        add_case(ingot_dtype_name(quantized[t]), build_quantize, &quantized[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
        add_case(ingot_dtype_name(quantized[t]), build_dequantize, &quantized[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    }
    check_all();
}

/* ---- Operators on quantised operands ---- */

static void build_elementwise(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-4, 33};
    ig_value a = input(g, "a", dtype, 2, sizes), b = input(g, "b", dtype, 2, sizes);
    ig_value zeros[] = {zero_of(g, dtype, 3), zero_of(g, dtype, 100), zero_of(g, dtype, 7)};
    ig_value binary[] = {a,        number_of(g, 0.05), zeros[0], b, number_of(g, 0.03),
                         zeros[1], number_of(g, 0.07), zeros[2]};
    ig_build_output(g, "add", apply(g, "com.microsoft.QLinearAdd", binary, 8, NULL));
    ig_build_output(g, "mul", apply(g, "com.microsoft.QLinearMul", binary, 8, NULL));
    ig_value unary[] = {a, number_of(g, 0.05), zeros[0], number_of(g, 0.04), zeros[1]};
    const struct ingot_attribute leak[] = {{.name = "alpha", .kind = INGOT_ATTRIBUTE_FLOAT, .f = 0.1}, {0}};
    ig_build_output(g, "leaky", apply(g, "com.microsoft.QLinearLeakyRelu", unary, 5, leak));
    ig_value parts[] = {number_of(g, 0.04), zeros[1], a, number_of(g, 0.05), zeros[0], b, number_of(g, 0.03), zeros[2]};
    const struct ingot_attribute last[] = {attribute_int("axis", 1), {0}};
    ig_build_output(g, "concat", apply(g, "com.microsoft.QLinearConcat", parts, 8, last));
}

static void build_pools(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    static const int64_t sizes[] = {-1, 3, 9, 8}, kernel[] = {3, 2}, pads[] = {1, 0, 1, 1};
    ig_value x = input(g, "x", dtype, 4, sizes);
    ig_value unary[] = {x, number_of(g, 0.05), zero_of(g, dtype, 3), number_of(g, 0.02), zero_of(g, dtype, 100)};
    const struct ingot_attribute window[] = {
        {.name = "kernel_shape", .kind = INGOT_ATTRIBUTE_INTS, .ints = kernel, .count = 2},
        {.name = "pads", .kind = INGOT_ATTRIBUTE_INTS, .ints = pads, .count = 4},
        {0}};
    ig_build_output(g, "average", apply(g, "com.microsoft.QLinearAveragePool", unary, 5, window));
    ig_build_output(g, "global", apply(g, "com.microsoft.QLinearGlobalAveragePool", unary, 5, NULL));
}

/* Where a + b is 3 more than a multiple of 6, the result is a tie but for the roundings of two products, which a fused
 * multiply-add leaves out. */
static void build_ties(struct ig_graph *g, const void *argument) {
    (void)argument;
    static const int64_t sizes[] = {64, 256};
    ig_value a = input(g, "a", INGOT_U8, 2, sizes), b = input(g, "b", INGOT_U8, 2, sizes);
    ig_value zero = zero_of(g, INGOT_U8, 0);
    ig_value in[] = {a, number_of(g, 0.1), zero, b, number_of(g, 0.1), zero, number_of(g, 0.6), zero};
    ig_build_output(g, "add", apply(g, "com.microsoft.QLinearAdd", in, 8, NULL));
}

struct operands {
    enum ingot_dtype a, b;
};

static void build_products(struct ig_graph *g, const void *argument) {
    const struct operands *o = argument;
    static const int64_t rows[] = {-1, 37}, columns[] = {37, 19}, image[] = {-1, 4, 7, 6}, filters[] = {6, 4, 3, 3};
    static const int64_t each[] = {19}, ones[] = {1, 1, 1, 1};
    ig_value a = input(g, "a", o->a, 2, rows), b = input(g, "b", o->b, 2, columns);
    ig_value scale = ig_map2(g, IG_OP_add, random_constant(g, INGOT_F32, 1, each, 1), number_of(g, 1.5));
    ig_value zero = random_constant(g, o->b, 1, each, 2), a_zero = zero_of(g, o->a, 100), y_zero = zero_of(g, o->a, 7);
    ig_value product[] = {a, number_of(g, 0.05), a_zero, b, scale, zero, number_of(g, 40), y_zero};
    ig_build_output(g, "matmul", apply(g, "QLinearMatMul", product, 8, NULL));
    ig_value gemm[] = {
        a,     number_of(g, 0.05), a_zero, b, scale, zero, random_constant(g, INGOT_I32, 1, each, 3), number_of(g, 40),
        y_zero};
    ig_build_output(g, "gemm", apply(g, "com.microsoft.QGemm", gemm, 9, NULL));
    ig_value integer[] = {a, b, a_zero, zero};
    ig_build_output(g, "integer", apply(g, "MatMulInteger", integer, 4, NULL));
    ig_value x = input(g, "x", o->a, 4, image), w = random_constant(g, o->b, 4, filters, 4);
    const struct ingot_attribute pads[] = {{.name = "pads", .kind = INGOT_ATTRIBUTE_INTS, .ints = ones, .count = 4},
                                           {0}};
    ig_value conv[] = {x,     number_of(g, 0.05), a_zero, w, number_of(g, 0.03), zero_of(g, o->b, 2), number_of(g, 0.9),
                       y_zero};
    ig_build_output(g, "conv", apply(g, "QLinearConv", conv, 8, pads));
}

static void operators(void **state) {
    static const enum ingot_dtype bytes[] = {INGOT_U8, INGOT_I8};
    static const struct operands pairs[] = {
        {INGOT_U8, INGOT_I8}, {INGOT_U8, INGOT_U8}, {INGOT_I8, INGOT_I8}, {INGOT_I8, INGOT_U8}};
    (void)state;
    for (int t = 0; t < 2; t++) {
        add_case(ingot_dtype_name(bytes[t]), build_elementwise, &bytes[t], 0, GRAPH_HOSTILE);
        add_case(ingot_dtype_name(bytes[t]), build_pools, &bytes[t], 0, GRAPH_HOSTILE);
    }
    add_case("ties", build_ties, NULL, 0, GRAPH_HOSTILE);
    add_case("ties in integers", build_ties, NULL, 0, GRAPH_HOSTILE | GRAPH_INTEGERS);
    for (int i = 0; i < 4; i++)
        add_case("products", build_products, &pairs[i], 0, GRAPH_HOSTILE);
    check_all();
}

/* ---- Weights of few bits: products of f32, in another order than the reference's ---- */

static void build_block_weights(struct ig_graph *g, const void *argument) {
    (void)argument;
    static const int64_t rows[] = {-1, 50}, scales[] = {9, 4}, zeros[] = {9, 2}, flat[] = {225}, absmax[] = {29};
    static const int64_t weight[] = {9, 4, 8};
    ig_value a = input(g, "a", INGOT_F32, 2, rows), w = input(g, "w", INGOT_U8, 3, weight);
    ig_value in[] = {a, w, random_constant(g, INGOT_F32, 2, scales, 1), input(g, "zero", INGOT_U8, 2, zeros)};
    const struct ingot_attribute bits[] = {
        attribute_int("N", 9), attribute_int("K", 50), attribute_int("bits", 4), attribute_int("block_size", 16), {0}};
    ig_build_output(g, "nbits", apply(g, "com.microsoft.MatMulNBits", in, 4, bits));
    ig_value table[] = {a, input(g, "codes", INGOT_U8, 1, flat), random_constant(g, INGOT_F32, 1, absmax, 2)};
    const struct ingot_attribute normal[] = {attribute_int("N", 9),
                                             attribute_int("K", 50),
                                             attribute_int("quant_type", 1),
                                             attribute_int("block_size", 16),
                                             {0}};
    ig_build_output(g, "nf4", apply(g, "com.microsoft.MatMulBnb4", table, 3, normal));
}

static void block_weights(void **state) {
    (void)state;
    add_case("weights", build_block_weights, NULL, sum_tolerance(INGOT_F32), 0);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantization),
        cmocka_unit_test(microscaling),
        cmocka_unit_test(operators),
        cmocka_unit_test(block_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
