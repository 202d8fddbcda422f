/*
 * Leases on results, on the CPU and on the device of support/device/remote_device.h, which works as late as it may: leased
 * results stay what they are, whatever runs; they outlive their context; runs with leases allocate nothing. And results
 * in fresh memory.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/model/network.h"
#include "support/plan/runtime_case.h"

static struct fixture *ready_chain(void) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {.max_instances = 4, .max_bytes = SIZE_MAX, .threads = 2};
    if (try_context(f, config, 2) != INGOT_OK) fail_msg("%s", f->error.message);
    return f;
}

static void expect_ok(struct fixture *f, enum ingot_status status) {
    if (status != INGOT_OK) fail_msg("%s", f->error.message);
}

/* Leases outlive what end_plan destroys. */
static void end_context(struct fixture *f) {
    ig_context_destroy(f->context);
    ig_device_release(f->device);
    f->context = NULL;
    f->device = NULL;
}

/* The chain's result for x. */
static float expected(float x) {
    return -(2 * x + 10);
}

/* Input number `number`, of n elements. */
static void fill(float *x, int64_t n, int number) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 4093 + 7 * number);
}

static void enqueue_number(struct fixture *f, float *x, int64_t n, int number) {
    fill(x, n, number);
    set_input(f, 0, vector(n ? x : NULL, n));
    expect_ok(f, ig_context_enqueue(f->context, NULL, &f->error));
}

static struct ig_results *lease(struct fixture *f) {
    struct ig_results *results = NULL;
    expect_ok(f, ig_context_lease(f->context, &results, &f->error));
    return results;
}

/* Checks the results of a leased run on that input. */
static void check_lease(struct fixture *f, struct ig_results *results, int64_t n, int number) {
    struct ingot_tensor y;
    expect_ok(f, ig_results_wait(results, &f->error));
    expect_ok(f, ig_results_output(results, 0, &y, &f->error));
    assert_int_equal(y.dtype, INGOT_F32);
    assert_int_equal(y.rank, 1);
    assert_int_equal(y.dims[0], n);
    float *values = malloc((size_t)n * sizeof *values + 1);
    if (y.memory == INGOT_CUDA)
        remote_device_read(values, y.data, (size_t)n * sizeof *values);
    else if (n)
        memcpy(values, y.data, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        float wanted = expected((float)(i % 4093 + 7 * number));
        if (values[i] != wanted)
            fail_msg("run %d: element %d is %g instead of %g", number, (int)i, (double)values[i], (double)wanted);
    }
    free(values);
}

/* ---- What is leased stays ------------------------------------------------------------------------------------------------- */

enum { MOST_HELD = 4, SMALL = 1000, LARGE = 1500000 };

/* The last k results are held while more runs follow; `waits`: after each run. Each is checked after every run that may
 * have overwritten it, if all work is done then, and at last when it is released. */
static void hold_last(int64_t n, int held, bool waits, enum ingot_memory memory) {
    struct fixture *f = ready_chain();
    struct ig_results *leases[MOST_HELD] = {NULL};
    float *x = malloc((size_t)n * sizeof *x);
    const int warm = 2 * held + 4;
    size_t calls = 0;
    assert_int_equal(ig_context_set_output(f->context, 0, memory, NULL, 0, NULL), INGOT_OK);
    for (int turn = 0; turn < warm + 2 * held + 2; turn++) {
        if (turn == warm) calls = f->allocator.calls;
        enqueue_number(f, x, n, turn);
        if (waits) expect_ok(f, ig_context_wait(f->context, &f->error));
        if (held == 0) continue;
        struct ig_results **slot = &leases[turn % held];
        if (*slot) {
            check_lease(f, *slot, n, turn - held);
            ig_results_release(*slot);
        }
        *slot = lease(f);
        for (int i = 1; waits && i < held && i <= turn; i++)
            check_lease(f, leases[(turn - i) % held], n, turn - i);
    }
    assert_int_equal(f->allocator.calls, calls);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    for (int i = 0; i < held; i++)
        ig_results_release(leases[i]);
    free(x);
    end_plan(f);
}

static void the_last_results_stay(void **state) {
    for (int held = 0; held <= MOST_HELD; held++) {
        hold_last(SMALL, held, true, INGOT_HOST);
        hold_last(SMALL, held, false, INGOT_HOST);
        hold_last(SMALL, held, false, INGOT_PINNED);
    }
}

/* Enqueued without waits, these leave on a stream of their own. */
static void large_results_stay(void **state) {
    for (int held = 1; held <= MOST_HELD; held += 3) {
        hold_last(LARGE, held, true, INGOT_HOST);
        hold_last(LARGE, held, false, INGOT_HOST);
    }
}

