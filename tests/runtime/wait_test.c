/*
 * Waits with a limit and cancelled runs, on the CPU and on the device of support/device/remote_device.h, which holds work back
 * until it is waited for, or asked for often enough.
 */
#include "support/support.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/model/network.h"
#include "support/plan/runtime_case.h"

static void expect_ok(struct fixture *f, enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", f->error.message);
}

static struct fixture *ready_chain(void) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {.max_instances = 4, .max_bytes = SIZE_MAX, .threads = 2};
    expect_ok(f, try_context(f, config, 2));
    set_input(f, 0, vector(ramp, 1000));
    return f;
}

static void enqueue(struct fixture *f) {
    expect_ok(f, ig_context_enqueue(f->context, NULL, &f->error));
}

static void expect_no_results(struct fixture *f) {
    struct ingot_tensor y;
    struct ig_results *results;
    expect_refusal(f, ig_context_output(f->context, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    expect_refusal(f, ig_context_lease(f->context, &results, &f->error), INGOT_INVALID_ARGUMENT, "nothing to lease");
}

/* ---- Limits --------------------------------------------------------------------------------------------------------------- */

static void a_limit_loses_nothing(void **state) {
    struct fixture *f = ready_chain();
    run(f); /* further waits allocate nothing */
    size_t calls = f->allocator.calls;
    remote_device_counts(f->device);
    enqueue(f);
    for (int turn = 0; turn < 3; turn++) {
        expect_refusal(f, ig_context_wait_for(f->context, turn * 1e-6, &f->error), INGOT_TIMEOUT, "not done after");
        struct ingot_tensor y;
        expect_refusal(f, ig_context_output(f->context, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "under way");
    }
    assert_int_equal(remote_device_counts(f->device).blocked, 0);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    check_chain(f, 1000);
    enqueue(f);
    remote_device_hold(f->device, 5); /* done when asked for the fifth time */
    expect_ok(f, ig_context_wait_for(f->context, INFINITY, &f->error));
    check_chain(f, 1000);
    expect_ok(f, ig_context_wait_for(f->context, 0, &f->error)); /* nothing to wait for */
    remote_device_hold(f->device, UINT_MAX);
    enqueue(f);
    enqueue(f);
    expect_refusal(f, ig_context_wait_for(f->context, 0, &f->error), INGOT_TIMEOUT, "");
    enqueue(f); /* goes on after a wait that gave up */
    expect_ok(f, ig_context_wait(f->context, &f->error));
    check_chain(f, 1000);
    assert_int_equal(f->allocator.calls, calls);
    expect_refusal(f, ig_context_wait_for(f->context, -1, &f->error), INGOT_INVALID_ARGUMENT, "at least 0");
    expect_refusal(f, ig_context_wait_for(f->context, (double)NAN, &f->error), INGOT_INVALID_ARGUMENT, "at least 0");
    end_plan(f);
}

static void a_context_may_have_a_limit(void **state) {
    struct fixture *f = ready_chain();
    expect_ok(f, ig_context_set_time_limit(f->context, 1e-6, &f->error));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_TIMEOUT, "not done after 1e-06 seconds");
    expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_TIMEOUT, "not done after");
    expect_ok(f, ig_context_set_time_limit(f->context, 0, &f->error));
    expect_ok(f, ig_context_wait(f->context, &f->error));
    check_chain(f, 1000);
    expect_refusal(f, ig_context_set_time_limit(f->context, -0.5, &f->error), INGOT_INVALID_ARGUMENT, "time limit");
    end_plan(f);
}

static void failures_come_back_from_limited_waits(void **state) {
    struct fixture *f = ready_chain();
    enqueue(f);
    remote_device_hold(f->device, 3);
    remote_device_fail(f->device);
    expect_refusal(f, ig_context_wait_for(f->context, INFINITY, &f->error), INGOT_DEVICE, "the remote device failed");
    expect_no_results(f);
    remote_device_hold(f->device, UINT_MAX);
    run(f);
    check_chain(f, 1000);
    end_plan(f);
}

/* Limits that have passed before the run begins, and one that never passes: how fast the machine is makes no
 * difference. */
static void the_cpu_stops_at_its_limit(void **state) {
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct fixture *f = chain(0, INT32_MAX);
        make_context(f, threads, 4, false);
        run_chain(f, 1000);
        for (int turn = 0; turn < 3; turn++) {
            expect_ok(f, ig_context_set_time_limit(f->context, 1e-9, &f->error));
            expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_TIMEOUT, "stopped after its limit");
            expect_no_results(f);
            expect_ok(f, ig_context_wait(f->context, &f->error)); /* there is nothing to wait for */
            expect_ok(f, ig_context_set_time_limit(f->context, 1e12, &f->error));
            run_chain(f, 1000);
        }
        end_plan(f);
    }
}

