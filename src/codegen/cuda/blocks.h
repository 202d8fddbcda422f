/* A product with codes in blocks as CUDA C++: the description's numbers as constants, then the template (blocks.cu), in the
 * namespace `blocks`. */
#ifndef IG_CODEGEN_CUDA_BLOCKS_H
#define IG_CODEGEN_CUDA_BLOCKS_H

#include "base/text.h"
#include "kernel/cuda/contract/blocks_block.h"

/*
 * Declares, for all threads of a block together,
 *
 *     blocks::multiply(tile, a, lda, first_row, rows, codes, scales, zeros, table, first_column)
 *
 * which leaves the sums in shared memory, at `tile`, as [BM][BN]. Rows of a are lda elements apart.
 */
void ig_cuda_blocks(const struct ig_cuda_blocks *blocks, struct ig_text *text);

#endif
