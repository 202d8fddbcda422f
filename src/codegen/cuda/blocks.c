/* A product with codes in blocks as CUDA C++. */
#include "codegen/cuda/blocks.h"

#include "codegen/cuda/templates.h"

void ig_cuda_blocks(const struct ig_cuda_blocks *b, struct ig_text *text) {
    ig_text_add(text, "namespace blocks {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %s };\n", b->element == INGOT_F16 ? "F16" : "BF16");
    bool wide = b->scale != b->element;
    ig_text_printf(
        text,
        "enum { WIDE_SCALE = %d, SCALE_BYTES = %d, BM = %d, WARPS_N = %d, WARPS_K = %d, AHEAD = %d, EARLY = %d };\n",
        wide, b->scale == INGOT_F32 ? 4 : 2, b->bm, b->warps_n, b->warps_k, b->ahead, b->early);
    ig_text_printf(text, "enum { BITS = %d, OFFSET = %d, ZERO = %d, TABLE = %d };\n", b->bits, b->offset, b->zero,
                   b->table);
    ig_text_printf(text, "enum { U8, E4M3, E5M2, CODES = %s };\n",
                   b->codes == INGOT_U8         ? "U8"
                   : b->codes == INGOT_F8E4M3FN ? "E4M3"
                                                : "E5M2");
    ig_text_printf(text, "constexpr int DEPTH = %lld, BLOCK = %lld, COLUMNS = %lld;\n", (long long)b->depth,
                   (long long)(b->block < b->depth ? b->block : b->depth), (long long)b->columns);
    ig_text_add(text, ig_cuda_template_mma);
    ig_text_add(text, ig_cuda_template_load);
    ig_text_add(text, ig_cuda_template_blocks);
    ig_text_add(text, "}\n");
}
