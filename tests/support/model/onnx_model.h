/*
 * ONNX models made by tests: a few calls build the protobuf messages, test_model_pack serialises them. All memory is
 * the job's. Lists of names and dims are texts, separated by spaces: "a b" or "batch 3 ?".
 */
#ifndef TESTS_ONNX_MODEL_H
#define TESTS_ONNX_MODEL_H

#include "base/job.h"
#include "ir/graph.h"
#include "onnx.pb-c.h"

enum {
    TEST_FLOAT = 1,
    TEST_UINT8 = 2,
    TEST_INT32 = 6,
    TEST_INT64 = 7,
    TEST_STRING = 8,
    TEST_BOOL = 9,
    TEST_FLOAT16 = 10
};

struct test_model {
    struct ig_job job;
    Onnx__ModelProto *proto;
    Onnx__GraphProto *graph;
};

/* An empty model of IR version 8 and the given opset. */
void test_model_init(struct test_model *model, int opset);
void test_model_deinit(struct test_model *model);

Onnx__GraphProto *test_graph(struct test_model *model); /* a body, for an attribute */
Onnx__FunctionProto *test_function(struct test_model *model, const char *domain, const char *name, const char *inputs,
                                   const char *outputs);
void test_opset(struct test_model *model, const char *domain, int version);

/* Adds nodes to a graph (NULL: the model's own) or a function. Named after their first output. */
Onnx__NodeProto *test_node(struct test_model *model, Onnx__GraphProto *graph, const char *op, const char *inputs,
                           const char *outputs);
Onnx__NodeProto *test_function_node(struct test_model *model, Onnx__FunctionProto *function, const char *op,
                                    const char *inputs, const char *outputs);
void test_attr_int(struct test_model *model, Onnx__NodeProto *node, const char *name, int64_t value);
void test_attr_float(struct test_model *model, Onnx__NodeProto *node, const char *name, float value);
void test_attr_string(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *value);
void test_attr_ints(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *values);
/* Adds several attributes, separated by ";": axis=1; alpha=0.5f; mode='linear'; pads=[1 1]. */
void test_attributes(struct test_model *model, Onnx__NodeProto *node, const char *text);
void test_attr_graph(struct test_model *model, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *graph);
void test_attr_ref(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *refers_to);

/* `dims`: numbers or names. */
Onnx__ValueInfoProto *test_input(struct test_model *model, Onnx__GraphProto *graph, const char *name, int type,
                                 const char *dims);
void test_output(struct test_model *model, Onnx__GraphProto *graph, const char *name);
/* Initialisers; `values` are written as numbers. */
Onnx__TensorProto *test_floats(struct test_model *model, Onnx__GraphProto *graph, const char *name, const char *dims,
                               const char *values);
Onnx__TensorProto *test_ints(struct test_model *model, Onnx__GraphProto *graph, const char *name, const char *dims,
                             const char *values);
Onnx__TensorProto *test_raw(struct test_model *model, Onnx__GraphProto *graph, const char *name, int type,
                            const char *dims, const void *data, size_t size);

void *test_model_pack(struct test_model *model, size_t *out_size);
/* Serialises and imports: returns the status, and the graph if it is INGOT_OK. `folder` as in ig_import_onnx. */
enum ingot_status test_model_import(struct test_model *model, const char *folder, struct ig_graph **out_graph,
                                    struct ingot_error *error);

#endif
