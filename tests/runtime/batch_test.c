/*
 * Batches rounded up (runtime/context/batch.h), on the CPU and on the device of support/device/remote_device.h: what callers see,
 * what is captured and allocated, and what is refused. Run under AddressSanitizer, which sees reads and writes beyond the
 * caller's rows.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"
#include "support/device/remote_device.h"
#include "support/plan/runtime_case.h"

static const int64_t three_sizes[] = {4, 16, 100};

static struct ingot_batch_options sizes_of(const char *symbol, const int64_t *sizes, size_t n) {
    return (struct ingot_batch_options){sizeof(struct ingot_batch_options), symbol, sizes, n};
}

static enum ingot_status try_batch(struct fixture *f, const char *symbol, const int64_t *sizes, size_t n) {
    struct ingot_batch_options options = sizes_of(symbol, sizes, n);
    return ig_context_set_batch(f->context, &options, &f->error);
}

static struct fixture *ready(int64_t lo, int64_t hi, const int64_t *sizes, size_t n) {
    struct fixture *f = chain(lo, hi);
    make_context(f, 2, 0, false);
    if (try_batch(f, "n", sizes, n) != INGOT_OK) fail_msg("%s", f->error.message);
    return f;
}

static struct ingot_batch_info info_of(struct fixture *f) {
    struct ingot_batch_info info;
    ig_context_batch(f->context, &info);
    return info;
}

/* The chain's result for x. */
static float expected(float x) {
    return -(2 * x + 10);
}

static float *numbers(int64_t n, float first) {
    float *x = malloc(n ? (size_t)n * sizeof *x : 1);
    for (int64_t i = 0; i < n; i++)
        x[i] = first + (float)(i % 4093);
    return x;
}

static void check_values(const float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (y[i] != expected(x[i])) fail_msg("row %d is %g instead of %g", (int)i, y[i], expected(x[i]));
    }
}

/* ---- What callers see ------------------------------------------------------------------------------------------------ */

static const int64_t rounded[][2] = {{0, 4}, {1, 4},    {4, 4},     {5, 16},   {16, 16},
                                     {3, 4}, {17, 100}, {100, 100}, {99, 100}, {101, 101}};
enum { ROUNDED = sizeof rounded / sizeof *rounded };

/* The memory of inputs and results has n rows exactly. */
static void run_exactly(struct fixture *f, int64_t n, float first, bool given) {
    float *x = numbers(n, first), *y = malloc(n ? (size_t)n * sizeof *y : 1);
    set_input(f, 0, vector(x, n));
    if (given) assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, y, (size_t)n * sizeof *y, NULL), 0);
    run(f);
    struct ingot_tensor result = output(f, 0);
    assert_int_equal(result.dims[0], n);
    if (given && n) assert_ptr_equal(result.data, y);
    check_values(result.data, x, n);
    if (given) assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), 0);
    free(x);
    free(y);
}

static void rows_are_added_unseen(void **state) {
    struct fixture *f = ready(0, INT32_MAX, three_sizes, 3);
    uint64_t rows = 0, computed = 0;
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < ROUNDED; i++) {
            run_exactly(f, rounded[i][0], (float)(turn + i), turn % 2);
            rows += (uint64_t)rounded[i][0];
            computed += (uint64_t)rounded[i][1];
        }
    }
    struct ingot_batch_info info = info_of(f);
    assert_string_equal(info.symbol, "n");
    assert_int_equal(info.n_sizes, 3);
    assert_memory_equal(info.sizes, three_sizes, sizeof three_sizes);
    assert_int_equal(info.runs, 4 * ROUNDED);
    assert_int_equal(info.captures, 4); /* three sizes, and 101, which is beyond them */
    assert_int_equal(info.hits, 4 * ROUNDED - 4);
    assert_int_equal(info.rows, rows);
    assert_int_equal(info.computed_rows, computed);
    assert_true(info.plan_bytes > 0);
    assert_int_equal(info.padding_bytes > 0, !test_remote);
    end_plan(f);
}

