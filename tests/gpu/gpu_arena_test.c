/*
 * One arena on GPU 0, shared by contexts of several engines on several threads: each result is bit-identical to that of
 * a context alone. The same with the order turned off gives wrong results, which shows that the test sees the race.
 * Skipped without a GPU or NVRTC. Arguments: the number of runs (default 20,000), the network's file. With fewer than
 * 1,000, for compute-sanitizer and the emulator, which show no such race, the order stays on.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/frame/activations.h"
#include "runtime/resident.h"
#include "runtime/runtime.h"
#include "support/model/network.h"

enum { SHORT = 1000, ENGINES = 4, THREADS = 8, CONTEXTS = 16, EACH = CONTEXTS / THREADS, LARGEST = 64 };

static const char *model_path = TEST_DIGITS;
static int runs = 20000;
static struct test_network networks[ENGINES];
static struct ig_engine_file files[ENGINES];
static struct ig_resident_store stores[ENGINES];
static float pixels[LARGEST * PIXELS], expected[ENGINES][LARGEST + 1][LARGEST * CLASSES];
static size_t needs[ENGINES][LARGEST + 1];

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

struct member {
    int engine;
    struct ig_device *device;
    struct ig_context *context;
    int64_t batch; /* of the run in flight; 0: none */
};

static void begin_member(struct member *m, int engine, struct ig_activations *activations) {
    struct ingot_error error;
    struct ig_resident resident;
    *m = (struct member){.engine = engine};
    must(ig_device_cuda_create(0, &ig_libc_allocator, &m->device, &error), &error);
    must(ig_resident_store_get(&stores[engine], ig_device_cuda_create, 0, 0, &resident, &error), &error);
    const struct ig_context_config config = {.allocator = &ig_libc_allocator,
                                             .device = m->device,
                                             .threads = 1,
                                             .weights = resident.weights,
                                             .module = resident.module,
                                             .max_bytes = SIZE_MAX,
                                             .activations = activations};
    must(ig_context_create(&files[engine], &config, &m->context, &error), &error);
}

static void end_member(struct member *m) {
    ig_context_destroy(m->context);
    m->device->api->destroy(m->device);
}

static void enqueue(struct member *m, int64_t batch) {
    struct ingot_error error;
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, pixels, INGOT_HOST};
    must(ig_context_set_input(m->context, 0, &input, &error), &error);
    must(ig_context_enqueue(m->context, NULL, &error), &error);
    m->batch = batch;
}

static const float *receive(struct member *m) {
    struct ingot_error error;
    struct ingot_tensor output;
    must(ig_context_wait(m->context, &error), &error);
    must(ig_context_output(m->context, 0, &output, &error), &error);
    return output.data;
}

static bool is_right(struct member *m) {
    size_t size = sizeof(float) * CLASSES * (size_t)m->batch;
    return memcmp(receive(m), expected[m->engine][m->batch], size) == 0;
}

/* ---- Threads ------------------------------------------------------------------------------------------------------------ */

struct worker {
    pthread_t thread;
    struct member members[EACH];
    uint32_t seed;
    int runs;
    unsigned wrong;
    size_t largest_need;
};

static uint32_t choose(struct worker *w, uint32_t n) {
    w->seed = w->seed * 1664525u + 1013904223u;
    return (w->seed >> 8) % n;
}

static void *work(void *argument) {
    struct worker *w = argument;
    for (int turn = 0; turn < w->runs; turn++) {
        struct member *m = &w->members[choose(w, EACH)];
        enqueue(m, 1 + choose(w, LARGEST));
        if (needs[m->engine][m->batch] > w->largest_need) w->largest_need = needs[m->engine][m->batch];
        for (int i = 0; i < EACH; i++) {
            if (!w->members[i].batch || choose(w, 2)) continue;
            w->wrong += !is_right(&w->members[i]);
            w->members[i].batch = 0;
        }
    }
    return NULL;
}

