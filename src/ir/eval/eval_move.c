/* Sources and views, and the movement of whole boxes of elements: pad and concat. */
#include <string.h>

#include "ir/eval/eval_op.h"

IG_EVAL(constant) {
    const struct ig_type *type = ig_type_of(graph, node->out);
    const struct ig_data *data = ig_attr(graph, node, IG_ATTR_data)->data;
    struct ig_view view = {.dtype = type->dtype, .rank = type->rank, .data = (char *)(uintptr_t)data->bytes};
    for (int i = 0; i < type->rank; i++)
        view.dims[i] = ig_eval_dim(ev, type->dim[i]);
    ig_dense_strides(view.rank, view.dims, view.strides);
    size_t size = ingot_dtype_size(type->dtype), bytes = (size_t)ig_view_elements(&view) * size;
    if (data->size < bytes) ig_eval_raise(ev, "the constant has %zu bytes, its shape needs %zu", data->size, bytes);
    if ((uintptr_t)data->bytes % size == 0) { /* aligned: used in place, owned by the model */
        out[0] = view;
        return;
    }
    out[0] = ig_view_new(ev, view.dtype, view.rank, view.dims);
    memcpy(out[0].data, data->bytes, bytes);
}

IG_EVAL(shape) {
    const struct ig_attr *values = ig_attr(graph, node, IG_ATTR_values);
    int64_t count = values->count;
    bool scalar = ig_attr_int(graph, node, IG_ATTR_scalar) != 0;
    if (scalar && count != 1) ig_eval_raise(ev, "a scalar with %lld elements", (long long)count);
    out[0] = ig_view_new(ev, INGOT_I64, scalar ? 0 : 1, &count);
    for (int i = 0; i < count; i++)
        ((int64_t *)(void *)out[0].data)[i] = ig_eval_dim(ev, values->dims[i]);
}

/* ---- Views */

/*
 * The strides that give `view` the new dims without a copy, if there are any: groups of old and new axes with equal
 * products are matched from the front, and the old axes of each group must be contiguous with each other.
 */
static bool reshape_strides(const struct ig_view *view, int rank, const int64_t *dims, int64_t *out_strides) {
    struct ig_view old = {0};
    for (int i = 0; i < view->rank; i++) {
        if (view->dims[i] == 1) continue;
        old.dims[old.rank] = view->dims[i];
        old.strides[old.rank++] = view->strides[i];
    }
    int from = 0, to = 0;
    while (to < rank) {
        if (dims[to] == 1) {
            out_strides[to++] = 0;
            continue;
        }
        if (from == old.rank) return false;
        int from_end = from + 1, to_end = to + 1;
        int64_t have = old.dims[from], want = dims[to];
        while (have != want) {
            if (have < want) {
                if (from_end == old.rank || old.strides[from_end - 1] != old.strides[from_end] * old.dims[from_end]) {
                    return false;
                }
                have *= old.dims[from_end++];
            } else {
                if (to_end == rank) return false;
                want *= dims[to_end++];
            }
        }
        int64_t stride = old.strides[from_end - 1];
        for (int i = to_end - 1; i >= to; i--) {
            out_strides[i] = stride;
            stride *= dims[i];
        }
        from = from_end;
        to = to_end;
    }
    return from == old.rank;
}

struct ig_view ig_view_shaped(struct ig_eval *ev, const struct ig_view *from, int rank, const int64_t *dims) {
    struct ig_view shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) ig_eval_raise(ev, "axis %d has the negative size %lld", i, (long long)dims[i]);
        shape.dims[i] = dims[i];
    }
    int64_t elements = ig_view_elements(&shape);
    if (elements != ig_view_elements(from)) {
        ig_eval_raise(ev, "%lld elements cannot take a shape of %lld", (long long)ig_view_elements(from),
                      (long long)elements);
    }
    struct ig_view view = *from;
    if (elements == 0 || !reshape_strides(from, rank, dims, view.strides)) {
        view = ig_view_dense(ev, from);
        ig_dense_strides(rank, dims, view.strides);
    }
    view.rank = rank;
    memcpy(view.dims, shape.dims, sizeof view.dims);
    return view;
}

IG_EVAL(reshape) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_dims), dims, INGOT_MAX_RANK);
    out[0] = ig_view_shaped(ev, &in[0], rank, dims);
    ig_view_retain(&out[0]);
}

IG_EVAL(transpose) {
    out[0] = ig_view_permute(&in[0], ig_attr(graph, node, IG_ATTR_perm)->ints);
    ig_view_retain(&out[0]);
}

IG_EVAL(broadcast) {
    int64_t dims[INGOT_MAX_RANK];
    int rank = ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_dims), dims, INGOT_MAX_RANK);
    out[0] = ig_view_broadcast(ev, &in[0], rank, dims);
    ig_view_retain(&out[0]);
}

void ig_view_cut(struct ig_eval *ev, struct ig_view *view, int axis, int64_t start, int64_t size, int64_t step) {
    int64_t dim = view->dims[axis];
    __int128 last = (__int128)start + (__int128)(size - 1) * step;
    if (size < 0 || (size > 0 && (start < 0 || start >= dim || last < 0 || last >= dim))) {
        ig_eval_raise(ev, "%lld elements from %lld with step %lld do not lie in axis %d of size %lld", (long long)size,
                      (long long)start, (long long)step, axis, (long long)dim);
    }
    if (size > 0) view->data += start * view->strides[axis] * (int64_t)ingot_dtype_size(view->dtype);
    view->strides[axis] = size > 1 ? view->strides[axis] * step : 0;
    view->dims[axis] = size;
}

