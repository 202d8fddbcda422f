/* The public API for running engines: arguments, options of other versions, sharing, late checks, threads. */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/counting_allocator.h"
#include "support/plan/tiny_plan.h"

#define TILE 16
#define FIRST_WEIGHT 10.0f

/* y = x + w, elementwise. w has one element; many unused weights follow it. */
static void shift(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *x = buf[0], *w = buf[1];
    float *y = buf[2];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0] * dim[1]; i++)
        y[i] = x[i] + w[0];
}

/* ---- An engine in memory ----------------------------------------------------------------------------------------------- */

struct blob {
    unsigned char *data;
    size_t size, capacity;
};

static enum ingot_status blob_write(void *user, const void *data, size_t size, struct ingot_error *error) {
    struct blob *blob = user;
    if (blob->size + size > blob->capacity) return INGOT_OUT_OF_MEMORY;
    memcpy(blob->data + blob->size, data, size);
    blob->size += size;
    return INGOT_OK;
}

static enum ingot_status blob_patch(void *user, uint64_t offset, const void *data, size_t size,
                                    struct ingot_error *error) {
    memcpy(((struct blob *)user)->data + offset, data, size);
    return INGOT_OK;
}

static enum ingot_status read_weight(void *user, uint32_t index, const void **out_data, size_t *out_size,
                                     struct ingot_error *error) {
    const struct tiny_plan *t = user;
    *out_data = t->weights;
    *out_size = sizeof t->weights;
    return INGOT_OK;
}

/* x f32[batch, 3] -> y f32[batch, 3] */
static void make_plan(struct tiny_plan *t) {
    tiny_init(t);
    uint32_t kernel = tiny_kernel(t, "shift", shift);
    ig_slot batch = tiny_symbol(t, "batch", 0, 0, 0, 4096);
    tiny_subplan(t);
    ig_slot dims[] = {batch, tiny_const(t, 3)};
    uint32_t x = tiny_input(t, "x", INGOT_F32, 2, dims), y = tiny_output(t, "y", INGOT_F32, 2, dims);
    uint32_t w = tiny_weight(t, 0, (const float[]){FIRST_WEIGHT}, 1);
    tiny_launch(t, kernel, batch, (const uint32_t[]){x, w, y}, 3, dims, 2);
}

static struct blob make_engine(const char *target, uint64_t required_features) {
    struct tiny_plan *tiny = malloc(sizeof *tiny);
    make_plan(tiny);
    static const struct ig_weight_entry weight = {.size = sizeof tiny->weights};
    struct ig_engine_image image = {.target = target,
                                    .required_features = required_features,
                                    .plan = tiny->plan,
                                    .code = tiny->code.bytes,
                                    .code_size = tiny->code.size,
                                    .refit = {.n_weights = 1, .weights = &weight},
                                    .weight_read = read_weight,
                                    .weight_user = tiny,
                                    .explanation = "{\"why\": \"because\"}"};
    struct blob blob = {.capacity = 1 << 20};
    blob.data = aligned_alloc(64, blob.capacity);
    struct ig_engine_sink sink = {&blob, blob_write, blob_patch};
    struct ingot_error error;
    struct counting_allocator allocator;
    counting_allocator_init(&allocator);
    if (ig_engine_write(&image, &sink, &allocator.base, &error) != INGOT_OK) fail_msg("%s", error.message);
    free(tiny);
    return blob;
}

static struct ingot_engine *load(const struct blob *blob, const struct ingot_load_options *options) {
    struct ingot_engine *engine = NULL;
    struct ingot_error error;
    if (ingot_engine_load_memory(blob->data, blob->size, options, &engine, &error) != INGOT_OK)
        fail_msg("%s", error.message);
    return engine;
}

static struct ingot_context *make_context(struct ingot_engine *engine, const struct ingot_context_options *options) {
    struct ingot_context *context = NULL;
    struct ingot_error error;
    if (ingot_context_create(engine, options, &context, &error) != INGOT_OK) fail_msg("%s", error.message);
    return context;
}

