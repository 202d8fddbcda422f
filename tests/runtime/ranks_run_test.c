/*
 * Runs of several ranks on a device that does its work late (support/device/remote_device.h): two may be under way, who enqueues a
 * third waits for the first, and a group that fails meanwhile gives no results away. The other ranks are a seat that does what
 * the test says.
 */
#include "support/support.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dist/group.h"
#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

enum { MOST = 1000 };

/* ---- The other ranks --------------------------------------------------------------------------------------------------- */

struct seat {
    struct ig_group base;
    unsigned looks; /* until one finds a failure; 0: none does */
    bool is_shared; /* the GPU, with other ranks */
    unsigned stopped;
};

static struct seat *seat_of(const struct ig_group *group) {
    return (struct seat *)(uintptr_t)group;
}

static enum ingot_status look(struct ig_group *group, struct ingot_error *error) {
    struct seat *seat = seat_of(group);
    if (seat->looks == 0 || --seat->looks > 0) return INGOT_OK;
    return IG_ERR(error, INGOT_DEVICE, "rank 1 has died");
}

static bool has_gpu_alone(const struct ig_group *group) {
    return !seat_of(group)->is_shared;
}

/* Kernels wait no longer. */
static void stop(struct ig_group *group, const char *reason) {
    seat_of(group)->stopped++;
}

static void init_seat(struct seat *seat) {
    static const struct ig_group_api api = {.look = look, .fail = stop, .has_gpu_alone = has_gpu_alone};
    *seat = (struct seat){0};
    ig_group_init(&seat->base, &api, 0, 2, NULL);
}

/* ---- The context ------------------------------------------------------------------------------------------------------- */

static void expect_ok(struct fixture *f, enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", f->error.message);
}

/* From now on, work is done when it is asked for again, so that waits end. */
static void let_go(struct fixture *f) {
    remote_device_hold(f->device, 2);
}

/* From now on, nothing is done by itself, and nobody waits for it: waits of ranks fail at once. */
static void hold(struct fixture *f, struct seat *seat) {
    remote_device_hold(f->device, UINT_MAX);
    ig_group_set_time_limit(&seat->base, 0);
}

static struct fixture *ready(struct seat *seat, bool profile) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {
        .max_instances = 4, .max_bytes = SIZE_MAX, .threads = 2, .group = &seat->base, .profile = profile};
    expect_ok(f, try_context(f, config, 2));
    let_go(f);
    run_chain(f, MOST);
    run_chain(f, 300);
    return f;
}

static void enqueue(struct fixture *f) {
    expect_ok(f, ig_context_enqueue(f->context, NULL, &f->error));
}

/* Runs that nobody has seen to end. */
static int under_way(const struct fixture *f) {
    return f->context->unseen[0] + f->context->unseen[1];
}

