/*
 * Shapes as data (Shape, Size), shapes from data (Reshape, Expand and the like), and tensors made from a shape.
 * Contents that determine shapes are read symbolically, so that shape arithmetic leaves no trace in the graph.
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"
#include "ir/eval/eval.h"

/* ---- Shapes as data ---- */

static int clamp_axis(int64_t axis, int rank) {
    if (axis < 0) axis += rank;
    return axis < 0 ? 0 : axis > rank ? rank : (int)axis;
}

ig_value ig_import_shape(struct ig_onnx_node *n) {
    struct ig_type type = *ig_type_of(n->g, ig_onnx_in(n, 0));
    int start = clamp_axis(ig_onnx_int(n, "start", 0), type.rank);
    int end = clamp_axis(ig_onnx_int(n, "end", type.rank), type.rank);
    return ig_build_shape(n->g, type.dim + start, end > start ? end - start : 0);
}

ig_value ig_import_size(struct ig_onnx_node *n) {
    struct ig_type type = *ig_type_of(n->g, ig_onnx_in(n, 0));
    return ig_build_shape_scalar(n->g, ig_type_elements(n->dims, &type));
}

/* ---- Reshape ---- */

struct reshape {
    struct ig_type from;
    int rank;
    bool allow_zero;
    const ig_dim *elements; /* IG_DIM_NONE: unknown */
    ig_dim dims[INGOT_MAX_RANK];
};

static void note_negative(void *user, ig_dim symbol) {
    ig_dim *negative = user;
    *negative = symbol;
}

/* May the dim be a code at run time, 0 (copy) or -1 (infer)? Only if it contains an element of an input. */
static bool may_be_code(struct ig_onnx_node *n, ig_dim dim) {
    ig_dim symbol = IG_DIM_NONE;
    int64_t lo, hi;
    ig_dim_symbols(n->dims, dim, note_negative, &symbol);
    if (symbol == IG_DIM_NONE) return false;
    ig_dim_range(n->dims, symbol, &lo, &hi);
    return lo < 0;
}

/* 1 if dim < 0, else 0. */
static ig_dim is_negative(struct ig_dims *dims, ig_dim dim) {
    ig_dim zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1);
    return ig_dim_max(dims, zero, ig_dim_min(dims, one, ig_dim_sub(dims, zero, dim)));
}

/* 1 if dim == 0, else 0, for dims >= -1. */
static ig_dim is_zero(struct ig_dims *dims, ig_dim dim) {
    ig_dim zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1);
    return ig_dim_max(dims, zero, ig_dim_min(dims, ig_dim_sub(dims, one, dim), ig_dim_add(dims, one, dim)));
}

/* Element i as a size; IG_DIM_NONE if it is to be inferred. */
static ig_dim reshape_dim(struct ig_onnx_node *n, const struct reshape *r, int i) {
    int64_t value;
    ig_dim element = r->elements[i];
    if (element == IG_DIM_NONE) return IG_DIM_NONE;
    if (!ig_dim_is_const(n->dims, element, &value)) {
        if (!may_be_code(n, element)) return element;
        ig_dim copied = i < r->from.rank && !r->allow_zero ? r->from.dim[i] : ig_dim_const(n->dims, 0);
        return ig_dim_add(n->dims, element, ig_dim_mul(n->dims, is_zero(n->dims, element), copied));
    }
    if (value == -1) return IG_DIM_NONE;
    if (value < -1) ig_onnx_bad(n, "the new shape has the dim %lld", (long long)value);
    if (value > 0 || r->allow_zero) return element;
    if (i >= r->from.rank) ig_onnx_bad(n, "the new shape copies dim %d of a tensor of rank %d", i, r->from.rank);
    return r->from.dim[i];
}

/* The size of the one dim that is to be inferred. */
static ig_dim infer_dim(struct ig_onnx_node *n, const struct reshape *r, ig_dim known) {
    int64_t value;
    if (ig_dim_is_const(n->dims, known, &value) && value == 0) {
        ig_onnx_bad(n, "a dim of the new shape is to be inferred, but another is 0");
    }
    struct ig_type from = r->from;
    return ig_dim_div(n->dims, ig_type_elements(n->dims, &from), known);
}