static void results_on_the_device_stay(void **state) {
    for (int held = 0; held <= MOST_HELD; held++) {
        hold_last(SMALL, held, true, INGOT_CUDA);
        hold_last(SMALL, held, false, INGOT_CUDA);
    }
}

/* The hazard that leases are for: a view of an earlier output, after the next run. */
static void only_leases_keep_earlier_results(void **state) {
    struct fixture *f = ready_chain();
    float x[SMALL];
    enqueue_number(f, x, SMALL, 0);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    const float *view = output(f, 0).data;
    enqueue_number(f, x, SMALL, 1);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    assert_ptr_equal(output(f, 0).data, view); /* overwritten, as the header says */
    struct ig_results *held = lease(f);
    enqueue_number(f, x, SMALL, 2);
    expect_ok(f, ig_context_wait(f->context, &f->error));
    assert_ptr_not_equal(output(f, 0).data, view);
    assert_true(view[5] == expected(5 + 7));
    check_lease(f, held, SMALL, 1);
    ig_results_release(held);
    enqueue_number(f, x, SMALL, 3); /* goes where the last one went: nothing to patch */
    expect_ok(f, ig_context_wait(f->context, &f->error));
    assert_true(view[5] == expected(5 + 7));
    end_plan(f);
}

/* Each run leases what the run before has returned: two sets in turn, one address to patch. */
static void leases_cost_one_patch(void **state) {
    struct fixture *f = ready_chain();
    float x[SMALL];
    struct ig_results *last = NULL;
    for (int turn = 0; turn < 12; turn++) {
        remote_device_counts(f->device);
        enqueue_number(f, x, SMALL, turn);
        struct remote_counts c = remote_device_counts(f->device);
        if (turn > 3) assert_int_equal(c.patches, turn % 4 != 0);
        if (turn > 3) assert_int_equal(c.captures + c.allocations + c.copies, 0);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        remote_device_counts(f->device);
        if (turn % 4 == 3) continue; /* without a lease, the next run needs no patch */
        struct ig_results *results = lease(f);
        c = remote_device_counts(f->device);
        assert_int_equal(c.records + c.syncs, 0); /* the run is done */
        if (last) ig_results_release(last);
        last = results;
    }
    ig_results_release(last);
    end_plan(f);
}

static void shapes_change_while_leases_are_held(void **state) {
    static const int64_t sizes[] = {100, 1000, 0, 64, 1001, 100, 1000, 5000};
    struct fixture *f = ready_chain();
    float x[5000];
    struct ig_results *leases[8];
    for (int i = 0; i < 8; i++) {
        enqueue_number(f, x, sizes[i], i);
        leases[i] = lease(f);
    }
    for (int i = 7; i >= 0; i--)
        check_lease(f, leases[i], sizes[i], i);
    for (int i = 0; i < 8; i += 2)
        ig_results_release(leases[i]);
    for (int i = 0; i < 8; i++) { /* into what was returned, grown where it must be */
        enqueue_number(f, x, sizes[7 - i], 20 + i);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        assert_true(sizes[7 - i] == 0 || ((float *)output(f, 0).data)[0] == expected((float)(7 * (20 + i))));
    }
    for (int i = 1; i < 8; i += 2) {
        check_lease(f, leases[i], sizes[i], i);
        ig_results_release(leases[i]);
    }
    end_plan(f);
}

/* ---- Several outputs, of which some are the caller's ------------------------------------------------------------------------ */

static struct fixture *two_outputs(void) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, INT32_MAX);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t z = tiny_output(t, "z", INGOT_F32, 1, &n);
    LAUNCH(f, f->add, n, x, x, y);
    LAUNCH(f, f->negate, n, x, z);
    make_context(f, 2, 4, false);
    return f;
}

