/*
 * Two engines concurrently on two GPUs, from two threads of one process, while each thread's own current context is on
 * the other GPU: results are correct, and that context is never changed. Through the public API; skipped without two
 * GPUs or NVRTC. cuda_run_test.c tests the same on a stand-in for the driver.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/model/network.h"

enum { LARGEST = 128, TURNS = 200 };

static const char *model_path = TEST_DIGITS;
static struct test_network network;
static float pixels[LARGEST * PIXELS];

/* The driver, used by the caller directly. */
static struct {
    void *library;
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*set)(void *context);
    int (*get)(void **context);
} driver;

struct user {
    pthread_t thread;
    int gpu;
    unsigned moved; /* calls after which the current context had changed */
    struct ingot_error error;
    float results[LARGEST * CLASSES];
};

static enum ingot_status run_once(struct user *user, struct ingot_context *context, int64_t batch) {
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, pixels, INGOT_HOST}, output;
    enum ingot_status status = ingot_context_set_input(context, 0, &input, &user->error);
    if (status == INGOT_OK) status = ingot_context_run(context, &user->error);
    if (status == INGOT_OK) status = ingot_context_output(context, 0, &output, &user->error);
    if (status == INGOT_OK) memcpy(user->results, output.data, (size_t)batch * CLASSES * sizeof(float));
    return status;
}

static enum ingot_status run_engine(struct user *user, void *own) {
    static const int64_t batches[] = {1, 7, 32, LARGEST};
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_engine *engine;
    struct ingot_context *context = NULL;
    void *current;
    options.device = user->gpu;
    enum ingot_status status = ingot_engine_load_memory(network.data, network.size, NULL, &engine, &user->error);
    if (status != INGOT_OK) return status;
    status = ingot_context_create(engine, &options, &context, &user->error);
    for (int turn = 0; status == INGOT_OK && turn < TURNS; turn++) {
        status = run_once(user, context, batches[turn % 4]);
        user->moved += driver.get(&current) != 0 || current != own;
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    user->moved += driver.get(&current) != 0 || current != own;
    return status;
}

static void *use(void *argument) {
    struct user *user = argument;
    void *own;
    int other = 1 - user->gpu;
    if (driver.retain(&own, other) != 0 || driver.set(own) != 0) {
        user->moved = TURNS;
        return NULL;
    }
    run_engine(user, own);
    driver.set(NULL);
    driver.release(other);
    return NULL;
}

static void two_engines_run_at_once(void **state) {
    static struct user users[2];
    for (int i = 0; i < 2; i++) {
        users[i].gpu = i;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(users[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(users[i].error.message, "");
        assert_int_equal(users[i].moved, 0);
    }
    for (int i = 0; i < LARGEST * CLASSES; i++) {
        assert_true(users[0].results[i] > 0);
        assert_true(users[0].results[i] == users[1].results[i]);
    }
}

/* ---- Set-up ----------------------------------------------------------------------------------------------------------------- */

static int set_up(void **state) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    test_pictures(pixels, LARGEST);
    options.target = "cuda";
    test_network_build(&network, model_path, &options);
    return 0;
}

static int tear_down(void **state) {
    test_network_release(&network);
    return 0;
}

static bool open_driver(void) {
    int count = 0;
    struct ingot_error error;
    if (ingot_gpu_count(&count, &error) != INGOT_OK || count < 2) return false;
    driver.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver.library) return false;
    *(void **)&driver.retain = dlsym(driver.library, "cuDevicePrimaryCtxRetain");
    *(void **)&driver.release = dlsym(driver.library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&driver.set = dlsym(driver.library, "cuCtxSetCurrent");
    *(void **)&driver.get = dlsym(driver.library, "cuCtxGetCurrent");
    return driver.retain && driver.release && driver.set && driver.get;
}

/* An argument names the network's file, for machines without the sources. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_engines_run_at_once)};
    if (argc > 1) model_path = argv[1];
    if (!open_driver()) {
        printf("skipped: there are not two GPUs\n");
        return 77;
    }
    return cmocka_run_group_tests_name("two GPUs", tests, set_up, tear_down);
}
