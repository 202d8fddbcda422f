/*
 * Arenas through the public API, with engines for the CPU: what is refused, the exact size, releases in any order, and
 * the statement that any thread may call any function at any time. Run under ThreadSanitizer.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/model/network.h"

enum { ENGINES = 2, LARGEST = 9 };

static struct test_network networks[ENGINES];
static struct ingot_engine *engines[ENGINES];
static float pixels[LARGEST * PIXELS], expected[ENGINES][LARGEST + 1][LARGEST * CLASSES];
static size_t needs[ENGINES][LARGEST + 1], largest_need;

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status) fail_msg("%s", error->message);
}

static struct ingot_arena *make_arena(struct ingot_arena_options options) {
    struct ingot_error error;
    struct ingot_arena *arena;
    options.struct_size = sizeof options;
    must(ingot_arena_create(&options, &arena, &error), &error);
    return arena;
}

static struct ingot_context *make_context(int engine, struct ingot_arena *arena) {
    struct ingot_error error;
    struct ingot_context *context;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    options.arena = arena;
    must(ingot_context_create(engines[engine], &options, &context, &error), &error);
    return context;
}

static enum ingot_status classify(struct ingot_context *context, int64_t batch, float *out, struct ingot_error *error) {
    struct ingot_tensor input = {INGOT_F32, 4, {batch, 1, 8, 8}, pixels, INGOT_HOST}, output;
    enum ingot_status status = ingot_context_set_input(context, 0, &input, error);
    if (!status) status = ingot_context_run(context, error);
    if (!status) status = ingot_context_output(context, 0, &output, error);
    if (!status) memcpy(out, output.data, sizeof(float) * CLASSES * (size_t)batch);
    return status;
}

static bool is_right(struct ingot_context *context, int engine, int64_t batch) {
    struct ingot_error error;
    float out[LARGEST * CLASSES];
    must(classify(context, batch, out, &error), &error);
    return memcmp(out, expected[engine][batch], sizeof(float) * CLASSES * (size_t)batch) == 0;
}

static struct ingot_arena_info describe(struct ingot_arena *arena) {
    struct ingot_arena_info info;
    assert_int_equal(ingot_arena_describe(arena, &info, NULL), INGOT_OK);
    return info;
}

static int set_up(void **state) {
    struct ingot_error error;
    test_pictures(pixels, LARGEST);
    for (int e = 0; e < ENGINES; e++) {
        struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
        options.opt_level = e ? 1 : 3;
        test_network_build(&networks[e], TEST_DIGITS, &options);
        must(ingot_engine_load_memory(networks[e].data, networks[e].size, NULL, &engines[e], &error), &error);
        struct ingot_context *alone = make_context(e, NULL);
        for (int64_t batch = 1; batch <= LARGEST; batch++) {
            struct ingot_memory_info info;
            must(classify(alone, batch, expected[e][batch], &error), &error);
            must(ingot_context_memory(alone, &info, &error), &error);
            needs[e][batch] = info.arena_bytes;
            if (info.arena_bytes > largest_need) largest_need = info.arena_bytes;
        }
        ingot_context_destroy(alone);
    }
    return 0;
}

static int tear_down(void **state) {
    for (int e = 0; e < ENGINES; e++) {
        ingot_engine_release(engines[e]);
        test_network_release(&networks[e]);
    }
    return 0;
}

static void nonsense_is_refused(void **state) {
    static _Alignas(64) char memory[128];
    static const struct {
        struct ingot_arena_options options;
        const char *text;
    } wrong[] = {
        {{.memory = INGOT_PINNED}, "memory is 1, an arena's is INGOT_HOST or INGOT_CUDA"},
        {{.memory = (enum ingot_memory)7}, "memory is 7"},
        {{.device = -1}, "device is -1"},
        {{.size = 64}, "size is 64, but data is NULL"},
        {{.data = memory, .size = 64, .max_bytes = 64}, "never grows"},
        {{.data = memory + 32, .size = 64}, "not aligned to 64 bytes"},
    };
    struct ingot_error error;
    struct ingot_arena *arena = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ingot_arena_options options = wrong[i].options;
        options.struct_size = sizeof options;
        assert_int_equal(ingot_arena_create(&options, &arena, &error), INGOT_INVALID_ARGUMENT);
        if (!strstr(error.message, wrong[i].text)) fail_msg("%s", error.message);
        assert_null(arena);
    }
    assert_int_equal(ingot_arena_create(NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_arena_describe(NULL, NULL, &error), INGOT_INVALID_ARGUMENT);
    ingot_arena_retain(NULL);
    ingot_arena_release(NULL);
    ingot_arena_trim(NULL);
}

/* The size is known before anything is allocated, and one byte less is too little. */
static void the_size_is_known_before(void **state) {
    struct ingot_error error;
    for (int less = 0; less < 2; less++) {
        struct ingot_arena *first = make_arena((struct ingot_arena_options){0});
        struct ingot_context *context = make_context(0, first);
        struct ingot_tensor input = {INGOT_F32, 4, {LARGEST, 1, 8, 8}, pixels, INGOT_HOST};
        struct ingot_memory_info info;
        must(ingot_context_set_input(context, 0, &input, &error), &error);
        must(ingot_context_memory(context, &info, &error), &error);
        assert_int_equal(describe(first).bytes, 0);
        ingot_arena_release(first);
        ingot_context_destroy(context);
        const size_t size = info.arena_bytes - (size_t)less;
        char *memory = aligned_alloc(64, info.arena_bytes), text[64];
        struct ingot_arena *arena = make_arena((struct ingot_arena_options){.data = memory, .size = size});
        context = make_context(0, arena);
        snprintf(text, sizeof text, "activations with batch=%d: %zu bytes needed", LARGEST, info.arena_bytes);
        if (less) {
            float out[LARGEST * CLASSES];
            assert_int_equal(classify(context, LARGEST, out, &error), INGOT_OUT_OF_MEMORY);
            if (!strstr(error.message, text) || !strstr(error.message, ": 1 bytes are missing"))
                fail_msg("%s", error.message);
        }
        assert_true(is_right(context, 0, LARGEST - less));
        ingot_context_destroy(context);
        ingot_arena_release(arena);
        free(memory);
    }
}

