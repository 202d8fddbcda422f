/* Rows in front of a product become part of its kernel, where only it reads them, there are few, and it pays. */
#include "pass/fuse/norms.h"

#include <string.h>

#include "compile/estimates.h"
#include "compile/options.h"
#include "ir/text/print.h"
#include "pass/fuse/profit.h"
#include "pass/fuse/regions.h"
#include "support/support.h"

/* One kernel costs as much as it has nodes. */
static double by_nodes(void *user, struct ig_graph *g, const struct ig_region *region) {
    return 2 + region->nodes.count;
}

/* Kernels that do both cost more than the others together. */
static double dear(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->family == IG_FAMILY_CONTRACT && region->nodes.count > 3 ? 100 : 3;
}

/* The product is large, and what rows add to it more than they take alone. */
static double large(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->family != IG_FAMILY_CONTRACT ? 2 : region->nodes.count > 3 ? 105 : 100;
}

/* There is no kernel that does both. */
static double impossible(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->family == IG_FAMILY_CONTRACT && region->nodes.count > 3 ? 0 : 3;
}

#define NORM(rows)                                         \
    "graph {\n  input %0 \"x\": f16[" rows ",1024]\n"      \
    "  input %1 \"w\": f16[512,1024]\n"                    \
    "  %2 = transpose(%1) {perm=[1,0]}: f16[1024,512]\n"   \
    "  %3 = mul(%0, %0): f16[" rows ",1024]\n"             \
    "  %4 = reduce_mean(%3) {axes=[1]}: f16[" rows ",1]\n" \
    "  %5 = sqrt(%4): f16[" rows ",1]\n"                   \
    "  %6 = div(%0, %5): f16[" rows ",1024] @ \"Div 'norm'\"\n"
#define PRODUCT(n, rows, of) "  %" n " = matmul(%" of ", %2) {acc=f32, packed=0, n=0, math=0}: f32[" rows ",512]\n"

struct network {
    const char *text, *families; /* one letter per region */
};

static const char *families(struct ig_graph *g) {
    char *text = IG_NEW_ARRAY(g->job, char, g->regions.count + 1);
    for (uint32_t i = 0; i < g->regions.count; i++) {
        enum ig_family family = g->regions.at[i].family;
        text[i] = family == IG_FAMILY_ROW ? 'r' : family == IG_FAMILY_CONTRACT ? 'c' : 'm';
    }
    return text;
}

static struct ig_graph *divide(struct ig_job *job, const char *text, const char *target,
                               const struct ig_estimator *estimator, const char *rule) {
    struct ig_target_choice *choice = IG_NEW(job, struct ig_target_choice);
    ig_target_parse(job, target, choice);
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    struct ig_pass_options options = {.target = &choice->target};
    options.estimator = estimator ? estimator : ig_estimates_open(job, &choice->target);
    if (rule) {
        options.fuse_rules = ig_fuse_rules_parse(g, &rule, 1);
        options.n_fuse_rules = 1;
    }
    g = ig_pass_fuse(g, &options);
    ig_graph_verify(g, "fuse");
    return g;
}

/* Each node is of the region that has it. */
static void check_regions(struct ig_graph *g) {
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        assert_int_equal(g->nodes.at[region->anchor].region, r);
        for (uint32_t i = 0; i < region->outputs.count; i++)
            assert_int_equal(ig_def(g, region->outputs.at[i])->region, r);
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        uint32_t r = g->nodes.at[id].region;
        assert_true(r == IG_NO_REGION || r < g->regions.count);
    }
}

static void check_network(struct ig_job *job, void *argument) {
    const struct network *n = argument;
    struct ig_graph *g = divide(job, n->text, "cuda:sm_90a", NULL, NULL);
    check_regions(g);
    assert_string_equal(families(g), n->families);
}