/* ---- Cancelling on the CPU ------------------------------------------------------------------------------------------------------ */

/* A kernel that cancels the run it belongs to, and one that counts how often it runs. */
static struct ig_context *to_cancel;
static atomic_uint entries;

static void cancel_own(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    if (to_cancel) ig_context_cancel(to_cancel);
    memset(buf[0], 0, sizeof(float));
}

static void count_entries(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    atomic_fetch_add(&entries, 1);
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        ((float *)buf[0])[i] = 1;
}

/* Steps before, the one that cancels, and steps that must not run any more: alone or by all threads. */
static void the_cpu_stops_between_steps(void **state) {
    for (unsigned threads = 1; threads <= 3; threads++) {
        for (int64_t n = 1; n <= 100000; n += 99999) {
            struct fixture *f = begin_plan();
            struct tiny_plan *t = &f->tiny;
            uint32_t cancels = tiny_kernel(t, "cancel_own", cancel_own);
            uint32_t counts = tiny_kernel(t, "count_entries", count_entries);
            ig_slot size = tiny_const(t, n), one = tiny_const(t, 1);
            tiny_subplan(t);
            uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &size);
            LAUNCH(f, counts, size, y);
            LAUNCH(f, cancels, one, y);
            for (int i = 0; i < 5; i++)
                LAUNCH(f, counts, size, y);
            make_context(f, threads, 1, false);
            to_cancel = NULL;
            atomic_store(&entries, 0);
            run(f);
            assert_true(atomic_load(&entries) >= 6);
            for (int turn = 0; turn < 5; turn++) {
                to_cancel = f->context;
                atomic_store(&entries, 0);
                expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_CANCELLED, "the run was cancelled");
                unsigned before = atomic_load(&entries);
                expect_no_results(f);
                expect_ok(f, ig_context_wait(f->context, &f->error));
                to_cancel = NULL;
                atomic_store(&entries, 0);
                run(f);
                assert_true(((float *)output(f, 0).data)[n - 1] == 1);
                /* One step of six; how often each is entered depends on the threads. */
                if (threads == 1) assert_int_equal(before, 1);
                if (threads == 1) assert_int_equal(atomic_load(&entries), 6);
            }
            end_plan(f);
        }
    }
}

