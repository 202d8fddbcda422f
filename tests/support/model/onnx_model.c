#include "support/model/onnx_model.h"

#include <stdlib.h>
#include <string.h>

#include "import/onnx/import.h"

/* Appends to a protobuf-c array of pointers. */
#define APPEND(job, array, count, item)                                           \
    do {                                                                          \
        (array) = ig_grow((job), (array), (count), (count) + 1, sizeof *(array)); \
        (array)[(count)++] = (item);                                              \
    } while (0)

static void *make(struct ig_job *job, const ProtobufCMessageDescriptor *descriptor) {
    void *message = ig_alloc(job, descriptor->sizeof_message);
    descriptor->message_init(message);
    return message;
}

/* The next word of a text; NULL at its end. */
static char *next_word(struct ig_job *job, const char **text) {
    const char *start = *text + strspn(*text, " ");
    size_t length = strcspn(start, " ");
    *text = start + length;
    if (length == 0) return NULL;
    /* "_" stands for an absent name. */
    return length == 1 && *start == '_' ? ig_strdup(job, "") : ig_strndup(job, start, length);
}

static void add_words(struct ig_job *job, const char *text, char ***array, size_t *count) {
    for (char *word; (word = next_word(job, &text)) != NULL;)
        APPEND(job, *array, *count, word);
}

static void add_numbers(struct ig_job *job, const char *text, int64_t **array, size_t *count) {
    for (char *word; (word = next_word(job, &text)) != NULL;)
        APPEND(job, *array, *count, strtoll(word, NULL, 10));
}

void test_model_init(struct test_model *model, int opset) {
    ig_job_init(&model->job, &ig_libc_allocator);
    model->proto = make(&model->job, &onnx__model_proto__descriptor);
    model->proto->has_ir_version = 1;
    model->proto->ir_version = 8;
    model->graph = model->proto->graph = test_graph(model);
    test_opset(model, "", opset);
}

void test_model_deinit(struct test_model *model) {
    ig_job_deinit(&model->job);
}

Onnx__GraphProto *test_graph(struct test_model *model) {
    return make(&model->job, &onnx__graph_proto__descriptor);
}

static Onnx__OperatorSetIdProto *make_opset(struct test_model *model, const char *domain, int version) {
    Onnx__OperatorSetIdProto *opset = make(&model->job, &onnx__operator_set_id_proto__descriptor);
    opset->domain = ig_strdup(&model->job, domain);
    opset->has_version = 1;
    opset->version = version;
    return opset;
}

void test_opset(struct test_model *model, const char *domain, int version) {
    APPEND(&model->job, model->proto->opset_import, model->proto->n_opset_import, make_opset(model, domain, version));
}

Onnx__FunctionProto *test_function(struct test_model *model, const char *domain, const char *name, const char *inputs,
                                   const char *outputs) {
    struct ig_job *job = &model->job;
    Onnx__FunctionProto *function = make(job, &onnx__function_proto__descriptor);
    function->domain = ig_strdup(job, domain);
    function->name = ig_strdup(job, name);
    add_words(job, inputs, &function->input, &function->n_input);
    add_words(job, outputs, &function->output, &function->n_output);
    APPEND(job, function->opset_import, function->n_opset_import, make_opset(model, "", 17));
    APPEND(job, model->proto->functions, model->proto->n_functions, function);
    return function;
}

/* ---- Nodes ---- */

static Onnx__NodeProto *make_node(struct test_model *model, const char *op, const char *inputs, const char *outputs) {
    struct ig_job *job = &model->job;
    Onnx__NodeProto *node = make(job, &onnx__node_proto__descriptor);
    const char *dot = strrchr(op, '.');
    node->op_type = ig_strdup(job, dot ? dot + 1 : op);
    if (dot) node->domain = ig_strndup(job, op, (size_t)(dot - op));
    add_words(job, inputs, &node->input, &node->n_input);
    add_words(job, outputs, &node->output, &node->n_output);
    if (node->n_output) node->name = ig_format(job, "%s_node", node->output[0]);
    return node;
}

