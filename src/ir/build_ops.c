/* Builder functions for common operators. See build.h. */
#include <string.h>

#include "base/narrow.h"
#include "ir/build_node.h"
#include "ir/eval/eval.h"

/* ---- Attributes */

struct ig_attr ig_attr_of_int(int64_t i) {
    return (struct ig_attr){.kind = IG_KIND_INT, .i = i};
}

struct ig_attr ig_attr_of_float(double f) {
    return (struct ig_attr){.kind = IG_KIND_FLOAT, .f = f};
}

struct ig_attr ig_attr_of_ints(const int64_t *ints, int count) {
    return (struct ig_attr){.kind = IG_KIND_INTS, .count = count, .ints = ints};
}

struct ig_attr ig_attr_of_floats(const double *floats, int count) {
    return (struct ig_attr){.kind = IG_KIND_FLOATS, .count = count, .floats = floats};
}

struct ig_attr ig_attr_of_dim(ig_dim dim) {
    return (struct ig_attr){.kind = IG_KIND_DIM, .dim = dim};
}

struct ig_attr ig_attr_of_dims(const ig_dim *dims, int count) {
    return (struct ig_attr){.kind = IG_KIND_DIMS, .count = count, .dims = dims};
}

struct ig_attr ig_attr_of_dtype(enum ingot_dtype dtype) {
    return (struct ig_attr){.kind = IG_KIND_DTYPE, .i = dtype};
}

struct ig_attr *ig_attrs_with_dims(struct ig_job *job, const struct ig_node *node,
                                   ig_dim (*other)(const void *user, ig_dim dim), const void *user) {
    int count = ig_op_info(node->op)->n_attrs;
    struct ig_attr *attrs = IG_NEW_ARRAY(job, struct ig_attr, (size_t)count + 1);
    for (int i = 0; i < count; i++) {
        attrs[i] = node->attr[i];
        if (attrs[i].kind == IG_KIND_DIM && attrs[i].dim != IG_DIM_NONE) attrs[i].dim = other(user, attrs[i].dim);
        if (attrs[i].kind != IG_KIND_DIMS) continue;
        ig_dim *dims = IG_NEW_ARRAY(job, ig_dim, (size_t)attrs[i].count + 1);
        for (int k = 0; k < attrs[i].count; k++)
            dims[k] = node->attr[i].dims[k] == IG_DIM_NONE ? IG_DIM_NONE : other(user, node->attr[i].dims[k]);
        attrs[i].dims = dims;
    }
    return attrs;
}

/* ---- Constants */

ig_value ig_build_constant(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims,
                           const struct ig_data *data) {
    struct ig_type type = {.dtype = dtype, .rank = rank};
    if (rank < 0 || rank > INGOT_MAX_RANK)
        ig_raise(g->job, INGOT_UNSUPPORTED, "a constant has rank %d, at most %d is possible", rank, INGOT_MAX_RANK);
    for (int i = 0; i < rank; i++)
        type.dim[i] = ig_dim_const(g->dims, dims[i]);
    return ig_build_typed_constant(g, &type, data);
}

static ig_value build_scalar_bytes(struct ig_graph *g, enum ingot_dtype dtype, const void *bytes) {
    size_t size = ingot_dtype_size(dtype);
    struct ig_data data = {.bytes = ig_memdup(g->job, bytes, size), .size = size};
    return ig_build_constant(g, dtype, 0, NULL, &data);
}

ig_value ig_build_scalar(struct ig_graph *g, enum ingot_dtype dtype, double value) {
    uint64_t bytes = 0;
    ig_store_f64(dtype, &bytes, 0, value);
    return build_scalar_bytes(g, dtype, &bytes);
}

ig_value ig_build_scalar_int(struct ig_graph *g, enum ingot_dtype dtype, int64_t value) {
    uint64_t bytes = 0;
    ig_store_i64(dtype, &bytes, 0, value);
    return build_scalar_bytes(g, dtype, &bytes);
}

ig_value ig_build_i64s(struct ig_graph *g, const int64_t *values, int count) {
    int64_t dims[1] = {count};
    size_t size = (size_t)count * sizeof *values;
    struct ig_data data = {.bytes = ig_memdup(g->job, values, size), .size = size};
    return ig_build_constant(g, INGOT_I64, 1, dims, &data);
}

ig_value ig_build_shape(struct ig_graph *g, const ig_dim *values, int count) {
    struct ig_attr attrs[2] = {ig_attr_of_dims(values, count), ig_attr_of_int(0)};
    return ig_build_node(g, IG_OP_shape, NULL, 0, 1, attrs, NULL);
}

