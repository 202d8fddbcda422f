/*
 * Contexts and plan instances on hand-written plans, whose kernels are C functions (support/plan/runtime_case.c). All tests
 * run on the CPU, then on a device with memory of its own; remote_test.c has the tests for such devices alone.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu_time.h"
#include "device/null/null.h"
#include "runtime/frame/uncaptured.h"
#include "support/clock.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

static void runs_any_shape(void **state) {
    static const int64_t sizes[] = {1, 5, 0, 1000, 31, 33, 100000, 2, 0};
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct fixture *f = chain(0, INT32_MAX);
        make_context(f, threads, 16, false);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            run_chain(f, sizes[i]);
        end_plan(f);
    }
}

static void alternating_shapes_allocate_nothing(void **state) {
    static const int64_t sizes[] = {7, 1000, 0, 64};
    struct fixture *f = chain(0, INT32_MAX);
    make_context(f, 2, 4, false);
    for (int i = 0; i < 4; i++)
        run_chain(f, sizes[i]);
    size_t calls = f->allocator.calls;
    for (int turn = 0; turn < 40; turn++)
        run_chain(f, sizes[turn % 4]);
    for (int turn = 0; turn < 10; turn++)
        run_chain(f, 64);
    assert_int_equal(f->allocator.calls, calls);
    end_plan(f);
}

static void a_change_of_address_allocates_nothing(void **state) {
    struct fixture *f = chain(0, 100);
    make_context(f, 2, 1, false);
    float *copies = malloc(10 * 100 * sizeof *copies), results[2][100];
    for (int i = 0; i < 10; i++)
        memcpy(copies + 100 * i, ramp, 100 * sizeof *ramp);
    run_chain(f, 100);
    size_t calls = f->allocator.calls;
    for (int i = 0; i < 10; i++) {
        set_input(f, 0, vector(copies + 100 * i, 100));
        assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, results[i % 2], sizeof results[0], NULL),
                         INGOT_OK);
        run(f);
        assert_ptr_equal(output(f, 0).data, results[i % 2]);
        check_chain(f, 100);
    }
    assert_int_equal(f->allocator.calls, calls);
    free(copies);
    end_plan(f);
}

static void keeps_the_most_recent_instances(void **state) {
    struct fixture *f = chain(0, 1000);
    make_context(f, 1, 2, false);
    for (int turn = 0; turn < 30; turn++)
        run_chain(f, 1 + turn % 3); /* each is evicted before it is needed again */
    size_t live = f->allocator.live_count;
    for (int turn = 0; turn < 30; turn++)
        run_chain(f, 1 + turn % 3);
    assert_int_equal(f->allocator.live_count, live);
    run_chain(f, 5);
    run_chain(f, 6);
    run_chain(f, 5);
    run_chain(f, 7); /* evicts 6 */
    size_t calls = f->allocator.calls;
    run_chain(f, 5);
    assert_int_equal(f->allocator.calls, calls);
    run_chain(f, 6);
    assert_true(f->allocator.calls > calls);
    end_plan(f);
}

static void outputs_are_kept_and_given(void **state) {
    struct fixture *f = chain(0, 1000);
    make_context(f, 2, 4, false);
    struct ingot_tensor none = {.rank = 77};
    expect_refusal(f, ig_context_output(f->context, 0, &none, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    assert_int_equal(none.rank, 77);
    run_chain(f, 500);
    void *own = output(f, 0).data;
    run_chain(f, 20);
    assert_ptr_equal(output(f, 0).data, own);
    float given[101];
    given[100] = 123;
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, given, 100 * sizeof *given, NULL), INGOT_OK);
    expect_refusal(f, ig_context_output(f->context, 0, &none, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    run_chain(f, 100);
    assert_ptr_equal(output(f, 0).data, given);
    assert_true(given[100] == 123);
    set_input(f, 0, vector(ramp, 101));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "404 bytes, the memory given for it 400");
    expect_refusal(f, ig_context_output(f->context, 0, &none, &f->error), INGOT_INVALID_ARGUMENT, "no result");
    memset(given, 0, sizeof given);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), INGOT_OK);
    run_chain(f, 101);
    assert_ptr_equal(output(f, 0).data, own);
    for (int i = 0; i < 101; i++)
        assert_true(given[i] == 0); /* no longer bound */
    expect_refusal(f, ig_context_set_output(f->context, 1, INGOT_HOST, given, 4, &f->error), INGOT_INVALID_ARGUMENT,
                   "no output 1");
    expect_refusal(f, ig_context_set_output(f->context, 0, INGOT_HOST, (char *)given + 1, 4, &f->error),
                   INGOT_INVALID_ARGUMENT, "aligned");
    end_plan(f);
}

