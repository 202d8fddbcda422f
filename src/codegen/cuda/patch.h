/* The convolution of a block by a patch of the image as CUDA C++: the description's numbers as constants, then the
 * template (patch.cu), in the namespace `patch`. */
#ifndef IG_CODEGEN_CUDA_PATCH_H
#define IG_CODEGEN_CUDA_PATCH_H

#include "base/text.h"
#include "kernel/cuda/contract/patch_block.h"

/*
 * Declares, for all threads of the block together,
 *
 *     patch::multiply(tile, images, pixel, planes, rows, columns, number, plane, row, column, weights, ld, first, last,
 *                     index, each)
 *
 * which leaves the sums in `tile`, the beginning of dynamic shared memory. `images` are of planes x rows x columns, with
 * `pixel` elements between pixels; the first window begins at `plane`, `row` and `column` of image `number`, or outside
 * of it. `weights`: a matrix of row stride ld, whose columns (or lines) `first` to `last` are multiplied. The block's
 * tiles have numbers `index`, apart by the number of blocks; `each` tiles in a row have the same weights.
 */
void ig_cuda_patch(const struct ig_cuda_patch *patch, struct ig_text *text);

#endif
