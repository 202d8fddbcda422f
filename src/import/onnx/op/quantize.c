/* Quantisation: per tensor, per axis, or in blocks along an axis; to integers of 2 to 16 bits and floats of 4 and 8. */
#include "import/onnx/op/quantize.h"

#include <math.h>

#include "base/narrow.h"
#include "import/onnx/op/arith.h"
#include "import/onnx/op/narrow.h"

/* ---- The arithmetic ---- */

void ig_onnx_check_quantized(const struct ig_onnx_node *n, enum ingot_dtype type) {
    bool is_integer = type == INGOT_I8 || type == INGOT_U8 || type == INGOT_I16 || type == INGOT_U16;
    if (is_integer || (ig_dtype_is_narrow(type) && type != INGOT_F8E8M0)) return;
    ig_onnx_refuse(n, "quantisation to %s is not supported", ingot_dtype_name(type));
}

void ig_onnx_check_zero_type(const struct ig_onnx_node *n, uint32_t input, enum ingot_dtype type) {
    if (!ig_onnx_has(n, input) || ig_onnx_type(n, n->in[input]) == type) return;
    ig_onnx_bad(n, "the zero point in input %u has type %s, expected %s", input,
                ingot_dtype_name(ig_onnx_type(n, n->in[input])), ingot_dtype_name(type));
}

static bool is_float8(enum ingot_dtype type) {
    return ig_narrow_is_float(type) && type != INGOT_F4E2M1;
}

enum ingot_dtype ig_onnx_product_type(enum ingot_dtype type) {
    return ig_narrow_is_float(type) ? INGOT_F32 : INGOT_I32;
}

ig_value ig_onnx_centered(struct ig_onnx_node *n, ig_value value, ig_value zero, enum ingot_dtype wide) {
    enum ingot_dtype type = ig_onnx_type(n, value);
    value = ig_build_cast(n->g, value, wide);
    if (zero == IG_NO_VALUE || is_float8(type)) return value;
    return ig_sub(n->g, value, ig_build_cast(n->g, zero, wide));
}

/* Rounded to integers before the zero point is added, which is exact then: what has more than 24 bits saturates anyway. */
static ig_value quantized_integer(struct ig_onnx_node *n, ig_value x, ig_value zero, enum ingot_dtype type) {
    struct ig_graph *g = n->g;
    int bits = ig_narrow_bits(type) ? ig_narrow_bits(type) : 8 * (int)ingot_dtype_size(type);
    bool is_signed = ig_dtype_is_signed(type) || type == INGOT_I4 || type == INGOT_I2;
    x = ig_round(g, x);
    if (zero != IG_NO_VALUE) x = ig_add(g, x, ig_build_cast(g, zero, INGOT_F32));
    if (is_signed) { /* casts make NaN 0, which is the lowest number of the other types only */
        ig_value lowest = ig_like(g, x, -ldexp(1, bits - 1));
        x = ig_build_where(g, ig_lt(g, lowest, x), x, lowest);
    }
    return ig_build_cast_saturating(g, x, type);
}

ig_value ig_onnx_quantized(struct ig_onnx_node *n, ig_value x, ig_value zero, enum ingot_dtype type) {
    if (!ig_narrow_is_float(type)) return quantized_integer(n, x, zero, type);
    if (zero != IG_NO_VALUE && !is_float8(type)) x = ig_add(n->g, x, ig_build_cast(n->g, zero, INGOT_F32));
    return ig_onnx_cast(n, x, type);
}

ig_value ig_onnx_requantized(struct ig_onnx_node *n, ig_value sum, ig_value scale, ig_value zero,
                             enum ingot_dtype type) {
    ig_value x = ig_mul(n->g, ig_build_cast(n->g, sum, INGOT_F32), scale);
    return ig_onnx_quantized(n, x, zero, type);
}

/* ---- Scales ---- */

