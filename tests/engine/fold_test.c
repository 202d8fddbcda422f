/*
 * Folding of plans: what is unfolded is what was folded, whatever it is; repeated layers take no more room than two; and
 * runs that do not fit, as a hostile file may have them, are refused. The tables need not make sense.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/fold.h"
#include "support/support.h"

static uint64_t state = 1;

static uint32_t pick(uint32_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % count);
}

/* The plan's tables, as words. */
enum { STEP = sizeof(struct ig_plan_step) / 4, BUFFER = sizeof(struct ig_plan_buffer) / 4, MOST = 6000 };
struct sample {
    uint32_t steps[MOST * STEP], buffers[MOST * BUFFER], operands[MOST], dims[MOST];
    struct ig_plan plan;
};

/* Appends `count` iterations of `period` records with random contents and strides; words of `loose` (a mask) do not keep
 * the stride. */
static void add_run(uint32_t *words, uint32_t *inout_count, uint32_t width, uint32_t period, uint32_t count,
                    uint32_t loose) {
    uint32_t *at = words + (size_t)*inout_count * width, stride = period * width;
    for (uint32_t w = 0; w < stride; w++) {
        uint32_t step = pick(3) ? 0 : pick(50) - 20;
        at[w] = pick(1000);
        for (uint32_t i = 1; i < count; i++)
            at[i * stride + w] = loose >> (w % width) & 1 ? pick(100000) : at[(i - 1) * stride + w] + step;
    }
    *inout_count += period * count;
}

static void fill_table(uint32_t *words, uint32_t *out_count, uint32_t width, uint32_t loose) {
    *out_count = 0;
    for (uint32_t runs = pick(5); runs > 0; runs--)
        add_run(words, out_count, width, 1 + pick(30), 1 + pick(12), pick(2) ? loose : 0);
}

static void make_sample(struct sample *s) {
    s->plan = (struct ig_plan){0};
    fill_table(s->steps, &s->plan.n_steps, STEP, 1u << offsetof(struct ig_plan_step, label) / 4);
    fill_table(s->buffers, &s->plan.n_buffers, BUFFER, 1u << offsetof(struct ig_plan_buffer, index) / 4);
    fill_table(s->operands, &s->plan.n_operands, 1, 0);
    fill_table(s->dims, &s->plan.n_dims, 1, 0);
    s->plan.steps = (const void *)s->steps;
    s->plan.buffers = (const void *)s->buffers;
    s->plan.operands = s->operands;
    s->plan.dims = s->dims;
}

static void expect_same(const void *a, uint32_t n_a, const void *b, uint32_t n_b, size_t record) {
    assert_int_equal(n_a, n_b);
    if (n_a) assert_memory_equal(a, b, n_a * record);
}

static void expect_same_plan(const struct ig_plan *a, const struct ig_plan *b) {
    expect_same(a->steps, a->n_steps, b->steps, b->n_steps, sizeof *a->steps);
    expect_same(a->buffers, a->n_buffers, b->buffers, b->n_buffers, sizeof *a->buffers);
    expect_same(a->operands, a->n_operands, b->operands, b->n_operands, sizeof *a->operands);
    expect_same(a->dims, a->n_dims, b->dims, b->n_dims, sizeof *a->dims);
}

static void test_round_trips(void **unused) {
    struct sample *s = malloc(sizeof *s);
    uint32_t runs = 0;
    for (int i = 0; i < 2000; i++) {
        struct ig_folded folded;
        struct ig_plan plan;
        void *memory;
        size_t size;
        make_sample(s);
        assert_int_equal(ig_plan_fold(&s->plan, &ig_libc_allocator, &folded, NULL), INGOT_OK);
        assert_int_equal(ig_plan_unfold(&folded, &ig_libc_allocator, &plan, &memory, &size, NULL), INGOT_OK);
        expect_same_plan(&plan, &s->plan);
        runs += folded.n_runs;
        ig_release(&ig_libc_allocator, memory, size);
        ig_folded_release(&folded, &ig_libc_allocator);
    }
    assert_true(runs > 2000);
    free(s);
}

/* A network of many layers takes the room of two. */
static void test_layers(void **unused) {
    struct sample *s = malloc(sizeof *s);
    struct ig_folded folded;
    s->plan = (struct ig_plan){.steps = (const void *)s->steps, .operands = s->operands};
    add_run(s->steps, &s->plan.n_steps, STEP, 3, 1, 0);
    add_run(s->steps, &s->plan.n_steps, STEP, 9, 48, 1u << offsetof(struct ig_plan_step, label) / 4);
    add_run(s->steps, &s->plan.n_steps, STEP, 2, 1, 0);
    add_run(s->operands, &s->plan.n_operands, 1, 50, 48, 0);
    assert_int_equal(ig_plan_fold(&s->plan, &ig_libc_allocator, &folded, NULL), INGOT_OK);
    assert_int_equal(folded.n_runs, 2);
    assert_int_equal(folded.plan.n_steps, 3 + 2 * 9 + 2);
    assert_int_equal(folded.plan.n_operands, 2 * 50);
    assert_int_equal(folded.runs[0].columns, 9);
    assert_int_equal(folded.n_listed, 9 * (48 - 1));
    ig_folded_release(&folded, &ig_libc_allocator);
    free(s);
}

