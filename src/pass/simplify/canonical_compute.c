/*
 * Rules of canonicalize for reductions, contractions and windows.
 */
#include <string.h>

#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

/* Is x what statistics are made of: exponentials, whose sum divides them in a softmax, or squares? */
static bool makes_statistic(const struct ig_graph *g, ig_value x) {
    const struct ig_node *n = ig_def(g, x);
    return n && (n->op == IG_OP_exp || n->op == IG_OP_pow || (n->op == IG_OP_mul && n->in[0] == n->in[1]));
}

/* Element i along an axis, counted from the last one, of v, a value of the old graph. Elementwise work that is done for v
 * alone is done on its part, through a chain of at most so many nodes. */
static ig_value build_part(struct ig_rewriter *rw, ig_value v, int from_last, int64_t i, int most_nodes) {
    struct ig_graph *g = rw->out;
    const struct ig_node *n = ig_info(rw->in, v)->is_const ? NULL : ig_def(rw->in, v);
    const struct ig_type type = *ig_type_of(rw->in, v);
    int axis = type.rank - from_last;
    if (axis < 0 || ig_dim_is(g->dims, type.dim[axis], 1)) return rw->map[v];
    if (n && most_nodes > 0 && rw->uses[v] == 1 &&
        (ig_op_info(n->op)->is_map || n->op == IG_OP_cast || n->op == IG_OP_where)) {
        ig_value in[3];
        for (uint32_t k = 0; k < n->n_in; k++)
            in[k] = build_part(rw, n->in[k], from_last, i, most_nodes - 1);
        return ig_build_copy(g, rw->in, n, in);
    }
    return ig_build_slice_axis(g, rw->map[v], axis, ig_dim_const(g->dims, i), ig_dim_const(g->dims, 1), 1);
}

/* A sum along an axis of two is an addition, which other elementwise operators join. Statistics stay reductions, by which other
 * passes recognise normalisations. */
static ig_value sum_of_two(struct ig_rewriter *rw, const struct ig_node *n, int64_t axis) {
    enum { CHAIN = 8 };
    const struct ig_type *type = ig_type_of(rw->in, n->in[0]);
    if (n->op != IG_OP_reduce_sum || !ig_dim_is(rw->in->dims, type->dim[axis], 2)) return IG_NO_VALUE;
    if (makes_statistic(rw->in, n->in[0])) return IG_NO_VALUE;
    int from_last = type->rank - (int)axis;
    ig_value first = build_part(rw, n->in[0], from_last, 0, CHAIN);
    return ig_map2(rw->out, IG_OP_add, first, build_part(rw, n->in[0], from_last, 1, CHAIN));
}

/* Drops axes of size 1, and merges two reductions of the same kind into one over both sets of axes. */
ig_value ig_canonical_reduce(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    const struct ig_attr *axes = ig_attr(rw->in, n, IG_ATTR_axes);
    struct ig_type type = *ig_type_of(g, in[0]);
    bool reduced[INGOT_MAX_RANK] = {false}, changed = false;
    ig_value x = in[0];
    for (int i = 0; i < axes->count; i++) {
        bool needed = !ig_dim_is(g->dims, type.dim[axes->ints[i]], 1);
        reduced[axes->ints[i]] = needed;
        changed |= !needed;
    }
    if (!changed && axes->count == 1) return sum_of_two(rw, n, axes->ints[0]);
    const struct ig_node *inner = ig_def_op(g, x, n->op);
    bool merges = n->op != IG_OP_reduce_mean || ig_dtype_is_float(type.dtype); /* integer means truncate */
    if (inner && merges && rw->uses[n->in[0]] == 1) {
        const struct ig_attr *more = ig_attr(g, inner, IG_ATTR_axes);
        for (int i = 0; i < more->count; i++)
            reduced[more->ints[i]] = true;
        x = inner->in[0];
        changed = true;
    }
    if (!changed) return IG_NO_VALUE;
    int64_t left[INGOT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < type.rank; i++) {
        if (reduced[i]) left[count++] = i;
    }
    return count == 0 ? x : ig_build_reduce(g, n->op, x, left, count);
}

/* ---- Contractions ------------------------------------------------------------------------------------------------ */

/* Reshapes a second operand whose batch axes all have size 1 to rank 2: only such weights can be packed. */
ig_value ig_canonical_matmul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct ig_type a = *ig_type_of(g, in[0]), b = *ig_type_of(g, in[1]);
    if (ig_attr_int(rw->in, n, IG_ATTR_packed) != 0 || b.rank <= 2 || a.rank < b.rank) return IG_NO_VALUE;
    for (int i = 0; i < b.rank - 2; i++) {
        if (!ig_dim_is(g->dims, b.dim[i], 1)) return IG_NO_VALUE;
    }
    ig_value flat = ig_view_reshape(g, in[1], &b.dim[b.rank - 2], 2);
    return ig_build_matmul(g, in[0], flat, (enum ingot_dtype)ig_attr_int(rw->in, n, IG_ATTR_acc));
}

/* Folds a pad of the spatial axes into the padding of the convolution that follows, which reads the same value there: 0,
 * or what its border is. */