Onnx__NodeProto *test_node(struct test_model *model, Onnx__GraphProto *graph, const char *op, const char *inputs,
                           const char *outputs) {
    Onnx__NodeProto *node = make_node(model, op, inputs, outputs);
    if (!graph) graph = model->graph;
    APPEND(&model->job, graph->node, graph->n_node, node);
    return node;
}

Onnx__NodeProto *test_function_node(struct test_model *model, Onnx__FunctionProto *function, const char *op,
                                    const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = make_node(model, op, inputs, outputs);
    APPEND(&model->job, function->node, function->n_node, node);
    return node;
}

static Onnx__AttributeProto *add_attr(struct test_model *model, Onnx__NodeProto *node, const char *name, int type) {
    Onnx__AttributeProto *attribute = make(&model->job, &onnx__attribute_proto__descriptor);
    attribute->name = ig_strdup(&model->job, name);
    attribute->has_type = 1;
    attribute->type = type;
    APPEND(&model->job, node->attribute, node->n_attribute, attribute);
    return attribute;
}

void test_attr_int(struct test_model *model, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute = add_attr(model, node, name, 2);
    attribute->has_i = 1;
    attribute->i = value;
}

void test_attr_float(struct test_model *model, Onnx__NodeProto *node, const char *name, float value) {
    Onnx__AttributeProto *attribute = add_attr(model, node, name, 1);
    attribute->has_f = 1;
    attribute->f = value;
}

void test_attr_string(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *value) {
    Onnx__AttributeProto *attribute = add_attr(model, node, name, 3);
    attribute->has_s = 1;
    attribute->s = (ProtobufCBinaryData){strlen(value), ig_memdup(&model->job, value, strlen(value))};
}

void test_attr_ints(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *values) {
    Onnx__AttributeProto *attribute = add_attr(model, node, name, 7);
    add_numbers(&model->job, values, &attribute->ints, &attribute->n_ints);
}

void test_attributes(struct test_model *m, Onnx__NodeProto *node, const char *text) {
    while (*text) {
        const char *equals = strchr(text, '='), *end = strchr(text, ';');
        if (!end) end = text + strlen(text);
        const char *name = ig_strndup(&m->job, text, (size_t)(equals - text));
        char *value = ig_strndup(&m->job, equals + 1, (size_t)(end - equals - 1));
        size_t length = strlen(value);
        if (value[0] == '\'' || value[0] == '[') {
            value[length - 1] = '\0';
            if (value[0] == '[')
                test_attr_ints(m, node, name, value + 1);
            else
                test_attr_string(m, node, name, value + 1);
        } else if (value[length - 1] == 'f') {
            test_attr_float(m, node, name, strtof(value, NULL));
        } else {
            test_attr_int(m, node, name, strtoll(value, NULL, 10));
        }
        text = end + strspn(end, "; ");
    }
}

void test_attr_graph(struct test_model *model, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *graph) {
    add_attr(model, node, name, 5)->g = graph;
}

void test_attr_ref(struct test_model *model, Onnx__NodeProto *node, const char *name, const char *refers_to) {
    Onnx__AttributeProto *attribute = add_attr(model, node, name, 2);
    attribute->ref_attr_name = ig_strdup(&model->job, refers_to);
}

/* ---- Values ---- */

static Onnx__ValueInfoProto *make_value(struct test_model *model, const char *name, int type, const char *dims) {
    struct ig_job *job = &model->job;
    Onnx__ValueInfoProto *value = make(job, &onnx__value_info_proto__descriptor);
    value->name = ig_strdup(job, name);
    value->type = make(job, &onnx__type_proto__descriptor);
    value->type->tensor_type = make(job, &onnx__type_proto__tensor__descriptor);
    value->type->tensor_type->has_elem_type = 1;
    value->type->tensor_type->elem_type = type;
    if (!dims) return value;
    Onnx__TensorShapeProto *shape = value->type->tensor_type->shape = make(job, &onnx__tensor_shape_proto__descriptor);
    for (char *word; (word = next_word(job, &dims)) != NULL;) {
        Onnx__TensorShapeProto__Dimension *dim = make(job, &onnx__tensor_shape_proto__dimension__descriptor);
        char *end;
        dim->dim_value = strtoll(word, &end, 10);
        dim->has_dim_value = *word && *end == '\0';
        if (!dim->has_dim_value) dim->dim_param = word;
        APPEND(job, shape->dim, shape->n_dim, dim);
    }
    return value;
}