static void a_lease_is_on_the_contexts_own_memory(void **state) {
    struct fixture *f = two_outputs();
    struct ig_results *results;
    struct ingot_tensor tensor;
    float given[100];
    expect_refusal(f, ig_context_lease(f->context, &results, &f->error), INGOT_INVALID_ARGUMENT, "nothing to lease");
    set_input(f, 0, vector(ramp, 100));
    expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, given, sizeof given, &f->error));
    for (int turn = 0; turn < 3; turn++) {
        memset(given, 0, sizeof given);
        expect_ok(f, ig_context_enqueue(f->context, NULL, &f->error));
        results = lease(f);
        struct ig_results *again;
        expect_refusal(f, ig_context_lease(f->context, &again, &f->error), INGOT_INVALID_ARGUMENT, "leased already");
        expect_refusal(f, ig_results_output(results, 0, &tensor, &f->error), INGOT_INVALID_ARGUMENT, "not leased");
        expect_refusal(f, ig_results_output(results, 2, &tensor, &f->error), INGOT_INVALID_ARGUMENT, "no output 2");
        if (f->remote)
            expect_refusal(f, ig_results_output(results, 1, &tensor, &f->error), INGOT_INVALID_ARGUMENT, "under way");
        if (turn == 1) ig_results_release(results); /* while the run may be in flight */
        if (turn == 1) expect_refusal(f, ig_context_lease(f->context, &again, &f->error), INGOT_INVALID_ARGUMENT, "");
        expect_ok(f, ig_context_wait(f->context, &f->error));
        assert_true(given[7] == 2 * ramp[7]); /* the host delivers it as ever */
        assert_true(((float *)output(f, 1).data)[7] == -ramp[7]);
        if (turn == 1) continue;
        expect_ok(f, ig_results_output(results, 1, &tensor, &f->error));
        assert_true(((float *)tensor.data)[7] == -ramp[7]);
        ig_results_release(results);
    }
    expect_ok(f, ig_context_set_output(f->context, 1, INGOT_HOST, given, sizeof given, &f->error));
    run(f);
    expect_refusal(f, ig_context_lease(f->context, &results, &f->error), INGOT_INVALID_ARGUMENT, "nothing to lease");
    end_plan(f);
}

/* ---- Readers on the caller's streams ---------------------------------------------------------------------------------------- */

/* A copy on the caller's stream reads the results. The device works late, so without an order between the copy and the
 * run that reuses the memory, the run comes first. `memory`: where the results are; the copy is in the other kind. */
static void read_late(enum ingot_memory memory) {
    struct fixture *f = ready_chain();
    const struct ig_device_api *api = f->device->api;
    float x[100], *larger = malloc(5000 * sizeof *larger), values[100];
    struct ig_stream *callers;
    struct ingot_tensor y;
    void *copy;
    expect_ok(f, api->stream_create(f->device, &callers, &f->error));
    expect_ok(f, (memory == INGOT_CUDA ? api->allocate_host : api->allocate)(f->device, sizeof x, &copy, &f->error));
    expect_ok(f, ig_context_set_output(f->context, 0, memory, NULL, 0, &f->error));
    for (int turn = 0; turn < 4; turn++) {
        enqueue_number(f, x, 100, turn);
        struct ig_results *results = lease(f);
        expect_ok(f, ig_results_wait(results, &f->error));
        expect_ok(f, ig_results_output(results, 0, &y, &f->error));
        expect_ok(f, api->copy(f->device, callers, copy, y.data, sizeof x, &f->error));
        expect_refusal(f, ig_results_release_after(results, NULL, &f->error), INGOT_INVALID_ARGUMENT, "default stream");
        expect_ok(f, ig_results_release_after(results, callers, &f->error));
        if (turn == 3) break;                                  /* the copy is in flight when the memory is freed */
        enqueue_number(f, larger, turn == 2 ? 5000 : 100, 50); /* reused, or grown */
        assert_ptr_equal(f->context->results, results);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        expect_ok(f, api->stream_wait(f->device, callers, &f->error));
        remote_device_read(values, copy, sizeof values);
        for (int i = 0; i < 100; i++)
            assert_true(values[i] == expected((float)(i + 7 * turn)));
    }
    ig_context_destroy(f->context);
    f->context = NULL;
    remote_device_read(values, copy, sizeof values);
    for (int i = 0; i < 100; i++)
        assert_true(values[i] == expected((float)(i + 7 * 3)));
    (memory == INGOT_CUDA ? api->release_host : api->release)(f->device, copy, sizeof x);
    free(larger);
    end_plan(f);
}

static void memory_is_reused_behind_its_readers(void **state) {
    read_late(INGOT_CUDA);
    read_late(INGOT_HOST);
}

/* The device ends the test if pinned memory is freed that a copy will read. Without a context, nothing else makes that
 * copy run. */
static void memory_is_freed_behind_its_readers(void **state) {
    struct fixture *f = begin_plan();
    struct ig_results_pool *pool;
    struct ig_results *results;
    struct ig_stream *callers;
    void *copy;
    expect_ok(f, remote_device_create(1, &f->allocator.base, &f->device, &f->error));
    expect_ok(f, f->device->api->stream_create(f->device, &callers, &f->error));
    expect_ok(f, f->device->api->allocate(f->device, 64, &copy, &f->error));
    expect_ok(f, ig_results_pool_create(f->device, 1, &f->allocator.base, &pool, &f->error));
    expect_ok(f, ig_results_add(pool, &results, &f->error));
    for (size_t size = 64; size <= 256; size *= 2) { /* grown twice, then destroyed */
        expect_ok(f, ig_results_reserve(results, size, 0, &f->error));
        expect_ok(f, ig_results_lease(results, NULL, NULL, &f->error));
        expect_ok(f, f->device->api->copy(f->device, callers, copy, results->host, 64, &f->error));
        expect_ok(f, ig_results_release_after(results, callers, &f->error));
    }
    ig_results_pool_drop(pool);
    f->device->api->release(f->device, copy, 64);
    end_plan(f);
}

