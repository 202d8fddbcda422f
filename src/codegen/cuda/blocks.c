/* A product with codes in blocks as CUDA C++. */
#include "codegen/cuda/blocks.h"

#include "codegen/cuda/exchange.h"
#include "codegen/cuda/templates.h"
#include "ir/blocks.h"

static void print_ring(const struct ig_cuda_blocks *b, struct ig_text *text) {
    struct ig_cuda_blocks_places at = ig_cuda_blocks_places(b);
    int64_t piece = b->ahead * 512, column = ig_blocks_bytes(IG_BLOCKS_FRAGMENTS, b->bits, b->depth, 16);
    ig_text_printf(text, "constexpr int WARPS = %d, SHARES = %d, STAGES = %d, STAGE = %d;\n", b->warps_k, b->warps_k,
                   b->stages, ig_cuda_blocks_stage(b));
    ig_text_printf(text, "constexpr int GROUPS = %d, PIECE = %d, COLUMN = %lld, PIECES = %lld, SCALE_ROWS = %d;\n",
                   b->bn / 16, (int)piece, (long long)column, (long long)((column + piece - 1) / piece),
                   ig_cuda_blocks_scale_rows(b));
    ig_text_printf(text, "constexpr int RING_AT = %d, BARRIERS_AT = %d;\n", at.ring, at.barriers);
}

void ig_cuda_blocks(const struct ig_cuda_blocks *b, struct ig_text *text) {
    ig_text_add(text, "namespace blocks {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %s };\n", b->element == INGOT_F16 ? "F16" : "BF16");
    bool wide = b->scale != b->element;
    ig_text_printf(text, "enum { WIDE_SCALE = %d, SCALE_BYTES = %d, BM = %d, BN = %d, THREADS = %d, EARLY = %d };\n",
                   wide, b->scale == INGOT_F32 ? 4 : 2, b->bm, ig_cuda_blocks_tile_row(b), ig_cuda_blocks_threads(b),
                   b->early);
    ig_text_printf(text, "enum { PRODUCTS = %d, FIRST = %d, PARTS_AT = %d };\n", b->twin ? 2 : 1, b->first > 0,
                   ig_cuda_blocks_places(b).parts);
    ig_text_printf(text, "enum { BITS = %d, OFFSET = %d, ZERO = %d, TABLE = %d };\n", b->bits, b->offset, b->zero,
                   b->table);
    ig_text_printf(text, "enum { U8, E4M3, E5M2, CODES = %s };\n",
                   b->codes == INGOT_U8         ? "U8"
                   : b->codes == INGOT_F8E4M3FN ? "E4M3"
                                                : "E5M2");
    ig_text_printf(text, "constexpr int DEPTH = %lld, BLOCK = %lld, COLUMNS = %lld;\n", (long long)b->depth,
                   (long long)(b->block < b->depth ? b->block : b->depth), (long long)b->columns);
    ig_text_add(text, ig_cuda_template_mma);
    ig_text_add(text, ig_cuda_template_blocks);
    if (b->stream) {
        print_ring(b, text);
        ig_text_add(text, ig_cuda_template_gemm_barrier);
        ig_text_add(text, ig_cuda_template_gemm_ring);
        ig_cuda_push(b->pushes, text);
        ig_text_add(text, ig_cuda_template_blocks_stream);
    } else {
        ig_text_printf(text, "enum { WARPS_N = %d, WARPS_K = %d, AHEAD = %d };\n", b->warps_n, b->warps_k, b->ahead);
        ig_text_add(text, ig_cuda_template_load);
        ig_text_add(text, ig_cuda_template_blocks_direct);
    }
    ig_text_add(text, "}\n");
}
