/* Steps that compute with small integers, on which all rewrites are exact; see random_graph.h. */
#include "support/random/random_graph.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

const char *const random_symbols[RANDOM_SYMBOLS] = {"batch", "length"};

int64_t random_pick(struct random_maker *m, int64_t count) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((m->state >> 33) % (uint64_t)count);
}

ig_dim random_dim(struct random_maker *m, int64_t value) {
    return ig_dim_const(m->g->dims, value);
}

int64_t random_size(struct random_maker *m, ig_dim dim) {
    int64_t value = 0;
    ig_dim symbols[RANDOM_SYMBOLS];
    for (int i = 0; i < RANDOM_SYMBOLS; i++)
        symbols[i] = ig_dim_symbol(m->g->dims, random_symbols[i]);
    assert_true(ig_dim_eval(m->g->dims, dim, symbols, m->sizes, RANDOM_SYMBOLS, &value));
    return value;
}

int64_t random_elements(struct random_maker *m, const struct ig_type *type) {
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++)
        count *= random_size(m, type->dim[i]);
    return count;
}

ig_value random_weights(struct random_maker *m, int rank, const int64_t *dims) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    float *numbers = IG_NEW_ARRAY(m->job, float, (size_t)count + 1);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(random_pick(m, 5) - 2);
    struct ig_data data = {.bytes = numbers, .size = (size_t)count * sizeof *numbers};
    if (random_pick(m, 2)) data.initializer = ig_format(m->job, "w%d", m->initializers++);
    return ig_build_constant(m->g, INGOT_F32, rank, dims, &data);
}

ig_value random_clamp(struct random_maker *m, ig_value v) {
    v = ig_map2(m->g, IG_OP_max, v, ig_build_scalar(m->g, INGOT_F32, -8));
    return ig_map2(m->g, IG_OP_min, ig_build_scalar(m->g, INGOT_F32, 8), v);
}

/* ---- Steps: each builds a value from x, or returns x if it does not apply --------------------------------------- */

static ig_value step_unary(struct random_maker *m, ig_value x) {
    switch (random_pick(m, 5)) {
    case 0: return ig_map1(m->g, IG_OP_neg, x);
    case 1: return ig_map1(m->g, IG_OP_abs, x);
    case 2: return ig_map2(m->g, IG_OP_max, x, ig_build_scalar(m->g, INGOT_F32, 0));
    case 3: return random_clamp(m, ig_map2(m->g, IG_OP_mul, ig_build_scalar(m->g, INGOT_F32, 2), x));
    default: return ig_map2(m->g, IG_OP_add, x, ig_build_scalar(m->g, INGOT_F32, (double)random_pick(m, 3) - 1));
    }
}

/* With a constant that broadcasts to x: some axes are 1, some leading axes are missing. */
static ig_value step_constant(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t dims[INGOT_MAX_RANK] = {0}, missing = type.rank ? random_pick(m, type.rank) : 0;
    for (int i = (int)missing; i < type.rank; i++) {
        if (!ig_dim_is_const(m->g->dims, type.dim[i], &dims[i - missing]) || random_pick(m, 2)) dims[i - missing] = 1;
    }
    ig_value c = random_weights(m, type.rank - (int)missing, dims);
    enum ig_op op = random_pick(m, 2) ? IG_OP_add : random_pick(m, 2) ? IG_OP_sub : IG_OP_mul;
    return random_clamp(m, random_pick(m, 2) ? ig_map2(m->g, op, x, c) : ig_map2(m->g, op, c, x));
}

static bool fits(struct random_maker *m, ig_value a, ig_value b) {
    const struct ig_type *x = ig_type_of(m->g, a), *y = ig_type_of(m->g, b);
    if (y->rank > x->rank) return false;
    for (int i = 1; i <= y->rank; i++) {
        ig_dim p = x->dim[x->rank - i], q = y->dim[y->rank - i];
        if (p != q && q != random_dim(m, 1)) return false;
    }
    return true;
}

