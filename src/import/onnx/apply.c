/* See apply.h. A node of the protocol is made for the operator's function, which reads its attributes there. */
#include "import/onnx/apply.h"

#include <string.h>

#include "base/narrow.h"
#include "import/onnx/importer.h"

struct ig_onnx *ig_onnx_begin_nodes(struct ig_job *job, struct ig_dims *dims, struct ig_initializers *initializers,
                                    int opset) {
    const int newest = ig_onnx_newest_opset();
    if (opset < 0 || opset > newest)
        ig_raise(job, INGOT_UNSUPPORTED, "opset %d is not known, expected up to %d", opset, newest);
    struct ig_onnx *import = IG_NEW(job, struct ig_onnx);
    import->job = job;
    import->dims = dims;
    import->initializers = initializers;
    ig_map_init(&import->records, job);
    ig_map_init(&import->refused, job);
    ig_map_init(&import->plain, job);
    import->node_opset = opset ? opset : newest;
    return import;
}

/* ---- Attributes */

static Onnx__TensorProto *tensor_proto(struct ig_job *job, const struct ingot_tensor *tensor) {
    Onnx__TensorProto *proto = IG_NEW(job, Onnx__TensorProto);
    onnx__tensor_proto__init(proto);
    proto->has_data_type = 1;
    proto->data_type = ig_onnx_data_type(tensor->dtype);
    proto->n_dims = (size_t)tensor->rank;
    proto->dims = ig_memdup(job, tensor->dims, sizeof tensor->dims);
    proto->has_raw_data = 1;
    size_t count = (size_t)ingot_tensor_elements(tensor);
    if (ig_narrow_bits(tensor->dtype)) {
        proto->raw_data.len = ig_narrow_packed_size(tensor->dtype, count);
        proto->raw_data.data = ig_alloc_array(job, proto->raw_data.len, 1);
        ig_narrow_pack(tensor->dtype, tensor->data, count, proto->raw_data.data);
    } else {
        proto->raw_data.len = count * ingot_dtype_size(tensor->dtype);
        proto->raw_data.data = ig_memdup(job, tensor->data, proto->raw_data.len);
    }
    return proto;
}

static Onnx__AttributeProto *attribute_proto(struct ig_job *job, const struct ingot_attribute *given) {
    Onnx__AttributeProto *proto = IG_NEW(job, Onnx__AttributeProto);
    onnx__attribute_proto__init(proto);
    proto->name = (char *)given->name;
    proto->has_type = 1;
    switch (given->kind) {
    case INGOT_ATTRIBUTE_INT:
    case INGOT_ATTRIBUTE_DTYPE:
        proto->type = IG_ONNX_INT;
        proto->has_i = 1;
        proto->i = given->kind == INGOT_ATTRIBUTE_INT ? given->i : ig_onnx_data_type(given->dtype);
        return proto;
    case INGOT_ATTRIBUTE_FLOAT:
        proto->type = IG_ONNX_FLOAT;
        proto->has_f = 1;
        proto->f = (float)given->f;
        return proto;
    case INGOT_ATTRIBUTE_STRING:
        proto->type = IG_ONNX_STRING;
        proto->has_s = 1;
        proto->s.len = strlen(given->string);
        proto->s.data = (uint8_t *)ig_strdup(job, given->string);
        return proto;
    case INGOT_ATTRIBUTE_INTS:
        proto->type = IG_ONNX_INTS;
        proto->n_ints = given->count;
        proto->ints = ig_memdup(job, given->ints, given->count * sizeof *given->ints);
        return proto;
    case INGOT_ATTRIBUTE_FLOATS:
        proto->type = IG_ONNX_FLOATS;
        proto->n_floats = given->count;
        proto->floats = IG_NEW_ARRAY(job, float, given->count + 1);
        for (size_t i = 0; i < given->count; i++)
            proto->floats[i] = (float)given->floats[i];
        return proto;
    case INGOT_ATTRIBUTE_TENSOR:
        proto->type = IG_ONNX_TENSOR;
        proto->t = tensor_proto(job, given->tensor);
        return proto;
    case INGOT_ATTRIBUTE_DIMS:
    case INGOT_ATTRIBUTE_BODY: break;
    }
    ig_raise(job, INGOT_INVALID_ARGUMENT, "attribute '%s' is of a kind that ONNX's operators do not have", given->name);
}

/* ---- Nodes */

static Onnx__NodeProto *node_proto(struct ig_job *job, const struct ingot_operator *op, size_t n_outputs) {
    Onnx__NodeProto *proto = IG_NEW(job, Onnx__NodeProto);
    onnx__node_proto__init(proto);
    const char *dot = strrchr(op->name, '.');
    proto->domain = dot ? ig_strndup(job, op->name, (size_t)(dot - op->name)) : "";
    proto->op_type = ig_strdup(job, dot ? dot + 1 : op->name);
    proto->n_attribute = op->n_attributes;
    proto->attribute = IG_NEW_ARRAY(job, Onnx__AttributeProto *, op->n_attributes + 1);
    for (size_t i = 0; i < op->n_attributes; i++)
        proto->attribute[i] = attribute_proto(job, &op->attributes[i]);
    /* Any name tells that the output is wanted. */
    proto->n_output = n_outputs;
    proto->output = IG_NEW_ARRAY(job, char *, n_outputs + 1);
    for (size_t i = 0; i < n_outputs; i++)
        proto->output[i] = "out";
    return proto;
}

void ig_onnx_add_node(struct ig_onnx *import, struct ig_graph *g, const struct ingot_operator *op, ig_value *out_values,
                      size_t n_outputs) {
    struct ig_onnx_scope scope;
    ig_onnx_scope_init(&scope, import, g, NULL, NULL);
    import->nesting = 0;
    struct ig_onnx_node n = {.import = import, .scope = &scope, .job = import->job, .dims = import->dims, .g = g};
    n.proto = node_proto(import->job, op, n_outputs);
    n.opset = import->node_opset;
    n.n_in = (uint32_t)op->n_inputs;
    n.in = ig_memdup(import->job, op->inputs, op->n_inputs * sizeof *op->inputs);
    n.n_out = (uint32_t)n_outputs;
    ig_onnx_import_operator(&n);
    for (size_t i = 0; i < n_outputs; i++) {
        if (n.out[i] == IG_NO_VALUE) ig_onnx_refuse(&n, "output %zu is not supported, or there is none", i);
        out_values[i] = n.out[i];
    }
}
