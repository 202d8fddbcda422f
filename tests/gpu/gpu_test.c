/*
 * The example network on GPU 0, through the public API: the same results as on the CPU, whatever the memory of inputs
 * and results, the stream and the number of contexts. Skipped without a GPU or NVRTC.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/model/network.h"

enum { LARGEST = 128 };

static const char *model_path = TEST_DIGITS;
static struct test_network on_cpu, on_gpu;
static struct ingot_engine *engine;
static float pixels[LARGEST * PIXELS], expected[LARGEST * CLASSES];
static const int64_t batches[] = {1, 2, 7, 32, 128};

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

static struct ingot_context *make_context(const struct ingot_context_options *options) {
    struct ingot_error error;
    struct ingot_context *context;
    must(ingot_context_create(engine, options, &context, &error), &error);
    return context;
}

static void bind(struct ingot_context *context, int64_t batch, void *data, enum ingot_memory memory) {
    struct ingot_error error;
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, data, memory};
    must(ingot_context_set_input(context, 0, &input, &error), &error);
}

static void run(struct ingot_context *context) {
    struct ingot_error error;
    must(ingot_context_run(context, &error), &error);
}

static const float *result(struct ingot_context *context) {
    struct ingot_error error;
    struct ingot_tensor output;
    must(ingot_context_output(context, 0, &output, &error), &error);
    return output.data;
}

static bool agree(const float *found, const float *wanted, int64_t batch) {
    for (int64_t i = 0; i < batch * CLASSES; i++) {
        if (!(fabsf(found[i] - wanted[i]) <= 1e-4f * fabsf(wanted[i]) + 1e-6f)) return false;
    }
    return true;
}

static void check(struct ingot_context *context, int64_t batch) {
    assert_true(agree(result(context), expected, batch));
}

/* ---- Tests ---------------------------------------------------------------------------------------------------------------- */

static void one_engine_runs_all_batches(void **state) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.allocator = &allocator.base;
    struct ingot_context *context = make_context(&options);
    long calls = 0;
    for (int turn = 0; turn < 20; turn++) {
        if (turn == 5) calls = allocator.calls;
        bind(context, batches[turn % 5], pixels, INGOT_HOST);
        run(context);
        check(context, batches[turn % 5]);
    }
    assert_int_equal(allocator.calls, calls);
    ingot_context_destroy(context);
    assert_int_equal(allocator.live, 0);
}

static void data_may_lie_anywhere(void **state) {
    struct ingot_context *context = make_context(NULL);
    struct ingot_error error;
    void *pinned, *pinned_result, *there;
    size_t in = 32 * PIXELS * sizeof(float), out = 32 * CLASSES * sizeof(float);
    must(ingot_context_allocate(context, INGOT_PINNED, in, &pinned, &error), &error);
    must(ingot_context_allocate(context, INGOT_PINNED, out, &pinned_result, &error), &error);
    must(ingot_context_allocate(context, INGOT_CUDA, out, &there, &error), &error);
    memcpy(pinned, pixels, in);
    bind(context, 32, pinned, INGOT_PINNED);
    must(ingot_context_set_output_in(context, 0, INGOT_PINNED, pinned_result, out, &error), &error);
    run(context);
    assert_ptr_equal(result(context), pinned_result);
    check(context, 32);
    /* The results for 32 pictures have the size of 5 pictures, and serve as such, on the GPU. */
    must(ingot_context_set_output_in(context, 0, INGOT_CUDA, there, out, &error), &error);
    run(context);
    assert_ptr_equal(result(context), there);
    must(ingot_context_set_output(context, 0, NULL, 0, &error), &error);
    for (int crooked = 0; crooked < 2; crooked++) {
        float again[5 * CLASSES];
        int64_t batch = 5 - crooked; /* the second time, from an address that is not aligned for vector loads */
        bind(context, batch, (float *)there + crooked, INGOT_CUDA);
        run(context);
        memcpy(again, result(context), (size_t)batch * CLASSES * sizeof(float));
        bind(context, batch, (float *)pinned_result + crooked, INGOT_HOST);
        run(context);
        assert_true(agree(result(context), again, batch));
    }
    /* Memory of the caller's own, pinned. */
    must(ingot_context_pin(context, pixels, in, &error), &error);
    bind(context, 7, pixels, INGOT_PINNED);
    run(context);
    check(context, 7);
    ingot_context_unpin(context, pixels);
    ingot_context_free(context, INGOT_PINNED, pinned, in);
    ingot_context_free(context, INGOT_PINNED, pinned_result, out);
    ingot_context_free(context, INGOT_CUDA, there, out);
    ingot_context_destroy(context);
}

enum { MANY = 60000, IN_A_ROW = 4 };

