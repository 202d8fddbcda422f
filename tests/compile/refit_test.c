/*
 * Refitting against fresh builds: networks whose initialisers get other values, ordinary ones and such as could decide
 * something (zeros, ones, equal numbers, NaN, ...). Either the refitted engine has the bytes of the fresh one, or it is
 * refused, and names an initialiser of which the engine says that it is structural. Values on which anything depends
 * without being noted show up here.
 *
 *     refit_test [FIRST COUNT]     tries networks from number FIRST on
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile/compile.h"
#include "compile/refit/refit.h"
#include "support/beside.h"
#include "support/plan/engine_bytes.h"
#include "support/random/random_values.h"
#include "support/support.h"

enum { MAX_STEPS = 9, NETWORKS = 40, COMPILED = 6 };

static char nvrtc[4096];

static struct ig_engine_file open_engine(struct ig_job *job, const struct engine_bytes *m) {
    struct ig_engine_file file;
    struct ingot_error error;
    if (ig_engine_open_memory(m->data, m->size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error) != INGOT_OK)
        ig_raise_error(job, &error);
    return file;
}

/* ---- Trials */

struct trial {
    uint64_t seed;
    bool compiled;    /* for a CPU, by the C compiler; else for a GPU, by nothing */
    const char *text; /* NULL: a random network's */
    struct ingot_build_options options;
};

static struct ingot_build_options options_of(uint64_t seed, bool compiled) {
    static const unsigned ranks[] = {1, 2};
    static const char *const precisions[] = {"fp32", "fp16", "bf16", "tf32"};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = compiled ? "cpu:x86-64-v3" : random_mixed(seed) % 2 ? "cuda:sm_90a" : "cuda:sm_80";
    options.precision = precisions[random_mixed(seed + 1) % (compiled ? 3 : 4)];
    options.opt_level = (int)(random_mixed(seed + 2) % 6);
    options.jobs = 2;
    options.nvrtc = nvrtc;
    if (random_mixed(seed + 3) % 3 == 0) { /* parts of weights */
        options.ranks = ranks;
        options.n_ranks = 2;
        options.sharding = random_mixed(seed + 4) % 2 ? "tensor" : "mixed";
    }
    return options;
}

static struct engine_bytes build(struct ig_job *job, const struct trial *t, const struct random_values *values) {
    struct engine_bytes memory;
    struct ig_engine_sink sink = engine_bytes_sink(&memory, job);
    ig_compile(job, random_values_graph(job, t->text, values), &t->options, &sink);
    return memory;
}

struct attempt {
    const struct ig_engine_file *file;
    struct ig_refit_input input;
    struct engine_bytes result;
    struct ig_refit refit;
};

static void refit_body(struct ig_job *job, void *argument) {
    struct attempt *a = argument;
    struct ig_engine_sink sink = engine_bytes_sink(&a->result, job);
    ig_refit_begin(job, &a->input, &a->refit);
    ig_refit_write(&a->refit, &sink);
}

static const struct ig_initializer_entry *find_entry(const struct ig_engine_file *file, const char *name) {
    for (uint32_t i = 0; i < file->refit.n_initializers; i++) {
        if (strcmp(file->refit.names + file->refit.initializers[i].name, name) == 0)
            return &file->refit.initializers[i];
    }
    fail_msg("there is no initialiser '%s'", name);
    return NULL;
}

/* Structural ones get their own values back; returns whether any had another. */
static bool restore_structural(const struct ig_engine_file *file, const struct ig_initializers *all,
                               struct random_values *values, const char **out_one) {
    bool any = false;
    for (uint32_t i = 0; i < all->list.count; i++) {
        const struct ig_initializer *one = all->list.at[i];
        if (find_entry(file, one->name)->kind != INGOT_STRUCTURAL || !values->bytes[i]) continue;
        if (memcmp(values->bytes[i], one->bytes, one->size) != 0) {
            any = true;
            *out_one = one->name;
        }
        values->bytes[i] = NULL;
    }
    return any;
}