Onnx__ValueInfoProto *test_input(struct test_model *model, Onnx__GraphProto *graph, const char *name, int type,
                                 const char *dims) {
    Onnx__ValueInfoProto *value = make_value(model, name, type, dims);
    if (!graph) graph = model->graph;
    APPEND(&model->job, graph->input, graph->n_input, value);
    return value;
}

void test_output(struct test_model *model, Onnx__GraphProto *graph, const char *name) {
    Onnx__ValueInfoProto *value = make_value(model, name, TEST_FLOAT, NULL);
    if (!graph) graph = model->graph;
    APPEND(&model->job, graph->output, graph->n_output, value);
}

static Onnx__TensorProto *add_tensor(struct test_model *model, Onnx__GraphProto *graph, const char *name, int type,
                                     const char *dims) {
    Onnx__TensorProto *tensor = make(&model->job, &onnx__tensor_proto__descriptor);
    tensor->name = ig_strdup(&model->job, name);
    tensor->has_data_type = 1;
    tensor->data_type = type;
    add_numbers(&model->job, dims, &tensor->dims, &tensor->n_dims);
    if (!graph) graph = model->graph;
    APPEND(&model->job, graph->initializer, graph->n_initializer, tensor);
    return tensor;
}

Onnx__TensorProto *test_floats(struct test_model *model, Onnx__GraphProto *graph, const char *name, const char *dims,
                               const char *values) {
    Onnx__TensorProto *tensor = add_tensor(model, graph, name, TEST_FLOAT, dims);
    for (char *word; (word = next_word(&model->job, &values)) != NULL;) {
        APPEND(&model->job, tensor->float_data, tensor->n_float_data, strtof(word, NULL));
    }
    return tensor;
}

Onnx__TensorProto *test_ints(struct test_model *model, Onnx__GraphProto *graph, const char *name, const char *dims,
                             const char *values) {
    Onnx__TensorProto *tensor = add_tensor(model, graph, name, TEST_INT64, dims);
    add_numbers(&model->job, values, &tensor->int64_data, &tensor->n_int64_data);
    return tensor;
}

Onnx__TensorProto *test_raw(struct test_model *model, Onnx__GraphProto *graph, const char *name, int type,
                            const char *dims, const void *data, size_t size) {
    Onnx__TensorProto *tensor = add_tensor(model, graph, name, type, dims);
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){size, ig_memdup(&model->job, data, size)};
    return tensor;
}

/* ---- Packing and importing ---- */

void *test_model_pack(struct test_model *model, size_t *out_size) {
    *out_size = onnx__model_proto__get_packed_size(model->proto);
    uint8_t *bytes = ig_alloc(&model->job, *out_size + 1);
    onnx__model_proto__pack(model->proto, bytes);
    return bytes;
}

struct import {
    const void *data;
    size_t size;
    const char *folder;
    struct ig_graph *graph;
};

static void run_import(struct ig_job *job, void *argument) {
    struct import *import = argument;
    import->graph = ig_import_onnx(job, import->data, import->size, import->folder, false, NULL);
}

enum ingot_status test_model_import(struct test_model *model, const char *folder, struct ig_graph **out_graph,
                                    struct ingot_error *error) {
    struct import import = {.folder = folder};
    import.data = test_model_pack(model, &import.size);
    enum ingot_status status = ig_job_run(&model->job, run_import, &import, error);
    *out_graph = import.graph;
    return status;
}