/* A table of ten steps, runs of which are to be refused. */
static void refuse(const struct ig_plan_run *runs, uint32_t n_runs, uint32_t n_listed, const char *message) {
    static const struct ig_plan_step steps[10];
    static const uint32_t listed[64];
    struct ig_folded folded = {.plan = {.steps = steps, .n_steps = 10},
                               .runs = runs,
                               .n_runs = n_runs,
                               .listed = listed,
                               .n_listed = n_listed};
    struct ig_plan plan;
    struct ingot_error error;
    void *memory;
    size_t size;
    assert_int_equal(ig_plan_unfold(&folded, &ig_libc_allocator, &plan, &memory, &size, &error), INGOT_BAD_ENGINE);
    assert_string_equal(error.message, message);
}

static void test_hostile_runs(void **unused) {
    enum { S = IG_PART_STEPS, B = IG_PART_BUFFERS };
    refuse(&(struct ig_plan_run){S, 0, 0, 3, 0}, 1, 0, "the engine's repetition 0 repeats nothing");
    refuse(&(struct ig_plan_run){S, 0, 1, 2, 0}, 1, 0, "the engine's repetition 0 repeats nothing");
    refuse(&(struct ig_plan_run){S, 5, 3, 3, 0}, 1, 0, "the engine's repetition 0 is not where it must be");
    refuse(&(struct ig_plan_run){S, UINT32_MAX, 1, 3, 0}, 1, 0, "the engine's repetition 0 is not where it must be");
    refuse(&(struct ig_plan_run){S, 0, UINT32_MAX, 3, 0}, 1, 0, "the engine's repetition 0 is not where it must be");
    refuse(&(struct ig_plan_run){S, 0, 5, UINT32_MAX, 0}, 1, 0, "the engine's repetition 0 is too long");
    refuse(&(struct ig_plan_run){IG_PART_KERNELS, 0, 1, 3, 0}, 1, 0,
           "the engine's repetition 0 is not where it must be");
    refuse(&(struct ig_plan_run){S, 0, 1, 3, 1}, 1, 0, "the engine's repetition 0 lists what it does not have");
    refuse(&(struct ig_plan_run){S, 0, 1, 4, 1}, 1, 2, "the engine's repetition 0 lists what it does not have");
    refuse(&(struct ig_plan_run){S, 0, 1, 3, UINT32_MAX}, 1, 64,
           "the engine's repetition 0 lists what it does not have");
    refuse(&(struct ig_plan_run){S, 0, 1, 3, 0}, 1, 1, "the engine lists words that no repetition has");
    refuse((const struct ig_plan_run[]){{S, 0, 1, 5, 0}, {S, 4, 1, 3, 0}}, 2, 0,
           "the engine's repetition 1 is not where it must be");
    refuse((const struct ig_plan_run[]){{S, 0, 1, 3, 0}, {B, 0, 1, 3, 0}}, 2, 0,
           "the engine's repetition 1 is not where it must be");
}

/* Random runs: whatever is accepted stays within its tables, for sanitizers to see. */
static void test_random_runs(void **unused) {
    static const struct ig_plan_step steps[40];
    static const uint32_t operands[40];
    for (int i = 0; i < 20000; i++) {
        struct ig_plan_run runs[3];
        uint32_t listed[40], n = 1 + pick(3);
        for (uint32_t k = 0; k < n; k++)
            runs[k] = (struct ig_plan_run){pick(2) ? IG_PART_STEPS : IG_PART_OPERANDS, pick(40), 1 + pick(6),
                                           3 + pick(40), pick(3)};
        for (int k = 0; k < 40; k++)
            listed[k] = pick(120);
        struct ig_folded folded = {
            .plan = {.steps = steps, .n_steps = pick(40), .operands = operands, .n_operands = pick(40)},
            .runs = runs,
            .n_runs = n,
            .listed = listed,
            .n_listed = pick(40)};
        struct ig_plan plan;
        void *memory;
        size_t size;
        if (ig_plan_unfold(&folded, &ig_libc_allocator, &plan, &memory, &size, NULL) == INGOT_OK)
            ig_release(&ig_libc_allocator, memory, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trips), cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_hostile_runs), cmocka_unit_test(test_random_runs)};
    return cmocka_run_group_tests_name("folding", tests, NULL, NULL);
}
