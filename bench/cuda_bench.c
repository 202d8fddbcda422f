/*
 * Memory-bound kernels alone, on the first GPU: maps, rows, columns, transposes, pools, depthwise convolutions, attentions
 * of few keys, in microseconds and as a fraction of what a copy reaches. Each is launched many times in a CUDA graph, so
 * that the host does not count; large ones go through memory that no cache holds.
 *
 *     cuda_bench [--only SUBSTRING] [--candidates] [--source]
 *
 * --candidates measures all candidates of a kernel beside what the cost model says of them; --source prints the kernels and
 * runs nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/print.h"
#include "compile/compiler.h"
#include "device/device.h"
#include "ir/build.h"
#include "kernel/lower.h"
#include "pass/pass.h"

enum { MOST_BUFFERS = 16, MOST_KERNELS = 512, LAUNCHES = 64, ROUNDS = 7 };

struct shape {
    enum ingot_dtype dtype;
    int64_t size[3];
};

struct kernel_case {
    const char *name;
    void (*build)(struct ig_graph *g, const struct shape *shape);
    struct shape shape;
};

/* ---- Benchmarks -------------------------------------------------------------------------------------------------- */

static ig_value input(struct ig_graph *g, const char *name, enum ingot_dtype dtype, int rank, const int64_t *sizes) {
    ig_dim dims[4];
    for (int i = 0; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, sizes[i]);
    struct ig_type type = ig_type_make(dtype, rank, dims);
    return ig_build_input(g, name, &type);
}

static ig_value reshape(struct ig_graph *g, ig_value x, int rank, const int64_t *sizes) {
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, sizes[i]);
    return ig_build_reshape(g, x, dims, rank);
}

static ig_value number(struct ig_graph *g, const struct shape *s, double value) {
    return ig_build_scalar(g, s->dtype, value);
}

static void build_add(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size), y = input(g, "y", s->dtype, 3, s->size);
    ig_build_output(g, "z", ig_map2(g, IG_OP_add, x, y));
}

static void build_bias(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size), bias = input(g, "bias", s->dtype, 1, s->size + 2);
    ig_build_output(g, "z", ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_add, x, bias), number(g, s, 0)));
}

static void build_gelu(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size);
    ig_value e = ig_map1(g, IG_OP_erf, ig_map2(g, IG_OP_mul, x, number(g, s, 0.70710678)));
    ig_value half = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_add, e, number(g, s, 1)), number(g, s, 0.5));
    ig_build_output(g, "z", ig_map2(g, IG_OP_mul, x, half));
}

static void build_transpose(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size);
    ig_build_output(g, "z", ig_build_transpose(g, x, (const int64_t[]){0, 2, 1}));
}

static void build_heads(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size);
    ig_build_output(g, "z", ig_build_transpose(g, x, (const int64_t[]){1, 0, 2}));
}

static void build_concat(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size), y = input(g, "y", s->dtype, 3, s->size);
    ig_build_output(g, "z", ig_build_concat(g, (const ig_value[]){x, y}, 2, 2));
}

static void build_rows(struct ig_graph *g, const struct shape *s) {
    const int64_t ids[1] = {s->size[1]}, table[2] = {s->size[0], s->size[2]};
    ig_value x = input(g, "x", s->dtype, 2, table), at = input(g, "ids", INGOT_I64, 1, ids);
    ig_build_output(g, "z", ig_build_gather(g, x, at, 0));
}

static ig_value reduce(struct ig_graph *g, enum ig_op op, ig_value x, int64_t axis) {
    return ig_build_reduce(g, op, x, &axis, 1);
}

static ig_value softmax(struct ig_graph *g, ig_value x) {
    int axis = ig_type_of(g, x)->rank - 1;
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, reduce(g, IG_OP_reduce_max, x, axis)));
    return ig_map2(g, IG_OP_div, e, reduce(g, IG_OP_reduce_sum, e, axis));
}

static void build_softmax(struct ig_graph *g, const struct shape *s) {
    ig_build_output(g, "z", softmax(g, input(g, "x", s->dtype, 3, s->size)));
}

