/*
 * Engines with slots for adapters: with none chosen the results are those of an engine without slots, to the bit; with some,
 * those of engines whose weights have the adapters merged, sample by sample; filling and emptying a slot touches nothing
 * else.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/model/adapter.h"
#include "support/model/network.h"
#include "support/model/onnx_model.h"
#include "support/support.h"

enum { SLOTS = 3, RANK = 4, BATCH = 5, ROWS = 3, IN = 12, MIDDLE = 20, OUT = 9, CLASSES_OF_HEAD = 5, ADAPTERS = 2 };

static char folder[] = "/tmp/ingot-adapters-test-XXXXXX", adapter[ADAPTERS][64], path[4][64];
static float x[BATCH * ROWS * IN];

/* One adapter changes all layers, the other some, by smaller ranks. */
static const struct test_adapter_layer layers[ADAPTERS][3] = {
    {{"first", IN, MIDDLE, RANK}, {"second", MIDDLE, OUT, RANK}, {"head", OUT, CLASSES_OF_HEAD, RANK}},
    {{"second", MIDDLE, OUT, 1}, {"head", OUT, CLASSES_OF_HEAD, 3}},
};
static const size_t n_layers[ADAPTERS] = {3, 2};

/* ---- Models ---------------------------------------------------------------------------------------------------------- */

struct shape {
    const char *x; /* the input's dims */
    bool turned;   /* samples are not the outermost axis inside */
    bool mixed;    /* samples depend on each other */
};

static void add_weight(struct test_model *m, const char *name, const char *dims, size_t count, uint64_t seed) {
    float *data = ig_alloc_array(&m->job, count, sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = test_random(&seed);
    test_raw(m, NULL, name, TEST_FLOAT, dims, data, count * sizeof *data);
}

/* MatMul over [batch, rows, in], Gemm over rows without their batch, MatMul over [batch, out]. */
static void *make_model(const struct shape *shape, size_t *out_size) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, shape->x);
    add_weight(&m, "m.first.weight", "12 20", IN * MIDDLE, 1);
    add_weight(&m, "m.first.bias", "20", MIDDLE, 2);
    add_weight(&m, "m.second.weight", "9 20", MIDDLE * OUT, 3);
    add_weight(&m, "m.second.bias", "9", OUT, 4);
    add_weight(&m, "m.head.weight", "9 5", OUT * CLASSES_OF_HEAD, 5);
    test_ints(&m, NULL, "flat", "2", "-1 20");
    test_ints(&m, NULL, "deep", "3", "-1 3 9");
    test_ints(&m, NULL, "wide", "3", "3 -1 9");
    if (shape->turned) test_attr_ints(&m, test_node(&m, NULL, "Transpose", "x", "in"), "perm", "1 0 2");
    test_node(&m, NULL, "MatMul", shape->turned ? "in m.first.weight" : "x m.first.weight", "a");
    test_node(&m, NULL, "Add", "a m.first.bias", "b");
    test_node(&m, NULL, "Relu", "b", "c");
    if (shape->mixed) {
        test_attributes(&m, test_node(&m, NULL, "ReduceMean", "c", "mean"), "axes=[0]; keepdims=1");
        test_node(&m, NULL, "Sub", "c mean", "d");
    }
    test_node(&m, NULL, "Reshape", shape->mixed ? "d flat" : "c flat", "rows");
    test_attr_int(&m, test_node(&m, NULL, "Gemm", "rows m.second.weight m.second.bias", "e"), "transB", 1);
    test_node(&m, NULL, "Reshape", shape->turned ? "e wide" : "e deep", "f");
    test_attributes(&m, test_node(&m, NULL, "ReduceMean", "f", "g"),
                    shape->turned ? "axes=[0]; keepdims=0" : "axes=[1]; keepdims=0");
    test_node(&m, NULL, "MatMul", "g m.head.weight", "y");
    test_output(&m, NULL, "y");
    void *packed = test_model_pack(&m, out_size), *data = malloc(*out_size);
    memcpy(data, packed, *out_size);
    test_model_deinit(&m);
    return data;
}

