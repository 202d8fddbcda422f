/*
 * QAttention, one of ONNX Runtime's own operators: the projection to queries, keys and values is one product of integers, what follows
 * is attention in f32. Source: ONNX Runtime, "Contrib operators".
 */
#include <math.h>

#include "import/onnx/op/arith.h"
#include "import/onnx/op/quantize.h"

/* input, weight, bias, input_scale, weight_scale, mask, input_zero, weight_zero, past */
enum { INPUT, WEIGHT, BIAS, INPUT_SCALE, WEIGHT_SCALE, MASK, INPUT_ZERO, WEIGHT_ZERO, PAST };

struct heads {
    ig_dim batch, length, count, size;
    ig_value q, k, v;   /* [batch, heads, length, size] */
    ig_dim past, total; /* keys before the first query, and all */
};

static ig_value number_or_vector(struct ig_onnx_node *n, ig_value value) {
    int64_t size;
    bool single = ig_onnx_rank(n, value) == 1 && ig_dim_is_const(n->dims, ig_onnx_dim(n, value, 0), &size) && size == 1;
    return single ? ig_build_reshape(n->g, value, NULL, 0) : value;
}

static ig_value zero_in(struct ig_onnx_node *n, uint32_t input, uint32_t of) {
    ig_onnx_check_zero_type(n, input, ig_onnx_type(n, ig_onnx_in(n, of)));
    return ig_onnx_has(n, input) ? number_or_vector(n, n->in[input]) : IG_NO_VALUE;
}

/* [batch, length, 3 * heads * size] */
static ig_value projected(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_centered(n, ig_onnx_in(n, INPUT), zero_in(n, INPUT_ZERO, INPUT), INGOT_I32);
    ig_value w = ig_onnx_centered(n, ig_onnx_in(n, WEIGHT), zero_in(n, WEIGHT_ZERO, WEIGHT), INGOT_I32);
    ig_onnx_check_rank(n, x, 3, 3, "input 0");
    ig_onnx_check_rank(n, w, 2, 2, "the weight");
    ig_value x_scale = ig_build_cast(g, number_or_vector(n, ig_onnx_in(n, INPUT_SCALE)), INGOT_F32);
    ig_value w_scale = ig_build_cast(g, number_or_vector(n, ig_onnx_in(n, WEIGHT_SCALE)), INGOT_F32);
    ig_value sum = ig_build_cast(g, ig_build_matmul(g, x, w, INGOT_I32), INGOT_F32);
    ig_value y = ig_mul(g, sum, ig_mul(g, x_scale, w_scale));
    return ig_add(g, y, ig_build_cast(g, ig_onnx_in(n, BIAS), INGOT_F32));
}

/* One of three parts of the last axis, as [batch, heads, length, size]. */
static ig_value part(struct ig_onnx_node *n, const struct heads *h, ig_value all, int which) {
    static const int64_t exchange_middle[] = {0, 2, 1, 3};
    ig_dim width = ig_dim_mul(n->dims, h->count, h->size),
           start = ig_dim_mul(n->dims, ig_dim_const(n->dims, which), width);
    ig_dim apart[] = {h->batch, h->length, h->count, h->size};
    ig_value x = ig_build_slice_axis(n->g, all, 2, start, width, 1);
    return ig_build_transpose(n->g, ig_build_reshape(n->g, x, apart, 4), exchange_middle);
}

/* Puts the past keys or values, [2, batch, heads, past, size], before those of now. */
static ig_value with_past(struct ig_onnx_node *n, ig_value now, int which) {
    static const int first = 0;
    if (!ig_onnx_has(n, PAST)) return now;
    ig_onnx_check_rank(n, n->in[PAST], 5, 5, "the past state");
    ig_dim one = ig_dim_const(n->dims, 1);
    ig_value past = ig_build_slice_axis(n->g, n->in[PAST], 0, ig_dim_const(n->dims, which), one, 1);
    ig_value parts[] = {ig_build_cast(n->g, ig_build_squeeze(n->g, past, &first, 1), INGOT_F32), now};
    return ig_build_concat(n->g, parts, 2, 2);
}

static struct heads read_heads(struct ig_onnx_node *n) {
    struct ig_dims *dims = n->dims;
    int64_t count = ig_onnx_int(n, "num_heads", 0);
    if (count < 1 || count > INT32_MAX) ig_onnx_bad(n, "attribute 'num_heads' is %lld", (long long)count);
    ig_value all = projected(n);
    struct heads h = {
        .batch = ig_onnx_dim(n, all, 0), .length = ig_onnx_dim(n, all, 1), .count = ig_dim_const(dims, count)};
    ig_dim parts = ig_dim_mul(dims, h.count, ig_dim_const(dims, 3)), width = ig_onnx_dim(n, all, 2);
    if (!ig_dim_divides(dims, parts, width)) ig_onnx_bad(n, "the weight's columns are no multiple of 3 * num_heads");
    h.size = ig_dim_div(dims, width, parts);
    h.past = ig_onnx_has(n, PAST) && ig_onnx_rank(n, n->in[PAST]) == 5 ? ig_onnx_dim(n, n->in[PAST], 3)
                                                                       : ig_dim_const(dims, 0);
    h.total = ig_dim_add(dims, h.past, h.length);
    h.q = part(n, &h, all, 0);
    h.k = with_past(n, part(n, &h, all, 1), 0);
    h.v = with_past(n, part(n, &h, all, 2), 1);
    return h;
}