static void build_norm(struct ig_graph *g, const struct shape *s) {
    ig_value x = input(g, "x", s->dtype, 3, s->size), r = input(g, "r", s->dtype, 3, s->size);
    ig_value scale = input(g, "scale", s->dtype, 1, s->size + 2), shift = input(g, "shift", s->dtype, 1, s->size + 2);
    x = ig_map2(g, IG_OP_add, x, r);
    ig_value centred = ig_map2(g, IG_OP_sub, x, reduce(g, IG_OP_reduce_mean, x, 2));
    ig_value variance = reduce(g, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, centred, centred), 2);
    ig_value deviation = ig_map1(g, IG_OP_sqrt, ig_map2(g, IG_OP_add, variance, number(g, s, 1e-5)));
    ig_value y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_div, centred, deviation), scale);
    ig_build_output(g, "z", ig_map2(g, IG_OP_add, y, shift));
}

static void build_sum(struct ig_graph *g, const struct shape *s) {
    ig_build_output(g, "z", reduce(g, IG_OP_reduce_sum, input(g, "x", s->dtype, 3, s->size), 2));
}

static void build_mean_pixels(struct ig_graph *g, const struct shape *s) {
    ig_build_output(g, "z", reduce(g, IG_OP_reduce_mean, input(g, "x", s->dtype, 3, s->size), 1));
}

/* 3x3, stride 2, of a channels-last image: rows = columns = size[1]. */
static void build_pool(struct ig_graph *g, const struct shape *s) {
    const int64_t sizes[4] = {s->size[0], s->size[1], s->size[1], s->size[2]};
    static const int64_t kernel[2] = {3, 3}, strides[2] = {2, 2}, dilations[2] = {1, 1};
    ig_value x = input(g, "x", s->dtype, 4, sizes);
    ig_dim before[2], out[2];
    for (int i = 0; i < 2; i++) {
        before[i] = ig_dim_const(g->dims, 1);
        out[i] = ig_dim_const(g->dims, (s->size[1] + 2 - 3) / 2 + 1);
    }
    struct ig_attr attrs[6] = {ig_attr_of_ints(kernel, 2), ig_attr_of_ints(strides, 2), ig_attr_of_ints(dilations, 2),
                               ig_attr_of_dims(before, 2), ig_attr_of_dims(out, 2),     ig_attr_of_int(1)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "z", ig_build_node(g, IG_OP_pool_max, &x, 1, 1, attrs, none));
}

/* Depthwise, channels-last, padded so that the picture keeps its size; rows = columns = size[1]. */
static void build_depthwise(struct ig_graph *g, const struct shape *s, int64_t taps) {
    const int64_t sizes[4] = {s->size[0], s->size[1], s->size[1], s->size[2]};
    const int64_t filters[3] = {taps, taps, s->size[2]}, kernel[2] = {taps, taps};
    static const int64_t ones[2] = {1, 1};
    ig_value in[2] = {input(g, "x", s->dtype, 4, sizes), input(g, "w", s->dtype, 3, filters)};
    ig_dim pads[2] = {ig_dim_const(g->dims, taps / 2), ig_dim_const(g->dims, taps / 2)};
    struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(pads, 2),
                              ig_attr_of_dims(pads, 2),
                              ig_attr_of_int(s->size[2]),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(1),
                              ig_attr_of_int(1),
                              ig_attr_of_int(s->size[2]),
                              ig_attr_of_ints(kernel, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "z", ig_build_cast(g, ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none), s->dtype));
}

static void build_depthwise_3(struct ig_graph *g, const struct shape *s) {
    build_depthwise(g, s, 3);
}

static void build_depthwise_5(struct ig_graph *g, const struct shape *s) {
    build_depthwise(g, s, 5);
}

static void build_depthwise_7(struct ig_graph *g, const struct shape *s) {
    build_depthwise(g, s, 7);
}

static void build_depthwise_9(struct ig_graph *g, const struct shape *s) {
    build_depthwise(g, s, 9);
}

/* ---- Attentions -------------------------------------------------------------------------------------------------- */

/* Part `which` of [3, batch, heads, rows, depth]. */
static ig_value part(struct ig_graph *g, ig_value all, int64_t which, const int64_t *sizes) {
    ig_dim at = ig_dim_const(g->dims, which), one = ig_dim_const(g->dims, 1);
    return reshape(g, ig_build_slice_axis(g, all, 0, at, one, 1), 4, sizes);
}