static void the_cpu_has_no_streams_to_follow(void **state) {
    struct fixture *f = ready_chain();
    float x[10];
    enqueue_number(f, x, 10, 1);
    struct ig_results *results = lease(f);
    expect_refusal(f, ig_results_release_after(results, f, &f->error), INGOT_INVALID_ARGUMENT, "runs on the CPU");
    ig_results_release(results);
    end_plan(f);
}

/* ---- Lifetimes and failures --------------------------------------------------------------------------------------------------- */

/* Context and leases end in every order, with runs in flight. */
static void leases_outlive_the_context(void **state) {
    for (int order = 0; order < 4 * 3 * 2; order++) {
        int events[4] = {0, 1, 2, 3}; /* leases 0 to 2, and the end of the context */
        for (int i = 0, rest = order; i < 3; rest /= 4 - i, i++) {
            int other = i + rest % (4 - i), swapped = events[i];
            events[i] = events[other];
            events[other] = swapped;
        }
        struct fixture *f = ready_chain();
        struct ig_results *leases[3];
        bool gone = false;
        float x[200];
        for (int i = 0; i < 3; i++) {
            enqueue_number(f, x, 100 + 30 * i, i);
            leases[i] = lease(f);
        }
        for (int i = 0; i < 4; i++) {
            if (events[i] == 3) end_context(f);
            if (events[i] == 3) gone = true;
            if (events[i] == 3) continue;
            int number = events[i];
            if (gone || order % 2) check_lease(f, leases[number], 100 + 30 * number, number);
            ig_results_release(leases[number]);
        }
        end_plan(f);
    }
}

static void a_failed_run_fails_its_lease(void **state) {
    struct fixture *f = ready_chain();
    struct ig_results *first, *second;
    struct ingot_tensor y;
    float x[100];
    for (int by_context = 0; by_context < 2; by_context++) {
        enqueue_number(f, x, 100, 0);
        first = lease(f);
        remote_device_fail(f->device);
        if (by_context)
            expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_DEVICE, "failed");
        else
            expect_refusal(f, ig_results_wait(first, &f->error), INGOT_DEVICE, "the remote device failed");
        expect_refusal(f, ig_results_wait(first, &f->error), INGOT_DEVICE, "the leased run failed");
        expect_refusal(f, ig_results_output(first, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "failed");
        enqueue_number(f, x, 100, 1);
        second = lease(f);
        check_lease(f, second, 100, 1);
        ig_results_release(first);
        ig_results_release(second);
        expect_ok(f, ig_context_wait(f->context, &f->error));
    }
    enqueue_number(f, x, 100, 2); /* nobody asks before the end */
    first = lease(f);
    remote_device_fail(f->device);
    end_context(f);
    expect_refusal(f, ig_results_wait(first, &f->error), INGOT_DEVICE, "the leased run failed");
    ig_results_release(first);
    end_plan(f);
}

/* Allocation `n` fails; returns whether nothing has failed. */
static bool hold_with_failure(size_t n) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {.max_instances = 4, .max_bytes = SIZE_MAX};
    struct ig_results *leases[3] = {NULL};
    float x[3000];
    f->allocator.fail_at = n;
    enum ingot_status status = try_context(f, config, 2);
    for (int turn = 0; status == INGOT_OK && turn < 9; turn++) {
        int64_t size = turn < 6 ? 100 : 3000;
        struct ingot_tensor input = vector(x, size);
        fill(x, size, turn);
        status = ig_context_set_input(f->context, 0, &input, &f->error);
        if (turn == 4 && !status) status = ig_context_set_output_fresh(f->context, 0, INGOT_PINNED, &f->error);
        if (turn == 5 && !status) status = ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error);
        if (!status) status = ig_context_enqueue(f->context, NULL, &f->error);
        if (status || turn == 4) continue;
        if (leases[turn % 3]) ig_results_release(leases[turn % 3]);
        leases[turn % 3] = NULL;
        status = ig_context_lease(f->context, &leases[turn % 3], &f->error);
    }
    if (status != INGOT_OK) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
    bool done = status == INGOT_OK;
    if (f->context && !done) { /* it can be used on */
        f->allocator.fail_at = 0;
        expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error));
        run_chain(f, 100);
        struct ig_results *results = lease(f);
        ig_results_release(results);
    }
    for (int i = 0; i < 3; i++) {
        if (leases[i]) ig_results_release(leases[i]);
    }
    end_plan(f);
    return done;
}

