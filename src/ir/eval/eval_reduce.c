/* Reductions and arg-reductions: every element of the result walks the reduced axes of its own input slice. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_op.h"

/* The input, split into the kept axes (with the result's dims) and the reduced ones. */
struct split {
    struct ig_view kept, reduced;
};

static struct split split_axes(const struct ig_view *view, const int64_t *axes, int n_axes) {
    struct split s = {*view, {.dtype = view->dtype}};
    for (int i = 0; i < n_axes; i++) {
        int axis = (int)axes[i];
        s.reduced.dims[s.reduced.rank] = view->dims[axis];
        s.reduced.strides[s.reduced.rank++] = view->strides[axis];
        s.kept.dims[axis] = 1;
        s.kept.strides[axis] = 0;
    }
    return s;
}

enum { ROW = 256 };

/* Adds n cells to the accumulator. */
typedef void (*fold_fn)(union ig_cell *accumulator, const union ig_cell *cells, int n);

#define FOLD(name, field, type, step)                                                 \
    static void name(union ig_cell *accumulator, const union ig_cell *cells, int n) { \
        type a = (type)accumulator->field;                                            \
        for (int i = 0; i < n; i++) {                                                 \
            type x = (type)cells[i].field;                                            \
            step;                                                                     \
        }                                                                             \
        accumulator->field = a;                                                       \
    }
FOLD(sum_float, f, double, a += x)
FOLD(prod_float, f, double, a *= x)
FOLD(max_float, f, double, a = isnan(a) || a > x ? a : x)
FOLD(min_float, f, double, a = isnan(a) || a < x ? a : x)
#undef FOLD
#define FOLD(name, type, step)                                                        \
    static void name(union ig_cell *accumulator, const union ig_cell *cells, int n) { \
        type a = (type)accumulator->i;                                                \
        for (int i = 0; i < n; i++) {                                                 \
            type x = (type)cells[i].i;                                                \
            step;                                                                     \
        }                                                                             \
        accumulator->i = (int64_t)a;                                                  \
    }
FOLD(sum_int, uint64_t, a += x)
FOLD(prod_int, uint64_t, a *= x)
FOLD(max_signed, int64_t, a = a > x ? a : x)
FOLD(min_signed, int64_t, a = a < x ? a : x)
FOLD(max_unsigned, uint64_t, a = a > x ? a : x)
FOLD(min_unsigned, uint64_t, a = a < x ? a : x)
#undef FOLD

struct folding {
    fold_fn fold;
    union ig_cell start;
};

static union ig_cell fold_all(const struct folding *f, const struct ig_view *view) {
    union ig_cell accumulator = f->start, row[ROW];
    const struct ig_view *views[] = {view};
    struct ig_nest nest;
    if (!ig_nest_begin(&nest, views, 1)) return accumulator;
    int64_t n = nest.dims[nest.rank - 1], stride = nest.strides[0][nest.rank - 1];
    do {
        for (int64_t at = 0; at < n; at += ROW) {
            int count = n - at < ROW ? (int)(n - at) : ROW;
            ig_cells_load(view->dtype, nest.data[0] + at * stride, stride, count, row);
            f->fold(&accumulator, row, count);
        }
    } while (ig_nest_next(&nest));
    return accumulator;
}

static void reduce(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, const struct ig_view *in,
                   const struct folding *folding, bool mean, struct ig_view *out) {
    const struct ig_attr *axes = ig_attr(graph, node, IG_ATTR_axes);
    struct split s = split_axes(in, axes->ints, axes->count);
    bool is_float = ig_cells_are_float(in->dtype);
    int64_t index[INGOT_MAX_RANK] = {0}, n = ig_view_elements(&s.reduced);
    *out = ig_view_new(ev, in->dtype, in->rank, s.kept.dims);
    if (ig_view_elements(out) == 0) return;
    char *to = out->data;
    do {
        s.reduced.data = ig_view_at(&s.kept, index);
        union ig_cell cell = fold_all(folding, &s.reduced);
        if (mean && is_float) cell.f /= (double)n;
        if (mean && !is_float) cell.i = n ? cell.i / n : 0;
        ig_cells_store(in->dtype, to, 0, 1, &cell);
        to += ingot_dtype_size(in->dtype);
    } while (ig_advance(out->rank, out->dims, index));
}

static bool is_signed(enum ingot_dtype dtype) {
    return dtype == INGOT_I8 || dtype == INGOT_I16 || dtype == INGOT_I32 || dtype == INGOT_I64;
}

