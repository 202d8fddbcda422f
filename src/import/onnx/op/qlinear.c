/*
 * Quantised operators of ONNX Runtime's own (domain com.microsoft), in core operators. Sums are exact integers, so that their
 * order does not matter; functions are computed in f32 between dequantisation and quantisation. Source: ONNX Runtime,
 * "Contrib operators".
 */
#include "import/onnx/op/arith.h"
#include "import/onnx/op/pool.h"
#include "import/onnx/op/quantize.h"

/* A number that may be stored as a vector of one element. */
static ig_value number(struct ig_onnx_node *n, ig_value value) {
    return ig_build_reshape(n->g, value, NULL, 0);
}

/* The scale in this input, which is one for the whole tensor. */
static ig_value scale_in(struct ig_onnx_node *n, uint32_t input) {
    return number(n, ig_build_cast(n->g, ig_onnx_in(n, input), INGOT_F32));
}

static ig_value zero_in(struct ig_onnx_node *n, uint32_t input, enum ingot_dtype type) {
    ig_onnx_check_zero_type(n, input, type);
    return ig_onnx_has(n, input) ? number(n, n->in[input]) : IG_NO_VALUE;
}

/* Tensor, scale and zero point are inputs side by side: value - zero, in `wide`. */
static ig_value centered_in(struct ig_onnx_node *n, uint32_t input, enum ingot_dtype wide) {
    ig_value x = ig_onnx_in(n, input);
    enum ingot_dtype type = ig_onnx_type(n, x);
    if (type != INGOT_I8 && type != INGOT_U8)
        ig_onnx_bad(n, "input %u has type %s, expected i8 or u8", input, ingot_dtype_name(type));
    return ig_onnx_centered(n, x, zero_in(n, input + 2, type), wide);
}

static ig_value dequantized_in(struct ig_onnx_node *n, uint32_t input) {
    return ig_mul(n->g, centered_in(n, input, INGOT_F32), scale_in(n, input + 1));
}

/* y of f32 by the scale and the zero point in two inputs side by side. */
static ig_value quantized_by(struct ig_onnx_node *n, ig_value y, uint32_t scale, enum ingot_dtype type) {
    return ig_onnx_quantized(n, ig_div(n->g, y, scale_in(n, scale)), zero_in(n, scale + 1, type), type);
}

/* ---- Elementwise: tensor, scale and zero point of each operand, then scale and zero point of the result ---- */

ig_value ig_import_qlinear_add(struct ig_onnx_node *n) {
    ig_value sum = ig_add(n->g, dequantized_in(n, 0), dequantized_in(n, 3));
    return quantized_by(n, sum, 6, ig_onnx_type(n, n->in[0]));
}

ig_value ig_import_qlinear_mul(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    enum ingot_dtype type = ig_onnx_type(n, ig_onnx_in(n, 0));
    ig_value product = ig_mul(g, centered_in(n, 0, INGOT_I32), centered_in(n, 3, INGOT_I32));
    ig_value scale = ig_div(g, ig_mul(g, scale_in(n, 1), scale_in(n, 4)), scale_in(n, 6));
    return ig_onnx_requantized(n, product, scale, zero_in(n, 7, type), type);
}

ig_value ig_import_qlinear_sigmoid(struct ig_onnx_node *n) {
    ig_value y = ig_sigmoid(n->g, dequantized_in(n, 0));
    return quantized_by(n, y, 3, ig_onnx_type(n, n->in[0]));
}

ig_value ig_import_qlinear_leaky_relu(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = dequantized_in(n, 0), below = ig_mul_n(g, x, ig_onnx_float(n, "alpha", 0.01));
    ig_value y = ig_build_where(g, ig_lt_n(g, x, 0), below, x);
    return quantized_by(n, y, 3, ig_onnx_type(n, n->in[0]));
}

/* condition, then both alternatives, then the result's scale and zero point */
ig_value ig_import_qlinear_where(struct ig_onnx_node *n) {
    ig_value a = dequantized_in(n, 1), b = dequantized_in(n, 4);
    if (ig_onnx_type(n, ig_onnx_in(n, 0)) != INGOT_BOOL) ig_onnx_bad(n, "the condition is not bool");
    return quantized_by(n, ig_build_where(n->g, n->in[0], a, b), 7, ig_onnx_type(n, n->in[1]));
}

/* ---- Others ---- */

