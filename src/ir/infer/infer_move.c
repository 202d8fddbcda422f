/* Type inference of views and movement: reshape to scatter. See infer.h. */
#include "ir/infer/infer.h"

/* ---- Views */

static void check_rank(struct ig_infer *x, int rank) {
    if (rank > INGOT_MAX_RANK) ig_infer_fail(x, "the result has rank %d, at most %d is possible", rank, INGOT_MAX_RANK);
}

void ig_infer_reshape(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const struct ig_attr *dims = ig_infer_attr(x, IG_ATTR_dims);
    ig_dim before = ig_type_elements(x->dims, in), after, either;
    check_rank(x, dims->count);
    for (int i = 0; i < dims->count; i++)
        ig_infer_not_negative(x, dims->dims[i], "dim");
    x->out[0] = ig_type_make(in->dtype, dims->count, dims->dims);
    after = ig_type_elements(x->dims, &x->out[0]);
    if (!ig_dims_unify(x->graph, before, after, &either))
        ig_infer_fail(x, "%s elements cannot be reshaped to %s", ig_infer_dim_text(x, before),
                      ig_infer_dim_text(x, after));
}

void ig_infer_transpose(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const int64_t *perm = ig_infer_ints(x, IG_ATTR_perm, in->rank);
    unsigned seen = 0;
    x->out[0] = *in;
    for (int i = 0; i < in->rank; i++) {
        if (perm[i] < 0 || perm[i] >= in->rank || (seen >> perm[i] & 1)) ig_infer_fail(x, "perm is no permutation");
        seen |= 1u << perm[i];
        x->out[0].dim[i] = in->dim[perm[i]];
    }
}

void ig_infer_broadcast(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const struct ig_attr *dims = ig_infer_attr(x, IG_ATTR_dims);
    ig_dim result;
    check_rank(x, dims->count);
    x->out[0] = ig_type_make(in->dtype, dims->count, dims->dims);
    if (dims->count < in->rank) ig_infer_fail(x, "cannot be broadcast to rank %d", dims->count);
    for (int i = 0; i < dims->count; i++) {
        ig_dim to = dims->dims[i];
        int axis = i - (dims->count - in->rank);
        ig_infer_not_negative(x, to, "dim");
        if (axis < 0) continue;
        /* Only the operand may be stretched. */
        bool fits = ig_dims_broadcast(x->graph, in->dim[axis], to, &result);
        if (!fits || !ig_dims_unify(x->graph, result, to, &result))
            ig_infer_fail(x, "dim %s cannot be broadcast to %s", ig_infer_dim_text(x, in->dim[axis]),
                          ig_infer_dim_text(x, to));
    }
}

/* Fails if out[0] or out[size-1] provably lies outside of the input. */
static void check_slice_axis(struct ig_infer *x, int axis, ig_dim start, ig_dim size, int64_t step, ig_dim extent) {
    struct ig_dims *d = x->dims;
    ig_dim zero = ig_dim_const(d, 0);
    if (step == 0) ig_infer_fail(x, "axis %d: the step is 0", axis);
    ig_infer_not_negative(x, size, "size");
    if (ig_dim_less(d, zero, size) != IG_YES) return; /* may be empty */
    ig_dim steps = ig_dim_sub(d, size, ig_dim_const(d, 1));
    ig_dim last = ig_dim_add(d, start, ig_dim_mul(d, steps, ig_dim_const(d, step)));
    ig_dim low = step > 0 ? start : last, high = step > 0 ? last : start;
    if (ig_dim_less(d, low, zero) == IG_YES || ig_dim_less(d, high, extent) == IG_NO)
        ig_infer_fail(x, "axis %d: elements %s to %s are outside of %s", axis, ig_infer_dim_text(x, low),
                      ig_infer_dim_text(x, high), ig_infer_dim_text(x, extent));
}

void ig_infer_slice(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const ig_dim *starts = ig_infer_dims(x, IG_ATTR_starts, in->rank);
    const ig_dim *sizes = ig_infer_dims(x, IG_ATTR_sizes, in->rank);
    const int64_t *steps = ig_infer_ints(x, IG_ATTR_steps, in->rank);
    for (int i = 0; i < in->rank; i++)
        check_slice_axis(x, i, starts[i], sizes[i], steps[i], in->dim[i]);
    x->out[0] = ig_type_make(in->dtype, in->rank, sizes);
}

/* ---- Movement */

void ig_infer_pad(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const ig_dim *before = ig_infer_dims(x, IG_ATTR_before, in->rank);
    const ig_dim *after = ig_infer_dims(x, IG_ATTR_after, in->rank);
    int64_t mode = ig_infer_int(x, IG_ATTR_mode);
    if (mode < IG_PAD_CONSTANT || mode > IG_PAD_WRAP) ig_infer_fail(x, "mode %lld does not exist", (long long)mode);
    if (ig_infer_has(x, 1)) {
        ig_infer_dtype(x, 1, in->dtype);
        ig_infer_rank(x, 1, 0);
    }
    x->out[0] = *in;
    for (int i = 0; i < in->rank; i++) {
        ig_infer_not_negative(x, before[i], "padding");
        ig_infer_not_negative(x, after[i], "padding");
        x->out[0].dim[i] = ig_dim_add(x->dims, in->dim[i], ig_dim_add(x->dims, before[i], after[i]));
        bool too_wide =
            ig_dim_less(x->dims, before[i], in->dim[i]) == IG_NO || ig_dim_less(x->dims, after[i], in->dim[i]) == IG_NO;
        if (mode == IG_PAD_REFLECT && too_wide && x->out[0].dim[i] != in->dim[i])
            ig_infer_fail(x, "axis %d: %s elements cannot be reflected by %s and %s", i,
                          ig_infer_dim_text(x, in->dim[i]), ig_infer_dim_text(x, before[i]),
                          ig_infer_dim_text(x, after[i]));
    }
}

