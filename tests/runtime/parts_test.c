/*
 * Batches in parts (runtime/parts.h), on a CPU device that is told to have little cache: results, arenas and captures, and
 * when batches stay whole. Run under AddressSanitizer, which sees reads and writes beyond the caller's rows.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/parts.h"
#include "support/plan/runtime_case.h"

static void finish(struct fixture *f, size_t cache, uint32_t threads) {
    make_context(f, 2, 0, false);
    f->device->cache_bytes = cache;
    f->device->threads = threads;
}

/* The chain has two buffers of n floats in the arena. */
static struct fixture *ready(int64_t lo, int64_t hi, size_t cache, uint32_t threads) {
    struct fixture *f = chain(lo, hi);
    finish(f, cache, threads);
    return f;
}

static float *numbers(int64_t n, float first) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = first + (float)(i % 4093);
    return x;
}

static void check_values(const float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float expected = -(2 * x[i] + 10);
        if (y[i] != expected) fail_msg("row %d of %d is %g instead of %g", (int)i, (int)n, y[i], expected);
    }
}

/* The memory of inputs and results has n rows exactly. */
static void run_exactly(struct fixture *f, int64_t n, float first, bool given) {
    float *x = numbers(n, first), *y = malloc((size_t)n * sizeof *y);
    set_input(f, 0, vector(x, n));
    if (given) assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, y, (size_t)n * sizeof *y, NULL), 0);
    run(f);
    struct ingot_tensor result = output(f, 0);
    assert_int_equal(result.dims[0], n);
    if (given) assert_ptr_equal(result.data, y);
    check_values(result.data, x, n);
    if (given) assert_int_equal(ig_context_set_output(f->context, 0, INGOT_HOST, NULL, 0, NULL), 0);
    free(x);
    free(y);
}

/* Rows of a part, in the last run. */
static int64_t part_of(const struct fixture *f) {
    return f->context->current->slots[0];
}

/* ---- What callers see ------------------------------------------------------------------------------------------------ */

static void all_rows_are_computed(void **state) {
    static const int64_t sizes[] = {1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 1023, 4096, 50000, 65, 1};
    for (size_t cache = 256; cache <= 2048; cache *= 2) {
        struct fixture *f = ready(1, INT32_MAX, cache, 1);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int64_t n = sizes[i], fitting = (int64_t)cache / 8;
            run_exactly(f, n, (float)i, i % 2);
            assert_true(f->context->current->frame->arena_bytes <= cache);
            assert_int_equal(part_of(f) == n, n <= fitting);
            if (n > fitting) assert_in_range(part_of(f), fitting / 2, fitting);
            assert_true(ig_parts_count(f->context) * part_of(f) >= n);
        }
        end_plan(f);
    }
}

static void few_rows_are_computed_twice(void **state) {
    struct fixture *f = ready(1, INT32_MAX, 8 * 100, 1);
    for (int64_t n = 101; n < 400; n++) {
        run_exactly(f, n, 0, false);
        int64_t more = ig_parts_count(f->context) * part_of(f) - n;
        if (more > 1 + n / 50) fail_msg("%d rows more than %d", (int)more, (int)n);
    }
    end_plan(f);
}

/* An engine for one size; the range of one for several is not left. */
static void fixed_batches_are_divided(void **state) {
    struct fixture *f = ready(1000, 1000, 8 * 100, 1);
    run_exactly(f, 1000, 3, false);
    assert_in_range(part_of(f), 50, 100);
    set_input(f, 0, vector(ramp, 100));
    assert_int_equal(ig_context_run(f->context, &f->error), INGOT_INVALID_ARGUMENT);
    end_plan(f);
    f = ready(999, 1000, 8 * 100, 1);
    run_exactly(f, 1000, 3, false);
    assert_int_equal(part_of(f), 1000);
    end_plan(f);
}

