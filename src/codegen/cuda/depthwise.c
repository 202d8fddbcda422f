/* A depthwise convolution as CUDA C++. */
#include "codegen/cuda/depthwise.h"

#include "codegen/cuda/templates.h"

static const char *type_of(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 ? "F16" : dtype == INGOT_BF16 ? "BF16" : "F32";
}

void ig_cuda_depthwise(const struct ig_cuda_depthwise *d, struct ig_text *text) {
    static const char axes[] = "ZYX";
    ig_text_add(text, "namespace depthwise {\n");
    ig_text_printf(text, "enum { F32, F16, BF16, INPUT = %s, WEIGHT = %s };\n", type_of(d->input), type_of(d->weight));
    for (int i = 0; i < 3; i++)
        ig_text_printf(text, "enum { TAPS_%c = %d, DILATION_%c = %d };\n", axes[i], d->taps[i], axes[i],
                       d->dilations[i]);
    ig_text_printf(text, "enum { STRIDE_X = %d, LANES = %d, WIDTH = %d, PIECES = %lld, AT_ONCE = %d };\n", d->stride,
                   d->lanes, d->width, (long long)(d->channels / d->lanes), d->at_once);
    ig_text_add(text, ig_cuda_template_depthwise);
    ig_text_add(text, "}\n");
}
