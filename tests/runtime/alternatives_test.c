/*
 * Plans with alternatives: y = -(2*x), or something else, by several kernels (support/plan/runtime_case.h). All tests run
 * on the CPU, then on a device with memory of its own.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/null/null.h"
#include "support/plan/runtime_case.h"

/* The first step is x + x below n = 10, x + w up to 100, and -x beyond: results tell which one ran. The alternatives need
 * no scratch memory of their own. `of`: n plus this is the choice's number, if it is not one of 0, 1, 2. */
static struct fixture *three_ways(int64_t of) {
    static const float one = 1;
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, 100000), bytes = bytes_for(t, n);
    ig_slot zero = tiny_const(t, 0), first = tiny_const(t, 1), choice = zero;
    static const int64_t thresholds[] = {9, 100};
    for (int i = 0; i < 2; i++) {
        ig_slot over = tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, -thresholds[i]));
        ig_slot is = tiny_op(t, IG_SHAPE_MIN, tiny_op(t, IG_SHAPE_MAX, over, zero), first);
        choice = tiny_op(t, IG_SHAPE_ADD, choice, is);
    }
    if (of) choice = tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, of));
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t w = tiny_weight(t, 0, &one, 1), a = tiny_arena(t, bytes);
    LAUNCH(f, f->add, n, x, x, a);
    LAUNCH(f, f->negate, n, a, y);
    LAUNCH(f, f->shift, n, x, w, a);
    LAUNCH(f, f->negate, n, x, a);
    t->current->n_steps = 2;
    t->steps[0].alternatives = 2, t->steps[0].n_alternatives = 2, t->steps[0].choice = choice;
    for (uint32_t b = 0; b < t->current->n_buffers; b++) {
        struct ig_plan_buffer *buffer = &t->buffers[t->current->buffers + b];
        if (buffer->kind == IG_PLAN_ARENA) buffer->last = 1; /* not up to the alternatives' places in the table */
    }
    return f;
}

static void run_three_ways(struct fixture *f, int64_t n) {
    set_input(f, 0, vector(ramp, n));
    run(f);
    const float *y = output(f, 0).data;
    for (int64_t i = 0; i < n; i++) {
        float x = ramp[i], wanted = n < 10 ? -(x + x) : n <= 100 ? -(x + 1) : x;
        if (y[i] != wanted) fail_msg("n = %lld, element %lld: %g", (long long)n, (long long)i, (double)y[i]);
    }
}

static void the_right_alternative_runs(void **state) {
    static const int64_t sizes[] = {1, 9, 10, 100, 101, 100000, 9, 101, 10, 0, 1};
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct fixture *f = three_ways(0);
        make_context(f, threads, 4, false);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            run_three_ways(f, sizes[i]);
        end_plan(f);
    }
}

static void alternatives_have_rows_of_their_own(void **state) {
    static const char *const kernels[] = {"add", "shift", "negate"};
    struct fixture *f = three_ways(0);
    struct ingot_profile_row rows[8];
    make_context(f, 2, 4, true);
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n <= 1000; n *= 10 + 5 * (n == 10))
            run_three_ways(f, n);
    size_t count = ig_context_profile(f->context, rows, 8);
    uint64_t calls = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (int k = 0; k < 3; k++)
            known = known || strcmp(rows[i].kernel, kernels[k]) == 0;
        assert_true(known);
        calls += rows[i].calls;
    }
    assert_int_equal(calls, 2 * 3 * 3);
    end_plan(f);
}

/* As an engine that lies might have it. */
static void refuses_a_choice_out_of_range(void **state) {
    for (int64_t n = 1; n <= 6; n++) {
        struct fixture *f = three_ways(-3); /* n = 3, 4, 5 are 0, 1, 2 */
        make_context(f, 1, 4, false);
        set_input(f, 0, vector(ramp, n));
        enum ingot_status status = ig_context_run(f->context, &f->error);
        if (n >= 3 && n <= 5) {
            assert_int_equal(status, INGOT_OK);
        } else {
            char text[80];
            snprintf(text, sizeof text, "kernel %lld of 3 would run with n=%lld", (long long)n - 3, (long long)n);
            expect_refusal(f, status, INGOT_BAD_ENGINE, text);
        }
        end_plan(f);
    }
}

static void the_null_device_sees_the_alternative(void **state) {
    struct fixture *f = three_ways(0);
    make_context(f, 0, 4, false);
    static const int64_t sizes[] = {5, 50, 500};
    static const char *const launches[] = {"]: launch m0+0 ", "]: launch m0+16 ", "]: launch m0+32 "};
    for (int i = 0; i < 3; i++) {
        ig_device_null_clear(f->device);
        set_input(f, 0, vector(ramp, sizes[i]));
        run(f);
        const char *first = strstr(ig_device_null_record(f->device), "]: launch ");
        if (!first || strncmp(first, launches[i], strlen(launches[i])) != 0)
            fail_msg("%s", ig_device_null_record(f->device));
    }
    end_plan(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_alternative_runs),
        cmocka_unit_test(alternatives_have_rows_of_their_own),
        cmocka_unit_test(refuses_a_choice_out_of_range),
        cmocka_unit_test(the_null_device_sees_the_alternative),
    };
    fill_ramp();
    int failed = cmocka_run_group_tests_name("alternatives", tests, NULL, NULL);
    test_remote = true;
    return failed + cmocka_run_group_tests_name("alternatives on a device of its own memory", tests, NULL, NULL);
}
