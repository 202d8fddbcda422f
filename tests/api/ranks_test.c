/*
 * Engines for several ranks through the public interface: ranks that are threads of a context, and ranks that are processes
 * of a group. The engine has plans for 1, 2 and 3 ranks, of which each gives y = x: a = -x, b = the ranks' maximum of a, y = -b.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "dist/shared.h"
#include "engine/engine.h"
#include "ingot/ingot.h"
#include "support/plan/runtime_case.h"
#include "support/support.h"

enum { MOST_RANKS = 3, N = 500 };

/* ---- The engine -------------------------------------------------------------------------------------------------- */

static struct ig_engine_memory engine_of_ranks, other_engine;

/* How many times each rank's second kernel may still be run before it waits; for cancelling. */
static atomic_bool waits;

static void negate_slowly(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0];
    float *c = buf[1];
    while (atomic_load(&waits))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        c[i] = -a[i];
}

/* The main plan of each of so many ranks, all with the tensors of the first. */
static void add_rank(struct fixture *f, uint32_t ranks, ig_slot n, ig_slot one, ig_slot zero, uint32_t slow) {
    struct tiny_plan *t = &f->tiny;
    uint32_t number = tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t a = tiny_arena(t, bytes_for(t, n)), b = ranks > 1 ? tiny_arena(t, bytes_for(t, n)) : a;
    LAUNCH(f, f->negate, n, x, a);
    if (ranks > 1) {
        ig_slot dims[2 + MOST_RANKS] = {one, n};
        for (uint32_t r = 0; r < ranks; r++)
            dims[2 + r] = zero;
        const uint32_t operands[2] = {a, b};
        tiny_collective(t, (struct ig_collective){IG_ALL_REDUCE, INGOT_F32, IG_REDUCE_MAX, 0}, "block 2", operands,
                        ranks, dims);
    }
    LAUNCH(f, slow, n, b, y);
    for (uint32_t i = 0; number > 0 && i < 2; i++) {
        struct ig_plan_tensor *own = &t->tensors[t->subplans[number].inputs + i];
        uint32_t buffer = own->buffer;
        *own = t->tensors[i];
        own->buffer = buffer;
    }
}

static void make_engine(struct ig_engine_memory *out, uint32_t first) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    struct ig_plan_rank ranks[6];
    uint32_t slow = tiny_kernel(t, "negate_slowly", negate_slowly);
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, INT32_MAX), one = tiny_const(t, 1), zero = tiny_const(t, 0);
    t->plan.ranks = ranks;
    for (uint32_t count = first; count <= MOST_RANKS; count++)
        for (uint32_t r = 0; r < count; r++) {
            ranks[t->plan.n_ranks] = (struct ig_plan_rank){count, r, t->plan.n_ranks, 0};
            t->plan.n_ranks++;
            add_rank(f, count, n, one, zero, slow);
        }
    *out = (struct ig_engine_memory){.allocator = &ig_libc_allocator};
    const struct ig_engine_sink sink = ig_engine_memory_sink(out);
    const struct ig_engine_image image = {
        .target = "cpu", .plan = t->plan, .code = t->code.bytes, .code_size = t->code.size, .explanation = "{}"};
    struct ingot_error error;
    if (ig_engine_write(&image, &sink, &ig_libc_allocator, &error)) fail_msg("%s", error.message);
    free(f);
}

static int set_up(void **state) {
    make_engine(&engine_of_ranks, 1);
    make_engine(&other_engine, 2);
    return 0;
}

static int tear_down(void **state) {
    ig_engine_memory_release(&engine_of_ranks);
    ig_engine_memory_release(&other_engine);
    return 0;
}

static enum ingot_status load(const struct ig_engine_memory *memory, unsigned ranks, struct ingot_group *group,
                              struct ingot_engine **out_engine, struct ingot_error *error) {
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.ranks = ranks;
    options.group = group;
    return ingot_engine_load_memory(memory->data, memory->size, &options, out_engine, error);
}

