/*
 * A depthwise convolution by a CUDA block on the tensor cores, described for codegen (codegen/cuda/banded.c): everything that
 * its text depends on.
 *
 * A line of an image is multiplied by a banded matrix, the filter's line shifted along its diagonal, whose 8 columns are
 * neighbouring outputs. The 16 rows of an instruction's first operand are as many slots: places of one channel that the
 * tile has side by side, each of 8 output columns (a chunk) and of `rows` output lines (a band).
 *
 * Dynamic shared memory holds the images under the tile, channel by channel, and their filters. A channel's sums, floats by
 * positions, take the place of its images.
 */
#ifndef IG_KERNEL_CUDA_BANDED_BLOCK_H
#define IG_KERNEL_CUDA_BANDED_BLOCK_H

#include <stdint.h>

#include "kernel/cuda/contract/gemm_block.h"

struct ig_cuda_banded {
    enum ig_cuda_math math; /* F16 or BF16 */
    int64_t channels;       /* a multiple of 8 */
    /* Rows and columns; a convolution along one axis has one row. */
    int taps[2], strides[2], dilations[2];
    int rows;    /* of a band */
    int tile[3]; /* images, bands and chunks, of which 16 slots have room */
    int group;   /* channels of the tile: 8, 16 or 32 */
    int own;     /* of these, channels of a warp, an even number */
};

/* Input columns that a line of the matrix has, in steps of 16; input lines under a band, and under all of an image. */
int ig_cuda_banded_steps(const struct ig_cuda_banded *banded);
int ig_cuda_banded_reach(const struct ig_cuda_banded *banded);
int ig_cuda_banded_lines(const struct ig_cuda_banded *banded);
/* Input chunks of a line; bytes from line to line, from image to image, from channel to channel. */
int ig_cuda_banded_chunks(const struct ig_cuda_banded *banded);
int ig_cuda_banded_line(const struct ig_cuda_banded *banded);
int ig_cuda_banded_image(const struct ig_cuda_banded *banded);
int ig_cuda_banded_plane(const struct ig_cuda_banded *banded);
/* Bytes between the last channel of eight and the next one, beside a channel's. */
int ig_cuda_banded_skew(const struct ig_cuda_banded *banded);
/* Where filters begin. */
int ig_cuda_banded_filters_at(const struct ig_cuda_banded *banded);
/* Output positions of a tile, those of slots without a place included. */
int ig_cuda_banded_positions(const struct ig_cuda_banded *banded);
int ig_cuda_banded_shared(const struct ig_cuda_banded *banded);
int ig_cuda_banded_threads(const struct ig_cuda_banded *banded);

#endif
