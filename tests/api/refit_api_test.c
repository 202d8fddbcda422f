/*
 * Refitting through the public API: a loaded engine takes new weights between runs, also while threads run it, and keeps
 * the old ones where that fails. Run under ThreadSanitizer.
 *
 * INGOT_REFIT_SWITCHES is how often an adapter is put on and taken off while threads run (100 by default).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/engine.h"
#include "base/hash/hash.h"
#include "support/model/adapter.h"
#include "support/model/network.h"
#include "support/support.h"

enum { THREADS = 8, RUNS = 1250, PICTURES = 3, MOST_TENSORS = 8 };

/* Two sets of the example's weights, and what they give. */
struct weights {
    struct ingot_named_tensor tensors[MOST_TENSORS];
    size_t n;
    float expected[PICTURES + 1][CLASSES * PICTURES]; /* by batch size */
};

static struct ingot_tensors *file;
static struct weights first, second;
static struct test_network network;
static float pixels[PIXELS * PICTURES];
static char folder[] = "/tmp/ingot-refit-test-XXXXXX", path[64], other[64];

static enum ingot_status classify(struct ingot_context *context, int64_t batch, float *out, struct ingot_error *error) {
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, pixels, INGOT_HOST}, output;
    enum ingot_status status = ingot_context_set_input(context, 0, &input, error);
    if (!status) status = ingot_context_run(context, error);
    if (!status) status = ingot_context_output(context, 0, &output, error);
    if (!status) memcpy(out, output.data, sizeof(float) * CLASSES * (size_t)batch);
    return status;
}

static struct ingot_context *make_context(struct ingot_engine *engine) {
    struct ingot_context *context;
    struct ingot_error error;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    if (ingot_context_create(engine, &options, &context, &error)) fail_msg("%s", error.message);
    return context;
}