static void warm_runs_allocate_nothing(void **state) {
    struct fixture *f = ready(1, INT32_MAX, 1024, 1);
    struct ingot_plans_info before, after;
    size_t calls = 0;
    for (int64_t i = 0; i < 400; i++) {
        int64_t n = 1 + i * 37 % 199;
        set_input(f, 0, vector(ramp, n));
        run(f);
        check_chain(f, n);
        if (i == 200) calls = f->allocator.calls;
        if (i == 200) ig_context_plans(f->context, &before);
    }
    assert_int_equal(f->allocator.calls, calls);
    ig_context_plans(f->context, &after);
    assert_int_equal(after.captures, before.captures);
    assert_in_range(after.captures, 100, 128); /* parts have 64 to 128 rows */
    end_plan(f);
}

static void leases_and_fresh_results_have_all_rows(void **state) {
    struct fixture *f = ready(1, INT32_MAX, 256, 1);
    struct ig_results *lease;
    struct ingot_tensor y;
    run_exactly(f, 700, 5, false);
    assert_int_equal(ig_context_lease(f->context, &lease, &f->error), INGOT_OK);
    run_exactly(f, 900, 6, false);
    assert_int_equal(ig_results_wait(lease, &f->error), INGOT_OK);
    assert_int_equal(ig_results_output(lease, 0, &y, &f->error), INGOT_OK);
    assert_int_equal(y.dims[0], 700);
    for (int i = 0; i < 700; i++)
        assert_true(((float *)y.data)[i] == -(2 * (float)(5 + i) + 10));
    ig_results_release(lease);
    assert_int_equal(ig_context_set_output_fresh(f->context, 0, INGOT_HOST, &f->error), INGOT_OK);
    set_input(f, 0, vector(ramp, 333));
    run(f);
    assert_int_equal(ig_context_take_output(f->context, 0, &y, &f->error), INGOT_OK);
    check_values(y.data, ramp, 333);
    ig_context_free(f->context, INGOT_HOST, y.data, 333 * sizeof(float));
    end_plan(f);
}

/* An input that has no rows is the same for all parts. */
static void other_inputs_stay(void **state) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 1, INT32_MAX), one = tiny_const(t, 1);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), w = tiny_input(t, "w", INGOT_F32, 1, &one);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 1, &n), a = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->shift, n, x, w, a);
    LAUNCH(f, f->negate, n, a, y);
    finish(f, 64, 1);
    float shift = 3;
    set_input(f, 0, vector(ramp, 777));
    set_input(f, 1, vector(&shift, 1));
    run(f);
    assert_in_range(part_of(f), 8, 16);
    const float *values = output(f, 0).data;
    for (int i = 0; i < 777; i++)
        assert_true(values[i] == -(ramp[i] + 3));
    end_plan(f);
}

static void prepared_parts_are_found(void **state) {
    for (int background = 0; background < 2; background++) {
        struct fixture *f = ready(1, INT32_MAX, 256, 1);
        struct ig_device *device;
        const struct ingot_tensor x = vector(NULL, 640);
        assert_int_equal(ig_device_cpu_create(1, &f->allocator.base, &device, &f->error), INGOT_OK);
        assert_int_equal(ig_context_use_preparer(f->context, device, &f->error), INGOT_OK);
        for (int turn = 0; turn < 2; turn++) {
            assert_int_equal(ig_context_prepare_shapes(f->context, &x, 1, background, &f->error), INGOT_OK);
            assert_int_equal(ig_context_prepared(f->context, &f->error), INGOT_OK);
        }
        struct ingot_plans_info info;
        ig_context_plans(f->context, &info);
        assert_int_equal(info.captures, 1);
        run_exactly(f, 640, 0, false);
        assert_int_equal(part_of(f), 32);
        ig_context_plans(f->context, &info);
        assert_int_equal(info.captures, 1);
        assert_int_equal(info.instances, 2); /* of all rows, and of a part */
        end_plan(f);
    }
}

/* ---- When batches stay whole ----------------------------------------------------------------------------------------- */

static void expect_whole(struct fixture *f, int64_t n) {
    run_exactly(f, n, 0, false);
    assert_int_equal(part_of(f), n);
    end_plan(f);
}