static void failing_allocations_leave_all_in_order(void **state) {
    size_t n = 1;
    while (!hold_with_failure(n))
        n++;
    assert_true(n > 20);
}

/* ---- Fresh results ---------------------------------------------------------------------------------------------------------------- */

static void fresh_results_are_the_callers(void **state) {
    static const enum ingot_memory memories[] = {INGOT_HOST, INGOT_PINNED, INGOT_CUDA};
    for (int kind = 0; kind < (test_remote ? 3 : 2); kind++) {
        enum { TAKEN = 6 };
        struct fixture *f = ready_chain();
        struct ingot_tensor taken[TAKEN], tensor;
        float x[100], values[100];
        expect_ok(f, ig_context_set_output_fresh(f->context, 0, memories[kind], &f->error));
        for (int turn = 0; turn < TAKEN; turn++) {
            size_t calls = f->allocator.calls;
            enqueue_number(f, x, 100, turn);
            if (turn > 0) assert_int_equal(f->allocator.calls - calls, 1);
            if (f->remote && kind < 2)
                expect_refusal(f, ig_context_take_output(f->context, 0, &tensor, &f->error), INGOT_INVALID_ARGUMENT,
                               "under way");
            if (turn % 2) expect_ok(f, ig_context_wait(f->context, &f->error));
            if (turn == 4 && f->remote && kind == 2)
                expect_ok(f, ig_context_take_output(f->context, 0, &taken[turn], &f->error)); /* before the wait */
            expect_ok(f, ig_context_wait(f->context, &f->error));
            if (turn != 4 || !f->remote || kind < 2)
                expect_ok(f, ig_context_take_output(f->context, 0, &taken[turn], &f->error));
            expect_refusal(f, ig_context_take_output(f->context, 0, &tensor, &f->error), INGOT_INVALID_ARGUMENT,
                           "no result");
        }
        for (int turn = 0; turn < TAKEN; turn++) {
            assert_int_equal(taken[turn].memory, memories[kind]);
            if (kind == 2)
                remote_device_read(values, taken[turn].data, sizeof values);
            else
                memcpy(values, taken[turn].data, sizeof values);
            for (int i = 0; i < 100; i++)
                assert_true(values[i] == expected((float)(i + 7 * turn)));
            ig_context_free(f->context, taken[turn].memory, taken[turn].data, sizeof values);
        }
        end_plan(f);
    }
}

/* What nobody takes is the context's: it is reused, or freed when the size or the mode changes, also in flight. */
static void fresh_results_that_nobody_takes(void **state) {
    static const enum ingot_memory memories[] = {INGOT_HOST, INGOT_PINNED, INGOT_CUDA};
    for (int kind = 0; kind < (test_remote ? 3 : 2); kind++) {
        struct fixture *f = ready_chain();
        float x[3000];
        struct ig_results *results;
        struct ingot_tensor tensor;
        expect_ok(f, ig_context_set_output_fresh(f->context, 0, memories[kind], &f->error));
        enqueue_number(f, x, 100, 1);
        expect_refusal(f, ig_context_lease(f->context, &results, &f->error), INGOT_INVALID_ARGUMENT,
                       "nothing to lease");
        const void *first = f->context->outputs[0].given;
        enqueue_number(f, x, 100, 2);
        assert_ptr_equal(f->context->outputs[0].given, first);
        enqueue_number(f, x, 3000, 3);
        enqueue_number(f, x, 0, 4);
        enqueue_number(f, x, 100, 5);
        expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, &f->error));
        expect_ok(f, ig_context_wait(f->context, &f->error));
        run_chain(f, 100);
        expect_refusal(f, ig_context_take_output(f->context, 0, &tensor, &f->error), INGOT_INVALID_ARGUMENT,
                       "cannot be taken");
        expect_ok(f, ig_context_set_output_fresh(f->context, 0, memories[kind], &f->error));
        enqueue_number(f, x, 100, 6); /* in flight when the context goes */
        end_plan(f);
    }
}

/* ---- What a run allocates, and what is given back ----------------------------------------------------------------------------------- */

enum mode { LEASED, GIVEN, FRESH };