/* The result's scale and zero point, then three inputs for each part. */
ig_value ig_import_qlinear_concat(struct ig_onnx_node *n) {
    ig_value scale = scale_in(n, 0), zero = number(n, ig_onnx_in(n, 1));
    enum ingot_dtype type = ig_onnx_type(n, zero);
    if (n->n_in < 5 || (n->n_in - 2) % 3) ig_onnx_bad(n, "%u inputs, expected 2 and 3 for each part", n->n_in);
    int count = (int)(n->n_in - 2) / 3;
    ig_value *parts = IG_NEW_ARRAY(n->job, ig_value, (size_t)count);
    for (int i = 0; i < count; i++) {
        ig_value x = dequantized_in(n, 2 + 3 * (uint32_t)i);
        parts[i] = ig_onnx_quantized(n, ig_div(n->g, x, scale), zero, type);
    }
    int rank = ig_onnx_rank(n, parts[0]);
    for (int i = 1; i < count; i++)
        ig_onnx_check_rank(n, parts[i], rank, rank, "a part");
    return ig_build_concat(n->g, parts, count, ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), rank));
}

/* The attribute `opset` says whether, before 13, all axes from `axis` on form one row. */
ig_value ig_import_qlinear_softmax(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = dequantized_in(n, 0);
    int rank = ig_onnx_rank(n, x), count = 0;
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), rank);
    bool matrix = ig_onnx_int(n, "opset", 13) < 13;
    int64_t axes[INGOT_MAX_RANK];
    for (int i = axis; i < (matrix ? rank : axis + 1); i++)
        axes[count++] = i;
    ig_value e = ig_exp(g, ig_sub(g, x, ig_build_reduce(g, IG_OP_reduce_max, x, axes, count)));
    ig_value y = ig_div(g, e, ig_build_reduce(g, IG_OP_reduce_sum, e, axes, count));
    return quantized_by(n, y, 3, ig_onnx_type(n, n->in[0]));
}

/* ---- Pools ---- */

/* Moves the channels of a channels-last tensor to axis 1, or back. */
static ig_value move_channels(struct ig_onnx_node *n, ig_value x, bool to_last) {
    int rank = ig_onnx_rank(n, x);
    int64_t perm[INGOT_MAX_RANK] = {0, to_last ? 2 : rank - 1};
    for (int i = 2; i < rank; i++)
        perm[i] = to_last ? i + 1 : i - 1;
    if (to_last) perm[rank - 1] = 1;
    return ig_build_transpose(n->g, x, perm);
}

static ig_value pooled_operand(struct ig_onnx_node *n, enum ingot_dtype wide) {
    ig_value x = centered_in(n, 0, wide);
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "input 0");
    return ig_onnx_flag(n, "channels_last", false) ? move_channels(n, x, false) : x;
}

static ig_value pooled_result(struct ig_onnx_node *n, ig_value mean, ig_value scale) {
    enum ingot_dtype type = ig_onnx_type(n, n->in[0]);
    ig_value y = ig_onnx_requantized(n, mean, scale, zero_in(n, 4, type), type);
    return ig_onnx_flag(n, "channels_last", false) ? move_channels(n, y, true) : y;
}

/* Sums of windows of up to 65,793 elements are exact in f32, too. */
ig_value ig_import_qlinear_average_pool(struct ig_onnx_node *n) {
    ig_value mean = ig_onnx_average_pool(n, pooled_operand(n, INGOT_F32));
    return pooled_result(n, mean, ig_div(n->g, scale_in(n, 1), scale_in(n, 3)));
}

ig_value ig_import_qlinear_global_average_pool(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = pooled_operand(n, INGOT_I32);
    struct ig_type t = *ig_type_of(g, x);
    int64_t axes[INGOT_MAX_RANK];
    for (int i = 2; i < t.rank; i++)
        axes[i - 2] = i;
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, x, axes, t.rank - 2);
    ig_dim elements = ig_dim_product(n->dims, t.dim + 2, t.rank - 2);
    ig_value count = ig_build_cast(g, ig_build_shape_scalar(g, elements), INGOT_F32);
    return pooled_result(n, sum, ig_div(g, scale_in(n, 1), ig_mul(g, scale_in(n, 3), count)));
}

/* ---- Products ---- */

