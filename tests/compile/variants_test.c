/*
 * Variants: which kernels a region of symbolic sizes gets, and which of them runs where. Nothing is compiled: candidates
 * are scheduled for a GPU and judged by the cost model, or by times that the test makes up. random_kernels_test runs some.
 */
#include "base/memory.h"
#include "compile/variants/variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "compile/compile.h"
#include "compile/options.h"
#include "compile/specialize.h"
#include "compile/variants/costs.h"
#include "compile/variants/samples.h"
#include "engine/engine.h"
#include "ir/text/print.h"
#include "pass/precision/precision.h"
#include "support/beside.h"
#include "support/check/passes.h"
#include "support/support.h"

enum { MOST = 6, SPECS = 3 };

/* A network, and what is known of its symbols. */
struct network {
    const char *text;
    struct ingot_shape_spec specs[SPECS];
    int n_specs;
};

struct choice {
    struct ig_target_choice target;
    struct ig_graph *graph;
    struct ig_variant_set set;
};

#define MATMUL(operands) "matmul(" operands ") {acc=f32, packed=0, n=0, math=0}: f32"
#define ROUNDED "{to=f16, saturate=0}: f16"

/* Products of several shapes, and a softmax. */
#define LAYERS(n)                                                                                                   \
    "graph {\n  input %0 \"x\": f16[" n ",768]\n  input %1 \"w\": f16[768,3072]\n  input %2 \"v\": f16[3072,768]\n" \
    "  input %3 \"u\": f16[768,64]\n  %4 = " MATMUL(                                                                \
        "%0, %1") "[" n ",3072]\n  %5 = cast(%4) " ROUNDED "[" n ",3072]\n"                                         \
                  "  %6 = " MATMUL("%5, %2") "[" n ",768]\n  %7 = cast(%6) " ROUNDED "[" n ",768]\n"                \
                                             "  %8 = " MATMUL(                                                      \
                                                 "%7, %3") "[" n ",64]\n  %9 = reduce_max(%8) {axes=[1]}: f32[" n   \
                                                           ",1]\n"                                                  \
                                                           "  %10 = sub(%8, %9): f32[" n                            \
                                                           ",64]\n  %11 = exp(%10): f32[" n ",64]\n"                \
                                                           "  %12 = reduce_sum(%11) {axes=[1]}: f32[" n             \
                                                           ",1]\n  %13 = div(%11, %12): f32[" n ",64]\n"            \
                                                           "  output \"y\" = %13\n}\n"
#define ONE_SYMBOL LAYERS("batch")
/* Rows and columns vary: scores of all pairs. */
#define TWO_SYMBOLS                                                                                          \
    "graph {\n  input %0 \"x\": f16[batch,length,64]\n  input %1 \"w\": f16[64,512]\n"                       \
    "  %2 = " MATMUL("%0, %1") "[batch,length,512]\n  %3 = cast(%2) " ROUNDED "[batch,length,512]\n"         \
                               "  %4 = transpose(%3) {perm=[0,2,1]}: f16[batch,512,length]\n  %5 = " MATMUL( \
                                   "%3, %4") "[batch,length,length]\n"                                       \
                                             "  output \"y\" = %5\n}\n"

static struct ig_graph *prepare(struct ig_job *job, const struct network *network,
                                struct ig_target_choice *out_target) {
    const struct ig_precisions precisions = {.base = IG_PRECISION_FP16};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), network->text, strlen(network->text));
    ig_target_parse(job, "cuda:sm_90a", out_target);
    const struct ig_pass_options options = {.target = &out_target->target, .precisions = &precisions};
    g = ig_specialize(g, network->specs, (size_t)network->n_specs, false);
    return passes_of_build(g, &(struct ingot_build_options)INGOT_BUILD_OPTIONS_INIT, &options);
}

static struct choice choose(struct ig_job *job, const struct network *network, uint32_t most) {
    struct choice c;
    c.graph = prepare(job, network, &c.target);
    ig_variants_choose(c.graph, &c.target.target, NULL, most, &c.set);
    return c;
}

static void run_job(void (*body)(struct ig_job *job, void *argument), const void *argument) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, (void *)argument, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

/* The number of kernels beside the first ones. */
static uint32_t count_more(const struct choice *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->set.variants.count; i++)
        count += c->set.variants.at[i].list.count;
    return count;
}

static const struct ig_variants *variants_of(const struct choice *c, struct ig_graph *g, uint32_t region) {
    return ig_variants_get(&c->set, ig_region_fingerprint(g, &g->regions.at[region], &c->target.target).text);
}

