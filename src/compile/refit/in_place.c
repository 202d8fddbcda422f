/* Recipes that leave bytes as they are; see in_place.h. */
#include "compile/refit/in_place.h"

#include <string.h>

#include "base/map.h"
#include "ir/text/print.h"

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

static void make_dense(struct view *v) {
    int64_t stride = 1;
    for (int i = v->rank; i-- > 0;) {
        v->stride[i] = stride;
        stride *= v->size[i];
    }
}

static bool is_dense(const struct view *v) {
    struct view dense = *v;
    make_dense(&dense);
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
    return true;
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

bool ig_in_place_leaves_bytes(struct ig_job *job, const char *recipe, size_t length) {
    const struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), recipe, length);
    struct view view;
    if (g->inputs.count != 1 || g->outputs.count != 1) return false;
    ig_value v = g->inputs.at[0].value;
    if (!read_dims(g, v, &view) || is_empty(&view)) return false;
    make_dense(&view);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[i];
        if (n->n_in != 1 || n->n_out != 1 || n->in[0] != v || !follow(g, n, &view)) return false;
        v = n->out;
    }
    return g->outputs.at[0].value == v && is_dense(&view);
}

/* Bytes of an initialiser, which the reader of files has checked not to overflow. */
static uint64_t size_of(const struct ig_initializer_entry *e) {
    uint64_t size = ingot_dtype_size((enum ingot_dtype)e->dtype);
    for (uint32_t i = 0; i < e->rank; i++)
        size *= (uint64_t)e->dims[i];
    return size;
}

void ig_in_place_find(struct ig_job *job, const struct ig_engine_file *file, bool *out_can) {
    const struct ig_refit_tables *t = &file->refit;
    struct ig_map known; /* recipe -> whether it leaves bytes as they are */
    ig_map_init(&known, job);
    ig_refit_find_apart(t, &file->plan, out_can);
    for (uint32_t i = 0; i < t->n_weights; i++) {
        const struct ig_weight_entry *w = &t->weights[i];
        uint32_t leaves = 0;
        if (w->n_sources != 1 || size_of(&t->initializers[t->sources[w->sources]]) != w->size) out_can[i] = false;
        if (!out_can[i]) continue;
        if (!ig_map_get(&known, t->recipes + w->recipe, w->recipe_size, &leaves)) {
            leaves = ig_in_place_leaves_bytes(job, t->recipes + w->recipe, w->recipe_size);
            ig_map_put(&known, t->recipes + w->recipe, w->recipe_size, leaves);
        }
        out_can[i] = leaves != 0;
    }
}