static struct ingot_engine *load(const char *engine_path) {
    struct ingot_engine *engine;
    struct ingot_error error;
    if (ingot_engine_load(engine_path, NULL, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static void refit(struct ingot_engine *engine, const struct weights *weights, size_t changed) {
    struct ingot_refit_info info;
    struct ingot_error error;
    if (ingot_engine_refit(engine, weights->tensors, weights->n, NULL, &info, &error)) fail_msg("%s", error.message);
    assert_int_equal(info.changed, changed);
    assert_int_equal(info.changed + info.unchanged, weights->n);
}

static void expect(struct ingot_context *context, const struct weights *weights) {
    float out[CLASSES * PICTURES];
    struct ingot_error error;
    for (int64_t batch = 1; batch <= PICTURES; batch++) {
        if (classify(context, batch, out, &error)) fail_msg("%s", error.message);
        assert_memory_equal(out, weights->expected[batch], sizeof(float) * CLASSES * (size_t)batch);
    }
}

/* What an engine that was built with the weights gives. */
static void find_expected(const char *engine_path, struct weights *weights) {
    struct ingot_engine *engine = load(engine_path);
    struct ingot_context *context = make_context(engine);
    struct ingot_error error;
    for (int64_t batch = 1; batch <= PICTURES; batch++)
        if (classify(context, batch, weights->expected[batch], &error)) fail_msg("%s", error.message);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
}

static void write_file(const char *to, const void *data, size_t size) {
    FILE *out = fopen(to, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    fclose(out);
}

static int set_up(void **state) {
    struct ingot_error error;
    uint64_t seed = 3;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/first.ingot", folder);
    snprintf(other, sizeof other, "%s/second.ingot", folder);
    test_network_build(&network, TEST_DIGITS, NULL);
    write_file(path, network.data, network.size);
    test_pictures(pixels, PICTURES);
    if (ingot_tensors_open(TEST_DIGITS, NULL, &file, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *list = ingot_tensors_list(file, &first.n);
    assert_in_range(first.n, 1, MOST_TENSORS);
    memcpy(first.tensors, list, first.n * sizeof *list);
    memcpy(second.tensors, list, first.n * sizeof *list);
    second.n = first.n;
    for (size_t i = 0; i < second.n; i++) {
        int64_t count = ingot_tensor_elements(&list[i].tensor);
        float *data = malloc((size_t)count * sizeof *data);
        for (int64_t k = 0; k < count; k++)
            data[k] = ((const float *)list[i].tensor.data)[k] + 0.1f * test_random(&seed);
        second.tensors[i].tensor.data = data;
    }
    if (ingot_refit_file(path, second.tensors, second.n, NULL, other, NULL, &error)) fail_msg("%s", error.message);
    find_expected(path, &first);
    find_expected(other, &second);
    assert_memory_not_equal(first.expected, second.expected, sizeof first.expected);
    return 0;
}

static int tear_down(void **state) {
    for (size_t i = 0; i < second.n; i++)
        free(second.tensors[i].tensor.data);
    ingot_tensors_close(file);
    test_network_release(&network);
    unlink(path);
    unlink(other);
    rmdir(folder);
    return 0;
}

static void run_in_turn(struct ingot_engine *engine) {
    struct ingot_context *a = make_context(engine), *b = make_context(engine), *idle = make_context(engine);
    expect(a, &first);
    expect(idle, &first);
    for (int i = 0; i < 3; i++) {
        refit(engine, &second, second.n);
        refit(engine, &second, 0);
        expect(a, &second);
        struct ingot_context *late = make_context(engine);
        expect(late, &second);
        ingot_context_destroy(late);
        refit(engine, &first, first.n);
        expect(b, &first);
        expect(a, &first);
    }
    expect(idle, &first);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
    ingot_context_destroy(idle);
}

static void test_from_a_file(void **state) {
    struct ingot_engine *engine = load(path);
    run_in_turn(engine);
    ingot_engine_release(engine);
}

static void test_from_memory(void **state) {
    struct ingot_engine *engine;
    struct ingot_error error;
    unsigned char *copy = malloc(network.size);
    memcpy(copy, network.data, network.size);
    if (ingot_engine_load_memory(network.data, network.size, NULL, &engine, &error)) fail_msg("%s", error.message);
    run_in_turn(engine);
    assert_memory_equal(copy, network.data, network.size); /* the caller's memory is not written */
    ingot_engine_release(engine);
    free(copy);
}

/* One tensor at a time, whose values the engine then has. */
static void test_partly(void **state) {
    struct ingot_engine *engine = load(path);
    struct ingot_context *context = make_context(engine);
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_refit_info info;
    struct ingot_error error;
    options.partial = true;
    for (size_t i = 0; i < second.n; i++) {
        if (ingot_engine_refit(engine, &second.tensors[i], 1, &options, &info, &error)) fail_msg("%s", error.message);
        assert_int_equal(info.changed, 1);
        if (ingot_engine_refit(engine, &second.tensors[i], 1, &options, &info, &error)) fail_msg("%s", error.message);
        assert_int_equal(info.changed, 0);
    }
    expect(context, &second);
    const char *const only[] = {first.tensors[0].name};
    options.partial = false;
    options.only = only;
    options.n_only = 1;
    if (ingot_engine_refit(engine, first.tensors, first.n, &options, &info, &error)) fail_msg("%s", error.message);
    assert_int_equal(info.changed, 1);
    refit(engine, &first, first.n - 1);
    expect(context, &first);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
}

static void test_refusals(void **state) {
    struct ingot_engine *engine = load(path);
    struct ingot_context *context = make_context(engine);
    struct ingot_error error;
    struct weights bad = second;
    assert_int_equal(ingot_engine_refit(engine, second.tensors, second.n - 1, NULL, NULL, &error),
                     INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "no tensor is given for"));
    bad.tensors[1].tensor.dtype = INGOT_F16;
    assert_int_equal(ingot_engine_refit(engine, bad.tensors, bad.n, NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "expected f32["));
    assert_non_null(strstr(error.message, "found f16["));
    bad = second;
    bad.tensors[0].name = "nobody";
    assert_int_equal(ingot_engine_refit(engine, bad.tensors, bad.n, NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "'nobody'"));
    assert_int_equal(ingot_engine_refit(NULL, NULL, 0, NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    expect(context, &first);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
}

/* An engine without weights runs once it has some. */
static void test_without_weights(void **state) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct test_network bare;
    struct ingot_engine *engine;
    struct ingot_context *context;
    struct ingot_error error;
    options.strip_weights = true;
    test_network_build(&bare, TEST_DIGITS, &options);
    assert_true(bare.size < network.size);
    if (ingot_engine_load_memory(bare.data, bare.size, NULL, &engine, &error)) fail_msg("%s", error.message);
    assert_int_equal(ingot_context_create(engine, NULL, &context, &error), INGOT_BAD_ENGINE);
    assert_non_null(strstr(error.message, "without its weights"));
    struct ingot_refit_options partial = INGOT_REFIT_OPTIONS_INIT;
    partial.partial = true;
    assert_int_equal(ingot_engine_refit(engine, first.tensors, 1, &partial, NULL, &error), INGOT_INVALID_ARGUMENT);
    refit(engine, &first, first.n);
    context = make_context(engine);
    expect(context, &first);
    refit(engine, &second, second.n);
    expect(context, &second);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    test_network_release(&bare);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------- */

struct runner {
    pthread_t thread;
    struct ingot_engine *engine;
    const struct weights *old_weights, *new_weights;
    int runs; /* 0: until `stopped` */
    enum ingot_status status;
    struct ingot_error error;
    int old, new, mixed;
};

static atomic_int running;
static atomic_bool stopped;

static void *run(void *argument) {
    struct runner *r = argument;
    struct ingot_context *context = make_context(r->engine);
    float out[CLASSES * PICTURES];
    for (int i = 0; !r->status && (r->runs ? i < r->runs : !atomic_load(&stopped)); i++) {
        int64_t batch = 1 + i % PICTURES;
        size_t size = sizeof(float) * CLASSES * (size_t)batch;
        r->status = classify(context, batch, out, &r->error);
        bool is_old = memcmp(out, r->old_weights->expected[batch], size) == 0;
        bool is_new = memcmp(out, r->new_weights->expected[batch], size) == 0;
        r->old += is_old;
        r->new += is_new;
        r->mixed += !is_old && !is_new;
    }
    ingot_context_destroy(context);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Each of 10,000 runs has one set of weights or the other. */
static void test_threads(void **state) {
    static struct runner runners[THREADS];
    struct ingot_engine *engine = load(path);
    int refits = 0;
    atomic_store(&running, THREADS);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.engine = engine, .old_weights = &first, .new_weights = &second, .runs = RUNS};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
    }
    for (; atomic_load(&running) > 0 || refits < 2; refits++)
        refit(engine, refits % 2 ? &first : &second, first.n);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(runners[i].thread, NULL);
        if (runners[i].status) fail_msg("%s", runners[i].error.message);
        assert_int_equal(runners[i].mixed, 0);
        assert_int_equal(runners[i].old + runners[i].new, RUNS);
    }
    ingot_engine_release(engine);
}

/* ---- Adapters ------------------------------------------------------------------------------------------------------- */

static int switches(void) {
    const char *text = getenv("INGOT_REFIT_SWITCHES");
    return text ? atoi(text) : 100;
}

static uint64_t weights_checksum(struct ingot_engine *engine) {
    const struct ig_weight_set *set = atomic_load(&engine->resident.host.current);
    return ig_hash64(ig_weight_address(&set->places, 0), engine->file.weights_size);
}

static void refit_partly(struct ingot_engine *engine, const struct ingot_named_tensor *tensors, size_t n) {
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    struct ingot_refit_info info;
    struct ingot_error error;
    options.partial = true;
    if (ingot_engine_refit(engine, tensors, n, &options, &info, &error)) fail_msg("%s", error.message);
    assert_int_equal(info.changed, 1);
    assert_int_equal(info.weights, 1);
}

/* An adapter is put on the last layer, by a refit of its weight alone, and taken off again, while threads run: each run
 * has it or not, and at the end the weights are the first ones, to the bit. */
static void test_adapter_switches(void **state) {
    static const struct test_adapter_layer layer = {"dense", 10, 512, 3};
    static struct runner runners[THREADS];
    static struct weights with;
    struct ingot_engine *engine = load(path);
    struct ingot_context *context = make_context(engine);
    struct ingot_tensors *adapter;
    struct ingot_error error;
    char lora[64];
    size_t n;
    snprintf(lora, sizeof lora, "%s/lora", folder);
    test_adapter_write(lora, &layer, 1, 1);
    if (ingot_tensors_open_adapter(lora, first.tensors, first.n, NULL, &adapter, &error)) fail_msg("%s", error.message);
    const struct ingot_named_tensor *on = ingot_tensors_list(adapter, &n), *off = first.tensors;
    assert_int_equal(n, 1);
    while (strcmp(off->name, on->name) != 0)
        off++;
    const uint64_t checksum = weights_checksum(engine);
    refit_partly(engine, on, 1);
    for (int64_t batch = 1; batch <= PICTURES; batch++)
        if (classify(context, batch, with.expected[batch], &error)) fail_msg("%s", error.message);
    assert_memory_not_equal(first.expected, with.expected, sizeof first.expected);
    assert_int_not_equal(weights_checksum(engine), checksum);
    atomic_store(&stopped, false);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.engine = engine, .old_weights = &first, .new_weights = &with};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
    }
    for (int i = 0; i < switches(); i++) {
        refit_partly(engine, off, 1);
        refit_partly(engine, on, 1);
    }
    refit_partly(engine, off, 1);
    atomic_store(&stopped, true);
    int runs = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(runners[i].thread, NULL);
        if (runners[i].status) fail_msg("%s", runners[i].error.message);
        assert_int_equal(runners[i].mixed, 0);
        runs += runners[i].old + runners[i].new;
    }
    print_message("%d runs meanwhile\n", runs);
    assert_int_equal(weights_checksum(engine), checksum);
    expect(context, &first);
    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_tensors_close(adapter);
    test_adapter_remove(lora);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_a_file),      cmocka_unit_test(test_from_memory),     cmocka_unit_test(test_partly),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_without_weights), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_adapter_switches),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
