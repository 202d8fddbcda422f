/* One engine, eight threads with a context each, a thousand runs in all: the results are bit-identical. Run under
 * ThreadSanitizer. */
#include <pthread.h>
#include <string.h>

#include "support/model/network.h"
#include "support/support.h"

enum { n_threads = 8, n_runs = 125, n_pictures = 5 };

struct worker {
    pthread_t thread;
    struct ingot_engine *engine;
    const float *pixels;
    float (*expected)[10 * n_pictures]; /* by batch size, which may change rounding */
    struct ingot_error error;
    enum ingot_status status;
    bool differs;
    const char *explanation; /* the first to ask unpacks it */
};

static enum ingot_status classify(struct ingot_context *context, const float *pixels, int64_t batch, float *out,
                                  struct ingot_error *error) {
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, (void *)pixels, INGOT_HOST}, output;
    enum ingot_status status = ingot_context_set_input(context, 0, &input, error);
    if (!status) status = ingot_context_run(context, error);
    if (!status) status = ingot_context_output(context, 0, &output, error);
    if (!status) memcpy(out, output.data, sizeof(float) * 10 * (size_t)batch);
    return status;
}

static void *work(void *argument) {
    struct worker *w = argument;
    struct ingot_context *context;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    w->status = ingot_engine_explanation(w->engine, &w->explanation, &w->error);
    if (!w->status) w->status = ingot_context_create(w->engine, &options, &context, &w->error);
    if (w->status) return NULL;
    float out[10 * n_pictures];
    for (int run = 0; !w->status && run < n_runs; run++) {
        int64_t batch = 1 + run % n_pictures;
        w->status = classify(context, w->pixels, batch, out, &w->error);
        if (!w->status && memcmp(out, w->expected[batch], sizeof(float) * 10 * (size_t)batch) != 0) w->differs = true;
    }
    ingot_context_destroy(context);
    return NULL;
}

static void test_eight_contexts(void **state) {
    static float pixels[64 * n_pictures], expected[n_pictures + 1][10 * n_pictures];
    uint64_t seed = 5;
    for (int i = 0; i < 64 * n_pictures; i++)
        pixels[i] = test_random(&seed);
    struct test_network network;
    test_network_build(&network, TEST_DIGITS, NULL);
    struct ingot_error error = {0};
    struct ingot_engine *engine;
    struct ingot_context *context;
    assert_int_equal(ingot_engine_load_memory(network.data, network.size, NULL, &engine, &error), INGOT_OK);
    assert_int_equal(ingot_context_create(engine, NULL, &context, &error), INGOT_OK);
    for (int64_t batch = 1; batch <= n_pictures; batch++)
        assert_int_equal(classify(context, pixels, batch, expected[batch], &error), INGOT_OK);
    static struct worker workers[n_threads];
    for (int i = 0; i < n_threads; i++) {
        workers[i] = (struct worker){.engine = engine, .pixels = pixels, .expected = expected};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < n_threads; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < n_threads; i++) {
        if (workers[i].status) fail_msg("%s", workers[i].error.message);
        assert_false(workers[i].differs);
        assert_ptr_equal(workers[i].explanation, workers[0].explanation);
    }
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    test_network_release(&network);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_eight_contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
