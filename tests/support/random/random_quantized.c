#include "support/random/random_quantized.h"

#include <math.h>

#include "support/check/apply.h"
#include "support/check/graph_check.h"
#include "support/support.h"

enum { MOST_VALUES = 16 };

struct maker {
    struct ig_graph *g;
    uint64_t state;
    ig_value values[MOST_VALUES];
    int count;
    bool is_rounded; /* the last value was dequantised; else sums of it would depend on their order */
};

static int pick(struct maker *m, int n) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->state >> 33) % (uint64_t)n);
}

static ig_value scalar(struct maker *m, double value) {
    return ig_build_scalar(m->g, INGOT_F32, value);
}

/* Some scales make ties, others do not. */
static double a_scale(struct maker *m) {
    static const double scales[] = {0.5, 0.25, 0.1, 0.0371, 1, 0.7231, 2.3, 0.003};
    return scales[pick(m, 8)];
}

static int64_t a_zero(struct maker *m, enum ingot_dtype dtype) {
    static const int64_t zeros[] = {0, 128, 131, 255, 7, 114};
    int64_t zero = zeros[pick(m, 6)];
    return dtype == INGOT_U8 ? zero : pick(m, 2) ? 0 : zero - 128;
}

static enum ingot_dtype a_byte(struct maker *m) {
    return pick(m, 3) ? INGOT_U8 : INGOT_I8;
}

static const struct ig_type *type_of(struct maker *m, ig_value v) {
    return ig_type_of(m->g, v);
}

static int64_t size_of(struct maker *m, ig_value v, int axis) {
    int64_t size = 0;
    return ig_dim_is_const(m->g->dims, type_of(m, v)->dim[axis], &size) ? size : 0;
}

/* ---- Quantising ---- */

static ig_value dequantized(struct maker *m, ig_value q, double scale, int64_t zero) {
    ig_value in[] = {q, scalar(m, scale), ig_build_scalar_int(m->g, type_of(m, q)->dtype, zero)};
    return apply(m->g, "DequantizeLinear", in, pick(m, 4) || zero ? 3 : 2, NULL);
}

static ig_value quantized(struct maker *m, ig_value x, double scale, int64_t zero, enum ingot_dtype dtype) {
    ig_value in[] = {x, scalar(m, scale), ig_build_scalar_int(m->g, dtype, zero)};
    return apply(m->g, "QuantizeLinear", in, 3, NULL);
}

/* Fake quantisation as exporters decompose it. */
static ig_value decomposed(struct maker *m, ig_value x, double scale, int64_t zero) {
    struct ig_graph *g = m->g;
    ig_value y = pick(m, 2) ? ig_map2(g, IG_OP_div, x, scalar(m, scale))
                            : ig_map2(g, IG_OP_mul, x, scalar(m, (double)(float)(1 / scale)));
    y = ig_map2(g, IG_OP_add, ig_map1(g, IG_OP_round, y), scalar(m, (double)zero));
    y = ig_map2(g, IG_OP_min, ig_map2(g, IG_OP_max, y, scalar(m, 0)), scalar(m, 255));
    return ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_sub, y, scalar(m, (double)zero)), scalar(m, scale));
}

static ig_value rounded_trip(struct maker *m, ig_value x) {
    m->is_rounded = true;
    enum ingot_dtype dtype = a_byte(m);
    double scale = a_scale(m);
    int64_t zero = a_zero(m, dtype);
    if (pick(m, 8) == 0) return decomposed(m, x, scale, a_zero(m, INGOT_U8));
    return dequantized(m, quantized(m, x, scale, zero, dtype), scale, zero);
}

static ig_value settled(struct maker *m, ig_value x) {
    return m->is_rounded ? x : rounded_trip(m, x);
}

/* ---- Weights ---- */

