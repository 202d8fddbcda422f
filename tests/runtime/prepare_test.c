/*
 * Shapes prepared ahead (runtime/context/preparer.h), here and in the background, on the CPU and on the device of
 * support/device/remote_device.h: what the first run finds, what happens to runs in the meantime, and failures. Run under
 * ThreadSanitizer and AddressSanitizer.
 */
#include "support/support.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

static struct fixture *ready(size_t max_instances) {
    struct fixture *f = chain(0, INT32_MAX);
    make_context(f, 2, max_instances, false);
    return f;
}

static void use_preparer(struct fixture *f) {
    struct ig_device *device;
    enum ingot_status status = test_remote ? remote_device_create(1, &f->allocator.base, &device, &f->error)
                                           : ig_device_cpu_create(1, &f->allocator.base, &device, &f->error);
    if (status == INGOT_OK) status = ig_context_use_preparer(f->context, device, &f->error);
    if (status != INGOT_OK) fail_msg("%s", f->error.message);
}

static enum ingot_status try_prepare(struct fixture *f, int64_t n, bool background) {
    const struct ingot_tensor x = vector(NULL, n);
    return ig_context_prepare_shapes(f->context, &x, 1, background, &f->error);
}

static void prepare(struct fixture *f, int64_t n, bool background) {
    if (try_prepare(f, n, background) != INGOT_OK) fail_msg("%s", f->error.message);
}

