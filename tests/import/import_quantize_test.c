/*
 * QuantizeLinear, DequantizeLinear and the products of quantised operands, in the reference evaluator: hostile numbers, whose
 * results the test computes itself, blocks that do not divide an axis, odd and empty tensors, types that do not fit.
 */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/narrow.h"
#include "import/onnx/import.h"
#include "ir/eval/eval.h"
#include "support/check/onnx_check.h"

/* TensorProto.DataType */
enum {
    FLOAT = 1,
    UINT8,
    INT8,
    UINT16,
    INT16,
    INT32,
    FLOAT16 = 10,
    E4M3FN = 17,
    E5M2 = 19,
    UINT4 = 21,
    INT4,
    E2M1,
    E8M0
};
enum { MOST = 64 };

/* Adds a tensor of numbers in the order of memory; elements of less than 8 bits are packed. */
static void add(struct test_model *m, const char *name, int type, enum ingot_dtype dtype, const char *dims, int count,
                const double *values) {
    uint8_t bytes[MOST * 8], packed[MOST];
    for (int i = 0; i < count; i++) {
        if (ig_narrow_is_float(dtype))
            bytes[i] = ig_f64_to_narrow(dtype, values[i], true);
        else
            ig_store_f64(dtype, bytes, i, values[i]);
    }
    size_t size = (size_t)count * ingot_dtype_size(dtype);
    if (ig_narrow_bits(dtype)) size = ig_narrow_packed_size(dtype, (size_t)count);
    if (ig_narrow_bits(dtype)) ig_narrow_pack(dtype, bytes, (size_t)count, packed);
    test_raw(m, NULL, name, type, dims, ig_narrow_bits(dtype) ? packed : bytes, size);
}

static void begin(struct test_model *m, int opset, const char *op, const char *inputs, const char *attributes) {
    test_model_init(m, opset);
    test_attributes(m, test_node(m, NULL, op, inputs, "y"), attributes);
    test_output(m, NULL, "y");
}

static double value_of(const struct ingot_tensor *t, int64_t i) {
    if (ig_narrow_is_float(t->dtype)) return (double)ig_narrow_to_f32(t->dtype, ((uint8_t *)t->data)[i]);
    return ig_load_f64(t->dtype, t->data, i);
}

/* Evaluates and compares exactly; NaN is equal to NaN. */
static void expect(struct test_model *m, const char *what, enum ingot_dtype dtype, int count, const double *expected) {
    struct test_evaluation e = {.graph = test_import(m)};
    struct ingot_error error = {0};
    if (ig_job_run(&m->job, test_evaluate, &e, &error) != INGOT_OK) fail_msg("%s: %s", what, error.message);
    assert_string_equal(ingot_dtype_name(e.outputs[0].dtype), ingot_dtype_name(dtype));
    assert_int_equal(ingot_tensor_elements(&e.outputs[0]), count);
    for (int64_t i = 0; i < count; i++) {
        double got = value_of(&e.outputs[0], i);
        bool same = got == expected[i] || (isnan(got) && isnan(expected[i]));
        if (!same) fail_msg("%s: element %d is %.9g, expected %.9g", what, (int)i, got, expected[i]);
    }
    ig_eval_release(&m->job, &e.outputs[0]);
    test_model_deinit(m);
}

/* ---- QuantizeLinear ---- */

static const struct target {
    int type;
    enum ingot_dtype dtype;
    double lowest, highest;
} targets[] = {
    {INT8, INGOT_I8, -128, 127},   {UINT8, INGOT_U8, 0, 255}, {INT16, INGOT_I16, -32768, 32767},
    {UINT16, INGOT_U16, 0, 65535}, {INT4, INGOT_I4, -8, 7},   {UINT4, INGOT_U4, 0, 15},
    {26, INGOT_I2, -2, 1},         {25, INGOT_U2, 0, 3},
};

static double clamped(const struct target *t, double x) {
    return isnan(x) ? t->lowest : fmin(fmax(x, t->lowest), t->highest);
}

