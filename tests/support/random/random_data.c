/* Steps of random networks about numbers and places: quantised, indexed, sorted, whole, resized; see random_network.h. */
#include <math.h>

#include "support/random/random_steps.h"

/* An axis whose size is a number above zero. */
static bool known_axis(struct random_maker *m, const struct ig_type *t, int *out_axis, int64_t *out_size) {
    if (t->rank == 0) return false;
    *out_axis = (int)random_pick(m, t->rank);
    return ig_dim_is_const(m->g->dims, t->dim[*out_axis], out_size) && *out_size > 0;
}

/* ---- Quantisation -------------------------------------------------------------------------------------------------------- */

/* One number of the few, or one for each place of an axis of x. */
static ig_value parameter(struct random_maker *m, const struct ig_type *t, const float *few, int count) {
    int64_t dims[RANDOM_MAX_RANK], size;
    int axis;
    if (random_pick(m, 2) || !known_axis(m, t, &axis, &size)) return scalar(m, (double)few[random_pick(m, count)]);
    float *numbers = IG_NEW_ARRAY(m->job, float, (size_t)size);
    for (int64_t i = 0; i < size; i++)
        numbers[i] = few[random_pick(m, count)];
    for (int i = axis; i < t->rank; i++)
        dims[i - axis] = i == axis ? size : 1;
    struct ig_data data = {.bytes = numbers, .size = (size_t)size * sizeof *numbers};
    return ig_build_constant(m->g, INGOT_F32, t->rank - axis, dims, &data);
}

static ig_value zero_point(struct random_maker *m, const struct ig_type *t) {
    static const float zeros[] = {0, 3, 7, 1};
    return parameter(m, t, zeros, 4);
}

/* x / scale + zero, rounded, in eight or sixteen bits. */
static ig_value quantised(struct random_maker *m, ig_value x, ig_value zero) {
    static const enum ingot_dtype types[] = {INGOT_I8, INGOT_U8, INGOT_U8, INGOT_I16, INGOT_U16};
    static const float scales[] = {0.5f, 1, 2, 4};
    struct ig_type t = type_of(m, x);
    ig_value y = ig_map1(m->g, IG_OP_round, map2(m, IG_OP_div, x, parameter(m, &t, scales, 4)));
    return ig_build_cast_saturating(m->g, map2(m, IG_OP_add, y, zero), types[random_pick(m, 5)]);
}

/* There and back, with a movement or the larger of both on the way. */
static ig_value step_quantise(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    if (!m->exact) return x;
    ig_value zero = zero_point(m, &t), q = quantised(m, x, zero);
    ig_value small = ig_build_cast_saturating(m->g, zero, ig_type_of(m->g, q)->dtype);
    if (random_pick(m, 3) == 0) q = map2(m, IG_OP_max, q, small);
    if (random_pick(m, 3) == 0 && t.rank > 0) {
        ig_value parts[2] = {q, q};
        q = ig_build_concat(m->g, parts, 2, t.rank - 1);
        q = ig_build_slice_axis(m->g, q, t.rank - 1, random_dim(m, 0), t.dim[t.rank - 1], 2);
    }
    ig_value back = map2(m, IG_OP_sub, to_float(m, q), random_pick(m, 2) ? zero : to_float(m, small));
    return random_clamp(m, map2(m, IG_OP_mul, back, scalar(m, (double)(1 + random_pick(m, 2)))));
}

static ig_value centred(struct random_maker *m, ig_value q, ig_value zero) {
    ig_value wide = ig_build_cast(m->g, q, INGOT_I32);
    return random_pick(m, 3) ? map2(m, IG_OP_sub, wide, ig_build_cast(m->g, zero, INGOT_I32)) : wide;
}

/* Weights in eight bits, some less a zero point. */
static ig_value small_weights(struct random_maker *m, int rank, const int64_t *dims) {
    ig_value w = ig_build_cast(m->g, random_weights(m, rank, dims), INGOT_I8);
    return centred(m, w, scalar(m, 1));
}