static void refuses_wrong_inputs(void **state) {
    struct fixture *f = chain(2, 50);
    make_context(f, 1, 4, false);
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT, "input 'x' is not set");
    struct ingot_memory_info info;
    expect_refusal(f, ig_context_memory(f->context, &info, &f->error), INGOT_INVALID_ARGUMENT, "input 'x' is not set");
    static const struct {
        size_t index;
        struct ingot_tensor tensor;
        const char *text;
    } wrong[] = {
        {1, {INGOT_F32, 1, {3}, ramp, INGOT_HOST}, "there is no input 1"},
        {0, {INGOT_F64, 1, {3}, ramp, INGOT_HOST}, "type is f64, wanted f32"},
        {0, {(enum ingot_dtype)99, 1, {3}, ramp, INGOT_HOST}, "type is unknown, wanted f32"},
        {0, {INGOT_F32, 2, {3, 1}, ramp, INGOT_HOST}, "rank is 2, wanted 1"},
        {0, {INGOT_F32, -1, {3}, ramp, INGOT_HOST}, "rank is -1"},
        {0, {INGOT_F32, 1, {-3}, ramp, INGOT_HOST}, "dim 0 is -3"},
        {0, {INGOT_F32, 1, {3}, NULL, INGOT_HOST}, "data is NULL"},
        {0, {INGOT_F32, 1, {3}, (char *)ramp + 2, INGOT_HOST}, "not aligned"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(f, ig_context_set_input(f->context, wrong[i].index, &wrong[i].tensor, &f->error),
                       INGOT_INVALID_ARGUMENT, wrong[i].text);
    for (int64_t n = 1; n <= 51; n += 50) {
        set_input(f, 0, vector(ramp, n));
        expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT, "dim 0 ('n') is " /* 1, 51 */);
        assert_non_null(strstr(f->error.message, "outside the range 2 to 50"));
    }
    run_chain(f, 50);
    end_plan(f);
}

static void fails_every_allocation_cleanly(void **state) {
    bool done = false;
    for (size_t n = 1; !done; n++) {
        struct fixture *f = chain(0, 1000);
        f->allocator.fail_at = n;
        struct ig_context_config config = {.max_instances = 3, .max_bytes = SIZE_MAX, .profile = true, .timing = true};
        enum ingot_status status = try_context(f, config, 2);
        for (int64_t size = 10; status == INGOT_OK && size <= 1000; size *= 10) {
            set_input(f, 0, vector(ramp, size));
            status = ig_context_run(f->context, &f->error);
            if (status != INGOT_OK) run_chain(f, size); /* only one allocation failed: the next attempt succeeds */
        }
        done = f->allocator.calls < n;
        if (status != INGOT_OK) assert_int_equal(f->error.status, INGOT_OUT_OF_MEMORY);
        end_plan(f);
        assert_true(n < 1000);
    }
}

/* The remote device has a clock of its own; remote_test.c reads it. */
static void profiles_steps(void **state) {
    struct fixture *f = chain(0, 1000);
    make_context(f, 2, 4, true);
    uint64_t begin = test_now_ns();
    run_chain(f, 10);
    run_chain(f, 1000);
    double most = (double)(test_now_ns() - begin) / 1e6;
    struct ingot_profile_row rows[3];
    assert_int_equal(ig_context_profile(f->context, NULL, 0), 3);
    assert_int_equal(ig_context_profile(f->context, rows, 3), 3);
    assert_string_equal(rows[0].kernel, "shift");
    assert_string_equal(rows[2].origin, "negate");
    for (int i = 0; i < 3; i++)
        assert_true(rows[i].calls == 2 && rows[i].total_ms >= 0);
    assert_true(f->remote || rows[0].total_ms + rows[1].total_ms + rows[2].total_ms <= most);
    end_plan(f);
}

/* A machine without cache: 1000 numbers read and written take 8 us, at 1000 bytes each, and a step one more. The demand program
 * runs for profiles alone, and one that overflows leaves shapes usable. */
static void tells_floors(void **state) {
    struct fixture *f = chain(0, 1000);
    struct ig_plan *plan = &f->tiny.plan;
    const ig_slot n = 0, first = plan->n_symbols + plan->n_instrs, zero = first, bytes = first + 2;
    const struct ig_shape_instr program[] = {
        {IG_SHAPE_CONST, 0, 0, 0, 0},       {IG_SHAPE_CONST, 0, 0, 0, 4},
        {IG_SHAPE_MUL, n, first + 1, 0, 0}, {IG_SHAPE_CONST, 0, 0, 0, INT64_MAX / 1000},
        {IG_SHAPE_MUL, first + 3, n, 0, 0}, {IG_SHAPE_ADD, first + 4, first + 4, 0, 0}};
    struct ig_plan_demand demand = {.constants = zero, .reads = bytes, .writes = bytes, .turns = zero};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        demand.operations[u] = zero;
    plan->demand_instrs = program;
    plan->n_demand_instrs = sizeof program / sizeof *program;
    plan->demands = &demand;
    plan->n_demands = 1;
    f->tiny.steps[1].demand = 1;
    f->tiny.kernels[f->tiny.steps[1].kernel].kind = IG_CPU_MAP;
    struct ig_machine machine = {.name = "slow", .memory = 1000, .cache = 1000, .step = 1};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        machine.rate[u] = 1;
    struct ig_context_config config = {.max_bytes = SIZE_MAX, .profile = true, .machine = &machine};
    if (try_context(f, config, 1) != INGOT_OK) fail_msg("%s", f->error.message);
    struct ingot_profile_row rows[3];
    run_chain(f, 10);
    run_chain(f, 400);
    assert_int_equal(ig_context_profile(f->context, rows, 3), 3);
    assert_true(rows[0].floor_ms == 0 && rows[0].bound == NULL);
    assert_float_equal(rows[1].floor_ms, 2 * (3.2 + 1) / 1000, 1e-9); /* two calls, as if of the last shapes */
    assert_float_equal(rows[1].bytes, 3200, 1e-9);
    const struct ig_demand moved = {.reads = 1600, .writes = 1600};
    assert_float_equal(rows[1].estimate_ms, 2 * ig_cpu_time(IG_CPU_MAP, &machine, &moved, 0, 1) / 1000, 1e-9);
    assert_true(rows[0].estimate_ms == 0);
    assert_true(rows[1].operations == 0);
    run_chain(f, 1000);
    assert_int_equal(ig_context_profile(f->context, rows, 3), 3);
    assert_true(rows[1].calls == 3 && rows[1].floor_ms == 0); /* twice INT64_MAX is too much */
    end_plan(f);
}