/* Ties, what is beyond the range, NaN; rounded before an odd zero point is added. */
static void hostile_numbers_saturate(void **state) {
    static const double x[] = {NAN,    INFINITY, -INFINITY, 1e38,  -1e38,    4e9,       -4e9,    0.5,
                               1.5,    -0.5,     2.5,       -2.5,  0x1p-149, -0x1p-149, 0,       -0.0,
                               127.49, 127.5,    -128.5,    254.5, 255.5,    65534.5,   -32768.5};
    enum { COUNT = sizeof x / sizeof *x };
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
        for (int zero = 0; zero < 2; zero++) {
            struct test_model m;
            double expected[COUNT];
            for (int i = 0; i < COUNT; i++)
                expected[i] = clamped(&targets[k], rint(x[i]) + zero);
            begin(&m, 25, "QuantizeLinear", "x s z", "");
            add(&m, "x", FLOAT, INGOT_F32, "23", COUNT, x);
            add(&m, "s", FLOAT, INGOT_F32, "", 1, (double[]){1});
            add(&m, "z", targets[k].type, targets[k].dtype, "", 1, (double[]){zero});
            expect(&m, ingot_dtype_name(targets[k].dtype), targets[k].dtype, COUNT, expected);
        }
    }
}

/* A division, not a product with the reciprocal: these quotients are ties, or next to them. */
static void quotients_are_divided(void **state) {
    enum { COUNT = 48 };
    double x[COUNT], expected[COUNT];
    const float scale = 0.1f;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (double)(float)((i - 24 + 0.5) * (double)scale);
        expected[i] = (double)rintf((float)x[i] / scale);
    }
    struct test_model m;
    begin(&m, 13, "QuantizeLinear", "x s z", "");
    add(&m, "x", FLOAT, INGOT_F32, "48", COUNT, x);
    add(&m, "s", FLOAT, INGOT_F32, "", 1, (double[]){(double)scale});
    add(&m, "z", INT8, INGOT_I8, "", 1, (double[]){0});
    expect(&m, "divided", INGOT_I8, COUNT, expected);
}

/* The quotient is rounded to the scale's type, or to `precision`, before it is rounded to an integer. */
static void precision_of_the_division(void **state) {
    static const double x[] = {2049, 2051, 4098, 100.5, -1e6, 33.3};
    enum { COUNT = 6 };
    double halves[COUNT], floats[COUNT];
    for (int i = 0; i < COUNT; i++) {
        float wide = ig_f16_to_f32(ig_f64_to_f16(x[i])), scale = ig_f16_to_f32(ig_f64_to_f16(0.3));
        halves[i] = clamped(&targets[2], (double)rintf(ig_f16_to_f32(ig_f32_to_f16(wide / scale))));
        floats[i] = clamped(&targets[2], (double)rintf((float)x[i] / scale));
    }
    struct test_model m;
    begin(&m, 23, "QuantizeLinear", "x s", "output_dtype=5");
    add(&m, "x", FLOAT, INGOT_F32, "6", COUNT, x);
    add(&m, "s", FLOAT16, INGOT_F16, "", 1, (double[]){0.3});
    expect(&m, "by the scale", INGOT_I16, COUNT, halves);
    begin(&m, 23, "QuantizeLinear", "x s", "output_dtype=5; precision=1");
    add(&m, "x", FLOAT, INGOT_F32, "6", COUNT, x);
    add(&m, "s", FLOAT16, INGOT_F16, "", 1, (double[]){0.3});
    expect(&m, "by the attribute", INGOT_I16, COUNT, floats);
}