/* A loop that would go on for ever on what skipped steps leave. */
static void the_cpu_leaves_loops(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    uint32_t cancels = tiny_kernel(t, "cancel_own", cancel_own);
    ig_slot one = tiny_const(t, 1);
    tiny_subplan(t);
    uint32_t trip = tiny_input(t, "trip", INGOT_I64, 0, NULL);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &one), y = tiny_output(t, "y", INGOT_F32, 1, &one);
    const uint32_t operands[] = {trip, IG_PLAN_NONE, x, y};
    struct ig_plan_step *loop = tiny_step(t, IG_STEP_LOOP, "loop", operands, 4);
    loop->n_carried = 1;
    loop->n_inputs = 0;
    loop->a = 1;
    tiny_subplan(t);
    tiny_input(t, "i", INGOT_I64, 0, NULL);
    uint32_t go = tiny_input(t, "go", INGOT_BOOL, 0, NULL);
    uint32_t in = tiny_input(t, "in", INGOT_F32, 1, &one);
    uint32_t go_on = tiny_output(t, "go_on", INGOT_BOOL, 0, NULL), out = tiny_output(t, "out", INGOT_F32, 1, &one);
    const uint32_t same[] = {go, go_on}, next[] = {in, in, out};
    tiny_step(t, IG_STEP_COPY, "copy", same, 2);
    LAUNCH(f, f->add, one, next[0], next[1], next[2]);
    LAUNCH(f, cancels, one, out);
    make_context(f, 2, 1, false);
    int64_t times = INT64_MAX;
    float value = 1;
    set_input(f, 0, scalar_i64(&times));
    set_input(f, 1, vector(&value, 1));
    to_cancel = f->context;
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_CANCELLED, "the run was cancelled");
    to_cancel = NULL;
    times = 3;
    run(f);
    end_plan(f);
}

/* ---- Cancelling waits -------------------------------------------------------------------------------------------------------- */

static void a_wait_is_told_once(void **state) {
    struct fixture *f = ready_chain();
    float given[1000] = {0};
    run(f);
    ig_context_cancel(f->context); /* somebody has waited for all runs: no effect */
    expect_ok(f, ig_context_wait(f->context, &f->error));
    run(f);
    check_chain(f, 1000);
    for (int turn = 0; turn < 4; turn++) {
        double limit = turn % 2 ? 1e-3 : 0;
        expect_ok(f,
                  ig_context_set_output(f->context, 0, INGOT_HOST, turn < 2 ? given : NULL, sizeof given, &f->error));
        enqueue(f);
        remote_device_counts(f->device);
        ig_context_cancel(f->context);
        expect_ok(f, ig_context_set_time_limit(f->context, limit, &f->error));
        expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_CANCELLED, "the run was cancelled");
        assert_int_equal(remote_device_counts(f->device).syncs, 0); /* at once */
        expect_no_results(f);
        expect_ok(f, ig_context_set_time_limit(f->context, 0, &f->error));
        if (turn % 2 == 0) expect_ok(f, ig_context_wait(f->context, &f->error)); /* for the work itself */
        expect_no_results(f);
        assert_true(given[5] == 0); /* what came was not delivered */
        expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error));
        run(f);
        check_chain(f, 1000);
    }
    enqueue(f);
    ig_context_cancel(f->context);
    enqueue(f); /* a later run was not meant */
    expect_ok(f, ig_context_wait(f->context, &f->error));
    check_chain(f, 1000);
    end_plan(f);
}

/* The end of a context is no wait with a limit, nor one that can be cancelled. */
static void a_context_ends_after_its_work(void **state) {
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct fixture *f = ready_chain();
        struct ig_event *done;
        bool reached = false;
        enqueue(f);
        expect_ok(f, f->device->api->event_create(f->device, false, &done, &f->error));
        expect_ok(f, f->device->api->event_record(f->device, f->context->env.stream, done, &f->error));
        expect_ok(f, ig_context_set_time_limit(f->context, 1e-6, &f->error));
        if (cancelled) ig_context_cancel(f->context);
        remote_device_counts(f->device);
        ig_context_destroy(f->context);
        f->context = NULL;
        assert_int_equal(remote_device_counts(f->device).blocked, 1); /* not left to what frees the memory */
        expect_ok(f, f->device->api->event_await(f->device, done, false, &reached, &f->error));
        assert_true(reached);
        f->device->api->event_destroy(f->device, done);
        end_plan(f);
    }
}