static void tells_its_memory(void **state) {
    struct fixture *f = chain(0, 1000);
    make_context(f, 2, 4, false);
    set_input(f, 0, vector(ramp, 100));
    struct ingot_memory_info info;
    assert_int_equal(ig_context_memory(f->context, &info, NULL), INGOT_OK);
    assert_int_equal(info.lower_bound_bytes, 800);
    assert_int_equal(info.arena_bytes, 2 * 448);
    assert_int_equal(info.weights_bytes, 1024);
    assert_int_equal(info.scratch_bytes, 2 * 128);
    end_plan(f);
}

static void null_device_sees_a_run(void **state) {
    struct fixture *f = chain(0, 1000);
    make_context(f, 0, 4, false);
    set_input(f, 0, vector(ramp, 100));
    run(f);
    ig_device_null_clear(f->device);
    set_input(f, 0, vector(ramp + 1, 100));
    run(f);
    assert_string_equal(ig_device_null_record(f->device), "reserve_scratch s0 bytes=128\n"
                                                          "list_patch l0[0] buffer=0 host\n"
                                                          "list_patch l0[1] buffer=1 host\n"
                                                          "list_launch s0 l0\n"
                                                          "stream_wait s0\n");
    end_plan(f);
}

/* ---- Concurrent steps: y = -(x + x) + -(x + x) ------------------------------------------------------------------------------ */

static struct fixture *two_branches(bool scratch) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 100000), bytes = bytes_for(t, n);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, bytes), b = tiny_arena(t, bytes), c = tiny_arena(t, bytes), d = tiny_arena(t, bytes);
    LAUNCH(f, f->add, n, x, x, a);
    LAUNCH(f, f->negate, n, a, b);
    LAUNCH(f, f->add, n, x, x, c);
    LAUNCH(f, f->negate, n, c, d);
    LAUNCH(f, f->add, n, b, d, y);
    for (int s = 0; s < 5 && !scratch; s++)
        t->steps[s].scratch = IG_PLAN_NONE;
    return f;
}

static void memory_with(struct fixture *f, unsigned processors, int64_t n, struct ingot_memory_info *out_info) {
    make_context(f, 0, 4, false);
    f->device->processors = processors;
    set_input(f, 0, vector(ramp, n));
    assert_int_equal(ig_context_memory(f->context, out_info, &f->error), INGOT_OK);
}

/* The order of launches, their dependencies, and that concurrent steps share no memory. */
static void branches_run_side_by_side(void **state) {
    struct ingot_memory_info info;
    struct fixture *f = two_branches(false);
    memory_with(f, 132, 100, &info);
    assert_int_equal(info.parallel_steps, 4);
    assert_int_equal(info.parallel_bytes, 448);
    assert_int_equal(info.arena_bytes, 4 * 448);
    assert_true(info.parallel_gain > 0.1 && info.parallel_gain < 0.5);
    ig_device_null_clear(f->device);
    run(f);
    const char *at = ig_device_null_record(f->device);
    static const char *const wanted[] = {"after nothing\n", "]: launch", "after nothing\n", "]: launch",  "after 0\n",
                                         "]: launch",       "after 1\n", "]: launch",       "after 3 2\n"};
    for (size_t i = 0; at && i < sizeof wanted / sizeof *wanted; i++) {
        at = strstr(at, wanted[i]);
        if (!at) fail_msg("no '%s' in %s", wanted[i], ig_device_null_record(f->device));
    }
    end_plan(f);
}

/* Steps are not concurrent if the device cannot run them so, if each step fills it, or if all use the same scratch
 * memory. */
static void branches_take_turns_where_that_is_no_loss(void **state) {
    struct ingot_memory_info info;
    static const unsigned processors[] = {0, 4, 100000};
    for (int i = 0; i < 3; i++) {
        struct fixture *f = two_branches(i == 2);
        memory_with(f, processors[i], 100000, &info);
        assert_int_equal(info.parallel_steps, 0);
        assert_int_equal(info.parallel_bytes, 0);
        assert_int_equal(info.arena_bytes, 3 * 400000);
        run(f);
        assert_null(strstr(ig_device_null_record(f->device), "after"));
        end_plan(f);
    }
}