static void warm_runs_allocate_nothing(void **state) {
    struct fixture *f = ready(0, INT32_MAX, three_sizes, 3);
    float x[100], y[100];
    memcpy(x, ramp, sizeof x);
    size_t calls = 0;
    for (int64_t i = 0; i < 300; i++) {
        int64_t n = i * 37 % 101;
        assert_int_equal(
            ig_context_set_output(f->context, 0, INGOT_HOST, i % 3 ? y : NULL, (size_t)n * sizeof *y, NULL), 0);
        set_input(f, 0, vector(x, n));
        run(f);
        check_values(output(f, 0).data, x, n);
        if (i == 150) calls = f->allocator.calls;
        if (i == 150 && test_remote) remote_device_counts(f->device);
    }
    assert_int_equal(f->allocator.calls, calls);
    if (test_remote) {
        struct remote_counts counts = remote_device_counts(f->device);
        assert_int_equal(counts.captures + counts.allocations + counts.copies + counts.launches, 0);
        assert_int_equal(counts.lists, 149);
    }
    assert_int_equal(info_of(f).captures, 3);
    end_plan(f);
}

/* Zeros at first, then what was there before. Seen in the context's own results, which hold all rows. */
static void what_is_added_was_written(void **state) {
    static const int64_t eight = 8;
    struct fixture *f = ready(0, INT32_MAX, &eight, 1);
    static const float first[] = {1, 2, 3}, second[] = {7};
    set_input(f, 0, vector((float *)first, 3));
    run(f);
    const float *y = output(f, 0).data;
    check_values(y, (const float[]){1, 2, 3, 0, 0, 0, 0, 0}, 8);
    set_input(f, 0, vector((float *)second, 1));
    run(f);
    y = output(f, 0).data;
    check_values(y, (const float[]){7, 2, 3, 0, 0, 0, 0, 0}, 8);
    end_plan(f);
}

/* The caller's memory is used in place where it has room. */
static void roomy_results_are_written_in_place(void **state) {
    static const int64_t eight = 8;
    struct fixture *f = ready(0, INT32_MAX, &eight, 1);
    float y[9];
    for (int i = 0; i < 9; i++)
        y[i] = -1;
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, y, 8 * sizeof *y, NULL), 0);
    run_exactly(f, 8, 2, false);
    for (int64_t n = 8; n >= 1; n--) {
        set_input(f, 0, vector(ramp, n));
        run(f);
        check_values(y, ramp, n);
        assert_int_equal(output(f, 0).dims[0], n);
    }
    assert_true(y[8] == -1);
    float small[2];
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, small, sizeof small, NULL), 0);
    set_input(f, 0, vector(ramp, 3));
    expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                   "output 'y' has 12 bytes, the memory given for it 8");
    end_plan(f);
}

static void the_policy_may_change(void **state) {
    struct fixture *f = ready(0, INT32_MAX, three_sizes, 3);
    run_exactly(f, 3, 0, false);
    assert_int_equal(output(f, 0).dims[0], 3);
    assert_int_equal(ig_context_set_batch(f->context, NULL, &f->error), INGOT_OK);
    assert_int_equal(output(f, 0).dims[0], 3); /* of the run before */
    assert_null(info_of(f).symbol);
    assert_int_equal(info_of(f).n_sizes, 0);
    run_exactly(f, 3, 0, true);
    run_exactly(f, 5, 0, false);
    struct ingot_plans_info plans;
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.instances, 3);
    assert_int_equal(info_of(f).runs, 0);
    assert_int_equal(try_batch(f, "n", (const int64_t[]){5}, 1), INGOT_OK);
    run_exactly(f, 3, 0, false);
    assert_int_equal(info_of(f).hits, 1);
    end_plan(f);
}

static void powers_of_two_up_to_the_end(void **state) {
    struct fixture *f = ready(3, 40, NULL, 0);
    struct ingot_batch_info info = info_of(f);
    assert_int_equal(info.n_sizes, 5);
    assert_memory_equal(info.sizes, ((const int64_t[]){4, 8, 16, 32, 40}), 5 * sizeof(int64_t));
    for (int64_t n = 3; n <= 40; n++)
        run_exactly(f, n, 1, n % 2);
    assert_int_equal(info_of(f).captures, 5);
    end_plan(f);
    f = ready(1, INT64_MAX, NULL, 0);
    info = info_of(f);
    assert_int_equal(info.n_sizes, 64);
    assert_int_equal(info.sizes[62], (int64_t)1 << 62);
    assert_int_equal(info.sizes[63], INT64_MAX);
    end_plan(f);
    f = ready(7, 7, NULL, 0);
    assert_int_equal(info_of(f).n_sizes, 1);
    end_plan(f);
}