/* The type's lowest or highest value; floats: an infinity. */
static union ig_cell extreme(enum ingot_dtype dtype, bool highest) {
    int bits = 8 * (int)ingot_dtype_size(dtype);
    if (ig_cells_are_float(dtype)) return (union ig_cell){.f = highest ? INFINITY : -INFINITY};
    if (dtype == INGOT_BOOL) return (union ig_cell){.i = highest};
    if (!is_signed(dtype)) return (union ig_cell){.i = highest ? (int64_t)(UINT64_MAX >> (64 - bits)) : 0};
    return (union ig_cell){.i = highest ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits)};
}

IG_EVAL(reduce_sum) {
    struct folding f = {ig_cells_are_float(in[0].dtype) ? sum_float : sum_int, {.i = 0}}; /* 0 is 0.0 too */
    reduce(ev, graph, node, &in[0], &f, false, &out[0]);
}

IG_EVAL(reduce_mean) {
    struct folding f = {ig_cells_are_float(in[0].dtype) ? sum_float : sum_int, {.i = 0}};
    reduce(ev, graph, node, &in[0], &f, true, &out[0]);
}

IG_EVAL(reduce_prod) {
    struct folding f = {prod_int, {.i = 1}};
    if (ig_cells_are_float(in[0].dtype)) f = (struct folding){prod_float, {.f = 1}};
    reduce(ev, graph, node, &in[0], &f, false, &out[0]);
}

IG_EVAL(reduce_max) {
    enum ingot_dtype dtype = in[0].dtype;
    struct folding f = {ig_cells_are_float(dtype) ? max_float
                        : is_signed(dtype)        ? max_signed
                                                  : max_unsigned,
                        extreme(dtype, false)};
    reduce(ev, graph, node, &in[0], &f, false, &out[0]);
}

IG_EVAL(reduce_min) {
    enum ingot_dtype dtype = in[0].dtype;
    struct folding f = {ig_cells_are_float(dtype) ? min_float
                        : is_signed(dtype)        ? min_signed
                                                  : min_unsigned,
                        extreme(dtype, true)};
    reduce(ev, graph, node, &in[0], &f, false, &out[0]);
}

/* ---- Arg-reductions. As in NumPy, the first NaN wins; an empty axis gives 0. */

/* Does `cell` replace `best`? */
static bool better(enum ingot_dtype dtype, union ig_cell cell, union ig_cell best, bool max, bool last) {
    int order;
    if (ig_cells_are_float(dtype)) {
        if (isnan(best.f) || isnan(cell.f)) return !isnan(best.f) || (last && isnan(cell.f));
        order = (cell.f > best.f) - (cell.f < best.f);
    } else if (dtype == INGOT_U64) {
        order = ((uint64_t)cell.i > (uint64_t)best.i) - ((uint64_t)cell.i < (uint64_t)best.i);
    } else {
        order = (cell.i > best.i) - (cell.i < best.i);
    }
    return order == 0 ? last : (order > 0) == max;
}

static void arg_reduce(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, const struct ig_view *in,
                       bool max, struct ig_view *out) {
    int64_t axis = ig_attr_int(graph, node, IG_ATTR_axis);
    bool last = ig_attr_int(graph, node, IG_ATTR_last) != 0;
    struct split s = split_axes(in, &axis, 1);
    int64_t index[INGOT_MAX_RANK] = {0}, n = s.reduced.dims[0];
    int64_t stride = s.reduced.strides[0] * (int64_t)ingot_dtype_size(in->dtype);
    union ig_cell *row = ig_eval_scratch(ev, n, sizeof *row);
    *out = ig_view_new(ev, INGOT_I64, in->rank, s.kept.dims);
    if (ig_view_elements(out) == 0) return;
    int64_t *to = (int64_t *)(void *)out->data;
    do {
        int64_t best = 0;
        ig_cells_load(in->dtype, ig_view_at(&s.kept, index), stride, n, row);
        for (int64_t i = 1; i < n; i++) {
            if (better(in->dtype, row[i], row[best], max, last)) best = i;
        }
        *to++ = best;
    } while (ig_advance(out->rank, out->dims, index));
}

IG_EVAL(argmax) {
    arg_reduce(ev, graph, node, &in[0], true, &out[0]);
}

IG_EVAL(argmin) {
    arg_reduce(ev, graph, node, &in[0], false, &out[0]);
}
