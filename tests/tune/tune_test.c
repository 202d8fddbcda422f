/* Tuning without a compiler: candidates are functions of this program, whose duration and correctness the test chooses;
 * then whole builds that measure on this machine's processor. Durations are told, not spent: a kernel advances a clock
 * that the test's device and the tuner's budget go by, so that no result depends on how fast or busy the machine is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/precision/precision.h"
#include "support/check/passes.h"
#include "support/device/stub_code.h"
#include "support/model/network.h"
#include "support/support.h"
#include "tune/tune.h"

enum { ROWS = 200, DEPTH = 8, COLUMNS = 320, MOST = 24 };

/* ---- The clock -------------------------------------------------------------------------------------------------------- */

enum { NANOSECONDS_OF_A_SLOW_ONE = 6000000, NANOSECONDS_OF_A_FAST_ONE = 200000 };

/* Advanced by kernels, of which one runs at a time, and by the tests. */
static uint64_t clock_ns;

static double now(void *user) {
    return 1e-9 * (double)clock_ns;
}

struct ig_event {
    uint64_t time;
};

static enum ingot_status event_create(struct ig_device *device, bool timed, struct ig_event **out_event,
                                      struct ingot_error *error) {
    *out_event = ig_allocate(device->allocator, sizeof **out_event, _Alignof(struct ig_event));
    return *out_event ? INGOT_OK : INGOT_OUT_OF_MEMORY;
}

static void event_destroy(struct ig_device *device, struct ig_event *event) {
    ig_release(device->allocator, event, sizeof *event);
}

/* The work before it is done: this device's streams are the host's. */
static enum ingot_status event_record(struct ig_device *device, struct ig_stream *stream, struct ig_event *event,
                                      struct ingot_error *error) {
    event->time = clock_ns;
    return INGOT_OK;
}

static enum ingot_status event_elapsed(struct ig_device *device, struct ig_event *begin, struct ig_event *end,
                                       uint64_t *out_nanoseconds, struct ingot_error *error) {
    *out_nanoseconds = end->time - begin->time;
    return INGOT_OK;
}

/* A CPU device with that clock. `api` outlives it. */
static struct ig_device *open_device(const struct ingot_allocator *allocator, struct ig_device_api *api) {
    struct ig_device *device;
    struct ingot_error error;
    if (ig_device_cpu_create(2, allocator, &device, &error) != INGOT_OK) fail_msg("%s", error.message);
    *api = *device->api;
    api->event_create = event_create;
    api->event_destroy = event_destroy;
    api->event_record = event_record;
    api->event_elapsed = event_elapsed;
    device->api = api;
    return device;
}

/* ---- Candidates ------------------------------------------------------------------------------------------------------- */

enum behaviour { FAST, SLOW, WRONG, UNWRITTEN, NOT_COMPILED, NOT_PRINTED };

/* The worker that gets the first tile computes all of them. */
static void multiply(void *const *buffers, int64_t begin, int64_t end, uint64_t nanoseconds, float offset) {
    const float *a = buffers[0], *b = buffers[1];
    float *c = buffers[2];
    if (begin > 0 || begin == end) return;
    for (int m = 0; m < ROWS; m++) {
        float sums[COLUMNS] = {0};
        for (int k = 0; k < DEPTH; k++) {
            for (int n = 0; n < COLUMNS; n++)
                sums[n] += a[m * DEPTH + k] * b[k * COLUMNS + n];
        }
        for (int n = 0; n < COLUMNS; n++)
            c[m * COLUMNS + n] = sums[n] + offset;
    }
    clock_ns += nanoseconds;
}

static void run_fast(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    multiply(buffers, begin, end, NANOSECONDS_OF_A_FAST_ONE, 0);
}

static void run_slow(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    multiply(buffers, begin, end, NANOSECONDS_OF_A_SLOW_ONE, 0);
}

static void run_wrong(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
    multiply(buffers, begin, end, NANOSECONDS_OF_A_FAST_ONE, 1);
}