/* An i32 sum, rescaled and rounded to eight bits, or taken as it is. */
static ig_value rescaled(struct random_maker *m, ig_value sum) {
    struct ig_type t = type_of(m, sum);
    ig_value y = to_float(m, map2(m, IG_OP_mod, sum, ig_build_scalar_int(m->g, INGOT_I32, 251)));
    if (random_pick(m, 3) == 0) return random_clamp(m, y);
    ig_value zero = zero_point(m, &t), q = quantised(m, map2(m, IG_OP_mul, y, scalar(m, 0.125)), zero);
    return random_clamp(m, map2(m, IG_OP_sub, to_float(m, q), zero));
}

static ig_value step_quantised_matmul(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int64_t k;
    if (t.rank < 2 || !m->exact || !ig_dim_is_const(m->g->dims, t.dim[t.rank - 1], &k) || k == 0) return x;
    int64_t dims[2] = {k, random_odd_size(m)};
    ig_value zero = scalar(m, (double)random_pick(m, 4)), a = centred(m, quantised(m, x, zero), zero);
    ig_value y = ig_build_matmul(m->g, a, small_weights(m, 2, dims), INGOT_I32);
    return rescaled(m, y);
}

static ig_value step_quantised_conv(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int spatial = t.rank - 2;
    int64_t channels, dims[5], ones[] = {1, 1, 1}, steps[3];
    if (t.rank < 3 || t.rank > 5 || !m->exact || !ig_dim_is_const(m->g->dims, t.dim[1], &channels) || channels == 0)
        return x;
    bool deep = random_pick(m, 3) == 0;
    ig_dim border[3];
    dims[0] = deep ? channels : random_odd_size(m);
    dims[1] = deep ? 1 : channels;
    for (int i = 0; i < spatial; i++) {
        dims[2 + i] = random_pick(m, 2) ? 3 : 1;
        border[i] = random_dim(m, dims[2 + i] / 2);
        steps[i] = 1 + random_pick(m, 2);
    }
    struct ig_attr attrs[] = {ig_attr_of_ints(steps, spatial),
                              ig_attr_of_ints(ones, spatial),
                              ig_attr_of_dims(border, spatial),
                              ig_attr_of_dims(border, spatial),
                              ig_attr_of_int(deep ? channels : 1),
                              ig_attr_of_dtype(INGOT_I32),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(dims[0]),
                              ig_attr_of_ints(dims + 2, spatial),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value zero = scalar(m, (double)random_pick(m, 4));
    ig_value in[3] = {centred(m, quantised(m, x, zero), zero), small_weights(m, t.rank, dims),
                      ig_build_cast(m->g, random_weights(m, 1, dims), INGOT_I32)};
    return rescaled(m, ig_build_node(m->g, IG_OP_conv, in, 2 + (uint32_t)random_pick(m, 2), 1, attrs, NULL));
}

/* ---- Places -------------------------------------------------------------------------------------------------------------- */

/* Any order of an axis: where its sorted elements were. Each place comes once. */
static ig_value order(struct random_maker *m, ig_value x, int axis, ig_value *out_values) {
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_dim(ig_type_of(m->g, x)->dim[axis]),
                              ig_attr_of_int(random_pick(m, 2))};
    ig_value v = ig_build_node(m->g, IG_OP_topk, &x, 1, 2, attrs, NULL);
    *out_values = v;
    return v + 1;
}

/* Sorted as it is or as integers, along an axis of any size. */
static ig_value step_sort(struct random_maker *m, ig_value x) {
    static const enum ingot_dtype types[] = {INGOT_F32, INGOT_I32, INGOT_I64, INGOT_U8, INGOT_F32};
    struct ig_type t = type_of(m, x);
    ig_value sorted;
    if (t.rank == 0 || !m->exact) return x;
    int axis = (int)random_pick(m, t.rank);
    ig_value places = order(m, ig_build_cast(m->g, x, types[random_pick(m, 5)]), axis, &sorted);
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_int(IG_SCATTER_SET)};
    ig_value in[3] = {x, places, map2(m, IG_OP_sub, x, scalar(m, 1))};
    switch (random_pick(m, 4)) {
    case 0: return random_clamp(m, to_float(m, sorted));
    case 1: return random_clamp(m, to_float(m, places));
    case 2: return ig_build_node(m->g, IG_OP_gather_elements, in, 2, 1, attrs, NULL);
    default: return random_clamp(m, ig_build_node(m->g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL));
    }
}