static int64_t decide(const struct ig_variants *v, const struct ig_sizes *at) {
    int64_t kernel = -1;
    assert_true(
        ig_dim_eval(at->dims, v->decision.kernel, at->symbols.at, at->values.at, (int)at->symbols.count, &kernel));
    if (kernel < 0 || kernel > v->list.count) fail_msg("kernel %lld of %u", (long long)kernel, v->list.count + 1);
    return kernel;
}

/* ---- Choices ----------------------------------------------------------------------------------------------------------- */

/* At each sample point the decision is for the best kernel, or one that is as good. */
static void check_region(const struct choice *c, uint32_t region, const struct ig_samples *samples, double at_most,
                         double on_average) {
    const struct ig_variants *v = variants_of(c, c->graph, region);
    const struct ig_kernel *kernels[MOST + 1];
    double sum = 0;
    if (!v) return;
    assert_true(v->list.count > 0 && v->list.count < MOST);
    for (uint32_t i = 0; i <= v->list.count; i++) {
        const struct ig_variant first = {NULL, 0}, *at = i ? &v->list.at[i - 1] : &first;
        kernels[i] =
            ig_kernel_candidate(c->graph, &c->graph->regions.at[region], &c->target.target, at->at, at->choice);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(kernels[i]->tactic, kernels[k]->tactic);
    }
    for (uint32_t p = 0; p < samples->points.count; p++) {
        const struct ig_sizes *at = &samples->points.at[p];
        double best = INFINITY, taken = ig_kernel_cost(kernels[decide(v, at)], at);
        for (uint32_t i = 0; i <= v->list.count; i++)
            best = fmin(best, ig_kernel_cost(kernels[i], at));
        if (taken > (1 + at_most) * best) fail_msg("region %u, point %u: %g us, not %g", region, p, taken, best);
        sum += taken / best - 1;
    }
    if (sum > on_average * samples->points.count)
        fail_msg("region %u: %g on average", region, sum / samples->points.count);
}

struct checked {
    struct network network;
    double at_most, on_average; /* what the kernel that runs may lose against the best */
    uint32_t least;             /* kernels more */
};

/* The range of a symbol; 0 if there are not so many. */
static int64_t lo_of(const struct ig_sizes *sizes, uint32_t symbol) {
    int64_t lo = 0, hi;
    if (symbol < sizes->symbols.count) ig_dim_range(sizes->dims, sizes->symbols.at[symbol], &lo, &hi);
    return lo;
}

static int64_t hi_of(const struct ig_sizes *sizes, uint32_t symbol) {
    int64_t lo, hi = 0;
    if (symbol < sizes->symbols.count) ig_dim_range(sizes->dims, sizes->symbols.at[symbol], &lo, &hi);
    return hi;
}

static void check_choice(struct ig_job *job, void *argument) {
    const struct checked *checked = argument;
    struct choice c = choose(job, &checked->network, MOST);
    struct ig_samples samples;
    ig_samples_make(c.graph, &samples);
    for (uint32_t i = 0; i < c.graph->regions.count; i++)
        check_region(&c, i, &samples, checked->at_most, checked->on_average);
    if (count_more(&c) < checked->least) fail_msg("only %u kernels more", count_more(&c));
    /* Sizes between the points too. */
    struct ig_sizes sizes = samples.points.at[0];
    for (uint32_t i = 0; i < c.set.variants.count; i++) {
        for (int64_t a = lo_of(&sizes, 0); a <= 3000 && a <= hi_of(&sizes, 0); a += 1 + a / 7) {
            for (int64_t b = lo_of(&sizes, 1); b <= 3000 && b <= hi_of(&sizes, 1); b += 3 + b / 5) {
                sizes.values.at[0] = a;
                if (sizes.values.count > 1) sizes.values.at[1] = b;
                decide(&c.set.variants.at[i], &sizes);
            }
        }
    }
}

static void test_the_best_runs(void **state) {
    /* With two symbols the tree may end before it is perfect. */
    static const struct checked checked[] = {
        {{ONE_SYMBOL, {{"batch", "1:8:4096"}}, 1}, 0.003, 0.003, 4},
        {{ONE_SYMBOL, {{"batch", "1:8:128"}}, 1}, 0.003, 0.003, 1},
        {{TWO_SYMBOLS, {{"batch", "1:8:32"}, {"length", "16:128:512"}}, 2}, 0.15, 0.01, 2},
        {{TWO_SYMBOLS, {{0}}, 0}, 0.5, 0.02, 2},
    };
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++)
        run_job(check_choice, &checked[i]);
}

