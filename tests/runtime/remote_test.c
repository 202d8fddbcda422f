/*
 * Contexts on an asynchronous device with memory of its own: transfers of inputs and results, enqueued work and waits,
 * the caller's streams, weights. The device of support/device/remote_device.h detects host accesses to device memory, device
 * accesses to host memory, and missing synchronisation.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

static struct fixture *ready_chain(struct ig_context_config config) {
    struct fixture *f = chain(0, INT32_MAX);
    if (!config.max_instances) config.max_instances = 4;
    if (!config.max_bytes) config.max_bytes = SIZE_MAX;
    if (try_context(f, config, 2) != INGOT_OK) fail_msg("%s", f->error.message);
    return f;
}

static void enqueue(struct fixture *f, void *stream) {
    if (ig_context_enqueue(f->context, stream, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

static void wait_for(struct fixture *f) {
    if (ig_context_wait(f->context, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

static struct remote_counts counts(struct fixture *f) {
    return remote_device_counts(f->device);
}

/* The chain's result for x. */
static float expected(float x) {
    return -(2 * x + 10);
}

static void *device_memory(struct fixture *f, const float *values, size_t n) {
    void *memory;
    assert_int_equal(f->device->api->allocate(f->device, n * sizeof *values, &memory, NULL), INGOT_OK);
    if (values) remote_device_write(memory, values, n * sizeof *values);
    return memory;
}

static void check_device(const float *at, const float *x, size_t n) {
    float *values = malloc(n * sizeof *values);
    remote_device_read(values, at, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        assert_true(values[i] == expected(x[i]));
    free(values);
}

/* ---- What a run costs ----------------------------------------------------------------------------------------------------- */

static void a_run_is_one_list(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    set_input(f, 0, vector(ramp, 1000));
    run(f);
    counts(f);
    size_t calls = f->allocator.calls;
    for (int turn = 0; turn < 5; turn++) {
        enqueue(f, NULL);
        struct remote_counts c = counts(f);
        assert_int_equal(c.copies, 0); /* the list copies inputs and results */
        assert_int_equal(c.lists, 1);
        assert_int_equal(c.launches + c.patches + c.captures + c.allocations + c.waits + c.blocked, 0);
        wait_for(f);
        check_chain(f, 1000);
        c = counts(f);
        assert_int_equal(c.copies + c.lists, 0);
        assert_int_equal(c.syncs, 1);
    }
    assert_int_equal(f->allocator.calls, calls);
    wait_for(f); /* nothing is in flight */
    assert_int_equal(counts(f).syncs, 0);
    end_plan(f);
}

/* A first run does not wait until its list is ready; later ones find it so. */
static void first_runs_precede_their_lists(void **state) {
    static const int64_t sizes[] = {70, 1000, 0};
    struct fixture *f = ready_chain((struct ig_context_config){0});
    for (int i = 0; i < 3; i++) {
        for (int turn = 0; turn < 3; turn++) {
            counts(f);
            run_chain(f, sizes[i]);
            struct remote_counts c = counts(f);
            assert_int_equal(c.lists, 1);
            assert_int_equal(c.captures, turn == 0);
            assert_int_equal(c.ready, turn == 0);
            assert_int_equal(c.unready, turn == 0);
        }
    }
    end_plan(f);
}

static void the_host_may_be_two_runs_ahead(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    run_chain(f, 100);
    counts(f);
    float x[100];
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 100; i++)
            x[i] = (float)(turn * 1000 + i);
        set_input(f, 0, vector(x, 100));
        enqueue(f, NULL);
        memset(x, 0xff, sizeof x); /* already staged */
        assert_int_equal(counts(f).blocked, turn >= 2);
    }
    wait_for(f);
    for (int i = 0; i < 100; i++)
        assert_true(((float *)output(f, 0).data)[i] == expected((float)(4000 + i)));
    end_plan(f);
}

static void alternating_shapes_patch_nothing(void **state) {
    static const int64_t sizes[] = {70, 1000, 0, 64};
    struct fixture *f = ready_chain((struct ig_context_config){0});
    for (int turn = 0; turn < 4; turn++)
        run_chain(f, sizes[turn]);
    for (int turn = 0; turn < 4; turn++)
        run_chain(f, sizes[turn]); /* memory grew after the first instances were recorded */
    counts(f);
    size_t calls = f->allocator.calls;
    for (int turn = 0; turn < 12; turn++)
        run_chain(f, sizes[turn % 4]);
    struct remote_counts c = counts(f);
    assert_int_equal(c.captures + c.patches + c.allocations, 0);
    assert_int_equal(f->allocator.calls, calls);
    end_plan(f);
}

