/*
 * Quantisation: per tensor, per axis, or in blocks along an axis; 8- and 16-bit integers. Ties round to even, and what
 * is out of range saturates.
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

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
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 1), t.rank);
    if (block == 0) {
        ig_onnx_check_rank(n, value, 1, 1, "the scale");
        return ig_onnx_along(n, value, axis, t.rank);
    }
    if (block < 0 || block > INT32_MAX) ig_onnx_bad(n, "attribute 'block_size' is %lld", (long long)block);
    ig_onnx_check_rank(n, value, t.rank, t.rank, "the scale");
    return expand_blocks(n, value, &t, axis, block);
}

static void check_quantized(struct ig_onnx_node *n, enum ingot_dtype type) {
    if (type == INGOT_I8 || type == INGOT_U8 || type == INGOT_I16 || type == INGOT_U16) return;
    ig_onnx_refuse(n, "quantisation to %s is not supported", ingot_dtype_name(type));
}

ig_value ig_import_quantize_linear(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), scale = ig_onnx_in(n, 1);
    enum ingot_dtype type = INGOT_U8;
    if (ig_onnx_int(n, "output_dtype", 0))
        type = ig_onnx_dtype(n->job, ig_onnx_int(n, "output_dtype", 0), "the result");
    if (ig_onnx_has(n, 2)) type = ig_onnx_type(n, n->in[2]);
    check_quantized(n, type);
    scale = spread_over(n, ig_build_cast(g, scale, INGOT_F32), x);
    ig_value y = ig_round(g, ig_div(g, ig_build_cast(g, x, INGOT_F32), scale));
    if (ig_onnx_has(n, 2)) y = ig_add(g, y, spread_over(n, ig_build_cast(g, n->in[2], INGOT_F32), x));
    return ig_build_cast_saturating(g, y, type);
}

/* Differences of 8- and 16-bit integers are exact in f32; those of 32-bit ones only in integers. */
ig_value ig_import_dequantize_linear(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), scale = ig_onnx_in(n, 1);
    enum ingot_dtype type = ig_onnx_type(n, x), result = ig_onnx_type(n, scale);
    if (ig_onnx_int(n, "output_dtype", 0))
        result = ig_onnx_dtype(n->job, ig_onnx_int(n, "output_dtype", 0), "the result");
    if (type != INGOT_I32) check_quantized(n, type);
    enum ingot_dtype difference = type == INGOT_I32 ? INGOT_I32 : INGOT_F32;
    ig_value y = ig_build_cast(g, x, difference);
    if (ig_onnx_has(n, 2)) y = ig_sub(g, y, spread_over(n, ig_build_cast(g, n->in[2], difference), x));
    scale = spread_over(n, ig_build_cast(g, scale, INGOT_F32), x);
    return ig_build_cast(g, ig_mul(g, ig_build_cast(g, y, INGOT_F32), scale), result);
}

/* Quantises to u8, with scale and zero point such that the data's range, extended to contain 0, maps to 0 … 255. */
ig_value ig_import_dynamic_quantize_linear(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x);
    int64_t axes[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    ig_value top = rank ? ig_build_reduce(g, IG_OP_reduce_max, x, axes, rank) : x;
    ig_value bottom = rank ? ig_build_reduce(g, IG_OP_reduce_min, x, axes, rank) : x;
    top = ig_max_n(g, ig_build_reshape(g, top, NULL, 0), 0);
    bottom = ig_min_n(g, ig_build_reshape(g, bottom, NULL, 0), 0);
    ig_value scale = ig_div_n(g, ig_sub(g, top, bottom), 255);
    /* If the range is the single point 0, any scale but 0 will do. */
    ig_value divisor = ig_build_where(g, ig_eq(g, scale, ig_like(g, scale, 0)), ig_like(g, scale, 1), scale);
    ig_value zero = ig_neg(g, ig_div(g, bottom, divisor));
    zero = ig_round(g, ig_max_n(g, ig_min_n(g, zero, 255), 0));
    ig_value y = ig_add(g, ig_round(g, ig_div(g, x, divisor)), zero);
    if (n->n_out > 1) n->out[1] = scale;
    if (n->n_out > 2) n->out[2] = ig_build_cast_saturating(g, zero, INGOT_U8);
    return ig_build_cast_saturating(g, y, INGOT_U8);
}