/* Refits to the values and compares with a fresh build; false if the values are refused. */
static bool agrees(struct ig_job *job, const struct trial *t, const struct ig_engine_file *file,
                   const struct random_values *values, struct ingot_error *error) {
    struct attempt a = {.input = {.file = file}};
    struct ig_graph *graph = random_values_graph(job, t->text, values);
    a.input.tensors = ig_refit_tensors(job, graph->initializers, &a.input.n_tensors);
    if (ig_job_run(job, refit_body, &a, error) != INGOT_OK) return false;
    struct engine_bytes fresh = build(job, t, values);
    bool same = fresh.size == a.result.size && memcmp(fresh.data, a.result.data, fresh.size) == 0;
    if (!same)
        fail_msg("network %llu for %s, %s, level %d: the refitted engine differs from a fresh one:\n%s",
                 (unsigned long long)t->seed, t->options.target, t->options.precision, t->options.opt_level, t->text);
    return true;
}

static void try_values(struct ig_job *job, const struct trial *t, const struct ig_engine_file *file,
                       const struct ig_initializers *all, struct random_values *values) {
    struct ingot_error error;
    const char *structural = NULL;
    if (agrees(job, t, file, values, &error)) return;
    assert_int_equal(error.status, INGOT_INVALID_ARGUMENT);
    bool differs = restore_structural(file, all, values, &structural);
    if (!differs || !strstr(error.message, "cannot replace the value of")) fail_msg("%s", error.message);
    if (!agrees(job, t, file, values, &error)) fail_msg("%s", error.message);
}

