/*
 * An engine's weights in memory that several processes share, on a stand-in for NVIDIA's driver: what is refused, every
 * driver call and allocation that fails, and how long the memory lives. tests/gpu/processes_test.c has real processes.
 */
#include "support/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "runtime/resident.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"

enum { WEIGHTS = 3 << 20 };

static struct fake_driver driver;
static struct gpu_code code;
static unsigned char bytes[WEIGHTS];

/* An engine's store, in one of the processes that share. */
struct user {
    struct ig_engine_file file;
    struct counting_allocator allocator;
    struct ig_resident_store store;
    struct ingot_error error;
};

static enum ingot_status open_gpu(int ordinal, const struct ingot_allocator *allocator, struct ig_device **out_device,
                                  struct ingot_error *error) {
    return ig_device_cuda_create_with(driver.path, ordinal, allocator, out_device, error);
}

static void begin(struct user *u) {
    *u = (struct user){.file = {.weights = bytes,
                                .weights_size = WEIGHTS,
                                .section_size = WEIGHTS,
                                .code = code.bytes,
                                .code_size = code.size}};
    counting_allocator_init(&u->allocator);
    ig_resident_store_init(&u->store, &u->file, &u->allocator.base);
}

static void end(struct user *u) {
    ig_resident_store_deinit(&u->store);
    assert_int_equal(u->allocator.live_count, 0);
}

static enum ingot_status get(struct user *u, const void **out_weights) {
    struct ig_resident resident = {0};
    enum ingot_status status = ig_resident_store_get(&u->store, open_gpu, 0, 0, &resident, &u->error);
    *out_weights = resident.weights ? ig_weight_address(resident.weights, 0) : NULL;
    return status;
}

/* The stand-in's memory is the host's. */
static void check_weights(struct user *u) {
    const void *weights;
    if (get(u, &weights)) fail_msg("%s", u->error.message);
    assert_memory_equal(weights, bytes, WEIGHTS);
}

static int export(struct user *u) {
    int descriptor = -1;
    if (ig_resident_store_export(&u->store, open_gpu, 0, &descriptor, &u->error)) fail_msg("%s", u->error.message);
    assert_true(descriptor >= 0);
    return descriptor;
}

static void import(struct user *u, int descriptor) {
    if (ig_resident_store_import(&u->store, open_gpu, 0, descriptor, &u->error)) fail_msg("%s", u->error.message);
}

static void refused(const struct user *u, enum ingot_status found, enum ingot_status wanted, const char *text) {
    assert_int_equal(found, wanted);
    if (!strstr(u->error.message, text)) fail_msg("'%s' does not say '%s'", u->error.message, text);
}