/* Leased and given results cost no allocation, fresh ones one each. */
static void runs_allocate(enum mode mode, enum ingot_memory memory, bool waits) {
    struct fixture *f = two_outputs();
    struct ingot_tensor tensor;
    void *given[2] = {NULL};
    float x[SMALL];
    for (int i = 0; i < 2; i++) {
        if (mode == GIVEN) expect_ok(f, ig_context_allocate(f->context, memory, sizeof x, &given[i], &f->error));
        if (mode == FRESH)
            expect_ok(f, ig_context_set_output_fresh(f->context, (size_t)i, memory, &f->error));
        else
            expect_ok(f, ig_context_set_output(f->context, (size_t)i, memory, given[i], sizeof x, &f->error));
    }
    for (int turn = 0; turn < 8; turn++) {
        size_t calls = f->allocator.calls;
        if (f->remote) remote_device_counts(f->device);
        enqueue_number(f, x, SMALL, turn);
        struct ig_results *results = mode == LEASED && !waits ? lease(f) : NULL;
        expect_ok(f, ig_context_wait(f->context, &f->error));
        if (mode == LEASED && waits) results = lease(f);
        if (results) ig_results_release(results);
        /* Memory of the device or pinned is asked for through the device. */
        size_t made = f->remote && memory == INGOT_CUDA ? remote_device_counts(f->device).allocations
                                                        : f->allocator.calls - calls;
        if (turn > 1) assert_int_equal(made, mode == FRESH ? 2 : 0);
        for (size_t i = 0; mode == FRESH && i < 2; i++) {
            expect_ok(f, ig_context_take_output(f->context, i, &tensor, &f->error));
            ig_context_free(f->context, tensor.memory, tensor.data, sizeof x);
        }
    }
    for (int i = 0; mode == GIVEN && i < 2; i++)
        ig_context_free(f->context, memory, given[i], sizeof x);
    end_plan(f);
}

static void only_fresh_results_cost_allocations(void **state) {
    for (enum mode mode = LEASED; mode <= FRESH; mode++) {
        for (int waits = 0; waits < 2; waits++) {
            runs_allocate(mode, INGOT_HOST, waits);
            runs_allocate(mode, INGOT_PINNED, waits);
            if (test_remote) runs_allocate(mode, INGOT_CUDA, waits);
        }
    }
}

static void trim(struct fixture *f) {
    expect_ok(f, ig_context_trim(f->context, &f->error));
}

static size_t pool_bytes(struct fixture *f) {
    return ig_results_pool_bytes(f->context->pool);
}

/* The sets that are not leased go; the leased one stays what it is. */
static void sets_are_given_back(void **state) {
    static const enum ingot_memory memories[] = {INGOT_HOST, INGOT_CUDA};
    for (int kind = 0; kind < (test_remote ? 2 : 1); kind++) {
        struct fixture *f = ready_chain();
        struct ig_results *leases[MOST_HELD];
        struct ingot_tensor y;
        float x[SMALL];
        trim(f); /* before any run */
        expect_ok(f, ig_context_set_output(f->context, 0, memories[kind], NULL, 0, &f->error));
        for (int i = 0; i < MOST_HELD; i++) {
            enqueue_number(f, x, SMALL, i);
            leases[i] = lease(f);
        }
        enqueue_number(f, x, SMALL, MOST_HELD);
        size_t one = pool_bytes(f) / (MOST_HELD + 1);
        for (int i = 1; i < MOST_HELD; i++)
            ig_results_release(leases[i]);
        assert_int_equal(pool_bytes(f), (MOST_HELD + 1) * one);
        trim(f); /* also waits for the run in flight, whose results go */
        assert_int_equal(pool_bytes(f), one);
        expect_refusal(f, ig_context_output(f->context, 0, &y, &f->error), INGOT_INVALID_ARGUMENT, "no result");
        check_lease(f, leases[0], SMALL, 0);
        for (int turn = 0; turn < 3; turn++) {
            enqueue_number(f, x, SMALL, 10 + turn);
            leases[1] = lease(f);
            check_lease(f, leases[1], SMALL, 10 + turn);
            ig_results_release(leases[1]);
            expect_ok(f, ig_context_wait(f->context, &f->error));
            assert_int_equal(pool_bytes(f), 2 * one);
        }
        ig_results_release(leases[0]);
        trim(f);
        assert_int_equal(pool_bytes(f), 0);
        end_plan(f);
    }
}

/* Bytes of the remote device's memory in use. */
static size_t device_bytes(void) {
    (void)remote_device_peak();
    return remote_device_peak();
}

