/*
 * The matrix product of one CUDA block, described for codegen (codegen/cuda/gemm/gemm.c): everything that its text depends
 * on.
 *
 * A block computes a tile of bm x bn results. It walks along the depth in steps of bk, copying parts of A and B to
 * shared memory in a pipeline of `stages` steps. Its warps (warps_m x warps_n) multiply them and accumulate in
 * registers; the sums are then written to the tile, a matrix of floats at the beginning of dynamic shared memory with
 * row stride bn + IG_CUDA_TILE_PAD. If the blocks of a cluster split the depth, each ends up with the sums of its share
 * of the tile's rows.
 *
 * If it is `direct`, for few rows, B goes from memory to registers, `stages` steps ahead. The warps_n warps divide the depth
 * and not the tile, and the blocks of a cluster end up with their shares of the tile's columns.
 *
 * If it is a `stream`, for few rows, each of warps_n warps multiplies what it has the copy engine bring, bk of the depth at a time,
 * `stages` pieces ahead: of a column, or on the tensor cores of all columns.
 *
 * With a producer, one warp of a persistent block only fetches, by the copy engine (TMA), for all of the block's tiles
 * in turn. Consumer warp groups (of four warps) multiply: two or three share each tile, or two to four take tiles in turns. Their
 * sums stay in registers: each thread runs the epilogue on those of its own rows, IG_CUDA_OWN_COLUMNS at a time.
 */
#ifndef IG_KERNEL_CUDA_GEMM_BLOCK_H
#define IG_KERNEL_CUDA_GEMM_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

enum { IG_CUDA_TILE_PAD = 8, IG_CUDA_BAND = 16, IG_CUDA_OWN_COLUMNS = 8 };
/* Of streams: two blocks of IG_CUDA_THIRD bytes fit into a multiprocessor's shared memory, three just do not, so that there is as much
 * room as possible beside two; of less than IG_CUDA_FOURTH, four fit. */
enum { IG_CUDA_THIRD = (75 << 10) + 128, IG_CUDA_FOURTH = 56 << 10 };

/* The instructions that multiply. */
enum ig_cuda_math {
    IG_CUDA_FMA,  /* f32 on the CUDA cores, exact */
    IG_CUDA_TF32, /* f32, rounded to 10 bits of fraction as it is multiplied */
    IG_CUDA_F16,
    IG_CUDA_BF16,
    IG_CUDA_I8, /* i8 and u8, in any mix, with sums in i32 */
    IG_CUDA_F8, /* f8e4m3fn and f8e5m2, in any mix (sm_89 and up) */
};

/* Do both operands have elements of a byte? Instructions read these along the depth only. */
static inline bool ig_cuda_math_is_bytes(enum ig_cuda_math math) {
    return math == IG_CUDA_I8 || math == IG_CUDA_F8;
}

/* The instructions for operands of a type with sums in f32; `rounded`: f32 may be rounded. False if there are none. */
bool ig_cuda_math_of(enum ingot_dtype dtype, bool rounded, enum ig_cuda_math *out_math);
/* The same for operands of a byte each, with sums in i32 or f32, on a GPU of generation `sm`. */
bool ig_cuda_math_of_bytes(enum ingot_dtype a, enum ingot_dtype b, int sm, enum ig_cuda_math *out_math);

/* The layout of an operand. Its lines are rows of A, columns of B. */
enum ig_cuda_operand {
    IG_CUDA_ALONG,  /* unit stride along the depth: element (line, p) at line * ld + p */
    IG_CUDA_ACROSS, /* unit stride across the depth: element (line, p) at p * ld + line */
    /* A: unit stride along pieces of the depth; a list in shared memory has the offset of each line. */
    IG_CUDA_LISTED,
    /* A: windows of a channels-last image; the depth is kernel planes, rows, columns, and channels. */
    IG_CUDA_WINDOWS,
    /* A and B: the kernel's loops fill the step's lines, each contiguous along the depth. */
    IG_CUDA_FILLED,
};

/* The matrices of an operand, along two axes: those of batches may differ along each. */
enum { IG_CUDA_MATRICES = 1, IG_CUDA_INNER = 2, IG_CUDA_OUTER = 4 };