static void expect(enum ingot_status found, enum ingot_status wanted, const struct ingot_error *error,
                   const char *text) {
    assert_int_equal(found, wanted);
    assert_int_equal(error->status, wanted);
    if (!strstr(error->message, text)) fail_msg("'%s' does not say '%s'", error->message, text);
}

static enum ingot_status run_batch(struct ingot_context *context, int64_t batch, struct ingot_error *error) {
    static const float x[3 * 100] = {1, 2, 3, 4};
    struct ingot_tensor input = {INGOT_F32, 2, {batch, 3}, (void *)(uintptr_t)x, INGOT_HOST}, output;
    enum ingot_status status = ingot_context_set_input(context, 0, &input, error);
    if (status == INGOT_OK) status = ingot_context_run(context, error);
    if (status == INGOT_OK) status = ingot_context_output(context, 0, &output, error);
    if (status != INGOT_OK) return status;
    assert_true(output.rank == 2 && output.dims[0] == batch && output.dims[1] == 3);
    for (int64_t i = 0; i < 3 * batch; i++)
        assert_true(((float *)output.data)[i] == x[i] + FIRST_WEIGHT);
    return INGOT_OK;
}

/* ---- Names ------------------------------------------------------------------------------------------------------------------ */

static void names_types(void **state) {
    assert_int_equal(ingot_dtype_size(INGOT_F32), 4);
    assert_int_equal(ingot_dtype_size(INGOT_BOOL), 1);
    assert_int_equal(ingot_dtype_size((enum ingot_dtype)1000), 0);
    assert_string_equal(ingot_dtype_name(INGOT_BF16), "bf16");
    assert_string_equal(ingot_dtype_name((enum ingot_dtype) - 1), "unknown");
    for (int i = 1; i < INGOT_DTYPE_COUNT; i++)
        assert_true(ingot_dtype_size((enum ingot_dtype)i) > 0);
    assert_string_equal(ingot_version(), INGOT_VERSION);
    assert_string_equal(ingot_status_name((enum ingot_status)99), "unknown status");
}

static void counts_elements(void **state) {
    struct ingot_tensor tensor = {.rank = 0};
    assert_int_equal(ingot_tensor_elements(&tensor), 1);
    tensor = (struct ingot_tensor){.rank = 3, .dims = {2, 3, 4}};
    assert_int_equal(ingot_tensor_elements(&tensor), 24);
    tensor.dims[1] = 0;
    assert_int_equal(ingot_tensor_elements(&tensor), 0);
    tensor = (struct ingot_tensor){.rank = 2, .dims = {INT64_MAX, 3}};
    assert_int_equal(ingot_tensor_elements(&tensor), INT64_MAX);
    tensor.rank = 9;
    assert_int_equal(ingot_tensor_elements(&tensor), 0);
    assert_int_equal(ingot_tensor_elements(NULL), 0);
}

/* ---- Loading ------------------------------------------------------------------------------------------------------------------ */

static void describes_an_engine(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_engine *engine = load(&blob, NULL);
    struct ingot_tensor_info info;
    assert_int_equal(ingot_engine_input_count(engine), 1);
    assert_int_equal(ingot_engine_output_count(engine), 1);
    ingot_engine_input(engine, 0, &info);
    assert_string_equal(info.name, "x");
    assert_true(info.dtype == INGOT_F32 && info.rank == 2 && info.dims[0] == -1 && info.dims[1] == 3);
    assert_string_equal(info.symbols[0], "batch");
    ingot_engine_output(engine, 0, &info);
    assert_string_equal(info.name, "y");
    ingot_engine_output(engine, 1, &info);
    assert_true(info.dtype == INGOT_DTYPE_NONE && info.rank == 0);
    assert_string_equal(info.name, "");
    struct ingot_symbol_info symbol;
    assert_int_equal(ingot_engine_symbol_count(engine), 1);
    assert_int_equal(ingot_engine_symbol_count(NULL), 0);
    ingot_engine_symbol(engine, 0, &symbol);
    assert_string_equal(symbol.name, "batch");
    assert_true(symbol.lo == 0 && symbol.hi == 4096 && !symbol.mixes);
    ingot_engine_symbol(engine, 1, &symbol);
    assert_string_equal(symbol.name, "");
    assert_string_equal(symbol.mixes, "");
    const char *json = NULL, *again = NULL;
    assert_int_equal(ingot_engine_explanation(engine, &json, NULL), INGOT_OK);
    assert_string_equal(json, "{\"why\": \"because\"}");
    assert_int_equal(ingot_engine_explanation(engine, &again, NULL), INGOT_OK);
    assert_ptr_equal(json, again);
    assert_int_equal(ingot_engine_explanation(NULL, &json, NULL), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_engine_explanation(engine, NULL, NULL), INGOT_INVALID_ARGUMENT);
    ingot_engine_release(engine);
    free(blob.data);
}