/* Picture i of run `turn` is this one. */
static int picture(int i, int turn) {
    return (i * 5 + turn * 31) % LARGEST;
}

static void fill(float *many, int turn) {
    for (int i = 0; i < MANY; i++)
        memcpy(many + (size_t)i * PIXELS, pixels + (size_t)picture(i, turn) * PIXELS, PIXELS * sizeof *many);
}

static void check_many(const float *found, int turn) {
    for (int i = 0; i < MANY; i++)
        assert_true(agree(found + (size_t)i * CLASSES, expected + (size_t)picture(i, turn) * CLASSES, 1));
}

/* Inputs are transferred while other runs are computed, and their memory is the caller's again at once; results arrive
 * in parts. */
static void much_travels_beside_other_runs(void **state) {
    struct ingot_context *context = make_context(NULL);
    struct ingot_error error;
    void *results[IN_A_ROW];
    size_t in = (size_t)MANY * PIXELS * sizeof(float), out = (size_t)MANY * CLASSES * sizeof(float);
    float *many = malloc(in), *there = malloc(out);
    bind(context, MANY, many, INGOT_HOST);
    for (int i = 0; i < IN_A_ROW; i++)
        must(ingot_context_allocate(context, INGOT_PINNED, out, &results[i], &error), &error);
    for (int turn = 0; turn < 2 * IN_A_ROW; turn++) {
        fill(many, turn);
        must(ingot_context_set_output_in(context, 0, INGOT_PINNED, results[turn % IN_A_ROW], out, &error), &error);
        must(ingot_context_enqueue(context, NULL, &error), &error);
        memset(many, 0xff, in);
    }
    must(ingot_context_wait(context, &error), &error);
    for (int turn = IN_A_ROW; turn < 2 * IN_A_ROW; turn++)
        check_many(results[turn % IN_A_ROW], turn);
    must(ingot_context_set_output(context, 0, there, out, &error), &error);
    for (int turn = 0; turn < 3; turn++) {
        fill(many, turn);
        run(context);
        check_many(there, turn);
    }
    for (int i = 0; i < IN_A_ROW; i++)
        ingot_context_free(context, INGOT_PINNED, results[i], out);
    free(there);
    free(many);
    ingot_context_destroy(context);
}

static void times_and_profiles(void **state) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.timing = options.profile = true;
    struct ingot_context *context = make_context(&options);
    struct ingot_error error;
    struct ingot_timing timing;
    struct ingot_profile_row rows[32];
    bind(context, 7, pixels, INGOT_HOST);
    uint64_t begin = test_now_ns();
    for (int i = 0; i < 3; i++)
        run(context);
    double most = (double)(test_now_ns() - begin) / 1e6;
    check(context, 7);
    must(ingot_context_timing(context, &timing, &error), &error);
    assert_true(timing.input_ms > 0 && timing.compute_ms > 0 && timing.output_ms > 0);
    assert_true(timing.input_ms + timing.compute_ms + timing.output_ms < most);
    size_t n = ingot_context_profile(context, rows, 32);
    assert_true(n > 0 && n <= 32);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].calls == 0) continue; /* a kernel for other sizes */
        assert_true(rows[i].calls == 3 && rows[i].total_ms > 0 && rows[i].total_ms < most);
    }
    ingot_context_destroy(context);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    int number;
    bool differs;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    struct ingot_context *context = make_context(NULL);
    for (int turn = 0; turn < 100; turn++) {
        int64_t batch = batches[(turn + worker->number) % 5];
        bind(context, batch, pixels, INGOT_HOST);
        run(context);
        worker->differs = worker->differs || !agree(result(context), expected, batch);
    }
    ingot_context_destroy(context);
    return NULL;
}

static void contexts_run_side_by_side(void **state) {
    struct worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){.number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 4; i++)
        assert_false(workers[i].differs);
}

/* ---- The caller's own streams ------------------------------------------------------------------------------------------------ */

struct driver {
    void *library;
    int (*retain)(void **context, int device);
    int (*set)(void *context);
    int (*get)(void **context);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*launch_host_function)(void *stream, void (*function)(void *), void *argument);
};

static void open_driver(struct driver *d) {
    d->library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(d->library);
    *(void **)&d->retain = dlsym(d->library, "cuDevicePrimaryCtxRetain");
    *(void **)&d->set = dlsym(d->library, "cuCtxSetCurrent");
    *(void **)&d->get = dlsym(d->library, "cuCtxGetCurrent");
    *(void **)&d->stream_create = dlsym(d->library, "cuStreamCreate");
    *(void **)&d->stream_destroy = dlsym(d->library, "cuStreamDestroy_v2");
    *(void **)&d->stream_synchronize = dlsym(d->library, "cuStreamSynchronize");
    *(void **)&d->launch_host_function = dlsym(d->library, "cuLaunchHostFunc");
}

