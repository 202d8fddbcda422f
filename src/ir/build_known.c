/*
 * Shape folding: integer values whose contents are fully known are replaced by a `constant` or `shape` node. Not
 * replaced: recipes of weights, constants, and index ramps, which kernels compute faster than they read.
 */
#include "ir/build_node.h"
#include "ir/eval/eval.h"

static bool contents_are_const(struct ig_graph *g, const ig_dim *elements, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!ig_dim_is_const(g->dims, elements[i], NULL)) return false;
    }
    return true;
}

static ig_value build_known_constant(struct ig_graph *g, const struct ig_type *type, const ig_dim *elements,
                                     int64_t count) {
    struct ig_data data = {.size = (size_t)count * ingot_dtype_size(type->dtype)};
    void *bytes = ig_alloc(g->job, data.size + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = 0;
        ig_dim_is_const(g->dims, elements[i], &value);
        ig_store_i64(type->dtype, bytes, i, value);
    }
    data.bytes = bytes;
    return ig_build_typed_constant(g, type, &data);
}

/* A `shape` node, cast and reshaped unless the value is i64 of rank 0 or 1. The three nodes are built without
 * replacement (ig_build_plain), since each would be replaced by itself; their keys prevent duplicates. */
static ig_value build_known_shape(struct ig_graph *g, const struct ig_type *type, const ig_dim *elements,
                                  int64_t count) {
    struct ig_attr shape[2] = {ig_attr_of_dims(elements, (int)count), ig_attr_of_int(type->rank == 0)};
    ig_value value = ig_build_plain(g, IG_OP_shape, NULL, 0, shape);
    if (type->dtype != INGOT_I64) {
        struct ig_attr cast[2] = {ig_attr_of_dtype(type->dtype), ig_attr_of_int(0)};
        value = ig_build_plain(g, IG_OP_cast, &value, 1, cast);
    }
    if (type->rank > 1) {
        struct ig_attr reshape = ig_attr_of_dims(type->dim, type->rank);
        value = ig_build_plain(g, IG_OP_reshape, &value, 1, &reshape);
    }
    return value;
}

static bool is_known(const ig_dim *elements, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (elements[i] == IG_DIM_NONE) return false;
    }
    return true;
}

ig_value ig_build_known(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type,
                        const struct ig_value_info *facts) {
    const ig_dim *elements = facts->elements;
    int64_t count = 0;
    bool stays = node->op == IG_OP_constant || node->op == IG_OP_iota || facts->is_refittable;
    if (elements == NULL || stays) return IG_NO_VALUE;
    ig_dim_is_const(g->dims, ig_type_elements(g->dims, type), &count);
    if (!is_known(elements, count)) return IG_NO_VALUE;
    if (contents_are_const(g, elements, count)) return build_known_constant(g, type, elements, count);
    return build_known_shape(g, type, elements, count);
}