/* Leases and fresh results have n rows too. */
static void other_kinds_of_results(void **state) {
    struct fixture *f = ready(0, INT32_MAX, three_sizes, 3);
    struct ig_results *lease;
    struct ingot_tensor y;
    run_exactly(f, 7, 5, false);
    assert_int_equal(ig_context_lease(f->context, &lease, &f->error), INGOT_OK);
    run_exactly(f, 9, 6, false);
    assert_int_equal(ig_results_wait(lease, &f->error), INGOT_OK);
    assert_int_equal(ig_results_output(lease, 0, &y, &f->error), INGOT_OK);
    assert_int_equal(y.dims[0], 7);
    for (int i = 0; i < 7; i++)
        assert_true(((float *)y.data)[i] == expected((float)(5 + i)));
    ig_results_release(lease);
    for (int64_t n = 14; n <= 17; n++) {
        assert_int_equal(ig_context_set_output_fresh(f->context, 0, INGOT_HOST, &f->error), INGOT_OK);
        set_input(f, 0, vector(ramp, n));
        run(f);
        assert_int_equal(ig_context_take_output(f->context, 0, &y, &f->error), INGOT_OK);
        assert_int_equal(y.dims[0], n);
        check_values(y.data, ramp, n);
        ig_context_free(f->context, INGOT_HOST, y.data, (size_t)n * sizeof(float));
    }
    end_plan(f);
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------------ */

static void *memory_of(struct fixture *f, enum ingot_memory memory, const float *values, size_t n) {
    void *at;
    size_t bytes = n * sizeof *values;
    if (memory == INGOT_CUDA) {
        assert_int_equal(f->device->api->allocate(f->device, bytes, &at, NULL), INGOT_OK);
        if (values) remote_device_write(at, values, bytes);
        return at;
    }
    at = malloc(bytes);
    if (values) memcpy(at, values, bytes);
    if (memory == INGOT_PINNED && test_remote) remote_device_pin(f->device, at, bytes);
    return at;
}

static void release(struct fixture *f, enum ingot_memory memory, void *at, size_t n) {
    if (memory == INGOT_CUDA) {
        f->device->api->release(f->device, at, n * sizeof(float));
        return;
    }
    if (memory == INGOT_PINNED && test_remote) remote_device_pin(f->device, at, 0);
    free(at);
}

/* Runs n rows of memory that has no more, and checks the results, which are in memory that has no more either. */
static void run_kinds(struct fixture *f, enum ingot_memory in, enum ingot_memory out, int64_t n) {
    float *x = numbers(n, (float)n), *y = malloc((size_t)n * sizeof *y);
    void *from = memory_of(f, in, x, (size_t)n), *to = memory_of(f, out, NULL, (size_t)n);
    struct ingot_tensor input = vector(from, n);
    input.memory = in;
    set_input(f, 0, input);
    if (ig_context_set_output(f->context, 0, out, to, (size_t)n * sizeof *y, &f->error))
        fail_msg("%s", f->error.message);
    run(f);
    assert_int_equal(output(f, 0).dims[0], n);
    if (out == INGOT_CUDA)
        remote_device_read(y, to, (size_t)n * sizeof *y);
    else
        memcpy(y, to, (size_t)n * sizeof *y);
    check_values(y, x, n);
    assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), 0);
    release(f, in, from, (size_t)n);
    release(f, out, to, (size_t)n);
    free(x);
    free(y);
}

static void any_memory_has_n_rows(void **state) {
    static const enum ingot_memory kinds[] = {INGOT_HOST, INGOT_PINNED, INGOT_CUDA};
    struct fixture *f = ready(0, INT32_MAX, three_sizes, 3);
    for (int i = 0; i < 9; i++) {
        enum ingot_memory in = kinds[i / 3], out = kinds[i % 3];
        for (int64_t n = 1; n <= 100; n *= 10)
            run_kinds(f, in, out, n);
        remote_device_counts(f->device);
        for (int64_t n = 100; n >= 1; n--)
            run_kinds(f, in, out, n);
        struct remote_counts counts = remote_device_counts(f->device);
        if (counts.captures) fail_msg("memory %d to %d: %u captures", (int)in, (int)out, counts.captures);
        bool staged = in == INGOT_HOST && out == INGOT_HOST;
        if (staged) assert_int_equal(counts.copies, 0); /* all in the lists */
        if (in == INGOT_CUDA && out == INGOT_CUDA) assert_int_equal(counts.copies, 2 * 97);
    }
    end_plan(f);
}

