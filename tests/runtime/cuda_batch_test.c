/* Batches rounded up and sizes prepared on the CUDA device: the driver calls of a run, on a stand-in for the driver. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "support/plan/cuda_case.h"

static struct cuda_case *begin(void) {
    return cuda_begin(true, 0, 0);
}

static void check_result(struct cuda_case *f, int64_t n) {
    cuda_must(f, ig_context_wait(f->context, &f->error));
    cuda_check(f, n);
}

/* Enqueues a run; returns the driver calls that it took. */
static uint64_t calls_of_run(struct cuda_case *f, enum ingot_memory memory, void *data, int64_t n) {
    const struct ingot_tensor x = {INGOT_F32, 1, {n}, data, memory};
    cuda_must(f, ig_context_set_input(f->context, 0, &x, &f->error));
    cuda_clear_log(f);
    uint64_t before = ig_device_cuda_calls(f->device);
    cuda_enqueue(f, NULL);
    return ig_device_cuda_calls(f->device) - before;
}

static void round_up(struct cuda_case *f) {
    static const int64_t sizes[] = {32, 100};
    const struct ingot_batch_options options = {sizeof options, "n", sizes, 2};
    cuda_must(f, ig_context_set_batch(f->context, &options, &f->error));
}

enum { PUSH_AND_POP = 2 };

/* Within a rounded size nothing is captured, and a run from host memory costs what an exact one does. */
static void rounded_sizes_are_captured_once(void **state) {
    struct cuda_case *f = begin();
    round_up(f);
    calls_of_run(f, INGOT_HOST, f->x, 100);
    calls_of_run(f, INGOT_HOST, f->x, 3);
    check_result(f, 3);
    size_t allocations = f->allocator.calls;
    for (int64_t n = 100; n >= 0; n--) {
        assert_int_equal(calls_of_run(f, INGOT_HOST, f->x, n), 2 + PUSH_AND_POP); /* launch, event */
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraphLaunch"), 1);
        check_result(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    struct ingot_plans_info plans;
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    cuda_end(f, true);
}

/* Copies that depend on the number of rows are not in the captured launch. */
static void other_memory_costs_a_copy(void **state) {
    struct cuda_case *f = begin();
    void *data;
    round_up(f);
    cuda_must(f, f->device->api->allocate(f->device, sizeof f->x, &data, &f->error));
    memcpy(data, f->x, sizeof f->x); /* the stand-in's memory is the host's */
    for (int64_t n = 100; n >= 31; n -= 23) {
        calls_of_run(f, INGOT_CUDA, data, n);
        check_result(f, n);
    }
    size_t allocations = f->allocator.calls;
    for (int64_t n = 1; n <= 100; n++) {
        bool copied = n != 32 && n != 100;
        calls_of_run(f, INGOT_CUDA, data, n);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraphLaunch"), 1);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuMemcpy"),
                         1 + copied); /* the result leaves apart too: no list has copies now */
        assert_int_equal(cuda_count(f->driver.cuda->log, "Instantiate"), 0);
        check_result(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    f->device->api->release(f->device, data, sizeof f->x);
    cuda_end(f, true);
}

/* What is captured in the background serves the first run: two launches of the whole are prepared with their copies, and
 * only addresses are patched. */
static void prepared_sizes_are_captured_in_the_background(void **state) {
    struct cuda_case *f = begin();
    struct ig_device *device;
    round_up(f);
    cuda_must(f, ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &device, &f->error));
    cuda_must(f, ig_context_use_preparer(f->context, device, &f->error));
    for (int64_t n = 100; n >= 20; n -= 80) {
        const struct ingot_tensor x = {INGOT_F32, 1, {n}, NULL, INGOT_HOST};
        cuda_must(f, ig_context_prepare_shapes(f->context, &x, 1, true, &f->error));
    }
    cuda_must(f, ig_context_prepared(f->context, &f->error));
    struct ingot_plans_info plans;
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    size_t allocations = f->allocator.calls;
    for (int64_t n = 100; n >= 1; n--) {
        calls_of_run(f, INGOT_HOST, f->x, n);
        assert_int_equal(cuda_count(f->driver.cuda->log, "cuGraphLaunch"), 1);
        assert_int_equal(cuda_count(f->driver.cuda->log, "Instantiate") + cuda_count(f->driver.cuda->log, "Alloc") +
                             cuda_count(f->driver.cuda->log, "cuMemcpy"),
                         0);
        check_result(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    cuda_end(f, true);
}

/* A call of the driver that fails, on whichever thread, fails the preparation and nothing else. */
static void driver_calls_may_fail_in_the_background(void **state) {
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
                                        "cuGraphUpload"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct cuda_case *f = begin();
        struct ig_device *device;
        cuda_must(f, ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &device, &f->error));
        cuda_must(f, ig_context_use_preparer(f->context, device, &f->error));
        f->driver.cuda->fail = calls[i];
        f->driver.cuda->fail_at = 1;
        f->driver.cuda->fail_result = 2;
        const struct ingot_tensor x = {INGOT_F32, 1, {50}, NULL, INGOT_HOST};
        cuda_must(f, ig_context_prepare_shapes(f->context, &x, 1, true, &f->error));
        if (ig_context_prepared(f->context, &f->error) == INGOT_OK) fail_msg("%s did not fail", calls[i]);
        cuda_must(f, ig_context_prepared(f->context, &f->error)); /* told once */
        f->driver.cuda->fail = NULL;
        f->driver.cuda->fail_at = 0;
        calls_of_run(f, INGOT_HOST, f->x, 50);
        check_result(f, 50);
        cuda_end(f, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_sizes_are_captured_once),
        cmocka_unit_test(other_memory_costs_a_copy),
        cmocka_unit_test(prepared_sizes_are_captured_in_the_background),
        cmocka_unit_test(driver_calls_may_fail_in_the_background),
    };
    return cmocka_run_group_tests_name("rounded batches on the CUDA device", tests, NULL, NULL);
}