ig_value ig_build_shape_scalar(struct ig_graph *g, ig_dim value) {
    struct ig_attr attrs[2] = {ig_attr_of_dims(&value, 1), ig_attr_of_int(1)};
    return ig_build_node(g, IG_OP_shape, NULL, 0, 1, attrs, NULL);
}

ig_value ig_build_iota(struct ig_graph *g, const ig_dim *dims, int rank, int axis) {
    struct ig_attr attrs[2] = {ig_attr_of_dims(dims, rank), ig_attr_of_int(axis)};
    return ig_build_node(g, IG_OP_iota, NULL, 0, 1, attrs, NULL);
}

/* ---- Elementwise */

ig_value ig_map1(struct ig_graph *g, enum ig_op op, ig_value a) {
    return ig_build_node(g, op, &a, 1, 1, NULL, NULL);
}

ig_value ig_map2(struct ig_graph *g, enum ig_op op, ig_value a, ig_value b) {
    ig_value in[2] = {a, b};
    return ig_build_node(g, op, in, 2, 1, NULL, NULL);
}

ig_value ig_build_where(struct ig_graph *g, ig_value condition, ig_value a, ig_value b) {
    ig_value in[3] = {condition, a, b};
    return ig_build_node(g, IG_OP_where, in, 3, 1, NULL, NULL);
}

static ig_value build_cast(struct ig_graph *g, ig_value a, enum ingot_dtype to, bool saturate);

/* To a narrow integer type, by way of i8 or u8. */
static ig_value build_narrow_int(struct ig_graph *g, ig_value a, enum ingot_dtype to, bool saturate) {
    enum ingot_dtype beside = ig_dtype_beside(to);
    a = build_cast(g, a, beside, saturate);
    if (saturate) {
        int highest = (1 << (ig_narrow_bits(to) - (beside == INGOT_I8))) - 1;
        a = ig_map2(g, IG_OP_min, a, ig_build_scalar_int(g, beside, highest));
        if (beside == INGOT_I8) a = ig_map2(g, IG_OP_max, a, ig_build_scalar_int(g, beside, -highest - 1));
    }
    return a;
}

static ig_value build_cast(struct ig_graph *g, ig_value a, enum ingot_dtype to, bool saturate) {
    enum ingot_dtype from = ig_type_of(g, a)->dtype;
    if (from == to) return a;
    if (ig_dtype_is_narrow(from) && to != ig_dtype_beside(from)) {
        a = build_cast(g, a, ig_dtype_beside(from), false);
    } else if (ig_dtype_is_narrow(from)) {
        saturate = false; /* every value fits */
    }
    if (ig_narrow_is_float(to)) {
        bool is_direct = from == INGOT_F64 && ig_dtype_rounds_f64(to);
        if (!is_direct) a = build_cast(g, a, INGOT_F32, false);
    } else if (ig_dtype_is_narrow(to)) {
        a = build_narrow_int(g, a, to, saturate);
        saturate = false;
    }
    struct ig_attr attrs[2] = {ig_attr_of_dtype(to), ig_attr_of_int(saturate)};
    return ig_build_node(g, IG_OP_cast, &a, 1, 1, attrs, NULL);
}

ig_value ig_build_cast(struct ig_graph *g, ig_value a, enum ingot_dtype to) {
    return build_cast(g, a, to, false);
}

ig_value ig_build_cast_saturating(struct ig_graph *g, ig_value a, enum ingot_dtype to) {
    return build_cast(g, a, to, true);
}

/* ---- Views and movement */

ig_value ig_build_reshape(struct ig_graph *g, ig_value a, const ig_dim *dims, int rank) {
    struct ig_attr attr = ig_attr_of_dims(dims, rank);
    return ig_build_node(g, IG_OP_reshape, &a, 1, 1, &attr, NULL);
}

ig_value ig_build_transpose(struct ig_graph *g, ig_value a, const int64_t *perm) {
    struct ig_attr attr = ig_attr_of_ints(perm, ig_type_of(g, a)->rank);
    return ig_build_node(g, IG_OP_transpose, &a, 1, 1, &attr, NULL);
}

ig_value ig_build_broadcast(struct ig_graph *g, ig_value a, const ig_dim *dims, int rank) {
    struct ig_attr attr = ig_attr_of_dims(dims, rank);
    return ig_build_node(g, IG_OP_broadcast, &a, 1, 1, &attr, NULL);
}

ig_value ig_build_slice(struct ig_graph *g, ig_value a, const ig_dim *starts, const ig_dim *sizes,
                        const int64_t *steps) {
    int rank = ig_type_of(g, a)->rank;
    struct ig_attr attrs[3] = {ig_attr_of_dims(starts, rank), ig_attr_of_dims(sizes, rank),
                               ig_attr_of_ints(steps, rank)};
    return ig_build_node(g, IG_OP_slice, &a, 1, 1, attrs, NULL);
}

