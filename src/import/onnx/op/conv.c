/*
 * Convolutions. A transposed convolution becomes an ordinary one: the input is interleaved with zeros (its strides),
 * the weight is flipped and its channels exchanged, and padding covers what the windows reach beyond. Source: Dumoulin
 * and Visin 2016.
 */
#include "import/onnx/op/arith.h"
#include "import/onnx/op/quantize.h"
#include "import/onnx/op/window.h"

/* The weight's kernel dims, which must be numbers. */
static void read_kernel(struct ig_onnx_node *n, ig_value x, ig_value w, int64_t *out_kernel) {
    int rank = ig_onnx_rank(n, x);
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "the input");
    ig_onnx_check_rank(n, w, rank, rank, "the weight");
    for (int i = 2; i < rank; i++)
        out_kernel[i - 2] = ig_onnx_static_dim(n, w, i, "the kernel's size");
}

static int64_t read_groups(struct ig_onnx_node *n) {
    int64_t groups = ig_onnx_int(n, "group", 1);
    if (groups < 1 || groups > INT32_MAX) ig_onnx_bad(n, "attribute 'group' is %lld", (long long)groups);
    return groups;
}

ig_value ig_import_conv(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), w = ig_onnx_in(n, 1);
    struct ig_onnx_window window;
    int64_t kernel[IG_ONNX_MAX_SPATIAL];
    ig_onnx_check_same_type(n, x, w);
    read_kernel(n, x, w, kernel);
    ig_onnx_read_window(n, x, kernel, &window);
    return ig_onnx_conv(n, x, w, ig_onnx_optional(n, 2), &window, read_groups(n), ig_onnx_type(n, x));
}

/* value - zero in i32; the zero point is a scalar, a vector along `axis`, or absent. */
static ig_value centered(struct ig_onnx_node *n, ig_value value, uint32_t zero_input, int axis) {
    ig_value zero = ig_onnx_optional(n, zero_input);
    ig_onnx_check_zero_type(n, zero_input, ig_onnx_type(n, value));
    if (zero != IG_NO_VALUE && ig_onnx_rank(n, zero) == 1) zero = ig_onnx_along(n, zero, axis, ig_onnx_rank(n, value));
    return ig_onnx_centered(n, value, zero, INGOT_I32);
}

/* Padding stands for the real value 0, that is, for the zero point: so zero points are subtracted before the
 * convolution. */
static ig_value integer_conv(struct ig_onnx_node *n, ig_value x, uint32_t x_zero, ig_value w, uint32_t w_zero,
                             ig_value bias) {
    struct ig_onnx_window window;
    int64_t kernel[IG_ONNX_MAX_SPATIAL];
    read_kernel(n, x, w, kernel);
    ig_onnx_read_window(n, x, kernel, &window);
    return ig_onnx_conv(n, centered(n, x, x_zero, 1), centered(n, w, w_zero, 0), bias, &window, read_groups(n),
                        INGOT_I32);
}

ig_value ig_import_conv_integer(struct ig_onnx_node *n) {
    return integer_conv(n, ig_onnx_in(n, 0), 2, ig_onnx_in(n, 1), 3, IG_NO_VALUE);
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, of scale x_scale * w_scale) */
ig_value ig_import_qlinear_conv(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value bias = ig_onnx_optional(n, 8), scale = ig_onnx_in(n, 4), y_zero = ig_onnx_in(n, 7);
    ig_onnx_check_quantized(n, ig_onnx_type(n, y_zero));
    ig_value sum = integer_conv(n, ig_onnx_in(n, 0), 2, ig_onnx_in(n, 3), 5, bias);
    if (ig_onnx_rank(n, scale) == 1) scale = ig_onnx_along(n, scale, 1, ig_onnx_rank(n, sum));
    scale = ig_div(g, ig_mul(g, ig_build_reshape(g, ig_onnx_in(n, 1), NULL, 0), scale),
                   ig_build_reshape(g, ig_onnx_in(n, 6), NULL, 0));
    ig_value zero = ig_build_reshape(g, y_zero, NULL, 0);
    return ig_onnx_requantized(n, sum, ig_build_cast(g, scale, INGOT_F32), zero, ig_onnx_type(n, y_zero));
}

/* ---- Transposed ---- */

ig_value ig_onnx_spread(struct ig_onnx_node *n, ig_value x, int axis, int64_t stride) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, x);
    ig_dim zero = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1), step = ig_dim_const(dims, stride);
    if (stride == 1) return x;
    ig_dim apart[] = {ig_dim_product(dims, t.dim, axis), t.dim[axis], one,
                      ig_dim_product(dims, t.dim + axis + 1, t.rank - axis - 1)};
    ig_dim none[] = {zero, zero, zero, zero}, gaps[] = {zero, zero, ig_dim_const(dims, stride - 1), zero};
    ig_dim size = ig_dim_sub(dims, ig_dim_mul(dims, t.dim[axis], step), ig_dim_sub(dims, step, one));
    x = ig_build_pad(n->g, ig_build_reshape(n->g, x, apart, 4), none, gaps, IG_PAD_CONSTANT, IG_NO_VALUE);
    t.dim[axis] = ig_dim_mul(dims, t.dim[axis], step);
    x = ig_build_reshape(n->g, x, t.dim, t.rank);
    return ig_build_slice_axis(n->g, x, axis, zero, ig_dim_max(dims, size, zero), 1);
}