static void large_inputs_go_in_pieces(void **state) {
    const int64_t n = 1500000;
    struct fixture *f = ready_chain((struct ig_context_config){0});
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 4093);
    set_input(f, 0, vector(x, n));
    run(f); /* clears new memory too */
    counts(f);
    run(f);
    for (int64_t i = 0; i < n; i++)
        assert_true(((float *)output(f, 0).data)[i] == expected(x[i]));
    assert_in_range(counts(f).copies, 1 + 1, 1 + 6); /* 5.7 MiB in pieces of 1 MiB or more; results in one */
    free(x);
    end_plan(f);
}

enum { MANY = 1500000 };

static void check_many(const float *y, const float *x) {
    for (int i = 0; i < MANY; i++) {
        if (y[i] != expected(x[i])) fail_msg("element %d is %g instead of %g", i, y[i], expected(x[i]));
    }
}

/* While large inputs are copied, and while the host stages the next ones, earlier runs are computed. Results leave on a
 * stream of their own only when two earlier runs may be in flight. */
static void large_inputs_go_beside_other_runs(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 3});
    const size_t size = MANY * sizeof(float);
    float *given = malloc(size), *x[4], *y[4];
    for (int i = 0; i < 4; i++) {
        x[i] = malloc(size);
        y[i] = malloc(size);
        remote_device_pin(f->device, y[i], size);
        for (int k = 0; k < MANY; k++)
            x[i][k] = (float)(k % 4093 + 5000 * i);
    }
    set_input(f, 0, vector(given, MANY));
    size_t calls = 0;
    for (int turn = 0; turn < 12; turn++) {
        memcpy(given, x[turn % 4], size);
        if (ig_context_set_output(f->context, 0, INGOT_PINNED, y[turn % 4], size, &f->error) != INGOT_OK)
            fail_msg("%s", f->error.message);
        enqueue(f, NULL);
        memset(given, 0xff, size);
        struct remote_counts c = counts(f);
        if (turn == 0) calls = f->allocator.calls;
        if (turn > 0) {
            static const unsigned waits[] = {1, 1, 2, 3}; /* inputs; results; earlier ones leaving that memory */
            bool beside = turn % 4 >= 2;
            assert_in_range(c.copies, 1 + beside, 6 + beside);
            assert_int_equal(c.lists, 1);
            assert_int_equal(c.waits, waits[turn % 4]);
            assert_int_equal(c.skips, turn % 2 == 0); /* when results begin to leave this way, and when they cease to */
            assert_int_equal(c.allocations + c.captures + c.launches, 0);
            assert_int_equal(c.blocked, turn % 4 >= 2); /* the run before the last has not begun */
        }
        if (turn % 4 < 3) continue;
        wait_for(f);
        for (int i = 0; i < 4; i++)
            check_many(y[i], x[i]);
        counts(f);
    }
    assert_int_equal(f->allocator.calls, calls);
    for (int i = 0; i < 4; i++) {
        remote_device_pin(f->device, y[i], 0);
        free(x[i]);
        free(y[i]);
    }
    free(given);
    end_plan(f);
}

/* Results that leave on a stream of their own have arrived when a later run reads them. */
static void large_results_feed_later_runs(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = MANY * sizeof(float);
    float *at[3], *first = malloc(MANY * sizeof *first);
    for (int i = 0; i < 3; i++) {
        at[i] = malloc(size);
        remote_device_pin(f->device, at[i], size);
    }
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < MANY; k++)
            first[k] = at[0][k] = (float)(k % 509 + round);
        for (int turn = 0; turn < 6; turn++) {
            struct ingot_tensor input = vector(at[turn % 3], MANY);
            input.memory = INGOT_PINNED;
            set_input(f, 0, input);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, at[(turn + 1) % 3], size, NULL),
                             INGOT_OK);
            enqueue(f, NULL);
            assert_int_equal(counts(f).blocked, 0);
        }
        /* Waiting for the run's stream computes all runs, before any results have left but those that later runs
         * read. */
        if (round % 2) assert_int_equal(f->device->api->stream_wait(f->device, f->context->env.stream, &f->error), 0);
        wait_for(f);
        for (int turn = 0; turn < 6; turn++) {
            for (int k = 0; k < MANY; k++)
                first[k] = expected(first[k]);
        }
        assert_memory_equal(at[0], first, size);
        counts(f);
    }
    for (int i = 0; i < 3; i++) {
        remote_device_pin(f->device, at[i], 0);
        free(at[i]);
    }
    free(first);
    end_plan(f);
}

