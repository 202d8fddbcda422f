/* Window geometry: kernel, strides, dilations and pads, also the automatic ones. Source: onnx.ai, "Conv", "MaxPool". */
#include "import/onnx/op/window.h"

int64_t ig_onnx_extent(const struct ig_onnx_window *window, int i) {
    return (window->kernel[i] - 1) * window->dilations[i] + 1;
}

enum ig_onnx_auto_pad ig_onnx_read_auto_pad(const struct ig_onnx_node *n) {
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    return (enum ig_onnx_auto_pad)ig_onnx_choice(n, "auto_pad", names, 4, IG_AUTO_NOTSET);
}

static void check_steps(const struct ig_onnx_node *n, const char *name, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) {
        if (values[i] < 1 || values[i] > INT32_MAX) ig_onnx_bad(n, "%s has the value %lld", name, (long long)values[i]);
    }
}

void ig_onnx_read_steps(const struct ig_onnx_node *n, ig_value x, const int64_t *kernel, struct ig_onnx_window *out) {
    int count;
    ig_onnx_check_rank(n, x, 3, INGOT_MAX_RANK, "input 0");
    out->spatial = ig_onnx_rank(n, x) - 2;
    const int64_t *shape = ig_onnx_ints(n, "kernel_shape", &count);
    if (!shape && !kernel) ig_onnx_bad(n, "attribute 'kernel_shape' is missing");
    if (shape && count != out->spatial) {
        ig_onnx_bad(n, "attribute 'kernel_shape' has %d values, expected %d", count, out->spatial);
    }
    for (int i = 0; i < out->spatial; i++) {
        out->kernel[i] = kernel ? kernel[i] : shape[i];
        if (shape && shape[i] != out->kernel[i]) {
            ig_onnx_bad(n, "attribute 'kernel_shape' says %lld where the weight has %lld", (long long)shape[i],
                        (long long)out->kernel[i]);
        }
    }
    ig_onnx_ints_of(n, "strides", out->spatial, 1, out->strides);
    ig_onnx_ints_of(n, "dilations", out->spatial, 1, out->dilations);
    check_steps(n, "the kernel", out->kernel, out->spatial);
    check_steps(n, "attribute 'strides'", out->strides, out->spatial);
    check_steps(n, "attribute 'dilations'", out->dilations, out->spatial);
    for (int i = 0; i < out->spatial; i++) {
        if (out->kernel[i] > INT32_MAX / out->dilations[i]) ig_onnx_bad(n, "the dilated kernel is too large");
    }
}

/* SAME padding: ceil(size / stride) results; what the windows need beyond the input is divided between both ends. */
static void same_pads(const struct ig_onnx_node *n, ig_dim size, enum ig_onnx_auto_pad mode, int i,
                      struct ig_onnx_window *out) {
    struct ig_dims *dims = n->dims;
    ig_dim stride = ig_dim_const(dims, out->strides[i]), extent = ig_dim_const(dims, ig_onnx_extent(out, i));
    ig_dim one = ig_dim_const(dims, 1), results = ig_dim_ceil_div(dims, size, stride);
    ig_dim reach = ig_dim_add(dims, ig_dim_mul(dims, ig_dim_sub(dims, results, one), stride), extent);
    ig_dim total = ig_dim_max(dims, ig_dim_sub(dims, reach, size), ig_dim_const(dims, 0));
    ig_dim half = ig_dim_div(dims, total, ig_dim_const(dims, 2)), rest = ig_dim_sub(dims, total, half);
    out->before[i] = mode == IG_AUTO_SAME_UPPER ? half : rest;
    out->after[i] = mode == IG_AUTO_SAME_UPPER ? rest : half;
}

void ig_onnx_read_window(const struct ig_onnx_node *n, ig_value x, const int64_t *kernel, struct ig_onnx_window *out) {
    ig_onnx_read_steps(n, x, kernel, out);
    enum ig_onnx_auto_pad mode = ig_onnx_read_auto_pad(n);
    int64_t pads[2 * IG_ONNX_MAX_SPATIAL];
    ig_onnx_ints_of(n, "pads", 2 * out->spatial, 0, pads);
    for (int i = 0; i < out->spatial; i++) {
        int64_t before = mode == IG_AUTO_NOTSET ? pads[i] : 0,
                after = mode == IG_AUTO_NOTSET ? pads[i + out->spatial] : 0;
        if (before < 0 || after < 0) ig_onnx_refuse(n, "negative pads are not supported");
        out->before[i] = ig_dim_const(n->dims, before);
        out->after[i] = ig_dim_const(n->dims, after);
        if (mode == IG_AUTO_SAME_UPPER || mode == IG_AUTO_SAME_LOWER) {
            same_pads(n, ig_onnx_dim(n, x, i + 2), mode, i, out);
        }
    }
}

ig_value ig_onnx_conv(struct ig_onnx_node *n, ig_value x, ig_value w, ig_value bias,
                      const struct ig_onnx_window *window, int64_t groups, enum ingot_dtype acc) {
    ig_value in[] = {x, w, bias};
    struct ig_attr attrs[] = {
        ig_attr_of_ints(window->strides, window->spatial),
        ig_attr_of_ints(window->dilations, window->spatial),
        ig_attr_of_dims(window->before, window->spatial),
        ig_attr_of_dims(window->after, window->spatial),
        ig_attr_of_int(groups),
        ig_attr_of_dtype(acc),
        ig_attr_of_int(0), /* channels_last */
        ig_attr_of_int(0), /* packed */
        ig_attr_of_int(ig_onnx_static_dim(n, w, 0, "the number of output channels")),
        ig_attr_of_ints(window->kernel, window->spatial),
        ig_attr_of_int(IG_MATH_EXACT),
        ig_attr_of_int(0), /* border */
    };
    return ig_build_node(n->g, IG_OP_conv, in, bias == IG_NO_VALUE ? 2 : 3, 1, attrs, NULL);
}
