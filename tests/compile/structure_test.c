/*
 * Builds that find a structure in the cache have the bytes of builds without a cache: networks with all kinds of values,
 * options and graphs in one cache; damaged entries, several builds at once, no memory.
 *
 *     structure_test [FIRST COUNT]     tries networks from number FIRST on
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/disk.h"
#include "compile/compile.h"
#include "support/beside.h"
#include "support/cache/folder.h"
#include "support/model/network.h"
#include "support/random/random_values.h"
#include "support/support.h"

enum { MAX_STEPS = 9, NETWORKS = 40 };

static char nvrtc[4096]; /* a stand-in that compiles in no time */

static struct ingot_cache *open_cache(const char *folder) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    struct ingot_cache *cache;
    struct ingot_error error;
    options.folder = folder;
    if (ingot_cache_open(&options, &cache, &error) != INGOT_OK) fail_msg("%s", error.message);
    return cache;
}

/* One that keeps engines, of at most an eighth of so many bytes. */
static struct ingot_cache *open_engines(const char *folder, uint64_t max_bytes) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    struct ingot_cache *cache;
    struct ingot_error error;
    options.folder = folder;
    options.max_bytes = max_bytes;
    options.engines = true;
    if (ingot_cache_open(&options, &cache, &error) != INGOT_OK) fail_msg("%s", error.message);
    return cache;
}

/* ---- Random networks */

struct notes {
    unsigned count;
    char last[1024];
};

static void take_note(void *user, const char *text) {
    struct notes *notes = user;
    notes->count++;
    snprintf(notes->last, sizeof notes->last, "%s", text);
}

struct built {
    struct ig_engine_memory engine;
    struct ingot_build_report report;
    struct notes notes;
};

static struct built build(struct ig_job *job, const char *text, const struct random_values *values,
                          const struct ingot_build_options *options, struct ingot_cache *cache) {
    struct built b = {.engine = {.allocator = &ig_libc_allocator}, .report = INGOT_BUILD_REPORT_INIT};
    struct ingot_build_options o = *options;
    struct ig_engine_sink sink = ig_engine_memory_sink(&b.engine);
    o.cache = cache;
    o.report = &b.report;
    o.note = take_note;
    o.note_user = &b.notes;
    ig_compile(job, random_values_graph(job, text, values), &o, &sink);
    return b;
}

/* Several times: with `cache`, which is asked `rounds` times, and without. Returns how often it had the structure. */
static unsigned try_build(struct ig_job *job, const char *text, const struct random_values *values,
                          const struct ingot_build_options *options, struct ingot_cache *cache, uint64_t number) {
    struct built without = build(job, text, values, options, NULL);
    unsigned found = 0;
    for (int i = 0; i < 2; i++) {
        struct built with = build(job, text, values, options, cache);
        if (with.engine.size != without.engine.size ||
            memcmp(with.engine.data, without.engine.data, without.engine.size) != 0)
            fail_msg("network %llu: another engine with a cache, %s:\n%s", (unsigned long long)number,
                     with.report.structure_cached ? "from it" : "new", text);
        /* Only those of which a kernel failed are not kept. */
        if (i == 1 && without.notes.count == 0) assert_true(with.report.structure_cached);
        found += with.report.structure_cached;
        ig_engine_memory_release(&with.engine);
    }
    ig_engine_memory_release(&without.engine);
    return found;
}

/* Nothing in the cache is taken for it. */
static void expect_new(struct ig_job *job, const char *text, const struct ingot_build_options *options,
                       struct ingot_cache *cache) {
    struct built b = build(job, text, NULL, options, cache);
    if (b.report.structure_cached) fail_msg("the structure of another network was found for:\n%s", text);
    ig_engine_memory_release(&b.engine);
}

static uint64_t first, count = NETWORKS;

/* The stand-in's code has the comments of a kernel's text, so that each network needs a cache of its own for the same bytes. */
struct trial {
    uint64_t number;
    struct ingot_cache *cache, *everybodys, *engines;
    unsigned twins; /* found with other weights at once */
};

