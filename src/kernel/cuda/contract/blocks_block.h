/* A product with codes in blocks by a CUDA block, described for codegen (codegen/cuda/blocks.c): everything that its text
 * depends on. */
#ifndef IG_KERNEL_CUDA_BLOCKS_BLOCK_H
#define IG_KERNEL_CUDA_BLOCKS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

/*
 * A block computes bm rows by bn columns. Codes go straight to registers, `ahead` chunks at once: each column of warps has 16 of the
 * bn = 16 * warps_n columns, of which warps_k divide the depth. Or they are streamed, `stages` pieces ahead for each of warps_k warps,
 * which divide the depth of 16 columns after the other.
 */
struct ig_cuda_blocks {
    enum ingot_dtype element; /* of the rows: f16 or bf16 */
    enum ingot_dtype scale;   /* as the element, bf16 or f32 */
    enum ingot_dtype codes;   /* u8; of 8 bits also f8e4m3fn or f8e5m2 */
    int bm, bn;               /* bm: 8, 16, 32 or 64; streamed: 8 or 16. bn: of each product */
    int warps_n, warps_k;     /* streamed: warps_n is 1 */
    bool twin; /* two products of the same rows; directly: each has half of the warps that are side by side */
    int first; /* as many rows are computed in shared memory first (contract_rows.h); 0: none are */
    int ahead; /* chunks of codes that a thread loads at once; streamed: chunks of a piece */
    bool stream;
    int stages;
    const struct ig_cuda_exchange *pushes; /* streamed: rows that are also sent to all ranks; or NULL */
    int bits;                              /* 2, 4 or 8 */
    int64_t depth, block, columns;         /* columns: of scales in memory */
    int offset;
    bool zero, table; /* zero points are bytes */
    bool early;       /* codes are constant and are loaded before the kernel waits for the preceding one */
};

/* The columns of the tile of sums, those of the twin behind the others. */
static inline int ig_cuda_blocks_tile_row(const struct ig_cuda_blocks *b) {
    return b->bn * (b->twin ? 2 : 1);
}

static inline int ig_cuda_blocks_threads(const struct ig_cuda_blocks *b) {
    return 32 * b->warps_n * b->warps_k;
}

/* Streamed: blocks of the depth that a piece reaches into, and bytes of a piece with their scales and zero points. */
int ig_cuda_blocks_scale_rows(const struct ig_cuda_blocks *b);
int ig_cuda_blocks_stage(const struct ig_cuda_blocks *b);
/* Offsets in dynamic shared memory, behind the tile: the warps' rings and their barriers (streamed), the sums of the warps that divide the
 * depth, and the rows that are computed first. */
struct ig_cuda_blocks_places {
    int ring, barriers, parts, rows, end;
};
struct ig_cuda_blocks_places ig_cuda_blocks_places(const struct ig_cuda_blocks *b);

#endif
