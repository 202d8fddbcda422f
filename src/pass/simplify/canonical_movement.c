/*
 * Rules of canonicalize for slices, concatenations, gathers, pads, broadcasts and other views.
 */
#include <string.h>

#include "ir/place.h"
#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

ig_value ig_canonical_reshape(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    const struct ig_attr *dims = ig_attr(rw->in, n, IG_ATTR_dims);
    ig_value pairs = ig_canonical_pairs(rw, n, in);
    if (pairs != IG_NO_VALUE) return pairs;
    bool plain = !ig_def_op(rw->out, in[0], IG_OP_reshape);
    ig_value v = ig_view_reshape(rw->out, in[0], dims->dims, dims->count);
    return plain && v != in[0] ? IG_NO_VALUE : v;
}

/* What is repeated is turned before, so that what reads it elementwise reads it as it is. */
ig_value ig_canonical_transpose(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    const int64_t *perm = ig_attr(rw->in, n, IG_ATTR_perm)->ints;
    const struct ig_node *wide = ig_def_op(g, in[0], IG_OP_broadcast);
    if (!wide) return ig_view_transpose(g, in[0], perm);
    const ig_value x = wide->in[0];
    const struct ig_type from = *ig_type_of(g, x), out = *ig_type_of(rw->in, n->out);
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0, before = out.rank - from.rank; i < out.rank; i++)
        dims[i] = i < before ? ig_dim_const(g->dims, 1) : from.dim[i - before];
    return ig_build_broadcast(g, ig_view_transpose(g, ig_view_reshape(g, x, dims, out.rank), perm), out.dim, out.rank);
}

ig_value ig_canonical_broadcast(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x = in[0];
    const struct ig_node *below;
    while ((below = ig_def_op(g, x, IG_OP_broadcast)))
        x = below->in[0];
    const struct ig_attr *dims = ig_attr(rw->in, n, IG_ATTR_dims);
    struct ig_type want = ig_type_make(ig_type_of(g, x)->dtype, dims->count, dims->dims);
    if (ig_same_dims(ig_type_of(g, x), &want)) return x;
    return x == in[0] ? IG_NO_VALUE : ig_build_broadcast(g, x, dims->dims, dims->count);
}

/* ---- Slices ------------------------------------------------------------------------------------------------------ */

/* A slice's three attributes. */
struct cut {
    const ig_dim *starts, *sizes;
    const int64_t *steps;
    int rank;
};

static struct cut look_cut(const struct ig_graph *g, const struct ig_node *n) {
    return (struct cut){ig_attr(g, n, IG_ATTR_starts)->dims, ig_attr(g, n, IG_ATTR_sizes)->dims,
                        ig_attr(g, n, IG_ATTR_steps)->ints, ig_attr(g, n, IG_ATTR_sizes)->count};
}

static bool takes_all(const struct ig_graph *g, const struct cut *c, const struct ig_type *type) {
    for (int i = 0; i < c->rank; i++) {
        bool forward = c->steps[i] == 1 || ig_dim_is(g->dims, c->sizes[i], 1);
        if (!forward || !ig_dim_is(g->dims, c->starts[i], 0) || c->sizes[i] != type->dim[i]) return false;
    }
    return true;
}

static ig_value slice_of_slice(struct ig_graph *g, const struct cut *outer, const struct ig_node *below) {
    struct cut inner = look_cut(g, below);
    ig_dim starts[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK];
    for (int i = 0; i < outer->rank; i++) {
        ig_dim offset = ig_dim_mul(g->dims, outer->starts[i], ig_dim_const(g->dims, inner.steps[i]));
        starts[i] = ig_dim_add(g->dims, inner.starts[i], offset);
        if (__builtin_mul_overflow(inner.steps[i], outer->steps[i], &steps[i])) return IG_NO_VALUE;
    }
    return ig_build_slice(g, below->in[0], starts, outer->sizes, steps);
}