static void run_nothing(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch) {
}

/* ---- The compiler ----------------------------------------------------------------------------------------------------- */

struct fixture {
    struct ig_job job;
    struct ig_timing_cache cache;
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_target target;
    struct ig_tune_options options;
    struct ig_device *device;
    uint32_t count;                /* number of the region's candidates */
    const char *tactics[MOST + 1]; /* the candidates' tactics */
    enum behaviour behaviour[MOST + 1];
    char note[INGOT_ERROR_MESSAGE_SIZE];
    unsigned compilations; /* number of compiler calls */
    uint64_t compile_ns;   /* how long a call takes */
    const char *text;      /* the final cache */
    void (*body)(struct fixture *f);
};

/* A candidate's source is its number. */
static const char *print(void *user, const struct ig_kernel *kernel, const char *symbol) {
    struct fixture *f = user;
    for (uint32_t i = 0; i < f->count; i++) {
        if (strcmp(kernel->tactic, f->tactics[i]) != 0) continue;
        if (f->behaviour[i] == NOT_PRINTED) ig_raise(&f->job, INGOT_INTERNAL, "no words for it");
        return ig_format(&f->job, "%u", i);
    }
    return "0"; /* the plain kernel */
}

static void compile(void *user, const struct ig_source *sources, unsigned count, struct ig_code *out_code) {
    static const stub_kernel runs[] = {
        [FAST] = run_fast, [SLOW] = run_slow, [WRONG] = run_wrong, [UNWRITTEN] = run_nothing};
    struct fixture *f = user;
    struct stub_code *code = IG_NEW(&f->job, struct stub_code);
    f->compilations++;
    clock_ns += f->compile_ns;
    *out_code = (struct ig_code){.bytes = code->bytes, .size = sizeof code->bytes};
    out_code->entries = IG_NEW_ARRAY(&f->job, uint64_t, count);
    for (unsigned i = 0; i < count; i++) {
        enum behaviour behaviour = f->behaviour[atoi(sources[i].text)];
        if (behaviour == NOT_COMPILED) ig_raise(&f->job, INGOT_TOOLCHAIN, "syntax error in '%s'", sources[i].symbol);
        out_code->entries[i] = stub_code_add(code, runs[behaviour]);
    }
}

static void note(void *user, const char *text) {
    struct fixture *f = user;
    snprintf(f->note, sizeof f->note, "%s", text);
}

/* ---- The region ------------------------------------------------------------------------------------------------------- */

static struct ig_graph *make_graph(struct ig_job *job, const struct ig_target *target) {
    const struct ig_precisions precisions = {.base = IG_PRECISION_FP32};
    const struct ig_pass_options options = {.target = target, .precisions = &precisions};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_type a = {.dtype = INGOT_F32, .rank = 2}, b = a;
    a.dim[0] = ig_dim_const(g->dims, ROWS);
    a.dim[1] = b.dim[0] = ig_dim_const(g->dims, DEPTH);
    b.dim[1] = ig_dim_const(g->dims, COLUMNS);
    ig_value left = ig_build_input(g, "a", &a), right = ig_build_input(g, "b", &b);
    ig_build_output(g, "c", ig_build_matmul(g, left, right, INGOT_F32));
    return passes_named(g, "partition", &options);
}

static void find_candidates(struct fixture *f) {
    for (int i = 0; i < MOST; i++) {
        const struct ig_kernel *kernel = ig_kernel_candidate(f->graph, f->region, &f->target, NULL, i);
        if (!kernel) break;
        f->tactics[f->count++] = kernel->tactic;
    }
    if (f->count < 5) fail_msg("%u candidates are too few for this test", f->count);
}