/* A caller that waits for each run uses one half of the memory only, at one address. */
static void waiting_keeps_large_inputs_in_place(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    float *x = malloc(MANY * sizeof *x);
    for (int k = 0; k < MANY; k++)
        x[k] = (float)(k % 4093);
    set_input(f, 0, vector(x, MANY));
    run(f);
    counts(f);
    for (int turn = 0; turn < 3; turn++) {
        run(f);
        assert_int_equal(counts(f).patches, 0);
        check_many(output(f, 0).data, x);
    }
    free(x);
    end_plan(f);
}

static void large_results_come_in_parts(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = MANY * sizeof(float);
    float *x = malloc(size), *y = malloc(size + 4);
    size_t calls = 0;
    for (int turn = 0; turn < 8; turn++) {
        bool given = turn % 4 != 3;
        for (int k = 0; k < MANY; k++)
            x[k] = (float)(k % 4093 + turn);
        set_input(f, 0, vector(x, MANY));
        if (ig_context_set_output(f->context, 0, INGOT_HOST, given ? y + 1 : NULL, size, &f->error) != INGOT_OK)
            fail_msg("%s", f->error.message);
        enqueue(f, NULL);
        struct remote_counts c = counts(f);
        /* 6 for results; for inputs, it depends on timing. The first run clears new memory too. */
        if (given && turn > 0) assert_in_range(c.copies, 6 + 1, 6 + 6);
        if (turn == 0) calls = f->allocator.calls;
        if (turn % 4 == 1) enqueue(f, NULL); /* another run, whose results are checked */
        wait_for(f);
        check_many(given ? y + 1 : output(f, 0).data, x);
        if (turn == 2) assert_int_equal(f->allocator.calls, calls);
        counts(f);
    }
    free(x);
    free(y);
    end_plan(f);
}

/* ---- Memory of inputs and results ------------------------------------------------------------------------------------------- */

static void data_of_the_device_stay_there(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    float *x = device_memory(f, ramp, 100), *z = device_memory(f, ramp + 100, 100), *y = device_memory(f, NULL, 100);
    struct ingot_tensor input = vector(x, 100);
    input.memory = INGOT_CUDA;
    set_input(f, 0, input);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_CUDA, y, 400, NULL), INGOT_OK);
    run(f);
    counts(f);
    for (int turn = 0; turn < 4; turn++) {
        input.data = turn % 2 ? z : x;
        set_input(f, 0, input);
        enqueue(f, NULL);
        struct ingot_tensor result = output(f, 0); /* may be used by work enqueued after the run */
        assert_ptr_equal(result.data, y);
        assert_int_equal(result.memory, INGOT_CUDA);
        struct remote_counts c = counts(f);
        assert_int_equal(c.copies + c.syncs, 0);
        assert_int_equal(c.patches, turn ? 2 : 0); /* two uses of x */
        wait_for(f);
        counts(f);
        check_device(y, turn % 2 ? ramp + 100 : ramp, 100);
    }
    expect_refusal(f, ig_context_set_output(f->context, 0, (enum ingot_memory)7, y, 400, &f->error),
                   INGOT_INVALID_ARGUMENT, "no enum ingot_memory");
    void *all[] = {x, z, y};
    for (int i = 0; i < 3; i++)
        f->device->api->release(f->device, all[i], 400);
    end_plan(f);
}

/* Kernels use vector loads: data at unaligned addresses are copied through the context's memory. */
static void crooked_addresses_are_copied(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    float *x = device_memory(f, ramp, 101), *y = device_memory(f, NULL, 101);
    struct ingot_tensor input = vector(x + 1, 100);
    input.memory = INGOT_CUDA;
    set_input(f, 0, input);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_CUDA, y + 1, 400, NULL), INGOT_OK);
    for (int turn = 0; turn < 3; turn++) {
        run(f);
        assert_ptr_equal(output(f, 0).data, y + 1);
        check_device(y + 1, ramp + 1, 100);
        assert_int_equal(counts(f).copies, 0); /* the list copies */
    }
    f->device->api->release(f->device, x, 404);
    f->device->api->release(f->device, y, 404);
    end_plan(f);
}

static void results_may_stay_on_the_device(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, NULL), INGOT_OK);
    for (int turn = 0; turn < 4; turn++) {
        int64_t n = turn % 2 ? 10 : 2000;
        set_input(f, 0, vector(ramp + turn, n));
        run(f);
        assert_int_equal(output(f, 0).memory, INGOT_CUDA);
        check_device(output(f, 0).data, ramp + turn, (size_t)n);
        assert_int_equal(counts(f).copies, 0);
    }
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), INGOT_OK);
    run_chain(f, 10);
    end_plan(f);
}

