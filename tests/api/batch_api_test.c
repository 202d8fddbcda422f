/*
 * Batches rounded up, through the public API, with an engine for the CPU: the results of n rows are those of the rounded
 * size, bit by bit, and close to those of n rows computed alone.
 */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "support/model/network.h"

enum { LARGEST = 9 };

static struct test_network network;
static struct ingot_engine *engine;
static struct ingot_context *context;
static float pixels[LARGEST * PIXELS];

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

static int set_up(void **state) {
    struct ingot_error error;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    const struct ingot_shape_spec shape = {"batch", "1:4:9"};
    test_pictures(pixels, LARGEST);
    options.shapes = &shape;
    options.n_shapes = 1;
    test_network_build(&network, TEST_DIGITS, &options);
    must(ingot_engine_load_memory(network.data, network.size, NULL, &engine, &error), &error);
    must(ingot_context_create(engine, NULL, &context, &error), &error);
    return 0;
}

static int tear_down(void **state) {
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    test_network_release(&network);
    return 0;
}

static void classify(const float *images, int64_t batch, float *out) {
    struct ingot_error error;
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, (void *)(uintptr_t)images, INGOT_HOST}, output;
    must(ingot_context_set_input(context, 0, &input, &error), &error);
    must(ingot_context_run(context, &error), &error);
    must(ingot_context_output(context, 0, &output, &error), &error);
    assert_int_equal(output.dims[0], batch);
    memcpy(out, output.data, sizeof(float) * CLASSES * (size_t)batch);
}

static void round_up(const int64_t *sizes, size_t n) {
    struct ingot_error error;
    struct ingot_batch_options options = INGOT_BATCH_OPTIONS_INIT;
    options.symbol = "batch";
    options.sizes = sizes;
    options.n_sizes = n;
    must(ingot_context_set_batch(context, n ? &options : NULL, &error), &error);
}

static void results_are_those_of_the_rounded_size(void **state) {
    static const int64_t sizes[] = {2, 5, 9};
    float padded[LARGEST * CLASSES], alone[LARGEST * CLASSES], rounded[LARGEST * CLASSES], images[LARGEST * PIXELS];
    for (int64_t n = 1, size = 0; n <= LARGEST; n++) {
        while (sizes[size] < n)
            size++;
        round_up(sizes, 3);
        classify(pixels, n, padded);
        round_up(NULL, 0);
        classify(pixels, n, alone);
        memset(images, 0, sizeof images);
        memcpy(images, pixels, sizeof(float) * PIXELS * (size_t)n);
        classify(images, sizes[size], rounded);
        assert_memory_equal(padded, rounded, sizeof(float) * CLASSES * (size_t)n);
        for (int64_t i = 0; i < n * CLASSES; i++)
            assert_true(fabsf(padded[i] - alone[i]) <= 1e-5f);
    }
}

static void says_what_it_did(void **state) {
    struct ingot_error error;
    struct ingot_batch_info info;
    float out[LARGEST * CLASSES];
    round_up((const int64_t[]){4, 9}, 2);
    for (int64_t n = 1; n <= 9; n++)
        classify(pixels, n, out);
    must(ingot_context_batch(context, &info, &error), &error);
    assert_string_equal(info.symbol, "batch");
    assert_int_equal(info.runs, 9);
    assert_int_equal(info.hits + info.captures, 9);
    assert_int_equal(info.rows, 45);
    assert_int_equal(info.computed_rows, 4 * 4 + 5 * 9);
    assert_true(info.padding_bytes >= 9 * PIXELS * sizeof(float));
}

/* A context of its own, whose first runs find all sizes. */
static void sizes_are_prepared_in_the_background(void **state) {
    struct ingot_error error;
    struct ingot_batch_info info;
    struct ingot_context *shared = context;
    float out[LARGEST * CLASSES];
    must(ingot_context_create(engine, NULL, &context, &error), &error);
    round_up((const int64_t[]){2, 4, 9}, 3);
    for (int64_t n = 9; n > 1; n /= 2) {
        const struct ingot_tensor input = {INGOT_F32, 4, {n, 1, 8, 8}, NULL, INGOT_HOST};
        must(ingot_context_prepare(context, &input, 1, n == 4 ? 0 : INGOT_PREPARE_IN_BACKGROUND, &error), &error);
    }
    must(ingot_context_prepare_wait(context, &error), &error);
    for (int64_t n = 1; n <= 9; n++)
        classify(pixels, n, out);
    must(ingot_context_batch(context, &info, &error), &error);
    assert_int_equal(info.hits, 9);
    assert_int_equal(info.captures, 0);
    ingot_context_destroy(context);
    context = shared;
}

static void nonsense_is_refused(void **state) {
    struct ingot_error error;
    struct ingot_batch_info info;
    struct ingot_batch_options options = INGOT_BATCH_OPTIONS_INIT;
    assert_int_equal(ingot_context_set_batch(context, &options, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "symbol is NULL"));
    options.symbol = "bath";
    assert_int_equal(ingot_context_set_batch(context, &options, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "no symbol 'bath'; its symbols: 'batch'"));
    options.symbol = "batch";
    options.sizes = (const int64_t[]){10};
    options.n_sizes = 1;
    assert_int_equal(ingot_context_set_batch(context, &options, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "outside the range 1 to 9"));
    options.struct_size = 1;
    assert_int_equal(ingot_context_set_batch(context, &options, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_batch(NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_batch(context, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_batch(NULL, &info, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_prepare(NULL, NULL, 0, 0, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_prepare(context, NULL, 1, 0, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_prepare(context, NULL, 0, 2, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "flags are 0x2"));
    assert_int_equal(ingot_context_prepare_wait(NULL, &error), INGOT_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_rounded_size),
        cmocka_unit_test(says_what_it_did),
        cmocka_unit_test(sizes_are_prepared_in_the_background),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("batches through the API", tests, set_up, tear_down);
}