static void to_narrow_floats(void **state) {
    static const double x[] = {1000, -1000, INFINITY, 1, -0.0, NAN, 0.1};
    struct test_model m;
    begin(&m, 25, "QuantizeLinear", "x s z", "");
    add(&m, "x", FLOAT, INGOT_F32, "7", 7, x);
    add(&m, "s", FLOAT, INGOT_F32, "", 1, (double[]){2});
    add(&m, "z", E4M3FN, INGOT_F8E4M3FN, "", 1, (double[]){0});
    expect(&m, "e4m3fn", INGOT_F8E4M3FN, 7, (double[]){448, -448, 448, 0.5, -0.0, NAN, 0.05078125});
    begin(&m, 25, "QuantizeLinear", "x s", "output_dtype=19; saturate=0");
    add(&m, "x", FLOAT, INGOT_F32, "7", 7, x);
    add(&m, "s", E8M0, INGOT_F8E8M0, "", 1, (double[]){0x1p-10});
    expect(&m, "e5m2", INGOT_F8E5M2, 7, (double[]){INFINITY, -INFINITY, INFINITY, 1024, -0.0, NAN, 96});
    begin(&m, 25, "QuantizeLinear", "x s", "output_dtype=23");
    add(&m, "x", FLOAT, INGOT_F32, "7", 7, x);
    add(&m, "s", FLOAT, INGOT_F32, "1", 1, (double[]){0.4});
    expect(&m, "e2m1", INGOT_F4E2M1, 7, (double[]){6, -6, 6, 2, -0.0, -0.0, 0});
}

/* ---- Blocks and axes ---- */

/* Blocks of 2 along an axis of 5: the last is short. */
static void blocks_may_be_short(void **state) {
    static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, scales[] = {1, 2, 4, 0.5, 1, 3},
                        zeros[] = {0, 1, 2, 3, 4, 5};
    double expected[10], back[10];
    for (int i = 0; i < 10; i++) {
        int block = i / 5 * 3 + i % 5 / 2;
        expected[i] = clamped(&targets[5], rint(x[i] / scales[block]) + zeros[block]);
        back[i] = (expected[i] - zeros[block]) * scales[block];
    }
    struct test_model m;
    begin(&m, 21, "QuantizeLinear", "x s z", "axis=-1; block_size=2");
    add(&m, "x", FLOAT, INGOT_F32, "2 5", 10, x);
    add(&m, "s", FLOAT, INGOT_F32, "2 3", 6, scales);
    add(&m, "z", UINT4, INGOT_U4, "2 3", 6, zeros);
    expect(&m, "quantised", INGOT_U4, 10, expected);
    begin(&m, 23, "DequantizeLinear", "x s z", "axis=1; block_size=2; output_dtype=10");
    add(&m, "x", UINT4, INGOT_U4, "2 5", 10, expected);
    add(&m, "s", FLOAT, INGOT_F32, "2 3", 6, scales);
    add(&m, "z", UINT4, INGOT_U4, "2 3", 6, zeros);
    expect(&m, "dequantised", INGOT_F16, 10, back);
}

static void axes_and_empty_tensors(void **state) {
    struct test_model m;
    begin(&m, 21, "DequantizeLinear", "x s z", "axis=0");
    add(&m, "x", INT4, INGOT_I4, "3 1", 3, (double[]){-8, 7, 1});
    add(&m, "s", FLOAT, INGOT_F32, "3", 3, (double[]){1, 2, 4});
    add(&m, "z", INT4, INGOT_I4, "3", 3, (double[]){7, -8, 0});
    expect(&m, "rows", INGOT_F32, 3, (double[]){-15, 30, 4});
    begin(&m, 21, "DequantizeLinear", "x s", "");
    add(&m, "x", INT4, INGOT_I4, "0 3", 0, NULL);
    add(&m, "s", FLOAT, INGOT_F32, "", 1, (double[]){1});
    expect(&m, "empty", INGOT_F32, 0, NULL);
    begin(&m, 21, "QuantizeLinear", "x s z", "");
    add(&m, "x", FLOAT, INGOT_F32, "2 0", 0, NULL);
    add(&m, "s", FLOAT, INGOT_F32, "1", 1, (double[]){1});
    add(&m, "z", INT4, INGOT_I4, "1", 1, (double[]){1});
    expect(&m, "empty", INGOT_I4, 0, NULL);
    begin(&m, 13, "DequantizeLinear", "x s", "");
    add(&m, "x", INT32, INGOT_I32, "2", 2, (double[]){16777217, -5});
    add(&m, "s", FLOAT, INGOT_F32, "2", 2, (double[]){1, 0.5});
    expect(&m, "a vector", INGOT_F32, 2, (double[]){16777216, -2.5});
}

/* ---- Products ---- */