static void try_network(struct ig_job *job, void *argument) {
    static const char *const precisions[] = {"fp32", "fp16", "bf16", "tf32"};
    struct trial *t = argument;
    const uint64_t seed = t->number;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = random_mixed(seed) % 2 ? "cuda:sm_90a" : "cuda:sm_80";
    options.precision = precisions[random_mixed(seed + 1) % 4];
    options.opt_level = (int)(random_mixed(seed + 2) % 6);
    options.nvrtc = nvrtc;
    const char *text = random_values_network(job, seed, MAX_STEPS);
    expect_new(job, text, &options, t->everybodys);
    try_build(job, text, NULL, &options, t->cache, seed);
    const struct ig_initializers *all = random_values_graph(job, text, NULL)->initializers;
    for (int round = 0; round < 6 && all->list.count > 0; round++) {
        struct random_values values = random_values_change(job, all, seed * 64 + (uint64_t)round, round % 2);
        t->twins += try_build(job, text, &values, &options, t->cache, seed) == 2;
        try_build(job, text, &values, &options, t->engines, seed);
    }
    options.strip_weights = true;
    try_build(job, text, NULL, &options, t->cache, seed);
}

static void test_random_networks(void **state) {
    struct ingot_cache *everybodys = open_cache(NULL);
    unsigned twins = 0;
    for (uint64_t i = first; i < first + count; i++) {
        struct trial t = {
            .number = i, .cache = open_cache(NULL), .everybodys = everybodys, .engines = open_engines(NULL, 0)};
        struct ingot_error error;
        struct ig_job job;
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, try_network, &t, &error);
        if (status != INGOT_OK) fail_msg("network %llu: %s", (unsigned long long)i, error.message);
        ig_job_deinit(&job);
        ingot_cache_close(t.cache);
        ingot_cache_close(t.engines);
        twins += t.twins;
    }
    printf("%u builds found the structure of one with other weights\n", twins);
    assert_true(count < NETWORKS || twins > 0);
    ingot_cache_close(everybodys);
}

/* ---- One thing is different */

static const char text_of_one[] =
    "graph {\ninput %0 \"x\": f32[n,2]\n%1 = constant() {data=[1,2,3,4], initializer=\"w\"}: f32[2,2]\n"
    "%2 = constant() {data=[5,6,7,8]}: f32[4]\n%3 = reshape(%2) {dims=[2,2]}: f32[2,2]\n"
    "%4 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,2]\n"
    "%5 = matmul(%4, %3) {acc=f32, packed=0, n=0, math=0}: f32[n,2]\noutput \"y\" = %5\n}\n";

/* What is replaced in it, one at a time. */
static const struct {
    const char *what, *by;
} changes[] = {
    {"\"x\"", "\"z\""},
    {"\"y\"", "\"z\""},
    {"\"w\"", "\"v\""},
    {"f32[n,", "f32[m,"},
    {"[5,6,7,8]", "[5,6,7,9]"},
    {"graph {", "symbol n from 1 to 64\ngraph {"},
    {"output \"y\" = %5", "output \"y\" = %5\noutput \"too\" = %5"},
    {"[5,6,7,8]}", "[5,6,7,8], initializer=\"u\"}"},
    {": f32[n,2]\n%5", ": f32[n,2] @ \"MatMul 'one'\"\n%5"},
    {"matmul(%4, %3)", "matmul(%4, %1)"},
};

/* `text` with all `what` replaced by `by`. */
static const char *changed(struct ig_job *job, const char *text, const char *what, const char *by) {
    struct ig_text out;
    ig_text_init(&out, job);
    for (const char *found; (found = strstr(text, what)); text = found + strlen(what)) {
        ig_text_add_n(&out, text, (size_t)(found - text));
        ig_text_add(&out, by);
    }
    ig_text_add(&out, text);
    return out.at;
}

/* Every change of the graph is a miss. */
static void try_changes(struct ig_job *job, void *cache) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda:sm_90a";
    options.nvrtc = nvrtc;
    expect_new(job, text_of_one, &options, cache);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *text = changed(job, text_of_one, changes[i].what, changes[i].by);
        assert_string_not_equal(text, text_of_one);
        expect_new(job, text, &options, cache);
    }
}

static void test_changed_graphs(void **state) {
    struct ingot_cache *cache = open_cache(NULL);
    struct ingot_error error;
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, try_changes, cache, &error) != INGOT_OK) fail_msg("%s", error.message);
    ig_job_deinit(&job);
    ingot_cache_close(cache);
}

/* ---- The example network */

struct build {
    struct ingot_build_options options;
    const struct ingot_allocator *allocator;
    /* Results. */
    enum ingot_status status;
    struct ingot_error error;
    struct ingot_build_report report;
    struct notes notes;
    unsigned char *bytes;
    size_t size;
};

static struct ingot_build_options gpu_options(void) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda:sm_90a";
    options.nvrtc = nvrtc;
    return options;
}

