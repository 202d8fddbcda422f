/*
 * Networks with collectives of their own: ONNX Runtime's operators, imported as what one rank does, and the graphs of the ranks
 * of a group, in lockstep.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/shard/own.h"
#include "pass/shard/split.h"
#include "support/check/onnx_check.h"

enum { RANKS = 3, PARTS = 2 * RANKS };

static Onnx__NodeProto *collective(struct test_model *m, Onnx__GraphProto *g, const char *op, const char *inputs,
                                   const char *outputs, const char *attributes) {
    Onnx__NodeProto *node = test_node(m, g, op, inputs, outputs);
    node->domain = ig_strdup(&m->job, "com.microsoft");
    test_attributes(m, node, attributes);
    return node;
}

static void begin(struct test_model *m) {
    test_model_init(m, 17);
    test_opset(m, "com.microsoft", 1);
}

struct ranks {
    struct ig_graph *graph;
    uint32_t count;
    const struct ingot_tensor *input;
    struct ig_graph *graphs[RANKS];
    struct ingot_tensor outputs[RANKS];
};

static void adopt(struct ig_job *job, void *argument) {
    struct ranks *r = argument;
    for (uint32_t i = 0; i < r->count; i++) {
        r->graphs[i] = ig_shard_adopt(r->graph, (int)r->count, (int)i);
        ig_graph_verify(r->graphs[i], "adopting");
    }
    ig_shard_check(r->graphs, (int)r->count);
    if (r->input) ig_eval_ranks(job, r->graphs, r->count, r->input, r->outputs);
}

/*
 * Rank r keeps the r-th pair of x, once from each rank; all of these are gathered, and added up. A collective that nothing
 * reads has a number too.
 */
static void test_collectives(void **state) {
    struct test_model m;
    struct ingot_error error;
    float x[PARTS], expected[RANKS * PARTS];
    for (int i = 0; i < PARTS; i++)
        x[i] = (float)i;
    for (int i = 0; i < RANKS * PARTS; i++)
        expected[i] = (float)(RANKS * (2 * (i / PARTS) + i % 2));
    begin(&m);
    test_input(&m, NULL, "x", TEST_FLOAT, "n");
    collective(&m, NULL, "AllToAll", "x", "own", "group_size=3");
    collective(&m, NULL, "AllGather", "own", "all", "axis=-1; group_size=3");
    collective(&m, NULL, "AllReduce", "all", "y", "");
    test_output(&m, NULL, "y");
    struct ingot_tensor in = {.dtype = INGOT_F32, .rank = 1, .dims = {PARTS}, .data = x};
    struct ranks r = {.graph = test_import(&m), .count = RANKS, .input = &in};
    assert_non_null(ig_shard_own(r.graph));
    if (ig_job_run(&m.job, adopt, &r, &error)) fail_msg("%s", error.message);
    for (int k = 0; k < RANKS; k++) {
        assert_int_equal(ingot_tensor_elements(&r.outputs[k]), RANKS * PARTS);
        assert_memory_equal(r.outputs[k].data, expected, sizeof expected);
        ig_eval_release(&m.job, &r.outputs[k]);
    }
    test_model_deinit(&m);
}

static void expect_adoption(struct test_model *m, uint32_t ranks, enum ingot_status status, const char *message) {
    struct ranks r = {.graph = test_import(m), .count = ranks};
    struct ingot_error error;
    assert_int_equal(ig_job_run(&m->job, adopt, &r, &error), status);
    assert_string_equal(error.message, message);
    test_model_deinit(m);
}

static void test_other_ranks(void **state) {
    struct test_model m;
    begin(&m);
    test_input(&m, NULL, "x", TEST_FLOAT, "4 2");
    collective(&m, NULL, "AllGather", "x", "y", "group_size=2"); /* along axis 1 */
    test_output(&m, NULL, "y");
    test_assert_output(test_import(&m), 0, "f32[4,4]");
    expect_adoption(&m, 3, INGOT_INVALID_ARGUMENT,
                    "AllGather 'y_node' is a collective of 2 ranks, but the engine is for 3");
}

static void test_control_flow(void **state) {
    struct test_model m;
    begin(&m);
    test_input(&m, NULL, "x", TEST_FLOAT, "4");
    test_input(&m, NULL, "c", TEST_BOOL, "");
    Onnx__GraphProto *bodies[] = {test_graph(&m), test_graph(&m)};
    collective(&m, bodies[0], "AllReduce", "x", "sum", "");
    test_output(&m, bodies[0], "sum");
    test_node(&m, bodies[1], "Neg", "x", "neg");
    test_output(&m, bodies[1], "neg");
    Onnx__NodeProto *node = test_node(&m, NULL, "If", "c", "y");
    test_attr_graph(&m, node, "then_branch", bodies[0]);
    test_attr_graph(&m, node, "else_branch", bodies[1]);
    test_output(&m, NULL, "y");
    expect_adoption(&m, 2, INGOT_UNSUPPORTED,
                    "AllReduce 'sum_node' is a collective in control flow, which is not supported");
}

static void test_mistakes(void **state) {
    static const struct {
        const char *op, *attributes, *message;
        enum ingot_status status;
    } cases[] = {
        {"AllGather", "group_size=65", "attribute 'group_size' is 65, from 1 to 64 can be", INGOT_UNSUPPORTED},
        {"AllToAll", "group_size=0", "attribute 'group_size' is 0, from 1 to 64 can be", INGOT_UNSUPPORTED},
        {"AllGather", "axis=2; group_size=2", "axis 2 is out of range for rank 2", INGOT_BAD_MODEL},
        {"AllToAll", "group_size=2", "the first axis has 5 elements, which 2 ranks cannot share equally",
         INGOT_BAD_MODEL},
        {"AllReduce", "two", "2 inputs and 1 outputs: only one tensor is supported", INGOT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_model m;
        bool two = strcmp(cases[i].attributes, "two") == 0;
        begin(&m);
        test_input(&m, NULL, "x", TEST_FLOAT, "5 2");
        collective(&m, NULL, cases[i].op, two ? "x x" : "x", "y", two ? "" : cases[i].attributes);
        test_output(&m, NULL, "y");
        char message[256];
        snprintf(message, sizeof message, "cannot import node 'y_node' (%s): %s", cases[i].op, cases[i].message);
        test_expect_error(&m, NULL, cases[i].status, message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_other_ranks),
        cmocka_unit_test(test_control_flow),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
