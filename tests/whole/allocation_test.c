/*
 * Memory: once shapes have been run, running them again allocates nothing, neither from the caller's allocator nor
 * directly by malloc. If any one allocation of a build or a run fails, the error is reported cleanly, and neither
 * memory nor file descriptors leak (memory that does not come from the caller's allocator is checked under
 * AddressSanitizer).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "support/model/network.h"
#include "support/support.h"

static _Atomic long malloc_calls;

/* Interposes malloc and its siblings: the test program's definitions take precedence over the C library's. Sanitizers
 * define their own, which must stay for leak detection; under them only the caller's allocator is counted. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    malloc_calls++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    malloc_calls++;
    return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
    malloc_calls++;
    return __libc_realloc(memory, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    malloc_calls++;
    return __libc_memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    malloc_calls++;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : 12;
}
#endif

static int open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 0;
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static enum ingot_status run_batch(struct ingot_context *context, int64_t batch, const float *pixels,
                                   struct ingot_error *error) {
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, (void *)pixels, INGOT_HOST};
    enum ingot_status status = ingot_context_set_input(context, 0, &input, error);
    return status ? status : ingot_context_run(context, error);
}

static void must_run(struct ingot_context *context, int64_t batch, const float *pixels) {
    struct ingot_error error = {0};
    if (run_batch(context, batch, pixels, &error)) fail_msg("%s", error.message);
}

static void fill(float *pixels, size_t count) {
    uint64_t seed = 1;
    for (size_t i = 0; i < count; i++)
        pixels[i] = test_random(&seed);
}

static void test_second_run_allocates_nothing(void **state) {
    static float pixels[7 * 64];
    fill(pixels, 7 * 64);
    struct test_network network;
    test_network_build(&network, TEST_DIGITS, NULL);
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    load.allocator = &allocator.base;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    struct ingot_error error = {0};
    struct ingot_engine *engine;
    struct ingot_context *context;
    assert_int_equal(ingot_engine_load_memory(network.data, network.size, &load, &engine, &error), INGOT_OK);
    assert_int_equal(ingot_context_create(engine, &options, &context, &error), INGOT_OK);
    static const int64_t batches[] = {1, 7, 3};
    for (int i = 0; i < 3; i++)
        must_run(context, batches[i], pixels);
    long calls = allocator.calls, mallocs = malloc_calls;
    assert_true(calls > 0);
    for (int i = 0; i < 30; i++)
        must_run(context, 1, pixels);
    for (int i = 0; i < 30; i++)
        must_run(context, batches[i % 3], pixels);
    assert_int_equal(allocator.calls, calls);
    assert_int_equal(malloc_calls, mallocs);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    assert_int_equal(allocator.live, 0);
    assert_int_equal(allocator.bytes, 0);
    test_network_release(&network);
}

/* Builds with the n-th allocation failing; returns whether the build succeeded. */
static bool build_with_failure(struct test_allocator *allocator, long n) {
    int descriptors = open_descriptors();
    test_allocator_init(allocator);
    allocator->fail_at = n;
    struct ingot_model_options options = INGOT_MODEL_OPTIONS_INIT;
    options.allocator = &allocator->base;
    struct ingot_build_options build = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_error error = {0};
    struct ingot_model *model;
    enum ingot_status status = ingot_model_load(TEST_DIGITS, &options, &model, &error);
    if (!status) {
        void *data;
        size_t size;
        status = ingot_model_build_memory(model, &build, &data, &size, &error);
        if (!status) ingot_blob_release(model, data, size);
        ingot_model_destroy(model);
    }
    if (status) {
        assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_true(strlen(error.message) > 0);
    }
    assert_int_equal(allocator->live, 0);
    assert_int_equal(open_descriptors(), descriptors);
    return status == INGOT_OK;
}

static void test_failing_allocations_in_a_build(void **state) {
    struct test_allocator allocator;
    long n = 1;
    while (!build_with_failure(&allocator, n))
        n++;
    assert_true(n > 10);
}

static bool run_with_failure(const struct test_network *network, struct test_allocator *allocator, long n) {
    static float pixels[3 * 64];
    fill(pixels, 3 * 64);
    int descriptors = open_descriptors();
    test_allocator_init(allocator);
    allocator->fail_at = n;
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    load.allocator = &allocator->base;
    struct ingot_error error = {0};
    struct ingot_engine *engine = NULL;
    struct ingot_context *context = NULL;
    enum ingot_status status = ingot_engine_load_memory(network->data, network->size, &load, &engine, &error);
    if (!status) status = ingot_context_create(engine, NULL, &context, &error);
    if (!status) status = run_batch(context, 3, pixels, &error);
    if (!status) status = run_batch(context, 1, pixels, &error);
    if (status) {
        assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_true(strlen(error.message) > 0);
    }
    if (context) ingot_context_destroy(context);
    if (engine) ingot_engine_release(engine);
    assert_int_equal(allocator->live, 0);
    assert_int_equal(open_descriptors(), descriptors);
    return status == INGOT_OK;
}

static void test_failing_allocations_in_a_run(void **state) {
    struct test_network network;
    test_network_build(&network, TEST_DIGITS, NULL);
    struct test_allocator allocator;
    long n = 1;
    while (!run_with_failure(&network, &allocator, n))
        n++;
    assert_true(n > 3);
    test_network_release(&network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_run_allocates_nothing),
        cmocka_unit_test(test_failing_allocations_in_a_build),
        cmocka_unit_test(test_failing_allocations_in_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