/* Dequantised along `axis`: from bytes, or from floats that are quantised in the graph. */
static ig_value weights(struct maker *m, int rank, const int64_t *dims, int axis, ig_value *out_scale) {
    struct ig_graph *g = m->g;
    enum ingot_dtype dtype = pick(m, 4) ? INGOT_I8 : INGOT_U8;
    bool by_channel = pick(m, 2);
    ig_value w = random_constant(g, INGOT_F32, rank, dims, (uint32_t)pick(m, 1000));
    ig_value scale = scalar(m, 1.0 / 128);
    int64_t zero = dtype == INGOT_U8 ? (pick(m, 3) ? 128 : 120) : 0;
    ig_value zeros = ig_build_scalar_int(g, dtype, zero);
    if (by_channel) {
        scale = random_constant(g, INGOT_F32, 1, &dims[axis], (uint32_t)pick(m, 1000));
        scale = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, scale, scalar(m, 0.002)), scalar(m, 0.009));
        zeros = ig_build_broadcast(g, zeros, (ig_dim[]){ig_dim_const(g->dims, dims[axis])}, 1);
    }
    const struct ingot_attribute along[] = {attribute_int("axis", axis), {0}};
    ig_value q = apply(g, "QuantizeLinear", (ig_value[]){w, scale, zeros}, 3, along);
    *out_scale = scale;
    return apply(g, "DequantizeLinear", (ig_value[]){q, scale, zeros}, 3, along);
}

/* A bias of i32 in the product's scale, of floats, or none. The scale of x is not known here, but often it does. */
static ig_value bias(struct maker *m, int64_t n, ig_value x_scale, ig_value w_scale) {
    struct ig_graph *g = m->g;
    if (pick(m, 4) == 0) return IG_NO_VALUE;
    if (pick(m, 3) == 0) return random_constant(g, INGOT_F32, 1, &n, (uint32_t)pick(m, 1000));
    ig_value q = ig_build_cast(g, random_constant(g, INGOT_I8, 1, &n, (uint32_t)pick(m, 1000)), INGOT_I32);
    q = ig_map2(g, IG_OP_mul, q, ig_build_scalar_int(g, INGOT_I32, pick(m, 8) ? 1234 : 500000000));
    ig_value scale = ig_map2(g, IG_OP_mul, x_scale, w_scale);
    const struct ingot_attribute along[] = {attribute_int("axis", 0), {0}};
    return apply(g, "DequantizeLinear", (ig_value[]){q, scale}, 2, along);
}

/* ---- Steps ---- */

static ig_value step_conv(struct maker *m, ig_value x) {
    if (type_of(m, x)->rank != 4) return x;
    int64_t channels = size_of(m, x, 1), groups = pick(m, 3) ? 1 : channels;
    int64_t kernel = pick(m, 2) ? 3 : 1, n = groups > 1 ? channels : 1 + pick(m, 20), stride = 1 + pick(m, 2);
    int64_t dims[] = {n, channels / groups, kernel, kernel}, pads[4], strides[] = {stride, stride};
    for (int i = 0; i < 4; i++)
        pads[i] = kernel / 2;
    double scale = a_scale(m);
    enum ingot_dtype dtype = a_byte(m);
    int64_t zero = a_zero(m, dtype);
    x = dequantized(m, quantized(m, x, scale, zero, dtype), scale, zero);
    ig_value w_scale, w = weights(m, 4, dims, 0, &w_scale), b = bias(m, n, scalar(m, scale), w_scale);
    const struct ingot_attribute attributes[] = {
        attribute_int("group", groups), attribute_ints("pads", pads, 4), attribute_ints("strides", strides, 2), {0}};
    return apply(m->g, "Conv", (ig_value[]){x, w, b}, b == IG_NO_VALUE ? 2 : 3, attributes);
}

static ig_value step_matmul(struct maker *m, ig_value x) {
    int rank = type_of(m, x)->rank;
    int64_t depth = size_of(m, x, rank - 1), n = 1 + pick(m, 20), dims[] = {depth, n};
    if (depth == 0) return x;
    x = settled(m, x);
    if (pick(m, 4) == 0) { /* by itself */
        int64_t perm[4] = {0, 1, 2, 3};
        perm[rank - 1] = rank - 2;
        perm[rank - 2] = rank - 1;
        return ig_build_matmul(m->g, x, ig_build_transpose(m->g, x, perm), INGOT_F32);
    }
    ig_value w_scale, w = weights(m, 2, dims, 1, &w_scale);
    ig_value y = ig_build_matmul(m->g, x, w, INGOT_F32), b = bias(m, n, scalar(m, a_scale(m)), w_scale);
    return b == IG_NO_VALUE ? y : ig_map2(m->g, IG_OP_add, y, b);
}

