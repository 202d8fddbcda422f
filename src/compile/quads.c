/* Counting quads of weights; see quads.h. */
#include "compile/quads.h"

size_t ig_quad_size(const struct ig_target *target, const struct ig_weight *weight) {
    struct ig_graph *g = weight->graph;
    const struct ig_type *type = ig_type_of(g, weight->value);
    int64_t together;
    if (ig_target_is_cuda(target) || target->vnni || type->dtype != INGOT_I8 || type->rank < 4) return 0;
    if (!ig_dim_is_const(g->dims, type->dim[type->rank - 1], &together) || together != 4) return 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if ((n->op != IG_OP_matmul && n->op != IG_OP_conv) || n->in[1] != weight->value) continue;
        int64_t columns = ig_attr_int(g, n, IG_ATTR_packed);
        return columns > 1 ? (size_t)(4 * columns) : 0; /* depthwise weights are not multiplied so */
    }
    return 0;
}

static bool is_proved(const int8_t *weights, size_t count) {
    for (size_t i = 0; i < count; i += 2) {
        int sum = weights[i] + weights[i + 1];
        if (sum > 128 || sum < -128) return false;
    }
    return true;
}

void ig_quads_count(const void *bytes, size_t size, size_t quad, struct ig_quads *quads) {
    for (size_t at = 0; at + quad <= size; at += quad) {
        if (is_proved((const int8_t *)bytes + at, quad))
            quads->proved++;
        else
            quads->widened++;
    }
}
