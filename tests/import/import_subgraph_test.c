/* The ONNX importer: the order of nodes, local functions, branches and loops. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/onnx/import.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/check/onnx_check.h"

/* ---- Order and names ---- */

static void nodes_may_come_in_any_order(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n");
    test_node(&m, NULL, "Neg", "b", "y");
    test_node(&m, NULL, "Unknown", "x", "unneeded");
    test_node(&m, NULL, "Abs", "a", "b");
    test_node(&m, NULL, "Exp", "x", "a");
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    assert_int_equal(graph->nodes.count, 3);
    assert_string_equal(graph->nodes.at[0].origin, "Exp 'a_node'");
    test_model_deinit(&m);
}

static void cycles_are_found(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n");
    test_node(&m, NULL, "Add", "x c", "a");
    test_node(&m, NULL, "Neg", "a", "b");
    test_node(&m, NULL, "Neg", "b", "c");
    test_output(&m, NULL, "c");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "the graph has a cycle through node 'c_node' (Neg)");
}

static void names_mean_one_value(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n");
    test_node(&m, NULL, "Neg", "x", "y");
    test_node(&m, NULL, "Abs", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "value 'y' is defined twice");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n");
    test_node(&m, NULL, "Add", "x nothing", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "cannot import node 'y_node' (Add): value 'nothing' is not defined");
    test_model_init(&m, 17);
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "value 'y' is not defined");
}

/* ---- Functions ---- */

static void functions_are_inlined(void **state) {
    float x[] = {1, 2};
    struct ingot_tensor input = {INGOT_F32, 1, {2}, x, INGOT_HOST};
    for (int with_attribute = 0; with_attribute < 2; with_attribute++) {
        struct test_model m;
        test_model_init(&m, 17);
        test_add_scale_function(&m);
        test_input(&m, NULL, "x", TEST_FLOAT, "2");
        Onnx__NodeProto *call = test_node(&m, NULL, "local.Scale", "x", "y");
        if (with_attribute) test_attr_float(&m, call, "alpha", 10);
        test_output(&m, NULL, "y");
        struct ig_graph *graph = test_import(&m);
        test_assert_result(&m, graph, &input, with_attribute ? (float[]){11, 24} : (float[]){3, 8}, 2);
        test_model_deinit(&m);
    }
}

static void functions_may_not_call_themselves(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_opset(&m, "local", 1);
    Onnx__FunctionProto *f = test_function(&m, "local", "F", "a", "r");
    test_function_node(&m, f, "local.F", "a", "r");
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_node(&m, NULL, "local.F", "x", "y");
    test_output(&m, NULL, "y");
    struct ig_graph *graph;
    struct ingot_error error = {0};
    assert_int_equal(test_model_import(&m, NULL, &graph, &error), INGOT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "functions and subgraphs are nested more than 64 deep"));
    test_model_deinit(&m);
}

/* Twenty functions, each of which calls the next one twenty times. */
static void functions_may_not_explode(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_opset(&m, "local", 1);
    for (int i = 0; i < 20; i++) {
        Onnx__FunctionProto *f = test_function(&m, "local", ig_format(&m.job, "F%d", i), "v0", "v20");
        for (int j = 0; j < 20; j++) {
            test_function_node(&m, f, ig_format(&m.job, i < 19 ? "local.F%d" : "Identity", i + 1),
                               ig_format(&m.job, "v%d", j), ig_format(&m.job, "v%d", j + 1));
        }
    }
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_node(&m, NULL, "local.F0", "x", "y");
    test_output(&m, NULL, "y");
    struct ig_graph *graph;
    struct ingot_error error = {0};
    assert_int_equal(test_model_import(&m, NULL, &graph, &error), INGOT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "nodes after inlining its functions"));
    test_model_deinit(&m);
}

/* ---- Subgraphs ---- */

/* An If on `condition` whose branches are -x and z + w; x, z and w are captured from outside. */
static void add_if(struct test_model *m, const char *condition) {
    Onnx__GraphProto *then_branch = test_graph(m), *else_branch = test_graph(m);
    test_node(m, then_branch, "Neg", "x", "t");
    test_output(m, then_branch, "t");
    test_node(m, else_branch, "Add", "z w", "e");
    test_output(m, else_branch, "e");
    Onnx__NodeProto *node = test_node(m, NULL, "If", condition, "y");
    test_attr_graph(m, node, "then_branch", then_branch);
    test_attr_graph(m, node, "else_branch", else_branch);
    test_output(m, NULL, "y");
}

