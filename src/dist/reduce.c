/*
 * Reductions; see reduce.h. A block of elements at a time is accumulated in the first cache, in the type in which it is
 * added: f16 and bf16 in f32, all others in their own, integers without a sign, so that they wrap around.
 */
#include "dist/reduce.h"

#include <math.h>
#include <string.h>

#include "base/half_row.h"

#define BLOCK 1024

/* GCC vectorises loops from -O3 on, clang always. */
#if defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((optimize("O3")))
#else
#define FAST
#endif

/* to = a op b for `count` elements of one type. `to` may be one of them, which is no dependency between elements. */
typedef void (*combine)(void *to, const void *a, const void *b, size_t count);

#define COMBINE(name, type, expression)                                                      \
    FAST static void name(void *to, const void *from, const void *and, size_t count) {       \
        type *out = to;                                                                      \
        const type *a = from, *b = and;                                                      \
        _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++) out[i] = (type)(expression); \
    }
#define INTEGER(type, wide)                              \
    COMBINE(sum_##type, wide, a[i] + b[i])               \
    COMBINE(max_##type, type, b[i] > a[i] ? b[i] : a[i]) \
    COMBINE(min_##type, type, b[i] < a[i] ? b[i] : a[i])
#define FLOAT(type)                                                     \
    COMBINE(sum_##type, type, a[i] + b[i])                              \
    COMBINE(max_##type, type, b[i] > a[i] || isnan(b[i]) ? b[i] : a[i]) \
    COMBINE(min_##type, type, b[i] < a[i] || isnan(b[i]) ? b[i] : a[i])

/* A number greater than, or less than, NaN there is none: once a[i] is NaN, it stays. */
FLOAT(float)
FLOAT(double)
INTEGER(int8_t, uint8_t)
INTEGER(int16_t, uint16_t)
INTEGER(int32_t, uint32_t)
INTEGER(int64_t, uint64_t)
INTEGER(uint8_t, uint8_t)
INTEGER(uint16_t, uint16_t)
INTEGER(uint32_t, uint32_t)
INTEGER(uint64_t, uint64_t)
COMBINE(or_bool, uint8_t, a[i] | b[i])
COMBINE(and_bool, uint8_t, a[i] & b[i])

#define ROW(type) \
    { sum_##type, max_##type, min_##type }

static const combine combines[INGOT_BOOL + 1][IG_REDUCTION_COUNT] = {
    [INGOT_F32] = ROW(float),
    [INGOT_F16] = ROW(float),
    [INGOT_BF16] = ROW(float),
    [INGOT_F64] = ROW(double),
    [INGOT_I8] = ROW(int8_t),
    [INGOT_I16] = ROW(int16_t),
    [INGOT_I32] = ROW(int32_t),
    [INGOT_I64] = ROW(int64_t),
    [INGOT_U8] = ROW(uint8_t),
    [INGOT_U16] = ROW(uint16_t),
    [INGOT_U32] = ROW(uint32_t),
    [INGOT_U64] = ROW(uint64_t),
    [INGOT_BOOL] = {or_bool, or_bool, and_bool},
};

/* Elements of f16 and bf16 as f32, and back. */
static void widen(uint32_t dtype, const void *from, float *to, size_t count) {
    if (dtype == INGOT_F16)
        ig_f16_to_f32_row(from, to, count);
    else
        ig_bf16_to_f32_row(from, to, count);
}

static void narrow(uint32_t dtype, const float *from, void *to, size_t count) {
    if (dtype == INGOT_F16)
        ig_f32_to_f16_row(from, to, count);
    else
        ig_f32_to_bf16_row(from, to, count);
}

static void reduce_halves(uint32_t dtype, combine with, const void *const *from, uint32_t ranks, void *to,
                          size_t offset, size_t count) {
    float sum[BLOCK], next[BLOCK];
    widen(dtype, (const char *)from[0] + offset, sum, count);
    for (uint32_t r = 1; r < ranks; r++) {
        widen(dtype, (const char *)from[r] + offset, next, count);
        with(sum, sum, next, count);
    }
    narrow(dtype, sum, (char *)to + offset, count);
}

/* What is not the last sum stays in the cache: `to` may be what is still to be read. */
static void reduce_block(combine with, const void *const *from, uint32_t ranks, void *to, size_t offset, size_t count) {
    double sum[BLOCK]; /* aligned for, and as large as, elements of any type */
    const void *left = (const char *)from[0] + offset;
    for (uint32_t r = 1; r < ranks; r++) {
        void *into = r + 1 < ranks ? (void *)sum : (char *)to + offset;
        with(into, left, (const char *)from[r] + offset, count);
        left = sum;
    }
}

void ig_reduce(uint32_t dtype, uint32_t reduction, const void *const *from, uint32_t ranks, void *to, size_t count) {
    const combine with = combines[dtype][reduction];
    const size_t size = ingot_dtype_size((enum ingot_dtype)dtype);
    if (ranks == 1) {
        if (count && to != from[0]) memcpy(to, from[0], count * size);
        return;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t block = count - at < BLOCK ? count - at : BLOCK;
        if (dtype == INGOT_F16 || dtype == INGOT_BF16)
            reduce_halves(dtype, with, from, ranks, to, at * size, block);
        else
            reduce_block(with, from, ranks, to, at * size, block);
    }
}