struct ig_cuda_gemm {
    enum ig_cuda_math math;
    enum ingot_dtype a_type, b_type; /* of the operands; they differ in I8 and F8 only */
    /* F8: sums of 128 of the depth, which the tensor cores accumulate with fewer bits than f32 has, are added to sums in
     * f32. Otherwise they stay in the tensor cores' form. */
    bool promoted;
    /* F8 and I8: the sums of each step, which is a block of 128 of the depth, are scaled by row and by column as they are promoted to
     * f32; so many columns share a scale, 1 or a multiple of 32. 0: they are not scaled. Requires `promoted` and, with warp groups,
     * that they are not swapped. */
    int scale_columns;
    int bm, bn, bk;
    int warps_m, warps_n; /* tensor cores: the grid of warps that divides the tile */
    /* Uses wgmma (sm_90a), whose warp groups have 64 rows; stages >= 3. TF32: neither operand is ACROSS. I8 and F8
     * have no operands ACROSS at all. */
    bool warpgroups;
    /* warpgroups: the 64 rows of an instruction are columns of the tile, and its columns, up to 256, rows of the tile. So
     * products of few columns do not read the whole of A for each 32 or 64 of them. bn is a multiple of 64; four warps
     * along it are a group. */
    bool swapped;
    /* A producer warp fetches. Requires warpgroups, A ALONG, ACROSS or WINDOWS, B ALONG or ACROSS, and no split; tensor
     * maps 0 and 1 are those of A and B. */
    bool producer;
    int turns; /* producer: so many groups, 2 to 4, take tiles in turns; 0: two share the rows of each, or three if bm is 192 */
    /* producer: the steps of B, all of which stay in shared memory for tiles of the same columns, which a block has one
     * after the other; 0: they are fetched for each tile. With `kept`, the tiles side by side. */
    int kept, column_blocks;
    /* producer: the columns come dealt out (base/tensor_map.h), so that each thread has IG_CUDA_OWN_COLUMNS neighbours; B is
     * ALONG. */
    bool dealt;
    bool begun; /* producer: sums begin with a number for each column */
    /* Up to four rows are multiplied in f32, 8 or 16 on the tensor cores with bn = 64. Requires A ALONG, B ACROSS, copies of 4
     * elements of A and of 16 bytes of B, and warps_m = 1. */
    bool direct;
    /* Up to four rows are multiplied in f32, 8 or 16 on the tensor cores, with bn a multiple of 16 and bk of 128 or 256 bytes; tensor map 0
     * is that of B, and 1 that of the second B, or of B again. Requires A ALONG, for the tensor cores in copies of 16 bytes, B ALONG
     * in copies of 16 bytes, sm_90 and warps_m = 1. */
    bool stream;
    int depth;                             /* stream: of the whole product */
    int first;                             /* stream: A's rows, so many, lie in shared memory; 0: in memory */
    const struct ig_cuda_exchange *pushes; /* stream: rows that are also sent to all ranks; or NULL */
    /* direct, stream: there is a second B; the tile has its columns behind those of the first. If direct, half of the warps
     * multiply by it. */
    bool twin;
    int thread_m, thread_n; /* CUDA cores: results per thread; thread_n is a multiple of 4 */
    int stages;
    /* B is constant and is copied before the kernel waits for the preceding one; `multiply` waits. */
    bool early;
    bool whole_depth;   /* the depth is a multiple of bk: no bounds checks */
    bool whole_columns; /* the columns are a multiple of bn */
    int split;          /* blocks of a cluster that split the depth (split-K); 1: none */
    int steps;          /* of each block, if that is known and the same for all; else 0 */
    enum ig_cuda_operand a, b;
    /* Bytes per copy: 16, 8, 4, 2 or 1. They divide all addresses and strides. */
    int a_copy, b_copy;
    int64_t piece; /* LISTED: elements per piece; 0: the depth is one piece */
    /* WINDOWS: planes, rows and columns; a convolution along fewer axes has one plane, or one row. */
    int taps[3], strides[3], dilations[3];
    bool side_by_side; /* neighbouring windows begin one copy apart */
    int border;        /* I8: the value beyond the image's edges, as it is stored; 0 with a producer */
    /* With a producer: axes of the windows; channels, with taps a multiple of bk; where along planes, rows and columns the first
     * window begins, and the last one, from the last pixel. */
    int axes, channels, lower[3], upper[3];
    /* WINDOWS along two axes, with `kept`: a tile is so many rows and columns of an image's outputs, bm together, and a stage the
     * patch of the image that their windows need, so that taps read it at different addresses. 0: none. The columns are 8, or
     * a multiple of 64, which the 64 rows of an instruction lie in as 8 x 8, or side by side. With strides, a stage has a
     * patch for each of the places that taps have from one to the next. If pixels are of 16 bytes, half of bk, two taps side by side
     * are a step of B. */
    int patch[2];
    /* producer: there are several batches, and dim `inner` counts the inner ones; which matrix of an operand a batch has, IG_CUDA_MATRICES
     * and along which axes its number is that of the batch; 0: the one that begins where its buffer does. */
    bool batches;
    uint32_t inner;
    int a_matrices, b_matrices;
    /* With patches, else 0: groups of the channels, one after the other in the image and in B, and the columns of each; a tile has some
     * of one, and `column_blocks` counts those of all. */
    int groups, group_columns;
};