static void pinned_memory_needs_no_detour(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    static float x[50], y[51];
    remote_device_pin(f->device, x, sizeof x);
    remote_device_pin(f->device, y, sizeof y);
    struct ingot_tensor input = vector(x, 50);
    input.memory = INGOT_PINNED;
    set_input(f, 0, input);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, y, 200, NULL), INGOT_OK);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 50; i++)
            x[i] = (float)(turn + i);
        enqueue(f, NULL);
        expect_refusal(f, ig_context_output(f->context, 0, &input, &f->error), INGOT_INVALID_ARGUMENT, "under way");
        wait_for(f);
        assert_ptr_equal(output(f, 0).data, y);
        for (int i = 0; i < 50; i++)
            assert_true(y[i] == expected(x[i]));
        assert_true(y[50] == 0);
        assert_int_equal(counts(f).copies, 0);
    }
    end_plan(f);
}

static void results_come_to_the_callers_memory(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    float first[40], second[40];
    set_input(f, 0, vector(ramp, 40));
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, first, sizeof first, NULL), INGOT_OK);
    enqueue(f, NULL);
    /* Rebound while a run is in flight: that run's result still goes to the old memory. */
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, second, sizeof second, NULL), INGOT_OK);
    wait_for(f);
    for (int i = 0; i < 40; i++)
        assert_true(first[i] == expected(ramp[i]));
    run(f);
    for (int i = 0; i < 40; i++)
        assert_true(second[i] == expected(ramp[i]));
    end_plan(f);
}

static void shapes_may_lie_on_the_device(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "count", 0, IG_PLAN_NONE, 0, 500), two = tiny_const(t, 2);
    t->symbols[0].element = 1;
    tiny_subplan(t);
    tiny_input(t, "sizes", INGOT_I64, 1, &two);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
    LAUNCH(f, f->count_up, n, y);
    make_context(f, 2, 3, false);
    int64_t *sizes = device_memory(f, NULL, 4);
    struct ingot_tensor input = {INGOT_I64, 1, {2}, sizes, INGOT_CUDA};
    set_input(f, 0, input);
    for (int64_t size = 100; size <= 500; size += 200) {
        remote_device_write(&sizes[1], &size, sizeof size);
        run(f);
        assert_int_equal(output(f, 0).dims[0], size);
        assert_true(((float *)output(f, 0).data)[size - 1] == (float)(size - 1));
    }
    f->device->api->release(f->device, sizes, 16);
    end_plan(f);
}

/* ---- Streams ------------------------------------------------------------------------------------------------------------------ */

/* Each run reads, on its stream, what the previous run wrote on another. */
static void runs_follow_each_other_across_streams(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    enum { STREAMS = 6 }; /* more than a context caches */
    struct ig_stream *streams[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(f->device->api->stream_create(f->device, &streams[i], NULL), INGOT_OK);
    float *a = device_memory(f, ramp, 30), *b = device_memory(f, NULL, 30), value = ramp[7];
    struct ingot_tensor input = vector(a, 30);
    input.memory = INGOT_CUDA;
    for (int turn = 0; turn < 20; turn++) {
        input.data = turn % 2 ? b : a;
        set_input(f, 0, input);
        assert_int_equal(ig_context_set_output(f->context, 0, INGOT_CUDA, turn % 2 ? a : b, 120, NULL), INGOT_OK);
        enqueue(f, turn % 7 == 6 ? NULL : streams[turn % 7]);
        value = expected(value);
    }
    assert_int_equal(counts(f).blocked, 0);
    wait_for(f);
    float found[30];
    remote_device_read(found, a, sizeof found);
    assert_true(found[7] == value);
    f->device->api->release(f->device, a, 120);
    f->device->api->release(f->device, b, 120);
    end_plan(f);
}

/* Lets inputs on a stream of their own arrive before the previous run has begun. */
static void hurry_inputs(struct fixture *f) {
    struct ig_stream *beside = f->context->transfer.beside;
    if (beside) assert_int_equal(f->device->api->stream_wait(f->device, beside, &f->error), INGOT_OK);
}

/* Large inputs in pinned memory are copied while the run before is computed, if there is one in flight; on the caller's
 * stream, whose earlier work may write to them, behind it. */
static void large_pinned_inputs_come_ahead(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = MANY * sizeof(float);
    struct ig_stream *callers;
    float *x[4], *y[4];
    size_t calls = 0;
    assert_int_equal(f->device->api->stream_create(f->device, &callers, NULL), INGOT_OK);
    for (int i = 0; i < 4; i++) {
        remote_device_pin(f->device, x[i] = malloc(size), size);
        remote_device_pin(f->device, y[i] = malloc(size), size);
    }
    for (int round = 0; round < 6; round++) {
        bool own = round != 4;
        if (round == 1) calls = f->allocator.calls;
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < MANY; k++)
                x[i][k] = (float)(k % 4093 + 100 * i + round);
            struct ingot_tensor input = vector(x[i], MANY);
            input.memory = INGOT_PINNED;
            set_input(f, 0, input);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, y[i], size, NULL), INGOT_OK);
            enqueue(f, own ? NULL : callers);
            struct remote_counts c = counts(f);
            bool ahead = own && i > 0;
            assert_int_equal(f->context->inputs_ahead, ahead);
            if (round > 0) assert_int_equal(c.copies, ahead + (i > 1)); /* and results that leave */
            if (round > 0) assert_int_equal(c.blocked + c.captures + c.allocations, 0);
            if (round % 2) hurry_inputs(f);
            counts(f);
        }
        wait_for(f);
        for (int i = 0; i < 4; i++)
            check_many(y[i], x[i]);
        counts(f);
    }
    assert_int_equal(f->allocator.calls, calls);
    for (int i = 0; i < 4; i++) {
        remote_device_pin(f->device, x[i], 0);
        remote_device_pin(f->device, y[i], 0);
        free(x[i]);
        free(y[i]);
    }
    end_plan(f);
}

