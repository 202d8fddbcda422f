/*
 * Collectives as kernels of two to four emulated GPUs: of every kind and of many types, by kernels that are made for any sizes.
 * Calls come one behind another on one group, short messages and long ones in turns, and every result is compared with a plain
 * computation: sums in the order of the ranks, in f32 or the type itself, rounded once, and the same bits on all ranks.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/device/exchange.h"
#include "support/dist/plain.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* ---- Kernels and calls ------------------------------------------------------------------------------------------- */

#define REDUCE(kind_, dtype_, reduction_, ranks_) .what = {kind_, dtype_, IG_REDUCE_##reduction_, 0}, .ranks = ranks_
#define MOVE(kind_, dtype_, ranks_) .what = {kind_, dtype_, 0, 0}, .ranks = ranks_
#define FROM(root_, dtype_, ranks_) .what = {IG_BROADCAST, dtype_, 0, root_}, .ranks = ranks_

/* Those with multiples move their elements 8 or 16 bytes at a time. */
static struct exchange_kernel kernels[] = {
    {REDUCE(IG_ALL_REDUCE, INGOT_F16, SUM, 2)},
    {REDUCE(IG_ALL_REDUCE, INGOT_F32, MIN, 2)},
    {MOVE(IG_ALL_GATHER, INGOT_BF16, 2), .multiple = 8},
    {REDUCE(IG_REDUCE_SCATTER, INGOT_I64, SUM, 2)},
    {MOVE(IG_ALL_TO_ALL, INGOT_I32, 2)},
    {FROM(1, INGOT_BOOL, 2)},
    {REDUCE(IG_ALL_REDUCE, INGOT_BF16, SUM, 3)},
    {REDUCE(IG_ALL_REDUCE, INGOT_F32, SUM, 3), .sm = 80},
    {REDUCE(IG_ALL_REDUCE, INGOT_F64, SUM, 3)},
    {REDUCE(IG_ALL_REDUCE, INGOT_I32, MAX, 3)},
    {REDUCE(IG_ALL_REDUCE, INGOT_F16, MAX, 3)},
    {REDUCE(IG_ALL_REDUCE, INGOT_I64, MIN, 3)},
    {MOVE(IG_ALL_GATHER, INGOT_U8, 3)},
    {REDUCE(IG_REDUCE_SCATTER, INGOT_F32, SUM, 3), .multiple = 2},
    {REDUCE(IG_REDUCE_SCATTER, INGOT_F16, SUM, 3)},
    {MOVE(IG_ALL_TO_ALL, INGOT_F16, 3), .multiple = 4},
    {FROM(2, INGOT_F64, 3)},
    {REDUCE(IG_ALL_REDUCE, INGOT_U32, SUM, 4)},
    {REDUCE(IG_ALL_REDUCE, INGOT_BF16, MIN, 4)},
    {MOVE(IG_ALL_GATHER, INGOT_F32, 4), .multiple = 4},
    {REDUCE(IG_REDUCE_SCATTER, INGOT_BF16, MAX, 4), .multiple = 8},
    {MOVE(IG_ALL_TO_ALL, INGOT_U8, 4)},
    {FROM(0, INGOT_I32, 4)},
};

struct shape {
    size_t outer, inner, parts[EXCHANGE_RANKS];
    int64_t blocks; /* 0: as many as the kernel asks for */
};
static const struct shape small[] = {
    {.outer = 1, .inner = 1, .parts = {1, 1, 1, 1}},
    {.outer = 3, .inner = 5, .parts = {2, 0, 7, 1}},
    {.outer = 1, .inner = 977, .parts = {1, 3, 1, 2}},
    {.outer = 2, .inner = 1, .parts = {0, 600, 1, 300}},
    {.outer = 7, .inner = 16, .parts = {0, 0, 0, 3}},
    {.outer = 1, .inner = 257, .parts = {0, 0, 0, 0}},
    {.outer = 2, .inner = 3000, .parts = {1, 0, 2, 1}, .blocks = 1}, /* of several epochs */
    {.outer = 1, .inner = 2048, .parts = {1, 1, 1, 1}},
};

