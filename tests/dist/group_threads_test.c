/* Groups of threads: every collective, type and reduction against plain loops; calls that do not go together; ranks that
 * are late, have left or have failed. Run under ThreadSanitizer. */
#include "dist/dist.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "dist/phases.h"
#include "dist/reduce.h"
#include "support/dist/ranks.h"
#include "support/support.h"

#define HALF IG_PHASE_BYTES

static enum ingot_status call(struct ig_group *seat, struct ig_collective what, const struct ig_collective_sizes *sizes,
                              const void *source, void *destination, struct ingot_error *error) {
    const struct ig_collective_call c = {what, sizes, source, destination, ig_collective_name(what.kind), NULL};
    return ig_group_call(seat, &c, error);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static const char *test_seat(struct ig_group *seat, void *user) {
    struct ingot_error error;
    return ig_group_test(seat, &error) ? failed(&error) : NULL;
}

static void self_test(void **state) {
    for (uint32_t ranks = 1; ranks <= 5; ranks++)
        run_ranks(ranks, 60, test_seat, NULL);
    run_ranks(12, 60, test_seat, NULL);
}

/* Bytes of any pattern: for floats, NaN and infinities are among them. */
static void fill(unsigned char *bytes, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* What each rank brings to, and gets from, one all-reduce. */
struct reduction {
    struct ig_collective what;
    size_t count, bytes;
    unsigned char *from[IG_MOST_RANKS], *to[IG_MOST_RANKS];
};

static const char *reduce_twice(struct ig_group *seat, void *user) {
    struct reduction *r = user;
    const uint32_t rank = ig_group_rank(seat);
    const struct ig_collective_sizes sizes = {.outer = 1, .inner = r->count};
    struct ingot_error error;
    if (call(seat, r->what, &sizes, r->from[rank], r->to[rank], &error)) return failed(&error);
    /* Once more, in place. */
    unsigned char *again = malloc(r->bytes + 1);
    memcpy(again, r->from[rank], r->bytes);
    enum ingot_status status = call(seat, r->what, &sizes, again, again, &error);
    bool same = memcmp(again, r->to[rank], r->bytes) == 0;
    free(again);
    return status ? failed(&error) : same ? NULL : "the second time it was something else";
}

static double element(enum ingot_dtype dtype, const unsigned char *bytes, size_t i) {
    switch (dtype) {
    case INGOT_F32: return (double)((const float *)(const void *)bytes)[i];
    case INGOT_F16: return (double)ig_f16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    case INGOT_BF16: return (double)ig_bf16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    case INGOT_F64: return ((const double *)(const void *)bytes)[i];
    default: return 0;
    }
}

/* Integers as if without a sign, of which additions have the same bits. */
static uint64_t integer(size_t size, const unsigned char *bytes, size_t i) {
    uint64_t value = 0;
    memcpy(&value, bytes + i * size, size);
    return value;
}

static int64_t with_sign(enum ingot_dtype dtype, uint64_t value) {
    switch (dtype) {
    case INGOT_I8: return (int8_t)value;
    case INGOT_I16: return (int16_t)value;
    case INGOT_I32: return (int32_t)value;
    default: return (int64_t)value;
    }
}

static bool is_less(enum ingot_dtype dtype, uint64_t a, uint64_t b) {
    bool is_signed = dtype >= INGOT_I8 && dtype <= INGOT_I64;
    return is_signed ? with_sign(dtype, a) < with_sign(dtype, b) : a < b;
}

static uint64_t expected_integer(const struct reduction *r, uint32_t ranks, size_t i) {
    const enum ingot_dtype dtype = (enum ingot_dtype)r->what.dtype;
    const size_t size = ingot_dtype_size(dtype);
    uint64_t all = integer(size, r->from[0], i);
    for (uint32_t k = 1; k < ranks; k++) {
        uint64_t next = integer(size, r->from[k], i);
        if (dtype == INGOT_BOOL)
            all = r->what.reduction == IG_REDUCE_MIN ? all & next : all | next;
        else if (r->what.reduction == IG_REDUCE_SUM)
            all += next;
        else if (is_less(dtype, all, next) == (r->what.reduction == IG_REDUCE_MAX))
            all = next;
    }
    uint64_t cut = 0;
    memcpy(&cut, &all, size);
    return cut;
}

static double expected_float(const struct reduction *r, uint32_t ranks, size_t i) {
    const enum ingot_dtype dtype = (enum ingot_dtype)r->what.dtype;
    double all = element(dtype, r->from[0], i);
    for (uint32_t k = 1; k < ranks; k++) {
        double next = element(dtype, r->from[k], i);
        if (r->what.reduction == IG_REDUCE_SUM)
            all = dtype == INGOT_F64 ? all + next : (double)((float)all + (float)next);
        else if (isnan(all) || isnan(next))
            all = NAN;
        else
            all = r->what.reduction == IG_REDUCE_MAX ? fmax(all, next) : fmin(all, next);
    }
    if (dtype == INGOT_F16) return (double)ig_f16_to_f32(ig_f32_to_f16((float)all));
    if (dtype == INGOT_BF16) return (double)ig_bf16_to_f32(ig_f32_to_bf16((float)all));
    return all;
}

static void check_reduction(const struct reduction *r, uint32_t ranks) {
    const enum ingot_dtype dtype = (enum ingot_dtype)r->what.dtype;
    for (uint32_t k = 1; k < ranks; k++)
        assert_memory_equal(r->to[0], r->to[k], r->bytes);
    for (size_t i = 0; i < r->count; i++) {
        bool same;
        if (dtype <= INGOT_F64) {
            double found = element(dtype, r->to[0], i), wanted = expected_float(r, ranks, i);
            same = found == wanted || (isnan(found) && isnan(wanted));
        } else {
            same = integer(ingot_dtype_size(dtype), r->to[0], i) == expected_integer(r, ranks, i);
        }
        if (!same)
            fail_msg("%s of %s over %u ranks: element %zu of %zu differs", ig_reduction_name(r->what.reduction),
                     ingot_dtype_name(dtype), ranks, i, r->count);
    }
}

static void reduce_all(uint32_t ranks, enum ingot_dtype dtype, uint32_t reduction, size_t count) {
    struct reduction r = {{IG_ALL_REDUCE, dtype, reduction, 0}, count, count * ingot_dtype_size(dtype), {0}, {0}};
    for (uint32_t k = 0; k < ranks; k++) {
        r.from[k] = malloc(r.bytes + 1);
        r.to[k] = calloc(r.bytes + 1, 1);
        fill(r.from[k], r.bytes, 1000 * dtype + 10 * k + reduction);
        for (size_t i = 0; dtype == INGOT_BOOL && i < count; i++)
            r.from[k][i] &= 1;
    }
    run_ranks(ranks, 60, reduce_twice, &r);
    check_reduction(&r, ranks);
    for (uint32_t k = 0; k < ranks; k++) {
        free(r.from[k]);
        free(r.to[k]);
    }
}

static void reductions(void **state) {
    for (uint32_t dtype = INGOT_F32; dtype <= INGOT_BOOL; dtype++) {
        const size_t size = ingot_dtype_size((enum ingot_dtype)dtype);
        for (uint32_t reduction = 0; reduction < IG_REDUCTION_COUNT; reduction++) {
            reduce_all(3, (enum ingot_dtype)dtype, reduction, 1031);
            reduce_all(2, (enum ingot_dtype)dtype, reduction, 17);
        }
        reduce_all(3, (enum ingot_dtype)dtype, IG_REDUCE_SUM, 2 * HALF / size + 5); /* pieces, several steps */
    }
    reduce_all(2, INGOT_F32, IG_REDUCE_SUM, 0);
    reduce_all(4, INGOT_F16, IG_REDUCE_SUM, 1);
    reduce_all(4, INGOT_F32, IG_REDUCE_SUM, HALF / 4);
    reduce_all(1, INGOT_F32, IG_REDUCE_SUM, HALF);
}

/* Sums of f16 in f32: 2048 + 1 + 1 is 2050, and not 2048, as if each addition were rounded. */
static void halves_are_added_in_floats(void **state) {
    const uint16_t values[3] = {ig_f32_to_f16(2048), ig_f32_to_f16(1), ig_f32_to_f16(1)};
    const void *from[3] = {&values[0], &values[1], &values[2]};
    uint16_t sum;
    ig_reduce(INGOT_F16, IG_REDUCE_SUM, from, 3, &sum, 1);
    assert_int_equal(sum, ig_f32_to_f16(2050));
}

/* ---- A long sequence of random calls ----------------------------------------------------------------------------- */

enum { CALLS = 400, MOST_WORDS = 90000 };

static unsigned next_random(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* All ranks draw the same calls. An all-gather after each sees whether the ranks agree. */
static const char *random_calls(struct ig_group *seat, void *user) {
    const uint32_t rank = ig_group_rank(seat), ranks = ig_group_ranks(seat);
    unsigned seed = *(const unsigned *)user;
    uint32_t *from = calloc(MOST_WORDS, sizeof *from), *to = calloc(MOST_WORDS, sizeof *to);
    struct ingot_error error;
    enum ingot_status status = INGOT_OK;
    for (int i = 0; status == INGOT_OK && i < CALLS; i++) {
        struct ig_collective what = {next_random(&seed, IG_BROADCAST + 1), INGOT_U32, 0, 0};
        struct ig_collective_sizes sizes = {.outer = next_random(&seed, 3) + 1};
        sizes.inner = next_random(&seed, next_random(&seed, 8) ? 50 : MOST_WORDS / 3 / ranks / 3);
        for (uint32_t r = 0; r < ranks; r++)
            sizes.parts[r] = next_random(&seed, 3);
        if (what.kind == IG_BROADCAST) what.peer = next_random(&seed, ranks);
        if (!ig_collective_divides(what.kind)) memset(sizes.parts, 0, sizeof sizes.parts);
        fill((unsigned char *)from, 400, seed + rank);
        status = call(seat, what, &sizes, from, to, &error);
        if (status == INGOT_OK && (what.kind == IG_ALL_REDUCE || what.kind == IG_BROADCAST))
            status = ig_group_agree(seat, to, sizes.outer * sizes.inner * sizeof *to, "result", &error);
    }
    free(from);
    free(to);
    return status ? failed(&error) : NULL;
}

static void many_calls(void **state) {
    for (unsigned seed = 1; seed <= 3; seed++)
        run_ranks(seed + 1, 60, random_calls, &seed);
}

/* ---- Calls that do not go together ------------------------------------------------------------------------------- */

static const char *wanted(enum ingot_status status, enum ingot_status wanted_status, const struct ingot_error *error,
                          const char *text) {
    static _Thread_local char wrong[INGOT_ERROR_MESSAGE_SIZE];
    if (status == INGOT_OK) return "no error";
    if (status == wanted_status && strstr(error->message, text)) return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s' (%s), found '%.500s' (%s)", text, ingot_status_name(wanted_status),
             error->message, ingot_status_name(status));
    return wrong;
}

/* Rank 1 makes another call than the others. */
static const char *differ(struct ig_group *seat, void *user) {
    static const struct ig_collective kinds[2] = {{IG_ALL_REDUCE, INGOT_F32, 0, 0}, {IG_BROADCAST, INGOT_F32, 0, 0}};
    const int *how = user;
    const bool odd = ig_group_rank(seat) == 1;
    struct ig_collective what = kinds[0];
    struct ig_collective_sizes sizes = {.outer = 4, .inner = 4};
    float from[32] = {0}, to[32];
    struct ingot_error error;
    if (odd && *how == 0) what = kinds[1];
    if (odd && *how == 1) sizes.inner = 5;
    if (odd && *how == 2) what.reduction = IG_REDUCE_MAX;
    if (odd && *how == 3) what.dtype = INGOT_F16;
    enum ingot_status status = call(seat, what, &sizes, from, to, &error);
    const char *wrong = wanted(status, INGOT_INCOMPATIBLE, &error, "ranks do different things: rank ");
    if (wrong) return wrong;
    /* And from now on the group has ended. */
    status = ig_group_barrier(seat, "later", &error);
    return wanted(status, INGOT_INCOMPATIBLE, &error, "ranks do different things: rank ");
}

static void different_calls(void **state) {
    for (int how = 0; how < 4; how++) {
        run_ranks(2, 60, differ, &how);
        run_ranks(3, 60, differ, &how);
    }
}

static const char *disagree(struct ig_group *seat, void *user) {
    uint32_t number = ig_group_rank(seat) == 2 ? 7 : 8;
    struct ingot_error error;
    enum ingot_status status = ig_group_agree(seat, &number, sizeof number, "engine", &error);
    return wanted(status, INGOT_INCOMPATIBLE, &error, "rank 2 of 3 has another engine than rank 0");
}

static void disagreement(void **state) {
    run_ranks(3, 60, disagree, NULL);
}

static const char *invalid_calls(struct ig_group *seat, void *user) {
    static const struct {
        struct ig_collective what;
        size_t inner;
        const char *text;
    } cases[] = {
        {{IG_COLLECTIVE_COUNT, INGOT_F32, 0, 0}, 1, "has an unknown kind"},
        {{IG_ALL_REDUCE, INGOT_DTYPE_COUNT, 0, 0}, 1, "has an unknown type of elements"},
        {{IG_ALL_REDUCE, INGOT_F32, IG_REDUCTION_COUNT, 0}, 1, "has an unknown reduction"},
        {{IG_ALL_GATHER, INGOT_F32, 1, 0}, 1, "has an unknown reduction"},
        {{IG_ALL_REDUCE, INGOT_F8E5M2, 0, 0}, 1, "has elements that cannot be reduced"},
        {{IG_BROADCAST, INGOT_F32, 0, 1}, 1, "has a peer that is no rank"},
        {{IG_ALL_REDUCE, INGOT_F32, 0, 1}, 1, "has a peer that is no rank"},
        {{IG_SEND, INGOT_F32, 0, 0}, 1, "has itself as peer"},
        {{IG_ALL_REDUCE, INGOT_F32, 0, 0}, SIZE_MAX / 2, "has sizes that exceed the address space"},
    };
    const int *which = user;
    const struct ig_collective_sizes sizes = {.outer = 1, .inner = cases[*which].inner};
    struct ingot_error error;
    enum ingot_status status = call(seat, cases[*which].what, &sizes, NULL, NULL, &error);
    return wanted(status, INGOT_INVALID_ARGUMENT, &error, cases[*which].text);
}

static void invalid(void **state) {
    for (int which = 0; which < 9; which++)
        run_ranks(1, 60, invalid_calls, &which);
    struct ig_group *seats[1];
    struct ingot_error error;
    assert_int_equal(ig_group_create_local(0, NULL, seats, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ig_group_create_local(IG_MOST_RANKS + 1, NULL, seats, &error), INGOT_INVALID_ARGUMENT);
}

/* ---- Ranks that do not come -------------------------------------------------------------------------------------- */

/* The last rank stays away, and comes when the others have given up. */
static const char *stay_away(struct ig_group *seat, void *user) {
    atomic_int *given_up = user;
    struct ingot_error error;
    if (ig_group_barrier(seat, "before", &error)) return failed(&error);
    bool away = ig_group_rank(seat) == 2;
    while (away && atomic_load(given_up) < 2)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    enum ingot_status status = ig_group_barrier(seat, "block 3", &error);
    atomic_fetch_add(given_up, 1);
    if (away) return wanted(status, INGOT_TIMEOUT, &error, "ended the group: all_gather 'block 3' (call 2)");
    return wanted(status, INGOT_TIMEOUT, &error, "s for rank 2; its last: all_gather 'before' (call 1)");
}

static const char *leave_early(struct ig_group *seat, void *user) {
    struct ingot_error error;
    float f = 1;
    const struct ig_collective_sizes one = {.outer = 1, .inner = 1};
    if (ig_group_rank(seat) == 0) {
        ig_group_fail(seat, INGOT_CANCELLED, "the run was cancelled");
        return NULL;
    }
    enum ingot_status status = call(seat, (struct ig_collective){IG_ALL_REDUCE, INGOT_F32, 0, 0}, &one, &f, &f, &error);
    return wanted(status, INGOT_CANCELLED, &error, "rank 0 ended the group: the run was cancelled");
}

static void late_ranks(void **state) {
    atomic_int given_up = 0;
    run_ranks(3, 0.05, stay_away, &given_up);
    run_ranks(3, 60, leave_early, NULL);
    run_ranks(3, 60, test_seat, NULL); /* a new group works */
}

/* A seat that is destroyed while the other waits. */
static void left(void **state) {
    struct ig_group *seats[2];
    struct ingot_error error;
    assert_int_equal(ig_group_create_local(2, NULL, seats, &error), INGOT_OK);
    ig_group_destroy(seats[1]);
    assert_int_equal(ig_group_barrier(seats[0], "block 5", &error), INGOT_DEVICE);
    assert_string_equal(error.message, "all_gather 'block 5': rank 1 has left the group; its last: no call yet");
    ig_group_destroy(seats[0]);
    ig_group_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_test),  cmocka_unit_test(reductions),      cmocka_unit_test(halves_are_added_in_floats),
        cmocka_unit_test(many_calls), cmocka_unit_test(different_calls), cmocka_unit_test(disagreement),
        cmocka_unit_test(invalid),    cmocka_unit_test(late_ranks),      cmocka_unit_test(left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
