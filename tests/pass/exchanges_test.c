/* An all-reduce and the rows behind it: which pairs of regions one kernel may compute together, and which order they are in then. */
#include "pass/fuse/exchanges.h"

#include <string.h>

#include "compile/estimates.h"
#include "compile/shard/agree.h"
#include "ir/text/print.h"
#include "kernel/kernel.h"
#include "pass/fuse/regions.h"
#include "support/support.h"

static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90},
                              cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

/* f16[4,64] and f16[4,1]: terms of a sum, what else is read, and RMSNorm without weights. */
#define WIDE ": f16[4,64]\n"
#define NARROW ": f16[4,1]\n"
#define GIVEN "  input %0 \"x\"" WIDE "  input %1 \"r\"" WIDE
#define REDUCE(to, from, number) "  %" #to " = all_reduce(%" #from ") {number=" #number ", ranks=2, reduction=0}" WIDE
/* y of x, by the values after `at`. */
#define NORM(x, a, b, c, y)                                                                                \
    "  %" #a " = mul(%" #x ", %" #x ")" WIDE "  %" #b " = reduce_mean(%" #a ") {axes=[1]}" NARROW "  %" #c \
    " = sqrt(%" #b ")" NARROW "  %" #y " = div(%" #x ", %" #c ")" WIDE

static const char decoder[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = add(%1, %3)" WIDE NORM(
    4, 5, 6, 7, 8) "  output \"h\" = %4\n  output \"y\" = %8\n}\n";