static int set_up(void **state) {
    fake_driver_open(&driver);
    memset(&code, 0, sizeof code);
    gpu_code_add_text(&code, gpu_code_ptx);
    for (int i = 0; i < WEIGHTS; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    return 0;
}

static int tear_down(void **state) {
    assert_int_equal(driver.cuda->live, 0);
    assert_string_equal(driver.cuda->misuse, "");
    assert_int_equal(driver.depth(), 0);
    return 0;
}

/* ---- One copy ---------------------------------------------------------------------------------------------------------- */

static void one_copy_serves_all(void **state) {
    struct user a, b;
    begin(&a);
    begin(&b);
    uint64_t before = driver.cuda->used;
    int first = export(&a), second = export(&a);
    assert_int_not_equal(first, second);
    check_weights(&a);
    assert_int_equal(driver.cuda->used - before, 4 << 20); /* rounded up */
    import(&b, second);
    check_weights(&b);
    assert_int_equal(driver.cuda->used - before, 4 << 20);
    /* It is the same memory, not a copy. */
    const void *in_a, *in_b;
    assert_int_equal(get(&a, &in_a), INGOT_OK);
    assert_int_equal(get(&b, &in_b), INGOT_OK);
    assert_ptr_not_equal(in_a, in_b);
    *(unsigned char *)(uintptr_t)in_a ^= 1;
    assert_memory_equal(in_a, in_b, WEIGHTS);
    *(unsigned char *)(uintptr_t)in_a ^= 1;
    close(first);
    close(second);
    end(&a);
    end(&b);
}

/* The memory lives as long as anyone has it, or a descriptor of it. */
static void the_exporter_may_go_first(void **state) {
    struct user a, b, c;
    begin(&a);
    begin(&b);
    begin(&c);
    int descriptor = export(&a);
    import(&b, descriptor);
    end(&a);
    check_weights(&b);
    end(&b);
    import(&c, descriptor);
    close(descriptor);
    check_weights(&c);
    end(&c);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------------- */

static void sharing_comes_before_contexts(void **state) {
    struct user a, b;
    int descriptor = -7, shared;
    begin(&a);
    begin(&b);
    shared = export(&b);
    check_weights(&a);
    refused(&a, ig_resident_store_export(&a.store, open_gpu, 0, &descriptor, &a.error), INGOT_INVALID_ARGUMENT,
            "the weights are on GPU 0 already, in memory that cannot be shared: export them before the engine's first "
            "context there");
    refused(&a, ig_resident_store_import(&a.store, open_gpu, 0, shared, &a.error), INGOT_INVALID_ARGUMENT,
            "the weights are on GPU 0 already: import them before the engine's first context there");
    refused(&b, ig_resident_store_import(&b.store, open_gpu, 0, shared, &b.error), INGOT_INVALID_ARGUMENT, "already");
    end(&a);
    begin(&a);
    import(&a, shared);
    refused(&a, ig_resident_store_export(&a.store, open_gpu, 0, &descriptor, &a.error), INGOT_INVALID_ARGUMENT,
            "the weights on GPU 0 were imported: pass on the descriptor that they came with");
    assert_int_equal(descriptor, -7);
    check_weights(&a);
    close(shared);
    end(&a);
    end(&b);
}

/* Contexts then have weights of their own, as usual. */
static void only_its_memory_is_imported(void **state) {
    struct user a, b;
    int file = open("/dev/null", O_RDONLY);
    begin(&a);
    refused(&a, ig_resident_store_import(&a.store, open_gpu, 0, file, &a.error), INGOT_DEVICE,
            "weights of 3145728 bytes: cannot import 4194304 bytes of GPU memory by file descriptor");
    refused(&a, ig_resident_store_import(&a.store, open_gpu, 0, 1 << 20, &a.error), INGOT_DEVICE, "1048576: error 1");
    check_weights(&a);
    /* Memory that is too small for this engine. */
    begin(&b);
    b.file.weights_size = b.file.section_size = 64;
    int small = export(&b);
    end(&a);
    begin(&a);
    refused(&a, ig_resident_store_import(&a.store, open_gpu, 0, small, &a.error), INGOT_DEVICE, "cannot import");
    close(small);
    close(file);
    end(&a);
    end(&b);
}

static void not_every_gpu_shares(void **state) {
    struct user a;
    int descriptor;
    begin(&a);
    driver.cuda->no_descriptors = 1;
    refused(&a, ig_resident_store_export(&a.store, open_gpu, 0, &descriptor, &a.error), INGOT_UNSUPPORTED,
            "Fake 0 has no memory that processes can share: its driver does not support file descriptors of it");
    driver.cuda->no_mapping = 1;
    refused(&a, ig_resident_store_import(&a.store, open_gpu, 0, 0, &a.error), INGOT_UNSUPPORTED,
            "does not support virtual memory management");
    check_weights(&a);
    end(&a);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------------- */

static enum ingot_status try_export(struct user *u, int *out_descriptor) {
    return ig_resident_store_export(&u->store, open_gpu, 0, out_descriptor, &u->error);
}

/* Call `n` of `function` fails, once in a's export and once in b's import: nothing leaks, and the next attempt works.
 * Returns whether any of these exist; adds the failures. */
static bool fail_call(const char *function, uint64_t n, unsigned failures[2]) {
    struct user a, b;
    int descriptor = -1;
    begin(&a);
    begin(&b);
    driver.cuda->fail = function;
    driver.cuda->fail_result = 801;
    driver.cuda->fail_at = n;
    bool failed = try_export(&a, &descriptor) != INGOT_OK, reached = driver.cuda->fail_at == 0;
    driver.cuda->fail_at = 0;
    failures[0] += failed;
    if (failed) descriptor = export(&a);
    check_weights(&a);
    driver.cuda->fail_at = n;
    failed = ig_resident_store_import(&b.store, open_gpu, 0, descriptor, &b.error) != INGOT_OK;
    reached = reached || driver.cuda->fail_at == 0;
    driver.cuda->fail_at = 0;
    failures[1] += failed;
    if (failed) import(&b, descriptor);
    check_weights(&b);
    close(descriptor);
    end(&a);
    end(&b);
    if (driver.cuda->live != 0) fail_msg("call %u of %s leaks", (unsigned)n, function);
    return reached;
}

static void every_call_may_fail(void **state) {
    static const char *const functions[] = {"cuDeviceGetUuid_v2",
                                            "cuDevicePrimaryCtxRetain",
                                            "cuDeviceGetAttribute",
                                            "cuMemGetAllocationGranularity",
                                            "cuMemCreate",
                                            "cuMemAddressReserve",
                                            "cuMemMap",
                                            "cuMemSetAccess",
                                            "cuMemRelease",
                                            "cuStreamCreate",
                                            "cuMemHostAlloc",
                                            "cuMemcpyAsync",
                                            "cuStreamSynchronize",
                                            "cuMemRetainAllocationHandle",
                                            "cuMemExportToShareableHandle",
                                            "cuMemImportFromShareableHandle",
                                            "cuMemUnmap",
                                            "cuMemAddressFree"};
    unsigned failures[2] = {0, 0};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        for (uint64_t n = 1; fail_call(functions[i], n, failures);)
            n++;
    }
    assert_true(failures[0] >= 18);
    assert_true(failures[1] >= 12);
}

static void every_allocation_may_fail(void **state) {
    struct user a;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        int descriptor = -1;
        begin(&a);
        a.allocator.fail_at = n;
        failed = try_export(&a, &descriptor) != INGOT_OK;
        a.allocator.fail_at = 0;
        if (failed) assert_int_equal(a.error.status, INGOT_OUT_OF_MEMORY);
        if (failed) descriptor = export(&a);
        check_weights(&a);
        close(descriptor);
        end(&a);
        assert_int_equal(driver.cuda->live, 0);
    }
}

static void too_much_is_out_of_memory(void **state) {
    struct user a;
    int descriptor;
    begin(&a);
    driver.cuda->memory = 1 << 20;
    refused(&a, try_export(&a, &descriptor), INGOT_OUT_OF_MEMORY,
            "cannot allocate 4194304 bytes of GPU memory to share");
    driver.cuda->memory = (size_t)1 << 30;
    a.file.weights_size = a.file.section_size = SIZE_MAX - 5;
    refused(&a, try_export(&a, &descriptor), INGOT_OUT_OF_MEMORY, "out of GPU memory");
    end(&a);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4 };

static void *share(void *argument) {
    struct user *u = argument;
    struct ingot_error error;
    struct ig_resident resident;
    for (int turn = 0; turn < 20; turn++) {
        int descriptor = -1;
        if (ig_resident_store_export(&u->store, open_gpu, 0, &descriptor, &error)) return "no export";
        if (ig_resident_store_get(&u->store, open_gpu, 0, 0, &resident, &error)) return "no weights";
        if (ig_resident_store_import(&u->store, open_gpu, 0, descriptor, &error) == INGOT_OK) return "imported twice";
        close(descriptor);
    }
    return NULL;
}

static void threads_share(void **state) {
    struct user a;
    pthread_t threads[THREADS];
    void *wrong;
    begin(&a);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, share, &a), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], &wrong);
        if (wrong) fail_msg("%s", (const char *)wrong);
    }
    check_weights(&a);
    end(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_copy_serves_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_exporter_may_go_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sharing_comes_before_contexts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_its_memory_is_imported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_every_gpu_shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_call_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_much_is_out_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_share, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("shared weights", tests, NULL, NULL);
}