/* Inputs in pieces and on streams of their own; results in parts. */
static void large_batches(void **state) {
    static const int64_t sizes[] = {300000, 700000, 1500000};
    static const int64_t rows[] = {1499999, 299999, 300001, 650000, 1500000, 20, 1400000};
    struct fixture *f = ready(0, INT32_MAX, sizes, 3);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 7; i++)
            run_exactly(f, rows[i], (float)i, true);
    }
    assert_int_equal(info_of(f).captures, 3);
    run_kinds(f, INGOT_PINNED, INGOT_PINNED, 1200000);
    end_plan(f);
}

/* Large results leave beside later runs, each with its own number of rows. */
static void results_leave_while_others_run(void **state) {
    static const int64_t size = 700000, rows[] = {650001, 699999, 600000, 700000};
    struct fixture *f = ready(0, INT32_MAX, &size, 1);
    float *x[4], *y[4];
    for (int i = 0; i < 4; i++) {
        x[i] = numbers(rows[i], (float)(5000 * i));
        y[i] = memory_of(f, INGOT_PINNED, NULL, (size_t)rows[i]);
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 4; i++) {
            set_input(f, 0, vector(x[i], rows[i]));
            size_t bytes = (size_t)rows[i] * sizeof(float);
            assert_int_equal(ig_context_set_output(f->context, 0, INGOT_PINNED, y[i], bytes, NULL), INGOT_OK);
            if (ig_context_enqueue(f->context, NULL, &f->error)) fail_msg("%s", f->error.message);
        }
        assert_int_equal(ig_context_wait(f->context, &f->error), INGOT_OK);
        for (int i = 0; i < 4; i++)
            check_values(y[i], x[i], rows[i]);
    }
    assert_int_equal(info_of(f).captures, 1);
    for (int i = 0; i < 4; i++) {
        free(x[i]);
        release(f, INGOT_PINNED, y[i], (size_t)rows[i]);
    }
    end_plan(f);
}

/* ---- Refusals -------------------------------------------------------------------------------------------------------- */

static void bad_sizes(void **state) {
    struct fixture *f = ready(2, 50, NULL, 0);
    expect_refusal(f, try_batch(f, "m", NULL, 0), INGOT_INVALID_ARGUMENT,
                   "the engine has no symbol 'm'; its symbols: 'n'");
    expect_refusal(f, try_batch(f, "n", (const int64_t[]){1, 4}, 2), INGOT_INVALID_ARGUMENT,
                   "size 1 of 'n' is outside the range 2 to 50 that the engine was built for");
    expect_refusal(f, try_batch(f, "n", (const int64_t[]){4, 51}, 2), INGOT_INVALID_ARGUMENT, "size 51 of 'n'");
    expect_refusal(f, try_batch(f, "n", (const int64_t[]){4, 4}, 2), INGOT_INVALID_ARGUMENT,
                   "the sizes of 'n' must ascend, but 4 follows 4");
    expect_refusal(f, try_batch(f, "n", NULL, 2), INGOT_INVALID_ARGUMENT, "sizes is NULL");
    assert_int_equal(info_of(f).n_sizes, 6); /* as before */
    expect_refusal(f, (set_input(f, 0, vector(ramp, 51)), ig_context_run(f->context, &f->error)),
                   INGOT_INVALID_ARGUMENT, "is 51, outside the range 2 to 50");
    expect_refusal(f, (set_input(f, 0, vector(ramp, 1)), ig_context_run(f->context, &f->error)), INGOT_INVALID_ARGUMENT,
                   "is 1, outside the range 2 to 50");
    run_exactly(f, 33, 0, true);
    end_plan(f);
}

/* x[n], s[1] -> y of the given dims; sizes of x and an element of s are symbols. */
static struct fixture *with_output(uint32_t rank, const ig_slot *dims) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 100), k = tiny_symbol(t, "k", 1, IG_PLAN_NONE, 0, 100);
    ig_slot two = tiny_const(t, 2), twice = tiny_op(t, IG_SHAPE_MUL, n, two);
    const ig_slot named[] = {n, k, two, twice};
    ig_slot wanted[INGOT_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        wanted[i] = named[dims[i]];
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n);
    tiny_input(t, "s", INGOT_I64, 0, NULL);
    tiny_output(t, "y", INGOT_F32, rank, wanted);
    uint32_t a = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->negate, n, x, a);
    make_context(f, 1, 0, false);
    return f;
}

