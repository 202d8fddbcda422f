#include "pass/fuse/scatters.h"

#include "ir/canonical.h"
#include "ir/part.h"

ig_value ig_beneath_repeats(const struct ig_graph *g, ig_value v) {
    bool repeats = false;
    ig_value base = v;
    for (const struct ig_node *n = ig_def(g, v); n; n = ig_def(g, v)) {
        bool plain = n->op == IG_OP_broadcast || n->op == IG_OP_reshape || n->op == IG_OP_slice;
        if (!plain || ig_info(g, v)->is_const) break;
        repeats = repeats || n->op == IG_OP_broadcast;
        v = n->in[0];
    }
    return repeats ? v : base;
}

bool ig_collects_updates(const struct ig_graph *g, const struct ig_node *n) {
    enum { MOST_PLACES = 512 };
    bool nd = n->op == IG_OP_scatter_nd;
    if (!nd && n->op != IG_OP_scatter_elements) return false;
    if (ig_attr_int(g, n, IG_ATTR_reduction) == IG_SCATTER_SET) return false;
    const struct ig_type *data = ig_type_of(g, n->in[0]), *index = ig_type_of(g, n->in[1]);
    int64_t axis = nd ? 0 : ig_attr_int(g, n, IG_ATTR_axis), places, tuples, numbers;
    if (nd && (!ig_dim_is_const(g->dims, index->dim[index->rank - 1], &numbers) || numbers != 1)) return false;
    if (!nd && ig_beneath_repeats(g, n->in[1]) == n->in[1]) return false;
    ig_dim count = nd ? ig_dim_product(g->dims, index->dim, index->rank - 1) : index->dim[axis];
    bool few = ig_dim_is_const(g->dims, data->dim[axis], &places) && places <= MOST_PLACES;
    return few && !(ig_dim_is_const(g->dims, count, &tuples) && tuples < places / 4);
}