/* A vector of scales or zero points is per column, which broadcasts by itself; of one element, it is a number. */
static ig_value per_column(struct ig_onnx_node *n, ig_value value) {
    int64_t size;
    bool single = ig_onnx_rank(n, value) == 1 && ig_dim_is_const(n->dims, ig_onnx_dim(n, value, 0), &size) && size == 1;
    return single ? number(n, value) : value;
}

static ig_value column_zero(struct ig_onnx_node *n, uint32_t input, enum ingot_dtype type) {
    ig_onnx_check_zero_type(n, input, type);
    return ig_onnx_has(n, input) ? per_column(n, n->in[input]) : IG_NO_VALUE;
}

/* (a - a_zero) times (b - b_zero) in i32. */
static ig_value product(struct ig_onnx_node *n, ig_value a, ig_value a_zero, ig_value b, ig_value b_zero) {
    ig_onnx_check_rank(n, a, 2, INGOT_MAX_RANK, "a matrix");
    ig_onnx_check_rank(n, b, 2, INGOT_MAX_RANK, "a matrix");
    a = ig_onnx_centered(n, a, a_zero, INGOT_I32);
    return ig_build_matmul(n->g, a, ig_onnx_centered(n, b, b_zero, INGOT_I32), INGOT_I32);
}

static ig_value plus_bias(struct ig_onnx_node *n, ig_value y, uint32_t input) {
    return ig_onnx_has(n, input) ? ig_add(n->g, y, ig_build_cast(n->g, n->in[input], INGOT_F32)) : y;
}

/* a, b, a_scale, b_scale, a_zero, b_zero, bias */
ig_value ig_import_matmul_integer_to_float(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1), a_scale = ig_onnx_in(n, 2);
    ig_value b_scale = ig_build_cast(g, per_column(n, ig_onnx_in(n, 3)), INGOT_F32);
    ig_value a_zero = zero_in(n, 4, ig_onnx_type(n, a)), b_zero = column_zero(n, 5, ig_onnx_type(n, b));
    ig_value sum = ig_build_cast(g, product(n, a, a_zero, b, b_zero), INGOT_F32);
    ig_value y = ig_mul(g, sum, ig_mul(g, scale_in(n, 2), b_scale));
    return ig_build_cast(g, plus_bias(n, y, 6), ig_onnx_type(n, a_scale));
}

/* a of f32, b, b_scale, b_zero, bias */
ig_value ig_import_dynamic_quantize_matmul(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    struct ig_onnx_dynamic a = ig_onnx_quantized_dynamically(n, ig_onnx_in(n, 0));
    ig_value b = ig_onnx_in(n, 1), b_scale = per_column(n, ig_onnx_in(n, 2));
    ig_value sum = product(n, a.value, a.zero, b, column_zero(n, 3, ig_onnx_type(n, b)));
    ig_value y = ig_mul(g, ig_build_cast(g, sum, INGOT_F32), ig_mul(g, a.scale, b_scale));
    return plus_bias(n, y, 4);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, c (i32, of the products' scale), y_scale, y_zero; of f32 without the last two */
ig_value ig_import_qgemm(struct ig_onnx_node *n) {
    static const int64_t turned[] = {1, 0};
    struct ig_graph *g = n->g;
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 3), a_zero = zero_in(n, 2, ig_onnx_type(n, a));
    ig_value b_zero = column_zero(n, 5, ig_onnx_type(n, b));
    ig_onnx_check_rank(n, a, 2, 2, "input 0");
    ig_onnx_check_rank(n, b, 2, 2, "input 3");
    if (ig_onnx_flag(n, "transA", false)) a = ig_build_transpose(g, a, turned);
    if (ig_onnx_flag(n, "transB", false)) b = ig_build_transpose(g, b, turned);
    ig_value sum = product(n, a, a_zero, b, b_zero);
    if (ig_onnx_has(n, 6)) sum = ig_add(g, sum, n->in[6]);
    ig_value scale = ig_mul(g, scale_in(n, 1), per_column(n, ig_onnx_in(n, 4)));
    scale = ig_mul_n(g, scale, ig_onnx_float(n, "alpha", 1));
    if (!ig_onnx_has(n, 7)) return ig_mul(g, ig_build_cast(g, sum, INGOT_F32), scale);
    ig_value y_zero = number(n, ig_onnx_in(n, 8));
    return ig_onnx_requantized(n, sum, ig_div(g, scale, scale_in(n, 7)), y_zero, ig_onnx_type(n, y_zero));
}
