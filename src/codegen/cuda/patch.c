/* The convolution of a block by a patch of the image as CUDA C++. */
#include "codegen/cuda/patch.h"

#include "codegen/cuda/gemm/gemm.h"
#include "codegen/cuda/templates.h"

void ig_cuda_patch(const struct ig_cuda_patch *p, struct ig_text *text) {
    static const char axes[] = "ZYX";
    ig_text_add(text, "namespace patch {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, I8, MATH = %d };\n", (int)p->math);
    ig_text_printf(text,
                   "enum { ELEMENT = %d, JOINED = %d, BEGUN = %d };\ntypedef %s total;\ntypedef %s2 two_totals;\n",
                   ig_cuda_patch_element(p), p->joined, p->begun, p->math == IG_CUDA_I8 ? "int" : "float",
                   p->math == IG_CUDA_I8 ? "int" : "float");
    ig_text_printf(text, "enum { TILE_Y = %d, TILE_X = %d, BN = %d, BLOCKS_M = %d };\n", p->tile[0], p->tile[1], p->bn,
                   p->blocks);
    for (int i = 0; i < 3; i++)
        ig_text_printf(text, "enum { TAPS_%c = %d, STRIDE_%c = %d, DILATION_%c = %d, PATCH_%c = %d };\n", axes[i],
                       p->taps[i], axes[i], p->strides[i], axes[i], p->dilations[i], axes[i],
                       ig_cuda_patch_pixels(p, i));
    ig_text_printf(text, "enum { CHANNELS = %d, CHUNKS = %d, STEPS = %d, COPY = %d, B_ACROSS = %d };\n", p->channels,
                   ig_cuda_patch_chunks(p), ig_cuda_patch_steps(p), p->copy, p->b_across);
    ig_text_printf(text, "enum { PHASE = %d, PIXEL = %d, LINE = %d, PLANE = %d };\n", ig_cuda_patch_phase(p),
                   ig_cuda_patch_pixel(p), ig_cuda_patch_line(p), ig_cuda_patch_pixels(p, 1) * ig_cuda_patch_line(p));
    ig_text_printf(text, "enum { TILE_ROW = %d, ZERO_AT = %d, WEIGHTS_AT = %d, WEIGHTS_LINE = %d };\n",
                   ig_cuda_patch_row(p), ig_cuda_patch_zero_at(p), ig_cuda_patch_weights_at(p),
                   ig_cuda_patch_weights_line(p));
    ig_text_add(text, ig_cuda_template_copy);
    ig_text_add(text, ig_cuda_template_mma);
    ig_cuda_print_multiply_block(p->math, p->a_type, p->b_type, false, text);
    ig_text_add(text, ig_cuda_template_patch);
    ig_text_add(text, "}\n");
}