static void check_limits(struct ig_job *job, void *argument) {
    const struct network network = {ONE_SYMBOL, {{"batch", "1:8:4096"}}, 1};
    uint32_t before = 0;
    for (uint32_t most = 0; most <= MOST; most++) {
        struct choice c = choose(job, &network, most);
        for (uint32_t i = 0; i < c.set.variants.count; i++)
            assert_true(c.set.variants.at[i].list.count < most);
        if (most < 2) assert_int_equal(c.set.variants.count, 0);
        assert_true(count_more(&c) >= before);
        before = count_more(&c);
    }
    assert_true(before > 0);
}

static void test_limits(void **state) {
    run_job(check_limits, NULL);
}

/* Texts of all that was chosen. */
static const char *describe(struct ig_job *job, const struct choice *c) {
    struct ig_text text;
    ig_text_init(&text, job);
    for (uint32_t i = 0; i < c->set.variants.count; i++) {
        const struct ig_variants *v = &c->set.variants.at[i];
        ig_text_printf(&text, "%s:", ig_dim_text(c->graph->dims, v->decision.kernel));
        for (uint32_t k = 0; k < v->list.count; k++) {
            const struct ig_sizes *at = v->list.at[k].at;
            for (uint32_t s = 0; s < at->values.count; s++)
                ig_text_printf(&text, " %lld", (long long)at->values.at[s]);
            ig_text_printf(&text, " (%d)", v->list.at[k].choice);
        }
        for (uint32_t k = 0; k < v->decision.ranges.count; k++)
            ig_text_printf(&text, " %u where %s;", v->decision.ranges.at[k].kernel,
                           ig_decision_where(job, c->graph->dims, v->decision.sizes, &v->decision.ranges.at[k]));
    }
    return text.length ? text.at : "";
}

static void check_again(struct ig_job *job, void *argument) {
    const struct network network = {TWO_SYMBOLS, {{"length", "16:128:512"}}, 1};
    struct choice first = choose(job, &network, MOST), second = choose(job, &network, MOST);
    assert_true(first.set.variants.count > 0);
    assert_string_equal(describe(job, &first), describe(job, &second));
}

static void test_the_same_again(void **state) {
    run_job(check_again, NULL);
}

static void expect_none(struct ig_job *job, void *argument) {
    struct choice c = choose(job, argument, MOST);
    assert_int_equal(c.set.variants.count, 0);
}

static void test_nothing_varies(void **state) {
    static const struct network networks[] = {
        {ONE_SYMBOL, {{"batch", "8"}}, 1},
        {ONE_SYMBOL, {{"batch", "8:8:8"}}, 1},
        {ONE_SYMBOL, {{"batch", "0:1:1"}}, 1},
        {LAYERS("16"), {{0}}, 0},
        {"graph {\n  input %0 \"x\": f32[n]\n  output \"y\" = %0\n}\n", {{0}}, 0},
    };
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        run_job(expect_none, &networks[i]);
}

/* ---- Other graphs ------------------------------------------------------------------------------------------------------ */

/* A product in the body of a loop. */
static const char in_a_loop[] =
    "graph {\n  input %0 \"x\": f16[n,2048]\n  input %1 \"w\": f16[2048,2048]\n"
    "  %2, %3 = loop(-, -, %0, %1) {trip=3, carried=2}: f16[n,2048], f16[2048,2048]\n  body {\n"
    "    input %0 \"i\": i64[]\n    input %1 \"going\": bool[]\n    input %2 \"x\": f16[n,2048]\n"
    "    input %3 \"w\": f16[2048,2048]\n    %4 = " MATMUL(
        "%2, %3") "[n,2048]\n    %5 = cast(%4) " ROUNDED "[n,2048]\n"
                  "    output \"going\" = %1\n    output \"x\" = %5\n    output \"w\" = %3\n  }\n  output \"y\" = "
                  "%2\n}\n";

static void check_bodies(struct ig_job *job, void *argument) {
    const struct network network = {in_a_loop, {{"n", "1:8:8192"}}, 1};
    struct choice c = choose(job, &network, MOST);
    const struct ig_variants *found = NULL;
    for (uint32_t i = 0; i < c.graph->regions.count; i++) {
        const struct ig_region *region = &c.graph->regions.at[i];
        struct ig_graph *body = c.graph->nodes.at[region->anchor].body[0];
        for (uint32_t k = 0; body && k < body->regions.count; k++)
            found = found ? found : variants_of(&c, body, k);
    }
    assert_non_null(found);
    struct ig_samples samples;
    ig_samples_make(c.graph, &samples);
    for (uint32_t p = 0; p < samples.points.count; p++)
        decide(found, &samples.points.at[p]);
}

static void test_bodies(void **state) {
    run_job(check_bodies, NULL);
}

/* Ranges from nothing to everything, sizes of expressions that are 0 or less at some points, and a size that the data
 * decide: there must be a decision everywhere. */