ig_value ig_build_slice_axis(struct ig_graph *g, ig_value a, int axis, ig_dim start, ig_dim size, int64_t step) {
    struct ig_type type = *ig_type_of(g, a);
    ig_dim starts[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        starts[i] = i == axis ? start : ig_dim_const(g->dims, 0);
        steps[i] = i == axis ? step : 1;
        if (i == axis) type.dim[i] = size;
    }
    return ig_build_slice(g, a, starts, type.dim, steps);
}

ig_value ig_build_pad(struct ig_graph *g, ig_value a, const ig_dim *before, const ig_dim *after, enum ig_pad_mode mode,
                      ig_value value) {
    int rank = ig_type_of(g, a)->rank;
    ig_value in[2] = {a, value};
    struct ig_attr attrs[3] = {ig_attr_of_dims(before, rank), ig_attr_of_dims(after, rank), ig_attr_of_int(mode)};
    return ig_build_node(g, IG_OP_pad, in, value == IG_NO_VALUE ? 1 : 2, 1, attrs, NULL);
}

ig_value ig_build_pad_end(struct ig_graph *g, ig_value a, int axis, int64_t count) {
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    if (count == 0) return a;
    for (int i = 0; i < ig_type_of(g, a)->rank; i++)
        before[i] = after[i] = ig_dim_const(g->dims, 0);
    after[axis] = ig_dim_const(g->dims, count);
    return ig_build_pad(g, a, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

ig_value ig_build_concat(struct ig_graph *g, const ig_value *parts, int count, int axis) {
    struct ig_attr attr = ig_attr_of_int(axis);
    return ig_build_node(g, IG_OP_concat, parts, (uint32_t)count, 1, &attr, NULL);
}

ig_value ig_build_gather(struct ig_graph *g, ig_value a, ig_value index, int axis) {
    ig_value in[2] = {a, index};
    struct ig_attr attr = ig_attr_of_int(axis);
    return ig_build_node(g, IG_OP_gather, in, 2, 1, &attr, NULL);
}

/* Axes as a bit set; raises on axes out of range and duplicates. */
static unsigned axis_set(struct ig_graph *g, const char *what, const int *axes, int count, int rank) {
    unsigned set = 0;
    if (rank > INGOT_MAX_RANK)
        ig_raise(g->job, INGOT_UNSUPPORTED, "%s: rank %d is over %d", what, rank, INGOT_MAX_RANK);
    for (int i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= rank || (set >> axes[i] & 1))
            ig_raise(g->job, INGOT_BAD_MODEL, "%s: axis %d is outside of rank %d, or occurs twice", what, axes[i],
                     rank);
        set |= 1u << axes[i];
    }
    return set;
}

ig_value ig_build_unsqueeze(struct ig_graph *g, ig_value a, const int *axes, int count) {
    struct ig_type type = *ig_type_of(g, a);
    ig_dim dims[INGOT_MAX_RANK];
    int rank = type.rank + count;
    unsigned set = axis_set(g, "unsqueeze", axes, count, rank);
    for (int i = 0, from = 0; i < rank; i++)
        dims[i] = set >> i & 1 ? ig_dim_const(g->dims, 1) : type.dim[from++];
    return ig_build_reshape(g, a, dims, rank);
}

ig_value ig_build_squeeze(struct ig_graph *g, ig_value a, const int *axes, int count) {
    struct ig_type type = *ig_type_of(g, a);
    ig_dim dims[INGOT_MAX_RANK];
    int rank = 0;
    unsigned set = axis_set(g, "squeeze", axes, count, type.rank);
    for (int i = 0; i < type.rank; i++) {
        if (!(set >> i & 1))
            dims[rank++] = type.dim[i];
        else if (ig_dim_equal(g->dims, type.dim[i], ig_dim_const(g->dims, 1)) == IG_NO)
            ig_raise(g->job, INGOT_BAD_MODEL, "squeeze: axis %d has size %s, expected 1", i,
                     ig_dim_text(g->dims, type.dim[i]));
    }
    return ig_build_reshape(g, a, dims, rank);
}

/* ---- Reductions and contractions */

ig_value ig_build_reduce(struct ig_graph *g, enum ig_op op, ig_value a, const int64_t *axes, int count) {
    struct ig_attr attr = ig_attr_of_ints(axes, count);
    return ig_build_node(g, op, &a, 1, 1, &attr, NULL);
}

ig_value ig_build_matmul(struct ig_graph *g, ig_value a, ig_value b, enum ingot_dtype acc) {
    ig_value in[2] = {a, b};
    struct ig_attr attrs[4] = {ig_attr_of_dtype(acc), ig_attr_of_int(0), ig_attr_of_int(0), ig_attr_of_int(0)};
    return ig_build_node(g, IG_OP_matmul, in, 2, 1, attrs, NULL);
}

ig_value ig_build_matmul_scaled(struct ig_graph *g, ig_value a, ig_value b, ig_value row_scales, ig_value column_scales,
                                int64_t block, int64_t columns) {
    ig_value in[4] = {a, b, row_scales, column_scales};
    struct ig_attr attrs[3] = {ig_attr_of_dtype(INGOT_F32), ig_attr_of_int(block), ig_attr_of_int(columns)};
    return ig_build_node(g, IG_OP_matmul_scaled, in, 4, 1, attrs, NULL);
}

/* ---- Queries on values */

static bool element_count(struct ig_graph *g, ig_value value, int64_t *out_count) {
    return ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, value)), out_count);
}