static void wait_for_preparer(struct fixture *f) {
    if (ig_context_prepared(f->context, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

static struct ingot_plans_info plans_of(struct fixture *f) {
    struct ingot_plans_info info;
    ig_context_plans(f->context, &info);
    return info;
}

/* Takes over what is captured, as a run does, without one. */
static void take_over(struct fixture *f) {
    if (ig_context_adopt(f->context, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

/* ---- What the first run finds ---------------------------------------------------------------------------------------- */

static void first_runs_capture_nothing(void **state) {
    static const int64_t sizes[] = {1000, 70, 0, 333};
    for (int background = 0; background < 2; background++) {
        struct fixture *f = ready(0);
        if (background) use_preparer(f);
        for (int i = 0; i < 4; i++)
            prepare(f, sizes[i], background);
        wait_for_preparer(f);
        struct ingot_plans_info plans = plans_of(f);
        assert_int_equal(plans.instances, 4);
        assert_int_equal(plans.captures, 4);
        assert_true(plans.bytes > 0);
        size_t calls = f->allocator.calls;
        if (test_remote) remote_device_counts(f->device);
        for (int i = 0; i < 4; i++)
            run_chain(f, sizes[i]);
        assert_int_equal(plans_of(f).captures, 4);
        assert_int_equal(plans_of(f).misses, 4);
        assert_int_equal(plans_of(f).hits, plans.hits + 4);
        if (test_remote) {
            struct remote_counts counts = remote_device_counts(f->device);
            assert_int_equal(counts.captures + counts.allocations + counts.copies + counts.launches, 0);
            assert_int_equal(counts.ready + counts.unready, 0);
            assert_int_equal(f->allocator.calls, calls);
        }
        prepare(f, 70, background); /* is there */
        wait_for_preparer(f);
        assert_int_equal(plans_of(f).instances, 4);
        run_chain(f, 70);
        end_plan(f);
    }
}

static void rounded_sizes_are_prepared(void **state) {
    static const int64_t sizes[] = {16, 100};
    const struct ingot_batch_options options = {sizeof options, "n", sizes, 2};
    struct fixture *f = ready(0);
    struct ingot_batch_info info;
    assert_int_equal(ig_context_set_batch(f->context, &options, &f->error), INGOT_OK);
    use_preparer(f);
    prepare(f, 70, true);
    prepare(f, 3, true);
    wait_for_preparer(f);
    for (int64_t n = 1; n <= 100; n++)
        run_chain(f, n);
    ig_context_batch(f->context, &info);
    assert_int_equal(info.hits, 100);
    assert_int_equal(info.captures, 0);
    end_plan(f);
}

/* Kernels use data of the device in place; copies of pinned data are in the list, unless sizes are rounded. */
static void other_memory_is_prepared(void **state) {
    struct fixture *f = ready(0);
    use_preparer(f);
    void *data, *pinned;
    assert_int_equal(f->device->api->allocate(f->device, 400, &data, NULL), INGOT_OK);
    remote_device_write(data, ramp, 400);
    assert_int_equal(f->device->api->allocate_host(f->device, 400, &pinned, NULL), INGOT_OK);
    memcpy(pinned, ramp, 400);
    struct ingot_tensor x = vector(NULL, 100);
    x.memory = INGOT_CUDA;
    assert_int_equal(ig_context_prepare_shapes(f->context, &x, 1, true, &f->error), INGOT_OK);
    wait_for_preparer(f);
    assert_int_equal(plans_of(f).captures, 1);
    x.data = data;
    set_input(f, 0, x);
    run(f);
    check_chain(f, 100);
    assert_int_equal(plans_of(f).captures, 1);
    x = vector(NULL, 90);
    x.memory = INGOT_PINNED;
    assert_int_equal(ig_context_prepare_shapes(f->context, &x, 1, true, &f->error), INGOT_OK);
    wait_for_preparer(f);
    assert_int_equal(plans_of(f).instances, 2);
    assert_int_equal(plans_of(f).captures, 1); /* left to the first run */
    x.data = pinned;
    set_input(f, 0, x);
    run(f);
    check_chain(f, 90);
    assert_int_equal(plans_of(f).captures, 2);
    x.dims[0] = 80;
    assert_int_equal(ig_context_prepare_shapes(f->context, &x, 1, true, &f->error), INGOT_OK);
    wait_for_preparer(f);
    set_input(f, 0, x);
    run(f);
    check_chain(f, 80);
    assert_int_equal(plans_of(f).captures, 3); /* by the preparer */
    f->device->api->release(f->device, data, 400);
    f->device->api->release_host(f->device, pinned, 400);
    end_plan(f);
}

/* ---- Meanwhile ------------------------------------------------------------------------------------------------------- */

/* Runs of all sizes while these are being prepared: each finds an instance or makes its own. */
static void runs_go_on_meanwhile(void **state) {
    struct fixture *f = ready(0);
    use_preparer(f);
    for (int round = 0; round < 20; round++) {
        for (int64_t i = 0; i < 8; i++)
            prepare(f, 10 + round + 37 * (7 - i), true);
        for (int64_t i = 0; i < 24; i++)
            run_chain(f, 10 + round + 37 * (i * 3 % 8));
    }
    wait_for_preparer(f);
    struct ingot_plans_info plans = plans_of(f);
    assert_int_equal(plans.instances, plans.misses);
    for (int64_t i = 0; i < 160; i++)
        run_chain(f, 10 + i / 8 + 37 * (i % 8));
    assert_int_equal(plans_of(f).instances, plans.instances);
    end_plan(f);
}

/* Memory grows with each size, so that earlier instances are bound to memory that is gone. */
static void memory_may_grow_meanwhile(void **state) {
    struct fixture *f = ready(0);
    use_preparer(f);
    for (int64_t n = 1; n < 90000; n *= 3)
        prepare(f, n, true);
    for (int64_t n = 1; n < 90000; n *= 3)
        run_chain(f, n);
    wait_for_preparer(f);
    for (int64_t n = 1; n < 90000; n *= 3)
        run_chain(f, n);
    end_plan(f);
}

/* While runs go on the thread rests, here for ever; whoever waits for it, or ends the context, ends the rest. */
static void the_thread_rests_while_runs_go_on(void **state) {
    for (int ends = 0; ends < 2; ends++) {
        struct fixture *f = ready(0);
        use_preparer(f);
        ig_preparer_set_rest(f->context->preparer, UINT_MAX);
        for (int64_t n = 100; n < 110; n++)
            prepare(f, n, true); /* without runs, all of them are captured */
        while (plans_of(f).instances < 10)
            take_over(f);
        run_chain(f, 5);
        prepare(f, 200, true);
        for (int turn = 0; turn < 200; turn++)
            run_chain(f, 5);
        assert_int_equal(plans_of(f).instances, 11);
        if (ends) wait_for_preparer(f);
        if (ends) assert_int_equal(plans_of(f).instances, 12);
        end_plan(f);
    }
}

static void pipelined_runs_end_first(void **state) {
    struct fixture *f = ready(0);
    static float y[5000];
    use_preparer(f);
    run_chain(f, 500);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, y, sizeof y, NULL), INGOT_OK);
    for (int turn = 0; turn < 3; turn++)
        assert_int_equal(ig_context_enqueue(f->context, NULL, &f->error), INGOT_OK);
    prepare(f, 5000, true);
    for (int i = 0; i < 500; i++)
        assert_true(y[i] == -(2 * ramp[i] + 10));
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), INGOT_OK);
    struct ingot_tensor unused;
    expect_refusal(f, ig_context_output(f->context, 0, &unused, &f->error), INGOT_INVALID_ARGUMENT, "has no result");
    run_chain(f, 500);
    end_plan(f);
}

static void the_cache_stays_bounded(void **state) {
    struct fixture *f = ready(3);
    use_preparer(f);
    for (int64_t n = 1; n <= 40; n++) {
        prepare(f, n, true);
        if (n % 5 == 0) run_chain(f, n / 2 + 1);
        assert_true(plans_of(f).instances <= 3);
    }
    wait_for_preparer(f);
    assert_true(plans_of(f).instances <= 3);
    run_chain(f, 40);
    end_plan(f);
}

static void contexts_may_be_destroyed_at_any_time(void **state) {
    for (int trial = 0; trial < 60; trial++) {
        struct fixture *f = ready(0);
        use_preparer(f);
        for (int64_t n = 0; n < trial % 20; n++)
            prepare(f, 1000 - n * 7, true);
        if (trial % 3 == 0) run_chain(f, 993);
        end_plan(f);
    }
}

/* ---- Failures -------------------------------------------------------------------------------------------------------- */

static void nonsense_is_refused(void **state) {
    struct fixture *f = chain(2, 100);
    make_context(f, 1, 0, false);
    use_preparer(f);
    struct ingot_tensor x = vector(NULL, 10);
    for (int background = 0; background < 2; background++) {
        expect_refusal(f, ig_context_prepare_shapes(f->context, &x, 0, background, &f->error), INGOT_INVALID_ARGUMENT,
                       "shapes of 0 inputs are given, the engine has 1");
        expect_refusal(f, try_prepare(f, 101, background), INGOT_INVALID_ARGUMENT, "outside the range 2 to 100");
        x.dtype = INGOT_I8;
        expect_refusal(f, ig_context_prepare_shapes(f->context, &x, 1, background, &f->error), INGOT_INVALID_ARGUMENT,
                       "type is i8, wanted f32");
        x.dtype = INGOT_F32;
    }
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT, "input 'x' is not set");
    assert_int_equal(plans_of(f).instances, 0);
    wait_for_preparer(f);
    end_plan(f);
}

/* Also on the other thread, whose failures come back at the wait; the run then does it itself. */
static void any_allocation_may_fail(void **state) {
    for (int background = 0; background < 2; background++) {
        for (size_t at = 1;; at++) {
            struct fixture *f = ready(0);
            if (background) use_preparer(f);
            f->allocator.fail_at = f->allocator.calls + at;
            enum ingot_status status = try_prepare(f, 50, background);
            if (status == INGOT_OK) status = ig_context_prepared(f->context, &f->error);
            bool reached = f->allocator.calls >= f->allocator.fail_at;
            f->allocator.fail_at = 0;
            if (status != INGOT_OK) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
            wait_for_preparer(f); /* failures are told once */
            run_chain(f, 50);
            end_plan(f);
            if (!reached) break;
            assert_true(at < 1000);
        }
    }
}

/* ---- Main ------------------------------------------------------------------------------------------------------------ */

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(first_runs_capture_nothing),
        TEST_ON_BOTH(rounded_sizes_are_prepared),
        cmocka_unit_test_setup(other_memory_is_prepared, test_on_remote),
        TEST_ON_BOTH(runs_go_on_meanwhile),
        TEST_ON_BOTH(memory_may_grow_meanwhile),
        TEST_ON_BOTH(the_thread_rests_while_runs_go_on),
        TEST_ON_BOTH(pipelined_runs_end_first),
        TEST_ON_BOTH(the_cache_stays_bounded),
        TEST_ON_BOTH(contexts_may_be_destroyed_at_any_time),
        TEST_ON_BOTH(nonsense_is_refused),
        TEST_ON_BOTH(any_allocation_may_fail),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("shapes prepared ahead", tests, NULL, NULL);
}