static ig_value scaled_scores(struct ig_graph *g, ig_value q, ig_value k, double scale) {
    ig_value s = ig_build_matmul(g, q, ig_build_transpose(g, k, (const int64_t[]){0, 1, 3, 2}), INGOT_F32);
    s = ig_build_cast(g, s, INGOT_F32);
    return ig_map2(g, IG_OP_mul, s, ig_build_scalar(g, INGOT_F32, scale));
}

/* The weighted values, the heads of a row side by side. */
static ig_value weighted(struct ig_graph *g, ig_value weights, ig_value v) {
    enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
    ig_value y = ig_build_matmul(g, ig_build_cast(g, weights, dtype), v, INGOT_F32);
    return ig_build_transpose(g, ig_build_cast(g, y, dtype), (const int64_t[]){0, 2, 1, 3});
}

/* Swin's: pictures of size[1] x size[1] windows of 7 x 7, size[2] heads of 32, biases by relative position; masked, if
 * the windows are shifted. */
static void build_windows(struct ig_graph *g, const struct shape *s, bool shifted) {
    int64_t b = s->size[0], across = s->size[1], h = s->size[2], n = across * across;
    const int64_t picture[4] = {b, 7 * across, 7 * across, 3 * h * 32}, cut[8] = {b, across, 7, across, 7, 3, h, 32};
    const int64_t own[4] = {b * n, h, 49, 32}, apart[5] = {b, n, h, 49, 49}, together[4] = {b * n, h, 49, 49};
    const int64_t bias[3] = {h, 49, 49}, mask[4] = {n, 1, 49, 49};
    ig_value all = reshape(g, input(g, "qkv", s->dtype, 4, picture), 8, cut);
    all = ig_build_transpose(g, all, (const int64_t[]){5, 0, 1, 3, 6, 2, 4, 7});
    ig_value x = scaled_scores(g, part(g, all, 0, own), part(g, all, 1, own), 0.1767767);
    x = ig_map2(g, IG_OP_add, x, input(g, "bias", INGOT_F32, 3, bias));
    if (shifted) x = ig_map2(g, IG_OP_add, reshape(g, x, 5, apart), input(g, "mask", INGOT_F32, 4, mask));
    ig_build_output(g, "z", weighted(g, reshape(g, softmax(g, x), 4, together), part(g, all, 2, own)));
}

static void build_unshifted(struct ig_graph *g, const struct shape *s) {
    build_windows(g, s, false);
}

static void build_shifted(struct ig_graph *g, const struct shape *s) {
    build_windows(g, s, true);
}

/* BERT's: size[0] texts of size[1] tokens, size[2] heads of 64, masked by token. */
static void build_texts(struct ig_graph *g, const struct shape *s) {
    int64_t b = s->size[0], n = s->size[1], h = s->size[2];
    const int64_t tokens[3] = {b, n, 3 * h * 64}, cut[5] = {b, n, 3, h, 64}, own[4] = {b, h, n, 64};
    const int64_t mask[4] = {b, 1, 1, n};
    ig_value all = reshape(g, input(g, "qkv", s->dtype, 3, tokens), 5, cut);
    all = ig_build_transpose(g, all, (const int64_t[]){2, 0, 3, 1, 4});
    ig_value x = scaled_scores(g, part(g, all, 0, own), part(g, all, 1, own), 0.125);
    x = ig_map2(g, IG_OP_add, x, input(g, "mask", INGOT_F32, 4, mask));
    ig_build_output(g, "z", weighted(g, softmax(g, x), part(g, all, 2, own)));
}

/* size[0] texts or pictures of size[1] tokens, size[2] heads. */
static void build_attention(struct ig_graph *g, const struct shape *s, int64_t depth, bool causal) {
    int64_t b = s->size[0], n = s->size[1], h = s->size[2];
    const int64_t tokens[3] = {b, n, 3 * h * depth}, cut[5] = {b, n, 3, h, depth}, own[4] = {b, h, n, depth};
    ig_value all = reshape(g, input(g, "qkv", s->dtype, 3, tokens), 5, cut);
    all = ig_build_transpose(g, all, (const int64_t[]){2, 0, 3, 1, 4});
    ig_value x = scaled_scores(g, part(g, all, 0, own), part(g, all, 1, own), 0.125);
    if (causal) {
        ig_dim one = ig_dim_const(g->dims, 1), length = ig_dim_const(g->dims, n);
        ig_value row = ig_build_iota(g, (const ig_dim[]){one, one, length, one}, 4, 2);
        ig_value column = ig_build_iota(g, (const ig_dim[]){one, one, one, length}, 4, 3);
        x = ig_build_where(g, ig_map2(g, IG_OP_le, column, row), x, ig_build_scalar(g, INGOT_F32, -INFINITY));
    }
    ig_build_output(g, "z", weighted(g, softmax(g, x), part(g, all, 2, own)));
}