/* [C, M/groups, kernel...] -> [M, C/groups, kernel...], the kernel flipped. */
static ig_value turn_weight(struct ig_onnx_node *n, ig_value w, int64_t groups) {
    struct ig_dims *dims = n->dims;
    struct ig_type t = *ig_type_of(n->g, w);
    ig_dim group = ig_dim_const(dims, groups);
    if (!ig_dim_divides(dims, group, t.dim[0])) ig_onnx_bad(n, "the channels are no multiple of the groups");
    ig_dim inputs = ig_dim_div(dims, t.dim[0], group), outputs = t.dim[1];
    ig_dim kernel = ig_dim_product(dims, t.dim + 2, t.rank - 2);
    ig_dim split[] = {group, inputs, outputs, kernel};
    static const int64_t perm[] = {0, 2, 1, 3};
    w = ig_build_transpose(n->g, ig_build_reshape(n->g, w, split, 4), perm);
    t.dim[0] = ig_dim_mul(dims, group, outputs);
    t.dim[1] = inputs;
    w = ig_build_reshape(n->g, w, t.dim, t.rank);
    for (int axis = 2; axis < t.rank; axis++) {
        if (ig_onnx_static_dim(n, w, axis, "the kernel's size") > 1) w = ig_onnx_reverse(n, w, axis);
    }
    return w;
}

/*
 * The pads of a transposed convolution crop its result. The ordinary one that replaces it pads by the window's reach,
 * less these pads, plus the extra size at the end. Negative amounts crop the input.
 */
struct border {
    ig_dim before, after;
};

static struct border transposed_border(struct ig_onnx_node *n, const struct ig_onnx_window *window, int i, ig_dim size,
                                       enum ig_onnx_auto_pad mode, const int64_t *shape, const int64_t *pads,
                                       int64_t extra) {
    struct ig_dims *dims = n->dims;
    ig_dim reach = ig_dim_const(dims, ig_onnx_extent(window, i) - 1), added = ig_dim_const(dims, extra);
    ig_dim before = ig_dim_const(dims, pads[i]), after = ig_dim_const(dims, pads[i + window->spatial]);
    bool same = mode == IG_AUTO_SAME_UPPER || mode == IG_AUTO_SAME_LOWER;
    if (shape || same) {
        ig_dim stride = ig_dim_const(dims, window->strides[i]), one = ig_dim_const(dims, 1);
        ig_dim full = ig_dim_add(dims, ig_dim_mul(dims, ig_dim_sub(dims, size, one), stride), added);
        full = ig_dim_add(dims, full, ig_dim_add(dims, reach, one));
        ig_dim wanted = shape ? ig_dim_const(dims, shape[i]) : ig_dim_mul(dims, size, stride);
        ig_dim total = ig_dim_sub(dims, full, wanted);
        ig_dim half = ig_dim_div(dims, total, ig_dim_const(dims, 2)), rest = ig_dim_sub(dims, total, half);
        before = mode == IG_AUTO_SAME_UPPER ? half : rest;
        after = mode == IG_AUTO_SAME_UPPER ? rest : half;
    } else if (mode == IG_AUTO_VALID) {
        before = after = ig_dim_const(dims, 0);
    }
    return (struct border){ig_dim_sub(dims, reach, before), ig_dim_add(dims, ig_dim_sub(dims, reach, after), added)};
}

static ig_value cut(struct ig_onnx_node *n, ig_value x, int axis, struct border *border) {
    struct ig_dims *dims = n->dims;
    ig_dim zero = ig_dim_const(dims, 0), size = ig_onnx_dim(n, x, axis);
    ig_dim first = ig_dim_max(dims, ig_dim_sub(dims, zero, border->before), zero);
    ig_dim last = ig_dim_max(dims, ig_dim_sub(dims, zero, border->after), zero);
    border->before = ig_dim_max(dims, border->before, zero);
    border->after = ig_dim_max(dims, border->after, zero);
    if (first == zero && last == zero) return x;
    return ig_build_slice_axis(n->g, x, axis, first, ig_dim_sub(dims, size, ig_dim_add(dims, first, last)), 1);
}

ig_value ig_import_conv_transpose(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), w = ig_onnx_in(n, 1);
    struct ig_onnx_window window;
    int64_t kernel[IG_ONNX_MAX_SPATIAL], pads[2 * IG_ONNX_MAX_SPATIAL], extra[IG_ONNX_MAX_SPATIAL];
    int64_t groups = read_groups(n), shape[IG_ONNX_MAX_SPATIAL];
    ig_onnx_check_same_type(n, x, w);
    read_kernel(n, x, w, kernel);
    ig_onnx_read_steps(n, x, kernel, &window);
    enum ig_onnx_auto_pad mode = ig_onnx_read_auto_pad(n);
    bool shaped = ig_onnx_attr(n, "output_shape") != NULL;
    ig_onnx_ints_of(n, "pads", 2 * window.spatial, 0, pads);
    ig_onnx_ints_of(n, "output_padding", window.spatial, 0, extra);
    if (shaped) ig_onnx_ints_of(n, "output_shape", window.spatial, 0, shape);
    for (int i = 0; i < window.spatial; i++) {
        struct border border =
            transposed_border(n, &window, i, ig_onnx_dim(n, x, i + 2), mode, shaped ? shape : NULL, pads, extra[i]);
        x = cut(n, ig_onnx_spread(n, x, i + 2, window.strides[i]), i + 2, &border);
        window.before[i] = border.before;
        window.after[i] = border.after;
        window.strides[i] = 1;
    }
    w = turn_weight(n, w, groups);
    return ig_onnx_conv(n, x, w, ig_onnx_optional(n, 2), &window, groups, ig_onnx_type(n, x));
}