static int64_t any_reduction(struct random_maker *m) {
    static const int64_t reductions[] = {IG_SCATTER_ADD, IG_SCATTER_MAX, IG_SCATTER_MIN};
    return reductions[random_pick(m, 3)];
}

/* Fewer updates than there are elements, some of which share a place or have one outside. */
static ig_value step_scatter(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int64_t size;
    int axis;
    if (!m->exact || !known_axis(m, &t, &axis, &size)) return x;
    enum ingot_dtype type = random_pick(m, 2) ? INGOT_I64 : INGOT_I32;
    ig_value part = ig_build_slice_axis(m->g, x, axis, random_dim(m, 0), random_dim(m, 1 + random_pick(m, size)), 1);
    ig_value index = map2(m, IG_OP_mod, ig_build_cast(m->g, part, type), ig_build_scalar_int(m->g, type, size));
    if (random_pick(m, 2)) index = map2(m, IG_OP_sub, index, ig_build_scalar_int(m->g, type, random_pick(m, size + 2)));
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_int(any_reduction(m))};
    ig_value in[3] = {x, index, map2(m, IG_OP_add, part, scalar(m, 1))};
    random_sum(m, m->max_elements, 9, false);
    return random_clamp(m, ig_build_node(m->g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL));
}

/* Tuples of one or two indices for the leading axes: rows or elements are read, or added to. */
static ig_value step_tuples(struct random_maker *m, ig_value x) {
    struct ig_type t = type_of(m, x);
    int64_t sizes[2], count = 1 + random_pick(m, 6), depth = 1 + (t.rank > 1 && random_pick(m, 2));
    if (t.rank < 1 || !m->exact) return x;
    for (int i = 0; i < depth; i++)
        if (!ig_dim_is_const(m->g->dims, t.dim[i], &sizes[i]) || sizes[i] == 0) return x;
    int64_t dims[2] = {count, depth};
    ig_value index = ig_build_cast(m->g, random_weights(m, 2, dims), INGOT_I64);
    index = map2(m, IG_OP_mod, index, ig_build_i64s(m->g, sizes, (int)depth));
    if (random_pick(m, 2)) { /* that are no constants */
        int64_t axes[RANDOM_MAX_RANK] = {0, 1, 2, 3, 4, 5};
        ig_value least = ig_build_reduce(m->g, IG_OP_reduce_min, ig_build_cast(m->g, x, INGOT_I64), axes, t.rank);
        least = map2(m, IG_OP_max, ig_build_reshape(m->g, least, NULL, 0), ig_build_scalar_int(m->g, INGOT_I64, -8));
        index = map2(m, IG_OP_mod, map2(m, IG_OP_add, index, least), ig_build_i64s(m->g, sizes, (int)depth));
    }
    struct ig_attr none[] = {ig_attr_of_int(0)}, reduction[] = {ig_attr_of_int(any_reduction(m))};
    ig_value in[3] = {x, index};
    ig_value rows = ig_build_node(m->g, IG_OP_gather_nd, in, 2, 1, none, NULL);
    if (random_pick(m, 2)) return rows;
    in[2] = ig_map1(m->g, IG_OP_abs, rows);
    return random_clamp(m, ig_build_node(m->g, IG_OP_scatter_nd, in, 3, 1, reduction, NULL));
}