/* Expands a scale per block along `axis`: every element of it applies to block_size elements of x. */
static ig_value expand_blocks(struct ig_onnx_node *n, ig_value scale, const struct ig_type *x, int axis,
                              int64_t block) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, scale);
    ig_dim size = ig_dim_const(dims, block), one = ig_dim_const(dims, 1);
    ig_dim before = ig_dim_product(dims, t.dim, axis + 1),
           after = ig_dim_product(dims, t.dim + axis + 1, t.rank - axis - 1);
    ig_dim apart[] = {before, one, after}, stretched[] = {before, size, after};
    scale = ig_build_broadcast(n->g, ig_build_reshape(n->g, scale, apart, 3), stretched, 3);
    t.dim[axis] = ig_dim_mul(dims, t.dim[axis], size);
    scale = ig_build_reshape(n->g, scale, t.dim, t.rank);
    return ig_build_slice_axis(n->g, scale, axis, ig_dim_const(dims, 0), x->dim[axis], 1);
}

/* Shapes a scale or zero point to broadcast over x. */
static ig_value spread_over(struct ig_onnx_node *n, ig_value value, ig_value x) {
    struct ig_type t = *ig_type_of(n->g, x);
    int rank = ig_onnx_rank(n, value);
    int64_t block = ig_onnx_int(n, "block_size", 0), size;
    bool single = rank == 0 || (rank == 1 && ig_dim_is_const(n->dims, ig_onnx_dim(n, value, 0), &size) && size == 1);
    if (block == 0 && single) return ig_build_reshape(n->g, value, NULL, 0);
    int axis = t.rank == 1 ? 0 : ig_onnx_axis(n, ig_onnx_int(n, "axis", 1), t.rank);
    if (block == 0) {
        ig_onnx_check_rank(n, value, 1, 1, "the scale");
        return ig_onnx_along(n, value, axis, t.rank);
    }
    if (block < 0 || block > INT32_MAX) ig_onnx_bad(n, "attribute 'block_size' is %lld", (long long)block);
    ig_onnx_check_rank(n, value, t.rank, t.rank, "the scale");
    return expand_blocks(n, value, &t, axis, block);
}

static ig_value zero_over(struct ig_onnx_node *n, uint32_t input, ig_value x) {
    return ig_onnx_has(n, input) ? spread_over(n, n->in[input], x) : IG_NO_VALUE;
}

/* The floating-point type that an attribute names; `otherwise` if it is absent. */
static enum ingot_dtype float_attribute(struct ig_onnx_node *n, const char *name, enum ingot_dtype otherwise) {
    int64_t value = ig_onnx_int(n, name, 0);
    if (value == 0) return otherwise;
    enum ingot_dtype type = ig_onnx_dtype(n->job, value, ig_format(n->job, "attribute '%s'", name));
    if (type != INGOT_F32 && type != INGOT_F16 && type != INGOT_BF16)
        ig_onnx_bad(n, "attribute '%s' is %s, expected f32, f16 or bf16", name, ingot_dtype_name(type));
    return type;
}

/* ---- QuantizeLinear and DequantizeLinear ---- */

/* The type of the zero point, or the attribute `output_dtype`, or u8. */
static enum ingot_dtype result_type(struct ig_onnx_node *n) {
    int64_t wanted = ig_onnx_int(n, "output_dtype", 0);
    enum ingot_dtype type = wanted ? ig_onnx_dtype(n->job, wanted, "the result") : INGOT_U8;
    if (wanted) ig_onnx_check_zero_type(n, 2, type);
    return ig_onnx_has(n, 2) ? ig_onnx_type(n, n->in[2]) : type;
}

