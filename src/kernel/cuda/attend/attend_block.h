/*
 * Attention by one CUDA block, described for codegen (codegen/cuda/attend/attend.c): everything that its text depends on.
 *
 * A block does 16 * warps_m queries of one head, in steps of keys * warps_n keys. Keys and values are copied to shared
 * memory `stages` - 1 steps ahead, or all at once if there are no more steps than stages (`whole`). The warps form a
 * grid of warps_m x warps_n: each does 16 of the queries and `keys` of a step's keys, and has its own running maximum,
 * running sum and unnormalised result. After the last key, these are written to the beginning of dynamic shared memory
 * as floats: results [parts][rows][columns + IG_CUDA_ATTEND_PAD], maxima [parts][rows], sums [parts][rows]. Parts are
 * the warps_n of a block or, if the `split` blocks of a cluster divide the keys, those of all blocks, in the first
 * block's memory. Narrow results are normalised and rounded to the operands' type there, and need neither maxima nor sums.
 *
 * If it is `direct`, for few queries, keys and values go from memory to registers. A block does 8 queries, its warps_n warps
 * divide the keys of a step, eight by eight in turn, and one part is left.
 */
#ifndef IG_KERNEL_CUDA_ATTEND_BLOCK_H
#define IG_KERNEL_CUDA_ATTEND_BLOCK_H

#include "kernel/cuda/contract/gemm_block.h"

enum { IG_CUDA_ATTEND_PAD = 4, IG_CUDA_ATTEND_NARROW_PAD = 8 };

struct ig_cuda_attend {
    enum ig_cuda_math math;
    int warps_m, warps_n, keys, stages;
    bool warpgroups; /* F16, BF16: uses wgmma (sm_90a), whose warp groups have 64 queries; warps_n is 1 */
    bool whole;
    bool direct; /* F16, BF16, no tables; warps_m is 1 */
    int split;
    /* Positive: a block does this many heads in turn, of few keys each: while it computes one, the operands of the next
     * are copied. Results then have shared memory of their own, behind two heads' operands. */
    int turns;
    bool served;                   /* narrow, no tables: one more warp copies keys and values, two steps at most */
    bool narrow;                   /* with warpgroups */
    bool guarded, repaired;        /* of narrow results: as struct ig_attend says */
    int depth, columns;            /* of a query and key; of a value: in elements, padded to the instructions'
                                      multiples */
    int depth_bytes, column_bytes; /* bytes of real data in them; the rest is zero */
    /* Lines that do not lie at equal distances: the first entry of each operand's table (queries, keys, values), which
     * are one array of i64 at the end of shared memory; -1: no table. */
    int table[3], table_lines;
};
enum { IG_CUDA_ATTEND_QUERIES, IG_CUDA_ATTEND_KEYS, IG_CUDA_ATTEND_VALUES };

/* How a warp's scores, or its results, are distributed over threads: `lanes` threads share a row; a thread has `rows`
 * rows (16 / rows apart) and `columns` adjacent columns in each block of lanes * columns columns. */
struct ig_cuda_attend_layout {
    int lanes, rows, columns, blocks;
};
struct ig_cuda_attend_layout ig_cuda_attend_scores(const struct ig_cuda_attend *attend);
struct ig_cuda_attend_layout ig_cuda_attend_sums(const struct ig_cuda_attend *attend);
int ig_cuda_attend_rows(const struct ig_cuda_attend *attend);
/* The threads that multiply, and all of the block's. */
int ig_cuda_attend_workers(const struct ig_cuda_attend *attend);
int ig_cuda_attend_threads(const struct ig_cuda_attend *attend);
int ig_cuda_attend_parts(const struct ig_cuda_attend *attend);
int ig_cuda_attend_element(const struct ig_cuda_attend *attend);
/* The bytes of so many elements of a query, key or value in shared memory: warpgroups read lines of 64 bytes, or panels of 128. */
int ig_cuda_attend_line(const struct ig_cuda_attend *attend, int elements);
/* From one row of the results to the next, in elements. */
int ig_cuda_attend_tile_row(const struct ig_cuda_attend *attend);
/* Where the results begin in dynamic shared memory. */
int ig_cuda_attend_results_at(const struct ig_cuda_attend *attend);
/* Where the barriers begin, if it is served. */
int ig_cuda_attend_barriers_at(const struct ig_cuda_attend *attend);
/* Where the tables begin in dynamic shared memory, and its size, in bytes. */
int ig_cuda_attend_tables_at(const struct ig_cuda_attend *attend);
int ig_cuda_attend_shared(const struct ig_cuda_attend *attend);

#endif