/* The residual is computed between the sum and its reader. */
static const char late[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(
    3, 2, 0) "  %4 = transpose(%1) {perm=[1,0]}: f16[64,4]\n"
             "  %5 = matmul(%1, %4) {acc=f32, packed=0, n=0, math=0}: f32[4,4]\n"
             "  %6 = reduce_max(%5) {axes=[1]}: f32[4,1]\n"
             "  %7 = cast(%6) {to=f16, saturate=0}" NARROW
             "  %8 = add(%3, %7)" WIDE NORM(8, 9, 10, 11, 12) "  output \"y\" = %12\n  output \"m\" = %6\n}\n";

/* Something else reads the sum: after the norm, and in between, where a product needs it first. */
static const char read_later[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = add(%1, %3)" WIDE NORM(
    4, 5, 6, 7, 8) "  %9 = transpose(%8) {perm=[1,0]}: f16[64,4]\n"
                   "  %10 = matmul(%3, %9) {acc=f32, packed=0, n=0, math=0}: f32[4,4]\n"
                   "  output \"y\" = %8\n  output \"z\" = %10\n}\n";
static const char read_before[] =
    "graph {\n" GIVEN
    "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = transpose(%1) {perm=[1,0]}: f16[64,4]\n"
                                          "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[4,4]\n"
                                          "  %6 = reduce_max(%5) {axes=[1]}: f32[4,1]\n"
                                          "  %7 = cast(%6) {to=f16, saturate=0}" NARROW
                                          "  %8 = add(%3, %7)" WIDE NORM(8, 9, 10, 11, 12) "  output \"y\" = %12\n}\n";
static const char is_result[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = add(%1, %3)" WIDE NORM(
    4, 5, 6, 7, 8) "  output \"s\" = %3\n  output \"y\" = %8\n}\n";

/* Of two sums that are added, the later one. */
static const char two_sums[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = abs(%1)" WIDE REDUCE(
    5, 4, 1) "  %6 = add(%3, %5)" WIDE NORM(6, 7, 8, 9, 10) "  output \"y\" = %10\n}\n";

/* What is added up is an input, whose memory something else may change. */
static const char of_input[] =
    "graph {\n" GIVEN REDUCE(2, 0, 0) "  %3 = add(%1, %2)" WIDE NORM(3, 4, 5, 6, 7) "  output \"y\" = %7\n}\n";

/* The norm is of columns; of turned rows; of both axes, which is one row. */
#define ALONG(axes, narrow)                                                                                          \
    "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(3, 2, 0) "  %4 = reduce_max(%3) {axes=" axes "}: f16" narrow "\n" \
                                                            "  %5 = sub(%3, %4)" WIDE "  output \"y\" = %5\n}\n"
static const char turned[] = "graph {\n" GIVEN "  %2 = neg(%0)" WIDE REDUCE(
    3, 2, 0) "  %4 = transpose(%3) {perm=[1,0]}: f16[64,4]\n  %5 = reduce_max(%4) {axes=[1]}: f16[64,1]\n"
             "  output \"y\" = %5\n}\n";

/* Rows that are too long, too many, or not of floats. */
#define PLAIN(wide, narrow)                                                                                         \
    "graph {\n  input %0 \"x\": " wide "\n  %1 = neg(%0): " wide                                                    \
    "\n  %2 = all_reduce(%1) {number=0, ranks=2, reduction=0}: " wide "\n  %3 = reduce_max(%2) {axes=[1]}: " narrow \
    "\n  %4 = sub(%2, %3): " wide "\n  output \"y\" = %4\n}\n"

/* ---- What is joined ---------------------------------------------------------------------------------------------- */

struct expected {
    const char *text;
    const struct ig_target *target;
    const char *families; /* one letter per region; a capital: joined with the next */
    uint32_t outputs;     /* of the joined region */
};

static const char *families(struct ig_graph *g) {
    static const char letters[IG_FAMILY_COUNT] = {
        [IG_FAMILY_MAP] = 'm', [IG_FAMILY_ROW] = 'r', [IG_FAMILY_CONTRACT] = 'p', [IG_FAMILY_COLLECTIVE] = 'c'};
    char *text = IG_NEW_ARRAY(g->job, char, g->regions.count + 1);
    for (uint32_t i = 0; i < g->regions.count; i++)
        text[i] = g->regions.at[i].joined ? 'C' : letters[g->regions.at[i].family];
    return text;
}

static struct ig_graph *divide(struct ig_job *job, const char *text, const struct ig_pass_options *options) {
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    struct ig_graph *divided = ig_pass_fuse(g, options);
    ig_graph_verify(divided, "fuse");
    return divided;
}

static void check_one(struct ig_job *job, void *argument) {
    const struct expected *e = argument;
    const struct ig_target *target = e->target ? e->target : &gpu;
    const struct ig_pass_options options = {.target = target, .estimator = ig_estimates_open(job, target)};
    struct ig_graph *g = divide(job, e->text, &options);
    if (strcmp(families(g), e->families) != 0) fail_msg("regions %s of\n%s", families(g), e->text);
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *joined = g->regions.at[i].joined;
        if (!joined) continue;
        assert_int_equal(joined->anchor, g->regions.at[i].anchor);
        assert_int_equal(joined->outputs.count, e->outputs);
    }
}

