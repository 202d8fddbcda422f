/*
 * The matrix product of a CUDA block, described for codegen (codegen/cuda/gemm.c): all that its text depends on.
 *
 * A block computes bm x bn results. It walks along the depth in steps of bk, whose parts of A and B are copied to shared
 * memory `stages` steps ahead; its warps (warps_m x warps_n) multiply them in registers; the sums end up in the tile, a
 * matrix of floats at the beginning of the dynamic shared memory whose rows are bn + IG_CUDA_TILE_PAD elements apart. Where
 * the blocks of a cluster split the depth between them, each ends up with the sums of its own share of the tile's rows.
 *
 * Where there is a producer, a warp of the block does nothing but fetch, by the copy engine, for all of the block's tiles one
 * after the other. Two or three groups of four warps multiply: they share each tile, or two take tiles in turns. Their sums
 * stay in registers and are shown, a warp's to itself, `part` columns at a time, in a tile behind the stages; each group has its own where
 * they take turns.
 */
#ifndef IG_KERNEL_CUDA_GEMM_BLOCK_H
#define IG_KERNEL_CUDA_GEMM_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

enum { IG_CUDA_TILE_PAD = 8, IG_CUDA_BAND = 16, IG_CUDA_SHOWN_ROWS = 16 };

/* What multiplies. */
enum ig_cuda_math {
    IG_CUDA_FMA,  /* f32 on the CUDA cores, exact */
    IG_CUDA_TF32, /* f32, rounded to 10 bits of fraction as it is multiplied */
    IG_CUDA_F16,
    IG_CUDA_BF16,
};

/* For operands of that type; `rounded`: f32 may be. False where nothing multiplies them. */
bool ig_cuda_math_of(enum ingot_dtype dtype, bool rounded, enum ig_cuda_math *out_math);

/* Where an operand's elements are. Its lines are rows of A, columns of B. */
enum ig_cuda_operand {
    IG_CUDA_ALONG,  /* unit stride along the depth: element (line, p) at line * ld + p */
    IG_CUDA_ACROSS, /* unit stride across it: element (line, p) at p * ld + line */
    IG_CUDA_LISTED, /* A: unit stride along pieces of the depth; a list in shared memory tells where each line begins */
    IG_CUDA_WINDOWS, /* A: windows of a channels-last image; the depth is kernel rows, kernel columns, channels */
    IG_CUDA_FILLED,  /* A and B together: the kernel's loops fill the step's lines, each along the depth */
};

struct ig_cuda_gemm {
    enum ig_cuda_math math;
    int bm, bn, bk;
    int warps_m, warps_n; /* tensor cores: how the tile is divided among warps */
    bool warpgroups;      /* F16, BF16: by wgmma (sm_90a), whose groups of four warps have 64 rows; stages >= 3 */
    bool
        producer; /* with warpgroups, both operands ALONG or ACROSS, no split; tensor maps 0 and 1 are those of A and B */
    int groups; /* of its consumers that have a share of the rows of each tile: 2, 3; 1: two, which take tiles in turns */
    int part;   /* its columns that are shown at once */
    int thread_m, thread_n; /* CUDA cores: results of a thread; thread_n a multiple of 4 */
    int stages;
    bool early;       /* B is constant, and copied before the kernel waits for the one before it: multiply waits */
    bool whole_depth; /* the depth is a multiple of bk */
    int split;        /* blocks of a cluster that share the depth; 1: none */
    enum ig_cuda_operand a, b;
    int a_copy, b_copy; /* bytes that are copied at once: 16, 8, 4 or 2, which divide all that addresses are made of */
    int64_t piece;      /* LISTED: elements of a piece; 0: the depth is one */
    /* WINDOWS: rows and columns. A convolution along one axis has one row. */
    int taps[2], strides[2], dilations[2];
    bool side_by_side; /* neighbouring windows begin a copy apart */
};

/* Threads of a block, bytes of an element in shared memory, bytes of dynamic shared memory, rows of a block's share of
 * the tile. */
int ig_cuda_gemm_threads(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_element(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_shared(const struct ig_cuda_gemm *gemm);
/* Threads that do the rest of the kernel on a tile; elements between the tile's rows, and where the tile begins, in bytes. */
int ig_cuda_gemm_workers(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_tile_row(const struct ig_cuda_gemm *gemm);
int ig_cuda_gemm_tile_at(const struct ig_cuda_gemm *gemm);
/* A producer's barriers are behind everything else. */
int ig_cuda_gemm_barriers_at(const struct ig_cuda_gemm *gemm);
/* LISTED: where the list is, in bytes from the beginning of the dynamic shared memory. */
int ig_cuda_gemm_list(const struct ig_cuda_gemm *gemm);
/* FILLED: lines are so many elements apart; the lines of A begin at the beginning of the shared memory, followed by those
 * of B. */
int ig_cuda_gemm_line(const struct ig_cuda_gemm *gemm);

#endif