static ig_value step_bound(struct maker *m, ig_value x) {
    x = ig_map2(m->g, IG_OP_max, x, scalar(m, pick(m, 3) ? 0 : -0.37));
    return pick(m, 2) ? ig_map2(m->g, IG_OP_min, x, scalar(m, 6)) : x;
}

/* Of bytes, and quantised, it is a table: else devices differ by roundings. */
static ig_value step_curve(struct maker *m, ig_value x) {
    static const enum ig_op curves[] = {IG_OP_sigmoid, IG_OP_tanh, IG_OP_erf, IG_OP_exp};
    x = rounded_trip(m, x);
    ig_value y = ig_map1(m->g, curves[pick(m, 4)], x);
    return pick(m, 2) ? ig_map2(m->g, IG_OP_mul, x, y) : y;
}

static ig_value step_leaky(struct maker *m, ig_value x) {
    ig_value below = ig_map2(m->g, IG_OP_mul, x, scalar(m, 0.1));
    return ig_build_where(m->g, ig_map2(m->g, IG_OP_lt, x, scalar(m, 0)), below, x);
}

static ig_value step_binary(struct maker *m, ig_value x) {
    ig_value y = m->values[pick(m, m->count)];
    if (!ig_same_dims(type_of(m, x), type_of(m, y))) y = x;
    return ig_map2(m->g, pick(m, 3) ? IG_OP_add : pick(m, 2) ? IG_OP_sub : IG_OP_mul, x, y);
}

static ig_value step_concat(struct maker *m, ig_value x) {
    ig_value parts[] = {x, m->values[pick(m, m->count)], rounded_trip(m, x)};
    if (!ig_same_dims(type_of(m, x), type_of(m, parts[1]))) parts[1] = x;
    return ig_build_concat(m->g, parts, 2 + pick(m, 2), 1);
}

static ig_value step_pool(struct maker *m, ig_value x) {
    const int64_t kernel[] = {3, 2}, strides[] = {1 + pick(m, 2), 1}, pads[] = {pick(m, 2), 0, 1, 1};
    const struct ingot_attribute attributes[] = {attribute_ints("kernel_shape", kernel, 2),
                                                 attribute_ints("strides", strides, 2),
                                                 attribute_ints("pads", pads, 4),
                                                 {0}};
    if (type_of(m, x)->rank != 4 || size_of(m, x, 2) < 3 || size_of(m, x, 3) < 2) return x;
    x = settled(m, x);
    return apply(m->g, pick(m, 2) ? "MaxPool" : "AveragePool", &x, 1, attributes);
}

static ig_value step_mean(struct maker *m, ig_value x) {
    const int64_t axes[] = {2, 3};
    if (type_of(m, x)->rank != 4 || pick(m, 2)) return x;
    x = settled(m, x);
    return ig_build_reduce(m->g, pick(m, 3) ? IG_OP_reduce_mean : IG_OP_reduce_max, x, axes, 1 + pick(m, 2));
}

static ig_value step_move(struct maker *m, ig_value x) {
    struct ig_graph *g = m->g;
    struct ig_type t = *type_of(m, x);
    int64_t perm[INGOT_MAX_RANK];
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    int last = t.rank - 1;
    for (int i = 0; i < t.rank; i++) {
        perm[i] = i == last ? last - 1 : i == last - 1 ? last : i;
        before[i] = after[i] = ig_dim_const(g->dims, i > 1 ? pick(m, 2) : 0);
    }
    switch (pick(m, 4)) {
    case 0: return ig_build_transpose(g, x, perm);
    case 1: return ig_build_pad(g, x, before, after, pick(m, 2) ? IG_PAD_CONSTANT : IG_PAD_EDGE, IG_NO_VALUE);
    case 2:
        if (size_of(m, x, last) < 2) return x;
        return ig_build_slice_axis(g, x, last, ig_dim_const(g->dims, 1), ig_dim_const(g->dims, size_of(m, x, last) - 1),
                                   1);
    default:
        if (t.rank != 4) return x;
        t.dim[2] = ig_dim_mul(g->dims, t.dim[2], t.dim[3]);
        return ig_build_reshape(g, x, t.dim, 3);
    }
}

