/*
 * Attention and rotary position embeddings, written in core operators.
 * Sources: Vaswani et al. 2017, Ainslie et al. 2023 (heads that share keys), Su et al. 2021 (rotary); onnx.ai,
 * "Attention".
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* What the optional output of scores contains. */
enum { RAW, CAPPED, BIASED, PROBABILITIES };

struct attention {
    ig_value q, k, v;     /* [batch, heads, length, size] */
    ig_value past_length; /* i64[]: keys before the first query; [batch, 1, 1, 1] if it differs; IG_NO_VALUE: none */
    ig_value nonpad;      /* i64[batch, 1, 1, 1] or IG_NO_VALUE */
    ig_value allowed;     /* bool, broadcasts to the scores; IG_NO_VALUE: no mask */
    int mode;
};

static const int64_t exchange_middle[] = {0, 2, 1, 3}, exchange_last[] = {0, 1, 3, 2};

/* ---- Operands ---- */

/* [batch, length, heads * size] -> [batch, heads, length, size] */
static ig_value split_heads(struct ig_onnx_node *n, ig_value x, const char *attribute) {
    struct ig_dims *dims = n->dims;
    if (ig_onnx_rank(n, x) == 4) return x;
    ig_onnx_check_rank(n, x, 3, 3, "an operand");
    int64_t heads = ig_onnx_int(n, attribute, 0);
    if (heads < 1) ig_onnx_bad(n, "attribute '%s' is %lld", attribute, (long long)heads);
    struct ig_type t = *ig_type_of(n->g, x);
    ig_dim count = ig_dim_const(dims, heads);
    if (!ig_dim_divides(dims, count, t.dim[2])) ig_onnx_bad(n, "the size is no multiple of '%s'", attribute);
    ig_dim apart[] = {t.dim[0], t.dim[1], count, ig_dim_div(dims, t.dim[2], count)};
    return ig_build_transpose(n->g, ig_build_reshape(n->g, x, apart, 4), exchange_middle);
}

/* [batch, heads, length, size] -> [batch, length, heads * size] */
static ig_value merge_heads(struct ig_onnx_node *n, ig_value x) {
    x = ig_build_transpose(n->g, x, exchange_middle);
    struct ig_type t = *ig_type_of(n->g, x);
    ig_dim whole[] = {t.dim[0], t.dim[1], ig_dim_mul(n->dims, t.dim[2], t.dim[3])};
    return ig_build_reshape(n->g, x, whole, 3);
}

/* Appends the new keys or values to those of the past state. */
static ig_value with_past(struct ig_onnx_node *n, uint32_t input, ig_value now) {
    if (!ig_onnx_has(n, input)) return now;
    ig_value parts[] = {n->in[input], now};
    ig_onnx_check_rank(n, parts[0], 4, 4, "a past state");
    return ig_build_concat(n->g, parts, 2, 2);
}

static struct attention read_attention(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct attention a = {
        .q = split_heads(n, ig_onnx_in(n, 0), "q_num_heads"),
        .k = split_heads(n, ig_onnx_in(n, 1), "kv_num_heads"),
        .v = split_heads(n, ig_onnx_in(n, 2), "kv_num_heads"),
        .past_length = IG_NO_VALUE,
        .nonpad = IG_NO_VALUE,
        .allowed = IG_NO_VALUE,
        .mode = (int)ig_onnx_int(n, "qk_matmul_output_mode", RAW),
    };
    if (ig_onnx_has(n, 4) != ig_onnx_has(n, 5)) ig_onnx_bad(n, "one of past_key and past_value is missing");
    if (ig_onnx_has(n, 6)) {
        ig_dim one = ig_dim_const(n->dims, 1);
        ig_dim apart[] = {ig_onnx_dim(n, a.q, 0), one, one, one};
        a.nonpad = ig_build_reshape(g, ig_build_cast(g, n->in[6], INGOT_I64), apart, 4);
        a.past_length = ig_sub(g, a.nonpad, ig_build_shape_scalar(g, ig_onnx_dim(n, a.q, 2)));
    } else if (ig_onnx_has(n, 4)) {
        a.past_length = ig_build_shape_scalar(g, ig_onnx_dim(n, n->in[4], 2));
    }
    a.k = with_past(n, 4, a.k);
    a.v = with_past(n, 5, a.v);
    return a;
}

/* ---- Which keys a query may see ---- */

static void allow(struct ig_onnx_node *n, struct attention *a, ig_value condition) {
    a->allowed = a->allowed == IG_NO_VALUE ? condition : ig_and(n->g, a->allowed, condition);
}

