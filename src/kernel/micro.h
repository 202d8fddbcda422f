/*
 * Micro-kernels: hand-scheduled innermost functions that kernels call (ig_s_call), described here and printed by
 * codegen (codegen/c/micro.h). The description holds everything that the text depends on, so that it can be a literal
 * in it: gcc and clang then keep all accumulators in registers and address all rows of A from one pointer.
 */
#ifndef IG_KERNEL_MICRO_H
#define IG_KERNEL_MICRO_H

#include "ir/target.h"
#include "ir/type.h"

enum {
    IG_MICRO_PIECE = 32,
    IG_MICRO_PIECE_ELEMENTS = 3 * 32 * 32
}; /* of operands in parts: steps of the depth, and bf16 */

enum ig_micro_kind {
    /*
     * void NAME(long rows, long vectors, const A *a, long lda, const H *b, T *c, long k, long first[, const T *next])
     *
     * c[r][j] = sum over p < k of a[r*lda + p] * b[p*NR + j], added to c unless `first`. Rows of c and b are NR
     * elements apart; columns beyond `vectors` vectors are not touched. With `together` steps of the depth together, k is
     * a multiple of these, and b[p*NR + j] is element (p/together*NR + j)*together + p%together. With `segments`, k elements are read at a, then
     * at a + jump, and so on, while b is read contiguously. With `group`, row r lies at r/group*group_stride +
     * r%group*lda. With `rate`, that many bytes at `next` are prefetched per step of k, since they are needed soon; with
     * `stretches`, a line of each stretch in turns.
     *
     * If it is `listed`, `first` is followed by what IG_MICRO_LIST has made of b. With `parts`, both a and b are what
     * IG_MICRO_ROW_PARTS and IG_MICRO_COLUMN_PARTS have made of f32, and lda is not used.
     */
    IG_MICRO_GEMM,
    /*
     * void NAME(long rows, const float *from, long ld, void *to, long k)
     *
     * A block of A, element p of row r at from[r*ld + p], as tiles of AMX that hold the f32 as sums of three bf16: for each
     * IG_MICRO_PIECE of the depth, filled up with zeros, IG_MICRO_PIECE_ELEMENTS: the first 16 rows and the last 16, of these
     * each part by itself, with steps p and p + 16 of the piece as a pair. From 16 to 32 rows, of which the last 16 are left out if
     * there are 16.
     */
    IG_MICRO_ROW_PARTS,
    /*
     * void NAME(const float *from, void *to, long k)
     *
     * A panel of B, element p of column j at from[p*NR + j], likewise: each part with the same pairs of steps together, one pair's of all
     * columns behind those of the pair before.
     */
    IG_MICRO_COLUMN_PARTS,
    /*
     * void NAME(const i8 *b, long k, unsigned short *list)
     *
     * Lists the quads of a panel, four steps of k by NR columns, whose sums of two products by u8 fit 16 bits whatever these are:
     * list[0] is their number, from list[1] on are they, and behind them the others, each as its number in the panel.
     */
    IG_MICRO_LIST,
    /*
     * void NAME(const H *from, long ld, T *to, long k, long columns)
     *
     * Packs a panel of a transposed matrix: to[p][j] = from[j*ld + p] for j < columns, zero for columns <= j < NR.
     */
    IG_MICRO_PACK,
    /*
     * void NAME(const T *from, long ld, T *to, long k, long columns)
     *
     * Copies a panel of a matrix of bytes or halves with G steps of k (`together`) side by side:
     * to[(p/G*NR + j)*G + p%G] = from[p*ld + j] for j < columns, zero for columns <= j < NR. k is a multiple of G.
     */
    IG_MICRO_INTERLEAVE,
    /*
     * void NAME(long columns, const H *x, long x_row, const H *w, T *c, long kh, long kw, long channels)
     *
     * c[i][ch] = sum over r < kh, t < kw of x[r*x_row + t*x_tap + i*x_column + ch] * w[r*w_row + t*w_tap + ch]. Rows of
     * c are nr apart. With several columns, kw must be the described one; with one, any.
     */
    IG_MICRO_DEPTHWISE,
    /*
     * void NAME(long columns, const H *x, long x_row, const H *w, T *c, long kh, long first, long end, long channels)
     *
     * The same of groups of `group` channels, which vectors consist of, with described kw. Each reads `inputs` channels: as
     * many, or one (T alone, no halves; `group` may then be several vectors, too):
     * c[i][ch] = sum over r < kh, t < kw, g < inputs of x[r*x_row + s*x_tap + ch/group*inputs + g] * w[r*w_row + t*w_tap +
     * g*w_tap/inputs + ch], where s = i*x_column + t*dilation is the column of x, of those with first <= s < end.
     * Only `before` columns of x from 0 on and the last `after` can be others. channels is a multiple of group, and a
     * vector's or more.
     */
    IG_MICRO_GROUPED,
    /*
     * void NAME(long columns, const u8 *x, const i8 *w, i32 *c, long channels)
     *
     * The same of bytes: c[i][ch] = sum over r < kh, t < kw of
     * x[r*x_row + (t*dilation + i*x_column)*x_tap + ch] * w[(r/4*kw + t)*w_tap + ch*4 + r%4], of channels that are
     * whole vectors of sums. x can be read up to a multiple of 4 vectors, w holds zeros for rows from kh on.
     */
    IG_MICRO_DEPTHWISE_DOTS,
    /*
     * void NAME(const T *x, long stride, long n, T *values, long *indices, long step, long k, void *keys)
     *
     * The k best of the n elements x[i*stride], best first: values to values[j*step] and their i to indices[j*step];
     * either may be null. T is any numeric type in its storage form; `keys` has room for k keys, and may be null on GPUs if
     * all k <= kept. Stable: equal elements keep their order; NaN is greater than all else. Results beyond n are 0.
     */
    IG_MICRO_TOPK,
    /*
     * void NAME(const float *from, T *to, long n, long zero)
     *
     * Casts n elements to T: to bf16 with AVX512-BF16, or to bytes, saturating: NaN gives 0. If it `rounds`, they are rounded to even before, and `zero`
     * is added then; else `zero` is 0. `from` can be read up to a multiple of 16 elements.
     */
    IG_MICRO_NARROW,
    /*
     * void NAME(const T *from, float *to, long n)
     *
     * Casts n elements of u8 or i8. `to` can be written up to a multiple of 16 elements.
     */
    IG_MICRO_WIDEN,
    /*
     * void NAME(long rows, long columns, const T *a, long lda, const void *codes, const void *scale, const void *zero,
     *           const T *table, T *c)
     *
     * c[r][j] = sum over p of a[r*lda + p] * w[j][p], of codes in blocks in the form IG_BLOCKS_LANES (ir/blocks.h), from
     * the first column on. Rows of a are readable up to a multiple of 16 elements, and zero beyond the depth.
     */
    IG_MICRO_BLOCKS,
};