static void run_body(struct ig_job *job, void *argument) {
    struct fixture *f = argument;
    f->target = (struct ig_target){.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    f->graph = make_graph(job, &f->target);
    assert_int_equal(f->graph->regions.count, 1);
    f->region = &f->graph->regions.at[0];
    f->options = (struct ig_tune_options){.target = &f->target,
                                          .compiler = "stubs 1.0",
                                          .jobs = 4,
                                          .seconds = 60,
                                          .sizes = {.dims = f->graph->dims},
                                          .print = print,
                                          .compile = compile,
                                          .note = note,
                                          .now = now,
                                          .user = f,
                                          .device = f->device};
    ig_timing_cache_init(&f->cache, job);
    find_candidates(f);
    for (uint32_t i = 0; i < f->count; i++)
        f->behaviour[i] = SLOW;
    f->body(f);
}

static void with_fixture(void (*body)(struct fixture *f)) {
    struct fixture *f = calloc(1, sizeof *f);
    struct test_allocator allocator;
    struct ig_device_api api;
    struct ingot_error error = {0};
    test_allocator_init(&allocator);
    ig_job_init(&f->job, &allocator.base);
    f->device = open_device(&allocator.base, &api);
    f->body = body;
    if (ig_job_run(&f->job, run_body, f, &error) != INGOT_OK) fail_msg("%s", error.message);
    ig_job_deinit(&f->job);
    f->device->api->destroy(f->device);
    assert_int_equal(allocator.live, 0);
    free(f);
}

/* The tuner's result for the region, after it ran. */
static const struct ig_tuned *tune(struct fixture *f, unsigned *out_measured) {
    struct ig_tuner *tuner = ig_tuner_create(&f->job, &f->options, &f->cache);
    f->note[0] = 0;
    ig_tuner_add(tuner, f->graph, f->region);
    ig_tuner_add(tuner, f->graph, f->region);
    *out_measured = ig_tuner_run(tuner);
    return ig_tuner_get(tuner, ig_tuner_fingerprint(f->graph, f->region, &f->target));
}

static void expect_rejected(const struct ig_tuned *tuned, uint32_t i, const char *reason) {
    assert_true(tuned->rivals.at[i].nanoseconds == IG_TIMING_REJECTED);
    if (!strstr(tuned->rivals.at[i].reason, reason)) fail_msg("'%s' lacks '%s'", tuned->rivals.at[i].reason, reason);
}

/* ---- Choosing ----------------------------------------------------------------------------------------------------------- */

static void choose_fastest(struct fixture *f) {
    unsigned measured;
    f->behaviour[1] = WRONG;
    f->behaviour[2] = FAST;
    f->behaviour[3] = UNWRITTEN;
    f->behaviour[4] = NOT_COMPILED;
    const struct ig_tuned *tuned = tune(f, &measured);
    assert_string_equal(f->note, "");
    assert_int_equal(measured, f->count);
    assert_int_equal(tuned->rivals.count, f->count);
    assert_int_equal(tuned->choice, 2);
    assert_int_equal(tuned->rivals.at[2].nanoseconds, NANOSECONDS_OF_A_FAST_ONE);
    assert_int_equal(tuned->rivals.at[0].nanoseconds, NANOSECONDS_OF_A_SLOW_ONE);
    expect_rejected(tuned, 1, "wrong: of output 0, element 0 is ");
    expect_rejected(tuned, 3, "wrong: of output 0, element 0 is");
    expect_rejected(tuned, 4, "not compiled: syntax error");
    /* From the cache's text alone: the same result, without compiling. */
    const char *text = ig_timing_cache_text(&f->cache);
    ig_timing_cache_init(&f->cache, &f->job);
    ig_timing_cache_parse(&f->cache, "text", text, strlen(text));
    for (int again = 0; again < 2; again++) {
        f->compilations = 0;
        f->options.seconds = again ? 60 : 0;
        const struct ig_tuned *second = tune(f, &measured);
        assert_int_equal(measured + f->compilations, 0);
        assert_int_equal(second->choice, 2);
        assert_string_equal(second->device, tuned->device);
        for (uint32_t i = 0; i < f->count; i++)
            assert_true(second->rivals.at[i].nanoseconds == tuned->rivals.at[i].nanoseconds);
        assert_string_equal(second->rivals.at[4].reason, tuned->rivals.at[4].reason);
        assert_string_equal(ig_timing_cache_text(&f->cache), text);
    }
}

static void test_choose_fastest(void **state) {
    with_fixture(choose_fastest);
}

/* Only candidates missing from the cache are measured. */
static void measure_missing(struct fixture *f) {
    unsigned measured;
    tune(f, &measured);
    const char *text = ig_timing_cache_text(&f->cache), *at = text;
    for (int line = 0; line < 4; line++)
        at = strchr(at, '\n') + 1;
    ig_timing_cache_init(&f->cache, &f->job);
    ig_timing_cache_parse(&f->cache, "text", text, (size_t)(at - text)); /* two comments, two measurements */
    tune(f, &measured);
    assert_int_equal(measured, f->count - 2);
}

static void test_measure_missing(void **state) {
    with_fixture(measure_missing);
}

static void reject_all(struct fixture *f) {
    unsigned measured;
    for (uint32_t i = 0; i < f->count; i++)
        f->behaviour[i] = i % 3 == 0 ? WRONG : i % 3 == 1 ? NOT_COMPILED : NOT_PRINTED;
    const struct ig_tuned *tuned = tune(f, &measured);
    assert_int_equal(measured, f->count);
    assert_int_equal(tuned->choice, IG_CHOICE_PLAIN);
    expect_rejected(tuned, 2, "no words for it");
}

static void test_reject_all(void **state) {
    with_fixture(reject_all);
}

/* ---- Comparing ---------------------------------------------------------------------------------------------------------- */

enum { ELEMENTS = 3000 };

/* Compares outputs that differ only in element `at`: `expected` and `got`. */
static void expect_comparison(struct ig_subject *s, double expected, double got, int64_t at, bool same) {
    static double wanted[ELEMENTS], found[ELEMENTS]; /* large enough for the widest type */
    enum ingot_dtype dtype = s->outputs[0].dtype;
    uint64_t seed = 7;
    for (int64_t i = 0; i < ELEMENTS; i++) {
        double value = (double)test_random(&seed) * 100;
        ig_store_f64(dtype, wanted, i, i == at ? expected : value);
        ig_store_f64(dtype, found, i, i == at ? got : value);
    }
    const char *wrong = ig_subject_compare(s, 0, wanted, found);
    if (same && wrong) fail_msg("%s: %g and %g: %s", ingot_dtype_name(dtype), expected, got, wrong);
    if (same) return;
    if (!wrong) fail_msg("%s: %g passed for %g at %lld", ingot_dtype_name(dtype), got, expected, (long long)at);
    if (!strstr(wrong, ig_format(s->job, "element %lld is ", (long long)at)))
        fail_msg("not element %lld: %s", (long long)at, wrong);
}

static void compare_results(struct fixture *f) {
    static const enum ingot_dtype types[] = {INGOT_F32, INGOT_F16, INGOT_BF16, INGOT_F64};
    static const int64_t places[] = {0, 1023, 1024, ELEMENTS - 1};
    struct ig_subject *s = ig_subject_create(f->graph, f->region, &f->options.sizes);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        s->outputs[0] = (struct ingot_tensor){.dtype = types[t], .rank = 1, .dims = {ELEMENTS}};
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            int64_t at = places[p];
            double off = types[t] == INGOT_BF16 ? 4 : types[t] == INGOT_F16 ? 0.5 : 0.03; /* of 100 */
            expect_comparison(s, 1, 1, at, true);
            expect_comparison(s, -1, -1 - off / 4, at, true);
            expect_comparison(s, -1, 1, at, types[t] == INGOT_BF16);
            expect_comparison(s, 50, 50 + off, at, false);
            expect_comparison(s, 1e-7, 0, at, true);
            expect_comparison(s, INFINITY, INFINITY, at, true);
            expect_comparison(s, INFINITY, -INFINITY, at, false);
            expect_comparison(s, INFINITY, 60000, at, false);
            expect_comparison(s, 60000, INFINITY, at, false);
            expect_comparison(s, NAN, NAN, at, true);
            expect_comparison(s, NAN, 0, at, false);
            expect_comparison(s, 0, NAN, at, false);
        }
    }
    ig_subject_destroy(s);
}

