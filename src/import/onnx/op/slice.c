/* Slice, Split and Pad, with possibly symbolic positions. */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* Larger than any dim, but sums of it with dims do not overflow. ONNX writes "to the end" as INT64_MAX. */
#define FAR ((int64_t)1 << 48)

/* ---- Slice ---- */

struct slice {
    int count;
    const ig_dim *starts, *ends;
    int64_t axes[INGOT_MAX_RANK], steps[INGOT_MAX_RANK];
};

static const ig_dim *attr_dims(struct ig_onnx_node *n, const char *name, int *out_count) {
    const int64_t *ints = ig_onnx_ints(n, name, out_count);
    if (!ints) ig_onnx_bad(n, "attribute '%s' is missing", name);
    ig_dim *dims = IG_NEW_ARRAY(n->job, ig_dim, (size_t)*out_count);
    for (int i = 0; i < *out_count; i++)
        dims[i] = ig_dim_const(n->dims, ints[i]);
    return dims;
}

/* Resolves an index that counts from the end if negative: index + size * (index < 0). */
static ig_dim from_end(struct ig_dims *dims, ig_dim index, ig_dim size) {
    int64_t value;
    ig_dim zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1);
    if (ig_dim_is_const(dims, index, &value)) {
        if (value >= 0) return ig_dim_const(dims, value < FAR ? value : FAR);
        return ig_dim_add(dims, ig_dim_const(dims, value > -FAR ? value : -FAR), size);
    }
    ig_dim negative = ig_dim_max(dims, zero, ig_dim_min(dims, one, ig_dim_sub(dims, zero, index)));
    return ig_dim_add(dims, index, ig_dim_mul(dims, negative, size));
}

static ig_dim clamp(struct ig_dims *dims, ig_dim value, ig_dim lo, ig_dim hi) {
    return ig_dim_max(dims, ig_dim_min(dims, value, hi), lo);
}

static ig_value slice_axis(struct ig_onnx_node *n, ig_value x, int axis, ig_dim start, ig_dim end, int64_t step) {
    struct ig_dims *dims = n->dims;
    ig_dim size = ig_onnx_dim(n, x, axis), zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1), span;
    start = from_end(dims, start, size);
    end = from_end(dims, end, size);
    if (step > 0) {
        start = clamp(dims, start, zero, size);
        span = ig_dim_sub(dims, clamp(dims, end, zero, size), start);
    } else {
        ig_dim last = ig_dim_sub(dims, size, one);
        /* If the axis is empty, start and end are both -1. */
        start = ig_dim_min(dims, ig_dim_max(dims, start, zero), last);
        span = ig_dim_sub(dims, start, clamp(dims, end, ig_dim_const(dims, -1), last));
    }
    ig_dim stride = ig_dim_const(dims, step > 0 ? step : -step);
    ig_dim count = ig_dim_max(dims, ig_dim_ceil_div(dims, span, stride), zero);
    return ig_build_slice_axis(n->g, x, axis, start, count, step);
}

static struct slice read_slice(struct ig_onnx_node *n) {
    struct slice s;
    int n_ends, n_axes, n_steps;
    const int64_t *axes = s.axes;
    bool inputs = n->opset >= 10;
    s.starts = inputs ? ig_onnx_elements(n, 1, "starts", &s.count) : attr_dims(n, "starts", &s.count);
    s.ends = inputs ? ig_onnx_elements(n, 2, "ends", &n_ends) : attr_dims(n, "ends", &n_ends);
    if (s.count > INGOT_MAX_RANK) ig_onnx_bad(n, "%d starts are too many", s.count);
    for (int i = 0; i < s.count; i++) {
        s.axes[i] = i;
        s.steps[i] = 1;
    }
    n_axes = n_steps = s.count;
    if (inputs && ig_onnx_has(n, 3)) ig_onnx_const_ints(n, 3, "axes", s.axes, INGOT_MAX_RANK, &n_axes);
    if (inputs && ig_onnx_has(n, 4)) ig_onnx_const_ints(n, 4, "steps", s.steps, INGOT_MAX_RANK, &n_steps);
    if (!inputs && ig_onnx_attr(n, "axes")) axes = ig_onnx_ints(n, "axes", &n_axes);
    if (n_ends != s.count || n_axes != s.count || n_steps != s.count) {
        ig_onnx_bad(n, "there are %d starts, %d ends, %d axes and %d steps", s.count, n_ends, n_axes, n_steps);
    }
    for (int i = 0; i < s.count; i++)
        s.axes[i] = axes[i];
    return s;
}

ig_value ig_import_slice(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x);
    struct slice s = read_slice(n);
    bool done[INGOT_MAX_RANK] = {false};
    for (int i = 0; i < s.count; i++) {
        int axis = ig_onnx_axis(n, s.axes[i], rank);
        if (done[axis]) ig_onnx_bad(n, "axis %d is given twice", axis);
        if (s.steps[i] == 0 || s.steps[i] == INT64_MIN) ig_onnx_bad(n, "the step %lld", (long long)s.steps[i]);
        done[axis] = true;
        x = slice_axis(n, x, axis, s.starts[i], s.ends[i], s.steps[i]);
    }
    return x;
}

/* ---- Split ---- */

