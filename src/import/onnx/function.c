/* Local functions (ModelProto.functions): inlined, each call in a scope of its own. */
#include "import/onnx/importer.h"

#include <string.h>

static const char *text(const char *string) {
    return string ? string : "";
}

static const char *key_of(struct ig_onnx *import, const char *domain, const char *name, const char *overload) {
    const char *canonical = strcmp(text(domain), "ai.onnx") == 0 ? "" : text(domain);
    return ig_format(import->job, "%s\n%s\n%s", canonical, text(name), text(overload));
}

void ig_onnx_register_functions(struct ig_onnx *import) {
    ig_map_init(&import->functions, import->job);
    for (size_t i = 0; i < import->model->n_functions; i++) {
        const Onnx__FunctionProto *function = import->model->functions[i];
        ig_map_put_name(&import->functions, key_of(import, function->domain, function->name, function->overload),
                        (uint32_t)i);
    }
}

const Onnx__FunctionProto *ig_onnx_find_function(const struct ig_onnx *import, const Onnx__NodeProto *node) {
    uint32_t index;
    if (import->model->n_functions == 0) return NULL;
    const char *key = key_of((struct ig_onnx *)import, node->domain, node->op_type, node->overload);
    return ig_map_get_name(&import->functions, key, &index) ? import->model->functions[index] : NULL;
}

static void add_attribute(struct ig_onnx_frame *frame, const char *name, const Onnx__AttributeProto *attribute) {
    frame->names[frame->count] = name;
    frame->attributes[frame->count++] = attribute;
}

/* The call's attributes, with their own references resolved, and the function's defaults for the others. */
static struct ig_onnx_frame *make_frame(struct ig_onnx_node *n, const Onnx__FunctionProto *function) {
    struct ig_onnx_frame *frame = IG_NEW(n->job, struct ig_onnx_frame);
    size_t capacity = n->proto->n_attribute + function->n_attribute_proto;
    frame->names = IG_NEW_ARRAY(n->job, const char *, capacity);
    frame->attributes = IG_NEW_ARRAY(n->job, const Onnx__AttributeProto *, capacity);
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const char *name = text(n->proto->attribute[i]->name);
        const Onnx__AttributeProto *attribute = ig_onnx_attr(n, name);
        if (attribute) add_attribute(frame, name, attribute);
    }
    for (size_t i = 0; i < function->n_attribute_proto; i++) {
        const Onnx__AttributeProto *fallback = function->attribute_proto[i];
        bool given = false;
        for (size_t j = 0; j < frame->count; j++)
            given |= strcmp(frame->names[j], text(fallback->name)) == 0;
        if (!given) add_attribute(frame, text(fallback->name), fallback);
    }
    return frame;
}

void ig_onnx_inline_function(struct ig_onnx_node *n, const Onnx__FunctionProto *function) {
    if (n->n_in > function->n_input) {
        ig_onnx_bad(n, "the function has %zu inputs, the call gives %u", function->n_input, n->n_in);
    }
    if (n->n_out > function->n_output) {
        ig_onnx_bad(n, "the function has %zu outputs, the call takes %u", function->n_output, n->n_out);
    }
    ig_onnx_enter(n->import);
    struct ig_onnx_scope scope;
    ig_onnx_scope_init(&scope, n->import, n->g, NULL, NULL);
    scope.n_opsets = function->n_opset_import;
    scope.opsets = function->opset_import;
    scope.frame = make_frame(n, function);
    for (size_t i = 0; i < function->n_input; i++) {
        ig_onnx_bind(&scope, function->input[i], i < n->n_in ? n->in[i] : IG_NO_VALUE);
    }
    ig_onnx_import_nodes(&scope, function->node, function->n_node, function->output, n->n_out);
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (ig_onnx_wants(n, i)) n->out[i] = ig_onnx_lookup(&scope, function->output[i]);
    }
    ig_onnx_leave(n->import);
}
