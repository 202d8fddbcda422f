#include "support/check/onnx_check.h"

#include "base/text.h"
#include "ir/eval/eval.h"
#include "support/support.h"

struct ig_graph *test_import(struct test_model *model) {
    struct ig_graph *graph;
    struct ingot_error error = {0};
    enum ingot_status status = test_model_import(model, NULL, &graph, &error);
    if (status != INGOT_OK) fail_msg("import failed: %s", error.message);
    return graph;
}

void test_expect_error(struct test_model *model, const char *folder, enum ingot_status status, const char *message) {
    struct ig_graph *graph;
    struct ingot_error error = {0};
    assert_int_equal(test_model_import(model, folder, &graph, &error), status);
    assert_string_equal(error.message, message);
    test_model_deinit(model);
}

void test_assert_type(struct ig_graph *graph, ig_value value, const char *expected) {
    struct ig_text text;
    ig_text_init(&text, graph->job);
    ig_type_print(graph->dims, ig_type_of(graph, value), &text);
    assert_string_equal(text.at, expected);
}

void test_assert_input(struct ig_graph *graph, uint32_t index, const char *name, const char *type) {
    assert_true(index < graph->inputs.count);
    assert_string_equal(graph->inputs.at[index].name, name);
    test_assert_type(graph, graph->inputs.at[index].value, type);
}

void test_assert_output(struct ig_graph *graph, uint32_t index, const char *type) {
    assert_true(index < graph->outputs.count);
    test_assert_type(graph, graph->outputs.at[index].value, type);
}

uint32_t test_count_ops(const struct ig_graph *graph, enum ig_op op) {
    uint32_t count = 0;
    for (ig_node_id id = 0; id < graph->nodes.count; id++)
        count += graph->nodes.at[id].op == op;
    return count;
}

void test_evaluate(struct ig_job *job, void *argument) {
    struct test_evaluation *e = argument;
    ig_eval_graph(job, e->graph, e->inputs, e->outputs);
}

void test_assert_result(struct test_model *model, struct ig_graph *graph, const struct ingot_tensor *inputs,
                        const float *expected, int64_t count) {
    struct test_evaluation e = {.graph = graph, .inputs = inputs};
    struct ingot_error error = {0};
    if (ig_job_run(&model->job, test_evaluate, &e, &error) != INGOT_OK) fail_msg("evaluation: %s", error.message);
    assert_int_equal(ingot_tensor_elements(&e.outputs[0]), count);
    for (int64_t i = 0; i < count; i++) {
        double got = ig_load_f64(e.outputs[0].dtype, e.outputs[0].data, i);
        if (!(got >= (double)expected[i] - 1e-5 && got <= (double)expected[i] + 1e-5)) {
            fail_msg("element %d is %g, expected %g", (int)i, got, (double)expected[i]);
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        ig_eval_release(&model->job, &e.outputs[i]);
}

void test_add_scale_function(struct test_model *m) {
    test_opset(m, "local", 1);
    Onnx__FunctionProto *f = test_function(m, "local", "Scale", "a", "r");
    Onnx__NodeProto *constant = test_function_node(m, f, "Constant", "", "c");
    test_attr_ref(m, constant, "value_float", "alpha");
    constant->attribute[0]->type = 1;
    test_function_node(m, f, "Add", "a c", "s");
    test_function_node(m, f, "Mul", "a s", "r");
    Onnx__NodeProto *holder = test_node(m, test_graph(m), "Holder", "", "h");
    test_attr_float(m, holder, "alpha", 2);
    f->attribute_proto = holder->attribute;
    f->n_attribute_proto = 1;
}