/* More results in flight than are remembered one by one, each the next run's input. */
static void pinned_inputs_wait_for_results_in_flight(void **state) {
    enum { BUFFERS = IG_RANGES + 4, LENGTH = 1 << 19 };
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = LENGTH * sizeof(float);
    float *at[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        remote_device_pin(f->device, at[i] = malloc(size), size);
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < LENGTH; k++)
            at[0][k] = (float)(3 + round);
        for (int i = 0; i + 1 < BUFFERS; i++) {
            struct ingot_tensor input = vector(at[i], LENGTH);
            input.memory = INGOT_PINNED;
            set_input(f, 0, input);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, at[i + 1], size, NULL), INGOT_OK);
            enqueue(f, NULL);
            assert_false(f->context->inputs_ahead);
        }
        wait_for(f);
        for (int i = 1; i < BUFFERS; i++) {
            assert_true(at[i][LENGTH - 1] == expected(at[i - 1][LENGTH - 1]));
            assert_true(at[i][0] == at[i][LENGTH - 1]);
        }
    }
    for (int i = 0; i < BUFFERS; i++) {
        remote_device_pin(f->device, at[i], 0);
        free(at[i]);
    }
    end_plan(f);
}

/* Runs with and without end events, in all orders: inputs that the host stages must not overwrite those of runs in
 * flight, and streams must be ordered. */
static void kinds_of_inputs_may_change(void **state) {
    static const int64_t sizes[] = {MANY / 1000, MANY / 7, MANY / 2, MANY};
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = MANY * sizeof(float);
    struct ig_stream *other;
    assert_int_equal(f->device->api->stream_create(f->device, &other, NULL), INGOT_OK);
    float *given = malloc(size), *pinned = malloc(size), *y[4];
    remote_device_pin(f->device, pinned, size);
    for (int i = 0; i < 4; i++) {
        y[i] = malloc(size);
        remote_device_pin(f->device, y[i], size);
    }
    for (unsigned order = 0; order < 120; order++) {
        unsigned kinds = order * 2654435761u >> 8, shapes = order * 40503u >> 4;
        for (unsigned i = 0; i < 4; i++) {
            unsigned kind = kinds >> 2 * i & 3;
            int64_t n = sizes[shapes >> 2 * i & 3];
            float *from = kind & 1 ? pinned : given; /* pinned memory is read late: the same for all */
            for (int k = 0; k < n; k++)
                from[k] = (float)(k % 4093) + (kind & 1 ? 7.0f : (float)i);
            struct ingot_tensor input = vector(from, n);
            input.memory = kind & 1 ? INGOT_PINNED : INGOT_HOST;
            set_input(f, 0, input);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, y[i], size, NULL), INGOT_OK);
            enqueue(f, kind & 2 ? other : NULL);
            if (order % 2) hurry_inputs(f);
        }
        wait_for(f);
        for (unsigned i = 0; i < 4; i++) {
            float more = kinds >> 2 * i & 1 ? 7.0f : (float)i;
            for (int k = 0; k < sizes[shapes >> 2 * i & 3]; k += 1 + k % 17)
                assert_true(y[i][k] == expected((float)(k % 4093) + more));
        }
    }
    remote_device_pin(f->device, pinned, 0);
    for (int i = 0; i < 4; i++) {
        remote_device_pin(f->device, y[i], 0);
        free(y[i]);
    }
    free(pinned);
    free(given);
    end_plan(f);
}

/* A staged run, one that leaves no event, one whose results leave on a stream of their own, and another staged run, which
 * must not overwrite what the first has staged. */