/* ---- Several inputs: c = a + b, f32[n] each ---------------------------------------------------------------------------------- */

static struct fixture *sum(void) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 1000);
    tiny_subplan(t);
    uint32_t a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &n);
    uint32_t c = tiny_output(t, "c", INGOT_F32, 1, &n), copy = tiny_output(t, "copy of a", INGOT_F32, 1, &n);
    LAUNCH(f, f->add, n, a, b, c);
    tiny_step(t, IG_STEP_COPY, "copy to output", (const uint32_t[]){a, copy}, 2);
    return f;
}

static void inputs_may_share_memory(void **state) {
    struct fixture *f = sum();
    make_context(f, 2, 4, false);
    float one[100], two[100];
    for (int i = 0; i < 100; i++)
        one[i] = 1, two[i] = (float)i;
    set_input(f, 0, vector(one, 100));
    set_input(f, 1, vector(one, 100));
    run(f);
    assert_true(((float *)output(f, 0).data)[99] == 2);
    set_input(f, 1, vector(two, 100)); /* must not affect the first input */
    run(f);
    assert_true(((float *)output(f, 0).data)[99] == 100);
    assert_true(((float *)output(f, 1).data)[99] == 1);
    set_input(f, 0, vector(two, 100));
    set_input(f, 1, vector(one, 100)); /* swapped */
    run(f);
    assert_true(((float *)output(f, 0).data)[99] == 100);
    assert_true(((float *)output(f, 1).data)[99] == 99);
    end_plan(f);
}

static void inputs_must_agree(void **state) {
    struct fixture *f = sum();
    make_context(f, 1, 4, false);
    set_input(f, 0, vector(ramp, 100));
    set_input(f, 1, vector(ramp, 99));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "input 'b': dim 0 is 99, wanted 100 ('n' with n=100)");
    set_input(f, 1, vector(ramp, 100));
    run(f);
    set_input(f, 1, vector(ramp, 99)); /* also if the instance exists */
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT, "input 'b': dim 0 is 99");
    set_input(f, 0, vector(ramp, 99));
    run(f);
    assert_int_equal(output(f, 0).dims[0], 99);
    end_plan(f);
}

/* ---- Shapes that come from data, and impossible shapes ------------------------------------------------------------------------- */

static void shapes_may_come_from_data(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "count", 0, IG_PLAN_NONE, 0, 500);
    tiny_subplan(t);
    tiny_input(t, "size", INGOT_I64, 0, NULL);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
    LAUNCH(f, f->count_up, n, y);
    make_context(f, 2, 3, false);
    int64_t size = 0;
    set_input(f, 0, scalar_i64(&size));
    size_t calls = 0;
    for (int turn = 0; turn < 9; turn++) {
        if (turn == 3) calls = f->allocator.calls;
        size = 500 - 200 * (turn % 3); /* changed in place */
        run(f);
        struct ingot_tensor result = output(f, 0);
        assert_int_equal(result.dims[0], size);
        assert_true(((float *)result.data)[size - 1] == (float)(size - 1));
    }
    assert_int_equal(f->allocator.calls, calls);
    size = 501;
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "input 'size': element 0 ('count') is 501, outside the range 0 to 500");
    size = -1;
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT, "is -1, outside");
    end_plan(f);
}

/* y f32[n - 5], of n / (n - 7) tiles; and an arena buffer of 1000 * n bytes. */
static void refuses_impossible_shapes(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, INT64_MAX);
    tiny_subplan(t);
    ig_slot less = tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, -5));
    uint32_t x = tiny_input(t, "x", INGOT_U8, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &less);
    ig_slot tiles = tiny_op(t, IG_SHAPE_DIV, n, tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, -7)));
    uint32_t a = tiny_arena(t, tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, 1000)));
    ig_slot minus = tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, 1));
    tiny_launch(t, f->widen, tiles, (const uint32_t[]){a, y}, 2, &minus, 1);
    tiny_step(t, IG_STEP_KERNEL, "reads x", (const uint32_t[]){x}, 1);
    t->steps[1].kernel = f->negate;
    t->steps[1].tiles = tiny_op(t, IG_SHAPE_MUL, tiny_const(t, 0), n);
    make_context(f, 1, 3, false);
    static const struct {
        int64_t n;
        enum ingot_status status;
        const char *text;
    } cases[] = {
        {3, INGOT_INVALID_ARGUMENT, "'y': dim 0 ('') would be -2 with n=3"},
        {7, INGOT_INVALID_ARGUMENT, "the quotient of 7 and 0 does not exist"},
        {6, INGOT_INVALID_ARGUMENT, "widen: the number of tiles would be -6 with n=6"},
        {INT64_MAX / 100, INGOT_INVALID_ARGUMENT, "the product of"},
        {INT64_MAX / 1000, INGOT_OUT_OF_MEMORY, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ingot_tensor tensor = {.dtype = INGOT_U8, .rank = 1, .dims = {cases[i].n}, .data = ramp};
        set_input(f, 0, tensor);
        expect_refusal(f, ig_context_run(f->context, &f->error), cases[i].status, cases[i].text);
    }
    end_plan(f);
}