static void *run_build(void *user) {
    struct build *b = user;
    struct ingot_model_options model_options = INGOT_MODEL_OPTIONS_INIT;
    struct ingot_model *model;
    model_options.allocator = b->allocator;
    b->report = (struct ingot_build_report)INGOT_BUILD_REPORT_INIT;
    b->options.report = &b->report;
    b->options.note = take_note;
    b->options.note_user = &b->notes;
    b->status = ingot_model_load(TEST_DIGITS, &model_options, &model, &b->error);
    if (b->status != INGOT_OK) return NULL;
    void *data;
    b->status = ingot_model_build_memory(model, &b->options, &data, &b->size, &b->error);
    if (b->status == INGOT_OK) {
        b->bytes = malloc(b->size);
        memcpy(b->bytes, data, b->size);
        ingot_blob_release(model, data, b->size);
    }
    ingot_model_destroy(model);
    return NULL;
}

static struct build built(const struct ingot_build_options *options, struct ingot_cache *cache) {
    struct build b = {.options = *options};
    b.options.cache = cache;
    run_build(&b);
    if (b.status != INGOT_OK) fail_msg("%s", b.error.message);
    return b;
}

static void expect_same(struct build *b, const struct build *as, bool structure_cached) {
    if (b->status != INGOT_OK) fail_msg("%s", b->error.message);
    assert_int_equal(b->report.structure_cached, structure_cached);
    if (structure_cached)
        assert_int_equal(b->report.kernels_cached + b->report.kernels_compiled + b->report.regions, 0);
    assert_int_equal(b->size, as->size);
    assert_memory_equal(b->bytes, as->bytes, b->size);
    free(b->bytes);
}

static void build_again(const char *target) {
    struct ingot_build_options options = gpu_options();
    options.target = target;
    struct test_folder folder;
    struct build without = built(&options, NULL), b;
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path);
    b = built(&options, cache);
    assert_true(b.report.regions >= 5 && b.report.regions_new == b.report.regions);
    expect_same(&b, &without, false);
    b = built(&options, cache); /* from memory */
    expect_same(&b, &without, true);
    ingot_cache_close(cache);
    cache = open_cache(folder.path);
    b = built(&options, cache); /* from the folder */
    expect_same(&b, &without, true);
    assert_int_equal(b.notes.count, 0);
    struct ingot_cache_info info;
    assert_int_equal(ingot_cache_describe(cache, &info, NULL), INGOT_OK);
    assert_int_equal(info.structures, 1);
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

/* Every option that changes the engine is a miss, and what it leaves is found with it; others are hits. */
static void test_options(void **state) {
    static const struct ingot_shape_spec fixed = {"batch", "4"}, range = {"batch", "1:8:64"},
                                         other = {"batch", "1:9:64"};
    static const char *const off[] = {"attend=off"}, *const parts[] = {"*=fp16"};
    static const char *const off_nodes[] = {"*=off"};
    struct ingot_build_options all[20];
    int n = 0;
    for (int i = 0; i < 20; i++)
        all[i] = gpu_options();
    all[n++].opt_level = 3;
    all[n++].opt_level = 2;
    all[n++].target = "cuda:sm_80";
    all[n++].target = "cuda:sm_90";
    all[n++].precision = "fp16";
    all[n++].portable = true;
    all[n++].variants = 1;
    all[n].shapes = &fixed, all[n++].n_shapes = 1;
    all[n].shapes = &range, all[n++].n_shapes = 1;
    all[n].shapes = &other, all[n++].n_shapes = 1;
    all[n].pass_switches = off, all[n++].n_pass_switches = 1;
    all[n].precision_of = parts, all[n++].n_precision_of = 1;
    all[n].fuse_of = off_nodes, all[n++].n_fuse_of = 1;
    all[n++].adapters = 1;
    all[n++].adapters = 2;
    all[n].adapters = 2, all[n++].adapter_rank = 4;
    const int different = n;
    all[n++].jobs = 3;
    struct ingot_cache *cache = open_cache(NULL);
    for (int i = 0; i < n; i++) {
        struct build without = built(&all[i], NULL);
        for (int again = 0; again < 2; again++) {
            struct build b = built(&all[i], cache);
            expect_same(&b, &without, again || i >= different);
        }
        free(without.bytes);
    }
    /* Without weights, it is what was stored. */
    all[0].strip_weights = true;
    struct build without = built(&all[0], NULL), b = built(&all[0], cache);
    expect_same(&b, &without, true);
    free(without.bytes);
    /* Those that measure, or are watched, take none. */
    all[0].strip_weights = false;
    all[0].verify_passes = true;
    b = built(&all[0], cache);
    assert_false(b.report.structure_cached);
    free(b.bytes);
    all[0].verify_passes = false;
    all[0].tune_seconds = 0.001;
    b = built(&all[0], cache);
    assert_false(b.report.structure_cached);
    free(b.bytes);
    ingot_cache_close(cache);
}