static ig_value step_binary(struct random_maker *m, ig_value x) {
    for (int tries = 0; tries < 8; tries++) {
        ig_value y = m->pool.at[random_pick(m, m->pool.count)];
        if (!fits(m, x, y)) continue;
        if (random_pick(m, 4) == 0) return ig_build_where(m->g, ig_map2(m->g, IG_OP_lt, x, y), y, x);
        static const enum ig_op ops[] = {IG_OP_add, IG_OP_sub, IG_OP_mul, IG_OP_max};
        return random_clamp(m, ig_map2(m->g, ops[random_pick(m, 4)], x, y));
    }
    return x;
}

static ig_value step_transpose(struct random_maker *m, ig_value x) {
    int64_t perm[INGOT_MAX_RANK] = {0};
    int rank = ig_type_of(m->g, x)->rank;
    for (int i = 0; i < rank; i++) {
        int64_t j = random_pick(m, i + 1);
        perm[i] = perm[j];
        perm[j] = i;
    }
    return ig_build_transpose(m->g, x, perm);
}

/* Merges two axes, splits one, or inserts or removes an axis of size 1. */
static ig_value step_reshape(struct random_maker *m, ig_value x) {
    struct ig_type t = *ig_type_of(m->g, x);
    if (t.rank == 0) return x;
    int axis = (int)random_pick(m, t.rank);
    int64_t kind = random_pick(m, 4), size = 1;
    ig_dim dims[INGOT_MAX_RANK + 1];
    int rank = 0;
    bool is_number = ig_dim_is_const(m->g->dims, t.dim[axis], &size);
    for (int i = 0; i < t.rank; i++) {
        if (kind == 0 && i == axis && i + 1 < t.rank) {
            dims[rank++] = ig_dim_mul(m->g->dims, t.dim[i], t.dim[i + 1]);
            i++;
        } else if (kind == 1 && i == axis && is_number && size > 3 && size % 2 == 0) {
            int64_t part = random_pick(m, 2) ? 2 : size / 2;
            dims[rank++] = random_dim(m, part);
            dims[rank++] = random_dim(m, size / part);
        } else if (kind == 2 && i == axis && is_number && size == 1 && t.rank > 1) {
            continue;
        } else {
            if (kind == 3 && i == axis) dims[rank++] = random_dim(m, 1);
            dims[rank++] = t.dim[i];
        }
    }
    return rank <= 6 ? ig_build_reshape(m->g, x, dims, rank) : x;
}

static ig_value step_reduce(struct random_maker *m, ig_value x) {
    static const enum ig_op ops[] = {IG_OP_reduce_sum, IG_OP_reduce_max, IG_OP_reduce_min};
    int64_t axes[INGOT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < ig_type_of(m->g, x)->rank; i++) {
        if (random_pick(m, 3) == 0) axes[count++] = i;
    }
    return count ? random_clamp(m, ig_build_reduce(m->g, ops[random_pick(m, 3)], x, axes, count)) : x;
}

static ig_value step_slice(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t size;
    if (type.rank == 0) return x;
    int axis = (int)random_pick(m, type.rank);
    if (!ig_dim_is_const(m->g->dims, type.dim[axis], &size) || size < 2) return x;
    int64_t start = random_pick(m, size), step = 1 + random_pick(m, 2), count = (size - start + step - 1) / step;
    if (random_pick(m, 4) == 0)
        return ig_build_slice_axis(m->g, x, axis, random_dim(m, size - 1), random_dim(m, size), -1);
    return ig_build_slice_axis(m->g, x, axis, random_dim(m, start), random_dim(m, count), step);
}