ig_value ig_canonical_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    const struct ig_node *pad = ig_def_op(g, in[0], IG_OP_pad);
    if (!pad || ig_attr_int(g, pad, IG_ATTR_mode) != IG_PAD_CONSTANT) return IG_NO_VALUE;
    double border = (double)ig_attr_int(rw->in, n, IG_ATTR_border);
    bool valued = pad->n_in > 1 && pad->in[1] != IG_NO_VALUE;
    if (valued ? !ig_match_value(g, pad->in[1], border) : border != 0) return IG_NO_VALUE;
    pad = ig_def_op(g, in[0], IG_OP_pad);
    const struct ig_attr *before = ig_attr(g, pad, IG_ATTR_before), *after = ig_attr(g, pad, IG_ATTR_after);
    int rank = ig_type_of(g, in[0])->rank, first = ig_attr_int(rw->in, n, IG_ATTR_channels_last) ? 1 : 2;
    for (int i = 0; i < rank; i++) {
        bool spatial = i >= first && i < first + rank - 2;
        if (spatial) continue;
        if (!ig_dim_is(g->dims, before->dims[i], 0) || !ig_dim_is(g->dims, after->dims[i], 0)) return IG_NO_VALUE;
    }
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    struct ig_attr *own_before = &attrs[ig_attr_slot(n->op, IG_ATTR_before)];
    struct ig_attr *own_after = &attrs[ig_attr_slot(n->op, IG_ATTR_after)];
    ig_dim *sum_before = IG_NEW_ARRAY(g->job, ig_dim, INGOT_MAX_RANK);
    ig_dim *sum_after = IG_NEW_ARRAY(g->job, ig_dim, INGOT_MAX_RANK);
    for (int i = 0; i < rank - 2; i++) {
        sum_before[i] = ig_dim_add(g->dims, own_before->dims[i], before->dims[first + i]);
        sum_after[i] = ig_dim_add(g->dims, own_after->dims[i], after->dims[first + i]);
    }
    own_before->dims = sum_before;
    own_after->dims = sum_after;
    ig_value operands[3] = {pad->in[0], in[1], n->n_in > 2 ? in[2] : IG_NO_VALUE};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, n->op, operands, n->n_in, 1, attrs, no_bodies);
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Do windows cover the image side by side, each element once, along axis i? */
static bool tile_axis(const struct ig_rewriter *rw, const struct ig_node *n, ig_dim size, int i) {
    struct ig_dims *dims = rw->out->dims;
    int64_t kernel = ig_attr(rw->in, n, IG_ATTR_kernel)->ints[i];
    ig_dim windows = ig_attr(rw->in, n, IG_ATTR_sizes)->dims[i];
    if (kernel == 0 || ig_dim_mul(dims, windows, ig_dim_const(dims, kernel)) != size) return false;
    if (!ig_dim_is(dims, ig_attr(rw->in, n, IG_ATTR_before)->dims[i], 0)) return false;
    if (kernel > 1 && ig_attr(rw->in, n, IG_ATTR_dilations)->ints[i] != 1) return false;
    if (n->op == IG_OP_pool_avg && !ig_dim_is(dims, ig_attr(rw->in, n, IG_ATTR_after)->dims[i], 0)) return false;
    return ig_dim_is(dims, windows, 1) || ig_attr(rw->in, n, IG_ATTR_strides)->ints[i] == kernel;
}

/* Rewrites pooling as a reduction if there is a single window over all spatial axes, or if large windows lie side by side: kernels of
 * pools give each window to one thread, or walk through it for a few channels at once. */
ig_value ig_canonical_pool(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    enum { LARGE = 32 };
    struct ig_graph *g = rw->out;
    const struct ig_type type = *ig_type_of(g, in[0]), out = *ig_type_of(rw->in, n->out);
    const struct ig_attr *kernel = ig_attr(rw->in, n, IG_ATTR_kernel), *sizes = ig_attr(rw->in, n, IG_ATTR_sizes);
    int first = ig_attr_int(rw->in, n, IG_ATTR_channels_last) ? 1 : 2, rank = 0;
    int64_t axes[INGOT_MAX_RANK], taps = 1;
    ig_dim split[INGOT_MAX_RANK];
    bool single = true;
    for (int i = 0; i < kernel->count; i++) {
        if (!tile_axis(rw, n, type.dim[first + i], i)) return IG_NO_VALUE;
        single &= ig_dim_is(g->dims, sizes->dims[i], 1);
        taps = taps > LARGE ? taps : taps * kernel->ints[i];
    }
    if (!single && (taps < LARGE || type.rank + kernel->count > INGOT_MAX_RANK)) return IG_NO_VALUE;
    for (int i = 0; i < type.rank; i++) {
        bool spatial = i >= first && i < first + kernel->count;
        if (spatial && !single) split[rank++] = sizes->dims[i - first];
        if (spatial) axes[i - first] = rank;
        split[rank++] = spatial ? ig_dim_const(g->dims, kernel->ints[i - first]) : type.dim[i];
    }
    enum ig_op op = n->op == IG_OP_pool_max   ? IG_OP_reduce_max
                    : n->op == IG_OP_pool_avg ? IG_OP_reduce_mean
                                              : IG_OP_reduce_sum;
    ig_value x = single ? in[0] : ig_build_reshape(g, in[0], split, rank);
    x = ig_build_reduce(g, op, x, axes, kernel->count);
    return single ? x : ig_build_reshape(g, x, out.dim, out.rank);
}