static void expect_no_results(struct fixture *f) {
    struct ingot_tensor y;
    struct ig_results *results;
    expect_refusal(f, ig_context_output(f->context, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    expect_refusal(f, ig_context_lease(f->context, &results, &f->error), INGOT_INVALID_ARGUMENT, "nothing to lease");
}

/* ---- Two runs ---------------------------------------------------------------------------------------------------------- */

static void a_third_run_waits_for_the_first(void **state) {
    struct seat seat;
    init_seat(&seat);
    struct fixture *f = ready(&seat, false);
    const size_t calls = f->allocator.calls;
    hold(f, &seat);
    for (int i = 1; i <= 2; i++) {
        remote_device_counts(f->device);
        enqueue(f);
        struct remote_counts counts = remote_device_counts(f->device);
        assert_int_equal(counts.lists, 1);
        assert_int_equal(counts.blocked, 0);
        assert_int_equal(under_way(f), i);
    }
    ig_group_set_time_limit(&seat.base, 60);
    let_go(f);
    enqueue(f);
    struct remote_counts counts = remote_device_counts(f->device);
    assert_int_equal(counts.blocked, 1); /* for the first: the second is under way still */
    assert_int_equal(under_way(f), 2);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    check_chain(f, 300);
    assert_int_equal(under_way(f), 0);
    assert_int_equal(f->allocator.calls, calls);
    hold(f, &seat);
    enqueue(f);
    enqueue(f);
    expect_refusal(f, ig_context_enqueue(f->context, NULL, &f->error), INGOT_TIMEOUT,
                   "a run of rank 0 of 2 did not end within 0 s: a rank is missing");
    assert_int_equal(seat.stopped, 1);
    expect_no_results(f);
    end_plan(f);
}

/* Each with input and results of its own, of which the host overwrites the input as soon as it may. */
static void shapes_change_from_run_to_run(void **state) {
    enum { RUNS = 12 };
    struct seat seat;
    init_seat(&seat);
    struct fixture *f = ready(&seat, false);
    float *y[RUNS], x[MOST];
    for (int r = 0; r < RUNS; r++) {
        const int n = r % 3 ? MOST : 300;
        void *memory;
        for (int i = 0; i < n; i++)
            x[i] = (float)(i * (r + 1));
        expect_ok(f, ig_context_allocate(f->context, INGOT_PINNED, sizeof x, &memory, &f->error));
        y[r] = memory;
        set_input(f, 0, vector(x, n));
        expect_ok(f, ig_context_set_output(f->context, 0, INGOT_PINNED, y[r], sizeof x, &f->error));
        let_go(f);
        enqueue(f);
        assert_int_equal(under_way(f), r > 2 ? 2 : 1 - (r < 2)); /* the first ones capture lists with these results */
        memset(x, 0, sizeof x);
    }
    expect_ok(f, ig_context_wait(f->context, &f->error));
    for (int r = 0; r < RUNS; r++) {
        for (int i = 0; i < (r % 3 ? MOST : 300); i++)
            assert_true(y[r][i] == -(2 * (float)(i * (r + 1)) + 10));
        ig_context_free(f->context, INGOT_PINNED, y[r], sizeof x);
    }
    end_plan(f);
}

/* What the host waits for within a run, or may make the driver wait, is no time for another run to be under way. */
static void other_runs_are_alone(void **state) {
    for (int turn = 0; turn < 3; turn++) {
        struct seat seat;
        init_seat(&seat);
        struct fixture *f = ready(&seat, turn == 1);
        enqueue(f);
        assert_int_equal(under_way(f), turn != 1);
        if (turn == 0) set_input(f, 0, vector(ramp, 700)); /* new shapes */
        if (turn == 2) seat.is_shared = true;
        let_go(f);
        enqueue(f);
        assert_int_equal(under_way(f), 0);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        check_chain(f, turn == 0 ? 700 : 300);
        end_plan(f);
    }
}

static void contexts_of_a_seat_take_turns(void **state) {
    struct seat seat;
    init_seat(&seat);
    struct fixture *f[2] = {ready(&seat, false), ready(&seat, false)};
    enqueue(f[0]);
    assert_int_equal(under_way(f[0]), 1);
    remote_device_counts(f[0]->device);
    let_go(f[0]);
    enqueue(f[1]);
    assert_int_equal(under_way(f[0]), 0);
    assert_int_equal(remote_device_counts(f[0]->device).blocked, 1);
    assert_int_equal(under_way(f[1]), 1);
    for (int i = 0; i < 2; i++) {
        expect_ok(f[i], ig_context_wait(f[i]->context, &f[i]->error));
        check_chain(f[i], 300);
    }
    end_plan(f[1]);
    enqueue(f[0]); /* the seat has forgotten the other one */
    end_plan(f[0]);
    assert_null(ig_group_user(&seat.base));
}

/* ---- Failures ---------------------------------------------------------------------------------------------------------- */

/* The seat fails while runs are under way, and whoever asks first is told; then everybody. */
static void failures_are_told(void **state) {
    for (int turn = 0; turn < 6; turn++) {
        struct seat seat;
        struct ingot_tensor y;
        struct ig_results *results;
        float given[MOST] = {0};
        init_seat(&seat);
        struct fixture *f = ready(&seat, false);
        enum ingot_memory memory = turn == 2 ? INGOT_CUDA : INGOT_HOST;
        expect_ok(f, ig_context_set_output(f->context, 0, memory, turn == 0 ? given : NULL, sizeof given, &f->error));
        enqueue(f);
        enqueue(f);
        enqueue(f);
        assert_int_equal(under_way(f), 2);
        seat.looks = 1;
        enum ingot_status status;
        switch (turn) {
        case 0: status = ig_context_wait(f->context, &f->error); break;
        case 1: status = ig_context_enqueue(f->context, NULL, &f->error); break;
        case 2: status = ig_context_output(f->context, 0, &y, &f->error); break;
        case 3: status = ig_context_lease(f->context, &results, &f->error); break;
        case 4: status = ig_context_wait_for(f->context, INFINITY, &f->error); break;
        default: status = ig_context_trim(f->context, &f->error); break;
        }
        expect_refusal(f, status, INGOT_DEVICE, "rank 1 has died");
        assert_int_equal(seat.stopped, 1);
        if (turn == 2 || turn == 3)
            expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_DEVICE, "rank 1 has died");
        assert_int_equal(under_way(f), 0);
        assert_true(given[0] == 0);
        expect_no_results(f);
        expect_ok(f, ig_context_wait(f->context, &f->error)); /* there is nothing to wait for */
        remote_device_counts(f->device);
        expect_refusal(f, ig_context_enqueue(f->context, NULL, &f->error), INGOT_DEVICE, "rank 1 has died");
        struct remote_counts counts = remote_device_counts(f->device);
        assert_int_equal(counts.lists + counts.blocked, 0);
        end_plan(f);
    }
}

/* Another context of the seat may be the one that is told first. */
static void failures_are_told_to_all_contexts(void **state) {
    struct seat seat;
    init_seat(&seat);
    struct fixture *f[2] = {ready(&seat, false), ready(&seat, false)};
    enqueue(f[0]);
    seat.looks = 1;
    expect_refusal(f[1], ig_context_enqueue(f[1]->context, NULL, &f[1]->error), INGOT_DEVICE, "rank 1 has died");
    expect_refusal(f[0], ig_context_wait(f[0]->context, &f[0]->error), INGOT_DEVICE, "rank 1 has died");
    expect_no_results(f[0]);
    end_plan(f[0]);
    end_plan(f[1]);
}

/* A run that cannot begin takes nothing from the one before, and the group goes on. */
static void bad_inputs_are_no_failure_of_the_group(void **state) {
    struct seat seat;
    init_seat(&seat);
    struct fixture *f = ready(&seat, false);
    void *y;
    expect_ok(f, ig_context_allocate(f->context, INGOT_PINNED, 300 * sizeof(float), &y, &f->error));
    expect_ok(f, ig_context_set_output(f->context, 0, INGOT_PINNED, y, 300 * sizeof(float), &f->error));
    enqueue(f);
    memset(y, 0, 300 * sizeof(float));
    enqueue(f);
    set_input(f, 0, vector(ramp, 301));
    let_go(f);
    expect_refusal(f, ig_context_enqueue(f->context, NULL, &f->error), INGOT_INVALID_ARGUMENT, "memory given");
    assert_int_equal(under_way(f), 0);
    for (int i = 0; i < 300; i++)
        assert_true(((float *)y)[i] == -(2 * ramp[i] + 10));
    expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error));
    let_go(f);
    run_chain(f, 300);
    ig_context_free(f->context, INGOT_PINNED, y, 300 * sizeof(float));
    end_plan(f);
}

