/* Builds with a cache of kernels: the same bytes as without, and nothing is compiled twice; whatever is wrong with the
 * cache. structure_test.c has those that find the whole. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/beside.h"
#include "support/cache/folder.h"
#include "support/model/network.h"
#include "support/support.h"

static char nvrtc[4096]; /* a stand-in that compiles in no time */

struct trial {
    struct ingot_cache *cache;
    const char *target;
    unsigned variants;
    bool portable;
    const struct ingot_allocator *allocator;
    /* Results. */
    enum ingot_status status;
    struct ingot_error error;
    struct ingot_build_report report;
    unsigned notes;
    char note[1024];
    unsigned char *bytes;
    size_t size;
};

static void take_note(void *user, const char *text) {
    struct trial *t = user;
    t->notes++;
    snprintf(t->note, sizeof t->note, "%s", text);
}

static void *build(void *user) {
    struct trial *t = user;
    struct ingot_model_options model_options = INGOT_MODEL_OPTIONS_INIT;
    struct ingot_build_options o = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_model *model;
    model_options.allocator = t->allocator;
    t->report = (struct ingot_build_report)INGOT_BUILD_REPORT_INIT;
    o.target = t->target;
    o.variants = t->variants;
    o.portable = t->portable;
    o.nvrtc = nvrtc;
    o.verify_passes = true; /* so that the structure is not taken */
    o.cache = t->cache;
    o.report = &t->report;
    o.note = take_note;
    o.note_user = t;
    t->status = ingot_model_load(TEST_DIGITS, &model_options, &model, &t->error);
    if (t->status != INGOT_OK) return NULL;
    void *data;
    t->status = ingot_model_build_memory(model, &o, &data, &t->size, &t->error);
    if (t->status == INGOT_OK) {
        t->bytes = malloc(t->size);
        memcpy(t->bytes, data, t->size);
        ingot_blob_release(model, data, t->size);
    }
    ingot_model_destroy(model);
    return NULL;
}

static struct trial built(struct ingot_cache *cache, const char *target) {
    struct trial t = {.cache = cache, .target = target};
    build(&t);
    if (t.status != INGOT_OK) fail_msg("%s", t.error.message);
    return t;
}

static void expect_same(struct trial *t, const struct trial *as, unsigned cached, unsigned compiled) {
    assert_int_equal(t->status, INGOT_OK);
    assert_int_equal(t->report.kernels_cached, cached);
    assert_int_equal(t->report.kernels_compiled, compiled);
    assert_int_equal(t->size, as->size);
    assert_memory_equal(t->bytes, as->bytes, t->size);
    free(t->bytes);
}

static struct ingot_cache *open_cache(const char *folder) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    struct ingot_cache *cache;
    struct ingot_error error;
    options.folder = folder;
    if (ingot_cache_open(&options, &cache, &error) != INGOT_OK) fail_msg("%s", error.message);
    return cache;
}

static void build_again(const char *target) {
    struct test_folder folder;
    struct trial without = built(NULL, target), t;
    const unsigned count = without.report.kernels_compiled;
    assert_true(count >= 5);
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path);
    t = built(cache, target);
    expect_same(&t, &without, 0, count);
    t = built(cache, target); /* from memory */
    expect_same(&t, &without, count, 0);
    ingot_cache_close(cache);
    cache = open_cache(folder.path);
    t = built(cache, target); /* from the folder */
    expect_same(&t, &without, count, 0);
    assert_int_equal(t.notes, 0);
    struct ingot_cache_info info;
    assert_int_equal(ingot_cache_describe(cache, &info, NULL), INGOT_OK);
    assert_true(info.kernels >= count && info.kernels == info.entries && info.kernel_bytes == info.bytes);
    ingot_cache_close(cache);
    cache = open_cache(NULL);
    t = built(cache, target);
    expect_same(&t, &without, 0, count);
    t = built(cache, target);
    expect_same(&t, &without, count, 0);
    assert_int_equal(ingot_cache_describe(cache, &info, NULL), INGOT_INVALID_ARGUMENT);
    ingot_cache_close(cache);
    free(without.bytes);
    test_folder_remove(&folder);
}

