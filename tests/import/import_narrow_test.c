/*
 * Narrow types in ONNX models: how files pack their elements, what Cast makes of special values in each opset, and exact
 * messages where a file is damaged.
 */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "import/onnx/import.h"
#include "ir/eval/eval.h"
#include "support/check/onnx_check.h"

/* TensorProto.DataType */
enum { E4M3FN = 17, E4M3FNUZ, E5M2, E5M2FNUZ, UINT4, INT4, E2M1, E8M0, UINT2, INT2 };

/* Evaluates the model's only output and compares its elements, as they are in memory. */
static void expect_codes(struct test_model *m, const char *what, const uint8_t *expected, int64_t count) {
    struct test_evaluation e = {.graph = test_import(m)};
    struct ingot_error error = {0};
    if (ig_job_run(&m->job, test_evaluate, &e, &error) != INGOT_OK) fail_msg("%s: %s", what, error.message);
    assert_int_equal(ingot_tensor_elements(&e.outputs[0]), count);
    for (int64_t i = 0; i < count; i++) {
        int got = ((uint8_t *)e.outputs[0].data)[i];
        if (got != expected[i]) fail_msg("%s: element %d is 0x%02x, expected 0x%02x", what, (int)i, got, expected[i]);
    }
    ig_eval_release(&m->job, &e.outputs[0]);
    test_model_deinit(m);
}

/* ---- Initialisers ---- */

static const uint8_t packed[] = {0x1b, 0xe4, 0xf7};

static void begin_constant(struct test_model *m) {
    test_model_init(m, 25);
    test_node(m, NULL, "Identity", "w", "y");
    test_output(m, NULL, "y");
}

static Onnx__TensorProto *add_typed(struct test_model *m, int type, const char *dims, size_t count) {
    Onnx__TensorProto *tensor = test_ints(m, NULL, "w", dims, "");
    tensor->data_type = type;
    tensor->n_int64_data = 0;
    tensor->n_int32_data = count;
    tensor->int32_data = IG_NEW_ARRAY(&m->job, int32_t, 4);
    for (size_t i = 0; i < 3; i++)
        tensor->int32_data[i] = packed[i];
    return tensor;
}

static void initializers_are_unpacked(void **state) {
    static const struct {
        int type;
        const char *dims;
        size_t bytes;
        int64_t count;
        uint8_t codes[12];
    } forms[] = {
        {UINT4, "5", 3, 5, {0xb, 0x1, 0x4, 0xe, 0x7}},
        {INT4, "3 2", 3, 6, {0xfb, 0x1, 0x4, 0xfe, 0x7, 0xff}},
        {E2M1, "5", 3, 5, {0xb, 0x1, 0x4, 0xe, 0x7}},
        {UINT2, "9", 3, 9, {3, 2, 1, 0, 0, 1, 2, 3, 3}},
        {INT2, "2 1 4", 2, 8, {255, 254, 1, 0, 0, 1, 254, 255}},
        {E4M3FN, "3", 3, 3, {0x1b, 0xe4, 0xf7}},
        {E8M0, "3", 3, 3, {0x1b, 0xe4, 0xf7}},
        {INT4, "", 1, 1, {0xfb}},
        {INT4, "0 7", 0, 0, {0}},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct test_model m;
        begin_constant(&m);
        test_raw(&m, NULL, "w", forms[i].type, forms[i].dims, packed, forms[i].bytes);
        expect_codes(&m, "raw", forms[i].codes, forms[i].count);
        begin_constant(&m);
        add_typed(&m, forms[i].type, forms[i].dims, forms[i].bytes);
        expect_codes(&m, "typed", forms[i].codes, forms[i].count);
    }
}

