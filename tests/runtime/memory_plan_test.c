/* The memory planner: buffers never overlap, the size is never below the lower bound, and close to it for the lifetimes
 * of typical networks. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/frame/memory_plan.h"

#define CAPACITY 1200

struct problem {
    struct ig_lifetime lives[CAPACITY];
    size_t offsets[CAPACITY], total, bound;
    uint32_t count;
};

static uint32_t seed;

static uint32_t next_random(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 4) * below) >> 28);
}

static void add(struct problem *p, size_t size, uint32_t first, uint32_t last) {
    p->lives[p->count++] = (struct ig_lifetime){size, size, first, last};
}

static void plan(struct problem *p) {
    struct ingot_error error;
    assert_int_equal(ig_memory_plan(p->lives, p->count, &ig_libc_allocator, p->offsets, &p->total, &p->bound, &error),
                     INGOT_OK);
}

static void check(const struct problem *p) {
    assert_true(p->total >= p->bound);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct ig_lifetime *a = &p->lives[i];
        assert_int_equal(p->offsets[i] % IG_ARENA_ALIGNMENT, 0);
        assert_true(p->offsets[i] + a->size <= p->total);
        for (uint32_t j = 0; j < i; j++) {
            const struct ig_lifetime *b = &p->lives[j];
            if (a->last < b->first || b->last < a->first) continue;
            assert_true(p->offsets[i] + a->size <= p->offsets[j] || p->offsets[j] + b->size <= p->offsets[i]);
        }
    }
}

static void check_close(const struct problem *p) {
    check(p);
    if (p->total * 100 > p->bound * 115) fail_msg("%zu bytes, the bound is %zu", p->total, p->bound);
}

static void plans_nothing(void **state) {
    struct problem p = {.count = 0};
    plan(&p);
    assert_int_equal(p.total, 0);
    assert_int_equal(p.bound, 0);
}

static void plans_empty_buffers(void **state) {
    struct problem p = {.count = 0};
    add(&p, 0, 0, 3);
    add(&p, 100, 1, 2);
    add(&p, 0, 2, 2);
    plan(&p);
    check(&p);
    assert_int_equal(p.total, 128);
    assert_int_equal(p.bound, 100);
}

static void plans_a_chain_in_place_of_two(void **state) {
    struct problem p = {.count = 0};
    for (uint32_t i = 0; i < 100; i++)
        add(&p, 6400, i, i + 1);
    plan(&p);
    check(&p);
    assert_int_equal(p.total, p.bound);
}

/* Residual blocks whose maps halve in area and double in channels, with an expansion inside. */
static void plans_residual_networks(void **state) {
    struct problem p = {.count = 0};
    size_t size = (size_t)112 * 112 * 64 * 4;
    uint32_t step = 0;
    for (int stage = 0; stage < 4; stage++, size /= 2) {
        for (int block = 0; block < 4; block++, step += 3) {
            add(&p, size, step, step + 3);
            add(&p, size / 4, step + 1, step + 2);
            add(&p, size / 4, step + 2, step + 3);
        }
    }
    plan(&p);
    check_close(&p);
}

/* Every layer's output lives until the end of its block. */
static void plans_dense_networks(void **state) {
    struct problem p = {.count = 0};
    uint32_t step = 0, layers[] = {6, 12, 24, 16};
    size_t growth = (size_t)56 * 56 * 32 * 4;
    for (int block = 0; block < 4; block++, growth /= 4) {
        uint32_t end = step + 2 * layers[block];
        for (uint32_t i = 0; i < layers[block]; i++, step += 2) {
            add(&p, growth * 4, step, step + 1);
            add(&p, growth, step + 1, end);
        }
    }
    plan(&p);
    check_close(&p);
}

static void plans_transformers(void **state) {
    struct problem p = {.count = 0};
    size_t rows = 128 * 768 * 4;
    for (uint32_t layer = 0, s = 0; layer < 12; layer++, s += 10) {
        add(&p, rows, s, s + 6); /* residual */
        for (int i = 0; i < 3; i++)
            add(&p, rows, s + 1, s + 3);
        add(&p, 12 * 128 * 128 * 4, s + 2, s + 3);
        add(&p, rows, s + 3, s + 4);
        add(&p, rows, s + 4, s + 10);
        add(&p, 4 * rows, s + 6, s + 8);
        add(&p, rows, s + 8, s + 10);
    }
    plan(&p);
    check_close(&p);
}

static void plans_random_lifetimes(void **state) {
    for (seed = 1; seed < 2000000000u; seed += 40000003u) {
        static struct problem p;
        p.count = 0;
        uint32_t n = 1 + next_random(120), steps = 1 + next_random(100);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = next_random(steps), last = first + next_random(next_random(4) ? 4 : steps - first);
            add(&p, next_random(next_random(3) ? 100 : 100000), first, last < steps ? last : steps - 1);
        }
        plan(&p);
        check(&p);
    }
}

static void plans_a_thousand_buffers(void **state) {
    static struct problem p, again;
    seed = 12345;
    p.count = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t last = i + 1 + (next_random(8) ? next_random(3) : next_random(60));
        add(&p, (size_t)64 * (1 + next_random(5000)), i, last < 999 ? last : 999);
    }
    plan(&p);
    check_close(&p);
    again = p;
    plan(&again);
    assert_memory_equal(again.offsets, p.offsets, p.count * sizeof *p.offsets);
}

static void refuses_what_no_memory_holds(void **state) {
    struct problem p = {.count = 0};
    struct ingot_error error;
    add(&p, SIZE_MAX - 10, 0, 1);
    assert_int_equal(ig_memory_plan(p.lives, 1, &ig_libc_allocator, p.offsets, &p.total, &p.bound, &error),
                     INGOT_OUT_OF_MEMORY);
    p.count = 0;
    for (int i = 0; i < 4; i++)
        add(&p, SIZE_MAX / 4, 0, 1);
    assert_int_equal(ig_memory_plan(p.lives, 4, &ig_libc_allocator, p.offsets, &p.total, &p.bound, &error),
                     INGOT_OUT_OF_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_nothing),
        cmocka_unit_test(plans_empty_buffers),
        cmocka_unit_test(plans_a_chain_in_place_of_two),
        cmocka_unit_test(plans_residual_networks),
        cmocka_unit_test(plans_dense_networks),
        cmocka_unit_test(plans_transformers),
        cmocka_unit_test(plans_random_lifetimes),
        cmocka_unit_test(plans_a_thousand_buffers),
        cmocka_unit_test(refuses_what_no_memory_holds),
    };
    return cmocka_run_group_tests_name("memory_plan", tests, NULL, NULL);
}