/* The caller's limit is no failure, and neither is cancelling. */
static void waits_may_end_early(void **state) {
    struct seat seat;
    init_seat(&seat);
    struct fixture *f = ready(&seat, false);
    remote_device_hold(f->device, UINT_MAX);
    enqueue(f);
    enqueue(f);
    for (int turn = 0; turn < 3; turn++)
        expect_refusal(f, ig_context_wait_for(f->context, turn * 1e-6, &f->error), INGOT_TIMEOUT, "not done after");
    assert_int_equal(under_way(f), 2);
    ig_context_cancel(f->context);
    expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_CANCELLED, "the run was cancelled");
    expect_no_results(f);
    let_go(f);
    enqueue(f);
    assert_int_equal(under_way(f), 2);
    expect_ok(f, ig_context_wait_for(f->context, INFINITY, &f->error));
    check_chain(f, 300);
    assert_int_equal(seat.stopped, 0);
    hold(f, &seat); /* the group's limit is a failure */
    enqueue(f);
    expect_refusal(f, ig_context_wait_for(f->context, INFINITY, &f->error), INGOT_TIMEOUT, "a rank is missing");
    expect_no_results(f);
    end_plan(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_third_run_waits_for_the_first, test_on_remote),
        cmocka_unit_test_setup(shapes_change_from_run_to_run, test_on_remote),
        cmocka_unit_test_setup(other_runs_are_alone, test_on_remote),
        cmocka_unit_test_setup(contexts_of_a_seat_take_turns, test_on_remote),
        cmocka_unit_test_setup(failures_are_told, test_on_remote),
        cmocka_unit_test_setup(failures_are_told_to_all_contexts, test_on_remote),
        cmocka_unit_test_setup(bad_inputs_are_no_failure_of_the_group, test_on_remote),
        cmocka_unit_test_setup(waits_may_end_early, test_on_remote),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("runs of ranks", tests, NULL, NULL);
}