static void leases_are_not_cancelled(void **state) {
    struct fixture *f = ready_chain();
    struct ig_results *results;
    struct ingot_tensor y;
    enqueue(f);
    expect_ok(f, ig_context_lease(f->context, &results, &f->error));
    ig_context_cancel(f->context);
    expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_CANCELLED, "");
    run_chain(f, 500);
    expect_ok(f, ig_results_wait(results, &f->error));
    expect_ok(f, ig_results_output(results, 0, &y, &f->error));
    assert_int_equal(y.dims[0], 1000);
    for (int i = 0; i < 1000; i++)
        assert_true(((float *)y.data)[i] == -(2 * ramp[i] + 10));
    ig_results_release(results);
    end_plan(f);
}

static void leases_are_waited_for_with_a_limit(void **state) {
    struct fixture *f = ready_chain();
    struct ig_results *results;
    struct ingot_tensor y;
    run(f);
    remote_device_counts(f->device);
    size_t calls = 0;
    for (int turn = 0; turn < 3; turn++) {
        enqueue(f);
        expect_ok(f, ig_context_lease(f->context, &results, &f->error));
        if (turn == 1) calls = f->allocator.calls;
        remote_device_counts(f->device);
        expect_refusal(f, ig_results_wait_for(results, turn * 1e-6, &f->error), INGOT_TIMEOUT, "not done after");
        assert_int_equal(remote_device_counts(f->device).blocked, 0);
        expect_refusal(f, ig_results_output(results, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "under way");
        remote_device_hold(f->device, 5); /* done when asked for the fifth time */
        expect_ok(f, ig_results_wait_for(results, INFINITY, &f->error));
        remote_device_hold(f->device, UINT_MAX);
        expect_ok(f, ig_results_wait_for(results, 0, &f->error)); /* known */
        expect_ok(f, ig_results_output(results, 0, &y, &f->error));
        assert_true(((float *)y.data)[7] == -(2 * ramp[7] + 10));
        ig_results_release(results);
        expect_ok(f, ig_context_wait(f->context, &f->error));
    }
    assert_int_equal(f->allocator.calls, calls);
    enqueue(f);
    expect_ok(f, ig_context_lease(f->context, &results, &f->error));
    expect_refusal(f, ig_results_wait_for(results, -1, &f->error), INGOT_INVALID_ARGUMENT, "at least 0");
    expect_refusal(f, ig_results_wait_for(results, (double)NAN, &f->error), INGOT_INVALID_ARGUMENT, "at least 0");
    remote_device_hold(f->device, 2);
    remote_device_fail(f->device);
    expect_refusal(f, ig_results_wait_for(results, INFINITY, &f->error), INGOT_DEVICE, "the remote device failed");
    expect_refusal(f, ig_results_wait_for(results, 0, &f->error), INGOT_DEVICE, "the leased run failed");
    ig_results_release(results);
    end_plan(f);
}

static void leases_on_the_cpu_are_done(void **state) {
    struct fixture *f = ready_chain();
    struct ig_results *results;
    run(f);
    expect_ok(f, ig_context_lease(f->context, &results, &f->error));
    expect_ok(f, ig_results_wait_for(results, 0, &f->error));
    expect_refusal(f, ig_results_wait_for(results, -1, &f->error), INGOT_INVALID_ARGUMENT, "at least 0");
    ig_results_release(results);
    end_plan(f);
}

/* Cancelled results in parts, and what they leave behind. */
static void large_results_are_cancelled(void **state) {
    enum { LARGE = 1500000 };
    struct fixture *f = ready_chain();
    float *x = calloc(LARGE, sizeof *x), *y = calloc(LARGE, sizeof *y);
    set_input(f, 0, vector(x, LARGE));
    for (int turn = 0; turn < 3; turn++) {
        expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, y, LARGE * sizeof *y, &f->error));
        for (int i = 0; i < 3; i++)
            enqueue(f);
        ig_context_cancel(f->context);
        expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_CANCELLED, "");
        if (turn == 0) assert_true(y[LARGE - 1] == 0);
        run(f);
        assert_true(y[LARGE - 1] == -10);
    }
    free(x);
    free(y);
    end_plan(f);
}

/* The other thread cancels before the wait begins or while it goes on: both end. */
static void *cancel_once(void *argument) {
    ig_context_cancel(argument);
    return NULL;
}