bool ig_elements(struct ig_graph *g, ig_value value, const ig_dim **out_elements, int *out_count) {
    const ig_dim *elements = ig_info(g, value)->elements;
    int64_t count;
    if (elements == NULL || !element_count(g, value, &count)) return false;
    ig_const_decides(g, value);
    for (int64_t i = 0; i < count; i++) {
        if (elements[i] == IG_DIM_NONE) return false;
    }
    *out_elements = elements;
    *out_count = (int)count;
    return true;
}

bool ig_const_ints(struct ig_graph *g, ig_value value, int64_t *out, int capacity, int *out_count) {
    const ig_dim *elements;
    int64_t count;
    struct ig_type type = *ig_type_of(g, value);
    if (!ig_dtype_is_integer(type.dtype) && type.dtype != INGOT_BOOL) return false;
    if (!element_count(g, value, &count) || count > capacity) return false;
    *out_count = (int)count;
    if (ig_elements(g, value, &elements, out_count)) {
        for (int i = 0; i < *out_count; i++) {
            if (!ig_dim_is_const(g->dims, elements[i], &out[i])) return false;
        }
        return true;
    }
    if (!ig_info(g, value)->is_const) return false;
    struct ingot_tensor tensor = ig_const_tensor(g, value);
    for (int64_t i = 0; i < count; i++)
        out[i] = ig_load_i64(type.dtype, tensor.data, i);
    ig_const_release(g, value, &tensor);
    return true;
}

bool ig_const_scalar(struct ig_graph *g, ig_value value, double *out) {
    int64_t count;
    if (!ig_info(g, value)->is_const || !element_count(g, value, &count) || count != 1) return false;
    struct ingot_tensor tensor = ig_const_tensor(g, value);
    *out = ig_load_f64(tensor.dtype, tensor.data, 0);
    ig_const_release(g, value, &tensor);
    return true;
}

/* ---- Collectives */

ig_value ig_build_all_reduce(struct ig_graph *g, ig_value a, int64_t number, int ranks, enum ig_reduction reduction) {
    const struct ig_attr attrs[] = {ig_attr_of_int(number), ig_attr_of_int(ranks), ig_attr_of_int(reduction)};
    return ig_build_node(g, IG_OP_all_reduce, &a, 1, 1, attrs, NULL);
}

ig_value ig_build_all_gather(struct ig_graph *g, ig_value a, int64_t number, int rank, int axis, const ig_dim *parts,
                             int ranks) {
    const struct ig_attr attrs[] = {ig_attr_of_int(number), ig_attr_of_int(rank), ig_attr_of_int(axis),
                                    ig_attr_of_dims(parts, ranks)};
    return ig_build_node(g, IG_OP_all_gather, &a, 1, 1, attrs, NULL);
}

ig_value ig_build_all_to_all(struct ig_graph *g, ig_value a, int64_t number, int ranks) {
    const struct ig_attr attrs[] = {ig_attr_of_int(number), ig_attr_of_int(ranks)};
    return ig_build_node(g, IG_OP_all_to_all, &a, 1, 1, attrs, NULL);
}

ig_value ig_build_reduce_scatter(struct ig_graph *g, ig_value a, int64_t number, int rank, int axis,
                                 const ig_dim *parts, int ranks, enum ig_reduction reduction) {
    const struct ig_attr attrs[] = {ig_attr_of_int(number), ig_attr_of_int(rank), ig_attr_of_int(axis),
                                    ig_attr_of_dims(parts, ranks), ig_attr_of_int(reduction)};
    return ig_build_node(g, IG_OP_reduce_scatter, &a, 1, 1, attrs, NULL);
}