static void in_job(void (*body)(struct ig_job *, void *), const void *argument) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, (void *)argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void test_joined(void **state) {
    static const struct expected all[] = {
        {.text = decoder, .families = "mCr", .outputs = 2},
        {.text = late, .families = "mprCr", .outputs = 1},
        {.text = read_later, .families = "mCrp", .outputs = 2},
        {.text = is_result, .families = "mCr", .outputs = 2},
        {.text = two_sums, .families = "mcmCr", .outputs = 1},
        {.text = ALONG("[0,1]", "[1,1]"), .families = "mCr", .outputs = 1},
        {.text = PLAIN("f32[128,2]", "f32[128,1]"), .families = "mCr", .outputs = 1},
        {.text = PLAIN("bf16[16,16384]", "bf16[16,1]"), .families = "mCr", .outputs = 1},
        {.text = PLAIN("f16[n,64]", "f16[n,1]"), .families = "mCr", .outputs = 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        in_job(check_one, &all[i]);
}

static void test_apart(void **state) {
    static const struct expected all[] = {
        {.text = decoder, .target = &cpu, .families = "mcr"},
        {.text = read_before, .families = "mcprr"},
        {.text = of_input, .families = "cr"},
        {.text = ALONG("[0]", "[1,64]"), .families = "mcr"},
        {.text = turned, .families = "mcr"},
        {.text = PLAIN("f32[2,8193]", "f32[2,1]"), .families = "mcr"},
        {.text = PLAIN("f32[129,2]", "f32[129,1]"), .families = "mcr"},
        {.text = PLAIN("f16[65,4096]", "f16[65,1]"), .families = "mcr"},
        {.text = PLAIN("f16[7,1]", "f16[7,1]"), .families = "mcr"},
        {.text = PLAIN("i32[4,64]", "i32[4,1]"), .families = "mcr"},
        {.text = PLAIN("f64[4,64]", "f64[4,1]"), .families = "mcr"},
        {.text = PLAIN("f16[4,n]", "f16[4,1]"), .families = "mcr"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        in_job(check_one, &all[i]);
}

/* ---- By profit --------------------------------------------------------------------------------------------------- */

static double dear(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->nodes.count > 1 && region->family == IG_FAMILY_COLLECTIVE ? 100 : 10;
}

static double impossible(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->nodes.count > 1 && region->family == IG_FAMILY_COLLECTIVE ? 0 : 10;
}

static void check_decisions(struct ig_job *job, void *argument) {
    const struct ig_estimator estimators[] = {{dear, NULL}, {impossible, NULL}};
    for (int i = 0; i < 2; i++) {
        const struct ig_pass_options options = {.target = &gpu, .estimator = &estimators[i]};
        struct ig_graph *g = divide(job, decoder, &options);
        assert_string_equal(families(g), "mcr");
        assert_int_equal(g->decided.count, i == 0);
        if (i > 0) continue;
        assert_string_equal(g->decided.at[0].otherwise, "several kernels");
        assert_true(g->decided.at[0].taken && g->decided.at[0].proposed > g->decided.at[0].other);
    }
    /* Without estimates there is no such kernel, since nothing says that it pays. */
    const struct ig_pass_options none = {.target = &gpu};
    assert_string_equal(families(divide(job, decoder, &none)), "mcr");
}

static void test_decisions(void **state) {
    in_job(check_decisions, NULL);
}

/* ---- Of all ranks ------------------------------------------------------------------------------------------------ */

static void check_agreement(struct ig_job *job, void *argument) {
    const struct ig_pass_options options = {.target = &gpu, .estimator = ig_estimates_open(job, &gpu)};
    const struct ig_estimator other = {dear, NULL};
    const struct ig_pass_options otherwise = {.target = &gpu, .estimator = &other};
    struct ig_graph *same[] = {divide(job, two_sums, &options), divide(job, two_sums, &options)};
    ig_shard_agree(same, 2, &gpu);
    assert_string_equal(families(same[0]), "mcmCr");
    assert_string_equal(families(same[1]), "mcmCr");
    struct ig_graph *declined[] = {divide(job, decoder, &options), divide(job, decoder, &otherwise)};
    ig_shard_agree(declined, 2, &gpu);
    assert_string_equal(families(declined[0]), "mcr");
    assert_string_equal(families(declined[1]), "mcr");
    struct ig_graph *different[] = {divide(job, decoder, &options), divide(job, read_later, &options),
                                    divide(job, decoder, &options)};
    ig_shard_agree(different, 3, &gpu);
    for (int r = 0; r < 3; r++)
        assert_null(different[r]->regions.at[1].joined);
}

static void test_agreement(void **state) {
    in_job(check_agreement, NULL);
}

/* ---- Rows that are pushed ---------------------------------------------------------------------------------------- */

#define PRODUCT(rows, n, type, more)                                                                              \
    "graph {\n  input %0 \"x\": " type "[" rows ",512]\n  input %1 \"w\": " type "[" n ",512]\n"                  \
    "  %2 = transpose(%1) {perm=[1,0]}: " type "[512," n "]\n"                                                    \
    "  %3 = matmul(%0, %2) {acc=f32, packed=0, n=0, math=0}: f32[" rows "," n "]\n"                               \
    "  %4 = cast(%3) {to=" type ", saturate=0}: " type "[" rows "," n "]\n"                                       \
    "  %5 = all_reduce(%4) {number=0, ranks=2, reduction=0}: " type "[" rows "," n "]\n"                          \
    "  %6 = reduce_max(%5) {axes=[1]}: " type "[" rows ",1]\n  %7 = sub(%5, %6): " type "[" rows "," n "]\n" more \
    "  output \"y\" = %7\n}\n"

struct pushing {
    const char *text;
    int sm; /* 0: 90 */
    bool pushes;
};

static void check_pushing(struct ig_job *job, void *argument) {
    const struct pushing *p = argument;
    const struct ig_target target = {
        .isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = p->sm ? p->sm : 90};
    const struct ig_pass_options options = {.target = &target, .estimator = ig_estimates_open(job, &target)};
    struct ig_graph *g = divide(job, p->text, &options);
    const uint32_t at = g->regions.count - 3; /* weights may be turned before it */
    assert_string_equal(families(g) + at, "pCr");
    const char *before = ig_region_fingerprint(g, &g->regions.at[at], &target).text;
    ig_shard_push(g, &target);
    ig_graph_verify(g, "pushing");
    const struct ig_region *product = &g->regions.at[at], *joined = product[1].joined;
    if (product->pushed != (p->pushes ? 2 : 0)) fail_msg("pushed to %d ranks:\n%s", product->pushed, p->text);
    assert_int_equal(joined->pushed, product->pushed);
    /* Others like it do not share its kernel, of which there is one. */
    assert_int_equal(strcmp(before, ig_region_fingerprint(g, product, &target).text) == 0, !p->pushes);
    assert_int_equal(ig_kernel_candidate(g, product, &target, NULL, 1) == NULL, p->pushes);
    assert_int_equal(ig_kernel_candidate(g, product, &target, NULL, IG_CHOICE_PLAIN) == NULL, p->pushes);
}

static void test_pushing(void **state) {
    static const struct pushing all[] = {
        {.text = PRODUCT("1", "512", "f16", ""), .pushes = true},
        {.text = PRODUCT("3", "512", "f16", ""), .pushes = true},
        {.text = PRODUCT("16", "512", "bf16", ""), .pushes = true},
        {.text = PRODUCT("1", "510", "f32", ""), .pushes = true},
        {.text = PRODUCT("1", "512", "f16", "  output \"z\" = %4\n"), .pushes = true},
        {.text = PRODUCT("1", "512", "f16", "  output \"z\" = %3\n")},
        {.text = PRODUCT("1", "512", "f16", "  output \"z\" = %7 updates 0\n")},
        {.text = PRODUCT("1", "510", "f16", "")},
        {.text = PRODUCT("32", "512", "f16", "")},
        {.text = PRODUCT("n", "512", "f16", "")},
        {.text = PRODUCT("1", "512", "f16", ""), .sm = 80},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        in_job(check_pushing, &all[i]);
}

/* A region that waits for what nothing pushes, and one that pushes what nobody waits for. */
static void break_pushing(struct ig_job *job, void *argument) {
    const struct ig_pass_options options = {.target = &gpu, .estimator = ig_estimates_open(job, &gpu)};
    struct ig_graph *g = divide(job, PRODUCT("1", "512", "f16", ""), &options);
    const struct ig_region *plain = g->regions.at[1].joined;
    ig_shard_push(g, &gpu);
    if (*(const bool *)argument)
        g->regions.at[0].pushed = 0;
    else
        g->regions.at[1].joined = plain;
    ig_graph_verify(g, "broken");
}

static void test_verified(void **state) {
    static const bool ways[] = {false, true};
    for (int i = 0; i < 2; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        assert_int_equal(ig_job_run(&job, break_pushing, (void *)&ways[i], &error), INGOT_INTERNAL);
        assert_non_null(strstr(error.message, ways[i] ? "that nothing pushes" : "rows that it pushes"));
        ig_job_deinit(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),    cmocka_unit_test(test_apart),   cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_agreement), cmocka_unit_test(test_pushing), cmocka_unit_test(test_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