/* The one entry of the kind in the folder. */
static struct ig_disk_entry find_entry(struct ingot_cache *cache, enum ig_cache_kind kind) {
    struct ig_disk_list list = {0};
    struct ig_disk_entry found = {.bytes = 0};
    assert_int_equal(ig_disk_list(cache->disk, &list, NULL), INGOT_OK);
    for (size_t i = 0; i < list.count; i++) {
        if (list.at[i].id.kind == kind) found = list.at[i];
    }
    ig_disk_list_release(cache->disk, &list);
    assert_true(found.bytes > 0);
    return found;
}

/* Changes a bit of the one entry of the kind. */
static void damage(const char *folder, enum ig_cache_kind kind) {
    struct ingot_cache *cache = open_cache(folder);
    const struct ig_disk_entry entry = find_entry(cache, kind);
    char name[IG_DISK_NAME], path[256];
    unsigned char *bytes;
    ingot_cache_close(cache);
    ig_disk_name(&entry.id, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    size_t size = test_file_read(path, &bytes);
    bytes[size / 2] ^= 4;
    test_file_write(path, bytes, size);
    free(bytes);
}

/* A damaged entry is noted and built again; a sound one that is no engine is noted, and stays. */
static void test_damage(void **state) {
    const struct ingot_build_options options = gpu_options();
    struct test_folder folder, other;
    struct build without = built(&options, NULL), b;
    test_folder_make(&folder);
    test_folder_make(&other);
    struct ingot_cache *cache = open_cache(folder.path);
    b = built(&options, cache);
    expect_same(&b, &without, false);
    const struct ig_disk_entry entry = find_entry(cache, IG_CACHE_STRUCTURE);
    ingot_cache_close(cache);
    damage(folder.path, IG_CACHE_STRUCTURE);
    cache = open_cache(folder.path);
    b = built(&options, cache);
    assert_int_equal(b.notes.count, 1);
    assert_non_null(strstr(b.notes.last, "a damaged entry of the cache is removed"));
    expect_same(&b, &without, false);
    b = built(&options, cache);
    expect_same(&b, &without, true);
    ingot_cache_close(cache);

    cache = open_cache(other.path);
    struct ig_cache_session session;
    ig_cache_begin(&session, cache, &(struct ig_cache_notes){0});
    ig_cache_put(&session, &entry.id, &(struct ig_cache_content){"no engine", "text", 5, NULL, 0});
    ig_cache_end(&session);
    for (int i = 0; i < 2; i++) {
        b = built(&options, cache);
        assert_int_equal(b.notes.count, 1);
        assert_non_null(strstr(b.notes.last, "a structure in the cache is of no use"));
        expect_same(&b, &without, false);
    }
    ingot_cache_close(cache);
    free(without.bytes);
    test_folder_remove(&folder);
    test_folder_remove(&other);
}

/* Where engines are kept, a second build is a copy. */
static void test_engines(void **state) {
    struct ingot_build_options options = gpu_options();
    struct test_folder folder;
    struct build without = built(&options, NULL), b;
    struct ingot_cache_info info;
    test_folder_make(&folder);
    struct ingot_cache *cache = open_engines(folder.path, 80000);
    b = built(&options, cache);
    expect_same(&b, &without, false);
    assert_int_equal(ingot_cache_describe(cache, &info, NULL), INGOT_OK);
    assert_int_equal(info.engines, 0); /* too large */
    ingot_cache_close(cache);
    cache = open_engines(folder.path, 0);
    for (int i = 0; i < 2; i++) {
        b = built(&options, cache);
        assert_int_equal(b.report.engine_cached, i == 1);
        expect_same(&b, &without, b.report.structure_cached);
    }
    ingot_cache_close(cache);
    cache = open_engines(folder.path, 0);
    b = built(&options, cache); /* from the folder */
    assert_true(b.report.engine_cached);
    expect_same(&b, &without, true);
    options.strip_weights = true; /* which is no engine */
    b = built(&options, cache);
    assert_true(b.report.structure_cached && !b.report.engine_cached && b.size < without.size);
    free(b.bytes);
    options.strip_weights = false;
    ingot_cache_close(cache);
    damage(folder.path, IG_CACHE_ENGINE);
    cache = open_engines(folder.path, 0);
    b = built(&options, cache);
    assert_true(b.notes.count == 1 && strstr(b.notes.last, "a damaged entry of the cache is removed"));
    assert_false(b.report.engine_cached);
    expect_same(&b, &without, true);
    b = built(&options, cache);
    assert_true(b.report.engine_cached);
    expect_same(&b, &without, true);
    ingot_cache_close(cache);
    cache = open_cache(folder.path); /* one that keeps none does not ask for them */
    b = built(&options, cache);
    assert_false(b.report.engine_cached);
    expect_same(&b, &without, true);
    ingot_cache_close(cache);
    free(without.bytes);
    test_folder_remove(&folder);
}

/* Of several builds at once, one builds. */
static void test_at_once(void **state) {
    enum { COUNT = 8 };
    const struct ingot_build_options options = gpu_options();
    struct build builds[COUNT], without = built(&options, NULL);
    struct test_folder folder;
    pthread_t threads[COUNT];
    unsigned found = 0;
    test_folder_make(&folder);
    for (int i = 0; i < COUNT; i++) {
        builds[i] = (struct build){.options = options};
        builds[i].options.cache = open_cache(folder.path);
        assert_int_equal(pthread_create(&threads[i], NULL, run_build, &builds[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        ingot_cache_close(builds[i].options.cache);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(builds[i].notes.count, 0);
        found += builds[i].report.structure_cached;
        expect_same(&builds[i], &without, builds[i].report.structure_cached);
    }
    assert_int_equal(found, COUNT - 1);
    free(without.bytes);
    test_folder_remove(&folder);
}

/* A build that fails keeps nobody waiting, and leaves nothing. */
static void test_failed_build(void **state) {
    const struct ingot_build_options options = gpu_options();
    struct test_folder folder;
    struct build without = built(&options, NULL);
    test_folder_make(&folder);
    struct ingot_cache *cache = open_cache(folder.path), *other = open_cache(folder.path);
    setenv("FAKE_NVRTC_REFUSES", "softmax", 1);
    struct build b = {.options = options};
    b.options.cache = cache;
    run_build(&b);
    assert_int_equal(b.status, INGOT_TOOLCHAIN);
    unsetenv("FAKE_NVRTC_REFUSES");
    b = built(&options, other);
    assert_true(b.report.regions_new > 0 && b.report.regions_new < b.report.regions);
    expect_same(&b, &without, false);
    b = built(&options, cache);
    expect_same(&b, &without, true);
    ingot_cache_close(cache);
    ingot_cache_close(other);
    free(without.bytes);
    test_folder_remove(&folder);
}

static void test_failing_allocations(void **state) {
    const struct ingot_build_options options = gpu_options();
    struct test_folder folder;
    struct build without = built(&options, NULL);
    bool done = false;
    for (long n = 1; !done; n += 1 + n / 40) {
        struct test_allocator allocator;
        struct ingot_cache_options cache_options = INGOT_CACHE_OPTIONS_INIT;
        struct ingot_cache *cache = NULL;
        test_folder_make(&folder);
        test_allocator_init(&allocator);
        allocator.fail_at = n;
        cache_options.allocator = &allocator.base;
        cache_options.folder = folder.path;
        if (ingot_cache_open(&cache_options, &cache, NULL) == INGOT_OK) {
            for (int i = 0; i < 2; i++) {
                struct build b = {.options = options, .allocator = &allocator.base};
                b.options.cache = cache;
                run_build(&b);
                if (b.status == INGOT_OK) {
                    expect_same(&b, &without, b.report.structure_cached);
                } else {
                    assert_int_equal(b.status, INGOT_OUT_OF_MEMORY);
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

int main(int argc, char **argv) {
    static const char name[] = "fake_nvrtc.so";
    test_beside(name, nvrtc, sizeof nvrtc);
    if (argc > 1) first = strtoull(argv[1], NULL, 10);
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_networks),
        cmocka_unit_test(test_changed_graphs),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_failed_build),
        cmocka_unit_test(test_failing_allocations),
    };
#ifdef __SANITIZE_THREAD__
    cmocka_set_test_filter("test_at_once"); /* the others have no threads but a build's own, which it has as well */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
