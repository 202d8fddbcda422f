/* Values with the same bytes; see same_bytes.h. */
#include "ir/same_bytes.h"

enum { MOST_VIEWS = 32 }; /* passes leave two or three */

/* How the elements of a value lie in the memory of what it is a view of. */
struct view {
    int rank;
    int64_t size[INGOT_MAX_RANK], stride[INGOT_MAX_RANK]; /* in elements */
};

static bool read_dims(const struct ig_graph *g, ig_value v, struct view *out_view) {
    const struct ig_type *type = ig_type_of(g, v);
    out_view->rank = type->rank;
    return ig_type_is_static(g->dims, type, out_view->size);
}

/* False if there are more elements than can be counted. */
static bool make_dense(struct view *v) {
    int64_t stride = 1;
    for (int i = v->rank; i-- > 0;) {
        v->stride[i] = stride;
        if (__builtin_mul_overflow(stride, v->size[i], &stride)) return false;
    }
    return true;
}

static bool is_dense(const struct view *v) {
    struct view dense = *v;
    if (!make_dense(&dense)) return false;
    for (int i = 0; i < v->rank; i++) {
        if (v->size[i] != 1 && v->stride[i] != dense.stride[i]) return false;
    }
    return true;
}

/* Axes that lie in memory as one become one; those of size 1 go. */
static void join_axes(struct view *v) {
    int count = 0;
    for (int i = 0; i < v->rank; i++) {
        if (v->size[i] == 1) continue;
        if (count > 0 && v->stride[count - 1] == v->stride[i] * v->size[i]) {
            v->size[count - 1] *= v->size[i];
            v->stride[count - 1] = v->stride[i];
            continue;
        }
        v->size[count] = v->size[i];
        v->stride[count++] = v->stride[i];
    }
    v->rank = count;
}

/* Sets the strides of a reshape's result `to`; false if it is no view of `from`, as far as can be told. */
static bool reshape(struct view from, struct view *to) {
    join_axes(&from);
    int axis = 0;
    int64_t left = from.rank ? from.size[0] : 1;
    for (int i = 0; i < to->rank; i++) {
        to->stride[i] = 1;
        if (to->size[i] == 1) continue;
        if (left == 1 && ++axis < from.rank) left = from.size[axis];
        if (axis >= from.rank || left % to->size[i] != 0) return false;
        left /= to->size[i];
        to->stride[i] = from.stride[axis] * left;
    }
    return left == 1 && axis + 1 >= from.rank;
}

/* Follows a node of a chain of views. */
static bool follow(const struct ig_graph *g, const struct ig_node *n, struct view *v) {
    struct view to;
    if (!read_dims(g, n->out, &to)) return false;
    if (n->op == IG_OP_transpose) {
        const int64_t *perm = ig_attr(g, n, IG_ATTR_perm)->ints;
        for (int i = 0; i < to.rank; i++)
            to.stride[i] = v->stride[perm[i]];
    } else if (n->op != IG_OP_reshape || !reshape(*v, &to)) {
        return false;
    }
    *v = to;
    return true;
}

static bool is_empty(const struct view *v) {
    for (int i = 0; i < v->rank; i++) {
        if (v->size[i] == 0) return true;
    }
    return false;
}

ig_value ig_same_bytes(const struct ig_graph *g, ig_value v) {
    const struct ig_node *chain[MOST_VIEWS], *n;
    struct view view;
    int count = 0;
    while ((n = ig_def(g, v)) && (n->op == IG_OP_reshape || n->op == IG_OP_transpose)) {
        if (count == MOST_VIEWS) return IG_NO_VALUE;
        chain[count++] = n;
        v = n->in[0];
    }
    if (!read_dims(g, v, &view) || is_empty(&view) || !make_dense(&view)) return IG_NO_VALUE;
    while (count > 0) {
        if (!follow(g, chain[--count], &view)) return IG_NO_VALUE;
    }
    return is_dense(&view) ? v : IG_NO_VALUE;
}
