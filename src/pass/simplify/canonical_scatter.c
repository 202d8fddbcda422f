/*
 * The rule of canonicalize for scatters that assign a range of rows, as exporters write `x[:, 1:] = u` and `x[:, 1:] += u`:
 * indices that count up from somewhere. In x's own order of axes, the former is a concatenation of what stays and u, the
 * latter a sum with u padded by zeros, both of which are computed where they are read.
 */
#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

/* Rows begin to begin + count of `data` along `axis`; `data` is what the scatter reads, transposes stripped. */
struct assignment {
    struct ig_graph *g;
    ig_value data, updates;
    int axis;
    ig_dim begin, count;
};

/* Do the elements of v, of shape [count, 1], count up by one? */
static bool counts_up(struct ig_graph *g, ig_value v, ig_dim *out_begin) {
    enum { CAPACITY = 4096 };
    const struct ig_node *n;
    ig_value list = v;
    while ((n = ig_def_op(g, list, IG_OP_reshape)))
        list = n->in[0];
    *out_begin = ig_dim_const(g->dims, 0);
    n = ig_def_op(g, list, IG_OP_slice);
    if (n && ig_type_of(g, list)->rank == 1 && ig_attr(g, n, IG_ATTR_steps)->ints[0] == 1) {
        *out_begin = ig_attr(g, n, IG_ATTR_starts)->dims[0];
        list = n->in[0];
    }
    if (ig_def_op(g, list, IG_OP_iota) && ig_type_of(g, list)->rank == 1) return true;
    int64_t index[CAPACITY];
    int count;
    if (!ig_const_ints(g, v, index, CAPACITY, &count) || count == 0 || index[0] < 0) return false;
    for (int i = 1; i < count; i++) {
        if (index[i] - index[i - 1] != 1) return false;
    }
    *out_begin = ig_dim_const(g->dims, index[0]);
    return true;
}

/* Rows of v along an axis; of the value beneath, if v is itself such rows. */
static ig_value rows_of(struct ig_graph *g, ig_value v, int axis, ig_dim begin, ig_dim count) {
    const struct ig_node *below = ig_def_op(g, v, IG_OP_slice);
    if (below && ig_attr(g, below, IG_ATTR_steps)->ints[axis] == 1) {
        ig_dim starts[INGOT_MAX_RANK] = {0}, sizes[INGOT_MAX_RANK];
        int64_t steps[INGOT_MAX_RANK];
        for (int i = 0; i < ig_type_of(g, v)->rank; i++) {
            starts[i] = ig_attr(g, below, IG_ATTR_starts)->dims[i];
            sizes[i] = ig_attr(g, below, IG_ATTR_sizes)->dims[i];
            steps[i] = ig_attr(g, below, IG_ATTR_steps)->ints[i];
        }
        starts[axis] = ig_dim_add(g->dims, starts[axis], begin);
        sizes[axis] = count;
        return ig_build_slice(g, below->in[0], starts, sizes, steps);
    }
    return ig_build_slice_axis(g, v, axis, begin, count, 1);
}

/* The operand of the sum v other than `term`, or IG_NO_VALUE. */
static ig_value added_to(struct ig_graph *g, ig_value v, ig_value term) {
    const struct ig_node *sum = ig_def_op(g, v, IG_OP_add);
    if (!sum || (sum->in[0] != term && sum->in[1] != term)) return IG_NO_VALUE;
    return sum->in[0] == term ? sum->in[1] : sum->in[0];
}

/* data + pad(addend), whose zeros are padded on where it is padded already. */
static ig_value add_padded(const struct assignment *a, ig_value addend) {
    struct ig_graph *g = a->g;
    struct ig_type type = *ig_type_of(g, a->data), whole = *ig_type_of(g, a->updates);
    ig_dim before[INGOT_MAX_RANK] = {0}, after[INGOT_MAX_RANK] = {0};
    if (!ig_same_dims(ig_type_of(g, addend), &whole)) addend = ig_build_broadcast(g, addend, whole.dim, whole.rank);
    const struct ig_node *inner = ig_def_op(g, addend, IG_OP_pad);
    bool joins = inner && inner->n_in == 1 && ig_attr_int(g, inner, IG_ATTR_mode) == IG_PAD_CONSTANT;
    for (int i = 0; i < type.rank; i++) {
        before[i] = joins ? ig_attr(g, inner, IG_ATTR_before)->dims[i] : ig_dim_const(g->dims, 0);
        after[i] = joins ? ig_attr(g, inner, IG_ATTR_after)->dims[i] : ig_dim_const(g->dims, 0);
    }
    ig_dim end = ig_dim_add(g->dims, a->begin, a->count);
    before[a->axis] = ig_dim_add(g->dims, before[a->axis], a->begin);
    after[a->axis] = ig_dim_add(g->dims, after[a->axis], ig_dim_sub(g->dims, type.dim[a->axis], end));
    ig_value from = joins ? inner->in[0] : addend;
    return ig_map2(g, IG_OP_add, a->data, ig_build_pad(g, from, before, after, IG_PAD_CONSTANT, IG_NO_VALUE));
}

static ig_value replace_rows(const struct assignment *a) {
    struct ig_graph *g = a->g;
    ig_dim size = ig_type_of(g, a->data)->dim[a->axis], end = ig_dim_add(g->dims, a->begin, a->count);
    ig_value parts[3];
    int count = 0;
    if (!ig_dim_is(g->dims, a->begin, 0))
        parts[count++] = rows_of(g, a->data, a->axis, ig_dim_const(g->dims, 0), a->begin);
    parts[count++] = a->updates;
    if (end != size) parts[count++] = rows_of(g, a->data, a->axis, end, ig_dim_sub(g->dims, size, end));
    return count == 1 ? a->updates : ig_build_concat(g, parts, count, a->axis);
}

ig_value ig_canonical_scatter_nd(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct assignment a = {.g = g, .data = in[0], .updates = in[2]};
    struct ig_type index = *ig_type_of(g, in[1]);
    int64_t reduction = ig_attr_int(rw->in, n, IG_ATTR_reduction);
    if (index.rank != 2 || !ig_dim_is(g->dims, index.dim[1], 1) || !counts_up(g, in[1], &a.begin)) return IG_NO_VALUE;
    ig_dim size = ig_type_of(g, in[0])->dim[0], end = ig_dim_add(g->dims, a.begin, index.dim[0]);
    if (ig_dim_less(g->dims, size, end) != IG_NO) return IG_NO_VALUE;
    a.count = index.dim[0];
    const struct ig_node *turned = ig_def_op(g, in[0], IG_OP_transpose);
    const int64_t *perm = turned ? ig_attr(g, turned, IG_ATTR_perm)->ints : NULL;
    if (turned) {
        a.data = turned->in[0];
        a.updates = ig_view_untranspose(g, in[2], perm);
        a.axis = (int)perm[0];
    }
    ig_value rows = rows_of(g, a.data, a.axis, a.begin, a.count), addend = IG_NO_VALUE, result;
    if (reduction == IG_SCATTER_ADD)
        addend = a.updates;
    else if (reduction == IG_SCATTER_SET)
        addend = added_to(g, a.updates, rows);
    else
        return IG_NO_VALUE;
    if (addend != IG_NO_VALUE)
        result = add_padded(&a, addend);
    else
        result = replace_rows(&a);
    return turned ? ig_view_transpose(g, result, perm) : result;
}