void ig_infer_concat(struct ig_infer *x) {
    const struct ig_type *first = ig_infer_in(x, 0);
    int axis = ig_infer_axis(x, IG_ATTR_axis, first->rank);
    x->out[0] = *first;
    for (uint32_t i = 1; i < x->node->n_in; i++) {
        const struct ig_type *part = ig_infer_in(x, i);
        ig_infer_rank(x, i, first->rank);
        ig_infer_dtype(x, i, first->dtype);
        for (int j = 0; j < first->rank; j++) {
            ig_dim *dim = &x->out[0].dim[j];
            if (j == axis)
                *dim = ig_dim_add(x->dims, *dim, part->dim[j]);
            else
                *dim = ig_infer_unify(x, *dim, part->dim[j], "dims");
        }
    }
}

void ig_infer_gather(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1);
    int axis = ig_infer_axis(x, IG_ATTR_axis, in->rank), rank = 0;
    ig_infer_index_dtype(x, 1);
    check_rank(x, in->rank - 1 + index->rank);
    x->out[0].dtype = in->dtype;
    for (int i = 0; i < axis; i++)
        x->out[0].dim[rank++] = in->dim[i];
    for (int i = 0; i < index->rank; i++)
        x->out[0].dim[rank++] = index->dim[i];
    for (int i = axis + 1; i < in->rank; i++)
        x->out[0].dim[rank++] = in->dim[i];
    x->out[0].rank = rank;
}

/* Fails if an axis other than `axis` provably has more indices than data. */
static void check_index_dims(struct ig_infer *x, int axis) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1);
    ig_infer_index_dtype(x, 1);
    ig_infer_rank(x, 1, in->rank);
    for (int i = 0; i < in->rank; i++) {
        if (i != axis && ig_dim_less(x->dims, in->dim[i], index->dim[i]) == IG_YES)
            ig_infer_fail(x, "axis %d has more indices than elements", i);
    }
}

void ig_infer_gather_elements(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1);
    check_index_dims(x, ig_infer_axis(x, IG_ATTR_axis, in->rank));
    x->out[0] = ig_type_make(in->dtype, index->rank, index->dim);
}

/* The length of the index tuples of gather_nd and scatter_nd. */
static int tuple_length(struct ig_infer *x, int available) {
    const struct ig_type *index = ig_infer_in(x, 1);
    int64_t length;
    ig_infer_index_dtype(x, 1);
    if (index->rank == 0) ig_infer_fail(x, "the indices are a scalar");
    if (!ig_dim_is_const(x->dims, index->dim[index->rank - 1], &length))
        ig_infer_fail(x, "the length %s of index tuples is not constant",
                      ig_infer_dim_text(x, index->dim[index->rank - 1]));
    if (length < 0 || length > available)
        ig_infer_fail(x, "index tuples have %lld elements, at most %d are possible", (long long)length, available);
    return (int)length;
}

void ig_infer_gather_nd(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1);
    int64_t batch = ig_infer_int(x, IG_ATTR_batch_dims);
    if (batch < 0 || batch > in->rank || batch >= index->rank)
        ig_infer_fail(x, "batch_dims %lld is outside of the ranks", (long long)batch);
    int length = tuple_length(x, in->rank - (int)batch), rank = 0;
    check_rank(x, index->rank - 1 + in->rank - (int)batch - length);
    x->out[0].dtype = in->dtype;
    for (int i = 0; i + 1 < index->rank; i++) {
        ig_dim dim = index->dim[i];
        x->out[0].dim[rank++] = i < batch ? ig_infer_unify(x, dim, in->dim[i], "batch dims") : dim;
    }
    for (int i = (int)batch + length; i < in->rank; i++)
        x->out[0].dim[rank++] = in->dim[i];
    x->out[0].rank = rank;
}

static void check_reduction(struct ig_infer *x) {
    int64_t reduction = ig_infer_int(x, IG_ATTR_reduction);
    if (reduction < IG_SCATTER_SET || reduction > IG_SCATTER_MIN)
        ig_infer_fail(x, "reduction %lld does not exist", (long long)reduction);
    if (reduction != IG_SCATTER_SET) ig_infer_numeric(x, 0);
    ig_infer_dtype(x, 2, ig_infer_in(x, 0)->dtype);
}

void ig_infer_scatter_elements(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1), *updates = ig_infer_in(x, 2);
    check_index_dims(x, ig_infer_axis(x, IG_ATTR_axis, in->rank));
    check_reduction(x);
    ig_infer_rank(x, 2, in->rank);
    for (int i = 0; i < in->rank; i++)
        ig_infer_unify(x, updates->dim[i], index->dim[i], "dims of updates and indices");
    x->out[0] = *in;
}

void ig_infer_scatter_nd(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0), *index = ig_infer_in(x, 1), *updates = ig_infer_in(x, 2);
    int length = tuple_length(x, in->rank);
    check_reduction(x);
    ig_infer_rank(x, 2, index->rank - 1 + in->rank - length);
    for (int i = 0; i < updates->rank; i++) {
        ig_dim expected = i < index->rank - 1 ? index->dim[i] : in->dim[i - (index->rank - 1) + length];
        ig_infer_unify(x, updates->dim[i], expected, "dims of updates");
    }
    x->out[0] = *in;
}