static void test_comparing(void **state) {
    with_fixture(compare_results);
}

/* Floats of 8 bits: neighbours are as good, whatever their sign, and small differences beside the largest. */
static void compare_narrow(struct fixture *f) {
    static const struct {
        uint8_t expected, got;
        bool same;
    } cases[] = {{0x40, 0x40, true},  {0x40, 0x41, true}, {0x40, 0x42, false}, {0xc0, 0xc1, true},
                 {0xc0, 0xc2, false}, {0x00, 0x80, true}, {0x01, 0x80, true},  {0x01, 0x82, true},
                 {0x40, 0xc0, false}, {0x7f, 0xff, true}, {0x7f, 0x7e, false}, {0x7e, 0x7f, false},
                 {0x76, 0x78, false}, {0xfe, 0xfd, true}};
    struct ig_subject *s = ig_subject_create(f->graph, f->region, &f->options.sizes);
    s->outputs[0] = (struct ingot_tensor){.dtype = INGOT_F8E4M3FN, .rank = 1, .dims = {2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t wanted[] = {0x78, cases[i].expected}, found[] = {0x78, cases[i].got};
        const char *wrong = ig_subject_compare(s, 0, wanted, found);
        if (!wrong != cases[i].same) fail_msg("%x and %x: %s", wanted[1], found[1], wrong ? wrong : "the same");
    }
    ig_subject_destroy(s);
}

static void test_comparing_narrow(void **state) {
    with_fixture(compare_narrow);
}

/* ---- No time, no device ------------------------------------------------------------------------------------------------- */

static void run_out_of_time(struct fixture *f) {
    unsigned measured;
    f->compile_ns = 60000000000; /* all there is */
    const struct ig_tuned *tuned = tune(f, &measured);
    assert_int_equal(measured, 0);
    assert_int_equal(tuned->choice, 0);
    assert_null(tuned->device);
    assert_string_equal(f->note, "1 of 1 kernels are not tuned, or in part: the time was up");
}

static void test_no_time(void **state) {
    with_fixture(run_out_of_time);
}

/* What it takes to measure the first candidate, in all its launches. */
static double seconds_of_one(struct fixture *f) {
    unsigned measured;
    double begin = now(NULL);
    for (uint32_t i = 1; i < f->count; i++)
        f->behaviour[i] = NOT_COMPILED;
    tune(f, &measured);
    ig_timing_cache_init(&f->cache, &f->job);
    for (uint32_t i = 1; i < f->count; i++)
        f->behaviour[i] = SLOW;
    return now(NULL) - begin;
}

/* The measurement under way at the end of the budget is completed; the next run continues where the last one ended. */
static void run_out_of_time_midway(struct fixture *f) {
    unsigned measured;
    f->options.seconds = 1.01 * seconds_of_one(f);
    f->behaviour[1] = FAST;
    const struct ig_tuned *tuned = tune(f, &measured);
    assert_int_equal(measured, 2);
    assert_int_equal(tuned->choice, 1);
    assert_int_equal(tuned->rivals.at[0].nanoseconds, NANOSECONDS_OF_A_SLOW_ONE);
    assert_int_equal(tuned->rivals.at[2].nanoseconds, 0);
    assert_string_equal(f->note, "1 of 1 kernels are not tuned, or in part: the time was up");
    f->options.seconds = 60;
    tune(f, &measured);
    assert_int_equal(measured, f->count - 2);
    assert_string_equal(f->note, "");
}

static void test_little_time(void **state) {
    with_fixture(run_out_of_time_midway);
}

static void lack_device(struct fixture *f) {
    unsigned measured;
    const char *text = ig_format(
        &f->job,
        "%s 5 \"%s\" \"\" \"another machine\" \"stubs 1.0\"\n%s 4 \"%s\" \"\" \"other versions\" \"stubs 1.1\"\n",
        ig_tuner_fingerprint(f->graph, f->region, &f->target), f->tactics[3],
        ig_tuner_fingerprint(f->graph, f->region, &f->target), f->tactics[2]);
    f->options.features = (uint64_t)1 << 63;
    const struct ig_tuned *tuned = tune(f, &measured);
    assert_int_equal(measured, 0);
    assert_int_equal(tuned->choice, 0);
    assert_string_equal(f->note,
                        "not tuned, the first choices are taken: the target needs unknown, which this processor "
                        "lacks");
    /* Another machine's times count if the version is the same. */
    f->options.seconds = 0;
    ig_timing_cache_parse(&f->cache, "text", text, strlen(text));
    tuned = tune(f, &measured);
    assert_int_equal(tuned->choice, 3);
    assert_string_equal(tuned->device, "another machine");
    assert_string_equal(f->note, "");
}

static void test_no_device(void **state) {
    with_fixture(lack_device);
}

/* ---- The cache ------------------------------------------------------------------------------------------------------------ */

#define PRINT_1 "00112233445566778899aabbccddeeff"
#define PRINT_2 "10112233445566778899aabbccddeeff"
#define REST " \"s=1\" \"a device\" \"ingot 0.1\""

static const char *reprint(struct ig_job *job, const char *first, const char *second) {
    struct ig_timing_cache cache;
    ig_timing_cache_init(&cache, job);
    ig_timing_cache_parse(&cache, "first", first, strlen(first));
    if (second) ig_timing_cache_parse(&cache, "second", second, strlen(second));
    const char *text = ig_timing_cache_text(&cache), *again;
    ig_timing_cache_init(&cache, job);
    ig_timing_cache_parse(&cache, "again", text, strlen(text));
    again = ig_timing_cache_text(&cache);
    assert_string_equal(text, again);
    for (int line = 0; line < 2; line++) /* the header */
        text = strchr(text, '\n') + 1;
    return text;
}

static void check_texts(struct ig_job *job, void *argument) {
    assert_string_equal(reprint(job, "", NULL), "");
    assert_string_equal(reprint(job, "\n  \t\n\n", NULL), "");
    /* Sorted, fastest first, rejected ones last; comments stay with their lines; the last newline is optional. */
    assert_string_equal(
        reprint(job,
                PRINT_2 " 7 \"t\"" REST "\n# of the slow one\n#and more\n" PRINT_1 "\t9  \"slow\"" REST "  \n" PRINT_1
                        " rejected \"bad\"" REST " \"a \\\"reason\\\"\"\n" PRINT_1 " 3 \"quick\"" REST "\n# the end",
                NULL),
        PRINT_1 " 3 \"quick\"" REST "\n# of the slow one\n#and more\n" PRINT_1 " 9 \"slow\"" REST "\n" PRINT_1
                " rejected \"bad\"" REST " \"a \\\"reason\\\"\"\n" PRINT_2 " 7 \"t\"" REST "\n# the end\n");
    /* Merging: the later entry counts, comments stay. */
    const char *const a = "# mine\n" PRINT_1 " 5 \"t\"" REST "\n" PRINT_1 " rejected \"u\"" REST "\n";
    const char *const b = PRINT_1 " 4 \"t\"" REST "\n" PRINT_2 " 1 \"t\"" REST "\n";
    const char *const both =
        "# mine\n" PRINT_1 " 4 \"t\"" REST "\n" PRINT_1 " rejected \"u\"" REST "\n" PRINT_2 " 1 \"t\"" REST "\n";
    assert_string_equal(reprint(job, a, b), both);
    assert_string_equal(reprint(job, ig_format(job, "%s%s", a, b), NULL), both);
    /* Entries that no build asks for are kept. */
    assert_string_equal(reprint(job, PRINT_1 " 0 \"no such tactic\" \"\" \"\" \"\"\n", NULL),
                        PRINT_1 " 0 \"no such tactic\" \"\" \"\" \"\"\n");
}

static void test_cache_texts(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_texts, NULL, &error) != INGOT_OK) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

