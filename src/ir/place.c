/* Constants that follow from their position; see place.h. */
#include "ir/place.h"
#include "ir/build.h"

enum { DEPTH = 12 }; /* depth of nested operators */

static bool is_cheap(enum ig_op op) {
    switch (op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_eq:
    case IG_OP_lt:
    case IG_OP_le:
    case IG_OP_and:
    case IG_OP_or:
    case IG_OP_not:
    case IG_OP_where:
    case IG_OP_cast:
    case IG_OP_reshape:
    case IG_OP_broadcast:
    case IG_OP_transpose:
    case IG_OP_slice: return true;
    default: return false;
    }
}

static bool is_scalar(const struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    int64_t n;
    for (int i = 0; i < type->rank; i++) {
        if (!ig_dim_is_const(g->dims, type->dim[i], &n) || n != 1) return false;
    }
    return true;
}

/* The axis along which a constant's elements count *out_first, and 1 more, and so on; -1: none. */
static int counted_axis_of_constant(struct ig_graph *g, ig_value v, int64_t *out_first) {
    enum { CAPACITY = 4096 };
    const struct ig_type *type = ig_type_of(g, v);
    int64_t *x = IG_NEW_ARRAY(g->job, int64_t, CAPACITY), behind = 1, n;
    int count;
    if (!ig_const_ints(g, v, x, CAPACITY, &count) || count == 0 || x[0] > INT64_MAX - count) return -1;
    *out_first = x[0];
    for (int axis = type->rank - 1; axis >= 0; axis--, behind *= n) {
        int at = 0;
        if (!ig_dim_is_const(g->dims, type->dim[axis], &n)) return -1;
        while (at < count && x[at] == x[0] + at / behind % n)
            at++;
        if (at == count && n > 1) return axis;
    }
    return -1;
}

int ig_counted_axis(struct ig_graph *g, ig_value v, int64_t *out_first) {
    const struct ig_node *n = ig_def(g, v);
    const struct ig_type *type = ig_type_of(g, v);
    if (n && n->op == IG_OP_constant) return counted_axis_of_constant(g, v, out_first);
    if (!n || (n->op != IG_OP_iota && n->op != IG_OP_broadcast && n->op != IG_OP_reshape)) return -1;
    if (n->op == IG_OP_iota) {
        *out_first = 0;
        return (int)ig_attr_int(g, n, IG_ATTR_axis);
    }
    const struct ig_type *from = ig_type_of(g, n->in[0]);
    int axis = ig_counted_axis(g, n->in[0], out_first);
    if (axis < 0) return -1;
    if (n->op == IG_OP_broadcast) {
        ig_dim size = from->dim[axis];
        axis += type->rank - from->rank;
        return type->dim[axis] == size ? axis : -1;
    }
    ig_dim behind = ig_dim_product(g->dims, from->dim + axis + 1, from->rank - axis - 1);
    for (int i = 0; i < type->rank; i++) {
        bool same = type->dim[i] == from->dim[axis];
        if (same && ig_dim_product(g->dims, type->dim + i + 1, type->rank - i - 1) == behind) return i;
    }
    return -1;
}

/* Is v computed from counting values and scalars by cheap operators only? Sets *inout_counts if a counting value
 * occurs. */
static bool follows(struct ig_graph *g, ig_value v, int depth, bool *inout_counts) {
    const struct ig_node *n = ig_def(g, v);
    if (v == IG_NO_VALUE || !ig_info(g, v)->is_const) return false;
    if (is_scalar(g, v)) return true;
    if (!n || depth == 0) return false;
    if (n->op == IG_OP_iota || n->op == IG_OP_constant) {
        int64_t first;
        bool counting = ig_counted_axis(g, v, &first) >= 0;
        *inout_counts |= counting;
        return counting;
    }
    if (!is_cheap(n->op)) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!follows(g, n->in[i], depth - 1, inout_counts)) return false;
    }
    return true;
}

bool ig_follows_from_place(struct ig_graph *g, ig_value v) {
    bool counts = false;
    return follows(g, v, DEPTH, &counts) && counts;
}