/* Extends a mask that is shorter than the keys: keys that it does not cover are masked out. */
static ig_value cover_keys(struct ig_onnx_node *n, const struct attention *a, ig_value mask) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, mask);
    ig_dim keys = ig_onnx_dim(n, a->k, 2), zero = ig_dim_const(dims, 0), none[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    if (t.rank == 0 || ig_dim_equal(dims, t.dim[t.rank - 1], keys) == IG_YES) return mask;
    for (int i = 0; i < t.rank; i++)
        none[i] = after[i] = zero;
    after[t.rank - 1] = ig_dim_max(dims, ig_dim_sub(dims, keys, t.dim[t.rank - 1]), zero);
    return ig_build_pad(n->g, mask, none, after, IG_PAD_CONSTANT,
                        ig_build_scalar(n->g, t.dtype, t.dtype == INGOT_BOOL ? 0 : -INFINITY));
}

/* Causal and window masks: bounds on the distance from a query's position (its index plus past_length) to a key's. */
static void allow_distances(struct ig_onnx_node *n, struct attention *a) {
    struct ig_graph *g = n->g;
    int64_t left = ig_onnx_int(n, "left_window_size", -1), right = ig_onnx_int(n, "right_window_size", -1);
    bool causal = ig_onnx_flag(n, "is_causal", false);
    if (!causal && left < 0 && right < 0) return;
    ig_dim grid[] = {ig_onnx_dim(n, a->q, 2), ig_onnx_dim(n, a->k, 2)};
    ig_value query = ig_build_iota(g, grid, 2, 0), key = ig_build_iota(g, grid, 2, 1);
    if (a->past_length != IG_NO_VALUE) query = ig_add(g, query, a->past_length);
    if (causal) allow(n, a, ig_le(g, key, query));
    if (left >= 0) allow(n, a, ig_le(g, ig_sub(g, query, ig_build_scalar_int(g, INGOT_I64, left)), key));
    if (right >= 0) allow(n, a, ig_le(g, key, ig_add(g, query, ig_build_scalar_int(g, INGOT_I64, right))));
}

/* Sets masked scores to -inf, and adds a float mask. */
static ig_value mask_scores(struct ig_onnx_node *n, struct attention *a, ig_value scores) {
    struct ig_graph *g = n->g;
    allow_distances(n, a);
    if (a->nonpad != IG_NO_VALUE) {
        ig_dim keys = ig_onnx_dim(n, a->k, 2);
        allow(n, a, ig_lt(g, ig_build_iota(g, &keys, 1, 0), a->nonpad));
    }
    if (ig_onnx_has(n, 3)) {
        ig_value mask = cover_keys(n, a, n->in[3]);
        if (ig_onnx_type(n, mask) == INGOT_BOOL)
            allow(n, a, mask);
        else
            scores = ig_add(g, scores, ig_build_cast(g, mask, ig_onnx_type(n, scores)));
    }
    if (a->allowed == IG_NO_VALUE) return scores;
    return ig_build_where(g, a->allowed, scores, ig_like(g, scores, -INFINITY));
}

/* Softmax. If masked, a query that sees no key gets zeros instead of NaN. */
static ig_value probabilities(struct ig_onnx_node *n, ig_value scores, bool masked) {
    struct ig_graph *g = n->g;
    int64_t last = 3;
    ig_value top = ig_build_reduce(g, IG_OP_reduce_max, scores, &last, 1);
    if (masked) {
        ig_value none = ig_eq(g, top, ig_like(g, top, -INFINITY));
        top = ig_build_where(g, none, ig_like(g, top, 0), top);
    }
    ig_value e = ig_exp(g, ig_sub(g, scores, top));
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, e, &last, 1);
    if (masked) sum = ig_build_where(g, ig_eq(g, sum, ig_like(g, sum, 0)), ig_like(g, sum, 1), sum);
    return ig_div(g, e, sum);
}

/* ---- The products ---- */

/* a times b. Query heads that share a head of b are contiguous: they become further rows of one product. */
static ig_value product(struct ig_onnx_node *n, ig_value a, ig_value b) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, a);
    ig_dim shared = ig_onnx_dim(n, b, 1), columns = ig_onnx_dim(n, b, 3);
    enum ingot_dtype type = t.dtype;
    if (ig_dim_equal(dims, t.dim[1], shared) == IG_YES) return ig_build_matmul(n->g, a, b, type);
    if (!ig_dim_divides(dims, shared, t.dim[1])) ig_onnx_bad(n, "the query's heads are no multiple of the key's");
    ig_dim rows = ig_dim_mul(dims, ig_dim_div(dims, t.dim[1], shared), t.dim[2]);
    ig_dim folded[] = {t.dim[0], shared, rows, t.dim[3]}, result[] = {t.dim[0], t.dim[1], t.dim[2], columns};
    return ig_build_reshape(n->g, ig_build_matmul(n->g, ig_build_reshape(n->g, a, folded, 4), b, type), result, 4);
}

static ig_value soft_cap(struct ig_onnx_node *n, ig_value scores) {
    double cap = ig_onnx_float(n, "softcap", 0);
    if (cap == 0) return scores;
    return ig_mul_n(n->g, ig_tanh(n->g, ig_div_n(n->g, scores, cap)), cap);
}