static void products_of_floats_of_8_bits(void **state) {
    struct test_model m;
    begin(&m, 21, "QLinearMatMul", "a as az b bs bz ys yz", "");
    add(&m, "a", E4M3FN, INGOT_F8E4M3FN, "1 3", 3, (double[]){448, -2, 0.5});
    add(&m, "as", FLOAT, INGOT_F32, "", 1, (double[]){0.5});
    add(&m, "az", E4M3FN, INGOT_F8E4M3FN, "", 1, (double[]){0});
    add(&m, "b", E4M3FN, INGOT_F8E4M3FN, "3 2", 6, (double[]){1, 448, 2, -4, 8, 0});
    add(&m, "bs", FLOAT, INGOT_F32, "2", 2, (double[]){0.25, 1});
    add(&m, "bz", E4M3FN, INGOT_F8E4M3FN, "2", 2, (double[]){0, 0});
    add(&m, "ys", FLOAT, INGOT_F32, "", 1, (double[]){1});
    add(&m, "yz", E4M3FN, INGOT_F8E4M3FN, "", 1, (double[]){0});
    expect(&m, "e4m3fn", INGOT_F8E4M3FN, 2, (double[]){56, 448});
}

/* Sums of 32 bits, never of 16: 255 * -128 * 4. Per row and per column. */
static void integer_products_do_not_saturate(void **state) {
    struct test_model m;
    begin(&m, 10, "MatMulInteger", "a b az bz", "");
    add(&m, "a", UINT8, INGOT_U8, "2 4", 8, (double[]){255, 255, 255, 255, 0, 1, 2, 3});
    add(&m, "b", INT8, INGOT_I8, "4 2", 8, (double[]){-128, 127, -128, 127, -128, 127, -128, 127});
    add(&m, "az", UINT8, INGOT_U8, "2", 2, (double[]){0, 1});
    add(&m, "bz", INT8, INGOT_I8, "2", 2, (double[]){127, -128});
    expect(&m, "extremes", INGOT_I32, 4, (double[]){-260100, 260100, -510, 510});
}

/* ---- Refusals ---- */

static void refuse_zero(const char *op, const char *inputs, const char *attributes, int x_type,
                        enum ingot_dtype x_dtype, const char *message) {
    struct test_model m;
    begin(&m, 25, op, inputs, attributes);
    add(&m, "x", x_type, x_dtype, "2", 2, (double[]){1, 2});
    add(&m, "s", FLOAT, INGOT_F32, "", 1, (double[]){1});
    add(&m, "z", INT8, INGOT_I8, "", 1, (double[]){0});
    add(&m, "w", FLOAT, INGOT_F32, "", 1, (double[]){0});
    add(&m, "e", E8M0, INGOT_F8E8M0, "", 1, (double[]){1});
    test_expect_error(&m, NULL, strstr(message, "is not supported") ? INGOT_UNSUPPORTED : INGOT_BAD_MODEL, message);
}

static void wrong_types_are_refused(void **state) {
    refuse_zero("DequantizeLinear", "x s z", "", UINT8, INGOT_U8,
                "cannot import node 'y_node' (DequantizeLinear): the zero point in input 2 has type i8, expected u8");
    refuse_zero("DequantizeLinear", "x s z", "", INT4, INGOT_I4,
                "cannot import node 'y_node' (DequantizeLinear): the zero point in input 2 has type i8, expected i4");
    refuse_zero("DequantizeLinear", "x s", "", FLOAT, INGOT_F32,
                "cannot import node 'y_node' (DequantizeLinear): quantisation to f32 is not supported");
    refuse_zero("DequantizeLinear", "x e", "", UINT8, INGOT_U8,
                "cannot import node 'y_node' (DequantizeLinear): the scale is f8e8m0, and there is no 'output_dtype'");
    refuse_zero(
        "DequantizeLinear", "x s", "output_dtype=3", UINT8, INGOT_U8,
        "cannot import node 'y_node' (DequantizeLinear): attribute 'output_dtype' is i8, expected f32, f16 or bf16");
    refuse_zero("QuantizeLinear", "x s z", "output_dtype=2", FLOAT, INGOT_F32,
                "cannot import node 'y_node' (QuantizeLinear): the zero point in input 2 has type i8, expected u8");
    refuse_zero("QuantizeLinear", "x s w", "", FLOAT, INGOT_F32,
                "cannot import node 'y_node' (QuantizeLinear): quantisation to f32 is not supported");
    refuse_zero("QuantizeLinear", "x s", "output_dtype=24", FLOAT, INGOT_F32,
                "cannot import node 'y_node' (QuantizeLinear): quantisation to f8e8m0 is not supported");
}

