#include "support/check/apply.h"

#include "import/onnx/apply.h"
#include "ir/initializer.h"

ig_value apply(struct ig_graph *g, const char *name, const ig_value *inputs, int n_inputs,
               const struct ingot_attribute *attributes) {
    struct ig_initializers *initializers = ig_initializers_create(g->job);
    struct ig_onnx *import = ig_onnx_begin_nodes(g->job, g->dims, initializers, 0);
    ingot_value values[APPLY_MOST_INPUTS];
    struct ingot_operator op = {.name = name, .inputs = values, .n_inputs = (size_t)n_inputs, .attributes = attributes};
    for (int i = 0; i < n_inputs; i++)
        values[i] = inputs[i] == IG_NO_VALUE ? INGOT_NO_VALUE : inputs[i];
    while (attributes && attributes[op.n_attributes].name)
        op.n_attributes++;
    ig_value result;
    ig_onnx_add_node(import, g, &op, &result, 1);
    return result;
}

struct ingot_attribute attribute_int(const char *name, int64_t i) {
    return (struct ingot_attribute){.name = name, .kind = INGOT_ATTRIBUTE_INT, .i = i};
}

struct ingot_attribute attribute_ints(const char *name, const int64_t *ints, size_t count) {
    return (struct ingot_attribute){.name = name, .kind = INGOT_ATTRIBUTE_INTS, .ints = ints, .count = count};
}
