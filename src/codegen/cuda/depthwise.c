/* A depthwise convolution as CUDA C++. */
#include "codegen/cuda/depthwise.h"

#include "codegen/cuda/templates.h"

static const char *type_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_I8: return "I8";
    case INGOT_U8: return "U8";
    case INGOT_F16: return "F16";
    case INGOT_BF16: return "BF16";
    default: return "F32";
    }
}

void ig_cuda_depthwise(const struct ig_cuda_depthwise *d, struct ig_text *text) {
    static const char axes[] = "ZYX";
    ig_text_add(text, "namespace depthwise {\n");
    ig_text_printf(text, "enum { F32, F16, BF16, I8, U8, INPUT = %s, WEIGHT = %s };\n", type_of(d->input),
                   type_of(d->weight));
    for (int i = 0; i < 3; i++)
        ig_text_printf(text, "enum { TAPS_%c = %d, DILATION_%c = %d };\n", axes[i], d->taps[i], axes[i],
                       d->dilations[i]);
    ig_text_printf(text, "enum { STRIDE_X = %d, LANES = %d, WIDTH = %d, PIECES = %lld, AT_ONCE = %d };\n", d->stride,
                   d->lanes, d->width, (long long)(d->channels / d->lanes), d->at_once);
    if (ig_cuda_depthwise_is_bytes(d))
        ig_text_printf(text, "enum { TOGETHER = %d, STEPS_Y = %d, BORDER = %d };\n", ig_cuda_depthwise_together(d),
                       ig_cuda_depthwise_steps(d), d->border & 0xff);
    ig_text_add(text, ig_cuda_depthwise_is_bytes(d) ? ig_cuda_template_depthwise_bytes : ig_cuda_template_depthwise);
    ig_text_add(text, "}\n");
}
