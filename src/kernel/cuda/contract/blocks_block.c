/* The shared memory of a product with codes in blocks. */
#include "kernel/cuda/contract/blocks_block.h"

#include "ir/blocks.h"
#include "kernel/cuda/contract/gemm_block.h"

enum { CHUNK = 512 /* bytes */, COLUMNS = 16 /* of a group */ };

int ig_cuda_blocks_scale_rows(const struct ig_cuda_blocks *b) {
    int64_t depth = b->ahead * ig_blocks_chunk(IG_BLOCKS_FRAGMENTS, b->bits);
    return b->block < depth && b->block < b->depth ? (int)(depth / b->block) : 1;
}

int ig_cuda_blocks_stage(const struct ig_cuda_blocks *b) {
    int scale = b->scale == INGOT_F32 ? 4 : 2;
    return b->ahead * CHUNK + ig_cuda_blocks_scale_rows(b) * COLUMNS * (scale + b->zero);
}

struct ig_cuda_blocks_places ig_cuda_blocks_places(const struct ig_cuda_blocks *b) {
    const int tile = b->bm * ig_cuda_blocks_tile_row(b) * 4, stages = b->stream ? b->warps_k * b->stages : 0;
    struct ig_cuda_blocks_places p = {.ring = b->stream ? (tile + 127) / 128 * 128 : tile};
    p.barriers = p.ring + stages * ig_cuda_blocks_stage(b);
    p.parts = (p.barriers + stages * 8 + 15) / 16 * 16;
    p.rows = p.parts + (b->warps_k > 1 ? b->warps_k * tile : 0);
    p.end = p.rows + b->first * (int)b->depth * 2;
    if (b->stream && p.end < IG_CUDA_THIRD) p.end = IG_CUDA_THIRD;
    return p;
}