static void runs_on_the_callers_streams(void **state) {
    struct driver d;
    void *own, *current = NULL, *streams[3];
    struct ingot_error error;
    open_driver(&d);
    struct ingot_context *context = make_context(NULL);
    assert_int_equal(d.get(&current), 0);
    assert_null(current); /* nothing was left current */
    assert_int_equal(d.retain(&own, 0), 0);
    assert_int_equal(d.set(own), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(d.stream_create(&streams[i], 1), 0);
    for (int turn = 0; turn < 30; turn++) {
        int64_t batch = batches[turn % 5];
        bind(context, batch, pixels, INGOT_HOST);
        must(ingot_context_enqueue(context, streams[turn % 3], &error), &error);
        if (turn % 4 == 3) continue; /* the next run follows without a wait, on another stream */
        must(ingot_context_wait(context, &error), &error);
        check(context, batch);
    }
    must(ingot_context_wait(context, &error), &error);
    assert_int_equal(d.get(&current), 0);
    assert_ptr_equal(current, own);
    ingot_context_destroy(context);
    for (int i = 0; i < 3; i++)
        assert_int_equal(d.stream_destroy(streams[i]), 0);
    d.set(NULL);
    dlclose(d.library);
}

static void await_semaphore(void *semaphore) {
    while (sem_wait(semaphore) != 0)
        continue;
}

/* While the stream is blocked, two runs can be enqueued on it; if that waited for the GPU, this test would not end. */
static void enqueueing_does_not_wait(void **state) {
    struct driver d;
    void *own, *stream;
    sem_t semaphore;
    struct ingot_error error;
    open_driver(&d);
    struct ingot_context *context = make_context(NULL);
    assert_int_equal(sem_init(&semaphore, 0, 0), 0);
    assert_int_equal(d.retain(&own, 0), 0);
    assert_int_equal(d.set(own), 0);
    assert_int_equal(d.stream_create(&stream, 1), 0);
    bind(context, 7, pixels, INGOT_HOST);
    for (int turn = 0; turn < 5; turn++) {
        if (turn > 0) assert_int_equal(d.launch_host_function(stream, await_semaphore, &semaphore), 0);
        must(ingot_context_enqueue(context, stream, &error), &error);
        must(ingot_context_enqueue(context, stream, &error), &error);
        if (turn > 0) sem_post(&semaphore);
        must(ingot_context_wait(context, &error), &error);
        check(context, 7);
    }
    ingot_context_destroy(context);
    assert_int_equal(d.stream_destroy(stream), 0);
    sem_destroy(&semaphore);
    d.set(NULL);
    dlclose(d.library);
}

/* ---- Set-up -------------------------------------------------------------------------------------------------------------------- */

static void run_on_cpu(void) {
    struct ingot_error error;
    struct ingot_engine *other;
    struct ingot_context *context;
    struct ingot_tensor output;
    must(ingot_engine_load_memory(on_cpu.data, on_cpu.size, NULL, &other, &error), &error);
    must(ingot_context_create(other, NULL, &context, &error), &error);
    bind(context, LARGEST, pixels, INGOT_HOST);
    run(context);
    must(ingot_context_output(context, 0, &output, &error), &error);
    memcpy(expected, output.data, sizeof expected);
    ingot_context_destroy(context);
    ingot_engine_release(other);
}

static int set_up(void **state) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_error error;
    test_pictures(pixels, LARGEST);
    test_network_build(&on_cpu, model_path, NULL);
    run_on_cpu();
    options.target = "cuda";
    test_network_build(&on_gpu, model_path, &options);
    must(ingot_engine_load_memory(on_gpu.data, on_gpu.size, NULL, &engine, &error), &error);
    return 0;
}

static int tear_down(void **state) {
    ingot_engine_release(engine);
    test_network_release(&on_gpu);
    test_network_release(&on_cpu);
    return 0;
}

/* An argument names the network's file, for machines without the sources. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_engine_runs_all_batches), cmocka_unit_test(data_may_lie_anywhere),
        cmocka_unit_test(times_and_profiles),          cmocka_unit_test(much_travels_beside_other_runs),
        cmocka_unit_test(contexts_run_side_by_side),   cmocka_unit_test(runs_on_the_callers_streams),
        cmocka_unit_test(enqueueing_does_not_wait),
    };
    struct ingot_error error = {0};
    if (argc > 1) model_path = argv[1];
    if (!test_network_fits_gpu(model_path, &error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    return cmocka_run_group_tests_name("the example network on a GPU", tests, set_up, tear_down);
}
