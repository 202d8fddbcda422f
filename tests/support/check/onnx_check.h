/* Imports models made by tests (onnx_model.h) and inspects the result. All of these fail the test on an error. */
#ifndef TESTS_ONNX_CHECK_H
#define TESTS_ONNX_CHECK_H

#include "support/model/onnx_model.h"

struct ig_graph *test_import(struct test_model *model);
/* Checks that the import fails with exactly this message; ends the model. */
void test_expect_error(struct test_model *model, const char *folder, enum ingot_status status, const char *message);

void test_assert_type(struct ig_graph *graph, ig_value value, const char *expected);
void test_assert_input(struct ig_graph *graph, uint32_t index, const char *name, const char *type);
void test_assert_output(struct ig_graph *graph, uint32_t index, const char *type);
uint32_t test_count_ops(const struct ig_graph *graph, enum ig_op op);

/* For ig_job_run. */
struct test_evaluation {
    struct ig_graph *graph;
    const struct ingot_tensor *inputs;
    struct ingot_tensor outputs[4];
};
void test_evaluate(struct ig_job *job, void *argument);
/* Evaluates, and compares output 0 with `count` floats. */
void test_assert_result(struct test_model *model, struct ig_graph *graph, const struct ingot_tensor *inputs,
                        const float *expected, int64_t count);

/* Adds the function local.Scale(a) = a * (a + alpha), where alpha is an attribute with the default 2. */
void test_add_scale_function(struct test_model *model);

#endif
