/* Groups of GPUs on the stand-in for NCCL (fake_nccl), whose GPUs' memory is the host's: every collective, failures, and what is
 * said where there is no NCCL. */
#define _GNU_SOURCE
#include "dist/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "dist/group.h"
#include "support/beside.h"
#include "support/dist/ranks.h"
#include "support/support.h"

static char library[4096];

struct rank {
    pthread_t thread;
    struct ig_group *seat; /* a thread's, of NCCL */
    const char *(*body)(struct ig_group *seat);
    char wrong[INGOT_ERROR_MESSAGE_SIZE];
};

static void *rank_main(void *argument) {
    struct rank *rank = argument;
    const char *wrong = rank->body(rank->seat);
    if (wrong) snprintf(rank->wrong, sizeof rank->wrong, "%s", wrong);
    ig_group_destroy(rank->seat);
    return NULL;
}

static void run_gpus(uint32_t ranks, double seconds, const char *(*body)(struct ig_group *seat)) {
    struct ig_group *hosts[IG_MOST_RANKS];
    struct rank all[8] = {0};
    struct ingot_error error;
    const struct ig_group_options options = {.seconds = seconds};
    if (ig_group_create_local(ranks, &options, hosts, &error)) fail_msg("%s", error.message);
    for (uint32_t r = 0; r < ranks; r++) {
        if (ig_nccl_create(hosts[r], library, &all[r].seat, &error)) fail_msg("%s", error.message);
        all[r].body = body;
    }
    for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(pthread_create(&all[r].thread, NULL, rank_main, &all[r]), 0);
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(all[r].thread, NULL);
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].wrong[0]) fail_msg("rank %u: %s", r, all[r].wrong);
}

static enum ingot_status enqueue(struct ig_group *seat, const struct ig_collective_call *call,
                                 struct ingot_error *error) {
    return ig_group_enqueue(seat, call, NULL, NULL, error);
}

static const char *test_all(struct ig_group *seat) {
    struct ingot_error error;
    if (strcmp(ig_group_transport(seat), "NCCL 2.23.0") != 0) return ig_group_transport(seat);
    if (!ig_group_enqueues(seat)) return "it does not enqueue";
    if (ig_group_test_by(seat, enqueue, &error)) return failed(&error);
    if (ig_group_look(seat, &error)) return failed(&error);
    return ig_group_test(seat, &error) ? failed(&error) : NULL; /* of host memory */
}

static enum ingot_status divide(struct ig_group *seat, uint32_t kind, uint32_t dtype, size_t outer, void *from,
                                void *to, struct ingot_error *error) {
    struct ig_collective_sizes sizes = {.outer = outer, .inner = 2};
    for (uint32_t r = 0; ig_collective_divides(kind) && r < ig_group_ranks(seat); r++)
        sizes.parts[r] = 1;
    const struct ig_collective_call call = {{kind, dtype, 0, 0}, &sizes, from, to, "block 4", NULL};
    return ig_group_enqueue(seat, &call, NULL, NULL, error);
}

/* Equal parts, which NCCL has calls for; and booleans, of which it adds up no sum. */
static const char *test_equal(struct ig_group *seat) {
    const float rank = (float)ig_group_rank(seat);
    float mine[6] = {rank, rank + 10, rank + 20, rank + 30, rank + 40, rank + 50}, all[6];
    unsigned char flags[2] = {1, rank == 2}, sum[2];
    struct ingot_error error;
    if (divide(seat, IG_ALL_GATHER, INGOT_F32, 1, mine, all, &error)) return failed(&error);
    if (all[0] != 0 || all[2] != 1 || all[5] != 12) return "a wrong gather";
    if (divide(seat, IG_REDUCE_SCATTER, INGOT_F32, 1, mine, all, &error)) return failed(&error);
    if (all[0] != 3 + 60 * rank || all[1] != 33 + 60 * rank) return "a wrong scatter";
    if (divide(seat, IG_ALL_REDUCE, INGOT_BOOL, 1, flags, sum, &error)) return failed(&error);
    return sum[0] == 1 && sum[1] == 1 ? NULL : "a wrong sum of booleans";
}