/* An axis of another size: the nearest elements, or the two that are next weighed. */
static ig_value step_resize(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t size;
    if (t.rank == 0) return x;
    int axis = (int)random_pick(m, t.rank);
    if (!ig_dim_is_const(g->dims, t.dim[axis], &size) && m->empty) return x;
    ig_dim in = t.dim[axis], many = random_dim(m, 1 + random_pick(m, 12));
    ig_dim out = random_pick(m, 2) ? many : ig_dim_mul(g->dims, in, random_dim(m, 2));
    if (ig_dim_is_const(g->dims, in, &size) && size == 0) return x;
    ig_value from = to_float(m, ig_build_shape_scalar(g, in)), to = to_float(m, ig_build_shape_scalar(g, out));
    ig_value at = to_float(m, ig_build_iota(g, &out, 1, 0));
    ig_value last = map2(m, IG_OP_sub, from, scalar(m, 1));
    /* Half a place is added, so that none lies where rounding decides. */
    at = map2(m, IG_OP_div, map2(m, IG_OP_mul, map2(m, IG_OP_add, at, scalar(m, 0.5)), from), to);
    at = map2(m, IG_OP_min, map2(m, IG_OP_max, map2(m, IG_OP_sub, at, scalar(m, 0.25)), scalar(m, 0)), last);
    ig_value low = ig_map1(g, IG_OP_floor, at), lower = ig_build_gather(g, x, ig_build_cast(g, low, INGOT_I64), axis);
    if (m->exact) return lower;
    ig_value high = map2(m, IG_OP_min, map2(m, IG_OP_add, low, scalar(m, 1)), last);
    ig_value upper = ig_build_gather(g, x, ig_build_cast(g, high, INGOT_I64), axis);
    ig_dim along[RANDOM_MAX_RANK];
    for (int i = axis; i < t.rank; i++)
        along[i - axis] = i == axis ? out : random_dim(m, 1);
    ig_value weight = ig_build_reshape(g, map2(m, IG_OP_sub, at, low), along, t.rank - axis);
    ig_value rest = map2(m, IG_OP_sub, scalar(m, 1), weight);
    return map2(m, IG_OP_add, map2(m, IG_OP_mul, lower, rest), map2(m, IG_OP_mul, upper, weight));
}

/* ---- Whole numbers and truths -------------------------------------------------------------------------------------------- */