/* c = a + b, with a f32[n] and b f32[m]: the model assumed n = m. */
static void checks_what_the_model_assumes(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 1000), m = tiny_symbol(t, "m", 1, 0, 0, 1000);
    tiny_subplan(t);
    tiny_check(t, n, m);
    uint32_t a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &m);
    uint32_t c = tiny_output(t, "c", INGOT_F32, 1, &n);
    LAUNCH(f, f->add, n, a, b, c);
    make_context(f, 1, 3, false);
    set_input(f, 0, vector(ramp, 8));
    set_input(f, 1, vector(ramp, 7));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "(n=8, m=7): the model needs m, which are 8 and 7");
    set_input(f, 1, vector(ramp, 8));
    run(f);
    assert_true(((float *)output(f, 0).data)[7] == 2 * ramp[7]);
    end_plan(f);
}

/* ---- Aliases: y = halves of (x + w) added, x f32[2n] --------------------------------------------------------------------------- */

static void follows_aliases(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n2 = tiny_symbol(t, "n2", 0, 0, 0, 1000);
    ig_slot n = tiny_op(t, IG_SHAPE_DIV, n2, tiny_const(t, 2));
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n2), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t z = tiny_output(t, "z", INGOT_F32, 1, &n);
    uint32_t w = tiny_weight(t, 1, (const float[]){5}, 1), a = tiny_arena(t, bytes_for(t, n2));
    uint32_t view = tiny_alias(t, a, IG_PLAN_NONE, bytes_for(t, n2));
    uint32_t low = tiny_alias(t, view, IG_PLAN_NONE, bytes_for(t, n));
    uint32_t high = tiny_alias(t, view, bytes_for(t, n), bytes_for(t, n));
    uint32_t x_high = tiny_alias(t, x, bytes_for(t, n), bytes_for(t, n));
    LAUNCH(f, f->shift, n2, x, w, a);
    LAUNCH(f, f->negate, n, x_high, z); /* a's memory must still be live */
    LAUNCH(f, f->add, n, low, high, y);
    make_context(f, 2, 3, false);
    for (int turn = 0; turn < 4; turn++) {
        int64_t size = turn % 2 ? 10 : 400;
        set_input(f, 0, vector(ramp + turn, size));
        run(f);
        const float *sum_of = output(f, 0).data, *negative = output(f, 1).data;
        for (int64_t i = 0; i < size / 2; i++) {
            assert_true(sum_of[i] == ramp[turn + i] + ramp[turn + i + size / 2] + 10);
            assert_true(negative[i] == -ramp[turn + i + size / 2]);
        }
    }
    end_plan(f);
}

static void refuses_buffers_beyond_their_memory(void **state) {
    for (int which = 0; which < 3; which++) {
        struct fixture *f = begin_plan();
        struct tiny_plan *t = &f->tiny;
        ig_slot n = tiny_const(t, 10);
        tiny_subplan(t);
        uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
        uint32_t w = tiny_weight(t, 15, (const float[]){5}, 1);
        uint32_t part = tiny_alias(t, x, tiny_const(t, which == 0 ? 4 : 0), bytes_for(t, n));
        if (which == 1) t->buffers[w].bytes = tiny_const(t, 65);
        if (which == 2) t->buffers[y].bytes = tiny_const(t, 41);
        LAUNCH(f, f->shift, n, part, w, y);
        make_context(f, 1, 3, false);
        set_input(f, 0, vector(ramp, 10));
        expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_BAD_ENGINE, "is larger than the memory");
        end_plan(f);
    }
}

/* Copies to inputs, weights and aliases of them: on the CPU, weights are a read-only mapping of a file. */
static void refuses_to_write_what_is_only_read(void **state) {
    static const char *const expected[] = {"copy: operand 1 is a result, but lies in an input",
                                           "copy: operand 1 is a result, but lies in the weights",
                                           "copy: operand 1 is a result, but lies in an input"};
    for (int bad = 0; bad < 3; bad++) {
        struct fixture *f = begin_plan();
        struct tiny_plan *t = &f->tiny;
        ig_slot n = tiny_const(t, 4), bytes = tiny_const(t, 4 * sizeof(float));
        tiny_subplan(t);
        uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), z = tiny_input(t, "z", INGOT_F32, 1, &n);
        uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
        uint32_t w = tiny_weight(t, 0, (const float[]){1, 2, 3, 4}, 4);
        uint32_t part = tiny_alias(t, x, IG_PLAN_NONE, bytes);
        tiny_step(t, IG_STEP_COPY, "fine", (const uint32_t[]){x, y}, 2);
        tiny_step(t, IG_STEP_COPY, "copy", (const uint32_t[]){z, bad == 0 ? x : bad == 1 ? w : part}, 2);
        make_context(f, 1, 3, false);
        set_input(f, 0, vector(ramp, 4));
        set_input(f, 1, vector(ramp, 4));
        expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_BAD_ENGINE, expected[bad]);
        end_plan(f);
    }
}