/* BLOCKS: the matrix of codes. */
struct ig_micro_blocks {
    int bits;
    int64_t depth, block, offset; /* as in matmul_blocks */
    enum ingot_dtype weight;      /* f32, f16 or bf16: what weights are rounded to */
    enum ingot_dtype scale, zero; /* f32, f16, bf16, u8 or i8; zero may be NONE */
    enum ingot_dtype codes;       /* u8; of 8 bits also f8e4m3fn or f8e5m2 */
    bool table;
};

struct ig_micro {
    enum ig_micro_kind kind;
    const char *name;
    enum ingot_dtype dtype;      /* T: f32, f64, i32, i64 and unsigned */
    enum ingot_dtype half;       /* H: f16 or bf16, converted on load, if T is f32; NONE: same as T */
    int together;                /* GEMM: 4 if A is u8, H i8 and T i32; 2 if A and H are bf16 and T f32,
                                    with AVX512-BF16, or if A is i16, H i8 and T i32; else 0 */
    bool wide;                   /* GEMM of i16: H is i16 too */
    bool parts;                  /* GEMM with tiles: products of f32 by their parts in bf16 */
    bool listed;                 /* GEMM of u8 without VNNI: see above */
    int tile_groups;             /* GEMM with AMX: `rows` from 16 to 32 are done by tiles, which take so many times
                                    `together` steps of the depth at once; k is a multiple of these. Else 0 */
    uint64_t rows;               /* GEMM: bit r is set if `rows` may be r; DEPTHWISE, GROUPED: bit i if `columns`
                                    may be i; BLOCKS: bit r if r rows are computed together, 1 among them
                                    unless `rows` is known */
    uint32_t vectors;            /* GEMM: bit v is set if `vectors` may be v; DEPTHWISE_DOTS: if channels may be 4n + v
                                              vectors, v < 4 */
    int nr;                      /* GEMM, PACK: elements per row of b and c; DEPTHWISE, GROUPED: of c */
    int64_t lda;                 /* GEMM: constant lda; 0: use the argument */
    int64_t prefetch;            /* GEMM: prefetch distance of b in elements; 0: no prefetch */
    int64_t rate;                /* GEMM: see above; 0: there is no `next` */
    int64_t stretches, stretch;  /* GEMM with tiles and rate: how many there are, bytes between their beginnings */
    int64_t segments, jump;      /* GEMM: see above; segments 0 or 1: a is contiguous */
    int64_t group, group_stride; /* GEMM with constant lda; group 0: none. GROUPED: see above */
    int64_t inputs;              /* GROUPED: see above */
    int64_t x_tap, x_column, w_row, w_tap; /* DEPTHWISE, GROUPED, in elements */
    int64_t kw;                            /* DEPTHWISE: the expected kw, unrolled */
    int64_t kh, x_row, dilation;           /* DEPTHWISE_DOTS; x_column is in columns there, and of GROUPED */
    int64_t before, after;                 /* GROUPED: see above */
    bool rounds;                           /* NARROW */
    bool largest;                          /* TOPK: largest first */
    int key_bytes;                         /* TOPK: element and index, 32 (8) or 64 (16) bits each */
    const struct ig_micro_blocks *blocks;  /* BLOCKS */
    int team, kept;                        /* TOPK on GPUs: threads for a row; keys for which `keys` is not needed */
};

/* Vector lanes for that type. */
static inline int ig_micro_lanes(const struct ig_target *target, enum ingot_dtype dtype) {
    bool wide = dtype == INGOT_F64 || dtype == INGOT_I64 || dtype == INGOT_U64;
    return target->vector_bytes / (wide ? 8 : 4);
}

/* Groups of steps of the depth that a tile of AMX takes at once: a whole part of `groups`, at most 16; 0 if tiles would be
 * rather empty (a quarter of their rate is above that of vectors). */
static inline int ig_micro_tile_groups(int64_t groups) {
    enum { MOST = 16 };
    int64_t steps = (groups + MOST - 1) / MOST;
    if (groups <= 0) return 0;
    while (groups % steps)
        steps++;
    int64_t each = groups / steps;
    return 4 * each >= (groups < MOST ? groups : MOST) ? (int)each : 0;
}

#endif