/* The number of wrong results. */
static unsigned share(bool unordered, int count) {
    static struct worker workers[THREADS];
    struct ig_device *device;
    struct ig_activations *activations;
    struct ingot_error error;
    struct member first;
    unsigned wrong = 0;
    size_t largest_need = 0;
    must(ig_device_cuda_create(0, &ig_libc_allocator, &device, &error), &error);
    const struct ig_activations_config config = {
        .allocator = &ig_libc_allocator, .device = device, .shared = true, .unordered = unordered};
    must(ig_activations_create(&config, &activations, &error), &error);
    for (int e = 0; unordered && e < ENGINES; e++) { /* so that it need not grow */
        begin_member(&first, e, activations);
        enqueue(&first, LARGEST);
        end_member(&first);
    }
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.seed = (uint32_t)t + 1, .runs = count / THREADS};
        for (int i = 0; i < EACH; i++)
            begin_member(&workers[t].members[i], (t * EACH + i) % ENGINES, activations);
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        wrong += workers[t].wrong;
        if (workers[t].largest_need > largest_need) largest_need = workers[t].largest_need;
    }
    struct ingot_arena_info info;
    ig_activations_describe(activations, &info);
    if (!unordered) assert_int_equal(info.peak_bytes, largest_need);
    assert_int_equal(info.contexts, CONTEXTS);
    printf("%llu runs, %llu behind another context's, %zu bytes, %u wrong results%s\n",
           (unsigned long long)info.executions, (unsigned long long)info.followed, info.peak_bytes, wrong,
           unordered ? " without order" : "");
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < EACH; i++)
            end_member(&workers[t].members[i]);
    }
    ig_activations_destroy(activations);
    device->api->destroy(device);
    return wrong;
}

static void results_are_those_of_a_context_alone(void **state) {
    assert_int_equal(share(false, runs), 0);
}

static void without_order_they_are_not(void **state) {
    unsigned wrong = 0;
    if (runs < SHORT) skip();
    for (int turn = 0; turn < 50 && wrong == 0; turn++)
        wrong = share(true, 2000);
    assert_true(wrong > 0);
}

/* ---- Set-up -------------------------------------------------------------------------------------------------------------- */

static void compute_alone(int engine) {
    struct member m;
    struct ingot_error error;
    begin_member(&m, engine, NULL);
    for (int64_t batch = 1; batch <= LARGEST; batch++) {
        struct ingot_memory_info info;
        enqueue(&m, batch);
        memcpy(expected[engine][batch], receive(&m), sizeof(float) * CLASSES * (size_t)batch);
        must(ig_context_memory(m.context, &info, &error), &error);
        needs[engine][batch] = info.arena_bytes;
    }
    end_member(&m);
}

static int set_up(void **state) {
    static const char *const precisions[ENGINES] = {"fp32", "tf32", "fp16", "bf16"};
    struct ingot_error error;
    test_pictures(pixels, LARGEST);
    for (int e = 0; e < ENGINES; e++) {
        struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
        options.target = "cuda";
        options.precision = precisions[e];
        test_network_build(&networks[e], model_path, &options);
        must(ig_engine_open_memory(networks[e].data, networks[e].size, INGOT_VERIFY_ALL, &ig_libc_allocator, &files[e],
                                   &error),
             &error);
        ig_resident_store_init(&stores[e], &files[e], &ig_libc_allocator);
        compute_alone(e);
    }
    return 0;
}

static int tear_down(void **state) {
    for (int e = 0; e < ENGINES; e++) {
        ig_resident_store_deinit(&stores[e]);
        ig_engine_close(&files[e]);
        test_network_release(&networks[e]);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_a_context_alone),
        cmocka_unit_test(without_order_they_are_not),
    };
    struct ingot_error error = {0};
    if (argc > 1) runs = atoi(argv[1]);
    if (argc > 2) model_path = argv[2];
    if (!test_network_fits_gpu(model_path, &error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    return cmocka_run_group_tests_name("arenas on a GPU", tests, set_up, tear_down);
}