static void collectives(void **state) {
    for (uint32_t ranks = 1; ranks <= 4; ranks++)
        run_gpus(ranks, 60, test_all);
    run_gpus(3, 60, test_equal);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

#define MEBIBYTE ((size_t)1 << 20)
enum { LONG_COUNT = 1 << 16 };

static size_t (*taken_by)(int rank);

struct gpu {
    struct ig_device base;
    int rank;
};

/* Without limits of its own. */
static size_t free_bytes(struct ig_device *device) {
    return 1024 * MEBIBYTE - taken_by(((struct gpu *)device)->rank);
}

static enum ingot_status add_up(struct ig_group *seat, struct gpu *gpu, size_t count, struct ingot_error *error) {
    const struct ig_collective_sizes sizes = {.outer = 1, .inner = count};
    float *data = calloc(count, sizeof *data);
    const struct ig_collective_call call = {
        {IG_ALL_REDUCE, INGOT_F32, IG_REDUCE_SUM, 0}, &sizes, data, data, "block 4", NULL};
    enum ingot_status status = ig_group_enqueue(seat, &call, gpu ? &gpu->base : NULL, NULL, error);
    free(data);
    return status;
}

/* What the communicator takes when it is made and by its first long call, and nothing of what it takes no more. */
static const char *take_memory(struct ig_group *seat) {
    static const struct ig_device_api api = {.free_bytes = free_bytes};
    struct gpu gpu = {.base = {.api = &api}, .rank = (int)ig_group_rank(seat)};
    struct ingot_error error;
    if (ig_group_library_bytes(seat) != 0) return "memory before the first call";
    for (int i = 0; i < 2; i++) {
        if (add_up(seat, &gpu, 1, &error)) return failed(&error);
        if (ig_group_library_bytes(seat) != 8 * MEBIBYTE) return "another size behind a short call";
    }
    for (int i = 0; i < 2; i++) {
        if (add_up(seat, &gpu, LONG_COUNT, &error)) return failed(&error);
        if (ig_group_library_bytes(seat) != 10 * MEBIBYTE) return "another size behind a long call";
    }
    (void)ig_group_barrier(seat, "all have taken it", &error); /* which fails where another rank is ahead */
    ig_group_fail(seat, INGOT_CANCELLED, "a test");
    return ig_group_library_bytes(seat) == 0 && taken_by(gpu.rank) == 0 ? NULL : "memory behind a failure";
}

static const char *take_unseen(struct ig_group *seat) {
    struct ingot_error error;
    if (add_up(seat, NULL, LONG_COUNT, &error)) return failed(&error);
    return ig_group_library_bytes(seat) == 0 ? NULL : "memory of a GPU that nobody asked";
}

static void memory(void **state) {
    void *file = dlopen(library, RTLD_NOW);
    assert_non_null(file);
    *(void **)&taken_by = dlsym(file, "fake_nccl_taken");
    run_gpus(2, 60, take_memory);
    run_gpus(3, 60, take_memory);
    run_gpus(2, 60, take_unseen);
    dlclose(file);
}

/* ---- GPUs --------------------------------------------------------------------------------------------------------- */

/* Whether each rank finds its GPU its own, once all have looked for windows. */
static const char *look_around(struct ig_group *seat, bool is_shared) {
    static const struct ig_device_api api = {.free_bytes = free_bytes};
    struct ig_device gpu = {.api = &api, .ordinal = is_shared ? 1 : ig_group_rank(seat)};
    struct ingot_error error;
    if (!ig_group_may_overlap(seat)) return "no runs at once without windows";
    for (int i = 0; i < 2; i++)
        if (ig_group_open_windows(seat, &gpu, &error)) return failed(&error);
    if (ig_group_barrier(seat, "all have looked", &error)) return failed(&error);
    const bool found = ig_group_may_overlap(seat);
    if (ig_group_barrier(seat, "all have seen", &error)) return failed(&error);
    return found == !is_shared ? NULL : "others on this GPU are not seen, or seen where there are none";
}

static const char *have_own(struct ig_group *seat) {
    return look_around(seat, false);
}

static const char *have_one(struct ig_group *seat) {
    return look_around(seat, true);
}

static void shared_gpus(void **state) {
    run_gpus(3, 60, have_own);
    run_gpus(2, 60, have_one);
    run_gpus(2, 60, have_own); /* those have left */
}

/* ---- Failures ----------------------------------------------------------------------------------------------------- */

static const char *wanted(enum ingot_status status, enum ingot_status wanted_status, const struct ingot_error *error,
                          const char *text) {
    static _Thread_local char wrong[INGOT_ERROR_MESSAGE_SIZE];
    if (status == wanted_status && strstr(error->message, text)) return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s', found '%.700s' (%s)", text, status ? error->message : "",
             ingot_status_name(status));
    return wrong;
}