static void check_ranges(struct ig_job *job, void *argument) {
    struct choice c = choose(job, argument, MOST);
    struct ig_samples samples;
    ig_samples_make(c.graph, &samples);
    for (uint32_t i = 0; i < c.set.variants.count; i++) {
        for (uint32_t p = 0; p < samples.points.count; p++)
            decide(&c.set.variants.at[i], &samples.points.at[p]);
    }
}

#define CUT                                                                                        \
    "graph {\n  input %0 \"x\": f16[n,64]\n  input %1 \"w\": f16[64,512]\n"                        \
    "  %2 = slice(%0) {starts=[20,0], sizes=[max(n-20,0),64], steps=[1,1]}: f16[max(n-20,0),64]\n" \
    "  %3 = " MATMUL("%2, %1") "[max(n-20,0),512]\n  output \"y\" = %3\n}\n"
/* No input determines the number of columns. */
#define COLUMNS                                                                              \
    "graph {\n  input %0 \"x\": f16[n,64]\n  %1 = iota() {dims=[64,k], axis=0}: i64[64,k]\n" \
    "  %2 = cast(%1) " ROUNDED "[64,k]\n  %3 = " MATMUL("%0, %2") "[n,k]\n  output \"y\" = %3\n}\n"

static void test_any_range(void **state) {
    static const struct network networks[] = {
        {ONE_SYMBOL, {{"batch", "0:1:2147483647"}}, 1},
        {ONE_SYMBOL, {{"batch", "1:1:1000000"}}, 1},
        {ONE_SYMBOL, {{"batch", "0:0:5"}}, 1},
        {ONE_SYMBOL, {{"batch", "2147483646:2147483646:2147483647"}}, 1},
        {ONE_SYMBOL, {{"batch", "1:4096:4096"}}, 1},
        {ONE_SYMBOL, {{0}}, 0},
        {CUT, {{"n", "1:8:4096"}}, 1},
        {CUT, {{0}}, 0},
        {COLUMNS, {{"n", "1:8:4096"}}, 1},
    };
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        run_job(check_ranges, &networks[i]);
}

/* ---- Sample points ------------------------------------------------------------------------------------------------------- */

static void check_samples(struct ig_job *job, void *argument) {
    static const struct network networks[] = {
        {ONE_SYMBOL, {{"batch", "1:8:32"}}, 1},
        {ONE_SYMBOL, {{"batch", "3:50:100000"}}, 1},
        {TWO_SYMBOLS, {{"batch", "1:8:32"}, {"length", "16:128:512"}}, 2},
        {"graph {\n  input %0 \"x\": f32[a,b,c,d,e]\n  output \"y\" = %0\n}\n", {{0}}, 0},
    };
    /* One for the usual sizes; 32; the ends, 50 and others; 12 each; 3 each of four. */
    static const uint32_t least[] = {33, 40, 100, 50}, few[] = {7, 7, 10, 10};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct ig_target_choice target;
        struct ig_graph *g = prepare(job, &networks[i], &target);
        struct ig_samples samples;
        ig_samples_make(g, &samples);
        double sum = 0;
        for (uint32_t p = 0; p < samples.points.count; p++) {
            assert_true(samples.weights[p] >= 0 && (p == 0) == (samples.weights[p] == 0));
            sum += samples.weights[p];
        }
        assert_true(fabs(sum - 1) < 1e-9);
        if (samples.points.count < least[i] || samples.points.count > 161)
            fail_msg("network %zu: %u points", i, samples.points.count);
        ig_samples_make_few(g, &samples);
        if (samples.points.count > few[i] || samples.points.count < few[i] - 1)
            fail_msg("network %zu: %u points", i, samples.points.count);
    }
}

static void test_samples(void **state) {
    run_job(check_samples, NULL);
}

static void check_few(struct ig_job *job, void *argument) {
    static const int64_t wanted[] = {50, 3, 3200, 12, 49, 197, 793};
    const struct network network = {ONE_SYMBOL, {{"batch", "3:50:100000"}}, 1};
    struct ig_target_choice target;
    struct ig_samples samples;
    ig_samples_make_few(prepare(job, &network, &target), &samples);
    assert_int_equal(samples.points.count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < samples.points.count; i++)
        assert_int_equal(samples.points.at[i].values.at[0], wanted[i]);
}

/* The usual size, both ends (as far as 64 times the usual size), then those between. */
static void test_few_samples(void **state) {
    run_job(check_few, NULL);
}

/* ---- Decisions ----------------------------------------------------------------------------------------------------------- */

enum { POINTS = 60, KERNELS = 4 };

