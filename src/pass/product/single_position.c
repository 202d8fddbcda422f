/* See single_position.h. */
#include "pass/product/single_position.h"

#include "pass/view/view.h"

struct position {
    int spatial;
    int64_t before[INGOT_MAX_RANK], outputs[INGOT_MAX_RANK], taps; /* taps: of the whole kernel */
};

/* Has the axis one input, and do all its outputs read it? */
static bool read_axis(struct position *s, const struct ig_graph *g, const struct ig_node *n, int i) {
    const struct ig_type *x = ig_type_of(g, n->in[0]);
    int64_t after, kernel = ig_attr(g, n, IG_ATTR_kernel)->ints[i];
    if (!ig_dim_is(g->dims, x->dim[2 + i], 1) || ig_attr(g, n, IG_ATTR_strides)->ints[i] != 1 ||
        ig_attr(g, n, IG_ATTR_dilations)->ints[i] != 1)
        return false;
    if (!ig_dim_is_const(g->dims, ig_attr(g, n, IG_ATTR_before)->dims[i], &s->before[i]) ||
        !ig_dim_is_const(g->dims, ig_attr(g, n, IG_ATTR_after)->dims[i], &after))
        return false;
    s->outputs[i] = s->before[i] + after + 2 - kernel;
    s->taps *= kernel;
    return s->before[i] < kernel && after < kernel && s->outputs[i] > 0;
}

static bool match(struct position *s, const struct ig_graph *g, const struct ig_node *n) {
    if (n->op != IG_OP_conv || !ig_info(g, n->in[1])->is_const || ig_attr_int(g, n, IG_ATTR_channels_last) ||
        ig_attr_int(g, n, IG_ATTR_groups) != 1 || ig_attr_int(g, n, IG_ATTR_packed) ||
        ig_attr_int(g, n, IG_ATTR_border))
        return false;
    if (ig_type_of(g, n->out)->dtype != INGOT_F32 || ig_attr_int(g, n, IG_ATTR_acc) != INGOT_F32) return false;
    s->spatial = ig_type_of(g, n->out)->rank - 2;
    s->taps = 1;
    for (int i = 0; i < s->spatial; i++) {
        if (!read_axis(s, g, n, i)) return false;
    }
    return s->taps > 1;
}

/* [M, C, kernel...] to [C, outputs..., M]: the weights that the outputs read. */
static ig_value weights_of(struct ig_graph *g, const struct position *s, ig_value w) {
    struct ig_type type = *ig_type_of(g, w);
    ig_dim starts[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK], perm[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        const int axis = i - 2;
        starts[i] = ig_dim_const(g->dims, axis < 0 ? 0 : s->before[axis]);
        steps[i] = axis < 0 ? 1 : -1;
        if (axis >= 0) type.dim[i] = ig_dim_const(g->dims, s->outputs[axis]);
        perm[i] = (i + 1) % type.rank;
    }
    return ig_build_transpose(g, ig_build_slice(g, w, starts, type.dim, steps), perm);
}

ig_value ig_multiply_position(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct position s;
    struct ig_graph *g = rw->out;
    if (!match(&s, rw->in, n)) return IG_NO_VALUE;
    ig_value w = weights_of(g, &s, in[1]);
    const struct ig_type x = *ig_type_of(g, in[0]), read = *ig_type_of(g, w);
    ig_dim matrix[] = {read.dim[0], ig_dim_product(g->dims, read.dim + 1, read.rank - 1)}, out[INGOT_MAX_RANK];
    int64_t perm[INGOT_MAX_RANK];
    out[0] = x.dim[0];
    perm[0] = 0;
    perm[1] = read.rank - 1;
    for (int i = 1; i < read.rank; i++) {
        out[i] = read.dim[i];
        if (i > 1) perm[i] = i - 1;
    }
    ig_value y = ig_build_matmul(g, ig_view_reshape(g, in[0], x.dim, 2), ig_build_reshape(g, w, matrix, 2), INGOT_F32);
    y = ig_view_reshape(g, y, out, read.rank);
    if (n->n_in > 2 && in[2] != IG_NO_VALUE) y = ig_map2(g, IG_OP_add, y, in[2]);
    return ig_view_transpose(g, y, perm);
}