/* A copy between overlapping parts is meaningless but harmless. */
static void copies_what_overlaps(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_const(t, 4), all = tiny_const(t, 5 * sizeof(float)), bytes = tiny_const(t, 4 * sizeof(float));
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, all), left = tiny_alias(t, a, IG_PLAN_NONE, bytes);
    uint32_t right = tiny_alias(t, a, tiny_const(t, sizeof(float)), bytes);
    tiny_step(t, IG_STEP_COPY, "in", (const uint32_t[]){x, left}, 2);
    tiny_step(t, IG_STEP_COPY, "move", (const uint32_t[]){left, right}, 2);
    tiny_step(t, IG_STEP_COPY, "out", (const uint32_t[]){right, y}, 2);
    make_context(f, 1, 3, false);
    set_input(f, 0, vector(ramp, 4));
    run(f);
    assert_memory_equal(output(f, 0).data, ramp, 4 * sizeof(float));
    end_plan(f);
}

/* ---- IF: y = condition ? -x : (x + 7) + x ---------------------------------------------------------------------------------------- */

static struct fixture *choice(void) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 1, 0, 0, 1000);
    tiny_subplan(t);
    uint32_t condition = tiny_input(t, "condition", INGOT_BOOL, 0, NULL), x = tiny_input(t, "x", INGOT_F32, 1, &n);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n), result = tiny_arena(t, bytes_for(t, n));
    struct ig_plan_step *step = tiny_step(t, IG_STEP_IF, "choose", (const uint32_t[]){condition, x, result}, 3);
    step->a = 1, step->b = 2, step->n_inputs = 1;
    uint32_t w = tiny_weight(t, 3, (const float[]){0}, 1);
    LAUNCH(f, f->shift, n, result, w, y);
    tiny_subplan(t);
    x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    LAUNCH(f, f->negate, n, x, y);
    tiny_subplan(t);
    x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    w = tiny_weight(t, 4, (const float[]){7}, 1);
    uint32_t a = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->shift, n, x, w, a);
    LAUNCH(f, f->add, n, a, x, y);
    return f;
}

/* A branch that assumes n = m: the check applies only if that branch runs. */
static void checks_a_branch_when_it_is_run(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 1, 0, 0, 1000), m = tiny_symbol(t, "m", 2, 0, 0, 1000);
    tiny_subplan(t);
    uint32_t condition = tiny_input(t, "condition", INGOT_BOOL, 0, NULL);
    uint32_t a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &m);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
    struct ig_plan_step *step = tiny_step(t, IG_STEP_IF, "choose", (const uint32_t[]){condition, a, b, y}, 4);
    step->a = 1, step->b = 2, step->n_inputs = 2;
    for (int branch = 0; branch < 2; branch++) {
        tiny_subplan(t);
        if (branch == 0) tiny_check(t, n, m);
        a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &m);
        y = tiny_output(t, "y", INGOT_F32, 1, &n);
        if (branch == 0) LAUNCH(f, f->add, n, a, b, y);
        if (branch == 1) LAUNCH(f, f->negate, n, a, y);
    }
    make_context(f, 1, 3, false);
    unsigned char chosen = 0;
    set_input(f, 0, scalar_bool(&chosen));
    set_input(f, 1, vector(ramp, 8));
    set_input(f, 2, vector(ramp, 7));
    run(f);
    assert_true(((float *)output(f, 0).data)[7] == -ramp[7]);
    chosen = 1;
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "(n=8, m=7): the model needs m, which are 8 and 7");
    set_input(f, 2, vector(ramp, 8));
    run(f);
    assert_true(((float *)output(f, 0).data)[7] == 2 * ramp[7]);
    end_plan(f);
}

static void chooses_a_branch(void **state) {
    for (int profile = 0; profile < 2; profile++) {
        struct fixture *f = choice();
        make_context(f, 2, 3, profile);
        unsigned char condition = 0;
        size_t calls = 0;
        set_input(f, 0, scalar_bool(&condition));
        for (int turn = 0; turn < 16; turn++) {
            condition = turn & 1;
            int64_t n = turn & 2 ? 999 : 3;
            if (turn == 4) calls = f->allocator.calls;
            set_input(f, 1, vector(ramp + turn, n));
            run(f);
            const float *y = output(f, 0).data, *x = ramp + turn;
            for (int64_t i = 0; i < n; i++)
                assert_true(y[i] == (condition ? -x[i] : 2 * x[i] + 7));
        }
        assert_int_equal(f->allocator.calls, calls);
        struct ingot_profile_row rows[5];
        assert_int_equal(ig_context_profile(f->context, rows, 5), profile ? 5 : 0);
        if (profile) assert_true(rows[0].calls == 16 && rows[2].calls == 8 && rows[4].calls == 8);
        end_plan(f);
    }
}

/* ---- LOOP: state += x per iteration, all states stacked; ends when the iteration reaches the limit -------------------------------- */

struct loop_plan {
    bool with_trip, with_condition, scanned;
};

