/* A product with codes in blocks as CUDA C++: the description's numbers as constants, then the template (blocks.cu), in the
 * namespace `blocks`. */
#ifndef IG_CODEGEN_CUDA_BLOCKS_H
#define IG_CODEGEN_CUDA_BLOCKS_H

#include "base/text.h"
#include "kernel/cuda/contract/blocks_block.h"

/*
 * Declares, for all threads of a block together, `blocks::product` with
 *
 *     begin(codes, scales, zeros, table, first_column, ...)
 *     multiply(tile, a, lda, first_row, rows)
 *
 * the first of which has codes under way and waits for the preceding kernel; the second leaves the sums in shared memory, at `tile`, as
 * [BM][BN], the twin's columns behind the others. Rows of a are lda elements apart, in memory or, with `first`, in shared memory. Behind
 * the first column come the twin's codes, scales and zero points, or the seat of a stream that pushes.
 */
void ig_cuda_blocks(const struct ig_cuda_blocks *blocks, struct ig_text *text);

#endif
