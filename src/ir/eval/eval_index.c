/* Gathers and scatters. An index outside its axis reads an undefined element (the nearest one here) and writes none. */
#include <string.h>

#include "ir/eval/eval_op.h"

/* All elements of an integer view as int64, in row-major order. */
static const int64_t *indices(struct ig_eval *ev, const struct ig_view *view) {
    struct ig_view dense = ig_view_dense(ev, view);
    int64_t n = ig_view_elements(&dense);
    union ig_cell *cells = ig_eval_scratch(ev, n, sizeof *cells);
    if (ig_cells_are_float(view->dtype)) ig_eval_raise(ev, "indices of type %s", ingot_dtype_name(view->dtype));
    ig_cells_load(view->dtype, dense.data, (int64_t)ingot_dtype_size(view->dtype), n, cells);
    return &cells->i;
}

/* Resolves a negative index from the end and clamps it to the axis; false if it was out of range. */
static bool resolve(int64_t index, int64_t size, int64_t *out_index) {
    if (index < 0) index += size;
    *out_index = index < 0 ? 0 : index >= size ? size - 1 : index;
    return index >= 0 && index < size;
}

static void check_readable(struct ig_eval *ev, const struct ig_view *from, const struct ig_view *to) {
    if (ig_view_elements(from) == 0 && ig_view_elements(to) != 0)
        ig_eval_raise(ev, "gathers from a tensor without elements");
}

IG_EVAL(gather) {
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    const struct ig_view *x = &in[0], *index = &in[1];
    int64_t dims[INGOT_MAX_RANK];
    int rank = x->rank - 1 + index->rank;
    if (rank > INGOT_MAX_RANK) ig_eval_raise(ev, "rank %d is more than %d", rank, INGOT_MAX_RANK);
    memcpy(dims, x->dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis, index->dims, (size_t)index->rank * sizeof *dims);
    memcpy(dims + axis + index->rank, x->dims + axis + 1, (size_t)(x->rank - axis - 1) * sizeof *dims);
    out[0] = ig_view_new(ev, x->dtype, rank, dims);
    check_readable(ev, x, &out[0]);
    if (ig_view_elements(&out[0]) == 0) return;

    /* One box per index: all other axes in full, with this index of the axis. */
    struct ig_view from = *x, to = *x;
    int64_t n = ig_view_elements(index);
    from.dims[axis] = to.dims[axis] = 1;
    for (int i = 0; i < axis; i++)
        to.strides[i] = out[0].strides[i];
    for (int i = axis + 1; i < x->rank; i++)
        to.strides[i] = out[0].strides[i - 1 + index->rank];
    int64_t step = index->rank > 0 ? out[0].strides[axis + index->rank - 1] : 0;
    int64_t size = (int64_t)ingot_dtype_size(x->dtype), at;
    const int64_t *indexes = indices(ev, index);
    for (int64_t i = 0; i < n; i++) {
        resolve(indexes[i], x->dims[axis], &at);
        from.data = x->data + at * x->strides[axis] * size;
        to.data = out[0].data + i * step * size;
        ig_view_copy(&from, &to);
    }
}

IG_EVAL(gather_elements) {
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    size_t size = ingot_dtype_size(in[0].dtype);
    out[0] = ig_view_new(ev, in[0].dtype, in[1].rank, in[1].dims);
    check_readable(ev, &in[0], &out[0]);
    if (ig_view_elements(&out[0]) == 0) return;
    for (int i = 0; i < in[0].rank; i++) {
        if (i == axis || in[1].dims[i] <= in[0].dims[i]) continue;
        ig_eval_raise(ev, "indices have size %lld along axis %d, the data %lld", (long long)in[1].dims[i], i,
                      (long long)in[0].dims[i]);
    }
    int64_t index[INGOT_MAX_RANK] = {0}, at[INGOT_MAX_RANK];
    const int64_t *next = indices(ev, &in[1]);
    char *to = out[0].data;
    do {
        memcpy(at, index, sizeof at);
        resolve(*next++, in[0].dims[axis], &at[axis]);
        memcpy(to, ig_view_at(&in[0], at), size);
        to += size;
    } while (ig_advance(in[1].rank, in[1].dims, index));
}

IG_EVAL(gather_nd) {
    int batch = (int)ig_attr_int(graph, node, IG_ATTR_batch_dims);
    const struct ig_view *x = &in[0], *index = &in[1];
    int depth = index->rank > 0 ? (int)index->dims[index->rank - 1] : 0; /* axes that an index tuple addresses */
    int inner = x->rank - batch - depth, rank = index->rank - 1 + inner;
    if (index->rank == 0 || inner < 0 || rank > INGOT_MAX_RANK) ig_eval_raise(ev, "indices name %d axes", depth);
    int64_t dims[INGOT_MAX_RANK];
    for (int i = 0; i < index->rank - 1; i++)
        dims[i] = index->dims[i];
    for (int i = 0; i < inner; i++)
        dims[index->rank - 1 + i] = x->dims[batch + depth + i];
    out[0] = ig_view_new(ev, x->dtype, rank, dims);
    check_readable(ev, x, &out[0]);
    if (ig_view_elements(&out[0]) == 0) return;
    struct ig_view from = {.dtype = x->dtype, .rank = inner}, to = {.dtype = x->dtype, .rank = inner};
    for (int i = 0; i < inner; i++) {
        from.dims[i] = to.dims[i] = x->dims[batch + depth + i];
        from.strides[i] = x->strides[batch + depth + i];
        to.strides[i] = out[0].strides[index->rank - 1 + i];
    }
    int64_t outer[INGOT_MAX_RANK] = {0}, at[INGOT_MAX_RANK] = {0};
    const int64_t *next = indices(ev, index);
    do {
        for (int i = 0; i < batch; i++)
            at[i] = outer[i];
        for (int i = 0; i < depth; i++)
            resolve(*next++, x->dims[batch + i], &at[batch + i]);
        from.data = ig_view_at(x, at);
        to.data = ig_view_at(&out[0], outer); /* the inner indices stay 0 */
        ig_view_copy(&from, &to);
    } while (ig_advance(index->rank - 1, index->dims, outer));
}