static struct fixture *looping(struct loop_plan what) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 2, 0, 0, 1000), trips = tiny_symbol(t, "trips", 0, IG_PLAN_NONE, 0, 100);
    ig_slot stacked[] = {trips, n};
    tiny_subplan(t);
    uint32_t trip = tiny_input(t, "trip", INGOT_I64, 0, NULL), limit = tiny_input(t, "limit", INGOT_I64, 0, NULL);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), go = tiny_input(t, "go", INGOT_BOOL, 0, NULL);
    uint32_t last = tiny_output(t, "last", INGOT_F32, 1, &n), all = tiny_output(t, "all", INGOT_F32, 2, stacked);
    uint32_t numbers = tiny_output(t, "number", INGOT_F32, 1, &n);
    uint32_t begin = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->negate, n, x, begin); /* begins with -x */
    uint32_t operands[] = {what.with_trip ? trip : IG_PLAN_NONE,
                           what.with_condition ? go : IG_PLAN_NONE,
                           begin,
                           x,
                           x,
                           limit,
                           last,
                           numbers,
                           all};
    struct ig_plan_step *step = tiny_step(t, IG_STEP_LOOP, "loop 'l'", operands, what.scanned ? 9 : 8);
    step->a = 1, step->n_carried = 2, step->n_inputs = 2;
    tiny_subplan(t);
    uint32_t iteration = tiny_input(t, "iteration", INGOT_I64, 0, NULL);
    tiny_input(t, "condition", INGOT_BOOL, 0, NULL);
    uint32_t state = tiny_input(t, "state", INGOT_F32, 1, &n);
    tiny_input(t, "number", INGOT_F32, 1, &n);
    x = tiny_input(t, "x", INGOT_F32, 1, &n), limit = tiny_input(t, "limit", INGOT_I64, 0, NULL);
    uint32_t on = tiny_output(t, "condition", INGOT_BOOL, 0, NULL), next = tiny_output(t, "state", INGOT_F32, 1, &n);
    uint32_t number = tiny_output(t, "number", INGOT_F32, 1, &n), slice = 0;
    if (what.scanned) slice = tiny_output(t, "slice", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, bytes_for(t, n)), b = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->negate, n, state, a);
    LAUNCH(f, f->negate, n, a, b);
    LAUNCH(f, f->add, n, b, x, next);
    LAUNCH(f, f->widen, n, iteration, number);
    if (what.scanned) tiny_step(t, IG_STEP_COPY, "slice", (const uint32_t[]){next, slice}, 2);
    tiny_launch(t, f->below, tiny_const(t, 1), (const uint32_t[]){iteration, limit, on}, 3, NULL, 0);
    return f;
}

struct loop_inputs {
    int64_t trip, limit, n;
    unsigned char go;
};

static void set_loop(struct fixture *f, struct loop_inputs *in) {
    set_input(f, 0, scalar_i64(&in->trip));
    set_input(f, 1, scalar_i64(&in->limit));
    set_input(f, 2, vector(ramp, in->n));
    set_input(f, 3, scalar_bool(&in->go));
}

static void check_loop(struct fixture *f, const struct loop_inputs *in, int64_t turns, bool scanned) {
    const float *last = output(f, 0).data, *all = output(f, 1).data, *number = output(f, 2).data;
    for (int64_t i = 0; i < in->n; i++) {
        assert_true(last[i] == ramp[i] * (float)(turns - 1));
        assert_true(number[i] == (turns ? (float)(turns - 1) : ramp[i]));
        for (int64_t k = 0; scanned && k < turns; k++)
            assert_true(all[k * in->n + i] == ramp[i] * (float)k);
    }
}

static void loops(void **state) {
    static const struct loop_inputs cases[] = {{0, 100, 10, 1},  {1, 100, 10, 1}, {2, 100, 900, 1}, {5, 100, 10, 1},
                                               {100, 100, 3, 1}, {7, 100, 0, 1},  {3, 100, 1, 1}};
    enum { COUNT = sizeof cases / sizeof *cases };
    struct fixture *f = looping((struct loop_plan){.with_trip = true, .scanned = true});
    make_context(f, 2, COUNT, false);
    size_t calls = 0;
    for (int turn = 0; turn < 3 * COUNT; turn++) {
        if (turn == COUNT) calls = f->allocator.calls;
        struct loop_inputs in = cases[turn % COUNT];
        set_loop(f, &in);
        run(f);
        if (f->remote) assert_int_equal(remote_device_counts(f->device).unready, 0); /* bodies are launched often */
        check_loop(f, &in, in.trip, true);
        assert_int_equal(output(f, 1).dims[0], in.trip);
    }
    assert_int_equal(f->allocator.calls, calls);
    end_plan(f);
}