struct bad_text {
    const char *text;
    size_t length; /* 0: the text's length */
    const char *message;
};

static void parse_bad(struct ig_job *job, void *argument) {
    const struct bad_text *bad = argument;
    struct ig_timing_cache cache;
    ig_timing_cache_init(&cache, job);
    ig_timing_cache_parse(&cache, "c.txt", bad->text, bad->length ? bad->length : strlen(bad->text));
}

static void test_malformed_texts(void **state) {
    static const struct bad_text texts[] = {
        {"x", 0, "line 1, column 1: expected a fingerprint"},
        {"# c\n\n  0011 5", 0, "line 3, column 3: expected a fingerprint"},
        {PRINT_1 "0 5", 0, "line 1, column 1: expected a fingerprint"},
        {PRINT_1 "\n", 0, "line 1, column 33: expected a space"},
        {PRINT_1 " -5 \"t\"" REST, 0, "line 1, column 34: expected nanoseconds or 'rejected'"},
        {PRINT_1 " 99999999999999999999 \"t\"" REST, 0, "column 34: expected nanoseconds or 'rejected'"},
        {PRINT_1 " 5.5 \"t\"" REST, 0, "line 1, column 35: expected a space"},
        {PRINT_1 " 5 t" REST, 0, "line 1, column 36: expected a tactic in quotes"},
        {PRINT_1 " 5 \"t" REST, 0, "expected a space"},
        {PRINT_1 " 5 \"t\n\"" REST, 0, "line 1, column 36: expected a tactic in quotes"},
        {PRINT_1 " 5 \"t\" \"s\" \"d\"", 0, "column 47: expected a space"},
        {PRINT_1 " 5 \"t\"" REST " more", 0, "expected the end of the line"},
        {PRINT_1 " 5 \"t\"" REST " \"reason\"", 0, "expected the end of the line"},
        {PRINT_1 " rejected \"t\"" REST " \"reason\" \"again\"", 0, "expected the end of the line"},
        {PRINT_1 " 5 \"t\"" REST "\0", sizeof(PRINT_1 " 5 \"t\"" REST), "expected no zero byte"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ig_job job;
        struct ingot_error error;
        struct bad_text bad = texts[i];
        ig_job_init(&job, &ig_libc_allocator);
        assert_int_equal(ig_job_run(&job, parse_bad, &bad, &error), INGOT_INVALID_ARGUMENT);
        if (strncmp(error.message, "cannot read the timing cache 'c.txt': line ", 43) != 0 ||
            !strstr(error.message, bad.message))
            fail_msg("'%s' lacks '%s'", error.message, bad.message);
        ig_job_deinit(&job);
    }
}

/* A mutated text is parsed or refused; a parsed one can be printed and parsed again. */
static void parse_mutated(struct ig_job *job, void *argument) {
    const struct bad_text *text = argument;
    struct ig_timing_cache cache;
    ig_timing_cache_init(&cache, job);
    ig_timing_cache_parse(&cache, "c.txt", text->text, text->length);
    const char *once = ig_timing_cache_text(&cache), *again;
    ig_timing_cache_init(&cache, job);
    ig_timing_cache_parse(&cache, "c.txt", once, strlen(once));
    again = ig_timing_cache_text(&cache);
    if (strcmp(once, again) != 0) ig_raise(job, INGOT_INTERNAL, "'%s' became '%s'", once, again);
}

static void test_mutated_texts(void **state) {
    static const char whole[] = "# why\n" PRINT_1 " 5 \"t\"" REST "\n" PRINT_1 " rejected \"u\"" REST
                                " \"wrong: \\x41 \\\" 1\"\n\n# end\n" PRINT_2 " 123456 \"\"" REST;
    static const char likely[] = "\"\\ #\n0r9\x00\x80";
    uint64_t seed = 1;
    for (int i = 0; i < 2000; i++) {
        char text[sizeof whole];
        struct bad_text mutated = {text, sizeof whole - 1, NULL};
        struct ingot_error error;
        struct ig_job job;
        memcpy(text, whole, sizeof whole);
        for (int k = 0; k <= i % 3; k++) {
            size_t at = (size_t)((test_random(&seed) + 1) / 2 * (float)(sizeof whole - 2));
            text[at] = likely[(size_t)((test_random(&seed) + 1) / 2 * (float)(sizeof likely - 2))];
        }
        if (i % 5 == 0) mutated.length = (size_t)i % (sizeof whole - 1) + 1;
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, parse_mutated, &mutated, &error);
        if (status != INGOT_OK && status != INGOT_INVALID_ARGUMENT) fail_msg("mutation %d: %s", i, error.message);
        ig_job_deinit(&job);
    }
}