static ig_value step_pad(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        before[i] = random_dim(m, random_pick(m, 4) == 0);
        after[i] = random_dim(m, random_pick(m, 4) == 0);
    }
    return ig_build_pad(m->g, x, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

static ig_value step_concat(struct random_maker *m, ig_value x) {
    int rank = ig_type_of(m->g, x)->rank;
    if (rank == 0) return x;
    ig_value parts[3] = {x, ig_map1(m->g, IG_OP_neg, x), x};
    return ig_build_concat(m->g, parts, 1 + (int)random_pick(m, 3), (int)random_pick(m, rank));
}

static ig_value step_gather(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t size, index[6], rank = random_pick(m, 3), dims[2] = {3, 2};
    if (type.rank == 0 || type.rank + rank > 6) return x;
    int axis = (int)random_pick(m, type.rank);
    if (!ig_dim_is_const(m->g->dims, type.dim[axis], &size) || size == 0) return x;
    for (int i = 0; i < 6; i++)
        index[i] = random_pick(m, 2) ? random_pick(m, size) : i % size;
    if (rank == 1) dims[0] = 1 + random_pick(m, size < 6 ? size : 6);
    struct ig_data data = {.bytes = ig_memdup(m->job, index, sizeof index), .size = sizeof index};
    data.size = sizeof *index * (size_t)(rank == 0 ? 1 : rank == 1 ? dims[0] : 6);
    return ig_build_gather(m->g, x, ig_build_constant(m->g, INGOT_I64, (int)rank, dims, &data), axis);
}

static ig_value step_broadcast(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    for (int i = 0; i < type.rank; i++) {
        if (type.dim[i] == random_dim(m, 1)) type.dim[i] = random_dim(m, 1 + random_pick(m, 3));
    }
    return ig_build_broadcast(m->g, x, type.dim, type.rank);
}

static ig_value step_matmul(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t dims[2], perm[INGOT_MAX_RANK];
    if (type.rank < 2 || !ig_dim_is_const(m->g->dims, type.dim[type.rank - 1], &dims[0])) return x;
    if (random_pick(m, 3)) {
        dims[1] = 1 + random_pick(m, 5);
        return random_clamp(m, ig_build_matmul(m->g, x, random_weights(m, 2, dims), INGOT_F32));
    }
    for (int i = 0; i < type.rank; i++)
        perm[i] = i < type.rank - 2 ? i : 2 * type.rank - 3 - i;
    return random_clamp(m, ig_build_matmul(m->g, x, ig_build_transpose(m->g, x, perm), INGOT_F32));
}

/* With weights of these dims and sometimes a bias; strides and dilations are 1. */
static ig_value conv(struct random_maker *m, ig_value x, const int64_t *dims, const ig_dim *before, const ig_dim *after,
                     int64_t groups) {
    static const int64_t ones[] = {1, 1};
    int rank = ig_type_of(m->g, x)->rank, spatial = rank - 2;
    struct ig_attr attrs[] = {
        ig_attr_of_ints(ones, spatial),
        ig_attr_of_ints(ones, spatial),
        ig_attr_of_dims(before, spatial),
        ig_attr_of_dims(after, spatial),
        ig_attr_of_int(groups),
        ig_attr_of_dtype(INGOT_F32),
        ig_attr_of_int(0),
        ig_attr_of_int(0),
        ig_attr_of_int(dims[0]),
        ig_attr_of_ints(dims + 2, spatial),
        ig_attr_of_int(IG_MATH_EXACT),
        ig_attr_of_int(0), /* border */
    };
    ig_value in[3] = {x, random_weights(m, rank, dims), random_weights(m, 1, dims)};
    return ig_build_node(m->g, IG_OP_conv, in, 2 + (uint32_t)random_pick(m, 2), 1, attrs, NULL);
}

static ig_value make_conv(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t channels, dims[INGOT_MAX_RANK];
    if (type.rank < 3 || type.rank > 4 || !ig_dim_is_const(m->g->dims, type.dim[1], &channels)) return x;
    int spatial = type.rank - 2;
    int64_t groups = random_pick(m, 3) == 0 ? channels : channels % 2 == 0 && random_pick(m, 2) ? 2 : 1;
    ig_dim border[2] = {random_dim(m, 0), random_dim(m, 0)};
    dims[0] = groups == channels && random_pick(m, 2) ? channels : groups * (1 + random_pick(m, 3));
    dims[1] = channels / groups;
    for (int i = 0; i < spatial; i++) {
        dims[2 + i] = random_pick(m, 2) ? 3 : 1;
        if (dims[2 + i] == 3) border[i] = random_dim(m, 1);
    }
    return conv(m, x, dims, border, border, groups);
}

static ig_value step_conv(struct random_maker *m, ig_value x) {
    return random_clamp(m, make_conv(m, x));
}

static ig_value step_pool(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    if (type.rank != 4) return x;
    int64_t kernel[2], ones[2] = {1, 1}, h, w;
    if (!ig_dim_is_const(m->g->dims, type.dim[2], &h) || !ig_dim_is_const(m->g->dims, type.dim[3], &w)) return x;
    kernel[0] = 1 + random_pick(m, h);
    kernel[1] = random_pick(m, 2) ? w : 1;
    ig_dim zeros[2] = {random_dim(m, 0), random_dim(m, 0)};
    ig_dim sizes[2] = {random_dim(m, h - kernel[0] + 1), random_dim(m, w - kernel[1] + 1)};
    struct ig_attr attrs[] = {ig_attr_of_ints(kernel, 2), ig_attr_of_ints(ones, 2),  ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(zeros, 2),  ig_attr_of_dims(sizes, 2), ig_attr_of_int(0)};
    enum ig_op op = random_pick(m, 2) ? IG_OP_pool_max : IG_OP_pool_sum;
    return random_clamp(m, ig_build_node(m->g, op, &x, 1, 1, attrs, NULL));
}

/* Products of one value with several weights, which only views read, perhaps after a scale. */
static ig_value step_heads(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t dims[2] = {0, 3};
    ig_value heads[3];
    if (type.rank < 2 || type.rank > 4 || !ig_dim_is_const(m->g->dims, type.dim[type.rank - 1], &dims[0])) return x;
    bool biased = random_pick(m, 2);
    for (int i = 0; i < 3; i++) {
        ig_value y = ig_build_matmul(m->g, x, random_weights(m, 2, dims), INGOT_F32);
        if (biased) y = ig_map2(m->g, IG_OP_add, y, random_weights(m, 1, &dims[1]));
        if (random_pick(m, 2)) y = ig_map2(m->g, IG_OP_mul, y, ig_build_scalar(m->g, INGOT_F32, 2));
        int axis = type.rank - 1;
        heads[i] = ig_build_slice_axis(m->g, y, axis, random_dim(m, 1), random_dim(m, 2), 1);
    }
    ig_value sum = ig_map2(m->g, IG_OP_add, heads[0], ig_map2(m->g, IG_OP_mul, heads[1], heads[2]));
    return random_clamp(m, sum);
}

/* A scale, a shift or both before or after a convolution. */
static ig_value step_norm(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t dims[INGOT_MAX_RANK] = {1, 1, 1, 1};
    if (type.rank < 3 || type.rank > 4 || !ig_dim_is_const(m->g->dims, type.dim[1], &dims[1])) return x;
    if (random_pick(m, 2)) x = ig_map2(m->g, IG_OP_mul, x, random_weights(m, type.rank, dims));
    if (random_pick(m, 2)) x = ig_map2(m->g, IG_OP_add, x, random_weights(m, type.rank - 1, dims + 1));
    return x;
}

/* norm, convolution, norm, with nothing in between */
static ig_value step_normed_conv(struct random_maker *m, ig_value x) {
    return random_clamp(m, step_norm(m, make_conv(m, step_norm(m, x))));
}

/* Inserts zeros between neighbours of a spatial axis, in the importer's form. */
static ig_value spread(struct random_maker *m, ig_value x, int axis, int64_t stride) {
    struct ig_type t = *ig_type_of(m->g, x);
    struct ig_dims *dims = m->g->dims;
    ig_dim zero = random_dim(m, 0), none[4] = {zero, zero, zero, zero},
           gap[4] = {zero, zero, random_dim(m, stride - 1), zero};
    ig_dim apart[4] = {ig_dim_product(dims, t.dim, axis), t.dim[axis], random_dim(m, 1),
                       ig_dim_product(dims, t.dim + axis + 1, t.rank - axis - 1)};
    ig_dim size = ig_dim_sub(dims, ig_dim_mul(dims, t.dim[axis], random_dim(m, stride)), random_dim(m, stride - 1));
    if (stride == 1) return x;
    x = ig_build_pad(m->g, ig_build_reshape(m->g, x, apart, 4), none, gap, IG_PAD_CONSTANT, IG_NO_VALUE);
    t.dim[axis] = ig_dim_mul(dims, t.dim[axis], random_dim(m, stride));
    return ig_build_slice_axis(m->g, ig_build_reshape(m->g, x, t.dim, t.rank), axis, zero, size, 1);
}

/* A transposed convolution with any stride, kernel and padding. */
static ig_value step_transposed_conv(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t dims[4];
    ig_dim before[2], after[2];
    int spatial = type.rank - 2;
    if (type.rank < 3 || type.rank > 4 || !ig_dim_is_const(m->g->dims, type.dim[1], &dims[1])) return x;
    dims[0] = 1 + random_pick(m, 3);
    for (int i = 0; i < spatial; i++) {
        int64_t size;
        if (!ig_dim_is_const(m->g->dims, type.dim[2 + i], &size)) return x;
        dims[2 + i] = 1 + random_pick(m, 4);
        before[i] = random_dim(m, random_pick(m, dims[2 + i]));
        after[i] = random_dim(m, dims[2 + i] - 1 + random_pick(m, 2)); /* the kernel never exceeds the padded input */
        x = spread(m, x, 2 + i, 1 + random_pick(m, 3));
    }
    return random_clamp(m, conv(m, x, dims, before, after, 1));
}

/* Elementwise operators and reductions directly after views of a computed value. */
static ig_value step_behind_views(struct random_maker *m, ig_value x) {
    x = step_reshape(m, step_transpose(m, step_unary(m, x)));
    if (random_pick(m, 2)) x = step_reshape(m, x);
    x = step_constant(m, x);
    return random_pick(m, 2) ? step_reduce(m, x) : step_reshape(m, x);
}

/* A product of scaled operands, with views between the scale and the product. */
static ig_value step_scaled_product(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t perm[INGOT_MAX_RANK];
    if (type.rank < 2) return x;
    for (int i = 0; i < type.rank; i++)
        perm[i] = i < type.rank - 2 ? i : 2 * type.rank - 3 - i;
    ig_value a = ig_map2(m->g, IG_OP_mul, x, ig_build_scalar(m->g, INGOT_F32, 3));
    ig_value b = ig_map2(m->g, IG_OP_mul, ig_map1(m->g, IG_OP_neg, x), ig_build_scalar(m->g, INGOT_F32, 2));
    return random_clamp(m, ig_build_matmul(m->g, a, ig_build_transpose(m->g, b, perm), INGOT_F32));
}

/* Parts of x that lie in one piece, as the layers' of stacked caches do: computed apart, and together again. */
static ig_value step_parts(struct random_maker *m, ig_value x) {
    struct ig_type type = *ig_type_of(m->g, x);
    int64_t size = 1;
    int axis = 0;
    while (axis < type.rank && ig_dim_is_const(m->g->dims, type.dim[axis], &size) && size == 1)
        axis++;
    if (axis == type.rank || size < 2 || !ig_dim_is_const(m->g->dims, type.dim[axis], &size)) return x;
    if (random_pick(m, 2)) x = step_unary(m, x);
    int64_t count = 1 + random_pick(m, size / 2), second = random_pick(m, size - count + 1);
    ig_value a = ig_build_slice_axis(m->g, x, axis, random_dim(m, size - count), random_dim(m, count), 1);
    ig_value b = ig_build_slice_axis(m->g, x, axis, random_dim(m, second), random_dim(m, count), 1);
    return random_clamp(m, ig_map2(m->g, IG_OP_add, random_pick(m, 2) ? step_reduce(m, a) : a, step_unary(m, b)));
}

const random_step random_plain_steps[] = {
    step_unary,        step_constant,       step_binary,          step_transpose,   step_transpose,
    step_reshape,      step_reshape,        step_slice,           step_pad,         step_concat,
    step_gather,       step_broadcast,      step_reduce,          step_matmul,      step_conv,
    step_conv,         step_pool,           step_heads,           step_normed_conv, step_behind_views,
    step_behind_views, step_scaled_product, step_transposed_conv, step_parts,
};

const int random_plain_step_count = sizeof random_plain_steps / sizeof *random_plain_steps;