static void batches_stay_whole_on_request(void **state) {
    struct fixture *f = chain(1, INT32_MAX);
    struct ig_context_config config = {.max_bytes = SIZE_MAX, .whole_batches = true};
    assert_int_equal(try_context(f, config, 2), INGOT_OK);
    f->device->cache_bytes = 64;
    expect_whole(f, 1000);
    f = chain(1, INT32_MAX);
    make_context(f, 2, 1, false); /* one instance for one shape: no run after the first makes any */
    f->device->cache_bytes = 64;
    run_exactly(f, 1000, 0, false);
    size_t calls = f->allocator.calls;
    run_exactly(f, 1000, 1, false);
    assert_int_equal(f->allocator.calls, calls);
    expect_whole(f, 1000);
}

static void small_batches_stay_whole(void **state) {
    expect_whole(ready(1, INT32_MAX, 8 * 1024, 1), 1024);
    expect_whole(ready(1, INT32_MAX, 0, 1), 100000);   /* nobody knows the caches */
    expect_whole(ready(1, INT32_MAX, 64, 1000), 1000); /* a row for each thread */
    expect_whole(ready(1000, INT32_MAX, 64, 1), 1500); /* a part would have fewer rows than the engine takes */
}

static void rows_that_mix_stay_together(void **state) {
    struct fixture *f = chain(1, INT32_MAX);
    f->tiny.symbols[0].mixes = f->tiny.symbols[0].name;
    finish(f, 64, 1);
    expect_whole(f, 1000);
}

static void the_callers_sizes_count(void **state) {
    static const int64_t sizes[] = {1000};
    const struct ingot_batch_options options = {sizeof options, "n", sizes, 1};
    struct fixture *f = ready(1, INT32_MAX, 64, 1);
    run_exactly(f, 900, 0, false);
    assert_true(part_of(f) < 900);
    assert_int_equal(ig_context_set_batch(f->context, &options, &f->error), INGOT_OK);
    run_exactly(f, 900, 0, true);
    assert_int_equal(part_of(f), 1000);
    assert_int_equal(ig_context_set_batch(f->context, NULL, &f->error), INGOT_OK);
    run_exactly(f, 900, 0, true);
    assert_true(part_of(f) < 900);
    end_plan(f);
}

/* 800 bytes of weights for each part, beside 20 of the rest for each row. */
static void weights_are_not_read_too_often(void **state) {
    for (int large = 0; large < 2; large++) {
        struct fixture *f = begin_plan();
        struct tiny_plan *t = &f->tiny;
        static float values[200] = {10};
        ig_slot n = tiny_symbol(t, "n", 0, 0, 1, INT32_MAX);
        tiny_subplan(t);
        uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
        uint32_t w = tiny_weight(t, 0, values, large ? 200 : 1);
        uint32_t a = tiny_arena(t, bytes_for(t, n)), b = tiny_arena(t, bytes_for(t, n));
        LAUNCH(f, f->shift, n, x, w, a);
        LAUNCH(f, f->add, n, a, x, b);
        LAUNCH(f, f->negate, n, b, y);
        finish(f, 128, 1);
        run_exactly(f, 320, 0, false);
        assert_int_equal(part_of(f) == 320, large);
        end_plan(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_are_computed),
        cmocka_unit_test(few_rows_are_computed_twice),
        cmocka_unit_test(fixed_batches_are_divided),
        cmocka_unit_test(warm_runs_allocate_nothing),
        cmocka_unit_test(leases_and_fresh_results_have_all_rows),
        cmocka_unit_test(other_inputs_stay),
        cmocka_unit_test(prepared_parts_are_found),
        cmocka_unit_test(batches_stay_whole_on_request),
        cmocka_unit_test(small_batches_stay_whole),
        cmocka_unit_test(rows_that_mix_stay_together),
        cmocka_unit_test(the_callers_sizes_count),
        cmocka_unit_test(weights_are_not_read_too_often),
    };
    fill_ramp();
    return cmocka_run_group_tests_name("batches in parts", tests, NULL, NULL);
}