static bool is_in(const struct ig_decision_range *range, const int64_t *values) {
    bool in = true;
    for (int i = 0; i < IG_MODEL_SIZES; i++)
        in = in && values[i] >= range->lo[i] && (!range->hi[i] || values[i] < range->hi[i]);
    return in;
}

/* Kernel k is best for m between thresholds, and each n changes which; the ranges say what the expression does. */
static void check_decisions(struct ig_job *job, void *argument) {
    struct ig_dims *dims = ig_dims_create(job);
    ig_dim m = ig_dim_symbol(dims, "m"), n = ig_dim_symbol(dims, "n"), one = ig_dim_const(dims, 1);
    const ig_dim sizes[IG_MODEL_SIZES] = {one, ig_dim_mul(dims, ig_dim_const(dims, 49), m), n, one};
    int64_t values[IG_MODEL_SIZES * POINTS];
    double costs[KERNELS][POINTS];
    const double *rows[KERNELS] = {costs[0], costs[1], costs[2], costs[3]};
    for (int k = 0; k < POINTS; k++) {
        int64_t a = 1 + k % 10, b = 1 + k / 10 * 16;
        memcpy(values + IG_MODEL_SIZES * k, (const int64_t[]){1, 49 * a, b, 1}, IG_MODEL_SIZES * sizeof *values);
        for (int i = 0; i < KERNELS; i++)
            costs[i][k] = 1 + 0.1 * (i != (a > 3) + 2 * (b > 40));
    }
    const struct ig_decision_problem problem = {job, dims, sizes, POINTS, values, KERNELS, rows};
    struct ig_decision decision;
    ig_decide(&problem, &decision);
    assert_int_equal(decision.ranges.count, 4);
    for (int64_t a = 0; a < 30; a++) {
        for (int64_t b = 0; b < 200; b++) {
            int64_t kernel = -1, at[] = {1, 49 * a, b, 1};
            int matches = 0;
            assert_true(ig_dim_eval(dims, decision.kernel, (ig_dim[]){m, n}, (int64_t[]){a, b}, 2, &kernel));
            for (uint32_t r = 0; r < decision.ranges.count; r++) {
                if (!is_in(&decision.ranges.at[r], at)) continue;
                assert_int_equal(decision.ranges.at[r].kernel, kernel);
                matches++;
            }
            assert_int_equal(matches, 1);
            assert_int_equal(kernel, (a > 3) + 2 * (b > 40));
        }
    }
    assert_string_equal(ig_decision_where(job, dims, decision.sizes, &decision.ranges.at[0]), "49*m < 172 and n < 41");
}

static void test_decisions(void **state) {
    run_job(check_decisions, NULL);
}

/* Any costs: the value is always a kernel's number, and one kernel that is best everywhere is decided on without a
 * question. */
static void check_random_decisions(struct ig_job *job, void *argument) {
    struct ig_dims *dims = ig_dims_create(job);
    ig_dim m = ig_dim_symbol(dims, "m"), one = ig_dim_const(dims, 1);
    const ig_dim sizes[IG_MODEL_SIZES] = {m, ig_dim_add(dims, m, one), one, one};
    int64_t values[IG_MODEL_SIZES * POINTS], only;
    double costs[KERNELS][POINTS];
    const double *rows[KERNELS] = {costs[0], costs[1], costs[2], costs[3]};
    uint64_t random = 1;
    for (int turn = 0; turn < 50; turn++) {
        for (int k = 0; k < POINTS; k++) {
            memcpy(values + IG_MODEL_SIZES * k, (const int64_t[]){k, k + 1, 1, 1}, IG_MODEL_SIZES * sizeof *values);
            for (int i = 0; i < KERNELS; i++)
                costs[i][k] =
                    turn % 10 == 0 && i == 2 ? 0.5 : 1 + (double)((random = random * 6364136223846793005u + 1) >> 40);
        }
        const struct ig_decision_problem problem = {job, dims, sizes, POINTS, values, KERNELS, rows};
        struct ig_decision decision;
        ig_decide(&problem, &decision);
        for (int64_t size = 0; size < 3 * POINTS; size++) {
            int64_t kernel = -1;
            assert_true(ig_dim_eval(dims, decision.kernel, &m, &size, 1, &kernel));
            assert_true(kernel >= 0 && kernel < KERNELS);
        }
        if (turn % 10 != 0) continue;
        assert_true(ig_dim_is_const(dims, decision.kernel, &only) && only == 2);
        assert_int_equal(decision.ranges.count, 1);
        assert_string_equal(ig_decision_where(job, dims, decision.sizes, &decision.ranges.at[0]), "");
    }
}

static void test_random_decisions(void **state) {
    run_job(check_random_decisions, NULL);
}