static const struct shape plain = {"batch 3 12", false, false};

static enum ingot_status build(const struct shape *shape, const struct ingot_build_options *options, const char *to,
                               struct ingot_error *error) {
    struct ingot_model *model;
    size_t size;
    void *data = make_model(shape, &size);
    enum ingot_status status = ingot_model_load_memory(data, size, NULL, NULL, &model, error);
    free(data);
    if (status) return status;
    status = ingot_model_build(model, options, to, error);
    ingot_model_destroy(model);
    return status;
}

static void must_build(const struct shape *shape, unsigned slots, const char *to) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_error error;
    options.adapters = slots;
    options.adapter_rank = RANK;
    options.verify_passes = true;
    if (build(shape, &options, to, &error)) fail_msg("%s", error.message);
}

/* ---- Running --------------------------------------------------------------------------------------------------------- */

static struct ingot_engine *load(const char *engine_path) {
    struct ingot_engine *engine;
    struct ingot_error error;
    if (ingot_engine_load(engine_path, NULL, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

/* Runs `batch` samples; `numbers` is NULL for an engine without slots. */
static void run(struct ingot_engine *engine, const int64_t *numbers, int64_t n_numbers, float *out) {
    struct ingot_context *context;
    struct ingot_error error;
    struct ingot_tensor in = {INGOT_F32, 3, {BATCH, ROWS, IN}, x, INGOT_HOST}, result;
    struct ingot_tensor choice = {INGOT_I64, 1, {n_numbers}, (void *)(uintptr_t)numbers, INGOT_HOST};
    if (ingot_context_create(engine, NULL, &context, &error)) fail_msg("%s", error.message);
    if (ingot_context_set_input(context, 0, &in, &error)) fail_msg("%s", error.message);
    if (numbers && ingot_context_set_input(context, 1, &choice, &error)) fail_msg("%s", error.message);
    if (ingot_context_run(context, &error)) fail_msg("%s", error.message);
    if (ingot_context_output(context, 0, &result, &error)) fail_msg("%s", error.message);
    assert_int_equal(ingot_tensor_elements(&result), BATCH * CLASSES_OF_HEAD);
    memcpy(out, result.data, sizeof(float) * BATCH * CLASSES_OF_HEAD);
    ingot_context_destroy(context);
}

static void run_file(const char *engine_path, float *out) {
    struct ingot_engine *engine = load(engine_path);
    run(engine, NULL, 0, out);
    ingot_engine_release(engine);
}

/* What an engine whose weights have the adapter merged gives. */
static void run_merged(const struct shape *shape, int which, float *out) {
    struct ingot_tensors *base, *merged;
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_error error;
    size_t size, n;
    void *data = make_model(shape, &size);
    FILE *file = fopen(path[2], "wb");
    assert_non_null(file);
    fwrite(data, 1, size, file);
    fclose(file);
    free(data);
    options.partial = true;
    if (ingot_tensors_open(path[2], NULL, &base, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *list = ingot_tensors_list(base, &n);
    /* The example's first and last weights are transposed, as exporters store those of linear layers. */
    struct ingot_named_tensor *named = malloc(n * sizeof *named);
    for (size_t i = 0; i < n; i++) {
        named[i] = list[i];
        named[i].is_transposed =
            strcmp(list[i].name, "m.first.weight") == 0 || strcmp(list[i].name, "m.head.weight") == 0;
        if (named[i].is_transposed) named[i].alias = named[i].name;
    }
    if (ingot_tensors_open_adapter(adapter[which], named, n, NULL, &merged, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *sums = ingot_tensors_list(merged, &n);
    struct ingot_named_tensor *plain_names = malloc(n * sizeof *plain_names);
    for (size_t i = 0; i < n; i++) {
        plain_names[i] = sums[i];
        plain_names[i].alias = NULL;
        plain_names[i].is_transposed = false;
    }
    if (ingot_refit_file(path[0], plain_names, n, &options, path[3], NULL, &error)) fail_msg("%s", error.message);
    run_file(path[3], out);
    ingot_tensors_close(merged);
    ingot_tensors_close(base);
    free(named);
    free(plain_names);
    unlink(path[2]);
}

static void fill(struct ingot_engine *engine, unsigned slot, const char *from, size_t changed) {
    struct ingot_tensors *tensors;
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_refit_info info;
    struct ingot_error error;
    size_t n;
    options.partial = true;
    if (ingot_tensors_open_slot(from, engine, slot, NULL, &tensors, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &n);
    if (ingot_engine_refit(engine, list, n, &options, &info, &error)) fail_msg("%s", error.message);
    assert_int_equal(info.changed, changed);
    assert_int_equal(info.weights, changed); /* nothing else is made again */
    ingot_tensors_close(tensors);
}

static void assert_close(const float *found, const float *expected, int count) {
    float most = 0;
    for (int i = 0; i < count; i++)
        most = fmaxf(most, fabsf(expected[i]));
    for (int i = 0; i < count; i++) {
        if (!(fabsf(found[i] - expected[i]) <= 1e-5f * most))
            fail_msg("element %d: expected %g, found %g", i, (double)expected[i], (double)found[i]);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------------------------------- */

static float base_result[BATCH * CLASSES_OF_HEAD], merged_result[ADAPTERS][BATCH * CLASSES_OF_HEAD],
    found[BATCH * CLASSES_OF_HEAD];

/* Where transposes move between the layers, products with and without slots are added up in different orders. */
static void assert_none(const struct shape *shape, const float *at, const float *expected, size_t count) {
    if (shape->turned)
        assert_close(at, expected, (int)count);
    else
        assert_memory_equal(at, expected, count * sizeof *at);
}

/* Each sample has its own adapter: those of the slots, of an empty one, or none. */
static void check_samples(struct ingot_engine *engine, const struct shape *shape) {
    static const int64_t chosen[][BATCH] = {{0, 1, 3, 2, 1}, {3, 3, 0, 1, -1}, {1, 1, 1, 1, 1}, {2, 99, 0, 3, 1}};
    for (int c = 0; c < 4; c++) {
        run(engine, chosen[c], BATCH, found);
        for (int i = 0; i < BATCH; i++) {
            int which = chosen[c][i] == 1 ? 0 : chosen[c][i] == 3 ? 1 : -1, at = i * CLASSES_OF_HEAD;
            assert_close(found + at, which < 0 ? base_result + at : merged_result[which] + at, CLASSES_OF_HEAD);
            bool none = chosen[c][i] < 1 || chosen[c][i] > SLOTS;
            if (none) assert_none(shape, found + at, base_result + at, CLASSES_OF_HEAD);
        }
    }
}

static void check_none(struct ingot_engine *engine, const struct shape *shape, int64_t n) {
    static const int64_t none[] = {0, -1, SLOTS + 1, INT64_MIN, INT64_MAX};
    for (int c = 0; c < 5; c++) {
        int64_t numbers[BATCH];
        for (int i = 0; i < BATCH; i++)
            numbers[i] = none[(c + i) % 5];
        run(engine, numbers, n, found);
        assert_none(shape, found, base_result, BATCH * CLASSES_OF_HEAD);
    }
}

static void find_expected(const struct shape *shape) {
    must_build(shape, 0, path[0]);
    run_file(path[0], base_result);
    for (int a = 0; a < ADAPTERS; a++) {
        run_merged(shape, a, merged_result[a]);
        assert_memory_not_equal(merged_result[a], base_result, sizeof base_result);
    }
}

static void check_per_sample(const struct shape *shape) {
    find_expected(shape);
    must_build(shape, SLOTS, path[1]);
    struct ingot_engine *engine = load(path[1]);
    check_none(engine, shape, BATCH);
    fill(engine, 1, adapter[0], 6);
    fill(engine, 1, adapter[0], 0);
    fill(engine, 3, adapter[1], 4);
    check_none(engine, shape, BATCH);
    check_samples(engine, shape);
    fill(engine, 1, adapter[1], 6); /* the first layer is emptied */
    fill(engine, 1, adapter[0], 6);
    check_samples(engine, shape);
    fill(engine, 1, NULL, 6);
    fill(engine, 1, NULL, 0);
    fill(engine, 3, NULL, 4);
    static const int64_t all[BATCH] = {1, 2, 3, 1, 2};
    run(engine, all, BATCH, found);
    assert_close(found, base_result, BATCH * CLASSES_OF_HEAD);
    ingot_engine_release(engine);
}

static void test_per_sample(void **state) {
    static const struct shape turned = {"batch 3 12", true, false};
    (void)state;
    check_per_sample(&plain);
    check_per_sample(&turned);
}

/* Where samples depend on each other, or there is no symbol that counts them, all have one adapter. */
static void test_per_run(void **state) {
    static const struct shape shapes[] = {{"batch 3 12", false, true}, {"5 3 12", false, false}};
    (void)state;
    for (int s = 0; s < 2; s++) {
        find_expected(&shapes[s]);
        must_build(&shapes[s], SLOTS, path[1]);
        struct ingot_engine *engine = load(path[1]);
        fill(engine, 2, adapter[0], 6);
        check_none(engine, &shapes[s], 1);
        run(engine, (const int64_t[]){2}, 1, found);
        assert_close(found, merged_result[0], BATCH * CLASSES_OF_HEAD);
        run(engine, (const int64_t[]){1}, 1, found);
        assert_close(found, base_result, BATCH * CLASSES_OF_HEAD);
        ingot_engine_release(engine);
    }
}

static void test_one_slot(void **state) {
    static const int64_t chosen[] = {1, 0, 1, 2, 1};
    (void)state;
    find_expected(&plain);
    must_build(&plain, 1, path[1]);
    struct ingot_engine *engine = load(path[1]);
    fill(engine, 1, adapter[0], 6);
    run(engine, chosen, BATCH, found);
    for (int i = 0; i < BATCH; i++) {
        int at = i * CLASSES_OF_HEAD;
        assert_close(found + at, chosen[i] == 1 ? merged_result[0] + at : base_result + at, CLASSES_OF_HEAD);
    }
    ingot_engine_release(engine);
}

static void *read_file(const char *name, size_t *out_size) {
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*out_size);
    assert_int_equal(fread(data, 1, *out_size, file), *out_size);
    fclose(file);
    return data;
}

static void assert_same_files(const char *a, const char *b) {
    size_t a_size, b_size;
    void *a_data = read_file(a, &a_size), *b_data = read_file(b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_data, b_data, a_size);
    free(a_data);
    free(b_data);
}

static void refit_slot(const char *from, const char *folder_of_adapter, const char *to) {
    struct ingot_engine *engine = load(from);
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_tensors *tensors;
    struct ingot_error error;
    size_t n;
    options.partial = true;
    if (ingot_tensors_open_slot(folder_of_adapter, engine, 2, NULL, &tensors, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &n);
    if (ingot_refit_file(from, list, n, &options, to, NULL, &error)) fail_msg("%s", error.message);
    ingot_tensors_close(tensors);
    ingot_engine_release(engine);
}

/* A slot that is filled and emptied again leaves the first bytes; in an engine without weights, slots are empty. */
static void test_files(void **state) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_tensors *tensors;
    struct ingot_error error;
    size_t n, size;
    (void)state;
    must_build(&plain, SLOTS, path[0]);
    refit_slot(path[0], adapter[0], path[1]);
    struct ingot_engine *engine = load(path[1]);
    fill(engine, 2, adapter[0], 0);
    ingot_engine_release(engine);
    refit_slot(path[1], NULL, path[2]);
    assert_same_files(path[0], path[2]);
    options.adapters = SLOTS;
    options.adapter_rank = RANK;
    options.strip_weights = true;
    if (build(&plain, &options, path[1], &error)) fail_msg("%s", error.message);
    void *data = make_model(&plain, &size);
    unlink(path[2]);
    snprintf(path[2], sizeof path[2], "%s/model.onnx", folder);
    FILE *file = fopen(path[2], "wb");
    fwrite(data, 1, size, file);
    fclose(file);
    free(data);
    if (ingot_tensors_open(path[2], NULL, &tensors, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &n);
    if (ingot_refit_file(path[1], list, n, NULL, path[3], NULL, &error)) fail_msg("%s", error.message);
    assert_same_files(path[0], path[3]);
    ingot_tensors_close(tensors);
}

static void refuse_build(const struct shape *shape, unsigned slots, const char *const *patterns, size_t n,
                         const char *message) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_error error;
    options.adapters = slots;
    options.adapter_layers = patterns;
    options.n_adapter_layers = n;
    assert_int_equal(build(shape, &options, path[1], &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, message);
}

static void refuse_slot(const char *engine_path, unsigned slot, const char *from, enum ingot_status status,
                        const char *message) {
    struct ingot_engine *engine = load(engine_path);
    struct ingot_tensors *tensors;
    struct ingot_error error;
    assert_int_equal(ingot_tensors_open_slot(from, engine, slot, NULL, &tensors, &error), status);
    assert_non_null(strstr(error.message, message));
    ingot_engine_release(engine);
}

static void test_refused(void **state) {
    static const struct test_adapter_layer large = {"head", OUT, CLASSES_OF_HEAD, RANK + 1},
                                           other = {"head", OUT + 1, CLASSES_OF_HEAD, RANK};
    static const char *const patterns[] = {"*.head", "*.tail"}, *const head[] = {"*.head"};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_error error;
    char wrong[64];
    (void)state;
    refuse_build(&plain, 2, patterns, 2,
                 "the model has no linear layer '*.tail' for adapters: a product with an initialiser of two dims");
    refuse_build(&plain, 5000, NULL, 0, "5000 slots for adapters of rank 0, expected at most 4096 of rank 4096");
    must_build(&plain, 0, path[0]);
    refuse_slot(path[0], 1, adapter[0], INGOT_INVALID_ARGUMENT, "the engine has no slots for adapters");
    options.adapters = 2;
    options.adapter_rank = RANK;
    options.adapter_layers = head;
    options.n_adapter_layers = 1;
    if (build(&plain, &options, path[1], &error)) fail_msg("%s", error.message);
    refuse_slot(path[1], 3, adapter[0], INGOT_INVALID_ARGUMENT, "there is no slot 3: the engine has slots 1 to 2");
    refuse_slot(path[1], 0, adapter[0], INGOT_INVALID_ARGUMENT, "slots have numbers from 1 on, not 0");
    refuse_slot(path[1], 1, adapter[0], INGOT_BAD_TENSOR,
                "the adapter changes 'first', which has no slots in the engine");
    snprintf(wrong, sizeof wrong, "%s/wrong", folder);
    test_adapter_write(wrong, &large, 1, 1);
    refuse_slot(path[1], 1, wrong, INGOT_BAD_TENSOR,
                "the adapter has rank 5 for 'head', and the engine's slots have rank 4");
    test_adapter_remove(wrong);
    test_adapter_write(wrong, &other, 1, 1);
    refuse_slot(path[1], 1, wrong, INGOT_BAD_TENSOR,
                "the adapter's matrices of 'head' are [4,10] and [5,4], and the slot's [4,9] and [5,4]");
    test_adapter_remove(wrong);
}

/* ---- Set-up ---------------------------------------------------------------------------------------------------------- */

static int set_up(void **state) {
    uint64_t seed = 77;
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], i == 2 ? "%s/model.onnx" : "%s/%d.ingot", folder, i);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = test_random(&seed);
    for (int a = 0; a < ADAPTERS; a++) {
        snprintf(adapter[a], sizeof adapter[a], "%s/adapter%d", folder, a);
        test_adapter_write(adapter[a], layers[a], n_layers[a], (uint64_t)a + 5);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++)
        unlink(path[i]);
    for (int a = 0; a < ADAPTERS; a++)
        test_adapter_remove(adapter[a]);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_per_sample), cmocka_unit_test(test_per_run),
                                       cmocka_unit_test(test_one_slot), cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("adapters", tests, set_up, tear_down);
}
