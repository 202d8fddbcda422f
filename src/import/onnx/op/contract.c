/* Matrix products, of floats and of quantised integers. */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"
#include "import/onnx/op/quantize.h"

/* Makes a vector a matrix of one row or one column. */
static ig_value as_matrix(struct ig_onnx_node *n, ig_value value, int new_axis) {
    ig_onnx_check_rank(n, value, 1, INGOT_MAX_RANK, "an operand");
    return ig_onnx_rank(n, value) > 1 ? value : ig_build_unsqueeze(n->g, value, &new_axis, 1);
}

/* Removes the axes that as_matrix added. */
static ig_value drop_axes(struct ig_onnx_node *n, ig_value y, bool row, bool column) {
    int rank = ig_onnx_rank(n, y), axes[2], count = 0;
    if (row) axes[count++] = rank - 2;
    if (column) axes[count++] = rank - 1;
    return count ? ig_build_squeeze(n->g, y, axes, count) : y;
}

ig_value ig_import_matmul(struct ig_onnx_node *n) {
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    ig_onnx_check_same_type(n, a, b);
    bool row = ig_onnx_rank(n, a) == 1, column = ig_onnx_rank(n, b) == 1;
    ig_value y = ig_build_matmul(n->g, as_matrix(n, a, 0), as_matrix(n, b, 1), ig_onnx_type(n, a));
    return drop_axes(n, y, row, column);
}

static ig_value scaled(struct ig_onnx_node *n, ig_value value, double factor) {
    return factor == 1 ? value : ig_mul_n(n->g, value, factor);
}

/* alpha * A' * B' + beta * C. alpha scales B if that is constant, where it costs nothing at run time. */
ig_value ig_import_gemm(struct ig_onnx_node *n) {
    static const int64_t turned[] = {1, 0};
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 1);
    double alpha = ig_onnx_float(n, "alpha", 1), beta = ig_onnx_float(n, "beta", 1);
    ig_onnx_check_same_type(n, a, b);
    ig_onnx_check_rank(n, a, 2, 2, "input 0");
    ig_onnx_check_rank(n, b, 2, 2, "input 1");
    if (ig_onnx_flag(n, "transA", false)) a = ig_build_transpose(n->g, a, turned);
    if (ig_onnx_flag(n, "transB", false)) b = ig_build_transpose(n->g, b, turned);
    bool early = ig_info(n->g, b)->is_const;
    if (early) b = scaled(n, b, alpha);
    ig_value y = ig_build_matmul(n->g, a, b, ig_onnx_type(n, a));
    if (!early) y = scaled(n, y, alpha);
    if (!ig_onnx_has(n, 2) || beta == 0) return y;
    ig_onnx_check_same_type(n, a, n->in[2]);
    return ig_add(n->g, y, scaled(n, n->in[2], beta));
}

/* ---- Quantised: (A - a_zero) * (B - b_zero), exactly, in i32; of floats of 8 bits in f32 ---- */

/* A vector of A or of the result is per row, so it becomes a column; one of B is per column already. */
static ig_value per_row(struct ig_onnx_node *n, ig_value value) {
    int axis = 1;
    return ig_onnx_rank(n, value) == 1 ? ig_build_unsqueeze(n->g, value, &axis, 1) : value;
}

static ig_value integer_product(struct ig_onnx_node *n, ig_value a, ig_value a_zero, ig_value b, ig_value b_zero) {
    bool row = ig_onnx_rank(n, a) == 1, column = ig_onnx_rank(n, b) == 1;
    if (a_zero != IG_NO_VALUE && !row) a_zero = per_row(n, a_zero);
    if (b_zero != IG_NO_VALUE && column) b_zero = ig_build_reshape(n->g, b_zero, NULL, 0);
    enum ingot_dtype wide = ig_onnx_product_type(ig_onnx_type(n, a));
    if (wide != ig_onnx_product_type(ig_onnx_type(n, b))) ig_onnx_check_same_type(n, a, b);
    a = as_matrix(n, ig_onnx_centered(n, a, a_zero, wide), 0);
    b = as_matrix(n, ig_onnx_centered(n, b, b_zero, wide), 1);
    return drop_axes(n, ig_build_matmul(n->g, a, b, wide), row, column);
}

ig_value ig_import_matmul_integer(struct ig_onnx_node *n) {
    ig_onnx_check_zero_type(n, 2, ig_onnx_type(n, ig_onnx_in(n, 0)));
    ig_onnx_check_zero_type(n, 3, ig_onnx_type(n, ig_onnx_in(n, 1)));
    return integer_product(n, ig_onnx_in(n, 0), ig_onnx_optional(n, 2), ig_onnx_in(n, 1), ig_onnx_optional(n, 3));
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
ig_value ig_import_qlinear_matmul(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value a = ig_onnx_in(n, 0), b = ig_onnx_in(n, 3), y_zero = ig_onnx_in(n, 7);
    ig_onnx_check_quantized(n, ig_onnx_type(n, y_zero));
    ig_onnx_check_zero_type(n, 2, ig_onnx_type(n, a));
    ig_onnx_check_zero_type(n, 5, ig_onnx_type(n, b));
    ig_value sum = integer_product(n, a, ig_onnx_in(n, 2), b, ig_onnx_in(n, 5));
    ig_value a_scale = ig_build_cast(g, per_row(n, ig_onnx_in(n, 1)), INGOT_F32);
    ig_value b_scale = ig_build_cast(g, ig_onnx_in(n, 4), INGOT_F32);
    ig_value y_scale = ig_build_cast(g, per_row(n, ig_onnx_in(n, 6)), INGOT_F32);
    ig_value scale = ig_div(g, ig_mul(g, a_scale, b_scale), y_scale);
    return ig_onnx_requantized(n, sum, scale, per_row(n, y_zero), ig_onnx_type(n, y_zero));
}
