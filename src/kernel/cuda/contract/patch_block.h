/*
 * The convolution of one CUDA block by a patch of the image in shared memory, described for codegen (codegen/cuda/patch.c):
 * everything that its text depends on.
 *
 * A block computes tiles of tile[0] x tile[1] output positions (rows, columns) of one plane and of bn columns. Dynamic
 * shared memory holds the patch under all windows of a tile, a chunk of zeros, and the weights of bn columns. The sums
 * take the patch's place: a matrix of floats, or i32, with a row for each position and row stride ig_cuda_patch_row.
 *
 * Neighbouring pixels of a line that have too few channels for a chunk may be joined: a chunk then has the channels of `joined`
 * pixels, taps are counted in chunks, and the next pixel's chunk has all but one of them in common.
 */
#ifndef IG_KERNEL_CUDA_PATCH_BLOCK_H
#define IG_KERNEL_CUDA_PATCH_BLOCK_H

#include <stdbool.h>

#include "kernel/cuda/contract/gemm_block.h"

struct ig_cuda_patch {
    enum ig_cuda_math math; /* F16, BF16 or I8 */
    enum ingot_dtype a_type, b_type;
    int tile[2], bn;    /* the tile's columns are a multiple of 8, its positions of 16 * blocks; so is bn of 8 */
    int blocks;         /* of 16 positions, of each warp */
    int channels, copy; /* of the group, or of joined pixels; bytes per copy, which divide a pixel's channels */
    int joined;         /* pixels, or 1 */
    bool begun;         /* sums begin with a number for each column */
    bool b_across;      /* the weights' unit stride is along the columns; copied by 16 bytes. Not of bytes */
    /* Planes, rows and columns; a convolution along fewer axes has one plane, or one row. */
    int taps[3], strides[3], dilations[3];
};

/* Sizes of the patch in pixels: planes, rows and columns. */
int ig_cuda_patch_pixels(const struct ig_cuda_patch *patch, int axis);
/* Bytes of an element. Chunks of 16 bytes of a pixel's channels; steps of two chunks of the whole depth. */
int ig_cuda_patch_element(const struct ig_cuda_patch *patch);
int ig_cuda_patch_chunks(const struct ig_cuda_patch *patch);
int ig_cuda_patch_steps(const struct ig_cuda_patch *patch);
/* Pixels of a line whose columns are equal modulo the stride; bytes of a pixel, of a line, of the whole patch. */
int ig_cuda_patch_phase(const struct ig_cuda_patch *patch);
int ig_cuda_patch_pixel(const struct ig_cuda_patch *patch);
int ig_cuda_patch_line(const struct ig_cuda_patch *patch);
int ig_cuda_patch_bytes(const struct ig_cuda_patch *patch);
/* Row stride of the sums in elements. */
int ig_cuda_patch_row(const struct ig_cuda_patch *patch);
/* Where zeros and weights begin; bytes of a line of weights; bytes of dynamic shared memory. */
int ig_cuda_patch_zero_at(const struct ig_cuda_patch *patch);
int ig_cuda_patch_weights_at(const struct ig_cuda_patch *patch);
int ig_cuda_patch_weights_line(const struct ig_cuda_patch *patch);
int ig_cuda_patch_shared(const struct ig_cuda_patch *patch);
int ig_cuda_patch_threads(const struct ig_cuda_patch *patch);

#endif
