/*
 * Rows of conversions. float16 takes F16C where the processor has it: VCVTPS2PH with the rounding in the instruction
 * and VCVTPH2PS heed no mode of the processor, and treat NaN, subnormals and overflow as half.c does (Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 2). bfloat16 is integer arithmetic that compilers vectorise: it is
 * the upper half of a float, so that rounding is an addition, subnormals and overflow included. VCVTNEPS2BF16 is not
 * used, since it takes subnormals for zero.
 */
#include "base/half_row.h"

#include <string.h>

#include "base/half.h"

#define QUIET UINT32_C(0x400000) /* the bit of a float's NaN */

static float quiet(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) bits |= QUIET;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* ---- bfloat16, for each instruction set */

#define WIDEN(from, to, count)                                \
    for (size_t i = 0; i < (count); i++) {                    \
        uint32_t bits = (uint32_t)(from)[i] << 16;            \
        bits |= (bits & 0x7fffffff) > 0x7f800000 ? QUIET : 0; \
        memcpy(&(to)[i], &bits, sizeof bits);                 \
    }
#define NARROW(from, to, count)                                                                  \
    for (size_t i = 0; i < (count); i++) {                                                       \
        uint32_t bits;                                                                           \
        memcpy(&bits, &(from)[i], sizeof bits);                                                  \
        uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);                                     \
        (to)[i] = (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? bits | QUIET : rounded) >> 16); \
    }

static void widen_bf16(const uint16_t *restrict from, float *restrict to, size_t count) {
    WIDEN(from, to, count)
}

static void narrow_bf16(const float *restrict from, uint16_t *restrict to, size_t count){NARROW(from, to, count)}

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#define WITH_AVX2 __attribute__((target("avx2,f16c")))
#else
#define WITH_AVX2 __attribute__((target("avx2,f16c"), optimize("O3"))) /* which vectorises loops */
#endif

WITH_AVX2
    static void widen_bf16_avx2(const uint16_t *restrict from, float *restrict to, size_t count){WIDEN(from, to, count)}

WITH_AVX2 static void narrow_bf16_avx2(const float *restrict from, uint16_t *restrict to,
                                       size_t count){NARROW(from, to, count)}

/* Both convert multiples of eight. */
WITH_AVX2 static void widen_f16_avx2(const uint16_t *restrict from, float *restrict to, size_t count) {
    for (size_t i = 0; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
}

WITH_AVX2 static void narrow_f16_avx2(const float *restrict from, uint16_t *restrict to, size_t count) {
    for (size_t i = 0; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2"); /* all processors with AVX2 have F16C, which clang cannot ask for */
}

#else

#define widen_bf16_avx2 widen_bf16
#define narrow_bf16_avx2 narrow_bf16

static void widen_f16_avx2(const uint16_t *from, float *to, size_t count) {
}

static void narrow_f16_avx2(const float *from, uint16_t *to, size_t count) {
}

static int has_avx2(void) {
    return 0;
}

#endif

/* ---- Any processor */

void ig_f16_to_f32_row(const uint16_t *from, float *to, size_t count) {
    size_t done = has_avx2() ? count & ~(size_t)7 : 0;
    widen_f16_avx2(from, to, done);
    for (size_t i = done; i < count; i++)
        to[i] = quiet(ig_f16_to_f32(from[i]));
}

void ig_bf16_to_f32_row(const uint16_t *from, float *to, size_t count) {
    (has_avx2() ? widen_bf16_avx2 : widen_bf16)(from, to, count);
}

void ig_f32_to_f16_row(const float *from, uint16_t *to, size_t count) {
    size_t done = has_avx2() ? count & ~(size_t)7 : 0;
    narrow_f16_avx2(from, to, done);
    for (size_t i = done; i < count; i++)
        to[i] = ig_f32_to_f16(from[i]);
}

void ig_f32_to_bf16_row(const float *from, uint16_t *to, size_t count) {
    (has_avx2() ? narrow_bf16_avx2 : narrow_bf16)(from, to, count);
}