/*
 * Sizes that may be -1 at run time: then they are what the others leave. Written with maxima, so that each dim is one
 * atom and products of them stay short.
 */
static void infer_codes(struct ig_onnx_node *n, struct reshape *r) {
    struct ig_dims *dims = n->dims;
    ig_dim zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1), known = one, code[INGOT_MAX_RANK];
    bool any = false;
    for (int i = 0; i < r->rank; i++) {
        code[i] = may_be_code(n, r->elements[i]) ? is_negative(dims, r->elements[i]) : zero;
        any |= code[i] != zero;
        /* A -1 counts as 1 in the product. */
        if (code[i] != zero) r->dims[i] = ig_dim_max(dims, r->dims[i], ig_dim_sub(dims, zero, r->elements[i]));
        known = ig_dim_mul(dims, known, r->dims[i]);
    }
    if (!any) return;
    ig_dim rest = ig_dim_div(dims, ig_type_elements(dims, &r->from), ig_dim_max(dims, known, one));
    for (int i = 0; i < r->rank; i++)
        r->dims[i] = ig_dim_max(dims, r->dims[i], ig_dim_mul(dims, code[i], rest));
}

/* The target's elements; some may be unknown. */
static const ig_dim *target_elements(struct ig_onnx_node *n, int *out_rank) {
    ig_value target = ig_onnx_in(n, 1);
    const ig_dim *elements;
    if (ig_onnx_type(n, target) != INGOT_I64) ig_onnx_bad(n, "the new shape is not of type int64");
    ig_onnx_check_rank(n, target, 1, 1, "the new shape");
    if (ig_elements(n->g, target, &elements, out_rank)) return elements;
    int64_t rank = ig_onnx_static_dim(n, target, 0, "the rank of the result");
    if (rank > INGOT_MAX_RANK) ig_onnx_refuse(n, "the result has rank %lld", (long long)rank);
    *out_rank = (int)rank;
    ig_const_decides(n->g, target);
    elements = ig_info(n->g, target)->elements;
    if (!elements && rank > 1) ig_onnx_elements(n, 1, "shape", out_rank);
    return elements ? elements : IG_NEW_ARRAY(n->job, ig_dim, (size_t)rank);
}

