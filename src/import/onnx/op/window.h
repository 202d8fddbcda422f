/* Window geometry over spatial axes: the attributes of convolutions and pools. */
#ifndef IG_IMPORT_ONNX_WINDOW_H
#define IG_IMPORT_ONNX_WINDOW_H

#include "import/onnx/importer.h"

enum { IG_ONNX_MAX_SPATIAL = INGOT_MAX_RANK - 2 };

struct ig_onnx_window {
    int spatial;
    int64_t kernel[IG_ONNX_MAX_SPATIAL], strides[IG_ONNX_MAX_SPATIAL], dilations[IG_ONNX_MAX_SPATIAL];
    ig_dim before[IG_ONNX_MAX_SPATIAL], after[IG_ONNX_MAX_SPATIAL];
};

enum ig_onnx_auto_pad { IG_AUTO_NOTSET, IG_AUTO_SAME_UPPER, IG_AUTO_SAME_LOWER, IG_AUTO_VALID };
enum ig_onnx_auto_pad ig_onnx_read_auto_pad(const struct ig_onnx_node *n);

/* Reads strides and dilations, and the kernel from `kernel` if given, else from attribute "kernel_shape". */
void ig_onnx_read_steps(const struct ig_onnx_node *n, ig_value x, const int64_t *kernel, struct ig_onnx_window *out);
/* Reads everything; x is [N, C, spatial...]. */
void ig_onnx_read_window(const struct ig_onnx_node *n, ig_value x, const int64_t *kernel, struct ig_onnx_window *out);
/* The window's extent: (kernel - 1) * dilation + 1. */
int64_t ig_onnx_extent(const struct ig_onnx_window *window, int i);

/* Builds a conv node from x, w [M, C/groups, kernel...], and bias or IG_NO_VALUE. */
ig_value ig_onnx_conv(struct ig_onnx_node *n, ig_value x, ig_value w, ig_value bias,
                      const struct ig_onnx_window *window, int64_t groups, enum ingot_dtype acc);
/* Puts stride - 1 zeros between neighbours on an axis: [.., size, ..] -> [.., (size - 1) * stride + 1, ..] (conv.c). */
ig_value ig_onnx_spread(struct ig_onnx_node *n, ig_value x, int axis, int64_t stride);

#endif
