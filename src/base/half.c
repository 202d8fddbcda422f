/*
 * float16 and bfloat16. Widening is exact. Narrowing rounds a double once, to nearest even, by integer arithmetic, so
 * that no compiler flag and no processor mode can change it. A float converts to double exactly.
 */
#include "base/half.h"

#include <string.h>

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/*
 * Rounds a double to a format of a sign, `exponent_bits` and `mantissa_bits`. A rounding carry out of the mantissa
 * gives the next exponent with a zero mantissa and, out of the largest exponent, infinity: plain addition does both.
 */
static uint16_t narrow(double value, int exponent_bits, int mantissa_bits) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & (((uint64_t)1 << 52) - 1);
    uint32_t infinity = (((uint32_t)1 << exponent_bits) - 1) << mantissa_bits;
    if (exponent == 0x7ff) {
        if (!mantissa) return (uint16_t)(sign | infinity);
        uint32_t payload = (uint32_t)(mantissa >> (52 - mantissa_bits)) | (uint32_t)1
                                                                              << (mantissa_bits - 1); /* quiet */
        return (uint16_t)(sign | infinity | payload);
    }
    if (exponent == 0) return sign; /* a double this small is far below half the smallest subnormal */
    mantissa |= (uint64_t)1 << 52;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int target = exponent - 1023 + bias; /* at least 1: normal */
    if (target > (1 << exponent_bits)) return (uint16_t)(sign | infinity);
    int shift = 52 - mantissa_bits + (target < 1 ? 1 - target : 0);
    if (shift > 54) return sign;
    uint64_t kept = mantissa >> shift, rest = mantissa - (kept << shift), half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    /* A normal number's `kept` includes the leading one, which counts as one exponent. */
    uint64_t result = kept + (target > 1 ? (uint64_t)(target - 1) << mantissa_bits : 0);
    return (uint16_t)(sign | (result < infinity ? (uint32_t)result : infinity));
}

float ig_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* subnormal: a multiple of 2^-24, exact in float */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t ig_f64_to_f16(double value) {
    return narrow(value, 5, 10);
}

uint16_t ig_f32_to_f16(float value) {
    return narrow((double)value, 5, 10);
}

float ig_bf16_to_f32(uint16_t bits) {
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t ig_f64_to_bf16(double value) {
    return narrow(value, 8, 7);
}

uint16_t ig_f32_to_bf16(float value) {
    return narrow((double)value, 8, 7);
}