/* There and back by a microscaling format: blocks along an axis, with scales that are powers of two. */
static ig_value step_scaled(struct maker *m, ig_value x) {
    static const enum ingot_dtype formats[] = {INGOT_F8E4M3FN, INGOT_F8E5M2, INGOT_F4E2M1};
    struct ig_graph *g = m->g;
    struct ig_type t = *type_of(m, x);
    int axis = 1 + pick(m, t.rank - 1);
    int64_t block = pick(m, 2) ? 32 : 3, dims[INGOT_MAX_RANK];
    enum ingot_dtype format = formats[pick(m, 3)];
    x = settled(m, x);
    for (int i = 0; i < t.rank; i++)
        dims[i] = i == axis ? (size_of(m, x, i) + block - 1) / block : i == 0 ? 1 : size_of(m, x, i);
    t.dim[axis] = ig_dim_const(g->dims, dims[axis]);
    ig_value scale =
        ig_build_cast(g, random_constant(g, INGOT_F32, t.rank, dims, (uint32_t)pick(m, 1000)), INGOT_F8E8M0);
    scale = ig_build_broadcast(g, scale, t.dim, t.rank);
    ig_value zero = ig_build_broadcast(g, ig_build_cast(g, scalar(m, 0), format), t.dim, t.rank);
    const struct ingot_attribute attributes[] = {
        attribute_int("axis", axis), attribute_int("block_size", block), attribute_int("output_dtype", 1), {0}};
    const struct ingot_attribute quantizing[] = {attributes[0], attributes[1], {0}};
    ig_value q = apply(g, "QuantizeLinear", (ig_value[]){x, scale, zero}, 3, quantizing);
    return apply(g, "DequantizeLinear", (ig_value[]){q, scale}, 2, attributes);
}

static ig_value (*const steps[])(struct maker *m, ig_value x) = {
    step_conv,   step_conv,   step_conv, step_matmul, step_bound, step_curve, step_leaky, step_binary,
    step_binary, step_concat, step_pool, step_mean,   step_move,  step_move,  step_scaled};

static bool is_curve(int step) {
    return steps[step] == step_curve;
}

void random_quantized_build(struct ig_graph *g, const void *argument) {
    const struct random_quantized *r = argument;
    struct maker m = {.g = g, .state = r->seed * 2654435761u + 17};
    enum ingot_dtype dtype = pick(&m, 3) ? INGOT_F32 : a_byte(&m);
    const int64_t sizes[] = {-1, 1 + pick(&m, 9), 4 + pick(&m, 6), 3 + pick(&m, 6)};
    struct ig_type type = sized_type(g, dtype, 4, sizes);
    ig_value x = ig_build_input(g, "x", &type);
    m.is_rounded = true;
    x = dtype == INGOT_F32 ? rounded_trip(&m, x) : dequantized(&m, x, a_scale(&m), a_zero(&m, dtype));
    m.values[m.count++] = x;
    int wanted = 3 + pick(&m, 8);
    for (int i = 0; i < wanted; i++) {
        int step = pick(&m, (int)(sizeof steps / sizeof *steps));
        ig_value y = steps[step](&m, x);
        if (y == x) continue;
        m.is_rounded = false;
        if (pick(&m, 4) == 0 && !is_curve(step)) y = step_bound(&m, y);
        x = pick(&m, 6) || is_curve(step) ? rounded_trip(&m, y) : y;
        if (m.count < MOST_VALUES) m.values[m.count++] = x;
    }
    ig_build_output(g, "y", quantized(&m, x, a_scale(&m), a_zero(&m, INGOT_U8), INGOT_U8));
    ig_build_output(g, "s", quantized(&m, m.values[pick(&m, m.count)], a_scale(&m), a_zero(&m, INGOT_I8), INGOT_I8));
    ig_build_output(g, "f", m.values[pick(&m, m.count)]);
}