static void another_thread_ends_a_wait(void **state) {
    for (int turn = 0; turn < 50; turn++) {
        struct fixture *f = ready_chain();
        pthread_t thread;
        enqueue(f);
        assert_int_equal(pthread_create(&thread, NULL, cancel_once, f->context), 0);
        expect_refusal(f, ig_context_wait_for(f->context, INFINITY, &f->error), INGOT_CANCELLED, "");
        pthread_join(thread, NULL);
        run(f);
        check_chain(f, 1000);
        end_plan(f);
    }
}

/* Cancels again and again while another thread runs: each run is right or cancelled. */
static atomic_bool stop_cancelling;

static void *keep_cancelling(void *argument) {
    while (!atomic_load(&stop_cancelling))
        ig_context_cancel(argument);
    return NULL;
}

static void threads_cancel_at_any_time(void **state) {
    struct fixture *f = ready_chain();
    pthread_t thread;
    atomic_store(&stop_cancelling, false);
    assert_int_equal(pthread_create(&thread, NULL, keep_cancelling, f->context), 0);
    for (int turn = 0; turn < 300; turn++) {
        enum ingot_status status = ig_context_run(f->context, &f->error);
        if (status == INGOT_OK)
            check_chain(f, 1000);
        else
            expect_refusal(f, status, INGOT_CANCELLED, "the run was cancelled");
    }
    atomic_store(&stop_cancelling, true);
    pthread_join(thread, NULL);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    run(f);
    check_chain(f, 1000);
    end_plan(f);
}

/* A run that was given up, or stopped, passes the shared activations on. */
static void stopped_runs_pass_an_arena_on(void **state) {
    struct counting_allocator allocator;
    struct ig_activations_config shared = {.allocator = &allocator.base, .shared = true};
    struct ig_activations *activations;
    struct fixture *f[2];
    counting_allocator_init(&allocator);
    assert_int_equal(test_remote ? remote_device_create(1, &allocator.base, &shared.device, NULL)
                                 : ig_device_cpu_create(1, &allocator.base, &shared.device, NULL),
                     INGOT_OK);
    assert_int_equal(ig_activations_create(&shared, &activations, NULL), INGOT_OK);
    for (int i = 0; i < 2; i++) {
        struct ig_context_config config = {.max_bytes = SIZE_MAX, .threads = 1, .activations = activations};
        f[i] = chain(0, INT32_MAX);
        expect_ok(f[i], try_context(f[i], config, 1));
        run_chain(f[i], 700);
    }
    for (int turn = 0; turn < 6; turn++) {
        struct fixture *stopped = f[turn % 2], *next = f[(turn + turn / 2) % 2];
        set_input(stopped, 0, vector(ramp, 1000));
        expect_ok(stopped, ig_context_set_time_limit(stopped->context, test_remote ? 0 : 1e-9, &stopped->error));
        enum ingot_status status = ig_context_enqueue(stopped->context, NULL, &stopped->error);
        assert_int_equal(status, test_remote ? INGOT_OK : INGOT_TIMEOUT);
        ig_context_cancel(stopped->context);
        status = ig_context_wait(stopped->context, &stopped->error);
        assert_int_equal(status, test_remote ? INGOT_CANCELLED : INGOT_OK); /* stopped before */
        expect_ok(stopped, ig_context_set_time_limit(stopped->context, 0, &stopped->error));
        run_chain(next, 500);
    }
    end_plan(f[0]);
    end_plan(f[1]);
    ig_activations_destroy(activations);
    shared.device->api->destroy(shared.device);
    assert_int_equal(allocator.live_count, 0);
}

/* ---- The public names ------------------------------------------------------------------------------------------------------------ */

