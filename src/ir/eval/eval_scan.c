/* Operators along one axis: cumulative sums and products, and top-k. */
#include <math.h>
#include <stdlib.h>

#include "ir/eval/eval_op.h"

/* The view with the axis reduced to size 1, and the axis' stride in bytes. */
static struct ig_view without_axis(const struct ig_view *view, int axis, int64_t *out_stride) {
    struct ig_view rest = *view;
    *out_stride = view->strides[axis] * (int64_t)ingot_dtype_size(view->dtype);
    rest.dims[axis] = 1;
    return rest;
}

static void accumulate(union ig_cell *row, int64_t n, bool is_float, bool product, bool exclusive, bool reverse) {
    union ig_cell total = {.i = product};
    if (is_float) total.f = product;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = reverse ? n - 1 - i : i;
        union ig_cell before = total, x = row[at];
        if (is_float) {
            total.f = product ? total.f * x.f : total.f + x.f;
        } else {
            total.i = (int64_t)(product ? (uint64_t)total.i * (uint64_t)x.i : (uint64_t)total.i + (uint64_t)x.i);
        }
        row[at] = exclusive ? before : total;
    }
}

static void cumulate(struct ig_eval *ev, struct ig_graph *graph, const struct ig_node *node, const struct ig_view *in,
                     bool product, struct ig_view *out) {
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    bool exclusive = ig_attr_int(graph, node, IG_ATTR_exclusive) != 0;
    bool reverse = ig_attr_int(graph, node, IG_ATTR_reverse) != 0;
    int64_t n = in->dims[axis], stride_in, stride_out, index[INGOT_MAX_RANK] = {0};
    union ig_cell *row = ig_eval_scratch(ev, n, sizeof *row);
    *out = ig_view_new(ev, in->dtype, in->rank, in->dims);
    if (ig_view_elements(out) == 0) return;
    struct ig_view from = without_axis(in, axis, &stride_in), to = without_axis(out, axis, &stride_out);
    do {
        ig_cells_load(in->dtype, ig_view_at(&from, index), stride_in, n, row);
        accumulate(row, n, ig_cells_are_float(in->dtype), product, exclusive, reverse);
        ig_cells_store(in->dtype, ig_view_at(&to, index), stride_out, n, row);
    } while (ig_advance(from.rank, from.dims, index));
}

IG_EVAL(cumsum) {
    cumulate(ev, graph, node, &in[0], false, &out[0]);
}

IG_EVAL(cumprod) {
    cumulate(ev, graph, node, &in[0], true, &out[0]);
}

/* ---- Top k */

struct candidate {
    union ig_cell cell;
    int64_t index;
};

static int by_index(const struct candidate *a, const struct candidate *b) {
    return (a->index > b->index) - (a->index < b->index);
}

/* NaN counts as greater than everything, as in NumPy's sorting. */
static int order_float(const struct candidate *a, const struct candidate *b) {
    double x = a->cell.f, y = b->cell.f;
    if (isnan(x) || isnan(y)) return !!isnan(x) - !!isnan(y);
    return (x > y) - (x < y);
}

static int order_signed(const struct candidate *a, const struct candidate *b) {
    return (a->cell.i > b->cell.i) - (a->cell.i < b->cell.i);
}

static int order_unsigned(const struct candidate *a, const struct candidate *b) {
    uint64_t x = (uint64_t)a->cell.i, y = (uint64_t)b->cell.i;
    return (x > y) - (x < y);
}

/* For qsort: the best first, ties by index. */
#define COMPARE(name, order, sign)                  \
    static int name(const void *a, const void *b) { \
        int result = sign order(a, b);              \
        return result ? result : by_index(a, b);    \
    }
COMPARE(largest_float, order_float, -)
COMPARE(largest_signed, order_signed, -)
COMPARE(largest_unsigned, order_unsigned, -)
COMPARE(smallest_float, order_float, +)
COMPARE(smallest_signed, order_signed, +)
COMPARE(smallest_unsigned, order_unsigned, +)

static int (*comparison(enum ingot_dtype dtype, bool largest))(const void *, const void *) {
    if (ig_cells_are_float(dtype)) return largest ? largest_float : smallest_float;
    if (dtype == INGOT_U64) return largest ? largest_unsigned : smallest_unsigned;
    return largest ? largest_signed : smallest_signed;
}

IG_EVAL(topk) {
    int axis = (int)ig_attr_int(graph, node, IG_ATTR_axis);
    int64_t k = ig_eval_dim(ev, ig_attr(graph, node, IG_ATTR_k)->dim), n = in[0].dims[axis];
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK] = {0}, strides[3];
    if (k < 0 || k > n) ig_eval_raise(ev, "the best %lld of %lld", (long long)k, (long long)n);
    for (int i = 0; i < in[0].rank; i++)
        dims[i] = i == axis ? k : in[0].dims[i];
    struct candidate *row = ig_eval_scratch(ev, n, sizeof *row);
    union ig_cell *cells = ig_eval_scratch(ev, n, sizeof *cells);
    out[0] = ig_view_new(ev, in[0].dtype, in[0].rank, dims);
    out[1] = ig_view_new(ev, INGOT_I64, in[0].rank, dims);
    if (ig_view_elements(&out[0]) == 0) return;
    struct ig_view from = without_axis(&in[0], axis, &strides[0]), values = without_axis(&out[0], axis, &strides[1]);
    struct ig_view indices = without_axis(&out[1], axis, &strides[2]);
    do {
        ig_cells_load(in[0].dtype, ig_view_at(&from, index), strides[0], n, cells);
        for (int64_t i = 0; i < n; i++)
            row[i] = (struct candidate){cells[i], i};
        qsort(row, (size_t)n, sizeof *row, comparison(in[0].dtype, ig_attr_int(graph, node, IG_ATTR_largest) != 0));
        for (int64_t i = 0; i < k; i++)
            cells[i] = row[i].cell;
        ig_cells_store(in[0].dtype, ig_view_at(&values, index), strides[1], k, cells);
        for (int64_t i = 0; i < k; i++)
            cells[i].i = row[i].index;
        ig_cells_store(INGOT_I64, ig_view_at(&indices, index), strides[2], k, cells);
    } while (ig_advance(from.rank, from.dims, index));
}