static void build_heads_64(struct ig_graph *g, const struct shape *s) {
    build_attention(g, s, 64, false);
}

static void build_heads_128(struct ig_graph *g, const struct shape *s) {
    build_attention(g, s, 128, false);
}

static void build_causal_64(struct ig_graph *g, const struct shape *s) {
    build_attention(g, s, 64, true);
}

static void build_causal_128(struct ig_graph *g, const struct shape *s) {
    build_attention(g, s, 128, true);
}

/* One token of a decoder: size[0] texts of size[1] tokens, size[2] heads of 64, each shared by four queries. */
static void build_token(struct ig_graph *g, const struct shape *s) {
    const int64_t queries[4] = {s->size[0], s->size[2], 4, 64}, keys[4] = {s->size[0], s->size[2], s->size[1], 64};
    ig_value q = input(g, "q", s->dtype, 4, queries), k = input(g, "k", s->dtype, 4, keys);
    ig_value x = scaled_scores(g, q, k, 0.125);
    ig_build_output(g, "z", weighted(g, softmax(g, x), input(g, "v", s->dtype, 4, keys)));
}

/* ---- The list ---------------------------------------------------------------------------------------------------- */

#define MILLION 1048576
static const struct kernel_case cases[] = {
    {"add 1M f32", build_add, {INGOT_F32, {1, 1, MILLION}}},
    {"add 16M f32", build_add, {INGOT_F32, {16, 1, MILLION}}},
    {"add 64M f32", build_add, {INGOT_F32, {64, 1, MILLION}}},
    {"add 64M+3 f32", build_add, {INGOT_F32, {1, 1, 64 * MILLION + 3}}},
    {"add 64M f16", build_add, {INGOT_F16, {64, 1, MILLION}}},
    {"gelu 1M f32", build_gelu, {INGOT_F32, {1, 1, MILLION}}},
    {"gelu 64M f32", build_gelu, {INGOT_F32, {64, 1, MILLION}}},
    {"gelu 64M f16", build_gelu, {INGOT_F16, {64, 1, MILLION}}},
    {"gelu 128x3072 f32", build_gelu, {INGOT_F32, {1, 128, 3072}}},
    {"bias relu 3136x256 f32", build_bias, {INGOT_F32, {1, 3136, 256}}},
    {"bias relu 65536x1024 f32", build_bias, {INGOT_F32, {1, 65536, 1024}}},
    {"bias relu 65536x1001 f32", build_bias, {INGOT_F32, {1, 65536, 1001}}},
    {"transpose 128x768 f32", build_transpose, {INGOT_F32, {1, 128, 768}}},
    {"transpose 8192x8192 f32", build_transpose, {INGOT_F32, {1, 8192, 8192}}},
    {"transpose 8192x8192 f16", build_transpose, {INGOT_F16, {1, 8192, 8192}}},
    {"transpose 64x3136x64 f32", build_transpose, {INGOT_F32, {64, 3136, 64}}},
    {"heads 128x12x64 f32", build_heads, {INGOT_F32, {128, 12, 64}}},
    {"concat 3136x64+64 f32", build_concat, {INGOT_F32, {1, 3136, 64}}},
    {"concat 262144x128+128 f32", build_concat, {INGOT_F32, {1, 262144, 128}}},
    {"gather 128 of 30522x768 f32", build_rows, {INGOT_F32, {30522, 128, 768}}},
    {"softmax 12x128x128 f32", build_softmax, {INGOT_F32, {12, 128, 128}}},
    {"softmax 12x128x128 f16", build_softmax, {INGOT_F16, {12, 128, 128}}},
    {"softmax 1x1x1000 f32", build_softmax, {INGOT_F32, {1, 1, 1000}}},
    {"softmax 384x1024x128 f32", build_softmax, {INGOT_F32, {384, 1024, 128}}},
    {"softmax 64x1024x1024 f32", build_softmax, {INGOT_F32, {64, 1024, 1024}}},
    {"softmax 8192x8192 f32", build_softmax, {INGOT_F32, {1, 8192, 8192}}},
    {"layer norm 128x768 f32", build_norm, {INGOT_F32, {1, 128, 768}}},
    {"layer norm 65536x768 f32", build_norm, {INGOT_F32, {1, 65536, 768}}},
    {"layer norm 65536x768 f16", build_norm, {INGOT_F16, {1, 65536, 768}}},
    {"layer norm 8192x4096 f32", build_norm, {INGOT_F32, {1, 8192, 4096}}},
    {"layer norm 100352x96 f16", build_norm, {INGOT_F16, {1, 100352, 96}}},
    {"layer norm 25088x192 f16", build_norm, {INGOT_F16, {1, 25088, 192}}},
    {"layer norm 3136x96 f16", build_norm, {INGOT_F16, {1, 3136, 96}}},
    {"softmax 12x3136x64 f16", build_softmax, {INGOT_F16, {12, 3136, 64}}},
    {"layer norm 32x200704 f16", build_norm, {INGOT_F16, {1, 32, 200704}}},
    {"layer norm 1x200704 f16", build_norm, {INGOT_F16, {1, 1, 200704}}},
    {"sum 65536x1024 f32", build_sum, {INGOT_F32, {1, 65536, 1024}}},
    {"sum 1024x65536 f32", build_sum, {INGOT_F32, {1, 1024, 65536}}},
    {"sum 1x4M f32", build_sum, {INGOT_F32, {1, 1, 4 * MILLION}}},
    {"mean of pixels 1x49x2048 f32", build_mean_pixels, {INGOT_F32, {1, 49, 2048}}},
    {"mean of pixels 1x3136x72 f32", build_mean_pixels, {INGOT_F32, {1, 3136, 72}}},
    {"mean of pixels 32x3136x256 f32", build_mean_pixels, {INGOT_F32, {32, 3136, 256}}},
    {"mean of pixels 32x3136x256 f16", build_mean_pixels, {INGOT_F16, {32, 3136, 256}}},
    {"mean of pixels 32x12544x32 f16", build_mean_pixels, {INGOT_F16, {32, 12544, 32}}},
    {"mean of pixels 1x3136x256 f16", build_mean_pixels, {INGOT_F16, {1, 3136, 256}}},
    {"depthwise 9x9 32x32x32x768 f16", build_depthwise_9, {INGOT_F16, {32, 32, 768}}},
    {"depthwise 7x7 32x56x56x96 f16", build_depthwise_7, {INGOT_F16, {32, 56, 96}}},
    {"depthwise 7x7 32x14x14x384 f16", build_depthwise_7, {INGOT_F16, {32, 14, 384}}},
    {"depthwise 7x7 32x28x28x192 f16", build_depthwise_7, {INGOT_F16, {32, 28, 192}}},
    {"depthwise 7x7 32x7x7x768 f16", build_depthwise_7, {INGOT_F16, {32, 7, 768}}},
    {"depthwise 7x7 1x56x56x96 f16", build_depthwise_7, {INGOT_F16, {1, 56, 96}}},
    {"depthwise 7x7 1x14x14x384 f16", build_depthwise_7, {INGOT_F16, {1, 14, 384}}},
    {"depthwise 5x5 32x28x28x240 f16", build_depthwise_5, {INGOT_F16, {32, 28, 240}}},
    {"depthwise 5x5 1x14x14x672 f16", build_depthwise_5, {INGOT_F16, {1, 14, 672}}},
    {"depthwise 3x3 32x56x56x256 f16", build_depthwise_3, {INGOT_F16, {32, 56, 256}}},
    {"depthwise 3x3 32x28x28x512 f16", build_depthwise_3, {INGOT_F16, {32, 28, 512}}},
    {"depthwise 3x3 1x56x56x144 f16", build_depthwise_3, {INGOT_F16, {1, 56, 144}}},
    {"depthwise 3x3 1x7x7x960 f16", build_depthwise_3, {INGOT_F16, {1, 7, 960}}},
    {"max pool 1x112x112x64 f32", build_pool, {INGOT_F32, {1, 112, 64}}},
    {"max pool 64x112x112x64 f32", build_pool, {INGOT_F32, {64, 112, 64}}},
    {"windows 32x64, 3 heads f16", build_unshifted, {INGOT_F16, {32, 8, 3}}},
    {"windows 32x64, 3 heads, shifted f16", build_shifted, {INGOT_F16, {32, 8, 3}}},
    {"windows 32x4, 12 heads f16", build_unshifted, {INGOT_F16, {32, 2, 12}}},
    {"windows 32x4, 12 heads, shifted f16", build_shifted, {INGOT_F16, {32, 2, 12}}},
    {"windows 1x64, 3 heads f16", build_unshifted, {INGOT_F16, {1, 8, 3}}},
    {"texts 512x32, 12 heads f16", build_texts, {INGOT_F16, {512, 32, 12}}},
    {"texts 256x64, 12 heads bf16", build_texts, {INGOT_BF16, {256, 64, 12}}},
    {"texts 32x128, 12 heads f16", build_texts, {INGOT_F16, {32, 128, 12}}},
    {"texts 8x384, 16 heads f16", build_texts, {INGOT_F16, {8, 384, 16}}},
    {"texts 8x1024, 12 heads f16", build_texts, {INGOT_F16, {8, 1024, 12}}},
    {"heads 8x384, 16 of 64 f16", build_heads_64, {INGOT_F16, {8, 384, 16}}},
    {"heads 1x384, 16 of 64 f16", build_heads_64, {INGOT_F16, {1, 384, 16}}},
    {"heads 1x577, 16 of 64 f16", build_heads_64, {INGOT_F16, {1, 577, 16}}},
    {"heads 8x577, 16 of 64 f16", build_heads_64, {INGOT_F16, {8, 577, 16}}},
    {"heads 32x1500, 6 of 64 f16", build_heads_64, {INGOT_F16, {32, 1500, 6}}},
    {"heads 1x1500, 6 of 64 f16", build_heads_64, {INGOT_F16, {1, 1500, 6}}},
    {"heads 2x4096, 8 of 64 bf16", build_heads_64, {INGOT_BF16, {2, 4096, 8}}},
    {"heads 1x1024, 8 of 64 f16", build_heads_64, {INGOT_F16, {1, 1024, 8}}},
    {"heads 2x2048, 16 of 128 f16", build_heads_128, {INGOT_F16, {2, 2048, 16}}},
    {"heads 8x512, 12 of 128 f16", build_heads_128, {INGOT_F16, {8, 512, 12}}},
    {"heads 1x512, 12 of 128 f16", build_heads_128, {INGOT_F16, {1, 512, 12}}},
    {"heads 4x1024, 16 of 64, causal f16", build_causal_64, {INGOT_F16, {4, 1024, 16}}},
    {"heads 1x512, 12 of 64, causal f16", build_causal_64, {INGOT_F16, {1, 512, 12}}},
    {"heads 1x2048, 32 of 128, causal f16", build_causal_128, {INGOT_F16, {1, 2048, 32}}},
    {"token of 1x512, 4 heads f16", build_token, {INGOT_F16, {1, 512, 4}}},
    {"token of 8x2048, 4 heads f16", build_token, {INGOT_F16, {8, 2048, 4}}},
    {"token of 64x2048, 8 heads f16", build_token, {INGOT_F16, {64, 2048, 8}}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

struct prepared {
    const struct kernel_case *given;
    const struct ig_kernel *kernel;
    struct ig_source source;
    size_t size[MOST_BUFFERS], bytes; /* of each buffer; in total */
    uint32_t n_buffers;
    double cost; /* microseconds, as the cost model says; 0: it has none */
};

struct bench {
    const char *only;
    bool source, candidates;
    struct ig_target target;
    struct ig_device *device;
    struct ig_stream *stream;
    double copy; /* bytes per second */
    struct prepared prepared[MOST_KERNELS];
    unsigned count;
};

static void add_buffer(struct ig_job *job, struct prepared *p, struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    size_t size = ingot_dtype_size(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        int64_t n = 0;
        ig_dim_is_const(g->dims, type->dim[i], &n);
        size *= (size_t)n;
    }
    IG_ASSERT(job, p->n_buffers < MOST_BUFFERS);
    p->size[p->n_buffers++] = size;
    p->bytes += size;
}

static void add_kernel(struct ig_job *job, struct bench *b, const struct kernel_case *c, struct ig_graph *g,
                       const struct ig_kernel *kernel) {
    struct prepared *p = &b->prepared[b->count];
    const struct ig_region *region = &g->regions.at[0];
    struct ig_sizes at;
    IG_ASSERT(job, b->count < MOST_KERNELS);
    ig_sizes_usual(g->dims, job, &at);
    *p = (struct prepared){.given = c, .kernel = kernel, .cost = ig_kernel_cost(kernel, &at)};
    p->source.symbol = ig_format(job, "kernel_%u", b->count);
    p->source.text = ig_cuda_kernel(job, p->kernel, p->source.symbol, &b->target);
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        if (!ig_is_literal(g, region->inputs.at[i])) add_buffer(job, p, g, region->inputs.at[i]);
    }
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_buffer(job, p, g, region->outputs.at[i]);
    b->count++;
    if (b->source) printf("// %s\n%s\n", c->name, p->source.text);
}

static void prepare(struct ig_job *job, struct bench *b, const struct kernel_case *c) {
    struct ig_pass_options options = {.target = &b->target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    c->build(g, &c->shape);
    for (int i = 0; i < ig_pass_count; i++) {
        const char *name = ig_passes[i].name;
        if (!strcmp(name, "attend") || !strcmp(name, "fuse") || !strcmp(name, "partition"))
            g = ig_passes[i].run(g, &options);
    }
    IG_ASSERT(job, g->regions.count == 1);
    const struct ig_kernel *kernel;
    unsigned before = b->count;
    for (int i = 0; (kernel = ig_kernel_candidate(g, &g->regions.at[0], &b->target, NULL, i)); i++) {
        if (kernel->library || kernel->n_maps > 0) continue; /* are not launched here */
        add_kernel(job, b, c, g, kernel);
        if (!b->candidates) break;
    }
    IG_ASSERT(job, b->count > before);
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

static void must(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

/* The shortest of several timings of a list, in seconds. */
static double time_of(struct ig_job *job, struct bench *b, struct ig_list *list) {
    const struct ig_device_api *api = b->device->api;
    struct ig_event *begin, *end;
    struct ingot_error error;
    double best = 1e9;
    must(job, api->event_create(b->device, true, &begin, &error), &error);
    must(job, api->event_create(b->device, true, &end, &error), &error);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t nanoseconds;
        must(job, api->event_record(b->device, b->stream, begin, &error), &error);
        must(job, api->list_launch(b->device, b->stream, list, &error), &error);
        must(job, api->event_record(b->device, b->stream, end, &error), &error);
        must(job, api->stream_wait(b->device, b->stream, &error), &error);
        must(job, api->event_elapsed(b->device, begin, end, &nanoseconds, &error), &error);
        if (round > 0 && (double)nanoseconds * 1e-9 < best) best = (double)nanoseconds * 1e-9;
    }
    api->event_destroy(b->device, begin);
    api->event_destroy(b->device, end);
    return best;
}

static void measure_copy(struct ig_job *job, struct bench *b) {
    enum { COPIES = 8 };
    const struct ig_device_api *api = b->device->api;
    size_t size = (size_t)512 << 20;
    void *from, *to;
    struct ig_list *list;
    struct ingot_error error;
    must(job, api->allocate(b->device, size, &from, &error), &error);
    must(job, api->allocate(b->device, size, &to, &error), &error);
    must(job, api->list_begin(b->device, b->stream, &error), &error);
    for (int i = 0; i < COPIES; i++)
        must(job, api->copy(b->device, b->stream, to, from, size, &error), &error);
    must(job, api->list_end(b->device, b->stream, &list, &error), &error);
    b->copy = 2.0 * (double)size * COPIES / time_of(job, b, list);
    api->list_destroy(b->device, list);
    api->release(b->device, from, size);
    api->release(b->device, to, size);
    printf("copy of 512 MiB: %.0f GB/s, read and written\n", b->copy * 1e-9);
}

static int64_t const_of(const struct ig_kernel *kernel, ig_dim d) {
    int64_t n = 0;
    ig_dim_is_const(kernel->loops->dims, d, &n);
    return n;
}

static void measure(struct ig_job *job, struct bench *b, const struct prepared *p, struct ig_module *module,
                    uint64_t entry) {
    const struct ig_device_api *api = b->device->api;
    struct ingot_error error;
    void *buffers[MOST_BUFFERS];
    struct ig_list *list;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        must(job, api->allocate(b->device, p->size[i] + 64, &buffers[i], &error), &error);
        void *zeros = calloc(1, p->size[i] + 1);
        if (!zeros) ig_raise(job, INGOT_OUT_OF_MEMORY, "no memory for zeros");
        must(job, api->copy(b->device, b->stream, buffers[i], zeros, p->size[i], &error), &error);
        must(job, api->stream_wait(b->device, b->stream, &error), &error);
        free(zeros);
    }
    int64_t dims[1] = {0};
    struct ig_launch launch = {.module = module,
                               .entry = entry,
                               .portable = UINT64_MAX,
                               .name = p->source.symbol,
                               .threads = (uint32_t)p->kernel->threads,
                               .shared = (uint32_t)p->kernel->shared_bytes,
                               .buffers = buffers,
                               .n_buffers = p->n_buffers,
                               .dims = dims,
                               .tiles = const_of(p->kernel, p->kernel->tiles),
                               .scratch = (size_t)const_of(p->kernel, p->kernel->scratch_bytes)};
    int launches = p->bytes > (size_t)64 << 20 ? 4 : LAUNCHES;
    must(job, api->list_begin(b->device, b->stream, &error), &error);
    for (int i = 0; i < launches; i++)
        must(job, api->launch(b->device, b->stream, &launch, &error), &error);
    must(job, api->list_end(b->device, b->stream, &list, &error), &error);
    double seconds = time_of(job, b, list) / launches, rate = (double)p->bytes / seconds;
    printf("%-32s %9.2f us %7.0f GB/s %4.0f%%  %lld x %d  %s\n", p->given->name, seconds * 1e6, rate * 1e-9,
           100 * rate / b->copy, (long long)launch.tiles, p->kernel->threads, p->kernel->tactic);
    if (b->candidates) printf("%45.2f us expected\n", p->cost);
    fflush(stdout);
    api->list_destroy(b->device, list);
    for (uint32_t i = 0; i < p->n_buffers; i++)
        api->release(b->device, buffers[i], p->size[i] + 64);
}

static void open_device(struct ig_job *job, struct bench *b) {
    struct ig_device_cuda_info info;
    struct ingot_error error;
    must(job, ig_device_cuda_describe(0, &info, &error), &error);
    must(job, ig_device_cuda_create(0, &ig_libc_allocator, &b->device, &error), &error);
    must(job, b->device->api->stream_create(b->device, &b->stream, &error), &error);
    b->target.sm = info.sm;
    b->target.sm_own = info.sm_own;
    printf("%s, %s\n", info.name, info.arch);
}

static void run(struct ig_job *job, void *argument) {
    struct bench *b = argument;
    struct ingot_error error;
    if (!b->source) open_device(job, b);
    for (int i = 0; i < CASES; i++) {
        if (!b->only || strstr(cases[i].name, b->only)) prepare(job, b, &cases[i]);
    }
    if (b->source || b->count == 0) return;
    struct ig_source sources[MOST_KERNELS];
    struct ig_code code;
    struct ig_module *module;
    for (unsigned i = 0; i < b->count; i++)
        sources[i] = b->prepared[i].source;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ig_kernel_compiler compiler;
    options.nvrtc = getenv("INGOT_NVRTC");
    ig_kernel_compiler_find(job, &b->target, &options, NULL, &compiler);
    ig_kernel_compiler_run(job, &compiler, sources, b->count, NULL, NULL, &code);
    must(job, b->device->api->module_create(b->device, code.bytes, code.size, &module, &error), &error);
    measure_copy(job, b);
    for (unsigned i = 0; i < b->count; i++)
        measure(job, b, &b->prepared[i], module, code.entries[i]);
    b->device->api->module_destroy(b->device, module);
    b->device->api->stream_destroy(b->device, b->stream);
    b->device->api->destroy(b->device);
}

int main(int argc, char **argv) {
    struct bench *b = calloc(1, sizeof *b);
    struct ingot_error error = {0};
    if (!b) return 4;
    b->target =
        (struct ig_target){.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90, .sm_own = true};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--source")) {
            b->source = true;
        } else if (!strcmp(argv[i], "--candidates")) {
            b->candidates = true;
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            b->only = argv[++i];
        } else {
            fprintf(stderr, "usage: cuda_bench [--only SUBSTRING] [--candidates] [--source]\n");
            free(b);
            return 2;
        }
    }
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run, b, &error);
    ig_job_deinit(&job);
    free(b);
    if (status == INGOT_OK) return 0;
    fprintf(stderr, "cuda_bench: %s\n", error.message);
    return 4;
}