static void branches_capture(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "c", TEST_BOOL, "");
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_input(&m, NULL, "z", TEST_FLOAT, "2");
    test_floats(&m, NULL, "w", "2", "10 20");
    add_if(&m, "c");
    struct ig_graph *graph = test_import(&m);
    const struct ig_node *node = ig_def_op(graph, graph->outputs.at[0].value, IG_OP_if);
    assert_non_null(node);
    assert_int_equal(node->n_in, 3);
    for (int i = 0; i < 2; i++) {
        /* Both bodies have both captures as inputs; the weight is a constant inside. */
        assert_int_equal(node->body[i]->inputs.count, 2);
        assert_string_equal(node->body[i]->inputs.at[0].name, "x");
        assert_string_equal(node->body[i]->inputs.at[1].name, "z");
    }
    assert_int_equal(test_count_ops(node->body[1], IG_OP_constant), 1);
    float x[] = {1, 2}, z[] = {5, 6};
    uint8_t yes = 1, no = 0;
    struct ingot_tensor inputs[] = {
        {INGOT_BOOL, 0, {0}, &yes, INGOT_HOST}, {INGOT_F32, 1, {2}, x, INGOT_HOST}, {INGOT_F32, 1, {2}, z, INGOT_HOST}};
    test_assert_result(&m, graph, inputs, (float[]){-1, -2}, 2);
    inputs[0].data = &no;
    test_assert_result(&m, graph, inputs, (float[]){15, 26}, 2);
    test_model_deinit(&m);
}

static void known_branches_are_taken(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "n 2");
    test_input(&m, NULL, "z", TEST_FLOAT, "n 2");
    test_floats(&m, NULL, "w", "2", "10 20");
    test_ints(&m, NULL, "two", "", "2");
    test_ints(&m, NULL, "one", "", "1");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_attr_int(&m, test_node(&m, NULL, "Gather", "shape one", "columns"), "axis", 0);
    test_node(&m, NULL, "Equal", "columns two", "c");
    add_if(&m, "c");
    struct ig_graph *graph = test_import(&m);
    assert_int_equal(test_count_ops(graph, IG_OP_if), 0);
    assert_non_null(ig_def_op(graph, graph->outputs.at[0].value, IG_OP_neg));
    test_model_deinit(&m);
}

/* if n == 1: squeeze(x) else: x, followed by a product that requires rank 1: only the first branch is possible. */
static void impossible_branches_are_not_taken(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "3 n");
    test_floats(&m, NULL, "w", "3", "1 2 3");
    test_ints(&m, NULL, "one", "", "1");
    test_ints(&m, NULL, "last", "1", "1");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_attr_int(&m, test_node(&m, NULL, "Gather", "shape one", "columns"), "axis", 0);
    test_node(&m, NULL, "Equal", "columns one", "c");
    Onnx__GraphProto *then_branch = test_graph(&m), *else_branch = test_graph(&m);
    test_node(&m, then_branch, "Squeeze", "x last", "t");
    test_output(&m, then_branch, "t");
    test_node(&m, else_branch, "Identity", "x", "e");
    test_output(&m, else_branch, "e");
    Onnx__NodeProto *node = test_node(&m, NULL, "If", "c", "v");
    test_attr_graph(&m, node, "then_branch", then_branch);
    test_attr_graph(&m, node, "else_branch", else_branch);
    test_attr_int(&m, test_node(&m, NULL, "Concat", "v w", "y"), "axis", 0);
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    test_assert_output(graph, 0, "f32[6]");
    float x[] = {4, 5, 6};
    struct ingot_tensor input = {INGOT_F32, 2, {3, 1}, x, INGOT_HOST};
    test_assert_result(&m, graph, &input, (float[]){4, 5, 6, 1, 2, 3}, 6);
    test_model_deinit(&m);
}