/* ---- Measured times -------------------------------------------------------------------------------------------------------- */

/* A model in which a kernel takes `problem` microseconds, a microsecond more for every 100 rows, and 1.5 to start, which
 * cost nothing in a network. */
static double cost_of_rows(const struct ig_kernel *kernel, const int64_t *sizes) {
    return *(const double *)kernel->model.problem + (double)sizes[0] / 100 + 1.5;
}

struct measured {
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_samples samples; /* at 100, 200, 400 and 1600 */
    struct ig_kernel kernels[3];
    struct ig_costs costs;
};

static struct ig_sizes sizes_of(struct measured *m, int64_t rows) {
    struct ig_sizes sizes = {.dims = m->dims};
    ig_sizes_set(&sizes, m->job, ig_dim_symbol(m->dims, "rows"), rows);
    return sizes;
}

/* Two kernels with a model, and a library call. */
static void begin_measured(struct ig_job *job, struct measured *m) {
    static const double fixed[] = {1, 3};
    static const char *const tactics[] = {"quick", "slow", "library"};
    static const struct ig_library_call call;
    *m = (struct measured){.job = job, .dims = ig_dims_create(job)};
    ig_dim one = ig_dim_const(m->dims, 1);
    for (int i = 0; i < 3; i++) {
        m->kernels[i].tactic = tactics[i];
        if (i == 2)
            m->kernels[i].library = &call;
        else
            m->kernels[i].model =
                (struct ig_kernel_model){{ig_dim_symbol(m->dims, "rows"), one, one, one}, &fixed[i], cost_of_rows};
    }
    static const int64_t rows[] = {100, 200, 400, 1600};
    for (int i = 0; i < 4; i++) {
        struct ig_sizes sizes = sizes_of(m, rows[i]);
        IG_PUSH(job, &m->samples.points, sizes);
    }
    ig_costs_init(&m->costs, job, &m->samples, &m->kernels[0].model);
    ig_costs_note(&m->costs, &m->kernels[0]);
    ig_costs_note(&m->costs, &m->kernels[1]);
}

/* Times in nanoseconds, of all kernels at some size. */
static struct ig_tuned *tuned_at(struct measured *m, const struct ig_sizes *at, const uint64_t times[3]) {
    struct ig_tuned *tuned = IG_NEW(m->job, struct ig_tuned);
    *tuned = (struct ig_tuned){.device = "a device", .at = at};
    for (int i = 0; i < 3; i++) {
        struct ig_rival rival = {&m->kernels[i], i, m->kernels[i].tactic, times[i], NULL};
        IG_PUSH(m->job, &tuned->rivals, rival);
    }
    return tuned;
}

static void expect_cost(double found, double wanted) {
    if (fabs(found / wanted - 1) > 1e-9) fail_msg("%.12g, not %.12g", found, wanted);
}

static void check_costs(struct ig_job *job, void *argument) {
    struct measured m;
    begin_measured(job, &m);
    /* Without times: the model. */
    expect_cost(ig_costs_of(&m.costs, &m.kernels[0])[0], 2);
    expect_cost(ig_costs_of(&m.costs, &m.kernels[1])[3], 19);
    assert_true(ig_costs_of(&m.costs, &m.kernels[2]) == NULL);
    /* The quick one took four times as long at 100, the slow one as long as it should; at 1600 the library was measured
     * too, and the slow one was not. */
    struct ig_sizes few = sizes_of(&m, 100), many = sizes_of(&m, 1600);
    struct ig_tuned *tuned = tuned_at(&m, &few, (const uint64_t[]){8000, 4000, 0});
    IG_PUSH(job, &tuned->elsewhere, tuned_at(&m, &many, (const uint64_t[]){17000, 0, 8500}));
    ig_costs_measure(&m.costs, tuned);
    const double *quick = ig_costs_of(&m.costs, &m.kernels[0]), *slow = ig_costs_of(&m.costs, &m.kernels[1]),
                 *library = ig_costs_of(&m.costs, &m.kernels[2]);
    expect_cost(quick[0], 8);
    expect_cost(quick[3], 17);
    expect_cost(slow[0], 4);
    expect_cost(slow[3], 19);
    expect_cost(library[3], 8.5);
    /* 400 is halfway in logarithms: the factors' geometric mean. 200 is nearer to 100. */
    expect_cost(quick[2], 5 * 2);
    assert_true(quick[1] > 3 * 2 && quick[1] < 3 * 4);
    expect_cost(library[0], 1);
}

static void test_measured_costs(void **state) {
    run_job(check_costs, NULL);
}