static void loops_end_by_condition(void **state) {
    static const struct {
        struct loop_plan plan;
        struct loop_inputs in;
        int64_t turns;
    } cases[] = {
        {{true, true, false}, {50, 4, 10, 1}, 4},  {{true, true, false}, {3, 4, 10, 1}, 3},
        {{true, true, false}, {50, 4, 10, 0}, 0},  {{false, true, false}, {0, 6, 10, 1}, 6},
        {{false, false, false}, {0, 1, 10, 0}, 1}, {{false, false, false}, {0, 0, 10, 0}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = looping(cases[i].plan);
        make_context(f, 2, 3, i % 2);
        struct loop_inputs in = cases[i].in;
        set_loop(f, &in);
        for (int turn = 0; turn < 2; turn++) {
            run(f);
            check_loop(f, &in, cases[i].turns, false);
        }
        end_plan(f);
    }
}

static void loops_keep_to_their_outputs(void **state) {
    struct fixture *f = looping((struct loop_plan){.with_trip = true, .scanned = true});
    make_context(f, 2, 3, false);
    struct loop_inputs in = {.trip = 5, .limit = 3, .n = 10, .go = 1};
    set_loop(f, &in);
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_UNSUPPORTED,
                   "loop 'l': the loop ended after 3 iterations, but its stacked outputs are made for 5");
    in.limit = 5;
    run(f);
    check_loop(f, &in, 5, true);
    end_plan(f);
    f = looping((struct loop_plan){.scanned = true}); /* no trip count to bound the stacked results */
    make_context(f, 2, 3, false);
    in.limit = 9;
    set_loop(f, &in);
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_UNSUPPORTED,
                   "the loop goes on after the 5 iterations that it has room for");
    end_plan(f);
}

static void refuses_bodies_of_other_sizes(void **state) {
    struct fixture *f = choice();
    f->tiny.tensors[f->tiny.subplans[2].inputs].dtype = INGOT_F64;
    make_context(f, 1, 3, false);
    unsigned char condition = 0;
    set_input(f, 0, scalar_bool(&condition));
    set_input(f, 1, vector(ramp, 4));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_BAD_ENGINE,
                   "choose: operand 1 has 16 bytes, its body wants 32 (n=4)");
    f->tiny.steps[0].b = 1;
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_BAD_ENGINE, "body of two steps");
    end_plan(f);
}

static void names_what_is_not_captured(void **state) {
    struct ingot_uncaptured_row rows[3] = {{"untouched", "untouched"}, {"untouched", "untouched"}};
    struct fixture *f = chain(0, 10);
    f->file = tiny_file(&f->tiny);
    assert_int_equal(ig_plan_uncaptured(&f->file.plan, rows, 3), 0);
    end_plan(f);
    f = choice();
    f->file = tiny_file(&f->tiny);
    assert_int_equal(ig_plan_uncaptured(&f->file.plan, rows, 3), 1);
    assert_string_equal(rows[0].origin, "choose");
    assert_non_null(strstr(rows[0].reason, "condition"));
    end_plan(f);
    f = looping((struct loop_plan){.with_trip = true});
    f->file = tiny_file(&f->tiny);
    assert_int_equal(ig_plan_uncaptured(&f->file.plan, NULL, 0), 2);
    assert_int_equal(ig_plan_uncaptured(&f->file.plan, rows, 1), 2);
    assert_string_equal(rows[0].origin, "trip"); /* this plan's results are sized by it */
    assert_string_equal(rows[1].origin, "untouched");
    assert_int_equal(ig_plan_uncaptured(&f->file.plan, rows, 3), 2);
    assert_string_equal(rows[1].origin, "loop 'l'");
    end_plan(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_any_shape),
        cmocka_unit_test(alternating_shapes_allocate_nothing),
        cmocka_unit_test(a_change_of_address_allocates_nothing),
        cmocka_unit_test(keeps_the_most_recent_instances),
        cmocka_unit_test(outputs_are_kept_and_given),
        cmocka_unit_test(refuses_wrong_inputs),
        cmocka_unit_test(fails_every_allocation_cleanly),
        cmocka_unit_test(profiles_steps),
        cmocka_unit_test(tells_floors),
        cmocka_unit_test(tells_its_memory),
        cmocka_unit_test(null_device_sees_a_run),
        cmocka_unit_test(branches_run_side_by_side),
        cmocka_unit_test(branches_take_turns_where_that_is_no_loss),
        cmocka_unit_test(inputs_may_share_memory),
        cmocka_unit_test(inputs_must_agree),
        cmocka_unit_test(shapes_may_come_from_data),
        cmocka_unit_test(refuses_impossible_shapes),
        cmocka_unit_test(checks_what_the_model_assumes),
        cmocka_unit_test(follows_aliases),
        cmocka_unit_test(refuses_buffers_beyond_their_memory),
        cmocka_unit_test(refuses_to_write_what_is_only_read),
        cmocka_unit_test(copies_what_overlaps),
        cmocka_unit_test(chooses_a_branch),
        cmocka_unit_test(checks_a_branch_when_it_is_run),
        cmocka_unit_test(loops),
        cmocka_unit_test(loops_end_by_condition),
        cmocka_unit_test(loops_keep_to_their_outputs),
        cmocka_unit_test(refuses_bodies_of_other_sizes),
        cmocka_unit_test(names_what_is_not_captured),
    };
    fill_ramp();
    int failed = cmocka_run_group_tests_name("runtime on the CPU", tests, NULL, NULL);
    test_remote = true;
    return failed + cmocka_run_group_tests_name("runtime on a device with memory of its own", tests, NULL, NULL);
}
