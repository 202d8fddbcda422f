/* Collectives: inference, what keeps them where they are, and the evaluation of several ranks in lockstep. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/pass.h"
#include "support/support.h"

enum { RANKS = 3, MOST = 64 };

static struct ig_job job;
static struct ingot_error error;

static int set_up(void **state) {
    ig_job_init(&job, &ig_libc_allocator);
    return 0;
}

static int tear_down(void **state) {
    ig_job_deinit(&job);
    return 0;
}

/* Graphs of all ranks, and what comes of them. */
struct lockstep {
    const char
        *nodes[RANKS]; /* of each rank; NULL: as rank 0's. Given are %0 f32[2,6] and %1, each rank's own number */
    uint32_t ranks;
    const char *dtype;
    double results[RANKS][MOST];
    int64_t counts[RANKS];
};

static struct ig_graph *graph_of(struct ig_job *j, struct ig_dims *dims, const char *dtype, uint32_t rank,
                                 const char *nodes) {
    const char *text = ig_format(j,
                                 "graph {\n  input %%0 \"x\": %s[2,6]\n"
                                 "  %%1 = constant() {data=[%u]}: %s[]\n%s}\n",
                                 dtype, rank, dtype, nodes);
    struct ig_graph *g = ig_graph_parse(j, dims, text, strlen(text));
    ig_graph_verify(g, "parsing");
    return g;
}

static void evaluate(struct ig_job *j, void *argument) {
    struct lockstep *l = argument;
    struct ig_dims *dims = ig_dims_create(j);
    struct ig_graph *graphs[RANKS];
    uint64_t numbers[12];
    struct ingot_tensor outputs[RANKS],
        x = {.dtype = ig_dtype_parse(l->dtype), .rank = 2, .dims = {2, 6}, .data = numbers};
    for (int i = 0; i < 12; i++)
        ig_store_f64(x.dtype, numbers, i, i);
    for (uint32_t r = 0; r < l->ranks; r++)
        graphs[r] = graph_of(j, dims, l->dtype, r, l->nodes[r] ? l->nodes[r] : l->nodes[0]);
    ig_eval_ranks(j, graphs, l->ranks, &x, outputs);
    for (uint32_t r = 0; r < l->ranks; r++) {
        l->counts[r] = ingot_tensor_elements(&outputs[r]);
        for (int64_t i = 0; i < l->counts[r]; i++)
            l->results[r][i] = ig_load_f64(outputs[r].dtype, outputs[r].data, i);
        ig_eval_release(j, &outputs[r]);
    }
}

static void check_rank(const struct lockstep *l, int rank, int64_t count, const double *expected) {
    assert_int_equal(l->counts[rank], count);
    for (int64_t i = 0; i < count; i++)
        assert_true(l->results[rank][i] == expected[i] || (isnan(expected[i]) && isnan(l->results[rank][i])));
}

static void run(struct lockstep *l) {
    l->ranks = l->ranks ? l->ranks : RANKS;
    l->dtype = l->dtype ? l->dtype : "f32";
    if (ig_job_run(&job, evaluate, l, &error)) fail_msg("%s", error.message);
}

#define ROW_SUM "  %2 = reduce_sum(%0) {axes=[0,1]}: f32[1,1]\n" /* 66 */
#define OUTPUT(v) "  output \"y\" = %" #v "\n"

static void test_all_reduce(void **state) {
    struct lockstep sum = {.nodes = {ROW_SUM
                                     "  %3 = add(%2, %1): f32[1,1]\n"
                                     "  %4 = all_reduce(%3) {number=0, ranks=3, reduction=0}: f32[1,1]\n" OUTPUT(4)}};
    run(&sum);
    for (int r = 0; r < RANKS; r++)
        check_rank(&sum, r, 1, (const double[]){3 * 66 + 3});
    struct lockstep most = {
        .nodes = {"  %2 = sub(%1, %1): f32[]\n  %3 = div(%2, %1): f32[]\n" /* NaN of rank 0, else 0 */
                  "  %4 = all_reduce(%3) {number=0, ranks=3, reduction=1}: f32[]\n"
                  "  %5 = all_reduce(%1) {number=1, ranks=3, reduction=2}: f32[]\n"
                  "  %6 = all_reduce(%1) {number=2, ranks=3, reduction=1}: f32[]\n"
                  "  %7 = broadcast(%5) {dims=[1]}: f32[1]\n  %8 = broadcast(%6) {dims=[1]}: f32[1]\n"
                  "  %9 = broadcast(%4) {dims=[1]}: f32[1]\n"
                  "  %10 = concat(%7, %8, %9) {axis=0}: f32[3]\n" OUTPUT(10)}};
    run(&most);
    for (int r = 0; r < RANKS; r++)
        check_rank(&most, r, 3, (const double[]){0, 2, NAN});
}