static void rows_that_cannot_be_padded(void **state) {
    struct fixture *f = with_output(2, (const ig_slot[]){2, 0});
    expect_refusal(f, try_batch(f, "n", NULL, 0), INGOT_UNSUPPORTED, "output 'y' has 'n' along axis 1");
    expect_refusal(f, try_batch(f, "k", NULL, 0), INGOT_UNSUPPORTED,
                   "'k' cannot be rounded up: it is no size, but the value of element 0 of input 's'");
    end_plan(f);
    f = with_output(1, (const ig_slot[]){3}); /* an engine that claims that its rows are independent */
    expect_refusal(f, try_batch(f, "n", NULL, 0), INGOT_UNSUPPORTED, "output 'y' has '");
    end_plan(f);
    f = with_output(2, (const ig_slot[]){0, 0});
    expect_refusal(f, try_batch(f, "n", NULL, 0), INGOT_UNSUPPORTED, "output 'y' has 'n' along axis 1");
    end_plan(f);
    f = with_output(2, (const ig_slot[]){0, 2});
    assert_int_equal(try_batch(f, "n", NULL, 0), INGOT_OK);
    end_plan(f);
    f = chain(0, 100);
    f->tiny.symbols[0].mixes = f->tiny.symbols[0].name; /* any text will do */
    make_context(f, 1, 0, false);
    expect_refusal(f, try_batch(f, "n", NULL, 0), INGOT_UNSUPPORTED,
                   "'n' cannot be rounded up, since its rows affect each other: n");
    end_plan(f);
}

/* The message is about the caller's rows. */
static void inputs_must_have_as_many_rows(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 100);
    tiny_subplan(t);
    uint32_t a = tiny_input(t, "a", INGOT_F32, 1, &n), b = tiny_input(t, "b", INGOT_F32, 1, &n);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n);
    LAUNCH(f, f->add, n, a, b, y);
    make_context(f, 1, 0, false);
    assert_int_equal(try_batch(f, "n", (const int64_t[]){8}, 1), INGOT_OK);
    for (int turn = 0; turn < 2; turn++) {
        set_input(f, 0, vector(ramp, 5));
        set_input(f, 1, vector(ramp, 6));
        expect_refusal(f, ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT,
                       "input 'b': dim 0 is 6, wanted 5 ('n' with n=5)");
        set_input(f, 1, vector(ramp, 5));
        run(f);
        assert_true(((float *)output(f, 0).data)[4] == 2 * ramp[4]);
    }
    end_plan(f);
}

static void any_allocation_may_fail(void **state) {
    for (size_t at = 1;; at++) {
        struct fixture *f = chain(0, 100);
        make_context(f, 1, 0, false);
        f->allocator.fail_at = f->allocator.calls + at;
        enum ingot_status status = try_batch(f, "n", three_sizes, 3);
        float y[7];
        set_input(f, 0, vector(ramp, 7));
        assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, y, sizeof y, NULL), 0);
        if (status == INGOT_OK) status = ig_context_run(f->context, &f->error);
        bool failed = status != INGOT_OK, reached = f->allocator.calls >= f->allocator.fail_at;
        f->allocator.fail_at = 0;
        if (failed) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_int_equal(try_batch(f, "n", three_sizes, 3), INGOT_OK);
        run(f);
        check_values(y, ramp, 7);
        end_plan(f);
        if (!reached) break;
        assert_true(at < 1000);
    }
}

/* ---- Main ------------------------------------------------------------------------------------------------------------ */

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(rows_are_added_unseen),
        TEST_ON_BOTH(warm_runs_allocate_nothing),
        TEST_ON_BOTH(what_is_added_was_written),
        TEST_ON_BOTH(roomy_results_are_written_in_place),
        TEST_ON_BOTH(the_policy_may_change),
        TEST_ON_BOTH(powers_of_two_up_to_the_end),
        TEST_ON_BOTH(other_kinds_of_results),
        cmocka_unit_test_setup(any_memory_has_n_rows, test_on_remote),
        TEST_ON_BOTH(large_batches),
        cmocka_unit_test_setup(results_leave_while_others_run, test_on_remote),
        TEST_ON_BOTH(bad_sizes),
        TEST_ON_BOTH(rows_that_cannot_be_padded),
        TEST_ON_BOTH(inputs_must_have_as_many_rows),
        TEST_ON_BOTH(any_allocation_may_fail),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("batches rounded up", tests, NULL, NULL);
}
