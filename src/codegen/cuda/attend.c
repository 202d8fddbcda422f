/* Attention of a block as CUDA C++: constants, and the template. */
#include "codegen/cuda/attend.h"

#include "codegen/cuda/templates.h"

void ig_cuda_attend(const struct ig_cuda_attend *a, struct ig_text *text) {
    ig_text_add(text, "namespace attend {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %d, ELEMENT = %d };\n", (int)a->math,
                   ig_cuda_attend_element(a));
    ig_text_printf(text, "enum { WARPS_M = %d, WARPS_N = %d, KEYS = %d, STAGES = %d };\n", a->warps_m, a->warps_n,
                   a->keys, a->stages);
    ig_text_printf(text, "enum { DEPTH = %d, COLUMNS = %d, DEPTH_BYTES = %d, COLUMN_BYTES = %d, TILE_ROW = %d };\n",
                   a->depth, a->columns, a->depth_bytes, a->column_bytes, a->columns + IG_CUDA_ATTEND_PAD);
    ig_text_add(text, ig_cuda_template_mma);
    ig_text_add(text, ig_cuda_template_attend);
    ig_text_add(text, "}\n");
}