/* Sums of f16 are rounded once: 2048 + 1 + 1 is 2050, where rounding each sum gives 2048. */
static void test_rounds_once(void **state) {
    struct lockstep l = {.nodes = {"  %2 = constant() {data=[2048]}: f16[]\n"
                                   "  %3 = all_reduce(%2) {number=0, ranks=3, reduction=0}: f16[]\n" OUTPUT(3),
                                   "  %2 = constant() {data=[1]}: f16[]\n"
                                   "  %3 = all_reduce(%2) {number=0, ranks=3, reduction=0}: f16[]\n" OUTPUT(3),
                                   "  %2 = constant() {data=[1]}: f16[]\n"
                                   "  %3 = all_reduce(%2) {number=0, ranks=3, reduction=0}: f16[]\n" OUTPUT(3)},
                         .dtype = "f16"};
    run(&l);
    check_rank(&l, 0, 1, (const double[]){2050});
}

#define PART(begin, size)                                                                      \
    "  %2 = slice(%0) {starts=[0," #begin "], sizes=[2," #size "], steps=[1,1]}: f32[2," #size \
    "]\n  %3 = add(%2, %1): f32[2," #size "]\n"
#define GATHER(rank) "  %4 = all_gather(%3) {number=0, rank=" #rank ", axis=1, parts=[3,0,2]}: f32[2,5]\n" OUTPUT(4)

static void test_all_gather(void **state) {
    struct lockstep l = {.nodes = {PART(0, 3) GATHER(0), PART(3, 0) GATHER(1), PART(4, 2) GATHER(2)}};
    run(&l);
    for (int r = 0; r < RANKS; r++)
        check_rank(&l, r, 10, (const double[]){0, 1, 2, 6, 7, 6, 7, 8, 12, 13});
}

#define SCATTER(rank, part)                                                          \
    "  %2 = add(%0, %1): f32[2,6]\n  %3 = reduce_scatter(%2) {number=0, rank=" #rank \
    ", axis=1, parts=[3,1,2], reduction=0}: f32[2," #part "]\n" OUTPUT(3)

static void test_reduce_scatter(void **state) {
    struct lockstep l = {.nodes = {SCATTER(0, 3), SCATTER(1, 1), SCATTER(2, 2)}};
    run(&l);
    check_rank(&l, 0, 6, (const double[]){3, 6, 9, 21, 24, 27});
    check_rank(&l, 1, 2, (const double[]){12, 30});
    check_rank(&l, 2, 4, (const double[]){15, 18, 33, 36});
}

static void test_exchanges(void **state) {
    struct lockstep all = {.nodes = {"  %2 = reshape(%0) {dims=[3,4]}: f32[3,4]\n  %3 = add(%2, %1): f32[3,4]\n"
                                     "  %4 = slice(%3) {starts=[0,0], sizes=[3,1], steps=[1,1]}: f32[3,1]\n"
                                     "  %5 = all_to_all(%4) {number=0, ranks=3}: f32[3,1]\n" OUTPUT(5)}};
    run(&all);
    check_rank(&all, 0, 3, (const double[]){0, 1, 2});
    check_rank(&all, 2, 3, (const double[]){8, 9, 10});
    struct lockstep one = {.nodes = {"  %2 = broadcast_from(%1) {number=0, ranks=3, root=2}: f32[]\n" OUTPUT(2)}};
    run(&one);
    for (int r = 0; r < RANKS; r++)
        check_rank(&one, r, 1, (const double[]){2});
}

/* ---- Ranks that disagree */

struct disagreement {
    const char *nodes[2];
    const char *message; /* part of it */
};