static void staged_inputs_wait_for_all_who_read_them(void **state) {
    static const int64_t sizes[] = {1600, 1600, MANY, 1600};
    struct fixture *f = ready_chain((struct ig_context_config){.threads = 2});
    const size_t size = MANY * sizeof(float);
    float *x[4], *y[4];
    for (int i = 0; i < 4; i++) {
        x[i] = malloc(size);
        y[i] = malloc(size);
        remote_device_pin(f->device, y[i], size);
        if (i == 1 || i == 2) remote_device_pin(f->device, x[i], size);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < sizes[i]; k++)
                x[i][k] = (float)(k % 4093 + 1000 * i + round);
            struct ingot_tensor input = vector(x[i], sizes[i]);
            input.memory = i == 1 || i == 2 ? INGOT_PINNED : INGOT_HOST;
            set_input(f, 0, input);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, y[i], size, NULL), INGOT_OK);
            enqueue(f, NULL);
            if (round == 0) wait_for(f); /* all memory is there */
        }
        wait_for(f);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < sizes[i]; k++)
                assert_true(y[i][k] == expected(x[i][k]));
        }
    }
    for (int i = 0; i < 4; i++) {
        if (i == 1 || i == 2) remote_device_pin(f->device, x[i], 0);
        remote_device_pin(f->device, y[i], 0);
        free(x[i]);
        free(y[i]);
    }
    end_plan(f);
}

/* Rounded up, a result for memory on the device is a copy of its own; a wait waits for it even where large results leave on
 * a stream of their own. */
static void copies_on_the_device_end_before_a_wait(void **state) {
    const int64_t rows[] = {MANY};
    const struct ingot_batch_options options = {sizeof options, "n", rows, 1};
    const int64_t n = MANY - 1;
    const size_t size = (size_t)n * sizeof(float);
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot symbol = tiny_symbol(t, "n", 0, 0, 0, INT32_MAX);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &symbol), y = tiny_output(t, "y", INGOT_F32, 1, &symbol);
    uint32_t z = tiny_output(t, "z", INGOT_F32, 1, &symbol);
    LAUNCH(f, f->add, symbol, x, x, y);
    LAUNCH(f, f->negate, symbol, x, z);
    make_context(f, 2, 4, false);
    float *from = malloc(size), *pinned = malloc(size), *found = malloc(size);
    void *kept = device_memory(f, NULL, (size_t)n);
    remote_device_pin(f->device, pinned, size);
    assert_int_equal(ig_context_set_batch(f->context, &options, &f->error), INGOT_OK);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, pinned, size, NULL), INGOT_OK);
    assert_int_equal(ig_context_set_output(f->context, 1, INGOT_CUDA, kept, size, NULL), INGOT_OK);
    for (int turn = 0; turn < 5; turn++) {
        for (int k = 0; k < n; k++)
            from[k] = (float)(k % 4093 + turn);
        set_input(f, 0, vector(from, n));
        enqueue(f, NULL);
        if (turn > 1) assert_true(f->context->results_beside);
    }
    wait_for(f);
    remote_device_read(found, kept, size);
    for (int k = 0; k < n; k++)
        assert_true(pinned[k] == 2 * from[k] && found[k] == -from[k]);
    remote_device_pin(f->device, pinned, 0);
    f->device->api->release(f->device, kept, size);
    free(from);
    free(pinned);
    free(found);
    end_plan(f);
}

static void new_shapes_wait_for_old_runs(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.max_instances = 1});
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_CUDA, NULL, 0, NULL), INGOT_OK);
    for (int64_t n = 10; n < 20000; n *= 3) {
        set_input(f, 0, vector(ramp, n)); /* evicts the last instance and grows all memory */
        enqueue(f, NULL);
    }
    wait_for(f);
    end_plan(f);
}

/* ---- Weights ------------------------------------------------------------------------------------------------------------------- */

static enum ingot_status open_remote(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *error) {
    if (ordinal == 9) return IG_ERR(error, INGOT_DEVICE, "there is no device 9");
    return remote_device_create(1, allocator, out_device, error);
}

struct asker {
    pthread_t thread;
    struct ig_resident_store *store;
    struct ig_resident found[3];
};

static void *ask(void *argument) {
    struct asker *asker = argument;
    for (int i = 0; i < 30; i++)
        assert_int_equal(ig_resident_store_get(asker->store, open_remote, i % 3, 0, &asker->found[i % 3], NULL),
                         INGOT_OK);
    return NULL;
}