/* All orders of releasing two contexts, their engine and their arena; those that remain still work. */
static void anything_may_go_first(void **state) {
    for (int order = 0; order < 24; order++) {
        struct test_allocator allocator;
        struct ingot_error error;
        test_allocator_init(&allocator);
        struct ingot_load_options load = INGOT_LOAD_OPTIONS_INIT;
        load.allocator = &allocator.base;
        struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
        struct ingot_engine *engine;
        struct ingot_context *contexts[2];
        options.arena = make_arena((struct ingot_arena_options){.allocator = &allocator.base});
        options.threads = 1;
        must(ingot_engine_load_memory(networks[0].data, networks[0].size, &load, &engine, &error), &error);
        for (int i = 0; i < 2; i++)
            must(ingot_context_create(engine, &options, &contexts[i], &error), &error);
        int left[4] = {0, 1, 2, 3};
        for (int n = 4, code = order; n > 0; code /= n, n--) {
            const int at = code % n, which = left[at];
            for (int i = 0; i < 2; i++) {
                if (contexts[i]) assert_true(is_right(contexts[i], 0, 1 + (order + n) % LARGEST));
            }
            if (which < 2) ingot_context_destroy(contexts[which]);
            if (which < 2) contexts[which] = NULL;
            if (which == 2) ingot_engine_release(engine);
            if (which == 3) ingot_arena_release(options.arena);
            memmove(left + at, left + at + 1, (size_t)(n - at - 1) * sizeof *left);
        }
        assert_int_equal(allocator.live, 0);
    }
}

/* Returns INGOT_OK if all of it succeeded. */
static enum ingot_status use_all(const struct ingot_allocator *allocator, struct ingot_error *error) {
    struct ingot_arena_options of_arena = INGOT_ARENA_OPTIONS_INIT;
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    struct ingot_context *context;
    float out[LARGEST * CLASSES];
    of_arena.allocator = options.allocator = allocator;
    options.threads = 1;
    enum ingot_status status = ingot_arena_create(&of_arena, &options.arena, error);
    if (status) return status;
    status = ingot_context_create(engines[0], &options, &context, error);
    ingot_arena_release(options.arena);
    if (status) return status;
    for (int64_t batch = 1; !status && batch <= LARGEST; batch += 4) {
        status = classify(context, batch, out, error);
        if (status) assert_true(is_right(context, 0, batch)); /* only one allocation fails */
    }
    ingot_context_destroy(context);
    return status;
}

static void every_allocation_may_fail(void **state) {
    enum ingot_status status;
    long n = 0;
    do {
        struct test_allocator allocator;
        struct ingot_error error;
        test_allocator_init(&allocator);
        allocator.fail_at = ++n;
        status = use_all(&allocator.base, &error);
        if (status) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_int_equal(allocator.live, 0);
    } while (status);
    assert_true(n > 20);
}

/* ---- Threads ------------------------------------------------------------------------------------------------------------ */

enum { THREADS = 8, EACH = 2, RUNS = 1500 };

struct worker {
    pthread_t thread;
    struct ingot_arena *arena;
    int number, wrong;
    bool meddles; /* trims, and makes contexts anew */
};

static void *work(void *argument) {
    struct worker *w = argument;
    struct ingot_context *contexts[EACH];
    uint32_t seed = (uint32_t)w->number;
    for (int i = 0; i < EACH; i++)
        contexts[i] = make_context((w->number + i) % ENGINES, w->arena);
    for (int turn = 0; turn < RUNS; turn++) {
        seed = seed * 1664525u + 1013904223u;
        int i = seed / 65536 % EACH, engine = (w->number + i) % ENGINES;
        w->wrong += !is_right(contexts[i], engine, 1 + seed / 1024 % LARGEST);
        if (!w->meddles || turn % 50) continue;
        ingot_arena_retain(w->arena);
        ingot_arena_trim(w->arena);
        ingot_context_destroy(contexts[i]);
        w->wrong += describe(w->arena).bytes > largest_need;
        contexts[i] = make_context(engine, w->arena);
        ingot_arena_release(w->arena);
    }
    for (int i = 0; i < EACH; i++)
        ingot_context_destroy(contexts[i]);
    ingot_arena_release(w->arena);
    return NULL;
}

static void share(bool meddles) {
    struct worker workers[THREADS];
    struct ingot_arena *arena = make_arena((struct ingot_arena_options){0});
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.arena = arena, .number = t, .meddles = meddles};
        ingot_arena_retain(arena);
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        assert_int_equal(workers[t].wrong, 0);
    }
    struct ingot_arena_info info = describe(arena);
    assert_int_equal(info.peak_bytes, largest_need);
    assert_int_equal(info.executions, THREADS * RUNS);
    assert_int_equal(info.contexts, 0);
    ingot_arena_release(arena);
}

static void contexts_of_two_engines_share(void **state) {
    share(false);
}

static void any_thread_may_call_anything(void **state) {
    share(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_is_refused),          cmocka_unit_test(the_size_is_known_before),
        cmocka_unit_test(anything_may_go_first),        cmocka_unit_test(contexts_of_two_engines_share),
        cmocka_unit_test(any_thread_may_call_anything), cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
