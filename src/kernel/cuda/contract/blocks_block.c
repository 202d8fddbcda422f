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

struct ig_cuda_blocks_ring ig_cuda_blocks_ring(const struct ig_cuda_blocks *b) {
    int tile = b->bm * b->bn * 4, stages = b->warps_k * b->stages;
    struct ig_cuda_blocks_ring r = {.ring = (tile + 127) / 128 * 128};
    r.barriers = r.ring + stages * ig_cuda_blocks_stage(b);
    r.parts = (r.barriers + stages * 8 + 15) / 16 * 16;
    r.end = r.parts + b->warps_k * tile;
    r.end = r.end < IG_CUDA_THIRD ? IG_CUDA_THIRD : r.end;
    return r;
}

int ig_cuda_blocks_shared(const struct ig_cuda_blocks *b) {
    if (b->stream) return ig_cuda_blocks_ring(b).end;
    return b->bm * b->bn * 4 * (b->warps_k > 1 ? 1 + b->warps_k : 1);
}