static void damaged_initializers_are_refused(void **state) {
    struct test_model m;
    begin_constant(&m);
    test_raw(&m, NULL, "w", INT4, "7", packed, 3);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Identity): tensor 'w' has 3 bytes of data, expected 4");
    begin_constant(&m);
    test_raw(&m, NULL, "w", UINT2, "13", packed, 3);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Identity): tensor 'w' has 3 bytes of data, expected 4");
    begin_constant(&m);
    test_raw(&m, NULL, "w", INT4, "4", packed, 3);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Identity): tensor 'w' has 3 bytes of data, expected 2");
    begin_constant(&m);
    add_typed(&m, INT4, "6", 2);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Identity): tensor 'w' has 2 elements of data, expected 3");
    begin_constant(&m);
    test_raw(&m, NULL, "w", E5M2, "4", packed, 3);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Identity): tensor 'w' has 3 bytes of data, expected 4");
    begin_constant(&m);
    test_raw(&m, NULL, "w", 27, "4", packed, 3);
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED,
                      "cannot import node 'y_node' (Identity): type float6e2m3 of tensor 'w' is not supported");
}

/* ---- Cast ---- */

static void expect_cast(int opset, int to, const char *attributes, int count, const float *values,
                        const uint8_t *expected) {
    struct test_model m;
    test_model_init(&m, opset);
    test_raw(&m, NULL, "x", TEST_FLOAT, ig_format(&m.job, "%d", count), values, sizeof *values * (size_t)count);
    Onnx__NodeProto *node = test_node(&m, NULL, "Cast", "x", "y");
    test_attributes(&m, node, ig_format(&m.job, "to=%d%s", to, attributes));
    test_output(&m, NULL, "y");
    expect_codes(&m, ig_format(&m.job, "opset %d, to %d%s", opset, to, attributes), expected, count);
}

static void floats_of_8_bits(void **state) {
    enum { COUNT = 8 };
    static const float x[COUNT] = {0, -0.0f, INFINITY, -INFINITY, 1e6f, -1e6f, 1, NAN};
    static const struct {
        int to;
        uint8_t early[COUNT], saturated[COUNT], plain[COUNT]; /* early: saturated, before opset 24 */
    } tables[] = {
        {E4M3FN,
         {0, 0x80, 0x7e, 0xfe, 0x7e, 0xfe, 0x38, 0x7f},
         {0, 0x80, 0x7e, 0xfe, 0x7e, 0xfe, 0x38, 0x7f},
         {0, 0x80, 0x7f, 0xff, 0x7f, 0xff, 0x38, 0x7f}},
        {E5M2,
         {0, 0x80, 0x7b, 0xfb, 0x7b, 0xfb, 0x3c, 0x7e},
         {0, 0x80, 0x7b, 0xfb, 0x7b, 0xfb, 0x3c, 0x7e},
         {0, 0x80, 0x7c, 0xfc, 0x7c, 0xfc, 0x3c, 0x7e}},
        {E4M3FNUZ,
         {0, 0, 0x80, 0x80, 0x7f, 0xff, 0x40, 0x80},
         {0, 0, 0x7f, 0xff, 0x7f, 0xff, 0x40, 0x80},
         {0, 0, 0x80, 0x80, 0x80, 0x80, 0x40, 0x80}},
        {E5M2FNUZ,
         {0, 0, 0x80, 0x80, 0x7f, 0xff, 0x40, 0x80},
         {0, 0, 0x7f, 0xff, 0x7f, 0xff, 0x40, 0x80},
         {0, 0, 0x80, 0x80, 0x80, 0x80, 0x40, 0x80}},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        expect_cast(19, tables[i].to, "", COUNT, x, tables[i].early);
        expect_cast(25, tables[i].to, "", COUNT, x, tables[i].saturated);
        expect_cast(19, tables[i].to, "; saturate=0", COUNT, x, tables[i].plain);
        expect_cast(25, tables[i].to, "; saturate=0", COUNT, x, tables[i].plain);
    }
}