static const char *ask_too_much(struct ig_group *seat) {
    static short data[400];
    struct ingot_error error;
    return wanted(divide(seat, IG_ALL_REDUCE, INGOT_I16, 1, data, data, &error), INGOT_UNSUPPORTED, &error,
                  "all_reduce 'block 4': NCCL does not reduce i16");
}

static const char *ask_for_lines(struct ig_group *seat) {
    static float data[400];
    struct ingot_error error;
    return wanted(divide(seat, IG_ALL_GATHER, INGOT_F32, 65, data, data, &error), INGOT_UNSUPPORTED, &error,
                  "parts of more than 64 lines");
}

static void (*fail_rank)(int rank);

/* Rank 1 fails: it says why, and the others that the connection is lost. */
static const char *lose_one(struct ig_group *seat) {
    float data[4] = {0};
    struct ingot_error error;
    enum ingot_status status = divide(seat, IG_ALL_REDUCE, INGOT_F32, 1, data, data, &error);
    if (status == INGOT_OK) status = ig_group_barrier(seat, "connected", &error);
    if (ig_group_rank(seat) == 1) fail_rank(1);
    for (int i = 0; status == INGOT_OK && i < 100000; i++)
        status = divide(seat, IG_ALL_REDUCE, INGOT_F32, 1, data, data, &error);
    const char *wrong = wanted(status, INGOT_DEVICE, &error,
                               "block 4: NCCL 2.23.0 says 'remote process exited or there was a network error'");
    return wrong ? wrong : wanted(ig_group_look(seat, &error), INGOT_DEVICE, &error, "block 4: NCCL 2.23.0 says");
}

static const char *stay_away(struct ig_group *seat) {
    float data[4] = {0};
    struct ingot_error error;
    if (ig_group_rank(seat) == 1) {
        while (ig_group_barrier(seat, "away", &error) == INGOT_OK)
            continue;
        return NULL;
    }
    return wanted(divide(seat, IG_ALL_REDUCE, INGOT_F32, 1, data, data, &error), INGOT_INCOMPATIBLE, &error,
                  "ranks do different things");
}

static void failures(void **state) {
    void *file = dlopen(library, RTLD_NOW);
    assert_non_null(file);
    *(void **)&fail_rank = dlsym(file, "fake_nccl_fail");
    run_gpus(2, 60, ask_too_much);
    run_gpus(2, 60, ask_for_lines);
    run_gpus(3, 60, lose_one);
    run_gpus(2, 60, stay_away);
    run_gpus(3, 60, test_all);
    dlclose(file);
}

static void no_nccl(void **state) {
    struct ig_group *host, *seat;
    struct ingot_error error;
    float data[2] = {0};
    assert_int_equal(ig_group_create_local(1, NULL, &host, &error), INGOT_OK);
    assert_int_equal(divide(host, IG_ALL_REDUCE, INGOT_F32, 1, data, data, &error), INGOT_UNSUPPORTED);
    assert_string_equal(error.message, "all_reduce 'block 4': shared memory does not connect GPUs");
    ig_group_destroy(host);
    static const struct {
        const char *library, *message;
        enum ingot_status status;
    } cases[] = {
        {"/nowhere/libnccl.so", "all_reduce 'block 4': cannot load NCCL: /nowhere/libnccl.so", INGOT_DEVICE},
        {"libm.so.6", "all_reduce 'block 4': this NCCL has no ncclGetVersion", INGOT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* needed by the first call, not before */
        assert_int_equal(ig_group_create_local(1, NULL, &host, &error), INGOT_OK);
        assert_int_equal(ig_nccl_create(host, cases[i].library, &seat, &error), INGOT_OK);
        assert_string_equal(ig_group_transport(seat), "no NCCL");
        assert_int_equal(divide(seat, IG_ALL_REDUCE, INGOT_F32, 1, data, data, &error), cases[i].status);
        assert_non_null(strstr(error.message, cases[i].message));
        ig_group_destroy(seat);
    }
}

int main(void) {
    test_beside("emulator/libnccl.so.2", library, sizeof library);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives), cmocka_unit_test(memory),  cmocka_unit_test(shared_gpus),
        cmocka_unit_test(failures),    cmocka_unit_test(no_nccl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