static void test_cpu(void **state) {
    build_again("cpu:x86-64-v3");
}

static void test_gpu(void **state) {
    build_again("cuda:sm_90a");
}

/* Cubins are found again for an engine with PTX, and PTX is not taken for a cubin. */
static void test_portable(void **state) {
    struct test_folder folder;
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path);
    struct trial first = built(cache, "cuda:sm_90a");
    const unsigned count = first.report.kernels_compiled;
    struct trial without = {.target = "cuda:sm_90a", .portable = true}, with = without;
    build(&without);
    for (int i = 0; i < 2; i++) {
        with.cache = cache;
        build(&with);
        expect_same(&with, &without, count, 0);
    }
    struct trial other = built(cache, "cuda:sm_80");
    assert_int_equal(other.report.kernels_cached, 0);
    free(other.bytes);
    free(without.bytes);
    free(first.bytes);
    ingot_cache_close(cache);
    test_folder_remove(&folder);
}

/* What is the same with another option is found, the rest is compiled. */
static void test_other_options(void **state) {
    struct ingot_cache *cache = open_cache(NULL);
    struct trial few = {.target = "cuda:sm_90a", .cache = cache, .variants = 1};
    struct trial without = built(NULL, "cuda:sm_90a"), with;
    build(&few);
    assert_true(few.report.kernels_compiled < without.report.kernels_compiled);
    with = built(cache, "cuda:sm_90a");
    expect_same(&with, &without, few.report.kernels_compiled,
                without.report.kernels_compiled - few.report.kernels_compiled);
    free(without.bytes);
    free(few.bytes);
    ingot_cache_close(cache);
}

/* Changes a byte of every entry. */
static void damage_all(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *e; (e = readdir(folder));) {
        char inner[1024];
        unsigned char *bytes;
        if (*e->d_name == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (e->d_type == DT_DIR) damage_all(inner);
        if (!strstr(e->d_name, ".kernel")) continue;
        size_t size = test_file_read(inner, &bytes);
        bytes[size / 2] ^= 0x10;
        test_file_write(inner, bytes, size);
        free(bytes);
    }
    closedir(folder);
}

static void test_damage(void **state) {
    struct test_folder folder;
    struct trial without = built(NULL, "cuda:sm_90a"), t;
    const unsigned count = without.report.kernels_compiled;
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path);
    t = built(cache, "cuda:sm_90a");
    expect_same(&t, &without, 0, count);
    ingot_cache_close(cache);
    damage_all(folder.path);
    cache = open_cache(folder.path);
    t = built(cache, "cuda:sm_90a");
    assert_int_equal(t.notes, count);
    assert_non_null(strstr(t.note, "a damaged entry of the cache is removed"));
    expect_same(&t, &without, 0, count);
    ingot_cache_close(cache);
    cache = open_cache(folder.path);
    t = built(cache, "cuda:sm_90a");
    assert_int_equal(t.notes, 0);
    expect_same(&t, &without, count, 0);
    ingot_cache_close(cache);
    free(without.bytes);
    test_folder_remove(&folder);
}

/* The folder goes away: one note, and the build is as ever. */
static void test_lost_folder(void **state) {
    struct test_folder folder;
    struct trial without = built(NULL, "cuda:sm_90a");
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path);
    test_folder_remove(&folder);
    struct trial t = built(cache, "cuda:sm_90a");
    assert_int_equal(t.notes, 1);
    assert_non_null(strstr(t.note, "nothing more is added to the cache"));
    expect_same(&t, &without, 0, without.report.kernels_compiled);
    ingot_cache_close(cache);
    free(without.bytes);
}