/* sum = 0; for i in 0..trip: sum += x + i; scan sum */
static void loops_carry_and_scan(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "trip", TEST_INT64, "");
    test_input(&m, NULL, "x", TEST_FLOAT, "1");
    test_floats(&m, NULL, "zero", "1", "0");
    Onnx__GraphProto *body = test_graph(&m);
    test_input(&m, body, "i", TEST_INT64, "");
    test_input(&m, body, "go", TEST_BOOL, "");
    test_input(&m, body, "sum", TEST_FLOAT, "1");
    test_attr_int(&m, test_node(&m, body, "Cast", "i", "wide"), "to", TEST_FLOAT);
    test_node(&m, body, "Add", "x wide", "step");
    test_node(&m, body, "Add", "sum step", "next");
    test_node(&m, body, "Identity", "next", "seen");
    test_output(&m, body, "go");
    test_output(&m, body, "next");
    test_output(&m, body, "seen");
    test_attr_graph(&m, test_node(&m, NULL, "Loop", "trip _ zero", "last all"), "body", body);
    test_output(&m, NULL, "all");
    struct ig_graph *graph = test_import(&m);
    test_assert_output(graph, 0, "f32[max(\"trip[0]\",0),1]");
    int64_t trip = 3;
    float x = 10;
    struct ingot_tensor inputs[] = {{INGOT_I64, 0, {0}, &trip, INGOT_HOST}, {INGOT_F32, 1, {1}, &x, INGOT_HOST}};
    test_assert_result(&m, graph, inputs, (float[]){10, 21, 33}, 3);
    test_model_deinit(&m);
}

/* if c: s = x; three times: s += x / 2; else: x. What the loop captures is captured by the branch too. */
static void captures_pass_through_bodies(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "c", TEST_BOOL, "");
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_floats(&m, NULL, "half", "", "0.5");
    test_ints(&m, NULL, "three", "", "3");
    Onnx__GraphProto *body = test_graph(&m), *then_branch = test_graph(&m), *else_branch = test_graph(&m);
    test_input(&m, body, "i", TEST_INT64, "");
    test_input(&m, body, "go", TEST_BOOL, "");
    test_input(&m, body, "sum", TEST_FLOAT, "2");
    test_node(&m, body, "Mul", "x half", "step");
    test_node(&m, body, "Add", "sum step", "next");
    test_output(&m, body, "go");
    test_output(&m, body, "next");
    test_attr_graph(&m, test_node(&m, then_branch, "Loop", "three _ x", "t"), "body", body);
    test_output(&m, then_branch, "t");
    test_node(&m, else_branch, "Identity", "x", "e");
    test_output(&m, else_branch, "e");
    Onnx__NodeProto *node = test_node(&m, NULL, "If", "c", "y");
    test_attr_graph(&m, node, "then_branch", then_branch);
    test_attr_graph(&m, node, "else_branch", else_branch);
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    float x[] = {2, 4};
    uint8_t yes = 1;
    struct ingot_tensor inputs[] = {{INGOT_BOOL, 0, {0}, &yes, INGOT_HOST}, {INGOT_F32, 1, {2}, x, INGOT_HOST}};
    test_assert_result(&m, graph, inputs, (float[]){5, 10}, 2);
    yes = 0;
    test_assert_result(&m, graph, inputs, (float[]){2, 4}, 2);
    test_model_deinit(&m);
}

/* A file of nothing but nested subgraphs: at two bytes a level, recursion could go arbitrarily deep. */
static void hopeless_nesting_is_refused(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    Onnx__GraphProto *inner = test_graph(&m);
    for (int i = 0; i < 2000; i++) {
        Onnx__GraphProto *outer = test_graph(&m);
        test_attr_graph(&m, test_node(&m, outer, "If", "c", "y"), "then_branch", inner);
        inner = outer;
    }
    m.proto->graph = inner;
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "subgraphs are nested more than 64 deep");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_may_come_in_any_order),
        cmocka_unit_test(cycles_are_found),
        cmocka_unit_test(names_mean_one_value),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(functions_may_not_call_themselves),
        cmocka_unit_test(functions_may_not_explode),
        cmocka_unit_test(branches_capture),
        cmocka_unit_test(known_branches_are_taken),
        cmocka_unit_test(impossible_branches_are_not_taken),
        cmocka_unit_test(loops_carry_and_scan),
        cmocka_unit_test(captures_pass_through_bodies),
        cmocka_unit_test(hopeless_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