struct planned {
    struct exchange_call call;
    void *sources[EXCHANGE_RANKS], *results[EXCHANGE_RANKS];
    size_t sizes[EXCHANGE_RANKS]; /* of results */
};
struct plan {
    struct planned all[512];
    int count;
};

static void add_call(struct plan *plan, const struct exchange_kernel *k, const struct shape *shape) {
    struct planned *p = &plan->all[plan->count++];
    const enum ingot_dtype dtype = (enum ingot_dtype)k->what.dtype;
    p->call = (struct exchange_call){.kernel = k, .number = (uint32_t)plan->count, .blocks = shape->blocks};
    p->call.sizes = (struct ig_collective_sizes){.outer = shape->outer, .inner = shape->inner};
    if (k->multiple > 1) p->call.sizes.inner = (shape->inner + 7) / (size_t)k->multiple * (size_t)k->multiple;
    for (uint32_t r = 0; r < k->ranks && ig_collective_divides(k->what.kind); r++)
        p->call.sizes.parts[r] = shape->parts[r];
    for (uint32_t r = 0; r < k->ranks; r++) {
        size_t source;
        assert_true(ig_collective_bytes(&k->what, &p->call.sizes, r, k->ranks, &source, &p->sizes[r]));
        p->sources[r] = malloc(source + 1);
        p->results[r] = malloc(p->sizes[r] + 1);
        assert_true(p->sources[r] && p->results[r]);
        plain_fill(dtype, p->sources[r], source / ingot_dtype_size(dtype), (uint32_t)plan->count * 4 + r);
        memset(p->results[r], 0xee, p->sizes[r]);
    }
}

static void check_call(struct planned *p, int index) {
    const struct ig_collective *what = &p->call.kernel->what;
    const size_t size = ingot_dtype_size((enum ingot_dtype)what->dtype);
    for (uint32_t r = 0; r < p->call.kernel->ranks; r++) {
        char *expected = malloc(p->sizes[r] + 1);
        assert_non_null(expected);
        plain_collective(what, &p->call.sizes, p->call.kernel->ranks, r, p->sources, expected);
        for (size_t i = 0; i < p->sizes[r]; i += size)
            if (!plain_is_same(what, expected + i, (char *)p->results[r] + i))
                fail_msg("call %d, %s of %s, %zu x %zu, rank %u: element %zu is wrong", index,
                         ig_collective_name(what->kind), ingot_dtype_name((enum ingot_dtype)what->dtype),
                         p->call.sizes.outer, p->call.sizes.inner, r, i / size);
        free(expected);
        if (what->kind != IG_REDUCE_SCATTER && what->kind != IG_ALL_TO_ALL)
            assert_memory_equal(p->results[r], p->results[0], p->sizes[r]);
    }
    for (uint32_t r = 0; r < p->call.kernel->ranks; r++) {
        free(p->sources[r]);
        free(p->results[r]);
    }
}

static const char *run_plan(struct exchange_rank *rank, void *user) {
    struct plan *plan = user;
    const char *wrong = NULL;
    for (int i = 0; i < plan->count && !wrong; i++) {
        struct planned *p = &plan->all[i];
        wrong = exchange_launch(rank, &p->call, p->sources[rank->rank], p->results[rank->rank]);
    }
    if (!wrong && ig_group_look(rank->seat, &rank->error)) wrong = rank->error.message;
    return wrong;
}

static void run(struct plan *plan, uint32_t ranks, bool backwards) {
    struct exchange_group group;
    exchange_set_order(backwards);
    exchange_open(&group, ranks);
    exchange_together(&group, run_plan, plan);
    for (int i = 0; i < plan->count; i++)
        check_call(&plan->all[i], i);
    exchange_close(&group);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void small_messages(void **state) {
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        for (int backwards = 0; backwards < 2; backwards++) {
            struct plan plan = {.count = 0};
            for (int s = 0; s < COUNT(small); s++)
                for (int k = 0; k < COUNT(kernels); k++)
                    if (kernels[k].ranks == ranks) add_call(&plan, &kernels[k], &small[s]);
            run(&plan, ranks, backwards);
        }
    }
}

/* Of one kernel after another: a long message, in several epochs of few blocks, and a short one. The maximum and the minimum
 * take the way of sums. */