/* Everything that grows with runs goes, and what is captured serves on. */
static void all_memory_is_given_back(void **state) {
    struct fixture *f = ready_chain();
    struct ingot_memory_info memory;
    struct ingot_plans_info plans;
    const size_t room = LARGE * sizeof(float), before = device_bytes();
    float *x = malloc(room), *y = malloc(room);
    for (int turn = 0; turn < 6; turn++) {
        int64_t n = turn % 2 ? LARGE : SMALL; /* large inputs have a stream of their own, results come in parts */
        enum mode mode = turn == 3 ? GIVEN : turn == 4 ? FRESH : LEASED;
        if (mode == FRESH)
            expect_ok(f, ig_context_set_output_fresh(f->context, 0, INGOT_HOST, &f->error));
        else
            expect_ok(f, ig_context_set_output(f->context, 0, INGOT_HOST, mode == GIVEN ? y : NULL, room, &f->error));
        enqueue_number(f, x, n, turn);
        expect_ok(f, ig_context_wait(f->context, &f->error));
        assert_true(((float *)output(f, 0).data)[n - 1] == expected(x[n - 1]));
        size_t held = f->allocator.live_bytes;
        trim(f);
        assert_true(f->allocator.live_bytes + (size_t)n * sizeof *x <= held);
        if (!test_remote) continue;
        assert_int_equal(device_bytes(), before);
        expect_ok(f, ig_context_memory(f->context, &memory, &f->error));
        assert_int_equal(memory.transfer_bytes, 0);
    }
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.misses, 2);
    free(x);
    free(y);
    end_plan(f);
}

/* An instance that was prepared but not captured is placed anew. */
static void prepared_shapes_survive_a_trim(void **state) {
    struct fixture *f = ready_chain();
    struct ingot_tensor x = vector(NULL, SMALL);
    x.memory = INGOT_PINNED;
    expect_ok(f, ig_context_prepare_shapes(f->context, &x, 1, false, &f->error));
    trim(f);
    void *pinned;
    expect_ok(f, ig_context_allocate(f->context, INGOT_PINNED, SMALL * sizeof *ramp, &pinned, &f->error));
    memcpy(pinned, ramp, SMALL * sizeof *ramp);
    x.data = pinned;
    set_input(f, 0, x);
    run(f);
    check_chain(f, SMALL);
    ig_context_free(f->context, INGOT_PINNED, pinned, SMALL * sizeof *ramp);
    end_plan(f);
}

static void a_failed_wait_gives_nothing_back(void **state) {
    struct fixture *f = ready_chain();
    float x[SMALL];
    enqueue_number(f, x, SMALL, 1);
    size_t bytes = pool_bytes(f);
    ig_context_cancel(f->context);
    expect_refusal(f, ig_context_trim(f->context, &f->error), INGOT_CANCELLED, "");
    assert_int_equal(pool_bytes(f), bytes);
    expect_ok(f, ig_context_set_time_limit(f->context, 1e-6, &f->error));
    expect_refusal(f, ig_context_trim(f->context, &f->error), INGOT_TIMEOUT, "");
    expect_ok(f, ig_context_set_time_limit(f->context, 0, &f->error));
    trim(f);
    assert_int_equal(pool_bytes(f), 0);
    end_plan(f);
}

/* ---- Threads (under ThreadSanitizer) ------------------------------------------------------------------------------------------------ */

enum { READERS = 3, QUEUE = 8, RUNS = 600 };

/* Leases on their way from the thread that runs the context to those that read them; NULL ends a reader. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ingot_lease *at[QUEUE];
    int64_t batch[QUEUE];
    unsigned first, count;
    const float *wanted; /* by batch size, 10 * 4 each */
    unsigned wrong;
};

static void push(struct queue *q, struct ingot_lease *held, int64_t batch) {
    pthread_mutex_lock(&q->lock);
    while (q->count == QUEUE)
        pthread_cond_wait(&q->changed, &q->lock);
    unsigned at = (q->first + q->count++) % QUEUE;
    q->at[at] = held;
    q->batch[at] = batch;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static struct ingot_lease *pop(struct queue *q, int64_t *out_batch) {
    pthread_mutex_lock(&q->lock);
    while (q->count == 0)
        pthread_cond_wait(&q->changed, &q->lock);
    struct ingot_lease *held = q->at[q->first];
    *out_batch = q->batch[q->first];
    q->first = (q->first + 1) % QUEUE;
    q->count--;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return held;
}

static void *read_leases(void *argument) {
    struct queue *q = argument;
    struct ingot_lease *held;
    int64_t batch;
    while ((held = pop(q, &batch))) {
        struct ingot_tensor y = {0};
        bool good = ingot_lease_wait(held, NULL) == INGOT_OK && ingot_lease_output(held, 0, &y, NULL) == INGOT_OK &&
                    y.dims[0] == batch && memcmp(y.data, q->wanted + 40 * batch, (size_t)batch * 40) == 0;
        if (!good) {
            pthread_mutex_lock(&q->lock);
            q->wrong++;
            pthread_mutex_unlock(&q->lock);
        }
        ingot_lease_release(held);
    }
    return NULL;
}

static void run_batch(struct ingot_context *context, const float *pixels, int64_t batch) {
    struct ingot_error error;
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, (void *)(uintptr_t)pixels, INGOT_HOST};
    if (ingot_context_set_input(context, 0, &input, &error) || ingot_context_run(context, &error))
        fail_msg("%s", error.message);
}