IG_EVAL(slice) {
    int64_t starts[INGOT_MAX_RANK], sizes[INGOT_MAX_RANK];
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_starts), starts, INGOT_MAX_RANK);
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_sizes), sizes, INGOT_MAX_RANK);
    const int64_t *steps = ig_attr(graph, node, IG_ATTR_steps)->ints;
    out[0] = in[0];
    for (int i = 0; i < in[0].rank; i++)
        ig_view_cut(ev, &out[0], i, starts[i], sizes[i], steps[i]);
    ig_view_retain(&out[0]);
}

/* ---- Concat and pad */

struct ig_view ig_view_joined(struct ig_eval *ev, const struct ig_view *in, uint32_t count, int axis) {
    int64_t dims[INGOT_MAX_RANK];
    memcpy(dims, in[0].dims, sizeof dims);
    for (uint32_t p = 1; p < count; p++) {
        for (int i = 0; i < in[0].rank; i++) {
            if (in[p].rank == in[0].rank && (i == axis || in[p].dims[i] == dims[i])) continue;
            ig_eval_raise(ev, "part %u does not fit the first one along axis %d", p, i);
        }
        dims[axis] += in[p].dims[axis];
    }
    struct ig_view out = ig_view_new(ev, in[0].dtype, in[0].rank, dims), part = out;
    for (uint32_t p = 0; p < count; p++) {
        part.dims[axis] = in[p].dims[axis];
        ig_view_copy(&in[p], &part);
        part.data += part.dims[axis] * part.strides[axis] * (int64_t)ingot_dtype_size(part.dtype);
    }
    return out;
}

IG_EVAL(concat) {
    out[0] = ig_view_joined(ev, in, node->n_in, (int)ig_attr_int(graph, node, IG_ATTR_axis));
}

/* The element that position i of a padded axis copies, counted from the inner part, which has `size` > 0 elements. */
static int64_t pad_source(enum ig_pad_mode mode, int64_t i, int64_t size) {
    if (mode == IG_PAD_EDGE) return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (mode == IG_PAD_WRAP) return (i % size + size) % size;
    if (size == 1) return 0;
    int64_t period = 2 * (size - 1), at = (i % period + period) % period;
    return at < size ? at : period - at;
}

/* Fills the border of one axis of `view`, which spans inner part and border; the inner part is filled already. */
static void pad_axis(const struct ig_view *view, int axis, int64_t before, int64_t size, enum ig_pad_mode mode) {
    struct ig_view to = *view, from = *view;
    to.dims[axis] = from.dims[axis] = 1;
    int64_t stride = view->strides[axis] * (int64_t)ingot_dtype_size(view->dtype);
    for (int64_t i = 0; i < view->dims[axis]; i++) {
        if (i >= before && i < before + size) continue;
        to.data = view->data + i * stride;
        from.data = view->data + (before + pad_source(mode, i - before, size)) * stride;
        ig_view_copy(&from, &to);
    }
}

static void fill_border(struct ig_eval *ev, const struct ig_view *whole, const struct ig_view *value) {
    uint64_t zero = 0;
    if (value && value->dtype != INGOT_DTYPE_NONE && ig_view_elements(value) != 1) {
        ig_eval_raise(ev, "the value to pad with has %lld elements", (long long)ig_view_elements(value));
    }
    ig_view_fill(whole, value && value->dtype != INGOT_DTYPE_NONE ? (const void *)value->data : &zero);
}

struct ig_view ig_view_padded(struct ig_eval *ev, const struct ig_view *in, const struct ig_view *value,
                              enum ig_pad_mode mode, const int64_t *before, const int64_t *after) {
    int64_t dims[INGOT_MAX_RANK] = {0};
    bool padded = false, empty = ig_view_elements(in) == 0;
    for (int i = 0; i < in->rank; i++) {
        if (before[i] < 0 || after[i] < 0 || __builtin_add_overflow(in->dims[i], before[i], &dims[i]) ||
            __builtin_add_overflow(dims[i], after[i], &dims[i])) {
            ig_eval_raise(ev, "cannot pad axis %d by %lld and %lld", i, (long long)before[i], (long long)after[i]);
        }
        padded |= dims[i] != in->dims[i];
    }
    struct ig_view out = ig_view_new(ev, in->dtype, in->rank, dims);
    if (padded && (mode == IG_PAD_CONSTANT || empty)) fill_border(ev, &out, mode == IG_PAD_CONSTANT ? value : NULL);
    if (empty) return out;
    struct ig_view inner = out;
    for (int i = 0; i < inner.rank; i++)
        ig_view_cut(ev, &inner, i, before[i], in->dims[i], 1);
    ig_view_copy(in, &inner);
    for (int i = 0; mode != IG_PAD_CONSTANT && i < inner.rank; i++) {
        /* axis by axis, the filled part grows to the whole */
        struct ig_view grown = inner;
        grown.data -= before[i] * out.strides[i] * (int64_t)ingot_dtype_size(out.dtype);
        grown.dims[i] = dims[i];
        grown.strides[i] = out.strides[i];
        pad_axis(&grown, i, before[i], in->dims[i], mode);
        inner = grown;
    }
    return out;
}

IG_EVAL(pad) {
    int64_t before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_before), before, INGOT_MAX_RANK);
    ig_eval_attr_dims(ev, ig_attr(graph, node, IG_ATTR_after), after, INGOT_MAX_RANK);
    out[0] = ig_view_padded(ev, &in[0], node->n_in > 1 ? &in[1] : NULL,
                            (enum ig_pad_mode)ig_attr_int(graph, node, IG_ATTR_mode), before, after);
}