static ig_value moved(struct random_maker *m, ig_value y) {
    struct ig_type t = type_of(m, y);
    ig_dim before[RANDOM_MAX_RANK], after[RANDOM_MAX_RANK];
    ig_value parts[2] = {y, y};
    if (t.rank == 0) return y;
    int axis = (int)random_pick(m, t.rank);
    switch (random_pick(m, 3)) {
    case 0: return ig_build_concat(m->g, parts, 2, axis);
    case 1:
        return ig_build_slice_axis(m->g, y, axis, ig_dim_sub(m->g->dims, t.dim[axis], random_dim(m, 1)), t.dim[axis],
                                   -1);
    default:
        for (int i = 0; i < t.rank; i++)
            before[i] = after[i] = random_dim(m, i == axis);
        return ig_build_pad(m->g, y, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
    }
}

/* Of any integer type: functions, sums, positions, running sums. */
static ig_value step_wholes(struct random_maker *m, ig_value x) {
    static const enum ingot_dtype types[] = {INGOT_I8, INGOT_I16, INGOT_I32, INGOT_I64,
                                             INGOT_U8, INGOT_U16, INGOT_U32, INGOT_U64};
    static const enum ig_op reductions[] = {IG_OP_reduce_sum, IG_OP_reduce_prod, IG_OP_reduce_max, IG_OP_reduce_min};
    static const enum ig_op pairs[] = {IG_OP_shl, IG_OP_shr, IG_OP_mul,  IG_OP_bitxor,
                                       IG_OP_div, IG_OP_mod, IG_OP_fmod, IG_OP_pow};
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t axes[RANDOM_MAX_RANK];
    if (t.rank == 0 || !m->exact) return x;
    enum ingot_dtype type = types[random_pick(m, 8)];
    ig_value y = ig_build_cast(g, x, type);
    for (int64_t n = random_pick(m, 3); n > 0; n--) {
        ig_value c = ig_build_scalar_int(g, type, random_pick(m, 4));
        enum ig_op op = pairs[random_pick(m, 8)];
        y = random_pick(m, 4) ? ig_map2(g, op, y, c) : ig_map1(g, random_pick(m, 2) ? IG_OP_bitnot : IG_OP_abs, y);
    }
    if (random_pick(m, 3) == 0) y = moved(m, y);
    struct ig_attr attrs[] = {ig_attr_of_int(random_pick(m, t.rank)), ig_attr_of_int(random_pick(m, 2)),
                              ig_attr_of_int(random_pick(m, 2))};
    switch (random_pick(m, 4)) {
    case 0: y = ig_build_reduce(g, reductions[random_pick(m, 4)], y, axes, random_axes(m, t.rank, axes)); break;
    case 1: y = ig_build_node(g, random_pick(m, 3) ? IG_OP_cumsum : IG_OP_cumprod, &y, 1, 1, attrs, NULL); break;
    case 2:
        if (!m->empty) y = ig_build_node(g, random_pick(m, 2) ? IG_OP_argmax : IG_OP_argmin, &y, 1, 1, attrs, NULL);
        break;
    default: break;
    }
    return to_float(m, ig_map2(g, IG_OP_mod, y, ig_build_scalar_int(g, ig_type_of(g, y)->dtype, 13)));
}

/* Comparisons, moved and put together. */
static ig_value step_truths(struct random_maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    if (!m->exact) return x;
    static const enum ig_op pairs[] = {IG_OP_and, IG_OP_or, IG_OP_xor, IG_OP_eq};
    ig_value a = map2(m, IG_OP_lt, x, scalar(m, (double)random_pick(m, 3))), b = ig_map1(g, IG_OP_not, a);
    if (random_pick(m, 2)) b = ig_map1(g, random_pick(m, 2) ? IG_OP_isnan : IG_OP_isinf, x);
    if (random_pick(m, 2)) b = ig_build_cast(g, x, INGOT_BOOL);
    ig_value y = ig_map2(g, pairs[random_pick(m, 4)], a, b);
    if (random_pick(m, 3)) y = moved(m, y);
    return to_float(m, y);
}

/* ---- Functions ----------------------------------------------------------------------------------------------------------- */

static ig_value step_rounding(struct random_maker *m, ig_value x) {
    static const enum ig_op ops[] = {IG_OP_floor, IG_OP_ceil, IG_OP_round};
    if (!m->exact) return x;
    ig_value half = map2(m, IG_OP_mul, x, scalar(m, 0.5));
    switch (random_pick(m, 4)) {
    case 0: return map2(m, IG_OP_fmod, x, scalar(m, 3));
    case 1: return map2(m, IG_OP_pow, ig_map1(m->g, IG_OP_sign, x), scalar(m, 2));
    default: return random_clamp(m, ig_map1(m->g, ops[random_pick(m, 3)], half));
    }
}

/* Where they are not steep. */
static ig_value step_function(struct random_maker *m, ig_value x) {
    static const enum ig_op wide[] = {IG_OP_sin,  IG_OP_cos, IG_OP_atan,   IG_OP_asinh,
                                      IG_OP_tanh, IG_OP_erf, IG_OP_normcdf},
                            narrow[] = {IG_OP_tan,  IG_OP_asin,  IG_OP_acos, IG_OP_sinh,
                                        IG_OP_cosh, IG_OP_atanh, IG_OP_exp},
                            above[] = {IG_OP_acosh, IG_OP_log, IG_OP_log1p, IG_OP_sqrt};
    m->exact = false;
    x = random_clamp(m, x);
    switch (random_pick(m, 4)) {
    case 0: return ig_map1(m->g, narrow[random_pick(m, 7)], map2(m, IG_OP_mul, x, scalar(m, 1.0 / 16)));
    case 1:
        return ig_map1(m->g, above[random_pick(m, 4)], map2(m, IG_OP_add, ig_map1(m->g, IG_OP_abs, x), scalar(m, 2)));
    case 2: {
        ig_value base = map2(m, IG_OP_add, ig_map1(m->g, IG_OP_abs, x), scalar(m, 1));
        return map2(m, IG_OP_pow, base, scalar(m, random_pick(m, 2) ? -0.5 : 0.75));
    }
    default: return ig_map1(m->g, wide[random_pick(m, 7)], x);
    }
}

/* ---- Recurrences --------------------------------------------------------------------------------------------------------- */

/* Of every input and option: lengths, peepholes, a bias of its own, a limit, other functions; any of the results. */
static ig_value step_recurrence(struct random_maker *m, ig_value x) {
    static const int64_t all[] = {IG_ACT_SIGMOID, IG_ACT_TANH, IG_ACT_AFFINE, IG_ACT_HARD_SIGMOID, IG_ACT_SOFTSIGN};
    static const double half[] = {0.5, 0.5, 0.5}, fifth[] = {0.2, 0.2, 0.2};
    struct ig_graph *g = m->g;
    struct ig_type t = type_of(m, x);
    int64_t k, gates = random_pick(m, 2) ? 4 : random_pick(m, 3) ? 3 : 1, hidden = random_odd_size(m) % 34 + 1;
    if (t.rank != 3 || !ig_dim_is_const(g->dims, t.dim[2], &k) || k == 0) return x;
    m->exact = false;
    int functions = gates == 1 ? 1 : gates == 3 ? 2 : 3;
    int64_t chosen[3], dims[] = {k, gates * hidden}, back[] = {gates * hidden, hidden}, peeps = 3 * hidden;
    for (int i = 0; i < functions; i++)
        chosen[i] = all[random_pick(m, 2) ? i > 0 : random_pick(m, 5)];
    ig_value small = scalar(m, 0.125 / sqrt((double)hidden)), in[6],
             xw = ig_build_matmul(g, x, random_weights(m, 2, dims), INGOT_F32);
    in[0] = map2(m, IG_OP_mul, xw, scalar(m, 0.5 / sqrt((double)k)));
    in[1] = map2(m, IG_OP_mul, random_weights(m, 2, back), small);
    ig_dim state[2] = {t.dim[1], random_dim(m, hidden)};
    uint32_t n = 2;
    for (; n < (gates == 4 ? 4 : 3); n++)
        in[n] = ig_build_broadcast(g, scalar(m, 0.25 * (double)n), state, 2);
    /* Every third sequence is shorter. */
    ig_value lengths = ig_build_iota(g, &t.dim[1], 1, 0);
    lengths = map2(m, IG_OP_eq, map2(m, IG_OP_mod, lengths, ig_build_scalar_int(g, INGOT_I64, 3)),
                   ig_build_scalar_int(g, INGOT_I64, 1));
    ig_value full = ig_build_shape_scalar(g, t.dim[0]);
    lengths = ig_build_where(g, lengths, map2(m, IG_OP_div, full, ig_build_scalar_int(g, INGOT_I64, 2)), full);
    in[n++] = random_pick(m, 2) ? ig_build_cast(g, lengths, INGOT_I32) : IG_NO_VALUE;
    bool linear = gates == 3 && random_pick(m, 2);
    if (gates == 4 && random_pick(m, 2)) in[n++] = map2(m, IG_OP_mul, random_weights(m, 1, &peeps), scalar(m, 0.125));
    if (linear && random_pick(m, 2)) in[n++] = map2(m, IG_OP_mul, random_weights(m, 1, &hidden), scalar(m, 0.125));
    struct ig_attr attrs[6];
    int a = 0;
    attrs[a++] = ig_attr_of_int(random_pick(m, 2));
    attrs[a++] = ig_attr_of_ints(chosen, functions);
    attrs[a++] = ig_attr_of_float(random_pick(m, 3) ? 0 : 0.75);
    if (gates == 4) attrs[a++] = ig_attr_of_int(random_pick(m, 3) == 0);
    if (gates == 3) attrs[a++] = ig_attr_of_int(linear);
    attrs[a++] = ig_attr_of_floats(half, functions);
    attrs[a++] = ig_attr_of_floats(fifth, functions);
    enum ig_op op = gates == 4 ? IG_OP_lstm : gates == 3 ? IG_OP_gru : IG_OP_rnn;
    int results = gates == 4 ? 3 : 2;
    ig_value y = ig_build_node(g, op, in, n, (uint32_t)results, attrs, NULL);
    int64_t second = random_pick(m, 2) ? 0 : random_pick(m, results);
    if (second == 0) return y;
    return random_pick(m, 2) ? y + second : map2(m, IG_OP_add, y, y + second);
}

const random_step random_data_steps[] = {
    step_quantise, step_quantise, step_quantised_matmul, step_quantised_conv, step_sort,     step_sort,
    step_scatter,  step_scatter,  step_tuples,           step_tuples,         step_resize,   step_resize,
    step_wholes,   step_wholes,   step_truths,           step_rounding,       step_function, step_recurrence};
const int random_data_step_count = sizeof random_data_steps / sizeof *random_data_steps;
