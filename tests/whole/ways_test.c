/*
 * Messages between GPUs that windows and NCCL exchange in about the same time: ranks measure both before the first run, take what
 * is faster, and have the same bits. Here such messages are small. Ranks are threads that join a group as processes do.
 *
 *     ways_test [TARGET [nccl|windows]]     "cuda:sm_90" needs the emulator's driver and compiler, and what is faster there: by
 *                                           its clock the stand-in for NCCL, and without one neither
 */
#define _GNU_SOURCE
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/engine.h"
#include "api/group.h"
#include "dist/group.h"
#include "support/model/by_code.h"

static const char *target = "cpu";
static bool is_gpu, nccl_wins;

enum { WIDTH = 64, INNER = 96, ROWS = 72, MOST_RANKS = 3, RUNS = 3 };
#define MESSAGE (ROWS * WIDTH * sizeof(float))
static float weights[2][WIDTH * INNER], input[ROWS * WIDTH];

struct plan {
    unsigned ranks;
    size_t crossing; /* 0: as it is */
    int64_t rows[RUNS];
    unsigned late; /* this rank does not run; 0: all do */
    pthread_barrier_t over;
    char meeting[80];
};

/* For so many ranks. */
static struct engine {
    struct ingot_model *model;
    void *data;
    size_t size;
} engines[MOST_RANKS + 1];

struct member {
    struct plan *plan;
    unsigned rank;
    enum ingot_status status;
    struct ingot_error error;
    float results[RUNS][ROWS * WIDTH];
    struct ingot_exchange_row ways[4];
    size_t n_ways;
    struct ingot_memory_info memory;
};

static void fill(float *data, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((int32_t)seed >> 8) / (1 << 23);
    }
}

static void build(unsigned ranks, struct engine *engine) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_network *n = network_create();
    ingot_value x = network_input(n, "x", INGOT_F32, 2, (const char *const[]){"rows", "64"});
    x = network_add(n, "matmul", INPUTS(x, network_weight(n, "in", WIDTH, INNER, weights[0])), NULL, 0);
    x = network_add(n, "matmul", INPUTS(x, network_weight(n, "out", INNER, WIDTH, weights[1])), NULL, 0);
    MUST(ingot_network_output(n, "y", x, &by_code_error));
    engine->model = network_finish(n);
    options.target = target;
    options.nvrtc = getenv("INGOT_NVRTC");
    options.ranks = &ranks;
    options.n_ranks = 1;
    options.sharding = "tensor";
    MUST(ingot_model_build_memory(engine->model, &options, &engine->data, &engine->size, &by_code_error));
}

static enum ingot_status join(struct member *m, struct ingot_context **out_context, struct ingot_engine **out_engine) {
    const struct engine *engine = &engines[m->plan->ranks];
    char rank[40], ranks[40], place[110];
    const char *const environment[] = {rank, ranks, place, NULL};
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
    struct ingot_context_options context = INGOT_CONTEXT_OPTIONS_INIT;
    snprintf(rank, sizeof rank, "INGOT_RANK=%u", m->rank);
    snprintf(ranks, sizeof ranks, "INGOT_RANKS=%u", m->plan->ranks);
    snprintf(place, sizeof place, "INGOT_RENDEZVOUS=%s", m->plan->meeting);
    options.environment = environment;
    options.seconds = 3;
    context.device = is_gpu ? (int)m->rank : 0;
    enum ingot_status status = ingot_group_join(&options, &load.group, &m->error);
    if (status == INGOT_OK) status = ingot_engine_load_memory(engine->data, engine->size, &load, out_engine, &m->error);
    if (status == INGOT_OK) status = ingot_context_create(*out_engine, &context, out_context, &m->error);
    if (status == INGOT_OK && m->plan->crossing) load.group->seat->ways.crossing = m->plan->crossing;
    ingot_group_release(load.group);
    return status;
}