/* Splits into equal parts; from opset 18 on the last one may be smaller. */
static void equal_parts(struct ig_onnx_node *n, ig_dim size, uint32_t parts, ig_dim *out_sizes) {
    ig_dim count = ig_dim_const(n->dims, parts), zero = ig_dim_const(n->dims, 0);
    bool divides = ig_dim_divides(n->dims, count, size);
    int64_t known;
    if (!divides && n->opset < 18 && ig_dim_is_const(n->dims, size, &known)) {
        ig_onnx_bad(n, "%lld cannot be split into %u equal parts", (long long)known, parts);
    }
    ig_dim part = ig_dim_ceil_div(n->dims, size, count), used = zero;
    for (uint32_t i = 0; i < parts; i++) {
        ig_dim rest = ig_dim_max(n->dims, ig_dim_sub(n->dims, size, used), zero);
        out_sizes[i] = divides ? part : ig_dim_min(n->dims, part, rest);
        used = ig_dim_add(n->dims, used, out_sizes[i]);
    }
}

ig_value ig_import_split(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), ig_onnx_rank(n, x)), count = (int)n->n_out;
    ig_dim size = ig_onnx_dim(n, x, axis), at = ig_dim_const(n->dims, 0);
    const ig_dim *sizes;
    if (n->n_out == 0) ig_onnx_bad(n, "it has no outputs");
    if (n->opset >= 13 ? ig_onnx_has(n, 1) : ig_onnx_attr(n, "split") != NULL) {
        sizes = n->opset >= 13 ? ig_onnx_elements(n, 1, "split", &count) : attr_dims(n, "split", &count);
    } else {
        int64_t parts = ig_onnx_int(n, "num_outputs", n->n_out);
        if (parts != n->n_out) ig_onnx_bad(n, "it has %u outputs, 'num_outputs' says %lld", n->n_out, (long long)parts);
        ig_dim *equal = IG_NEW_ARRAY(n->job, ig_dim, n->n_out);
        equal_parts(n, size, n->n_out, equal);
        sizes = equal;
    }
    if (count != (int)n->n_out) ig_onnx_bad(n, "there are %d sizes for %u outputs", count, n->n_out);
    for (uint32_t i = 0; i < n->n_out; i++) {
        n->out[i] = ig_build_slice_axis(n->g, x, axis, at, sizes[i], 1);
        at = ig_dim_add(n->dims, at, sizes[i]);
    }
    if (ig_dim_equal(n->dims, at, size) == IG_NO) {
        ig_onnx_bad(n, "the parts make %s, the axis has %s", ig_dim_text(n->dims, at), ig_dim_text(n->dims, size));
    }
    return n->out[0];
}

/* ---- Pad ---- */

struct border {
    int rank;
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
};

static struct border read_border(struct ig_onnx_node *n, int rank) {
    struct border b = {.rank = rank};
    int64_t axes[INGOT_MAX_RANK];
    int count, n_axes = rank;
    for (int i = 0; i < rank; i++) {
        axes[i] = i;
        b.before[i] = b.after[i] = ig_dim_const(n->dims, 0);
    }
    const ig_dim *pads = n->opset >= 11 ? ig_onnx_elements(n, 1, "pads", &count) : attr_dims(n, "pads", &count);
    if (ig_onnx_has(n, 3)) ig_onnx_const_ints(n, 3, "axes", axes, INGOT_MAX_RANK, &n_axes);
    if (count != 2 * n_axes) ig_onnx_bad(n, "'pads' has %d values, expected %d", count, 2 * n_axes);
    for (int i = 0; i < n_axes; i++) {
        int axis = ig_onnx_axis(n, axes[i], rank);
        b.before[axis] = pads[i];
        b.after[axis] = pads[n_axes + i];
    }
    return b;
}

/* Applies negative amounts, which crop. */
static ig_value crop(struct ig_onnx_node *n, ig_value x, struct border *b) {
    struct ig_dims *dims = n->dims;
    ig_dim zero = ig_dim_const(dims, 0);
    for (int i = 0; i < b->rank; i++) {
        ig_dim first = ig_dim_max(dims, ig_dim_sub(dims, zero, b->before[i]), zero);
        ig_dim last = ig_dim_max(dims, ig_dim_sub(dims, zero, b->after[i]), zero);
        ig_dim size = ig_dim_sub(dims, ig_onnx_dim(n, x, i), ig_dim_add(dims, first, last));
        if (first != zero || last != zero) x = ig_build_slice_axis(n->g, x, i, first, ig_dim_max(dims, size, zero), 1);
        b->before[i] = ig_dim_max(dims, b->before[i], zero);
        b->after[i] = ig_dim_max(dims, b->after[i], zero);
    }
    return x;
}

ig_value ig_import_pad(struct ig_onnx_node *n) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    static const enum ig_pad_mode core[] = {IG_PAD_CONSTANT, IG_PAD_REFLECT, IG_PAD_EDGE, IG_PAD_WRAP};
    ig_value x = ig_onnx_in(n, 0), value = IG_NO_VALUE;
    enum ig_pad_mode mode = core[ig_onnx_choice(n, "mode", modes, 4, 0)];
    struct border b = read_border(n, ig_onnx_rank(n, x));
    if (mode == IG_PAD_CONSTANT && n->opset >= 11 && ig_onnx_has(n, 2)) {
        ig_onnx_check_same_type(n, x, n->in[2]);
        value = ig_build_reshape(n->g, n->in[2], NULL, 0);
    } else if (mode == IG_PAD_CONSTANT && n->opset < 11 && ig_onnx_float(n, "value", 0) != 0) {
        value = ig_like(n->g, x, ig_onnx_float(n, "value", 0));
    }
    x = crop(n, x, &b);
    return ig_build_pad(n->g, x, b.before, b.after, mode, value);
}
