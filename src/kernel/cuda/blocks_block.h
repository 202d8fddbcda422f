/* A product with codes in blocks by a CUDA block, described for codegen (codegen/cuda/blocks.c): everything that its text
 * depends on. */
#ifndef IG_KERNEL_CUDA_BLOCKS_BLOCK_H
#define IG_KERNEL_CUDA_BLOCKS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

/* A block computes bm rows by 16 * warps_n columns: each column of warps has 16 of these, of which warps_k divide the depth. */
struct ig_cuda_blocks {
    enum ingot_dtype element; /* of the rows: f16 or bf16 */
    enum ingot_dtype scale;   /* as the element, bf16 or f32 */
    enum ingot_dtype codes;   /* u8; of 8 bits also f8e4m3fn or f8e5m2 */
    int bm;                   /* 8, 16, 32 or 64 */
    int warps_n, warps_k;
    int ahead;                     /* chunks of codes that a thread loads at once */
    int bits;                      /* 4 or 8 */
    int64_t depth, block, columns; /* columns: of scales in memory */
    int offset;
    bool zero, table; /* zero points are bytes */
    bool early;       /* codes are constant and are loaded before the kernel waits for the preceding one */
};

static inline int ig_cuda_blocks_threads(const struct ig_cuda_blocks *b) {
    return 32 * b->warps_n * b->warps_k;
}
/* Bytes: the tile of sums, and the parts of the warps that divide the depth. */
static inline int ig_cuda_blocks_shared(const struct ig_cuda_blocks *b) {
    return b->bm * 16 * b->warps_n * 4 * (b->warps_k > 1 ? 1 + b->warps_k : 1);
}

#endif
