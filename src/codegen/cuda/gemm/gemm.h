/* The matrix product of a block as CUDA C++: the description's numbers as constants, then the parts of the template
 * (gemm*.cu) that it needs, in the namespace `gemm`. */
#ifndef IG_CODEGEN_CUDA_GEMM_H
#define IG_CODEGEN_CUDA_GEMM_H

#include "base/text.h"
#include "kernel/cuda/contract/gemm_block.h"

/*
 * Declares gemm::multiply, which all threads of the block call together:
 *
 *     multiply(total *tile, A…, const void *b, long long ldb, long long first_column, long long columns, long long depth)
 *
 * A… depends on the layout of A:
 *  - matrix: (const void *a, long long lda, long long first_row, long long rows)
 *  - windows: (const void *image, planes, height, width, elements between pixels, channels; planes, height and width of
 *    the output; planes ahead, rows above, columns before; first_row, rows)
 *  - list: (const void *a, const long long *list, stride of pieces, first_row, rows)
 *
 * `total` is the type of sums: float, or int of bytes.
 *
 * If sums are scaled, there are further (const float *row scales, pitches of rows and of steps, const float *column scales, how many
 * of these a step has); gemm_scales.cu says how they lie. With a producer, or where loops fill the operands, `sums.by.start` takes
 * them before the first step.
 *
 * `rows` and `columns` are those of the whole product; elements past them count as zero.
 *
 * If the kernel's loops fill the operands, there are instead a type gemm::sums with clear(); gemm::add(sums, tile),
 * which adds the product of what was filled; and gemm::finish(sums, tile).
 *
 * With a producer, all threads call gemm::start_barriers(). Those of gemm::is_producer() then call
 * gemm::give_registers() and gemm::produce. The others call gemm::take_registers() and loop over tiles from
 * gemm::first_tile() in steps of gemm::next_tile(), calling gemm::multiply(sums, tile, depth); then each warp calls
 * gemm::show(sums, tile, rows, part) for each 16 rows of its own and each part of the columns.
 */
void ig_cuda_gemm(const struct ig_cuda_gemm *gemm, struct ig_text *text);

/* multiply_block, which multiplies 16 rows by 8 columns, 32 bytes of the depth, for templates of their own. */
void ig_cuda_print_multiply_block(enum ig_cuda_math math, enum ingot_dtype a_type, enum ingot_dtype b_type,
                                  bool promoted, struct ig_text *text);

#endif