ig_value ig_import_reshape(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct reshape r = {.from = *ig_type_of(n->g, x), .allow_zero = ig_onnx_flag(n, "allowzero", false)};
    r.elements = target_elements(n, &r.rank);
    if (r.rank > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result has rank %d, at most %d is supported", r.rank, INGOT_MAX_RANK);
    int inferred = -1;
    ig_dim known = ig_dim_const(n->dims, 1);
    for (int i = 0; i < r.rank; i++) {
        r.dims[i] = reshape_dim(n, &r, i);
        if (r.dims[i] == IG_DIM_NONE && inferred >= 0) ig_onnx_bad(n, "the new shape leaves two dims open");
        if (r.dims[i] == IG_DIM_NONE)
            inferred = i;
        else
            known = ig_dim_mul(n->dims, known, r.dims[i]);
    }
    if (inferred >= 0)
        r.dims[inferred] = infer_dim(n, &r, known);
    else
        infer_codes(n, &r);
    return ig_build_reshape(n->g, x, r.dims, r.rank);
}

/* ---- Other changes of shape ---- */

ig_value ig_import_flatten(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct ig_type type = *ig_type_of(n->g, x);
    int64_t axis = ig_onnx_int(n, "axis", 1);
    if (axis < -type.rank || axis > type.rank)
        ig_onnx_bad(n, "axis %lld is out of range for rank %d", (long long)axis, type.rank);
    int split = (int)(axis < 0 ? axis + type.rank : axis);
    ig_dim dims[] = {ig_dim_product(n->dims, type.dim, split),
                     ig_dim_product(n->dims, type.dim + split, type.rank - split)};
    return ig_build_reshape(n->g, x, dims, 2);
}

ig_value ig_import_squeeze(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct ig_type type = *ig_type_of(n->g, x);
    int64_t given[INGOT_MAX_RANK], size;
    int axes[INGOT_MAX_RANK], count = ig_onnx_axes(n, 1, type.rank, given);
    for (int i = 0; i < count; i++) {
        axes[i] = (int)given[i];
        ig_dim dim = type.dim[axes[i]];
        if (ig_dim_is_const(n->dims, dim, &size) && size != 1) {
            ig_onnx_bad(n, "axis %d has size %lld, expected 1", axes[i], (long long)size);
        }
    }
    if (count < 0) {
        count = 0;
        for (int i = 0; i < type.rank; i++) {
            if (ig_dim_is_const(n->dims, type.dim[i], &size) && size == 1) axes[count++] = i;
        }
    }
    return ig_build_squeeze(n->g, x, axes, count);
}

ig_value ig_import_unsqueeze(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x), count;
    int64_t given[INGOT_MAX_RANK];
    const int64_t *list = given;
    if (ig_onnx_has(n, 1))
        ig_onnx_const_ints(n, 1, "axes", given, INGOT_MAX_RANK, &count);
    else
        list = ig_onnx_ints(n, "axes", &count);
    if (!list) ig_onnx_bad(n, "attribute 'axes' is missing");
    if (rank + count > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result has rank %d, at most %d is supported", rank + count, INGOT_MAX_RANK);
    bool chosen[INGOT_MAX_RANK] = {false};
    int axes[INGOT_MAX_RANK], used = 0;
    for (int i = 0; i < count; i++) {
        int axis = ig_onnx_axis(n, list[i], rank + count);
        if (chosen[axis]) ig_onnx_bad(n, "axis %d is given twice", axis);
        chosen[axis] = true;
    }
    for (int i = 0; i < rank + count; i++) {
        if (chosen[i]) axes[used++] = i;
    }
    return ig_build_unsqueeze(n->g, x, axes, used);
}

ig_value ig_import_transpose(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x), count;
    const int64_t *given = ig_onnx_ints(n, "perm", &count);
    if (given && count != rank) ig_onnx_bad(n, "attribute 'perm' has %d values, expected %d", count, rank);
    int64_t perm[INGOT_MAX_RANK];
    bool seen[INGOT_MAX_RANK] = {false};
    for (int i = 0; i < rank; i++) {
        perm[i] = given ? ig_onnx_axis(n, given[i], rank) : rank - 1 - i;
        if (seen[perm[i]]) ig_onnx_bad(n, "attribute 'perm' is no permutation");
        seen[perm[i]] = true;
    }
    return ig_build_transpose(n->g, x, perm);
}

/* One dim of a broadcast. If neither size is known at build time, it is the larger one. */
static ig_dim expand_dim(struct ig_onnx_node *n, ig_dim from, ig_dim to) {
    int64_t a = 0, b = 0;
    bool from_known = ig_dim_is_const(n->dims, from, &a), to_known = ig_dim_is_const(n->dims, to, &b);
    if (from_known && a == 1) return to;
    if ((to_known && b == 1) || from == to) return from;
    if (from_known && to_known) ig_onnx_bad(n, "dim %lld cannot be expanded to %lld", (long long)a, (long long)b);
    if (from_known) return from;
    return to_known ? to : ig_dim_max(n->dims, from, to);
}