static void refuses_bad_arguments(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_engine *engine = NULL;
    struct ingot_error error;
    expect(ingot_engine_load(NULL, NULL, &engine, &error), INGOT_INVALID_ARGUMENT, &error, "path is NULL");
    expect(ingot_engine_load("x", NULL, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "out_engine is NULL");
    expect(ingot_engine_load("/nonexistent/x.ingot", NULL, &engine, &error), INGOT_IO, &error, "x.ingot");
    expect(ingot_engine_load_memory(NULL, 5, NULL, &engine, &error), INGOT_INVALID_ARGUMENT, &error, "data is NULL");
    expect(ingot_engine_load_memory(blob.data + 1, 64, NULL, &engine, &error), INGOT_INVALID_ARGUMENT, &error, "64");
    expect(ingot_engine_load_memory(blob.data, blob.size - 1, NULL, &engine, &error), INGOT_BAD_ENGINE, &error, "");
    expect(ingot_engine_load_memory(blob.data, 0, NULL, &engine, &error), INGOT_BAD_ENGINE, &error, "");
    assert_null(engine);
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.verify = (enum ingot_verify)17;
    expect(ingot_engine_load_memory(blob.data, blob.size, &options, &engine, &error), INGOT_INVALID_ARGUMENT, &error,
           "verify is 17");
    struct ingot_context *context = NULL;
    expect(ingot_context_create(NULL, NULL, &context, &error), INGOT_INVALID_ARGUMENT, &error, "engine is NULL");
    expect(ingot_context_set_input(NULL, 0, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    expect(ingot_context_set_output(NULL, 0, NULL, 0, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    expect(ingot_context_run(NULL, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    expect(ingot_context_output(NULL, 0, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    expect(ingot_context_memory(NULL, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    expect(ingot_context_pin(NULL, &error, 8, &error), INGOT_INVALID_ARGUMENT, &error, "context is NULL");
    ingot_context_unpin(NULL, &error);
    assert_int_equal(ingot_context_run(NULL, NULL), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_profile(NULL, NULL, 3), 0);
    assert_int_equal(ingot_engine_input_count(NULL), 0);
    ingot_engine_release(NULL);
    ingot_context_destroy(NULL);
    free(blob.data);
}

/* On the CPU, the pages of the file are shared; tests/whole/pages_test.c. */
static void shares_weights_on_gpus_only(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_engine *engine = load(&blob, NULL);
    struct ingot_weights_handle handle = {.fd = 77};
    struct ingot_error error;
    expect(ingot_engine_export_weights(NULL, 0, &handle, &error), INGOT_INVALID_ARGUMENT, &error, "engine is NULL");
    expect(ingot_engine_export_weights(engine, 0, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "out_handle is NULL");
    expect(ingot_engine_import_weights(NULL, 0, &handle, &error), INGOT_INVALID_ARGUMENT, &error, "engine is NULL");
    expect(ingot_engine_import_weights(engine, 0, NULL, &error), INGOT_INVALID_ARGUMENT, &error, "handle is NULL");
    expect(ingot_engine_export_weights(engine, 0, &handle, &error), INGOT_UNSUPPORTED, &error,
           "share its weights already");
    expect(ingot_engine_import_weights(engine, 0, &handle, &error), INGOT_UNSUPPORTED, &error,
           "share its weights already");
    assert_int_equal(handle.fd, 77);
    ingot_engine_release(engine);
    free(blob.data);
}

static void reads_options_of_any_version(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_engine *engine = load(&blob, NULL);
    struct ingot_context *context = NULL;
    struct ingot_error error;
    struct {
        struct ingot_context_options known;
        long newer;
    } options = {INGOT_CONTEXT_OPTIONS_INIT, 0};
    options.known.struct_size = sizeof options;
    context = make_context(engine, &options.known); /* a newer caller that does not use the new members */
    ingot_context_destroy(context);
    options.newer = 1;
    expect(ingot_context_create(engine, &options.known, &context, &error), INGOT_INVALID_ARGUMENT, &error,
           "does not know");
    options.known.threads = 5000; /* a member that an older caller does not have */
    options.known.struct_size = offsetof(struct ingot_context_options, threads);
    context = make_context(engine, &options.known);
    ingot_context_destroy(context);
    options.known.struct_size = sizeof options.known;
    expect(ingot_context_create(engine, &options.known, &context, &error), INGOT_INVALID_ARGUMENT, &error,
           "threads is 5000");
    options.known.struct_size = 0;
    expect(ingot_context_create(engine, &options.known, &context, &error), INGOT_INVALID_ARGUMENT, &error,
           "struct_size");
    struct ingot_allocator half = {.alloc = NULL};
    options.known = (struct ingot_context_options)INGOT_CONTEXT_OPTIONS_INIT;
    options.known.allocator = &half;
    expect(ingot_context_create(engine, &options.known, &context, &error), INGOT_INVALID_ARGUMENT, &error, "alloc");
    ingot_engine_release(engine);
    free(blob.data);
}

static void refuse_target(const char *target, enum ingot_status status, const char *text) {
    struct ingot_context *context = NULL;
    struct ingot_error error;
    struct blob blob = make_engine(target, target[1] == 'p' ? (uint64_t)1 << 63 : 0);
    struct ingot_engine *engine = load(&blob, NULL);
    assert_string_equal(ingot_engine_target(engine), target);
    expect(ingot_context_create(engine, NULL, &context, &error), status, &error, text);
    ingot_engine_release(engine);
    free(blob.data);
}

/* Without a driver, engines for GPUs are refused for that; with one, for their architecture. */
static void refuses_other_machines(void **state) {
    struct ingot_error error;
    struct ingot_gpu *gpu = NULL;
    int count = 0;
    refuse_target("cpu:future", INGOT_INCOMPATIBLE, "cpu:future");
    refuse_target("npu:1", INGOT_INCOMPATIBLE, "npu:1");
    refuse_target("cuda:gfx90", INGOT_INCOMPATIBLE, "cuda:gfx90");
    enum ingot_status status = ingot_gpu_count(&count, &error);
    if (status == INGOT_OK && count > 0) {
        refuse_target("cuda:sm_999a", INGOT_INCOMPATIBLE, "the engine is for 'cuda:sm_999a', GPU 0");
        assert_int_equal(ingot_gpu_hold(0, &gpu, &error), INGOT_OK);
        ingot_gpu_release(gpu);
        return;
    }
    if (status != INGOT_OK) expect(status, INGOT_DEVICE, &error, "libcuda.so.1");
    refuse_target("cuda:sm_999a", INGOT_DEVICE, status == INGOT_OK ? "" : "libcuda.so.1");
    struct ingot_gpu_info info;
    assert_int_equal(ingot_gpu_describe(0, &info, &error), INGOT_DEVICE);
    assert_int_equal(ingot_gpu_hold(0, &gpu, &error), INGOT_DEVICE);
    assert_null(gpu);
    ingot_gpu_release(gpu);
}

/* ---- Running -------------------------------------------------------------------------------------------------------------------- */

static void runs_an_engine(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct counting_allocator allocator;
    counting_allocator_init(&allocator);
    struct ingot_load_options load_options = INGOT_LOAD_OPTIONS_INIT;
    load_options.allocator = &allocator.base;
    struct ingot_engine *engine = load(&blob, &load_options);
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    options.profile = true;
    struct ingot_context *context = make_context(engine, &options);
    ingot_engine_release(engine); /* the context keeps its own reference */
    for (int64_t batch = 0; batch < 16; batch++)
        assert_int_equal(run_batch(context, batch, NULL), INGOT_OK);
    size_t calls = allocator.calls;
    for (int64_t batch = 0; batch < 16; batch++)
        assert_int_equal(run_batch(context, batch, NULL), INGOT_OK);
    assert_int_equal(allocator.calls, calls);
    struct ingot_profile_row row;
    assert_int_equal(ingot_context_profile(context, &row, 1), 1);
    assert_int_equal(row.calls, 32);
    struct ingot_memory_info info;
    assert_int_equal(ingot_context_memory(context, &info, NULL), INGOT_OK);
    assert_int_equal(info.weights_bytes, 1024);
    struct ingot_error error;
    struct ingot_tensor wrong = {INGOT_F32, 2, {1, 4}, &error, INGOT_HOST};
    expect(ingot_context_set_input(context, 0, &wrong, &error), INGOT_INVALID_ARGUMENT, &error, "dim 1 is 4, wanted 3");
    ingot_context_destroy(context);
    assert_int_equal(allocator.live_count, 0);
    assert_int_equal(allocator.wrong, 0);
    free(blob.data);
}

/* Finds the weights by the first one's bytes, which occur nowhere else in the engine. */
static unsigned char *find_weights(const struct blob *blob) {
    const float value = FIRST_WEIGHT;
    for (size_t at = 0; at + 4 <= blob->size; at += 64) {
        if (memcmp(blob->data + at, &value, 4) == 0) return blob->data + at;
    }
    fail_msg("no weights");
    return NULL;
}

static void checks_weights_late(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_error error;
    options.verify = INGOT_VERIFY_LATER;
    struct ingot_engine *engine = load(&blob, &options);
    struct ingot_context *context = make_context(engine, NULL);
    assert_int_equal(run_batch(context, 2, &error), INGOT_OK);
    ingot_context_destroy(context);
    ingot_engine_release(engine);

    find_weights(&blob)[1000] ^= 1; /* a weight that no kernel reads */
    expect(ingot_engine_load_memory(blob.data, blob.size, NULL, &engine, &error), INGOT_BAD_ENGINE, &error, "");
    engine = load(&blob, &options);
    context = make_context(engine, NULL);
    for (int turn = 0; turn < 2; turn++)
        expect(run_batch(context, 2, &error), INGOT_BAD_ENGINE, &error, "damaged");
    ingot_context_destroy(context);
    ingot_engine_release(engine);

    options.verify = INGOT_VERIFY_NO_WEIGHTS;
    engine = load(&blob, &options);
    context = make_context(engine, NULL);
    assert_int_equal(run_batch(context, 2, &error), INGOT_OK);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    free(blob.data);
}

static void *use_a_context(void *argument) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    struct ingot_context *context = make_context(argument, &options);
    for (int turn = 0; turn < 125; turn++)
        assert_int_equal(run_batch(context, turn % 100, NULL), INGOT_OK);
    ingot_context_destroy(context);
    ingot_engine_release(argument);
    return NULL;
}

static void eight_threads_share_an_engine(void **state) {
    struct blob blob = make_engine("cpu", 0);
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.verify = INGOT_VERIFY_LATER; /* all threads check the weights concurrently */
    struct ingot_engine *engine = load(&blob, &options);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        ingot_engine_retain(engine);
        assert_int_equal(pthread_create(&threads[i], NULL, use_a_context, engine), 0);
    }
    ingot_engine_release(engine);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    free(blob.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_types),
        cmocka_unit_test(counts_elements),
        cmocka_unit_test(describes_an_engine),
        cmocka_unit_test(refuses_bad_arguments),
        cmocka_unit_test(shares_weights_on_gpus_only),
        cmocka_unit_test(reads_options_of_any_version),
        cmocka_unit_test(refuses_other_machines),
        cmocka_unit_test(runs_an_engine),
        cmocka_unit_test(checks_weights_late),
        cmocka_unit_test(eight_threads_share_an_engine),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