ig_value ig_import_attention(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct attention a = read_attention(n);
    enum ingot_dtype type = ig_onnx_type(n, a.q);
    double scale = ig_onnx_float(n, "scale", 0);
    if (scale == 0) scale = 1 / sqrt((double)ig_onnx_static_dim(n, a.q, 3, "the size of a head"));
    ig_value shown[4];
    ig_value keys = ig_build_transpose(g, a.k, exchange_last);
    /* Narrow scores need the scale before the product, as large ones would overflow. */
    bool narrow = ingot_dtype_size(type) < 4;
    ig_value scores = product(n, narrow ? ig_mul_n(g, a.q, scale) : a.q, keys);
    shown[RAW] = ig_onnx_wide(n, narrow ? scores : ig_mul_n(g, scores, scale));
    shown[CAPPED] = soft_cap(n, shown[RAW]);
    shown[BIASED] = mask_scores(n, &a, shown[CAPPED]);
    bool masked = a.allowed != IG_NO_VALUE || ig_onnx_has(n, 3);
    shown[PROBABILITIES] = probabilities(n, shown[BIASED], masked);
    ig_value y = product(n, ig_build_cast(g, shown[PROBABILITIES], type), a.v);
    if (n->n_out > 1) n->out[1] = a.k;
    if (n->n_out > 2) n->out[2] = a.v;
    if (n->n_out > 3) {
        if (a.mode < RAW || a.mode > PROBABILITIES) ig_onnx_bad(n, "attribute 'qk_matmul_output_mode' is %d", a.mode);
        n->out[3] = ig_build_cast(g, shown[a.mode], type);
    }
    return ig_onnx_rank(n, n->in[0]) == 4 ? y : merge_heads(n, y);
}

/* ---- Rotary embedding ---- */

/* Elements first, first + step, … of the last axis. */
static ig_value pick(struct ig_onnx_node *n, ig_value x, ig_dim first, ig_dim count, int64_t step) {
    return ig_build_slice_axis(n->g, x, ig_onnx_rank(n, x) - 1, first, count, step);
}

/* The cosines or sines per position, shaped to broadcast over [batch, heads, length, half]. */
static ig_value angles(struct ig_onnx_node *n, uint32_t input) {
    int axis = 1;
    ig_value cache = ig_onnx_in(n, input);
    if (ig_onnx_has(n, 3)) {
        ig_onnx_check_rank(n, cache, 2, 2, "a cache");
        cache = ig_build_gather(n->g, cache, n->in[3], 0);
    }
    ig_onnx_check_rank(n, cache, 3, 3, "a cache");
    return ig_build_unsqueeze(n->g, cache, &axis, 1);
}

/* Rotates pairs of elements: (x1, x2) -> (cos x1 - sin x2, sin x1 + cos x2). Pairs come from two halves, or are
 * neighbours. */
static ig_value rotate(struct ig_onnx_node *n, ig_value x, ig_dim half, bool neighbours) {
    struct ig_graph *g = n->g;
    struct ig_type t = *ig_type_of(g, x);
    ig_dim zero = ig_dim_const(n->dims, 0), one = ig_dim_const(n->dims, 1);
    ig_value cosine = angles(n, 1), sine = angles(n, 2), parts[2];
    ig_value x1 = pick(n, x, zero, half, neighbours ? 2 : 1);
    ig_value x2 = pick(n, x, neighbours ? one : half, half, neighbours ? 2 : 1);
    parts[0] = ig_sub(g, ig_mul(g, cosine, x1), ig_mul(g, sine, x2));
    parts[1] = ig_add(g, ig_mul(g, sine, x1), ig_mul(g, cosine, x2));
    if (!neighbours) return ig_build_concat(g, parts, 2, t.rank - 1);
    for (int i = 0; i < 2; i++)
        parts[i] = ig_build_unsqueeze(g, parts[i], &t.rank, 1);
    return ig_build_reshape(g, ig_build_concat(g, parts, 2, t.rank), t.dim, t.rank);
}

ig_value ig_import_rotary_embedding(struct ig_onnx_node *n) {
    struct ig_dims *dims = n->dims;
    ig_value x = split_heads(n, ig_onnx_in(n, 0), "num_heads");
    ig_dim size = ig_onnx_dim(n, x, 3), zero = ig_dim_const(dims, 0);
    int64_t given = ig_onnx_int(n, "rotary_embedding_dim", 0);
    ig_dim turned = given ? ig_dim_const(dims, given) : size;
    ig_dim half = ig_dim_div(dims, turned, ig_dim_const(dims, 2));
    if (given < 0 || ig_dim_less(dims, size, turned) == IG_YES) ig_onnx_bad(n, "more is to be turned than there is");
    ig_value parts[2] = {rotate(n, pick(n, x, zero, turned, 1), half, ig_onnx_flag(n, "interleaved", false))};
    if (turned != size) {
        parts[1] = pick(n, x, turned, ig_dim_sub(dims, size, turned), 1);
        parts[0] = ig_build_concat(n->g, parts, 2, 3);
    }
    return ig_onnx_rank(n, n->in[0]) == 4 ? parts[0] : merge_heads(n, parts[0]);
}