/* ---- ONNX Runtime's own ---- */

static void refuse_own(const char *op, const char *inputs, const char *attributes, enum ingot_status status,
                       const char *message) {
    static const double zeros[64] = {0};
    struct test_model m;
    begin(&m, 17, op, inputs, attributes);
    m.graph->node[0]->domain = ig_strdup(&m.job, "com.microsoft");
    test_opset(&m, "com.microsoft", 1);
    add(&m, "x", FLOAT, INGOT_F32, "1 20", 20, zeros);
    add(&m, "b", UINT8, INGOT_U8, "2 2 8", 32, zeros);
    add(&m, "s", FLOAT, INGOT_F32, "2 2", 4, zeros);
    add(&m, "one", FLOAT, INGOT_F32, "", 1, (double[]){1});
    add(&m, "z", UINT8, INGOT_U8, "", 1, zeros);
    add(&m, "i8", INT8, INGOT_I8, "", 1, zeros);
    test_expect_error(&m, NULL, status, ig_format(&m.job, "cannot import node 'y_node' (%s): %s", op, message));
}

static void wrong_forms_are_refused(void **state) {
    static const enum ingot_status bad = INGOT_BAD_MODEL, refused = INGOT_UNSUPPORTED;
    static const char nbits[] = "MatMulNBits";
    refuse_own(nbits, "x b s", "N=2; K=20; block_size=24", bad,
               "attribute 'block_size' is 24, expected a power of two from 16 on");
    refuse_own(nbits, "x b s", "N=2; K=0; block_size=16", bad, "attribute 'K' is 0");
    refuse_own(nbits, "x b s", "N=2; K=20; block_size=16; bits=3", refused, "weights of 3 bits are not supported");
    refuse_own(nbits, "x b s", "N=2; K=20; block_size=16; weight_prepacked=1", refused,
               "weights packed for one kind of GPU are not supported");
    refuse_own(nbits, "x b s", "N=3; K=20; block_size=16", bad, "axis 0 of input 1 is not of size 3");
    refuse_own(nbits, "x b s", "N=2; K=40; block_size=16", bad, "axis 1 of input 1 is not of size 3");
    refuse_own(nbits, "x x s", "N=2; K=20; block_size=16", bad, "input 1 has type f32, expected u8");
    refuse_own(nbits, "x b s b", "N=2; K=20; block_size=16", bad, "a scale or zero point has rank 3, expected 2");
    refuse_own("MatMulBnb4", "x b s", "N=2; K=20; block_size=16; quant_type=2", refused, "attribute 'quant_type' is 2");
    refuse_own("QLinearAdd", "b one z b one i8 one z", "", bad, "the zero point in input 5 has type i8, expected u8");
    refuse_own("QLinearAdd", "x one z b one z one z", "", bad, "input 0 has type f32, expected i8 or u8");
    refuse_own("QLinearConcat", "one z b one", "axis=0", bad, "4 inputs, expected 2 and 3 for each part");
    refuse_own("QAttention", "b b x one one", "num_heads=0", bad, "attribute 'num_heads' is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_numbers_saturate),     cmocka_unit_test(quotients_are_divided),
        cmocka_unit_test(precision_of_the_division),    cmocka_unit_test(to_narrow_floats),
        cmocka_unit_test(blocks_may_be_short),          cmocka_unit_test(axes_and_empty_tensors),
        cmocka_unit_test(products_of_floats_of_8_bits), cmocka_unit_test(integer_products_do_not_saturate),
        cmocka_unit_test(wrong_types_are_refused),      cmocka_unit_test(wrong_forms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