/* With patches: pixels of a patch along rows (0) and columns (1); patches of a stage along these; bytes of a patch in shared
 * memory, where each begins a pattern, and of all that arrive. */
int ig_cuda_gemm_patch_pixels(const struct ig_cuda_gemm *gemm, int axis);
int ig_cuda_gemm_patch_phases(const struct ig_cuda_gemm *gemm, int axis);
int ig_cuda_gemm_patch_bytes(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_patch_arriving(const struct ig_cuda_gemm *gemm);
/* Bytes of a pixel in it, and the slices of channels that are so large. */
int ig_cuda_gemm_patch_pixel(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_patch_slices(const struct ig_cuda_gemm *gemm);

/* Does it stream boxes of B, to the tensor cores? */
static inline bool ig_cuda_gemm_streams_boxes(const struct ig_cuda_gemm *gemm) {
    return gemm->stream && gemm->bm > 4;
}
/* Warps that walk along the depth of one B. */
int ig_cuda_gemm_walkers(const struct ig_cuda_gemm *gemm);
/* Threads per block; bytes per element in shared memory; bytes of a stage, of dynamic shared memory. */
int ig_cuda_gemm_threads(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_element(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_stage(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_shared(const struct ig_cuda_gemm *gemm);
/* With a producer: warp groups that multiply; registers of each of their threads, and those that sums may take if they are promoted. */
int ig_cuda_gemm_groups(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_registers(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_sum_registers(const struct ig_cuda_gemm *gemm);
/* With a producer: has a thread registers for the sums of two steps beside its own, so that one's are promoted while the other's products
 * are in flight? */
bool ig_cuda_gemm_adds_in_pairs(const struct ig_cuda_gemm *gemm);
/* Threads that run the epilogue of a tile; row stride of the tile in elements. */
int ig_cuda_gemm_workers(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_tile_row(const struct ig_cuda_gemm *gemm);
/* Offset of a producer's barriers, behind the stages and what is kept. */
int ig_cuda_gemm_barriers_at(const struct ig_cuda_gemm *gemm);
/* Offsets of a stream in dynamic shared memory, behind the tile: the warps' rings of `stages` pieces, whose place their sums take
 * if they divide the depth; barriers; and up to four rows. */
struct ig_cuda_stream {
    int ring, barriers, rows, end;
};
struct ig_cuda_stream ig_cuda_gemm_stream(const struct ig_cuda_gemm *gemm);
/* LISTED: offset of the list in dynamic shared memory, in bytes. */
int ig_cuda_gemm_list(const struct ig_cuda_gemm *gemm);
/* Stride between lines in shared memory, in elements. FILLED: the lines of A come first, then those of B. */
int ig_cuda_gemm_line(const struct ig_cuda_gemm *gemm);

#endif