/* What was rejected anywhere has no cost; an unmeasured kernel is corrected by the others' mean. */
static void check_rejected(struct ig_job *job, void *argument) {
    struct measured m;
    begin_measured(job, &m);
    struct ig_sizes few = sizes_of(&m, 100);
    ig_costs_measure(&m.costs, tuned_at(&m, &few, (const uint64_t[]){6000, 0, IG_TIMING_REJECTED}));
    assert_true(ig_costs_of(&m.costs, &m.kernels[2]) == NULL);
    expect_cost(ig_costs_of(&m.costs, &m.kernels[1])[0], 3 * 4);
    expect_cost(ig_costs_of(&m.costs, &m.kernels[1])[3], 3 * 19);
}

static void test_rejected_costs(void **state) {
    run_job(check_rejected, NULL);
}

/* Adds a time of a candidate to a cache. */
static void add_time(struct ig_timing_cache *cache, struct ig_graph *g, const struct ig_target *target,
                     const struct ig_sizes *at, int choice, uint64_t nanoseconds) {
    const struct ig_region *region = &g->regions.at[0];
    struct ig_timing timing = {.fingerprint = ig_tuner_fingerprint(g, region, target),
                               .tactic = ig_kernel_candidate(g, region, target, at, choice)->tactic,
                               .shapes = ig_subject_shapes(g, region, at),
                               .device = "a device",
                               .compiler = "none",
                               .nanoseconds = nanoseconds};
    ig_timing_cache_put(cache, &timing);
}

static const char *tactic_of(const struct choice *c, const struct ig_variant *v) {
    return ig_kernel_candidate(c->graph, &c->graph->regions.at[0], &c->target.target, v->at, v->choice)->tactic;
}

/* Times of a cache decide: the model's second choice for 512 is the fastest there; its first for 1 was rejected. */
static void check_timings(struct ig_job *job, void *argument) {
    const struct network network = {LAYERS("batch"), {{"batch", "1:8:512"}}, 1};
    struct choice c;
    struct ig_samples few;
    struct ig_timing_cache cache;
    c.graph = prepare(job, &network, &c.target);
    ig_samples_make_few(c.graph, &few);
    const struct ig_sizes *least = &few.points.at[1], *most = &few.points.at[2];
    const struct ig_target *target = &c.target.target;
    ig_timing_cache_init(&cache, job);
    for (int i = 0; i < 4; i++)
        add_time(&cache, c.graph, target, most, i, i == 1 ? 1000 : 50000);
    add_time(&cache, c.graph, target, least, 0, IG_TIMING_REJECTED);
    struct ig_tune_options options = {.target = target,
                                      .compiler = "none",
                                      .generated = true,
                                      .sizes = few.points.at[0],
                                      .further = few.points.at + 1,
                                      .n_further = few.points.count - 1};
    struct ig_tuner *tuner = ig_tuner_create(job, &options, &cache);
    for (uint32_t i = 0; i < c.graph->regions.count; i++)
        ig_tuner_add(tuner, c.graph, &c.graph->regions.at[i]);
    assert_int_equal(ig_tuner_run(tuner), 0);
    const char *fingerprint = ig_tuner_fingerprint(c.graph, &c.graph->regions.at[0], target);
    const struct ig_tuned *tuned = ig_tuner_get(tuner, fingerprint);
    assert_null(tuned->device); /* nothing was measured at the usual sizes */
    assert_int_equal(tuned->elsewhere.count, 2);
    ig_variants_choose(c.graph, target, tuner, MOST, &c.set);
    const struct ig_variants *v = variants_of(&c, c.graph, 0);
    assert_non_null(v);
    int64_t kernel = decide(v, most);
    assert_true(kernel > 0);
    assert_string_equal(tactic_of(&c, &v->list.at[kernel - 1]), tactic_of(&c, &(struct ig_variant){most, 1}));
    for (uint32_t i = 0; i < v->list.count; i++)
        assert_string_not_equal(tactic_of(&c, &v->list.at[i]), tactic_of(&c, &(struct ig_variant){least, 0}));
}

static void test_timings(void **state) {
    run_job(check_timings, NULL);
}

/* ---- Builds ---------------------------------------------------------------------------------------------------------------- */

#define ONE_PRODUCT                                                                             \
    "graph {\n  input %0 \"x\": f16[n,2048]\n  input %1 \"w\": f16[2048,2048]\n  %2 = " MATMUL( \
        "%0, %1") "[n,2048]\n  output \"y\" = %2\n}\n"

struct built {
    unsigned char *data;
    size_t size, capacity;
    struct ig_engine_file file;
    unsigned notes;
};