/* A quotient of f16 or bf16, computed in f32 and rounded, is the correctly rounded one: f32 has over twice their bits. */
static ig_value divided(struct ig_onnx_node *n, ig_value x, ig_value scale, enum ingot_dtype precision) {
    struct ig_graph *g = n->g;
    x = ig_build_cast(g, ig_build_cast(g, x, precision), INGOT_F32);
    scale = ig_build_cast(g, ig_build_cast(g, scale, precision), INGOT_F32);
    ig_value quotient = ig_build_cast(g, ig_div(g, x, scale), precision);
    return ig_build_cast(g, quotient, INGOT_F32);
}

ig_value ig_import_quantize_linear(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), scale = ig_onnx_in(n, 1);
    enum ingot_dtype type = result_type(n), precision = ig_onnx_type(n, scale);
    ig_onnx_check_quantized(n, type);
    if (!ig_dtype_is_float(precision)) precision = INGOT_F32;
    precision = float_attribute(n, "precision", precision);
    ig_value quotient = divided(n, x, spread_over(n, scale, x), precision);
    return ig_onnx_quantized(n, quotient, zero_over(n, 2, x), type);
}

/* Differences of integers of up to 16 bits are exact in f32, those of 32 only in i32. */
ig_value ig_import_dequantize_linear(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), scale = ig_onnx_in(n, 1);
    enum ingot_dtype type = ig_onnx_type(n, x), own = ig_onnx_type(n, scale);
    enum ingot_dtype result = float_attribute(n, "output_dtype", own);
    if (!ig_dtype_is_float(result))
        ig_onnx_bad(n, "the scale is %s, and there is no 'output_dtype'", ingot_dtype_name(own));
    if (type != INGOT_I32) ig_onnx_check_quantized(n, type);
    ig_onnx_check_zero_type(n, 2, type);
    enum ingot_dtype wide = type == INGOT_I32 ? INGOT_I32 : INGOT_F32;
    ig_value y = ig_build_cast(g, ig_onnx_centered(n, x, zero_over(n, 2, x), wide), INGOT_F32);
    scale = spread_over(n, ig_build_cast(g, scale, INGOT_F32), x);
    return ig_build_cast(g, ig_mul(g, y, scale), result);
}

/* ---- DynamicQuantizeLinear ---- */

/* Quantises to u8, with scale and zero point such that the data's range, extended to contain 0, maps to 0 … 255. */
ig_value ig_import_dynamic_quantize_linear(struct ig_onnx_node *n) {
    struct ig_onnx_dynamic d = ig_onnx_quantized_dynamically(n, ig_onnx_in(n, 0));
    if (n->n_out > 1) n->out[1] = d.scale;
    if (n->n_out > 2) n->out[2] = d.zero;
    return d.value;
}

struct ig_onnx_dynamic ig_onnx_quantized_dynamically(struct ig_onnx_node *n, ig_value x) {
    struct ig_graph *g = n->g;
    int rank = ig_onnx_rank(n, x);
    int64_t axes[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    ig_value top = rank ? ig_build_reduce(g, IG_OP_reduce_max, x, axes, rank) : x;
    ig_value bottom = rank ? ig_build_reduce(g, IG_OP_reduce_min, x, axes, rank) : x;
    top = ig_max_n(g, ig_build_reshape(g, top, NULL, 0), 0);
    bottom = ig_min_n(g, ig_build_reshape(g, bottom, NULL, 0), 0);
    ig_value scale = ig_div_n(g, ig_sub(g, top, bottom), 255);
    /* If the range is the single point 0, any scale but 0 will do: 1, as in ONNX Runtime. */
    scale = ig_build_where(g, ig_eq(g, scale, ig_like(g, scale, 0)), ig_like(g, scale, 1), scale);
    ig_value zero = ig_neg(g, ig_div(g, bottom, scale));
    zero = ig_round(g, ig_max_n(g, ig_min_n(g, zero, 255), 0));
    zero = ig_build_cast_saturating(g, zero, INGOT_U8);
    return (struct ig_onnx_dynamic){ig_onnx_quantized(n, ig_div(g, x, scale), zero, INGOT_U8), scale, zero};
}