/* The only axis that the slice does not take whole and in order; -1: none, -2: several. */
static int sliced_axis(const struct ig_graph *g, const struct cut *c, const struct ig_type *type) {
    int axis = -1;
    for (int i = 0; i < c->rank; i++) {
        if (c->steps[i] == 1 && ig_dim_is(g->dims, c->starts[i], 0) && c->sizes[i] == type->dim[i]) continue;
        axis = axis == -1 ? i : -2;
    }
    return axis;
}

/* A slice that lies within one part of a concatenation is a slice of that part. */
static ig_value slice_of_concat(struct ig_graph *g, const struct cut *c, const struct ig_node *concat) {
    const struct ig_type *type = ig_type_of(g, concat->out);
    int axis = sliced_axis(g, c, type);
    if (axis != (int)ig_attr_int(g, concat, IG_ATTR_axis) || c->steps[axis] != 1) return IG_NO_VALUE;
    ig_dim begin = ig_dim_const(g->dims, 0), end = ig_dim_add(g->dims, c->starts[axis], c->sizes[axis]);
    for (uint32_t i = 0; i < concat->n_in; i++) {
        ig_dim size = ig_type_of(g, concat->in[i])->dim[axis];
        ig_dim next = ig_dim_add(g->dims, begin, size);
        bool starts_here = ig_dim_less(g->dims, c->starts[axis], begin) == IG_NO;
        if (starts_here && ig_dim_less(g->dims, next, end) == IG_NO) {
            ig_dim start = ig_dim_sub(g->dims, c->starts[axis], begin);
            return ig_build_slice_axis(g, concat->in[i], axis, start, c->sizes[axis], 1);
        }
        begin = next;
    }
    return IG_NO_VALUE;
}

ig_value ig_canonical_slice(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct cut c = look_cut(rw->in, n);
    if (takes_all(g, &c, ig_type_of(g, in[0]))) return in[0];
    const struct ig_node *below = ig_def_op(g, in[0], IG_OP_slice);
    if (below) return slice_of_slice(g, &c, below);
    below = ig_def_op(g, in[0], IG_OP_concat);
    return below ? slice_of_concat(g, &c, below) : IG_NO_VALUE;
}

/* ---- Concatenations ---------------------------------------------------------------------------------------------- */

/* Are a and b slices of one value that differ only along `axis`, where b begins at the end of a? */
static bool continues(struct ig_graph *g, ig_value a, ig_value b, int axis, struct cut *out_a, struct cut *out_b) {
    const struct ig_node *x = ig_def_op(g, a, IG_OP_slice), *y = ig_def_op(g, b, IG_OP_slice);
    if (!x || !y || x->in[0] != y->in[0]) return false;
    *out_a = look_cut(g, x);
    *out_b = look_cut(g, y);
    for (int i = 0; i < out_a->rank; i++) {
        if (out_a->steps[i] != out_b->steps[i]) return false;
        if (i != axis && (out_a->starts[i] != out_b->starts[i] || out_a->sizes[i] != out_b->sizes[i])) return false;
    }
    ig_dim step = ig_dim_const(g->dims, out_a->steps[axis]);
    ig_dim end = ig_dim_add(g->dims, out_a->starts[axis], ig_dim_mul(g->dims, out_a->sizes[axis], step));
    return end == out_b->starts[axis];
}

static ig_value join_slices(struct ig_graph *g, ig_value a, const struct cut *first, const struct cut *second,
                            int axis) {
    ig_dim sizes[INGOT_MAX_RANK];
    memcpy(sizes, first->sizes, (size_t)first->rank * sizeof *sizes);
    sizes[axis] = ig_dim_add(g->dims, first->sizes[axis], second->sizes[axis]);
    ig_value source = ig_def_op(g, a, IG_OP_slice)->in[0];
    return ig_build_slice(g, source, first->starts, sizes, first->steps);
}

/* The operands of a concatenation being rebuilt. add_part drops empty ones, joins adjacent slices, and with `flatten`
 * replaces a concatenation by its operands. */
struct parts {
    struct ig_graph *g;
    int axis;
    IG_VEC(ig_value) list;
};