static void run(void (*function)(struct ig_job *, void *), void *argument) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, function, argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void test_readers(void **state) {
    static const struct network networks[] = {
        {NORM("1") PRODUCT("7", "1", "6") "  output \"y\" = %7\n}\n", "c"},
        {NORM("4") PRODUCT("7", "4", "6") "  output \"y\" = %7\n}\n", "c"},
        /* through a reshape */
        {NORM("2") "  %7 = reshape(%6) {dims=[1,2,1024]}: f16[1,2,1024]\n"
                   "  %8 = matmul(%7, %2) {acc=f32, packed=0, n=0, math=0}: f32[1,2,512]\n  output \"y\" = %8\n}\n",
         "c"},
        /* too many rows, or not known how many */
        {NORM("5") PRODUCT("7", "5", "6") "  output \"y\" = %7\n}\n", "rc"},
        {NORM("n") PRODUCT("7", "n", "6") "  output \"y\" = %7\n}\n", "rc"},
        /* read by others: a result, a second kernel, what the product's results are added to */
        {NORM("1") PRODUCT("7", "1", "6") "  output \"y\" = %7\n  output \"z\" = %6\n}\n", "rc"},
        {NORM("1") PRODUCT("7", "1", "6") "  %8 = exp(%6): f16[1,1024]\n  %9 = concat(%8, %0) {axis=1}: f16[1,2048]\n"
                                          "  output \"y\" = %7\n  output \"z\" = %9\n}\n",
         "rcm"},
        {NORM("1") PRODUCT("7", "1", "6") "  %8 = slice(%6) {starts=[0,512], sizes=[1,512], steps=[1,1]}: f16[1,512]\n"
                                          "  %9 = cast(%8) {to=f32, saturate=0}: f32[1,512]\n"
                                          "  %10 = add(%7, %9): f32[1,512]\n  output \"y\" = %10\n}\n",
         "rc"},
        /* means of lines that make a row together (a global pool in front of a classifier), norms of heads that do */
        {"graph {\n  input %0 \"x\": f16[1,1024,7,7]\n  input %1 \"w\": f16[512,1024]\n"
         "  %2 = transpose(%1) {perm=[1,0]}: f16[1024,512]\n  %3 = reduce_mean(%0) {axes=[2,3]}: f16[1,1024,1,1]\n"
         "  %4 = reshape(%3) {dims=[1,1024]}: f16[1,1024]\n" PRODUCT("5", "1", "4") "  output \"y\" = %5\n}\n",
         "rc"},
        {"graph {\n  input %0 \"x\": f16[1,8,128]\n  input %1 \"w\": f16[512,1024]\n"
         "  %2 = transpose(%1) {perm=[1,0]}: f16[1024,512]\n  %3 = mul(%0, %0): f16[1,8,128]\n"
         "  %4 = reduce_mean(%3) {axes=[2]}: f16[1,8,1]\n  %5 = sqrt(%4): f16[1,8,1]\n"
         "  %6 = div(%0, %5): f16[1,8,128]\n  %7 = reshape(%6) {dims=[1,1024]}: f16[1,1024]\n" PRODUCT(
             "8", "1", "7") "  output \"y\" = %8\n}\n",
         "rc"},
        /* the second operand */
        {NORM("1") "  %7 = reshape(%6) {dims=[1024,1]}: f16[1024,1]\n"
                   "  %8 = matmul(%1, %7) {acc=f32, packed=0, n=0, math=0}: f32[512,1]\n  output \"y\" = %8\n}\n",
         "rc"},
    };
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        run(check_network, (void *)&networks[i]);
}

/* Without streams there is no such kernel; estimates and the user decide, and what they said is recorded. */
static void check_decisions(struct ig_job *job, void *argument) {
    static const char text[] = NORM("1") PRODUCT("7", "1", "6") "  output \"y\" = %7\n}\n";
    const struct ig_estimator estimators[] = {{by_nodes, NULL}, {dear, NULL}, {large, NULL}, {impossible, NULL}};
    static const char *const wanted[] = {"c", "rc", "rc", "rc"};
    assert_non_null(strchr(families(divide(job, text, "cuda:sm_80", NULL, NULL)), 'r'));
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) {
        struct ig_graph *g = divide(job, text, "cuda:sm_90a", &estimators[i], NULL);
        assert_string_equal(families(g), wanted[i]);
        bool declined = false;
        for (uint32_t d = 0; d < g->decided.count; d++)
            declined |= g->decided.at[d].taken && !strcmp(g->decided.at[d].otherwise, "several kernels");
        assert_int_equal(declined, i == 1 || i == 2);
    }
    assert_string_equal(families(divide(job, text, "cuda:sm_90a", &estimators[0], "norm=off")), "rc");
    assert_string_equal(families(divide(job, text, "cuda:sm_90a", &estimators[1], "norm=on")), "c");
}

static void test_decisions(void **state) {
    run(check_decisions, NULL);
}

/* Four rows of a depth, divided by their norm and multiplied by codes of 4 bits as GPUs read them. */
#define CODES(depth, chunks, blocks)                                                                         \
    "graph {\n  input %0 \"x\": f16[4," depth "]\n"                                                          \
    "  input %1 \"codes\": u8[32," chunks ",32,16]\n"                                                        \
    "  input %2 \"scales\": f16[" blocks ",512]\n"                                                           \
    "  %3 = mul(%0, %0): f16[4," depth "]\n"                                                                 \
    "  %4 = reduce_mean(%3) {axes=[1]}: f16[4,1]\n"                                                          \
    "  %5 = sqrt(%4): f16[4,1]\n"                                                                            \
    "  %6 = div(%0, %5): f16[4," depth "] @ \"Div 'norm'\"\n"                                                \
    "  %7 = matmul_blocks(%6, %1, %2) {acc=f32, bits=4, block=128, offset=8, packed=2, n=512}: f32[4,512]\n" \
    "  output \"y\" = %7\n}\n"

/* Rows that fit beside the sums in a block's shared memory, and rows that do not, whatever the user wants. */
static void check_memory(struct ig_job *job, void *argument) {
    assert_string_equal(families(divide(job, CODES("2048", "32", "16"), "cuda:sm_90a", NULL, "norm=on")), "c");
    assert_string_equal(families(divide(job, CODES("16384", "256", "128"), "cuda:sm_90a", NULL, "norm=on")), "c");
    assert_string_equal(families(divide(job, CODES("16384", "256", "128"), "cuda:sm_89", NULL, "norm=on")), "rc");
    assert_string_equal(families(divide(job, CODES("32768", "512", "256"), "cuda:sm_90a", NULL, "norm=on")), "rc");
}

static void test_memory(void **state) {
    run(check_memory, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers),
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