static void weights_are_brought_once(void **state) {
    static const size_t sizes[] = {0, 100, (4 << 20) - 1, (4 << 20) + 64, (13 << 20) + 5};
    struct counting_allocator allocator;
    counting_allocator_init(&allocator);
    unsigned char *weights = malloc(14 << 20), *back = malloc(14 << 20);
    for (size_t i = 0; i < 14 << 20; i++)
        weights[i] = (unsigned char)(i * 31 + (i >> 13));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct ig_engine_file file = {.weights = weights, .weights_size = sizes[s], .section_size = sizes[s]};
        struct ig_resident_store store;
        ig_resident_store_init(&store, &file, &allocator.base);
        struct asker askers[4];
        for (int i = 0; i < 4; i++) {
            askers[i].store = &store;
            pthread_create(&askers[i].thread, NULL, ask, &askers[i]);
        }
        for (int i = 0; i < 4; i++)
            pthread_join(askers[i].thread, NULL);
        for (int d = 0; d < 3; d++) {
            for (int i = 1; i < 4; i++)
                assert_memory_equal(&askers[i].found[d], &askers[0].found[d], sizeof askers[i].found[d]);
            assert_non_null(askers[0].found[d].module);
            remote_device_read(back, ig_weight_address(askers[0].found[d].weights, 0), sizes[s]);
            assert_memory_equal(back, weights, sizes[s]);
        }
        struct ingot_error error = {0};
        struct ig_resident none = {0};
        assert_int_equal(ig_resident_store_get(&store, open_remote, 9, 0, &none, &error), INGOT_DEVICE);
        assert_null(none.weights);
        ig_resident_store_deinit(&store);
        assert_int_equal(allocator.live_count, 0);
    }
    free(weights);
    free(back);
}

/* ---- Failures -------------------------------------------------------------------------------------------------------------------- */

static void says_what_memory_is_missing(void **state) {
    struct fixture *f = chain(0, INT32_MAX);
    struct ig_context_config config = {.max_instances = 4, .max_bytes = SIZE_MAX};
    remote_device_limit(1);
    assert_int_equal(try_context(f, config, 1), INGOT_OUT_OF_MEMORY);
    assert_non_null(strstr(f->error.message, "weights of 1024 bytes: out of memory for a buffer of 1024 bytes"));
    remote_device_limit(0);
    end_plan(f);
    f = ready_chain(config);
    run_chain(f, 100);
    remote_device_limit(100000);
    set_input(f, 0, vector(ramp, 50000));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_OUT_OF_MEMORY, "activations with n=50000: ");
    remote_device_limit(0);
    run_chain(f, 50000);
    end_plan(f);
}

static void failures_come_back_at_the_wait(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){0});
    struct ingot_tensor none;
    run_chain(f, 100);
    enqueue(f, NULL);
    remote_device_fail(f->device);
    expect_refusal(f, ig_context_wait(f->context, &f->error), INGOT_DEVICE, "the remote device failed");
    expect_refusal(f, ig_context_output(f->context, 0, &none, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    run_chain(f, 100);
    end_plan(f);
}

/* ---- The cache's bound in bytes ---------------------------------------------------------------------------------------------------- */

static void keeps_to_its_bytes(void **state) {
    for (int remote = 0; remote < 2; remote++) {
        test_remote = remote;
        struct fixture *f = ready_chain((struct ig_context_config){.max_instances = 100, .max_bytes = 1});
        run_chain(f, 5);
        size_t calls = f->allocator.calls;
        run_chain(f, 5); /* one instance stays, however small the bound */
        assert_int_equal(f->allocator.calls, calls);
        run_chain(f, 6);
        size_t live = f->allocator.live_count;
        for (int64_t n = 7; n < 40; n++)
            run_chain(f, n);
        assert_int_equal(f->allocator.live_count, live);
        end_plan(f);
        f = ready_chain((struct ig_context_config){.max_instances = 100, .max_bytes = 1 << 20});
        for (int64_t n = 1; n < 10; n++)
            run_chain(f, n);
        calls = f->allocator.calls;
        for (int64_t n = 1; n < 10; n++)
            run_chain(f, n); /* all are still cached */
        assert_int_equal(f->allocator.calls, calls);
        end_plan(f);
    }
}

/* ---- Timing ------------------------------------------------------------------------------------------------------------------------ */

static void tells_how_long_a_run_took(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.timing = true});
    struct ingot_timing timing;
    expect_refusal(f, ig_context_timing(f->context, &timing, &f->error), INGOT_INVALID_ARGUMENT, "no run");
    run_chain(f, 100);
    assert_int_equal(ig_context_timing(f->context, &timing, NULL), INGOT_OK);
    /* The device's clock advances by a microsecond per operation, and one for the event itself. */
    assert_true(timing.input_ms > 0.0015 && timing.input_ms < 0.004);
    assert_true(timing.compute_ms > 0.0035 && timing.compute_ms < 0.0045);
    assert_true(timing.output_ms > 0.0015 && timing.output_ms < 0.0025);
    enqueue(f, NULL);
    expect_refusal(f, ig_context_timing(f->context, &timing, &f->error), INGOT_INVALID_ARGUMENT, "no run");
    end_plan(f);
    f = ready_chain((struct ig_context_config){0});
    run_chain(f, 100);
    expect_refusal(f, ig_context_timing(f->context, &timing, &f->error), INGOT_UNSUPPORTED, "without the option");
    end_plan(f);
}