/*
 * What is masked, as bool that broadcasts to [batch, heads, length, total]: by a number of keys for each sample, [batch], or 0 for
 * each masked key, [batch, total] or [batch, length, total]. IG_NO_VALUE: nothing.
 */
static ig_value masked_keys(struct ig_onnx_node *n, const struct heads *h) {
    struct ig_graph *g = n->g;
    ig_dim one = ig_dim_const(n->dims, 1);
    if (!ig_onnx_has(n, MASK)) return IG_NO_VALUE;
    ig_value mask = n->in[MASK];
    int rank = ig_onnx_rank(n, mask);
    if (ig_onnx_type(n, mask) != INGOT_I32)
        ig_onnx_bad(n, "the mask has type %s, expected i32", ingot_dtype_name(ig_onnx_type(n, mask)));
    if (rank < 1 || rank > 3) ig_onnx_refuse(n, "a mask of rank %d is not supported", rank);
    if (rank == 1) {
        if (ig_dim_equal(n->dims, ig_onnx_dim(n, mask, 0), h->batch) != IG_YES)
            ig_onnx_refuse(n, "a mask of other than one number for each sample is not supported");
        ig_dim apart[] = {h->batch, one, one, one};
        ig_value last = ig_build_cast(g, ig_build_reshape(g, mask, apart, 4), INGOT_I64);
        return ig_le(g, last, ig_build_iota(g, &h->total, 1, 0));
    }
    ig_dim apart[] = {h->batch, one, rank == 3 ? h->length : one, h->total};
    ig_value zero = ig_build_scalar_int(g, INGOT_I32, 0);
    return ig_map2(g, IG_OP_le, ig_build_reshape(g, mask, apart, 4), zero);
}

/* Keys behind a query's own position. */
static ig_value later_keys(struct ig_onnx_node *n, const struct heads *h) {
    ig_dim grid[] = {h->length, h->total};
    ig_value query = ig_add(n->g, ig_build_iota(n->g, grid, 2, 0), ig_build_shape_scalar(n->g, h->past));
    return ig_lt(n->g, query, ig_build_iota(n->g, grid, 2, 1));
}

static ig_value softmax(struct ig_onnx_node *n, ig_value scores) {
    static const int64_t last = 3;
    ig_value top = ig_build_reduce(n->g, IG_OP_reduce_max, scores, &last, 1);
    ig_value e = ig_exp(n->g, ig_sub(n->g, scores, top));
    return ig_div(n->g, e, ig_build_reduce(n->g, IG_OP_reduce_sum, e, &last, 1));
}

/* Masked keys are not forbidden, but far less likely: so that a query that sees none still has a result. */
static ig_value probabilities(struct ig_onnx_node *n, const struct heads *h) {
    static const int64_t exchange_last[] = {0, 1, 3, 2};
    struct ig_graph *g = n->g;
    double scale = ig_onnx_float(n, "scale", 0), filter = ig_onnx_float(n, "mask_filter_value", -10000);
    if (scale == 0) scale = 1 / sqrt((double)ig_onnx_static_dim(n, h->q, 3, "the size of a head"));
    ig_value scores = ig_build_matmul(g, h->q, ig_build_transpose(g, h->k, exchange_last), INGOT_F32);
    scores = ig_mul_n(g, scores, scale);
    ig_value masked = masked_keys(n, h);
    if (masked != IG_NO_VALUE) {
        ig_value less = ig_build_where(g, masked, ig_like(g, scores, filter), ig_like(g, scores, 0));
        scores = ig_add(g, scores, less);
    }
    if (ig_onnx_flag(n, "unidirectional", false))
        scores = ig_build_where(g, later_keys(n, h), ig_like(g, scores, -INFINITY), scores);
    return softmax(n, scores);
}

ig_value ig_import_qattention(struct ig_onnx_node *n) {
    static const int64_t exchange_middle[] = {0, 2, 1, 3};
    static const int first = 0;
    struct ig_graph *g = n->g;
    if (ig_onnx_flag(n, "do_rotary", false)) ig_onnx_refuse(n, "attribute 'do_rotary' is not supported");
    if (ig_onnx_flag(n, "past_present_share_buffer", false))
        ig_onnx_refuse(n, "attribute 'past_present_share_buffer' is not supported");
    struct heads h = read_heads(n);
    enum ingot_dtype type = ig_onnx_type(n, n->in[BIAS]);
    if (n->n_out > 1) {
        ig_value parts[] = {ig_build_unsqueeze(g, h.k, &first, 1), ig_build_unsqueeze(g, h.v, &first, 1)};
        n->out[1] = ig_build_cast(g, ig_build_concat(g, parts, 2, 0), type);
    }
    ig_value y = ig_build_matmul(g, probabilities(n, &h), h.v, INGOT_F32);
    ig_dim whole[] = {h.batch, h.length, ig_dim_mul(n->dims, h.count, h.size)};
    y = ig_build_reshape(g, ig_build_transpose(g, y, exchange_middle), whole, 3);
    return ig_build_cast(g, y, type);
}
