/*
 * Attention by a CUDA block, described for codegen (codegen/cuda/attend.c): all that its text depends on.
 *
 * A block does 16 * warps_m queries of one head, in steps of keys * warps_n keys, whose keys and values are copied to shared
 * memory `stages` - 1 steps ahead, or all at once where there are no more steps than stages (`whole`). Its warps are a grid of warps_m x warps_n: each does 16 of the queries and `keys` of a
 * step's keys and has a running maximum, a running sum and an unfinished result of its own. When all keys are done, these are
 * at the beginning of the dynamic shared memory: results [parts][rows][columns + IG_CUDA_ATTEND_PAD], maxima [parts][rows],
 * sums [parts][rows], in floats. Parts are the warps_n ones of a block, or, where the `split` blocks of a cluster divide the
 * keys between them, those of all of them, in the first block.
 */
#ifndef IG_KERNEL_CUDA_ATTEND_BLOCK_H
#define IG_KERNEL_CUDA_ATTEND_BLOCK_H

#include "kernel/cuda/gemm_block.h"

enum { IG_CUDA_ATTEND_PAD = 4 };

struct ig_cuda_attend {
    enum ig_cuda_math math;
    int warps_m, warps_n, keys, stages;
    bool warpgroups; /* F16, BF16: by wgmma (sm_90a), whose groups of four warps have 64 queries; warps_n is 1 */
    bool whole;
    int split;
    int depth, columns;            /* elements of a query and a key; of a value: multiples of what instructions take */
    int depth_bytes, column_bytes; /* how much of them there is; the rest is zero */
};

/* How a warp's scores, and its results, are divided among threads: lanes next to each other in a row, rows of a thread (16 /
 * rows apart), columns next to each other that a thread has of a block of lanes * columns. */
struct ig_cuda_attend_layout {
    int lanes, rows, columns, blocks;
};
struct ig_cuda_attend_layout ig_cuda_attend_scores(const struct ig_cuda_attend *attend);
struct ig_cuda_attend_layout ig_cuda_attend_sums(const struct ig_cuda_attend *attend);
int ig_cuda_attend_rows(const struct ig_cuda_attend *attend);
int ig_cuda_attend_threads(const struct ig_cuda_attend *attend);
int ig_cuda_attend_parts(const struct ig_cuda_attend *attend);
int ig_cuda_attend_element(const struct ig_cuda_attend *attend);
/* Bytes of dynamic shared memory. */
int ig_cuda_attend_shared(const struct ig_cuda_attend *attend);

#endif