static void profiles_by_the_devices_clock(void **state) {
    struct fixture *f = ready_chain((struct ig_context_config){.profile = true});
    struct ingot_profile_row rows[3];
    run_chain(f, 100);
    run_chain(f, 1000);
    assert_int_equal(ig_context_profile(f->context, rows, 3), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rows[i].calls, 2);
        assert_true(rows[i].total_ms > 0.0035 && rows[i].total_ms < 0.0045);
    }
    end_plan(f);
}

/* ---- The CPU, for comparison ------------------------------------------------------------------------------------------------------- */

static void the_cpu_takes_part(void **state) {
    test_remote = false;
    struct fixture *f = ready_chain((struct ig_context_config){.timing = true});
    struct ingot_timing timing;
    set_input(f, 0, vector(ramp, 100));
    enqueue(f, NULL);
    wait_for(f);
    check_chain(f, 100);
    expect_refusal(f, ig_context_enqueue(f->context, f, &f->error), INGOT_UNSUPPORTED, "no streams but its own");
    expect_refusal(f, ig_context_timing(f->context, &timing, &f->error), INGOT_UNSUPPORTED, "only GPUs");
    struct ingot_tensor input = vector(ramp, 100);
    input.memory = INGOT_PINNED;
    set_input(f, 0, input);
    run(f);
    check_chain(f, 100);
    input.memory = INGOT_CUDA;
    expect_refusal(f, ig_context_set_input(f->context, 0, &input, &f->error), INGOT_INVALID_ARGUMENT,
                   "input 'x' lies in GPU memory, but the engine runs on the CPU");
    end_plan(f);
}

static int on_remote(void **state) {
    test_remote = true;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_is_one_list, on_remote),
        cmocka_unit_test_setup(first_runs_precede_their_lists, on_remote),
        cmocka_unit_test_setup(the_host_may_be_two_runs_ahead, on_remote),
        cmocka_unit_test_setup(alternating_shapes_patch_nothing, on_remote),
        cmocka_unit_test_setup(large_inputs_go_in_pieces, on_remote),
        cmocka_unit_test_setup(large_inputs_go_beside_other_runs, on_remote),
        cmocka_unit_test_setup(large_results_feed_later_runs, on_remote),
        cmocka_unit_test_setup(waiting_keeps_large_inputs_in_place, on_remote),
        cmocka_unit_test_setup(large_results_come_in_parts, on_remote),
        cmocka_unit_test_setup(data_of_the_device_stay_there, on_remote),
        cmocka_unit_test_setup(crooked_addresses_are_copied, on_remote),
        cmocka_unit_test_setup(results_may_stay_on_the_device, on_remote),
        cmocka_unit_test_setup(pinned_memory_needs_no_detour, on_remote),
        cmocka_unit_test_setup(results_come_to_the_callers_memory, on_remote),
        cmocka_unit_test_setup(shapes_may_lie_on_the_device, on_remote),
        cmocka_unit_test_setup(runs_follow_each_other_across_streams, on_remote),
        cmocka_unit_test_setup(large_pinned_inputs_come_ahead, on_remote),
        cmocka_unit_test_setup(pinned_inputs_wait_for_results_in_flight, on_remote),
        cmocka_unit_test_setup(kinds_of_inputs_may_change, on_remote),
        cmocka_unit_test_setup(staged_inputs_wait_for_all_who_read_them, on_remote),
        cmocka_unit_test_setup(copies_on_the_device_end_before_a_wait, on_remote),
        cmocka_unit_test_setup(new_shapes_wait_for_old_runs, on_remote),
        cmocka_unit_test_setup(weights_are_brought_once, on_remote),
        cmocka_unit_test_setup(says_what_memory_is_missing, on_remote),
        cmocka_unit_test_setup(failures_come_back_at_the_wait, on_remote),
        cmocka_unit_test_setup(keeps_to_its_bytes, on_remote),
        cmocka_unit_test_setup(tells_how_long_a_run_took, on_remote),
        cmocka_unit_test_setup(profiles_by_the_devices_clock, on_remote),
        cmocka_unit_test(the_cpu_takes_part),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("devices with memory of their own", tests, NULL, NULL);
}