static enum ingot_status write_bytes(void *user, const void *data, size_t size, struct ingot_error *error) {
    struct built *b = user;
    if (b->size + size > b->capacity) {
        void *grown = NULL;
        b->capacity = 2 * (b->size + size);
        assert_int_equal(posix_memalign(&grown, 4096, b->capacity), 0);
        if (b->size) memcpy(grown, b->data, b->size);
        free(b->data);
        b->data = grown;
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return INGOT_OK;
}

static enum ingot_status patch_bytes(void *user, uint64_t offset, const void *data, size_t size,
                                     struct ingot_error *error) {
    struct built *b = user;
    memcpy(b->data + offset, data, size);
    return INGOT_OK;
}

static void count_note(void *user, const char *text) {
    struct built *b = user;
    assert_non_null(strstr(text, "a slower kernel was taken for one that failed, gemm "));
    assert_non_null(strstr(text, "this is refused"));
    b->notes++;
}

/* With the compiler that compiles nothing. */
static void build(struct ig_job *job, const struct network *network, struct built *out) {
    static const char compiler[] = "fake_nvrtc.so";
    char path[4000];
    test_beside(compiler, path, sizeof path);
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    options.target = "cuda:sm_90a";
    options.precision = "fp16";
    options.nvrtc = path;
    options.shapes = network->specs;
    options.n_shapes = (size_t)network->n_specs;
    options.variants = MOST;
    options.note = count_note;
    options.note_user = out;
    *out = (struct built){0};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), network->text, strlen(network->text));
    struct ig_engine_sink sink = {out, write_bytes, patch_bytes};
    struct ingot_error error;
    ig_compile(job, g, &options, &sink);
    if (ig_engine_open_memory(out->data, out->size, INGOT_VERIFY_ALL, &ig_libc_allocator, &out->file, &error) !=
        INGOT_OK)
        fail_msg("%s", error.message);
}

static void drop(struct built *b) {
    ig_engine_close(&b->file);
    free(b->data);
}

/* The first step with alternatives. */
static const struct ig_plan_step *varied_step(const struct ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].n_alternatives) return &plan->steps[i];
    }
    fail_msg("no step has alternatives");
    return NULL;
}

static bool is_explained(const struct ig_engine_file *file, const char *what) {
    char *text;
    size_t size;
    assert_int_equal(ig_engine_unpack_explanation(file, &ig_libc_allocator, &text, &size, NULL), INGOT_OK);
    bool found = strstr(text, what) != NULL;
    ig_release(&ig_libc_allocator, text, size);
    return found;
}

/* A variant that does not compile is replaced by the first kernel. */
static void check_refused(struct ig_job *job, void *argument) {
    const struct network network = {ONE_PRODUCT, {{"n", "1:8:8192"}}, 1};
    struct built whole, lacking;
    struct choice c = choose(job, &network, MOST);
    const struct ig_variants *v = NULL;
    for (uint32_t i = 0; i < c.graph->regions.count && !v; i++)
        v = variants_of(&c, c.graph, i);
    assert_non_null(v);
    build(job, &network, &whole);
    assert_int_equal(whole.notes, 0);
    setenv("FAKE_NVRTC_REFUSES", tactic_of(&c, &v->list.at[0]), 1);
    build(job, &network, &lacking);
    unsetenv("FAKE_NVRTC_REFUSES");
    assert_int_equal(lacking.notes, 1);
    assert_true(is_explained(&lacking.file, "\"refused\": [{"));
    const struct ig_plan_step *a = varied_step(&whole.file.plan), *b = varied_step(&lacking.file.plan);
    assert_int_equal(a->n_alternatives, v->list.count);
    assert_int_equal(b->n_alternatives, v->list.count);
    assert_int_equal(lacking.file.plan.n_kernels + 1, whole.file.plan.n_kernels);
    for (uint32_t i = 0; i < a->n_alternatives; i++) {
        assert_int_not_equal(whole.file.plan.steps[a->alternatives + i].kernel, a->kernel);
        assert_int_equal(lacking.file.plan.steps[b->alternatives + i].kernel == b->kernel, i == 0);
    }
    drop(&whole);
    drop(&lacking);
}

static void test_refused(void **state) {
    run_job(check_refused, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_runs),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_the_same_again), cmocka_unit_test(test_nothing_varies),
        cmocka_unit_test(test_bodies),         cmocka_unit_test(test_any_range),
        cmocka_unit_test(test_samples),        cmocka_unit_test(test_few_samples),
        cmocka_unit_test(test_decisions),      cmocka_unit_test(test_random_decisions),
        cmocka_unit_test(test_measured_costs), cmocka_unit_test(test_rejected_costs),
        cmocka_unit_test(test_timings),        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("variants", tests, NULL, NULL);
}