/* One thread runs, others read and release; the context ends before the last leases do. */
static void other_threads_release(void **state) {
    static float pixels[64 * 4], wanted[40 * 5];
    uint64_t seed = 5;
    for (int i = 0; i < 64 * 4; i++)
        pixels[i] = test_random(&seed);
    struct test_network network;
    struct ingot_error error = {0};
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    test_network_build(&network, TEST_DIGITS, NULL);
    assert_int_equal(ingot_engine_load_memory(network.data, network.size, NULL, &engine, &error), INGOT_OK);
    assert_int_equal(ingot_context_create(engine, &options, &context, &error), INGOT_OK);
    for (int64_t batch = 1; batch <= 4; batch++) {
        struct ingot_tensor y;
        run_batch(context, pixels, batch);
        assert_int_equal(ingot_context_output(context, 0, &y, &error), INGOT_OK);
        memcpy(wanted + 40 * batch, y.data, (size_t)batch * 40);
    }
    static struct queue q;
    q = (struct queue){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .wanted = wanted};
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_leases, &q), 0);
    for (int turn = 0; turn < RUNS; turn++) {
        struct ingot_lease *held;
        run_batch(context, pixels, 1 + turn % 4);
        assert_int_equal(ingot_context_lease(context, &held, &error), INGOT_OK);
        push(&q, held, 1 + turn % 4);
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    for (int i = 0; i < READERS; i++)
        push(&q, NULL, 0);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(q.wrong, 0);
    test_network_release(&network);
}

static void null_leases(void **state) {
    struct ingot_tensor y;
    struct ingot_error error;
    ingot_lease_release(NULL);
    assert_int_equal(ingot_context_lease(NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_lease_wait(NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_lease_output(NULL, 0, &y, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_lease_release_after(NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_last_results_stay, test_on_remote),
        cmocka_unit_test_setup(the_last_results_stay, test_on_cpu),
        cmocka_unit_test_setup(large_results_stay, test_on_remote),
        cmocka_unit_test_setup(results_on_the_device_stay, test_on_remote),
        cmocka_unit_test_setup(only_leases_keep_earlier_results, test_on_remote),
        cmocka_unit_test_setup(only_leases_keep_earlier_results, test_on_cpu),
        cmocka_unit_test_setup(leases_cost_one_patch, test_on_remote),
        cmocka_unit_test_setup(shapes_change_while_leases_are_held, test_on_remote),
        cmocka_unit_test_setup(shapes_change_while_leases_are_held, test_on_cpu),
        cmocka_unit_test_setup(a_lease_is_on_the_contexts_own_memory, test_on_remote),
        cmocka_unit_test_setup(a_lease_is_on_the_contexts_own_memory, test_on_cpu),
        cmocka_unit_test_setup(memory_is_reused_behind_its_readers, test_on_remote),
        cmocka_unit_test(memory_is_freed_behind_its_readers),
        cmocka_unit_test_setup(the_cpu_has_no_streams_to_follow, test_on_cpu),
        cmocka_unit_test_setup(leases_outlive_the_context, test_on_remote),
        cmocka_unit_test_setup(leases_outlive_the_context, test_on_cpu),
        cmocka_unit_test_setup(a_failed_run_fails_its_lease, test_on_remote),
        cmocka_unit_test_setup(failing_allocations_leave_all_in_order, test_on_remote),
        cmocka_unit_test_setup(failing_allocations_leave_all_in_order, test_on_cpu),
        cmocka_unit_test_setup(fresh_results_are_the_callers, test_on_remote),
        cmocka_unit_test_setup(fresh_results_are_the_callers, test_on_cpu),
        cmocka_unit_test_setup(fresh_results_that_nobody_takes, test_on_remote),
        cmocka_unit_test_setup(fresh_results_that_nobody_takes, test_on_cpu),
        TEST_ON_BOTH(only_fresh_results_cost_allocations),
        TEST_ON_BOTH(sets_are_given_back),
        TEST_ON_BOTH(all_memory_is_given_back),
        TEST_ON_BOTH(prepared_shapes_survive_a_trim),
        cmocka_unit_test_setup(a_failed_wait_gives_nothing_back, test_on_remote),
        cmocka_unit_test(other_threads_release),
        cmocka_unit_test(null_leases),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
