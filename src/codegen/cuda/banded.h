/* A depthwise convolution by banded matrices as CUDA C++: the description's numbers as constants, then the template
 * (banded.cu), in the namespace `banded`. */
#ifndef IG_CODEGEN_CUDA_BANDED_H
#define IG_CODEGEN_CUDA_BANDED_H

#include "base/text.h"
#include "kernel/cuda/contract/banded_block.h"

/*
 * Declares, for all threads of the block together,
 *
 *     banded::multiply(sums, images, count, rows, columns, image, row, column, filters, channel)
 *
 * which leaves the sums in `sums`, the beginning of dynamic shared memory, channel by channel, those of each where its plane
 * begins: position ((line * 2 + half) * 16 + slot) * 4 + x is column half * 4 + x of `line` in a slot's band; slots are by
 * bands, images and chunks. There are `count` images, of
 * rows x columns; the first window of the first slot begins at `row` and `column` of image `image`, or outside of it.
 * `filters` are by taps and channels, of which the tile's begin with `channel`.
 */
void ig_cuda_banded(const struct ig_cuda_banded *banded, struct ig_text *text);

#endif