/* Several builds at once, by one cache or by several on one folder, compile each kernel once. */
static void build_at_once(const char *folder, bool share) {
    enum { COUNT = 8 };
    struct trial trials[COUNT] = {0}, without = built(NULL, "cuda:sm_90a");
    pthread_t threads[COUNT];
    unsigned compiled = 0;
    struct ingot_cache *cache = open_cache(folder);
    for (int i = 0; i < COUNT; i++) {
        trials[i] = (struct trial){.target = "cuda:sm_90a", .cache = share ? cache : open_cache(folder)};
        assert_int_equal(pthread_create(&threads[i], NULL, build, &trials[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        compiled += trials[i].report.kernels_compiled;
        assert_int_equal(trials[i].notes, 0);
        if (!share) ingot_cache_close(trials[i].cache);
        expect_same(&trials[i], &without, without.report.kernels_compiled - trials[i].report.kernels_compiled,
                    trials[i].report.kernels_compiled);
    }
    assert_int_equal(compiled, without.report.kernels_compiled);
    ingot_cache_close(cache);
    free(without.bytes);
}

static void test_at_once(void **state) {
    struct test_folder one, several;
    test_folder_make(&one);
    test_folder_make(&several);
    build_at_once(one.path, true);
    build_at_once(several.path, false);
    test_folder_remove(&one);
    test_folder_remove(&several);
}

/* A kernel that does not compile keeps nobody waiting, and the others are kept. */
static void test_refused_kernel(void **state) {
    struct test_folder folder;
    struct trial without = built(NULL, "cuda:sm_90a");
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path), *other = open_cache(folder.path);
    setenv("FAKE_NVRTC_REFUSES", "softmax", 1);
    struct trial t = {.target = "cuda:sm_90a", .cache = cache};
    build(&t);
    assert_int_equal(t.status, INGOT_TOOLCHAIN);
    unsetenv("FAKE_NVRTC_REFUSES");
    t = built(other, "cuda:sm_90a");
    assert_int_equal(t.notes, 0);
    expect_same(&t, &without, without.report.kernels_compiled - 1, 1);
    ingot_cache_close(cache);
    ingot_cache_close(other);
    free(without.bytes);
    test_folder_remove(&folder);
}

static void test_failing_allocations(void **state) {
    struct test_folder folder;
    struct trial without = built(NULL, "cuda:sm_90a");
    bool done = false;
    for (long n = 1; !done; n += 1 + n / 40) {
        struct test_allocator allocator;
        struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
        struct ingot_cache *cache = NULL;
        test_folder_make(&folder);
        test_allocator_init(&allocator);
        allocator.fail_at = n;
        options.allocator = &allocator.base;
        options.folder = folder.path;
        if (ingot_cache_open(&options, &cache, NULL) == INGOT_OK) {
            for (int i = 0; i < 2; i++) {
                struct trial t = {.target = "cuda:sm_90a", .cache = cache, .allocator = &allocator.base};
                build(&t);
                if (t.status == INGOT_OK) {
                    assert_int_equal(t.size, without.size);
                    assert_memory_equal(t.bytes, without.bytes, t.size);
                    free(t.bytes);
                } else {
                    assert_int_equal(t.status, INGOT_OUT_OF_MEMORY);
                }
            }
        }
        ingot_cache_close(cache);
        done = allocator.calls < n;
        assert_int_equal(allocator.live, 0);
        assert_int_equal(allocator.bytes, 0);
        test_folder_remove(&folder);
    }
    free(without.bytes);
}

int main(void) {
    static const char name[] = "fake_nvrtc.so";
    test_beside(name, nvrtc, sizeof nvrtc);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_portable),
        cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_lost_folder),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_refused_kernel),
        cmocka_unit_test(test_failing_allocations),
    };
#ifdef __SANITIZE_THREAD__
    cmocka_set_test_filter("test_at_once"); /* the others have no threads but a build's own, which it has as well */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