static void long_messages_between_short_ones(void **state) {
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        struct plan plan = {.count = 0};
        for (int k = 0; k < COUNT(kernels); k++) {
            const size_t size = ingot_dtype_size((enum ingot_dtype)kernels[k].what.dtype);
            const struct shape large = {
                .outer = 1, .inner = IG_WINDOW_SHORT / size + 9, .parts = {1, 0, 1, 1}, .blocks = 6 + k % 3};
            if (kernels[k].ranks != ranks || kernels[k].what.reduction != IG_REDUCE_SUM) continue;
            add_call(&plan, &kernels[k], &large);
            add_call(&plan, &kernels[k], &small[k % COUNT(small)]);
        }
        run(&plan, ranks, ranks == 3);
    }
}

/* With all blocks: the longest short message, the shortest long one, and one of two epochs. */
static void messages_around_limits(void **state) {
    static const size_t bytes[] = {IG_WINDOW_SHORT, IG_WINDOW_SHORT + 4, IG_WINDOW_LONG_LINES * 16 + 4};
    for (int backwards = 0; backwards < 2; backwards++) {
        struct plan plan = {.count = 0};
        for (int k = 0; k < COUNT(kernels); k++) {
            const struct ig_collective *what = &kernels[k].what;
            if (what->kind != IG_ALL_REDUCE || what->dtype != INGOT_F32) continue;
            for (int b = 0; kernels[k].ranks == 3 && b < (backwards ? 1 : COUNT(bytes)); b++)
                add_call(&plan, &kernels[k], &(struct shape){.outer = 1, .inner = bytes[b] / 4, .parts = {1, 1, 1, 1}});
        }
        run(&plan, 3, backwards);
    }
}

/* Ranks that share GPUs: the launches of split calls, one behind another. Short messages and long ones, of one turn
 * and of several. */
static void split_calls(void **state) {
    for (uint32_t ranks = 2; ranks <= EXCHANGE_RANKS; ranks++) {
        struct exchange_group group;
        struct plan plan = {.count = 0};
        for (int k = 0; k < COUNT(kernels); k++) {
            const size_t size = ingot_dtype_size((enum ingot_dtype)kernels[k].what.dtype);
            const struct shape large = {
                .outer = 1, .inner = IG_WINDOW_SHORT / size + 9, .parts = {1, 0, 1, 1}, .blocks = 3 + k % 3};
            if (kernels[k].ranks != ranks) continue;
            for (int s = 0; s < COUNT(small); s++)
                add_call(&plan, &kernels[k], &small[s]);
            if (k % 3 == 0) add_call(&plan, &kernels[k], &large);
            add_call(&plan, &kernels[k], &small[k % COUNT(small)]);
        }
        exchange_set_order(ranks == 3);
        exchange_open_shared(&group, ranks, ranks == 4 ? 2 : 1);
        for (int i = 0; i < plan.count; i++) {
            exchange_launch_split(&group, &plan.all[i].call, plan.all[i].sources, plan.all[i].results);
            check_call(&plan.all[i], i);
        }
        exchange_close(&group);
    }
}

/* On threads, as the runtime makes them: all meet between two launches. A kernel that came too early would not wait for the rank that
 * takes its time, but give up. */
static const char *take_time(struct exchange_rank *rank, void *user) {
    if (rank->rank == 1) nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    return run_plan(rank, user);
}

static void split_calls_meet(void **state) {
    struct exchange_group group;
    struct plan plan = {.count = 0};
    for (int k = 0; k < COUNT(kernels); k++)
        if (kernels[k].ranks == 3) add_call(&plan, &kernels[k], &small[(k + 1) % COUNT(small)]);
    exchange_set_order(false);
    exchange_open_shared(&group, 3, 2);
    exchange_together(&group, take_time, &plan);
    for (int i = 0; i < plan.count; i++)
        check_call(&plan.all[i], i);
    exchange_close(&group);
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages),         cmocka_unit_test(long_messages_between_short_ones),
        cmocka_unit_test(messages_around_limits), cmocka_unit_test(split_calls),
        cmocka_unit_test(split_calls_meet),
    };
    return cmocka_run_group_tests_name("collectives through windows", tests, NULL, NULL);
}

int main(void) {
    return exchange_main(kernels, COUNT(kernels), run_all);
}
