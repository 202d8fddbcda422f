/*
 * Micro-kernels: the hand-scheduled innermost functions that a kernel calls (ig_s_call), described here, printed by
 * codegen (codegen/c/micro.h). A description holds everything that the text depends on, so that it can be a literal in
 * it: gcc and clang then keep all accumulators in registers and address all rows of A from one pointer.
 */
#ifndef IG_KERNEL_MICRO_H
#define IG_KERNEL_MICRO_H

#include "ir/target.h"
#include "ir/type.h"

enum ig_micro_kind {
    /*
     * void NAME(long rows, long vectors, const T *a, long lda, const H *b, T *c, long k, long first[, const T *next])
     * c[r][j] = sum over p < k of a[r*lda + p] * b[p*NR + j], added to what is in c unless `first`; the rows of c and b
     * are NR elements apart; columns beyond `vectors` vectors are not touched. A walk of several segments goes over k
     * elements at a, at a + jump, and so on, while b runs on. In groups, row r lies at r/group*group_stride +
     * r%group*lda. Where there is a `rate`, so many bytes at `next` are fetched for each step of k: they will be needed
     * soon.
     */
    IG_MICRO_GEMM,
    /*
     * void NAME(const H *from, long ld, T *to, long k, long columns)
     * A panel of a transposed matrix: to[p][j] = from[j*ld + p] for j < columns, zero for columns <= j < NR.
     */
    IG_MICRO_PACK,
    /*
     * void NAME(long columns, const H *x, long x_row, const H *w, T *c, long kh, long kw, long channels)
     * c[i][ch] = sum over r < kh, t < kw of x[r*x_row + t*x_tap + i*x_column + ch] * w[r*w_row + t*w_tap + ch];
     * the rows of c are nr apart. Several columns have kw taps as described, a single one any number.
     */
    IG_MICRO_DEPTHWISE,
    /*
     * void NAME(const T *x, long stride, long n, T *values, long *indices, long step, long k, void *keys)
     * The k best of the n elements x[i*stride], best first, to values[j*step] and their i to indices[j*step]; either may
     * be null. T is any numeric type as it is in memory; `keys` has room for k keys. Equal elements keep their order;
     * NaN is greater than all else. What is beyond n is 0.
     */
    IG_MICRO_TOPK,
};

struct ig_micro {
    enum ig_micro_kind kind;
    const char *name;
    enum ingot_dtype dtype;                /* T: f32, f64, i32, i64 and unsigned */
    enum ingot_dtype half;                 /* H: f16 or bf16, converted as it is loaded, where T is f32; NONE: T */
    uint32_t rows;                         /* GEMM: bit r: `rows` may be r; DEPTHWISE: bit i: `columns` may be i */
    uint32_t vectors;                      /* GEMM: bit v: `vectors` may be v */
    int nr;                                /* GEMM, PACK: elements of a row of b and c; DEPTHWISE: of c */
    int64_t lda;                           /* GEMM: where it is known; 0: the argument */
    int64_t prefetch;                      /* GEMM: how many elements ahead b is fetched; 0: not at all */
    int64_t rate;                          /* GEMM; 0: there is no `next` */
    int64_t segments, jump;                /* GEMM; segments 0 or 1: one walk */
    int64_t group, group_stride;           /* GEMM, where lda is known; group 0: none */
    int64_t x_tap, x_column, w_row, w_tap; /* DEPTHWISE, in elements */
    int64_t kw;                            /* DEPTHWISE: what kw usually is, unrolled */
    bool apart;                            /* GEMM: not inlined, since its caller's constants would take registers */
    bool largest;                          /* TOPK */
    int key_bytes;                         /* TOPK: an element and its index, 32 (8) or 64 (16) bits each */
};

/* Lanes of a vector of that type. */
static inline int ig_micro_lanes(const struct ig_target *target, enum ingot_dtype dtype) {
    bool wide = dtype == INGOT_F64 || dtype == INGOT_I64 || dtype == INGOT_U64;
    return target->vector_bytes / (wide ? 8 : 4);
}

#endif