static void the_public_api_says_the_same(void **state) {
    static float pixels[64];
    struct test_network network;
    struct ingot_error error = {0};
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct ingot_tensor input = {INGOT_F32, 4, {1, 1, 8, 8}, pixels, INGOT_HOST}, first, second;
    assert_string_equal(ingot_status_name(INGOT_TIMEOUT), "timeout");
    assert_string_equal(ingot_status_name(INGOT_CANCELLED), "cancelled");
    ingot_context_cancel(NULL);
    assert_int_equal(ingot_context_wait_for(NULL, 1, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_time_limit(NULL, 1, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_lease_wait_for(NULL, 1, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_trim(NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_output_fresh(NULL, 0, INGOT_HOST, &error), INGOT_INVALID_ARGUMENT);
    test_network_build(&network, TEST_DIGITS, NULL);
    assert_int_equal(ingot_engine_load_memory(network.data, network.size, NULL, &engine, &error), INGOT_OK);
    assert_int_equal(ingot_context_create(engine, NULL, &context, &error), INGOT_OK);
    assert_int_equal(ingot_context_take_output(context, 0, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_input(context, 0, &input, &error), INGOT_OK);
    assert_int_equal(ingot_context_set_time_limit(context, 1e-9, &error), INGOT_OK);
    assert_int_equal(ingot_context_run(context, &error), INGOT_TIMEOUT);
    assert_int_equal(ingot_context_set_time_limit(context, 0, &error), INGOT_OK);
    assert_int_equal(ingot_context_enqueue(context, NULL, &error), INGOT_OK);
    ingot_context_cancel(context);
    assert_int_equal(ingot_context_wait_for(context, 0, &error), INGOT_CANCELLED);
    assert_int_equal(ingot_context_set_output_fresh(context, 1, INGOT_HOST, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_output_fresh(context, 0, INGOT_CUDA, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_context_set_output_fresh(context, 0, INGOT_HOST, &error), INGOT_OK);
    assert_int_equal(ingot_context_run(context, &error), INGOT_OK);
    assert_int_equal(ingot_context_take_output(context, 0, &first, &error), INGOT_OK);
    assert_int_equal(ingot_context_run(context, &error), INGOT_OK);
    assert_int_equal(ingot_context_take_output(context, 0, &second, &error), INGOT_OK);
    assert_ptr_not_equal(first.data, second.data);
    assert_memory_equal(first.data, second.data, 40);
    ingot_context_free(context, INGOT_HOST, first.data, 40);
    ingot_context_free(context, INGOT_HOST, second.data, 40);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    test_network_release(&network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_limit_loses_nothing, test_on_remote),
        cmocka_unit_test_setup(a_context_may_have_a_limit, test_on_remote),
        cmocka_unit_test_setup(failures_come_back_from_limited_waits, test_on_remote),
        cmocka_unit_test_setup(the_cpu_stops_at_its_limit, test_on_cpu),
        cmocka_unit_test_setup(the_cpu_stops_between_steps, test_on_cpu),
        cmocka_unit_test_setup(the_cpu_leaves_loops, test_on_cpu),
        cmocka_unit_test_setup(a_wait_is_told_once, test_on_remote),
        cmocka_unit_test_setup(a_context_ends_after_its_work, test_on_remote),
        cmocka_unit_test_setup(leases_are_not_cancelled, test_on_remote),
        cmocka_unit_test_setup(leases_are_waited_for_with_a_limit, test_on_remote),
        cmocka_unit_test_setup(leases_on_the_cpu_are_done, test_on_cpu),
        cmocka_unit_test_setup(large_results_are_cancelled, test_on_remote),
        cmocka_unit_test_setup(another_thread_ends_a_wait, test_on_remote),
        cmocka_unit_test_setup(threads_cancel_at_any_time, test_on_remote),
        cmocka_unit_test_setup(threads_cancel_at_any_time, test_on_cpu),
        cmocka_unit_test_setup(stopped_runs_pass_an_arena_on, test_on_remote),
        cmocka_unit_test_setup(stopped_runs_pass_an_arena_on, test_on_cpu),
        cmocka_unit_test(the_public_api_says_the_same),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