/* One run; x is 1, 2, …, and what is wrong with y comes back, or NULL. */
static const char *try_run(struct ingot_context *context, int64_t n, struct ingot_error *error) {
    static _Thread_local float x[N];
    struct ingot_tensor y, in = vector(x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i + n);
    if (ingot_context_set_input(context, 0, &in, error) || ingot_context_run(context, error) ||
        ingot_context_output(context, 0, &y, error))
        return error->message;
    for (int64_t i = 0; i < n; i++)
        if (y.dims[0] != n || ((float *)y.data)[i] != x[i]) return "a wrong result";
    return NULL;
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void check_run(struct ingot_context *context, int64_t n) {
    struct ingot_error error;
    const char *wrong = try_run(context, n, &error);
    if (wrong) fail_msg("%s", wrong);
}

static struct ingot_engine *load_ranks(unsigned ranks) {
    struct ingot_engine *engine;
    struct ingot_error error;
    if (load(&engine_of_ranks, ranks, NULL, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static struct ingot_context *make(struct ingot_engine *engine, unsigned threads) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    struct ingot_error error;
    options.threads = threads;
    if (ingot_context_create(engine, &options, &context, &error)) fail_msg("%s", error.message);
    return context;
}

static void contexts_of_ranks(void **state) {
    for (unsigned ranks = 0; ranks <= MOST_RANKS; ranks++) {
        struct ingot_engine *engine = load_ranks(ranks);
        for (unsigned threads = 0; threads <= 4; threads += 2) {
            struct ingot_context *contexts[2] = {make(engine, threads), make(engine, threads)};
            for (int64_t n = 1; n <= N; n += 83) {
                check_run(contexts[0], n);
                check_run(contexts[1], n);
            }
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* the threads fall asleep */
            check_run(contexts[0], N);
            ingot_context_destroy(contexts[0]);
            check_run(contexts[1], 3);
            ingot_context_destroy(contexts[1]);
        }
        ingot_engine_release(engine);
    }
}

static void *cancel_later(void *context) {
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    ingot_context_cancel(context);
    atomic_store(&waits, false);
    return NULL;
}

/* A failed run is no end: neither one that was cancelled, nor one with a limit, nor one that never began. */
static void runs_fail_and_go_on(void **state) {
    struct ingot_engine *engine = load_ranks(3);
    struct ingot_context *context = make(engine, 3);
    struct ingot_error error;
    pthread_t canceller;
    assert_int_equal(ingot_context_run(context, &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, "input 'x' is not set");
    check_run(context, 10);
    for (int i = 0; i < 3; i++) {
        atomic_store(&waits, true);
        pthread_create(&canceller, NULL, cancel_later, context);
        assert_int_equal(ingot_context_run(context, &error), INGOT_CANCELLED);
        pthread_join(canceller, NULL);
        check_run(context, 10 + i);
        assert_int_equal(ingot_context_set_time_limit(context, 1e-9, &error), INGOT_OK);
        assert_int_equal(ingot_context_run(context, &error), INGOT_TIMEOUT);
        assert_int_equal(ingot_context_set_time_limit(context, 0, &error), INGOT_OK);
        check_run(context, 20 + i);
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
}

static void other_functions(void **state) {
    struct ingot_engine *engine = load_ranks(2);
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    struct ingot_error error;
    struct ingot_profile_row rows[4];
    struct ingot_memory_info memory;
    unsigned ranks[4];
    float mine[N];
    assert_int_equal(ingot_engine_ranks(engine, ranks, 4), 3);
    assert_true(ranks[0] == 1 && ranks[1] == 2 && ranks[2] == 3);
    assert_int_equal(ingot_engine_ranks(engine, NULL, 0), 3);
    options.profile = true;
    assert_int_equal(ingot_context_create(engine, &options, &context, &error), INGOT_OK);
    struct ingot_tensor x = vector(mine, 7);
    assert_int_equal(ingot_context_prepare(context, &x, 1, INGOT_PREPARE_IN_BACKGROUND, &error), INGOT_OK);
    assert_int_equal(ingot_context_prepare_wait(context, &error), INGOT_OK);
    check_run(context, 7);
    assert_int_equal(ingot_context_profile(context, rows, 4), 3);
    assert_string_equal(rows[1].kernel, "all_reduce");
    assert_int_equal(ingot_context_memory(context, &memory, &error), INGOT_OK);
    assert_int_equal(memory.exchange_bytes, ig_shared_bytes(2));
    assert_int_equal(ingot_context_set_output(context, 0, mine, sizeof mine, &error), INGOT_OK);
    check_run(context, 7);
    assert_true(mine[0] == 7 && mine[6] == 13);
    assert_int_equal(ingot_context_trim(context, &error), INGOT_OK);
    check_run(context, 9);
    assert_int_equal(ingot_context_enqueue(context, &error, &error), INGOT_UNSUPPORTED);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
}

static void expect(enum ingot_status found, enum ingot_status wanted, const struct ingot_error *error,
                   const char *text) {
    assert_int_equal(found, wanted);
    if (!strstr(error->message, text)) fail_msg("'%s' does not say '%s'", error->message, text);
}

static void refusals(void **state) {
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct ingot_error error;
    expect(load(&engine_of_ranks, 4, NULL, &engine, &error), INGOT_INCOMPATIBLE, &error,
           "the engine has no plan for 4 ranks: it was built for 1, 2, 3");
    expect(load(&engine_of_ranks, 65, NULL, &engine, &error), INGOT_INVALID_ARGUMENT, &error, "ranks is 65");
    assert_int_equal(load(&other_engine, 1, NULL, &engine, &error), INGOT_OK);
    expect(ingot_context_create(engine, NULL, &context, &error), INGOT_INCOMPATIBLE, &error,
           "the engine is for 2 ranks: load it for so many, or on a group of so many processes");
    ingot_engine_release(engine);
    struct ingot_arena *arena;
    struct ingot_arena_options arena_options = INGOT_ARENA_OPTIONS_INIT;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    assert_int_equal(ingot_arena_create(&arena_options, &arena, &error), INGOT_OK);
    options.arena = arena;
    engine = load_ranks(2);
    expect(ingot_context_create(engine, &options, &context, &error), INGOT_UNSUPPORTED, &error,
           "cannot share an arena");
    ingot_arena_release(arena);
    options.arena = NULL;
    options.gpus = 1;
    expect(ingot_context_create(engine, &options, &context, &error), INGOT_INVALID_ARGUMENT, &error,
           "gpus is 1, and the engine is for the CPU");
    ingot_engine_release(engine);
    struct ingot_group_options group = INGOT_GROUP_OPTIONS_INIT;
    struct ingot_group *joined;
    expect(ingot_group_join(&group, &joined, &error), INGOT_INVALID_ARGUMENT, &error,
           "nothing says which rank this is");
    group.seconds = -1;
    expect(ingot_group_join(&group, &joined, &error), INGOT_INVALID_ARGUMENT, &error, "seconds is -1");
    group.seconds = 0;
    group.transport = (enum ingot_transport)7;
    expect(ingot_group_join(&group, &joined, &error), INGOT_INVALID_ARGUMENT, &error, "transport is 7");
    ingot_group_release(NULL);
    assert_int_equal(ingot_group_ranks(NULL), 1);
}

/* ---- Processes --------------------------------------------------------------------------------------------------- */

static char meeting[100];

static enum ingot_status join_as(uint32_t rank, uint32_t ranks, struct ingot_group **out_group,
                                 struct ingot_error *error) {
    char own[40], all[40], place[200];
    snprintf(own, sizeof own, "INGOT_RANK=%u", rank);
    snprintf(all, sizeof all, "INGOT_RANKS=%u", ranks);
    snprintf(place, sizeof place, "INGOT_RENDEZVOUS=%s", meeting);
    const char *const environment[] = {own, all, place, NULL};
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    options.environment = environment;
    options.seconds = 60;
    return ingot_group_join(&options, out_group, error);
}

static const char *use_group(uint32_t rank, uint32_t ranks) {
    static struct ingot_error error;
    struct ingot_group *group;
    struct ingot_engine *engine;
    struct ingot_context *context;
    if (join_as(rank, ranks, &group, &error)) return error.message;
    if (ingot_group_rank(group) != rank || ingot_group_ranks(group) != ranks) return "another rank";
    if (strcmp(ingot_group_transport(group), "shared memory") != 0) return "another transport";
    if (ingot_group_set_time_limit(group, 30, &error)) return error.message;
    if (load(&engine_of_ranks, 0, group, &engine, &error)) return error.message;
    ingot_group_release(group); /* the engine has a reference */
    if (ingot_context_create(engine, NULL, &context, &error)) return error.message;
    const char *wrong = NULL;
    for (int64_t n = 1; !wrong && n < N; n += 91)
        wrong = try_run(context, n, &error);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    return wrong;
}

/* Rank 1 has another engine, or none; all say so. */
static const char *differ(uint32_t rank, uint32_t ranks, bool has_none, enum ingot_status wanted, const char *text) {
    static struct ingot_error error;
    struct ingot_group *group;
    struct ingot_engine *engine;
    if (join_as(rank, ranks, &group, &error)) return error.message;
    struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
    options.group = group;
    enum ingot_status status = rank == 1 && has_none
                                   ? ingot_engine_load("/nowhere.ingot", &options, &engine, &error)
                                   : load(rank == 1 ? &other_engine : &engine_of_ranks, 0, group, &engine, &error);
    if (status != wanted || !strstr(error.message, text)) return error.message;
    if (ingot_group_failure(group, &error) != wanted) return "the group goes on";
    ingot_group_release(group);
    return NULL;
}

static const char *have_another(uint32_t rank, uint32_t ranks) {
    return differ(rank, ranks, false, INGOT_INCOMPATIBLE, "rank 1 of 3 has another engine than rank 0");
}

static const char *have_none(uint32_t rank, uint32_t ranks) {
    return differ(rank, ranks, true, INGOT_IO, "/nowhere.ingot");
}

/* A group of four, for which there is no plan. */
static const char *have_too_many(uint32_t rank, uint32_t ranks) {
    static struct ingot_error error;
    struct ingot_group *group;
    struct ingot_engine *engine;
    if (join_as(rank, ranks, &group, &error)) return error.message;
    enum ingot_status status = load(&engine_of_ranks, 0, group, &engine, &error);
    return status == INGOT_INCOMPATIBLE && strstr(error.message, "no plan for 4 ranks") ? NULL : error.message;
}

static void run_processes(uint32_t ranks, const char *(*body)(uint32_t rank, uint32_t ranks)) {
    static int count;
    pid_t processes[8];
    snprintf(meeting, sizeof meeting, "/tmp/ingot-ranks-%d-%d", (int)getpid(), count++);
    for (uint32_t r = 0; r < ranks; r++) {
        processes[r] = fork();
        if (processes[r] != 0) continue;
        alarm(100);
        const char *wrong = body(r, ranks);
        if (wrong) fprintf(stderr, "rank %u: %s\n", r, wrong);
        _exit(wrong ? 1 : 0);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        int status;
        assert_int_equal(waitpid(processes[r], &status, 0), processes[r]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void groups_of_processes(void **state) {
    for (uint32_t ranks = 1; ranks <= 3; ranks++)
        run_processes(ranks, use_group);
    run_processes(3, have_another);
    run_processes(3, have_none);
    run_processes(4, have_too_many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_processes), /* first, since they fork */
        cmocka_unit_test(contexts_of_ranks),   cmocka_unit_test(runs_fail_and_go_on),
        cmocka_unit_test(other_functions),     cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