ig_value ig_import_expand(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    struct ig_type type = *ig_type_of(n->g, x);
    int count;
    const ig_dim *to = ig_onnx_elements(n, 1, "shape", &count);
    int rank = count > type.rank ? count : type.rank;
    if (rank > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result has rank %d, at most %d is supported", rank, INGOT_MAX_RANK);
    ig_dim dims[INGOT_MAX_RANK], one = ig_dim_const(n->dims, 1);
    for (int i = 0; i < rank; i++) {
        int in_from = i - (rank - type.rank), in_to = i - (rank - count);
        dims[i] = expand_dim(n, in_from >= 0 ? type.dim[in_from] : one, in_to >= 0 ? to[in_to] : one);
    }
    return ig_build_broadcast(n->g, x, dims, rank);
}

/* ---- Constants and generated tensors ---- */

static ig_value constant_of(struct ig_onnx_node *n, enum ingot_dtype dtype, int rank, size_t count, const void *bytes) {
    struct ig_data *data = IG_NEW(n->job, struct ig_data);
    int64_t dim = (int64_t)count;
    *data = (struct ig_data){.bytes = bytes, .size = count * ingot_dtype_size(dtype)};
    return ig_build_constant(n->g, dtype, rank, &dim, data);
}

ig_value ig_import_constant(struct ig_onnx_node *n) {
    const Onnx__AttributeProto *value = ig_onnx_attr(n, "value"), *sparse = ig_onnx_attr(n, "sparse_value");
    int count;
    if (value && value->t) return ig_onnx_constant(n->import, n->g, value->t, NULL);
    if (sparse && sparse->sparse_tensor) return ig_onnx_sparse_constant(n->import, n->g, sparse->sparse_tensor, NULL);
    if (ig_onnx_attr(n, "value_int")) return ig_build_scalar_int(n->g, INGOT_I64, ig_onnx_int(n, "value_int", 0));
    if (ig_onnx_attr(n, "value_float")) return ig_build_scalar(n->g, INGOT_F32, ig_onnx_float(n, "value_float", 0));
    const int64_t *ints = ig_onnx_ints(n, "value_ints", &count);
    if (ints) return constant_of(n, INGOT_I64, 1, (size_t)count, ints);
    const float *floats = ig_onnx_floats(n, "value_floats", &count);
    if (floats) return constant_of(n, INGOT_F32, 1, (size_t)count, floats);
    if (ig_onnx_attr(n, "value_string") || ig_onnx_attr(n, "value_strings"))
        ig_onnx_refuse(n, "strings are not supported");
    ig_onnx_bad(n, "it has no value");
}

ig_value ig_import_constant_of_shape(struct ig_onnx_node *n) {
    const Onnx__AttributeProto *value = ig_onnx_attr(n, "value");
    int rank;
    const ig_dim *dims = ig_onnx_elements(n, 0, "shape", &rank);
    if (rank > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result has rank %d, at most %d is supported", rank, INGOT_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        int64_t size;
        if (ig_dim_is_const(n->dims, dims[i], &size) && size < 0)
            ig_onnx_bad(n, "the shape has the dim %lld", (long long)size);
    }
    ig_value scalar = ig_build_scalar(n->g, INGOT_F32, 0);
    if (value && value->t) {
        int64_t count = 1;
        scalar = ig_onnx_constant(n->import, n->g, value->t, NULL);
        for (size_t i = 0; i < value->t->n_dims; i++)
            count *= value->t->dims[i] == 1;
        if (count != 1) ig_onnx_bad(n, "attribute 'value' has more than one element");
        scalar = ig_build_reshape(n->g, scalar, NULL, 0);
    }
    return ig_build_broadcast(n->g, scalar, dims, rank);
}

static ig_value range_values(struct ig_onnx_node *n, ig_dim count, ig_value start, ig_value delta) {
    ig_value index = ig_build_cast(n->g, ig_build_iota(n->g, &count, 1, 0), ig_onnx_type(n, start));
    return ig_add(n->g, start, ig_mul(n->g, index, delta));
}

/* ceil((limit - start) / delta) elements. They may be symbolic: floats, too, that are computed from sizes. */
ig_value ig_import_range(struct ig_onnx_node *n) {
    ig_value start = ig_onnx_in(n, 0), limit = ig_onnx_in(n, 1), delta = ig_onnx_in(n, 2);
    struct ig_dims *dims = n->dims;
    ig_onnx_check_same_type(n, start, limit);
    ig_onnx_check_same_type(n, start, delta);
    ig_dim zero = ig_dim_const(dims, 0), count;
    if (ig_dtype_is_integer(ig_onnx_type(n, start))) {
        ig_dim first = ig_onnx_element(n, 0, "start"), end = ig_onnx_element(n, 1, "limit");
        ig_dim step = ig_onnx_element(n, 2, "delta");
        if (step == zero) ig_onnx_bad(n, "the step is 0");
        /* Ceiling division, whatever the signs. */
        count = ig_dim_sub(dims, zero, ig_dim_div(dims, ig_dim_sub(dims, first, end), step));
    } else if (!ig_onnx_range_size(n, start, limit, delta, &count)) {
        double step = ig_onnx_const_scalar(n, 2, "delta", 1);
        double span = ig_onnx_const_scalar(n, 1, "limit", 0) - ig_onnx_const_scalar(n, 0, "start", 0);
        double size = ceil(span / step);
        if (!(size < 1e15)) ig_onnx_bad(n, "the range has no end");
        count = ig_dim_const(dims, size > 0 ? (int64_t)size : 0);
    }
    start = ig_build_reshape(n->g, start, NULL, 0);
    delta = ig_build_reshape(n->g, delta, NULL, 0);
    return range_values(n, ig_dim_max(dims, count, zero), start, delta);
}

ig_value ig_import_eye_like(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    ig_onnx_check_rank(n, x, 2, 2, "input 0");
    struct ig_type type = *ig_type_of(n->g, x);
    if (ig_onnx_attr(n, "dtype")) type.dtype = ig_onnx_dtype(n->job, ig_onnx_int(n, "dtype", 0), "the result");
    ig_value row = ig_build_iota(n->g, type.dim, 2, 0), column = ig_build_iota(n->g, type.dim, 2, 1);
    row = ig_add(n->g, row, ig_build_scalar_int(n->g, INGOT_I64, ig_onnx_int(n, "k", 0)));
    return ig_build_cast(n->g, ig_eq(n->g, row, column), type.dtype);
}

/* Keeps the elements above (or below) the k-th diagonal. */
ig_value ig_import_trilu(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), k = ig_build_scalar_int(g, INGOT_I64, 0);
    ig_onnx_check_rank(n, x, 2, INGOT_MAX_RANK, "input 0");
    struct ig_type type = *ig_type_of(g, x);
    if (ig_onnx_has(n, 1)) k = ig_build_reshape(g, ig_build_cast(g, n->in[1], INGOT_I64), NULL, 0);
    const ig_dim *matrix = type.dim + type.rank - 2;
    ig_value diagonal = ig_sub(g, ig_build_iota(g, matrix, 2, 1), ig_build_iota(g, matrix, 2, 0));
    ig_value kept = ig_onnx_flag(n, "upper", true) ? ig_le(g, k, diagonal) : ig_le(g, diagonal, k);
    return ig_build_where(g, kept, x, ig_build_scalar(g, type.dtype, 0));
}