/* A whole engine, stripped and completed, is itself again; so is one that was built without weights. */
static void try_stripped(struct ig_job *job, struct trial t, const struct engine_bytes *whole,
                         const struct ig_initializers *all) {
    struct engine_bytes stripped, built;
    struct ig_engine_file file = open_engine(job, whole);
    struct ig_engine_sink sink = engine_bytes_sink(&stripped, job);
    ig_refit_strip(job, &file, &sink);
    t.options.strip_weights = true;
    built = build(job, &t, NULL);
    assert_int_equal(stripped.size, built.size);
    assert_memory_equal(stripped.data, built.data, built.size);
    struct ig_engine_file bare = open_engine(job, &stripped);
    struct attempt a = {.input = {.file = &bare}};
    struct ingot_error error;
    a.input.tensors = ig_refit_tensors(job, all, &a.input.n_tensors);
    if (ig_job_run(job, refit_body, &a, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(a.result.size, whole->size);
    assert_memory_equal(a.result.data, whole->data, whole->size);
}

static void trial_body(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    if (!t->text) t->text = random_values_network(job, t->seed, MAX_STEPS);
    struct ig_graph *graph = random_values_graph(job, t->text, NULL);
    const struct ig_initializers *all = graph->initializers;
    struct engine_bytes engine = build(job, t, NULL);
    struct ig_engine_file file = open_engine(job, &engine);
    try_stripped(job, *t, &engine, all);
    uint32_t i = 0;
    while (i < all->list.count && file.refit.initializers[i].kind != INGOT_REFITTABLE)
        i++;
    if (i == all->list.count) return;
    for (int round = 0; round < (t->compiled ? 2 : 6); round++) {
        struct random_values values = random_values_change(job, all, t->seed * 64 + (uint64_t)round, round % 2);
        try_values(job, t, &file, all, &values);
    }
}

static void try_network(uint64_t seed, bool compiled) {
    struct trial t = {.seed = seed, .compiled = compiled, .options = options_of(seed, compiled)};
    struct ingot_error error;
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, trial_body, &t, &error);
    if (status != INGOT_OK) fail_msg("network %llu: %s", (unsigned long long)seed, error.message);
    ig_job_deinit(&job);
}

static uint64_t first, count = NETWORKS;

static void test_random_networks(void **state) {
    for (uint64_t i = 0; i < count; i++)
        try_network(first + i, false);
}

static void test_compiled_networks(void **state) {
    for (uint64_t i = 0; i < (count + COMPILED - 1) / COMPILED; i++)
        try_network(first + i, true);
}

/* A quantised input, weights in f32 that are quantised by channel, a bias in f32, and a quantised result. */
#define X "[2,3,6,5]"
#define Y "[2,8,6,5]"
#define W "[8,3,3,3]"
static const char quantised[] =
    "graph {\n  input %0 \"x\": f32" X "\n"
    "  %1 = constant() {data=[0.03125]}: f32[]\n  %2 = div(%0, %1): f32" X "\n  %3 = round(%2): f32" X "\n"
    "  %4 = constant() {data=[114]}: f32[]\n  %5 = add(%3, %4): f32" X "\n"
    "  %6 = cast(%5) {to=u8, saturate=1}: u8" X "\n  %7 = cast(%6) {to=f32, saturate=0}: f32" X "\n"
    "  %8 = sub(%7, %4): f32" X "\n  %9 = mul(%8, %1): f32" X "\n"
    "  %10 \"w\" = constant() {data=hash:0000000000000001, initializer=\"w\"}: f32" W "\n"
    "  %11 \"s\" = constant() {data=[0.01,0.02,0.01,0.04,0.01,0.03,0.01,0.02], initializer=\"s\"}: f32[8,1,1,1]\n"
    "  %12 = div(%10, %11): f32" W "\n  %13 = round(%12): f32" W "\n  %14 = constant() {data=[-128]}: f32[]\n"
    "  %15 = lt(%14, %13): bool" W "\n  %16 = where(%15, %13, %14): f32" W "\n"
    "  %17 = cast(%16) {to=i8, saturate=1}: i8" W "\n  %18 = cast(%17) {to=f32, saturate=0}: f32" W "\n"
    "  %19 = mul(%18, %11): f32" W "\n"
    "  %20 \"b\" = constant() {data=[1,2,3,4,5,6,7,8], initializer=\"b\"}: f32[8]\n"
    "  %21 = conv(%9, %19, %20) {strides=[1,1], dilations=[1,1], before=[1,1], after=[1,1], groups=1, acc=f32, "
    "channels_last=0, packed=0, n=8, kernel=[3,3], math=0, border=0}: f32" Y "\n"
    "  %22 = constant() {data=[0.1]}: f32[]\n  %23 = div(%21, %22): f32" Y "\n  %24 = round(%23): f32" Y "\n"
    "  %25 = cast(%24) {to=u8, saturate=1}: u8" Y "\n  output \"y\" = %25\n}\n";

/* New weights in f32 are quantised again, as a build would do it; none of these initialisers decides anything. */
static void quantised_body(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    struct engine_bytes engine = build(job, t, NULL);
    struct ig_engine_file file = open_engine(job, &engine);
    static const char *const names[] = {"w", "s", "b"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(find_entry(&file, names[i])->kind, INGOT_REFITTABLE);
    char *explanation;
    size_t size;
    struct ingot_error error;
    if (ig_engine_unpack_explanation(&file, &ig_libc_allocator, &explanation, &size, &error) != INGOT_OK)
        fail_msg("%s", error.message);
    assert_non_null(strstr(explanation, "\"of_bytes\": 1"));
    ig_release(&ig_libc_allocator, explanation, size);
    trial_body(job, t);
}

static void test_quantised(void **state) {
    static const char *const targets[] = {"cuda:sm_90a", "cpu:x86-64-v3"};
    for (int i = 0; i < 2; i++) {
        struct trial t = {.seed = 7, .compiled = i, .text = quantised, .options = INGOT_BUILD_OPTIONS_INIT};
        struct ingot_error error;
        struct ig_job job;
        t.options.target = targets[i];
        t.options.nvrtc = nvrtc;
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, quantised_body, &t, &error) != INGOT_OK) fail_msg("%s", error.message);
        ig_job_deinit(&job);
    }
}

int main(int argc, char **argv) {
    static const char name[] = "fake_nvrtc.so";
    test_beside(name, nvrtc, sizeof nvrtc);
    if (argc > 1) first = strtoull(argv[1], NULL, 10);
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantised), cmocka_unit_test(test_random_networks),
                                       cmocka_unit_test(test_compiled_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
