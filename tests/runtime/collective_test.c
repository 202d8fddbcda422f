/*
 * Plans with collectives, on ranks that are threads. The plan of every rank is, for x of n elements,
 *
 *     a = -x    b = all_reduce(a)    c = all_gather(b)    y = -c
 *
 * where c has the ranks' b behind each other, so that y is the sum of the ranks' x, once for each rank.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/dist.h"
#include "engine/check.h"
#include "runtime/runtime.h"
#include "support/dist/ranks.h"
#include "support/plan/runtime_case.h"
#include "support/support.h"

enum { MOST = 1000 };

/* Makes a plan; `swapped` has its collectives the other way round, for a rank that makes its calls in another order. */
static struct fixture *make_plan(uint32_t ranks, bool swapped) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, INT32_MAX);
    tiny_subplan(t);
    ig_slot one = tiny_const(t, 1), zero = tiny_const(t, 0), all = tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, ranks));
    ig_slot whole[2 + IG_MOST_RANKS] = {one, n}, parts[2 + IG_MOST_RANKS] = {one, one};
    for (uint32_t r = 0; r < ranks; r++) {
        whole[2 + r] = zero;
        parts[2 + r] = n;
    }
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &all);
    uint32_t a = tiny_arena(t, bytes_for(t, n)), b = tiny_arena(t, bytes_for(t, n)),
             c = tiny_arena(t, bytes_for(t, all));
    LAUNCH(f, f->negate, n, x, a);
    const uint32_t reduced[2] = {a, b}, gathered[2] = {swapped ? a : b, c};
    if (swapped)
        tiny_collective(t, (struct ig_collective){IG_ALL_GATHER, INGOT_F32, 0, 0}, "gather", gathered, ranks, parts);
    tiny_collective(t, (struct ig_collective){IG_ALL_REDUCE, INGOT_F32, 0, 0}, "reduce", reduced, ranks, whole);
    if (!swapped)
        tiny_collective(t, (struct ig_collective){IG_ALL_GATHER, INGOT_F32, 0, 0}, "gather", gathered, ranks, parts);
    LAUNCH(f, f->negate, all, c, y);
    f->file = tiny_file(t);
    struct ingot_error error;
    if (ig_plan_check(&t->plan, t->code.size, sizeof t->weights, &error)) fail_msg("%s", error.message);
    return f;
}

struct rank {
    struct ig_device *device;
    struct ig_context *context;
    float x[MOST];
    struct ingot_error error;
};

static enum ingot_status open_rank(struct rank *rank, const struct fixture *f, struct ig_group *seat, unsigned threads,
                                   bool profile) {
    *rank = (struct rank){0};
    IG_TRY(ig_device_cpu_create(threads, &ig_libc_allocator, &rank->device, &rank->error));
    const struct ig_context_config config = {.allocator = &ig_libc_allocator,
                                             .device = rank->device,
                                             .group = seat,
                                             .max_bytes = SIZE_MAX,
                                             .profile = profile};
    return ig_context_create(&f->file, &config, &rank->context, &rank->error);
}

static void close_rank(struct rank *rank) {
    ig_context_destroy(rank->context);
    if (rank->device) rank->device->api->destroy(rank->device);
}

static enum ingot_status run_rank(struct rank *rank, int64_t n, uint32_t number) {
    for (int64_t i = 0; i < n; i++)
        rank->x[i] = (float)(i % 91 * (number + 1));
    const struct ingot_tensor x = vector(rank->x, n);
    IG_TRY(ig_context_set_input(rank->context, 0, &x, &rank->error));
    return ig_context_run(rank->context, &rank->error);
}