static void test_disagreement(void **state) {
#define REDUCE(v, of, number) "  %" #v " = all_reduce(%" #of ") {number=" #number ", ranks=2, reduction=0}: f32[2,6]\n"
    static const struct disagreement cases[] = {
        {{REDUCE(2, 0, 0) REDUCE(3, 2, 1) OUTPUT(3), REDUCE(2, 0, 0) OUTPUT(2)}, "rank 1 to its end"},
        {{REDUCE(2, 0, 0) OUTPUT(2), "  %2 = all_reduce(%0) {number=0, ranks=2, reduction=1}: f32[2,6]\n" OUTPUT(2)},
         "rank 1 to all_reduce, number 0"},
        {{REDUCE(2, 0, 0) OUTPUT(2), "  %2 = broadcast_from(%0) {number=0, ranks=2, root=0}: f32[2,6]\n" OUTPUT(2)},
         "rank 1 to broadcast_from"},
        {{REDUCE(2, 0, 0) OUTPUT(2), "  %2 = all_reduce(%1) {number=0, ranks=2, reduction=0}: f32[]\n" OUTPUT(2)},
         "would wait for ever"},
        {{"  %2 = all_gather(%0) {number=0, rank=0, axis=0, parts=[2,2]}: f32[4,6]\n" OUTPUT(2)}, "made for rank 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lockstep l = {.nodes = {cases[i].nodes[0], cases[i].nodes[1]}, .ranks = 2, .dtype = "f32"};
        assert_int_equal(ig_job_run(&job, evaluate, &l, &error), INGOT_INTERNAL);
        if (!strstr(error.message, cases[i].message)) fail_msg("'%s' lacks '%s'", error.message, cases[i].message);
    }
}

static void test_one_rank_alone(void **state) {
    struct lockstep l = {.nodes = {REDUCE(2, 0, 0) OUTPUT(2)}, .ranks = 1, .dtype = "f32"};
    assert_int_equal(ig_job_run(&job, evaluate, &l, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "made for a number of ranks of 2"));
}

static void evaluate_alone(struct ig_job *j, void *argument) {
    struct ig_graph *g = graph_of(j, ig_dims_create(j), "f32", 0, argument);
    float numbers[12] = {0};
    struct ingot_tensor output, x = {.dtype = INGOT_F32, .rank = 2, .dims = {2, 6}, .data = numbers};
    ig_eval_graph(j, g, &x, &output);
}

static void test_needs_all_ranks(void **state) {
    assert_int_equal(ig_job_run(&job, evaluate_alone, REDUCE(2, 0, 0) OUTPUT(2), &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "all_reduce needs the graphs of all ranks"));
}

/* ---- What graphs do with them */

/* Equal collectives stay apart, those of constants are not folded, and those that nothing reads stay. */
static void rewrite(struct ig_job *j, void *argument) {
    const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    const struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = graph_of(j, ig_dims_create(j), "f32", 0,
                                  REDUCE(2, 0, 0) REDUCE(3, 0, 1)
                                      REDUCE(4, 0, 2) "  %5 = add(%2, %3): f32[2,6]\n"
                                                      "  %6 = all_reduce(%1) {number=3, ranks=2, reduction=0}: f32[]\n"
                                                      "  %7 = add(%5, %6): f32[2,6]\n" OUTPUT(7));
    for (int i = 0; i < ig_pass_count; i++) {
        g = ig_passes[i].run(g, &options);
        ig_graph_verify(g, ig_passes[i].name);
        uint32_t left = 0;
        for (uint32_t k = 0; k < g->nodes.count; k++)
            left += ig_op_is_collective(g->nodes.at[k].op);
        assert_int_equal(left, 4);
    }
    uint32_t steps = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_region *region = &g->regions.at[r];
        if (region->family != IG_FAMILY_COLLECTIVE) continue;
        assert_int_equal(region->nodes.count, 1);
        assert_int_equal(region->inputs.count, 1);
        assert_int_equal(region->outputs.count, 1);
        steps++;
    }
    assert_int_equal(steps, 4);
}

static void test_passes_leave_them(void **state) {
    if (ig_job_run(&job, rewrite, NULL, &error)) fail_msg("%s", error.message);
}

/* A graph as a pass would leave it that drops one, or moves one. */
static void verify(struct ig_job *j, void *argument) {
    graph_of(j, ig_dims_create(j), "f32", 0, argument);
}

static void test_dropped(void **state) {
    const char *dropped = REDUCE(2, 0, 0) REDUCE(3, 2, 2) OUTPUT(3), *moved = REDUCE(2, 0, 1) REDUCE(3, 0, 0) OUTPUT(3);
    assert_int_equal(ig_job_run(&job, verify, (void *)(uintptr_t)dropped, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "it is collective 2 where number 1 was expected"));
    assert_int_equal(ig_job_run(&job, verify, (void *)(uintptr_t)moved, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "it is collective 1 where number 0 was expected"));
}

static void test_inference(void **state) {
    static const struct {
        const char *node, *message;
    } cases[] = {
        {"all_reduce(%0) {number=0, ranks=0, reduction=0}: f32[2,6]", "0 ranks"},
        {"all_reduce(%0) {number=0, ranks=65, reduction=0}: f32[2,6]", "65 ranks"},
        {"all_reduce(%0) {number=0, ranks=2, reduction=3}: f32[2,6]", "unknown reduction 3"},
        {"all_reduce(%0) {number=-1, ranks=2, reduction=0}: f32[2,6]", "negative"},
        {"all_gather(%0) {number=0, rank=2, axis=0, parts=[2,2]}: f32[4,6]", "rank 2 of 2"},
        {"all_gather(%0) {number=0, rank=0, axis=2, parts=[2,2]}: f32[4,6]", "outside of rank 2"},
        {"all_gather(%0) {number=0, rank=1, axis=0, parts=[2,3]}: f32[5,6]", "operand and parts"},
        {"all_gather(%0) {number=0, rank=0, axis=0, parts=[2,-1]}: f32[1,6]", "negative"},
        {"reduce_scatter(%0) {number=0, rank=0, axis=1, parts=[2,3], reduction=0}: f32[2,2]", "operand and parts"},
        {"all_to_all(%0) {number=0, ranks=3}: f32[2,6]", "number of ranks"},
        {"broadcast_from(%0) {number=0, ranks=2, root=2}: f32[2,6]", "rank 2 of 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char nodes[256];
        snprintf(nodes, sizeof nodes, "  %%2 = %s\n  output \"y\" = %%2\n", cases[i].node);
        assert_int_not_equal(ig_job_run(&job, verify, nodes, &error), INGOT_OK);
        if (!strstr(error.message, cases[i].message)) fail_msg("'%s' lacks '%s'", error.message, cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_reduce, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounds_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_gather, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reduce_scatter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exchanges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disagreement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_rank_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_needs_all_ranks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_passes_leave_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inference, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