static void add_part(struct parts *p, ig_value v, bool flatten) {
    struct ig_graph *g = p->g;
    const struct ig_node *inner = flatten ? ig_def_op(g, v, IG_OP_concat) : NULL;
    if (inner && ig_attr_int(g, inner, IG_ATTR_axis) == p->axis) {
        for (uint32_t i = 0; i < inner->n_in; i++)
            add_part(p, ig_def_op(g, v, IG_OP_concat)->in[i], false);
        return;
    }
    if (ig_dim_is(g->dims, ig_type_of(g, v)->dim[p->axis], 0)) return;
    struct cut a, b;
    if (p->list.count > 0 && continues(g, p->list.at[p->list.count - 1], v, p->axis, &a, &b)) {
        p->list.at[p->list.count - 1] = join_slices(g, p->list.at[p->list.count - 1], &a, &b, p->axis);
        return;
    }
    IG_PUSH(g->job, &p->list, v);
}

/* Many values side by side along the last axis, an element of each at once, as unrolled recurrences stack their steps: they are stacked along
 * the first, where each lies in one piece, and seen the other way round. */
static ig_value stack_in_front(struct ig_graph *g, const struct parts *p) {
    enum { MANY = 12 }; /* more than indices of an element have */
    const struct ig_type type = *ig_type_of(g, p->list.at[0]);
    int64_t perm[INGOT_MAX_RANK];
    ig_dim dims[INGOT_MAX_RANK] = {ig_dim_const(g->dims, 1)};
    if (p->axis == 0 || p->list.count < MANY || ig_type_is_single(g->dims, &type)) return IG_NO_VALUE;
    for (int i = p->axis + 1; i < type.rank; i++) {
        if (!ig_dim_is(g->dims, type.dim[i], 1)) return IG_NO_VALUE;
    }
    for (uint32_t i = 0; i < p->list.count; i++) {
        if (!ig_dim_is(g->dims, ig_type_of(g, p->list.at[i])->dim[p->axis], 1)) return IG_NO_VALUE;
    }
    for (int i = 0; i < type.rank; i++) {
        if (i != p->axis) dims[i < p->axis ? i + 1 : i] = type.dim[i];
        perm[i] = i < p->axis ? i + 1 : i == p->axis ? 0 : i;
    }
    ig_value *stacked = IG_NEW_ARRAY(g->job, ig_value, p->list.count);
    for (uint32_t i = 0; i < p->list.count; i++)
        stacked[i] = ig_view_reshape(g, p->list.at[i], dims, type.rank);
    return ig_view_transpose(g, ig_build_concat(g, stacked, (int)p->list.count, 0), perm);
}

ig_value ig_canonical_concat(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct parts p = {.g = rw->out, .axis = (int)ig_attr_int(rw->in, n, IG_ATTR_axis)};
    if (n->n_in == 1) return in[0];
    for (uint32_t i = 0; i < n->n_in; i++)
        add_part(&p, in[i], rw->uses[n->in[i]] == 1);
    bool same = p.list.count == n->n_in;
    for (uint32_t i = 0; same && i < n->n_in; i++)
        same = p.list.at[i] == in[i];
    if (p.list.count == 0) return IG_NO_VALUE;
    ig_value stacked = stack_in_front(rw->out, &p);
    if (stacked != IG_NO_VALUE || same) return stacked;
    return p.list.count == 1 ? p.list.at[0] : ig_build_concat(rw->out, p.list.at, (int)p.list.count, p.axis);
}

/* ---- Gathers ----------------------------------------------------------------------------------------------------- */

/* Do the indices first, first + step, … (count of them) provably lie within an axis of that size? */
static bool within(const struct ig_dims *dims, ig_dim size, int64_t first, int64_t step, int count) {
    int64_t lo, hi;
    ig_dim_range(dims, size, &lo, &hi);
    return first >= 0 && first < lo && first + (count - 1) * step < lo;
}

/* A gather along an axis of size 1 always takes its only element: a reshape and a broadcast. */
static ig_value gather_only_one(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, int axis) {
    struct ig_graph *g = rw->out;
    struct ig_type type = *ig_type_of(g, in[0]), result = *ig_type_of(rw->in, n->out);
    int added = ig_type_of(g, in[1])->rank;
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < result.rank; i++) {
        bool of_index = i >= axis && i < axis + added;
        dims[i] = of_index ? ig_dim_const(g->dims, 1) : type.dim[i < axis ? i : i - added + 1];
    }
    return ig_build_broadcast(g, ig_view_reshape(g, in[0], dims, result.rank), result.dim, result.rank);
}