static void powers_of_two(void **state) {
    enum { COUNT = 10 };
    static const float x[COUNT] = {0, 1, 1.25f, 1.5f, 1.75f, 2, 0x1p-127f, 0x1.fp127f, INFINITY, NAN};
    static const uint8_t up[COUNT] = {0, 127, 128, 128, 128, 128, 0, 254, 254, 255};
    static const uint8_t down[COUNT] = {0, 127, 127, 127, 127, 128, 0, 254, 254, 255};
    static const uint8_t nearest[COUNT] = {0, 127, 127, 128, 128, 128, 0, 254, 254, 255};
    static const uint8_t plain_up[COUNT] = {255, 127, 128, 128, 128, 128, 0, 255, 255, 255};
    static const uint8_t plain_down[COUNT] = {255, 127, 127, 127, 127, 128, 0, 254, 255, 255};
    static const uint8_t plain_nearest[COUNT] = {255, 127, 127, 128, 128, 128, 0, 255, 255, 255};
    expect_cast(24, E8M0, "", COUNT, x, up);
    expect_cast(25, E8M0, "; round_mode='down'", COUNT, x, down);
    expect_cast(25, E8M0, "; round_mode='nearest'", COUNT, x, nearest);
    expect_cast(25, E8M0, "; saturate=0", COUNT, x, plain_up);
    expect_cast(25, E8M0, "; saturate=0; round_mode='down'", COUNT, x, plain_down);
    expect_cast(25, E8M0, "; saturate=0; round_mode='nearest'", COUNT, x, plain_nearest);
}

/* Rounded to the nearest integer, ties to even; then the low bits stay. */
static void integers_of_few_bits(void **state) {
    enum { COUNT = 9 };
    static const float x[COUNT] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 7.5f, -9, 17, 2.51f};
    expect_cast(25, INT4, "", COUNT, x, (uint8_t[]){0, 2, 2, 0, 0xfe, 0xf8, 7, 1, 3});
    expect_cast(25, UINT4, "", COUNT, x, (uint8_t[]){0, 2, 2, 0, 14, 8, 7, 1, 3});
    expect_cast(25, INT2, "", COUNT, x, (uint8_t[]){0, 0xfe, 0xfe, 0, 0xfe, 0, 0xff, 1, 0xff});
    expect_cast(25, UINT2, "", COUNT, x, (uint8_t[]){0, 2, 2, 0, 2, 0, 3, 1, 3});
}

static void floats_of_4_bits(void **state) {
    enum { COUNT = 12 };
    static const float x[COUNT] = {0, -0.0f, 0.25f, 0.75f, -2.5f, 5, 5.01f, 100, -INFINITY, INFINITY, NAN, 1e-45f};
    static const uint8_t y[COUNT] = {0, 8, 0, 2, 0xc, 6, 7, 7, 0xf, 7, 8, 0};
    expect_cast(23, E2M1, "", COUNT, x, y);
    expect_cast(25, E2M1, "; saturate=0", COUNT, x, y);
}

/* f64 is rounded once: the nearest f32 of this number lies in the middle of two floats of 8 bits. */
static void doubles_are_rounded_once(void **state) {
    static const double x[] = {1.0625, 1.0625 + 0x1p-40, 1.0625 - 0x1p-40, 1.1875 - 0x1p-40};
    static const int types[] = {E4M3FN, E4M3FNUZ};
    static const uint8_t y[2][4] = {{0x38, 0x39, 0x38, 0x39}, {0x40, 0x41, 0x40, 0x41}};
    for (int i = 0; i < 2; i++) {
        struct test_model m;
        test_model_init(&m, 25);
        test_raw(&m, NULL, "x", 11, "4", x, sizeof x);
        test_raw(&m, NULL, "like", types[i], "0", x, 0);
        test_node(&m, NULL, "CastLike", "x like", "y");
        test_output(&m, NULL, "y");
        expect_codes(&m, "f64", y[i], 4);
    }
}

static void wrong_attributes_are_refused(void **state) {
    struct test_model m;
    test_model_init(&m, 25);
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_attributes(&m, test_node(&m, NULL, "Cast", "x", "y"), "to=24; round_mode='even'");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED,
                      "cannot import node 'y_node' (Cast): attribute 'round_mode' is 'even', which is not supported");
    test_model_init(&m, 25);
    test_input(&m, NULL, "x", INT4, "2");
    test_node(&m, NULL, "Neg", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Neg): neg(i4[2]): input 0 has type i4, expected a number");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initializers_are_unpacked), cmocka_unit_test(damaged_initializers_are_refused),
        cmocka_unit_test(floats_of_8_bits),          cmocka_unit_test(powers_of_two),
        cmocka_unit_test(integers_of_few_bits),      cmocka_unit_test(floats_of_4_bits),
        cmocka_unit_test(doubles_are_rounded_once),  cmocka_unit_test(wrong_attributes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
