/*
 * A product of u8 by i8 on a CPU without VNNI that is refitted from weights whose sums cannot saturate (codegen/c/gemm_quads.c)
 * to such that would, and back: results stay exact, and reports of builds count the blocks of each.
 */
#include <stdlib.h>
#include <string.h>

#include "support/model/by_code.h"
#include "support/support.h"

enum { ROWS = 40, DEPTH = 72, COLUMNS = 24, BLOCKS = DEPTH / 4 * 2 }; /* panels of 16 columns */

static const char target[] = "cpu:x86-64-v3";
static uint8_t pixels[ROWS * DEPTH];
static int8_t small[DEPTH * COLUMNS], large[DEPTH * COLUMNS];

struct built {
    struct ingot_model *model;
    struct ingot_build_report report;
    void *data;
    size_t size;
};

static struct ingot_named_tensor named(int8_t *weights) {
    return (struct ingot_named_tensor){.name = "w", .tensor = {INGOT_I8, 2, {DEPTH, COLUMNS}, weights, INGOT_HOST}};
}

static struct built build(int8_t *weights) {
    struct ingot_network *network = network_create();
    const struct ingot_tensor tensor = named(weights).tensor;
    ingot_value x = network_input(network, "x", INGOT_U8, 2, (const char *const[]){"40", "72"}), w;
    MUST(ingot_network_weight(network, "w", &tensor, false, &w, &by_code_error));
    ingot_value y = network_add(network, "MatMulInteger", INPUTS(x, w), NULL, 0);
    MUST(ingot_network_output(network, "y", y, &by_code_error));
    struct built b = {.model = network_finish(network), .report = INGOT_BUILD_REPORT_INIT};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = target;
    options.report = &b.report;
    MUST(ingot_model_build_memory(b.model, &options, &b.data, &b.size, &by_code_error));
    return b;
}

static void release(struct built *b) {
    ingot_blob_release(b->model, b->data, b->size);
    ingot_model_destroy(b->model);
}

static void expect(struct ingot_context *context, const int8_t *weights) {
    struct ingot_tensor input = {INGOT_U8, 2, {ROWS, DEPTH}, pixels, INGOT_HOST}, output;
    MUST(ingot_context_set_input(context, 0, &input, &by_code_error));
    MUST(ingot_context_run(context, &by_code_error));
    MUST(ingot_context_output(context, 0, &output, &by_code_error));
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            int32_t sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += pixels[r * DEPTH + k] * weights[k * COLUMNS + c];
            assert_int_equal(((const int32_t *)output.data)[r * COLUMNS + c], sum);
        }
    }
}

static void test_refit(void **state) {
    struct built b = build(small), fresh = build(large);
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_context *context;
    (void)state;
    assert_int_equal(b.report.quads_proved, BLOCKS);
    assert_int_equal(b.report.quads_widened, 0);
    assert_int_equal(fresh.report.quads_proved, 0);
    assert_int_equal(fresh.report.quads_widened, BLOCKS);
    MUST(ingot_engine_load_memory(b.data, b.size, NULL, &engine, &by_code_error));
    options.threads = 1;
    MUST(ingot_context_create(engine, &options, &context, &by_code_error));
    expect(context, small);
    for (int i = 0; i < 4; i++) {
        int8_t *weights = i % 2 ? small : large;
        const struct ingot_named_tensor list = named(weights);
        MUST(ingot_engine_refit(engine, &list, 1, NULL, NULL, &by_code_error));
        expect(context, weights);
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    release(&b);
    release(&fresh);
}

int main(void) {
    memset(pixels, 255, sizeof pixels);
    for (int i = 0; i < ROWS * DEPTH; i += 7)
        pixels[i] = (uint8_t)i;
    for (int i = 0; i < DEPTH * COLUMNS; i++) {
        small[i] = (int8_t)(i % 3 == 0 ? 64 : -64);
        large[i] = (int8_t)(i % COLUMNS % 2 ? 127 : -128);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