static enum ingot_status run(struct member *m, struct ingot_context *context, int i) {
    const int64_t rows = m->plan->rows[i];
    const struct ingot_tensor x = {INGOT_F32, 2, {rows, WIDTH}, input, INGOT_HOST};
    struct ingot_tensor y;
    enum ingot_status status = ingot_context_set_input(context, 0, &x, &m->error);
    if (status == INGOT_OK) status = ingot_context_run(context, &m->error);
    if (status == INGOT_OK) status = ingot_context_output(context, 0, &y, &m->error);
    if (status == INGOT_OK) memcpy(m->results[i], y.data, (size_t)rows * WIDTH * sizeof(float));
    return status;
}

static void *member_main(void *argument) {
    struct member *m = argument;
    struct ingot_context *context = NULL;
    struct ingot_engine *engine = NULL;
    m->status = join(m, &context, &engine);
    const bool runs = !m->plan->late || m->rank != m->plan->late;
    for (int i = 0; i < RUNS && m->plan->rows[i] && runs && m->status == INGOT_OK; i++)
        m->status = run(m, context, i);
    pthread_barrier_wait(&m->plan->over);
    if (m->status == INGOT_OK && runs) {
        m->n_ways = ingot_context_exchanges(context, m->ways, 4);
        m->status = ingot_context_memory(context, &m->memory, &m->error);
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    return NULL;
}

static struct member members[MOST_RANKS];

static void run_members(struct plan *p) {
    static unsigned count;
    pthread_t threads[MOST_RANKS];
    if (!engines[p->ranks].model) build(p->ranks, &engines[p->ranks]);
    snprintf(p->meeting, sizeof p->meeting, "/tmp/ingot-ways-%d-%u", (int)getpid(), count++);
    pthread_barrier_init(&p->over, NULL, p->ranks);
    memset(members, 0, sizeof members);
    for (unsigned r = 0; r < p->ranks; r++) {
        members[r].plan = p;
        members[r].rank = r;
        assert_int_equal(pthread_create(&threads[r], NULL, member_main, &members[r]), 0);
    }
    for (unsigned r = 0; r < p->ranks; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&p->over);
}

static void expect_well(const struct plan *p) {
    for (unsigned r = 0; r < p->ranks; r++) {
        if (members[r].status != INGOT_OK) fail_msg("rank %u: %s", r, members[r].error.message);
        assert_memory_equal(members[r].results, members[0].results, sizeof members[0].results);
        assert_int_equal(members[r].n_ways, members[0].n_ways);
        for (size_t i = 0; i < members[0].n_ways; i++)
            assert_int_equal(members[r].ways[i].by_nccl, members[0].ways[i].by_nccl);
    }
}

/* The results of windows, which the others are to have: of all rows, and of two. */
static float expected[2][ROWS * WIDTH];

static void keep_plain(unsigned ranks) {
    struct plan p = {.ranks = ranks, .rows = {ROWS, 2}};
    run_members(&p);
    expect_well(&p);
    assert_int_equal(members[0].n_ways, 0);
    memcpy(expected, members[0].results, sizeof expected);
}

/* The second run of the same size, and one of a size that is far from the crossing. */
static void test_two_ranks(void **state) {
    struct plan p = {.ranks = 2, .crossing = MESSAGE, .rows = {ROWS, ROWS, 2}};
    keep_plain(2);
    run_members(&p);
    expect_well(&p);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(members[0].results[i], expected[0], sizeof expected[0]);
    assert_memory_equal(members[0].results[2], expected[1], sizeof expected[1]);
    assert_int_equal(members[0].n_ways, is_gpu ? 1 : 0);
    if (!is_gpu) return;
    assert_string_equal(members[0].ways[0].collective, "all_reduce");
    assert_int_equal(members[0].ways[0].bytes, MESSAGE);
    assert_int_equal(members[0].ways[0].by_nccl, nccl_wins);
    assert_true(members[0].ways[0].kernel_us > 0 && members[0].ways[0].nccl_us > 0);
    assert_int_equal(members[0].ways[0].nccl_us < 0.95 * members[0].ways[0].kernel_us, nccl_wins);
    assert_true(members[0].memory.nccl_bytes > 0);
}

/* Far from the crossing, on both sides. */
static void test_far(void **state) {
    struct plan below = {.ranks = 2, .crossing = 5 * MESSAGE, .rows = {ROWS}};
    struct plan above = {.ranks = 2, .crossing = MESSAGE / 5, .rows = {ROWS}};
    run_members(&below);
    expect_well(&below);
    assert_int_equal(members[0].n_ways, 0);
    assert_int_equal(members[0].memory.nccl_bytes, 0);
    run_members(&above);
    expect_well(&above);
    assert_int_equal(members[0].n_ways, 0);
    assert_int_equal(members[0].memory.nccl_bytes > 0, is_gpu);
}

/* Both runs have what windows give; nothing was measured, and NCCL took nothing. */
static void expect_windows_alone(const struct plan *p) {
    expect_well(p);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(members[0].results[i], expected[0], sizeof expected[0]);
    assert_int_equal(members[0].n_ways, 0);
    assert_int_equal(members[0].memory.nccl_bytes, 0);
}

/* The order of their sums depends on the way, so that no measurement may choose it. */
static void test_three_ranks(void **state) {
    struct plan p = {.ranks = 3, .crossing = MESSAGE, .rows = {ROWS, ROWS}};
    keep_plain(3);
    run_members(&p);
    expect_windows_alone(&p);
}

/* What rank 1 would be measured with does not come. */
static void test_missing_rank(void **state) {
    struct plan p = {.ranks = 2, .crossing = MESSAGE, .rows = {ROWS}, .late = 1};
    run_members(&p);
    assert_int_equal(members[0].status, INGOT_TIMEOUT);
    if (!strstr(members[0].error.message, "rank 0 waited 3 s for rank 1")) fail_msg("%s", members[0].error.message);
}

/* All do without, and have what windows give. */
static void test_no_connection(void **state) {
    void (*refuse)(int rank), (*fail_rank)(int rank);
    void *file = is_gpu ? dlopen("libnccl.so.2", RTLD_NOW) : NULL;
    if (!file) return;
    *(void **)&refuse = dlsym(file, "fake_nccl_refuse");
    *(void **)&fail_rank = dlsym(file, "fake_nccl_fail");
    keep_plain(2);
    for (int rank = 0; rank < 2; rank++) {
        struct plan p = {.ranks = 2, .crossing = MESSAGE, .rows = {ROWS, ROWS}};
        refuse(rank);
        run_members(&p);
        expect_windows_alone(&p);
    }
    struct plan p = {.ranks = 2, .crossing = MESSAGE, .rows = {ROWS}};
    fail_rank(1); /* in a call that is measured */
    run_members(&p);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(members[rank].status, INGOT_DEVICE);
        if (!strstr(members[rank].error.message, "NCCL 2.23.0 says")) fail_msg("%s", members[rank].error.message);
    }
    dlclose(file);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks),    cmocka_unit_test(test_far),           cmocka_unit_test(test_three_ranks),
        cmocka_unit_test(test_missing_rank), cmocka_unit_test(test_no_connection),
    };
    if (argc > 1) target = argv[1];
    is_gpu = strncmp(target, "cuda", 4) == 0;
    nccl_wins = argc > 2 && strcmp(argv[2], "nccl") == 0;
    fill(weights[0], WIDTH * INNER, 1);
    fill(weights[1], WIDTH * INNER, 2);
    fill(input, ROWS * WIDTH, 3);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    for (int ranks = 0; ranks <= MOST_RANKS; ranks++) {
        if (!engines[ranks].model) continue;
        ingot_blob_release(engines[ranks].model, engines[ranks].data, engines[ranks].size);
        ingot_model_destroy(engines[ranks].model);
    }
    return failures;
}