/* A gather of one index, or of equally spaced ones, is a slice. */
ig_value ig_canonical_gather(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    enum { CAPACITY = 1024 };
    struct ig_graph *g = rw->out;
    int64_t index[CAPACITY];
    int count, axis = (int)ig_attr_int(rw->in, n, IG_ATTR_axis), index_rank = ig_type_of(g, in[1])->rank;
    const struct ig_type type = *ig_type_of(g, in[0]);
    if (ig_dim_is(g->dims, type.dim[axis], 1)) return gather_only_one(rw, n, in, axis);
    if (!ig_const_ints(g, in[1], index, CAPACITY, &count) || count == 0) return IG_NO_VALUE;
    int64_t size;
    bool known = ig_dim_is_const(g->dims, type.dim[axis], &size);
    for (int i = 0; i < count; i++) {
        if (index[i] < 0 && !known) return IG_NO_VALUE;
        if (index[i] < 0) index[i] += size;
    }
    int64_t step = count > 1 ? index[1] - index[0] : 1;
    if (step < 1 || step > INT32_MAX) return IG_NO_VALUE;
    for (int i = 1; i < count; i++) {
        if (index[i] - index[i - 1] != step) return IG_NO_VALUE;
    }
    if (!within(g->dims, type.dim[axis], index[0], step, count)) return IG_NO_VALUE;
    ig_value v =
        ig_build_slice_axis(g, in[0], axis, ig_dim_const(g->dims, index[0]), ig_dim_const(g->dims, count), step);
    const struct ig_type *result = ig_type_of(rw->in, n->out);
    return index_rank == 1 ? v : ig_view_reshape(g, v, result->dim, result->rank);
}

/* A gather_nd whose indices count along axes of the result, as exporters write masks, only inserts axes: a reshape and
 * a broadcast. */
ig_value ig_canonical_gather_nd(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct ig_type data = *ig_type_of(g, in[0]), result = *ig_type_of(rw->in, n->out);
    const struct ig_node *tuple = ig_def_op(g, in[1], IG_OP_concat);
    int last = ig_type_of(g, in[1])->rank - 1, before = -1;
    ig_dim dims[INGOT_MAX_RANK];
    bool fits = tuple && (int)tuple->n_in == data.rank && (int)ig_attr_int(g, tuple, IG_ATTR_axis) == last;
    if (!fits || ig_attr_int(rw->in, n, IG_ATTR_batch_dims) != 0 || result.rank != last) return IG_NO_VALUE;
    for (int i = 0; i < result.rank; i++)
        dims[i] = ig_dim_const(g->dims, 1);
    for (int i = 0; i < data.rank; i++) {
        if (!ig_dim_is(g->dims, ig_type_of(g, tuple->in[i])->dim[last], 1)) return IG_NO_VALUE;
        if (ig_dim_is(g->dims, data.dim[i], 1)) continue; /* only one index is possible */
        int64_t first;
        int axis = ig_counted_axis(g, tuple->in[i], &first);
        if (axis <= before || first != 0 || axis >= last || result.dim[axis] != data.dim[i]) return IG_NO_VALUE;
        dims[axis] = data.dim[i];
        before = axis;
    }
    return ig_build_broadcast(g, ig_view_reshape(g, in[0], dims, result.rank), result.dim, result.rank);
}

/* ---- Pads -------------------------------------------------------------------------------------------------------- */

ig_value ig_canonical_pad(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    const struct ig_attr *before = ig_attr(rw->in, n, IG_ATTR_before), *after = ig_attr(rw->in, n, IG_ATTR_after);
    for (int i = 0; i < before->count; i++) {
        if (!ig_dim_is(rw->in->dims, before->dims[i], 0) || !ig_dim_is(rw->in->dims, after->dims[i], 0))
            return IG_NO_VALUE;
    }
    return in[0];
}