/* ---- Whole builds ----------------------------------------------------------------------------------------------------------- */

static void make_folder(char path[64]) {
    strcpy(path, "/tmp/ingot-tune-XXXXXX");
    if (!mkdtemp(path)) fail_msg("no temporary folder");
}

/* Rewrites a file, each line by `change`. */
static void rewrite(const char *path, void (*change)(char *line, FILE *out)) {
    char *line = NULL, *copy = NULL;
    size_t capacity = 0, size;
    FILE *in = fopen(path, "r"), *out = open_memstream(&copy, &size);
    while (getline(&line, &capacity, in) > 0)
        change(line, out);
    fclose(in);
    fclose(out);
    free(line);
    out = fopen(path, "w");
    fwrite(copy, 1, size, out);
    fclose(out);
    free(copy);
}

static void reject_line(char *line, FILE *out) {
    char *rest = strchr(line, '"');
    if (line[0] != '#') {
        fprintf(out, "%.32s rejected %s", line, rest);
    } else {
        fputs(line, out);
    }
}

static void test_builds(void **state) {
    char folder[64], path[80];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/timings.txt", folder);
    const char *const caches[] = {path};
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.timing_caches = caches;
    options.n_timing_caches = 1;
    struct test_network tuned, again, untuned;
    test_network_build(&untuned, TEST_DIGITS, &options);
    assert_int_equal(access(path, F_OK), -1); /* nothing was measured */
    options.tune_seconds = 1e6;               /* until all is measured, on any machine */
    test_network_build(&tuned, TEST_DIGITS, &options);
    options.tune_seconds = 0;
    test_network_build(&again, TEST_DIGITS, &options);
    assert_int_equal(again.size, tuned.size);
    assert_memory_equal(again.data, tuned.data, tuned.size);
    test_network_release(&again);
    /* If the cache rejects all tactics, the plain kernels are used; at level 0 the cache is not read. */
    rewrite(path, reject_line);
    test_network_build(&again, TEST_DIGITS, &options);
    assert_false(again.size == tuned.size && memcmp(again.data, tuned.data, tuned.size) == 0);
    test_network_release(&again);
    options.opt_level = 0;
    options.tune_seconds = 1e6;
    test_network_build(&again, TEST_DIGITS, &options);
    options.n_timing_caches = 0;
    options.tune_seconds = 0;
    test_network_release(&untuned);
    test_network_build(&untuned, TEST_DIGITS, &options);
    assert_int_equal(again.size, untuned.size);
    assert_memory_equal(again.data, untuned.data, untuned.size);
    test_network_release(&again);
    test_network_release(&untuned);
    test_network_release(&tuned);
    unlink(path);
    if (rmdir(folder)) fail_msg("something was left beside the cache");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose_fastest),   cmocka_unit_test(test_measure_missing),
        cmocka_unit_test(test_reject_all),       cmocka_unit_test(test_comparing),
        cmocka_unit_test(test_comparing_narrow), cmocka_unit_test(test_no_time),
        cmocka_unit_test(test_little_time),      cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_cache_texts),      cmocka_unit_test(test_malformed_texts),
        cmocka_unit_test(test_mutated_texts),    cmocka_unit_test(test_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
