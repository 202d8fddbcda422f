/* Maps that read results of one kernel become one, where nothing needs the earlier one's results before. */
#include "pass/fuse/siblings.h"

#include <string.h>

#include "ir/build.h"
#include "ir/part.h"
#include "ir/text/print.h"
#include "pass/fuse/regions.h"
#include "support/random/random_graph.h"
#include "support/support.h"

/* Microseconds of every kernel. */
static double alike(void *user, struct ig_graph *g, const struct ig_region *region) {
    return 2.5;
}

static const struct ig_estimator estimates = {alike, NULL};

static struct ig_graph *divide(struct ig_graph *g, const struct ig_estimator *estimator) {
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};
    struct ig_pass_options options = {.target = &gpu, .estimator = estimator};
    struct ig_graph *divided = ig_pass_fuse(g, &options);
    ig_graph_verify(divided, "fuse");
    return divided;
}

/* What a region reads is computed by an earlier one, and its own nodes say so. */
static void check_order(struct ig_graph *g) {
    ig_dim begin;
    bool *ready = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (uint32_t v = 0; v < g->values.count; v++)
        ready[v] = ig_info(g, v)->is_const || ig_info(g, v)->node == IG_NO_NODE;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        for (uint32_t i = 0; i < region->inputs.count; i++) {
            ig_value v = region->inputs.at[i];
            while (!ready[v]) {
                const struct ig_node *n = ig_def(g, v);
                assert_true(n->op == IG_OP_reshape || ig_part_begin(g, n, &begin));
                v = n->in[0];
            }
        }
        for (uint32_t i = 0; i < region->outputs.count; i++) {
            assert_false(ready[region->outputs.at[i]]);
            assert_int_equal(ig_def(g, region->outputs.at[i])->region, r);
            ready[region->outputs.at[i]] = true;
        }
    }
}

struct network {
    const char *text;
    const struct ig_estimator *estimator;
    uint32_t regions, last_outputs; /* of the last region */
};

static void check_network(struct ig_job *job, void *argument) {
    const struct network *n = argument;
    struct ig_graph *g = divide(ig_graph_parse(job, ig_dims_create(job), n->text, strlen(n->text)), n->estimator);
    check_order(g);
    assert_int_equal(g->regions.count, n->regions);
    assert_int_equal(g->regions.at[g->regions.count - 1].outputs.count, n->last_outputs);
}

static void check(const struct network *network) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_network, (void *)network, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* Queries, keys and values of one product, each stored in a form of its own. */
static const char heads[] = "graph {\n"
                            "  input %0 \"x\": f32[n,16]\n"
                            "  input %1 \"w\": f32[16,48]\n"
                            "  input %2 \"past\": f32[4,m,4]\n"
                            "  %3 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,48]\n"
                            "  %4 = reshape(%3) {dims=[n,12,4]}: f32[n,12,4]\n"
                            "  %5 = transpose(%4) {perm=[1,0,2]}: f32[12,n,4]\n"
                            "  %6 = slice(%5) {starts=[0,0,0], sizes=[4,n,4], steps=[1,1,1]}: f32[4,n,4]\n"
                            "  %7 = slice(%5) {starts=[4,0,0], sizes=[4,n,4], steps=[1,1,1]}: f32[4,n,4]\n"
                            "  %8 = slice(%5) {starts=[8,0,0], sizes=[4,n,4], steps=[1,1,1]}: f32[4,n,4]\n"
                            "  %9 = exp(%6): f32[4,n,4]\n"
                            "  %10 = concat(%2, %7) {axis=1}: f32[4,m+n,4]\n"
                            "  %11 = concat(%2, %8) {axis=1}: f32[4,m+n,4]\n"
                            "  output \"q\" = %9\n"
                            "  output \"k\" = %10\n"
                            "  output \"v\" = %11\n"
                            "}\n";

static void test_heads(void **state) {
    check(&(struct network){heads, &estimates, 2, 3});
    check(&(struct network){heads, NULL, 4, 1});
}

/* What the later map reads is computed from the earlier one's results. */
static const char chain[] = "graph {\n"
                            "  input %0 \"x\": f32[n,16]\n"
                            "  input %1 \"w\": f32[16,16]\n"
                            "  %2 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,16]\n"
                            "  %3 = transpose(%2) {perm=[1,0]}: f32[16,n]\n"
                            "  %4 = exp(%3): f32[16,n]\n"
                            "  %5 = transpose(%4) {perm=[1,0]}: f32[n,16]\n"
                            "  %6 = matmul(%5, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,16]\n"
                            "  %7 = concat(%2, %6) {axis=0}: f32[2*n,16]\n"
                            "  output \"a\" = %4\n"
                            "  output \"b\" = %7\n"
                            "}\n";

static void test_chain(void **state) {
    check(&(struct network){chain, &estimates, 4, 1});
}

/* Small maps of inputs become one, before a product; large ones do not. */
#define GIVEN(n)                                                          \
    "graph {\n"                                                           \
    "  input %0 \"x\": f32[n,16]\n"                                       \
    "  input %1 \"w\": f32[16,16]\n"                                      \
    "  input %2 \"at\": f32[" n "]\n"                                     \
    "  %3 = cos(%2): f32[" n "]\n"                                        \
    "  %4 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[n,16]\n" \
    "  %5 = broadcast(%2) {dims=[2," n "]}: f32[2," n "]\n"               \
    "  %6 = sin(%5): f32[2," n "]\n"                                      \
    "  output \"a\" = %3\n"                                               \
    "  output \"b\" = %4\n"                                               \
    "  output \"c\" = %6\n"                                               \
    "}\n"

static void test_given(void **state) {
    check(&(struct network){GIVEN("8"), &estimates, 2, 1});
    check(&(struct network){GIVEN("40000"), &estimates, 3, 1});
    check(&(struct network){GIVEN("8"), NULL, 3, 1});
}

static void check_random(struct ig_job *job, void *argument) {
    enum { STEPS = 24, OUTPUTS = 4 };
    struct random_maker m = {.job = job, .g = ig_graph_create(job, ig_dims_create(job))};
    m.state = *(uint64_t *)argument * 7919 + 1;
    m.sizes[0] = m.sizes[1] = 2;
    m.max_elements = 3000;
    struct ig_type type = {.dtype = INGOT_F32, .rank = 3};
    static const int64_t sizes[] = {2, 3, 4};
    for (int k = 0; k < type.rank; k++)
        type.dim[k] = random_dim(&m, sizes[k]);
    IG_PUSH(job, &m.pool, ig_build_input(m.g, "x", &type));
    for (int i = 0; i < STEPS; i++) {
        ig_value x = m.pool.at[random_pick(&m, m.pool.count)];
        ig_value y = random_plain_steps[random_pick(&m, random_plain_step_count)](&m, x);
        if (random_elements(&m, ig_type_of(m.g, y)) <= 3000 && ig_type_of(m.g, y)->rank <= 6) IG_PUSH(job, &m.pool, y);
    }
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < OUTPUTS; i++)
        ig_build_output(m.g, names[i], m.pool.at[m.pool.count - 1 - (uint32_t)random_pick(&m, m.pool.count)]);
    check_order(divide(m.g, &estimates));
}

static void test_random(void **state) {
    enum { NETWORKS = 300 };
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_random, &seed, &error)) fail_msg("seed %u: %s", (unsigned)seed, error.message);
        ig_job_deinit(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
