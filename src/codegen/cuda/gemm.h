/* Matrix products of a block as CUDA C++: the description's numbers as constants, then the parts of the template
 * (gemm*.cu) that it needs, in a namespace `gemm` of their own. */
#ifndef IG_CODEGEN_CUDA_GEMM_H
#define IG_CODEGEN_CUDA_GEMM_H

#include "base/text.h"
#include "kernel/cuda/gemm_block.h"

/*
 * Declares gemm::multiply, to be called by all threads of the block:
 *
 *     multiply(float *tile, A…, const void *b, long long ldb, long long first_column, long long columns, long long depth)
 *
 * where A… is (const void *a, long long lda, long long first_row, long long rows), or, for windows, (const void *image,
 * height, width, elements from one pixel to the next, channels, height and width of the output, rows above, columns before,
 * first_row, rows), or, for lines of a list, (const void *a, const long long *list, stride of pieces, first_row, rows). `rows` and `columns` are those of the whole product: what is beyond them is taken for zero.
 *
 * Where the operands are filled by the kernel's loops there are, instead, a type gemm::sums with clear(), and
 * gemm::add(sums, tile), which adds the product of what was filled, and gemm::finish(sums, tile).
 *
 * Where there is a producer, all threads call gemm::start_barriers(), those of gemm::is_producer() then
 * gemm::give_registers() and gemm::produce. The others call gemm::take_registers() and have a loop over tiles from
 * gemm::first_tile() in steps of gemm::next_tile(), with gemm::multiply(sums, tile, depth); then each warp calls, for each
 * 16 rows that are its own and each part of the columns, gemm::show(sums, tile, rows, part).
 */
void ig_cuda_gemm(const struct ig_cuda_gemm *gemm, struct ig_text *text);

#endif
