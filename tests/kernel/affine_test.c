/* Quotients and remainders of index sums (kernel/affine.h): for all values of the variables, what they simplify to has
 * the value of what was asked for; and the parts of an axis that a reshape cuts across are told apart. */
#include "kernel/affine.h"
#include "support/check/kernel_cases.h"

enum { VARS = 3 };

struct sum {
    int64_t extent[VARS], factor[VARS], constant;
};

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* The value of index arithmetic over the variables. */
static int64_t value(struct ig_loops *k, ig_x x, const ig_x *vars, const int64_t *at) {
    for (int i = 0; i < VARS; i++) {
        if (x == vars[i]) return at[i];
    }
    const struct ig_x_node n = *ig_x_look(k, x);
    if (n.kind == IG_X_INT) return n.i;
    assert_int_equal(n.kind, IG_X_MAP);
    int64_t a = value(k, n.args[0], vars, at), b = value(k, n.args[1], vars, at);
    switch (n.op) {
    case IG_OP_add: return a + b;
    case IG_OP_mul: return a * b;
    case IG_OP_div: return a / b;
    case IG_OP_mod: return a % b;
    default: fail_msg("unexpected operator"); return 0;
    }
}

static void check_sum(struct ig_loops *k, const struct sum *s, int64_t by) {
    ig_x vars[VARS], x = ig_x_index(k, s->constant);
    for (int i = 0; i < VARS; i++) {
        vars[i] = ig_x_free_var(k, ig_dim_const(k->dims, s->extent[i]));
        x = ig_x_add(k, x, ig_x_mul(k, vars[i], ig_x_index(k, s->factor[i])));
    }
    ig_x quotient = ig_x_div(k, x, ig_x_index(k, by)), rest = ig_x_mod(k, x, ig_x_index(k, by));
    int64_t at[VARS];
    for (at[0] = 0; at[0] < s->extent[0]; at[0]++) {
        for (at[1] = 0; at[1] < s->extent[1]; at[1]++) {
            for (at[2] = 0; at[2] < s->extent[2]; at[2]++) {
                int64_t sum = s->constant;
                for (int i = 0; i < VARS; i++)
                    sum += at[i] * s->factor[i];
                assert_int_equal(value(k, quotient, vars, at), sum / by);
                assert_int_equal(value(k, rest, vars, at), sum % by);
            }
        }
    }
}

static void check_sums(struct ig_job *job, void *argument) {
    (void)argument;
    static const int64_t numbers[] = {1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 32, 49, 64};
    enum { NUMBERS = sizeof numbers / sizeof *numbers, ROUNDS = 3000 };
    uint32_t state = 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct ig_loops *k = ig_loops_create(job, ig_dims_create(job));
        struct sum s = {.constant = next(&state) % 3 ? 0 : next(&state) % 20};
        for (int i = 0; i < VARS; i++) {
            s.extent[i] = 1 + next(&state) % 9;
            s.factor[i] = numbers[next(&state) % NUMBERS];
        }
        check_sum(k, &s, numbers[next(&state) % NUMBERS]);
    }
}

/* Element `depth` of head `head`, where heads of 32 lie side by side in rows of 64 of which every third is read. */
static void check_parts(struct ig_job *job, void *argument) {
    (void)argument;
    struct ig_loops *k = ig_loops_create(job, ig_dims_create(job));
    ig_x head = ig_x_free_var(k, ig_dim_const(k->dims, 128)), depth = ig_x_free_var(k, ig_dim_const(k->dims, 32));
    ig_x x = ig_x_add(k, ig_x_mul(k, head, ig_x_index(k, 32)), depth), two = ig_x_index(k, 2);
    ig_x rest = ig_x_add(k, ig_x_mul(k, ig_x_mod(k, head, two), ig_x_index(k, 32)), depth);
    assert_int_equal(ig_x_div(k, x, ig_x_index(k, 64)), ig_x_div(k, head, two));
    assert_int_equal(ig_x_mod(k, x, ig_x_index(k, 64)), rest);
}

static void check_range(struct ig_loops *k, ig_x x, int64_t lo, int64_t hi) {
    ig_dim from, to;
    ig_x_bounds(k, x, &from, &to);
    assert_int_equal(from, ig_dim_const(k->dims, lo));
    assert_int_equal(to, ig_dim_const(k->dims, hi));
}

/* A byte from memory has bounds, in whatever integer it is; what was cut off to be a byte has not got those of the whole. */
static void check_bytes(struct ig_job *job, void *argument) {
    (void)argument;
    struct ig_loops *k = ig_loops_create(job, ig_dims_create(job));
    ig_x at = ig_x_free_var(k, ig_dim_const(k->dims, 9));
    ig_x load = ig_x_load(k, ig_loops_local(k, INGOT_U8, 9, "bytes"), at);
    ig_x wide = ig_x_cast(k, ig_x_cast(k, load, INGOT_I32, false), INGOT_I64, false);
    check_range(k, wide, 0, 255);
    check_range(k, ig_x_sub(k, ig_x_index(k, 7), wide), -248, 7);
    load = ig_x_load(k, ig_loops_local(k, INGOT_I8, 9, "signed"), at);
    check_range(k, ig_x_cast(k, load, INGOT_I64, false), -128, 127);
    load = ig_x_load(k, ig_loops_local(k, INGOT_I32, 9, "words"), at);
    ig_x cut = ig_x_cast(k, load, INGOT_I8, false);
    check_range(k, ig_x_cast(k, cut, INGOT_I64, false), -128, 127);
    ig_dim lo, hi;
    ig_x_bounds(k, ig_x_cast(k, load, INGOT_I64, false), &lo, &hi);
    assert_true(lo == IG_DIM_NONE && hi == IG_DIM_NONE);
}

static void run(void (*check)(struct ig_job *job, void *argument)) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void test_sums(void **state) {
    (void)state;
    run(check_sums);
}

static void test_parts(void **state) {
    (void)state;
    run(check_parts);
}

static void test_bytes(void **state) {
    (void)state;
    run(check_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