static bool is_right(struct rank *rank, int64_t n, uint32_t ranks) {
    struct ingot_tensor y;
    const uint32_t times = ranks * (ranks + 1) / 2;
    if (ig_context_output(rank->context, 0, &y, &rank->error) || y.dims[0] != n * ranks) return false;
    for (int64_t i = 0; i < y.dims[0]; i++)
        if (((float *)y.data)[i] != (float)(i % n % 91 * times)) return false;
    return true;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

struct setting {
    const struct fixture *f;
    unsigned threads;
    bool profile;
};

static const char *compute(struct ig_group *seat, void *user) {
    const struct setting *s = user;
    struct rank rank;
    const char *wrong = NULL;
    if (open_rank(&rank, s->f, seat, s->threads, s->profile)) return failed(&rank.error);
    for (int64_t n = 1; !wrong && n <= MOST; n += 333) {
        for (int again = 0; !wrong && again < 3; again++) {
            if (run_rank(&rank, n, ig_group_rank(seat)))
                wrong = failed(&rank.error);
            else if (!is_right(&rank, n, ig_group_ranks(seat)))
                wrong = "a wrong result";
        }
    }
    struct ingot_profile_row rows[8];
    size_t n_rows = ig_context_profile(rank.context, rows, 8);
    if (!wrong && s->profile && (n_rows != 4 || strcmp(rows[1].kernel, "all_reduce") != 0)) wrong = "a wrong profile";
    close_rank(&rank);
    return wrong;
}

static void ranks_compute_together(void **state) {
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        struct fixture *f = make_plan(ranks, false);
        for (unsigned threads = 1; threads <= 2; threads++)
            run_ranks(ranks, 60, compute, &(struct setting){f, threads, threads == 2});
        end_plan(f);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

static const char *wanted(enum ingot_status status, enum ingot_status wanted_status, const struct ingot_error *error,
                          const char *text) {
    static _Thread_local char wrong[INGOT_ERROR_MESSAGE_SIZE];
    if (status == INGOT_OK) return "no error";
    if (status == wanted_status && strstr(error->message, text)) return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s', found '%.700s' (%s)", text, error->message,
             ingot_status_name(status));
    return wrong;
}

static const char *refuse_ranks(struct ig_group *seat, void *user) {
    struct rank rank;
    enum ingot_status status = open_rank(&rank, user, seat, 1, false);
    if (status == INGOT_OK) status = run_rank(&rank, 5, 0);
    const char *wrong =
        wanted(status, INGOT_INCOMPATIBLE, &rank.error, "reduce: the plan is for 3 ranks, and this is a group of 2");
    close_rank(&rank);
    return wrong;
}

static void groups_must_fit(void **state) {
    struct fixture *f = make_plan(3, false);
    struct rank rank;
    run_ranks(2, 60, refuse_ranks, f);
    assert_int_equal(open_rank(&rank, f, NULL, 1, false), INGOT_OK);
    assert_int_equal(run_rank(&rank, 5, 0), INGOT_INCOMPATIBLE);
    assert_string_equal(rank.error.message, "reduce: the plan is for a group of 3 ranks, and there is none");
    close_rank(&rank);
    end_plan(f);
}

static const char *other_shapes(struct ig_group *seat, void *user) {
    struct rank rank;
    enum ingot_status status = open_rank(&rank, user, seat, 1, false);
    if (status == INGOT_OK) status = run_rank(&rank, 5 + ig_group_rank(seat), 0);
    const char *wrong = wanted(status, INGOT_INCOMPATIBLE, &rank.error, "ranks do different things: rank ");
    close_rank(&rank);
    return wrong;
}

/* Rank 1 has the plan with the other order. */
static const char *other_order(struct ig_group *seat, void *user) {
    struct fixture *const *plans = user;
    struct rank rank;
    enum ingot_status status = open_rank(&rank, plans[ig_group_rank(seat) == 1], seat, 1, false);
    if (status == INGOT_OK) status = run_rank(&rank, 5, 0);
    const char *wrong = wanted(status, INGOT_INCOMPATIBLE, &rank.error, "rank 1 at all_gather 'gather'");
    if (ig_group_rank(seat) == 1) wrong = wanted(status, INGOT_INCOMPATIBLE, &rank.error, "at all_gather 'gather'");
    close_rank(&rank);
    return wrong;
}

static void differences_are_reported(void **state) {
    struct fixture *plans[2] = {make_plan(2, false), make_plan(2, true)};
    run_ranks(2, 60, other_shapes, plans[0]);
    run_ranks(2, 60, other_order, plans);
    run_ranks(2, 60, compute, &(struct setting){plans[0], 1, false}); /* a new group works */
    end_plan(plans[0]);
    end_plan(plans[1]);
}

/* ---- Ranks that do not come -------------------------------------------------------------------------------------- */

static const char *stay_away(struct ig_group *seat, void *user) {
    struct rank rank;
    const bool away = ig_group_rank(seat) == 1;
    enum ingot_status status = open_rank(&rank, user, seat, 1, false);
    if (status == INGOT_OK) status = away ? INGOT_OK : run_rank(&rank, 5, 0);
    while (away && ig_group_barrier(seat, "late", &rank.error) == INGOT_OK)
        continue;
    const char *wrong = away ? NULL : wanted(status, INGOT_INCOMPATIBLE, &rank.error, "all_gather 'late'");
    close_rank(&rank);
    return wrong;
}

static const char *be_late(struct ig_group *seat, void *user) {
    struct rank rank;
    const bool late = ig_group_rank(seat) == 1;
    enum ingot_status status = open_rank(&rank, user, seat, 1, false);
    if (late) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (status == INGOT_OK) status = run_rank(&rank, 5, 0);
    const char *text = late ? "rank 0 ended the group: all_reduce 'reduce' (call 1): rank 0 waited 0.05 s for rank 1"
                            : "all_reduce 'reduce' (call 1): rank 0 waited 0.05 s for rank 1; its last: no call yet";
    const char *wrong = wanted(status, INGOT_TIMEOUT, &rank.error, text);
    close_rank(&rank);
    return wrong;
}

static void *cancel_later(void *context) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    ig_context_cancel(context);
    return NULL;
}

/* Rank 0 is cancelled while it waits for rank 1, which comes when the group has ended. */
static const char *be_cancelled(struct ig_group *seat, void *user) {
    struct rank rank;
    pthread_t canceller;
    const bool first = ig_group_rank(seat) == 0;
    enum ingot_status status = open_rank(&rank, user, seat, 1, false);
    if (status != INGOT_OK) return failed(&rank.error);
    if (first) {
        pthread_create(&canceller, NULL, cancel_later, rank.context);
        do {
            status = run_rank(&rank, 5, 0);
        } while (status == INGOT_OK);
        pthread_join(canceller, NULL);
    } else {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        status = run_rank(&rank, 5, 0);
    }
    const char *wrong =
        wanted(status, INGOT_CANCELLED, &rank.error, first ? "the run was cancelled" : "rank 0 ended the group: ");
    close_rank(&rank);
    return wrong;
}

static void absent_ranks(void **state) {
    struct fixture *f = make_plan(2, false);
    run_ranks(2, 60, stay_away, f);
    run_ranks(2, 0.05, be_late, f);
    run_ranks(2, 60, be_cancelled, f);
    run_ranks(2, 60, compute, &(struct setting){f, 1, false});
    end_plan(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_together),
        cmocka_unit_test(groups_must_fit),
        cmocka_unit_test(differences_are_reported),
        cmocka_unit_test(absent_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