/* The depth: an integer, possibly symbolic, or a constant of another type. */
static ig_dim one_hot_depth(struct ig_onnx_node *n) {
    if (ig_dtype_is_integer(ig_onnx_type(n, ig_onnx_in(n, 1)))) return ig_onnx_element(n, 1, "depth");
    return ig_dim_const(n->dims, (int64_t)ig_onnx_const_scalar(n, 1, "depth", 0));
}

ig_value ig_import_one_hot(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value index = ig_build_cast(g, ig_onnx_in(n, 0), INGOT_I64), values = ig_onnx_in(n, 2);
    int rank = ig_onnx_rank(n, index) + 1;
    ig_onnx_check_rank(n, index, 0, INGOT_MAX_RANK - 1, "input 0");
    ig_onnx_check_rank(n, values, 1, 1, "input 2");
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), rank);
    ig_dim depth = one_hot_depth(n), zero = ig_dim_const(n->dims, 0), one = ig_dim_const(n->dims, 1);
    ig_value count = ig_build_shape_scalar(g, depth);
    ig_value none = ig_build_scalar_int(g, INGOT_I64, 0);
    index = ig_build_where(g, ig_lt(g, index, none), ig_add(g, index, count), index);
    index = ig_build_unsqueeze(g, index, &axis, 1);
    ig_value classes = ig_onnx_along(n, ig_build_iota(g, &depth, 1, 0), axis, rank);
    ig_value off = ig_build_reshape(g, ig_build_slice_axis(g, values, 0, zero, one, 1), NULL, 0);
    ig_value on = ig_build_reshape(g, ig_build_slice_axis(g, values, 0, one, one, 1), NULL, 0);
    return ig_build_where(g, ig_eq(g, index, classes), on, off);
}