/* ---- Scatters */

static union ig_cell combine(enum ig_scatter how, enum ingot_dtype dtype, union ig_cell old, union ig_cell new) {
    bool is_float = ig_cells_are_float(dtype), less;
    if (is_float) {
        less = old.f < new.f;
    } else {
        less = dtype == INGOT_U64 ? (uint64_t)old.i < (uint64_t) new.i : old.i < new.i;
    }
    if (is_float && (how == IG_SCATTER_MAX || how == IG_SCATTER_MIN)) { /* NaN propagates */
        if (old.f != old.f) return old;
        if (new.f != new.f) return new;
    }
    switch (how) {
    case IG_SCATTER_ADD:
        if (is_float) return (union ig_cell){.f = old.f + new.f};
        return (union ig_cell){.i = (int64_t)((uint64_t)old.i + (uint64_t) new.i)};
    case IG_SCATTER_MUL:
        if (is_float) return (union ig_cell){.f = old.f * new.f};
        return (union ig_cell){.i = (int64_t)((uint64_t)old.i * (uint64_t) new.i)};
    case IG_SCATTER_MAX: return less ? new : old;
    case IG_SCATTER_MIN: return less ? old : new;
    default: return new;
    }
}

static void scatter_one(enum ig_scatter how, enum ingot_dtype dtype, char *to, const char *from) {
    if (how == IG_SCATTER_SET) {
        memcpy(to, from, ingot_dtype_size(dtype));
        return;
    }
    union ig_cell old, new;
    ig_cells_load(dtype, to, 0, 1, &old);
    ig_cells_load(dtype, from, 0, 1, &new);
    new = combine(how, dtype, old, new);
    ig_cells_store(dtype, to, 0, 1, &new);
}

static struct ig_view copy_of(struct ig_eval *ev, const struct ig_view *view) {
    struct ig_view copy = ig_view_new(ev, view->dtype, view->rank, view->dims);
    ig_view_copy(view, &copy);
    return copy;
}

IG_EVAL(scatter_elements) {
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    enum ig_scatter how = (enum ig_scatter)ig_attr_int(graph, node, IG_ATTR_reduction);
    const struct ig_view *index = &in[1], *updates = &in[2];
    for (int i = 0; i < index->rank; i++) {
        if (index->dims[i] == updates->dims[i] && (i == axis || index->dims[i] <= in[0].dims[i])) continue;
        ig_eval_raise(ev, "indices and updates do not fit the data along axis %d", i);
    }
    out[0] = copy_of(ev, &in[0]);
    if (ig_view_elements(index) == 0) return;
    int64_t at[INGOT_MAX_RANK] = {0}, to[INGOT_MAX_RANK];
    const int64_t *next = indices(ev, index);
    do {
        memcpy(to, at, sizeof to);
        if (!resolve(*next++, in[0].dims[axis], &to[axis])) continue;
        scatter_one(how, out[0].dtype, ig_view_at(&out[0], to), ig_view_at(updates, at));
    } while (ig_advance(index->rank, index->dims, at));
}

IG_EVAL(scatter_nd) {
    enum ig_scatter how = (enum ig_scatter)ig_attr_int(graph, node, IG_ATTR_reduction);
    const struct ig_view *index = &in[1], *updates = &in[2];
    int outer = index->rank - 1, depth = index->rank > 0 ? (int)index->dims[index->rank - 1] : 0;
    if (outer < 0 || depth > in[0].rank || updates->rank != outer + in[0].rank - depth) {
        ig_eval_raise(ev, "indices name %d axes, updates have rank %d", depth, updates->rank);
    }
    for (int i = 0; i < updates->rank; i++) {
        int64_t want = i < outer ? index->dims[i] : in[0].dims[depth + i - outer];
        if (updates->dims[i] != want) ig_eval_raise(ev, "updates do not fit along axis %d", i);
    }
    out[0] = copy_of(ev, &in[0]);
    if (ig_view_elements(updates) == 0) return;
    int64_t at[INGOT_MAX_RANK] = {0}, to[INGOT_MAX_RANK];
    const int64_t *all = indices(ev, index);
    int64_t inner = 1, row = 0;
    for (int i = outer; i < updates->rank; i++)
        inner *= updates->dims[i];
    do { /* `at` walks the updates; every `inner` of them share one index tuple */
        const int64_t *named = all + row++ / inner * depth;
        bool inside = true;
        for (int i = 0; i < depth; i++)
            inside &= resolve(named[i], in[0].dims[i], &to[i]);
        for (int i = outer; i < updates->rank; i++)
            to[depth + i - outer] = at[i];
        if (inside) scatter_one(how, out[0].dtype, ig_view_at(&out[0], to), ig_view_at(updates, at));
    } while (ig_advance(updates->rank, updates->dims, at));
}
