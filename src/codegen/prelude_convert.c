/*
 * The prelude's conversions. float16 and bfloat16 are integers in memory and float32 in between; they round to nearest
 * even. Floats become integers by truncation: NaN gives 0, and what lies outside wraps as through int64, or saturates.
 */
#include "codegen/prelude.h"

const struct ig_code_function ig_code_functions_convert[] = {
    {"ig_load_f16", NULL, "ig_of_bits_f32 ig_bits_f32",
     "INLINE float ig_load_f16(uint16_t half) {\n"
     "    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;\n"
     "    const uint32_t special = rest >= 0x0f800000 ? 0x38000000 : 0; /* infinity and NaN */\n"
     "    const float normal = ig_of_bits_f32((int32_t)(rest + 0x38000000 + special));\n"
     "    const float subnormal = (float)(int32_t)rest * 0x1p-37f;\n"
     "    const float size = rest < 0x00800000 ? subnormal : normal;\n"
     "    return ig_of_bits_f32((int32_t)((uint32_t)ig_bits_f32(size) | sign));\n"
     "}\n"},
    {"ig_store_f16", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE uint16_t ig_store_f16(float a) {\n"
     "    const uint32_t bits = (uint32_t)ig_bits_f32(a), size = bits & 0x7fffffff;\n"
     "    const uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;\n"
     "    const uint32_t subnormal = (uint32_t)ig_bits_f32(ig_of_bits_f32((int32_t)size) + 0.5f) - 0x3f000000;\n"
     "    const uint32_t finite = size < 0x38800000 ? subnormal : normal;\n"
     "    const uint32_t bounded = size >= 0x47800000 ? 0x7c00 : finite;\n"
     "    return (uint16_t)((size > 0x7f800000 ? 0x7e00 : bounded) | (bits >> 16 & 0x8000));\n"
     "}\n"},
    {"ig_load_bf16", NULL, "ig_of_bits_f32",
     "INLINE float ig_load_bf16(uint16_t half) { return ig_of_bits_f32((int32_t)((uint32_t)half << 16)); }\n"},
    {"ig_store_bf16", NULL, "ig_bits_f32",
     "INLINE uint16_t ig_store_bf16(float a) {\n"
     "    const uint32_t bits = (uint32_t)ig_bits_f32(a);\n"
     "    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);\n"
     "    return (uint16_t)((a != a ? bits | 0x400000 : rounded) >> 16);\n"
     "}\n"},
    {"ig_round_f32_", "f16 bf16", "ig_load_$S ig_store_$S",
     "INLINE float ig_round_f32_$S(float a) { return ig_load_$S(ig_store_$S(a)); }\n"},
    /* Rounds to odd: a second rounding to fewer bits then gives what a single rounding would have given. */
    {"ig_odd_f64", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_odd_f64(double a) {\n"
     "    const float near = (float)a;\n"
     "    const int32_t inexact = (double)near != a && a == a;\n"
     "    const int32_t beyond = inexact & (__builtin_fabs((double)near) > __builtin_fabs(a));\n"
     "    return ig_of_bits_f32((ig_bits_f32(near) - beyond) | inexact);\n"
     "}\n"},
    {"ig_round_f64_", "f16 bf16", "ig_load_$S ig_store_$S ig_odd_f64",
     "INLINE float ig_round_f64_$S(double a) { return ig_load_$S(ig_store_$S(ig_odd_f64(a))); }\n"},
    /* Through int32, modulo 2^32; exact, since the remainder of a division by a power of two needs no more bits. */
    {"ig_truncate_f32_i32", NULL, NULL,
     "INLINE int32_t ig_truncate_f32_i32(float a) {\n"
     "    const float whole = __builtin_fabsf(a) < 0x1p63f ? __builtin_truncf(a) : 0.0f;\n"
     "    const float rest = whole - __builtin_rintf(whole * 0x1p-32f) * 0x1p32f;\n"
     "    return (int32_t)(rest >= 0x1p31f ? rest - 0x1p32f : rest);\n"
     "}\n"},
    {"ig_truncate_f64_i32", NULL, NULL,
     "INLINE int32_t ig_truncate_f64_i32(double a) {\n"
     "    const double whole = __builtin_fabs(a) < 0x1p63 ? __builtin_trunc(a) : 0.0;\n"
     "    const double rest = whole - __builtin_rint(whole * 0x1p-32) * 0x1p32;\n"
     "    return (int32_t)(rest >= 0x1p31 ? rest - 0x1p32 : rest);\n"
     "}\n"},
    {"ig_truncate_f32_", "i8 i16 u8 u16 u32", "ig_truncate_f32_i32",
     "INLINE $T ig_truncate_f32_$S(float a) { return ($T)ig_truncate_f32_i32(a); }\n"},
    {"ig_truncate_f64_", "i8 i16 u8 u16 u32", "ig_truncate_f64_i32",
     "INLINE $T ig_truncate_f64_$S(double a) { return ($T)ig_truncate_f64_i32(a); }\n"},
    {"ig_truncate_f64_i64", NULL, NULL,
     "INLINE int64_t ig_truncate_f64_i64(double a) {\n"
     "    const _Bool inside = a >= -0x1p63 && a < 0x1p63;\n"
     "    const int64_t whole = (int64_t)(inside ? a : 0.0);\n"
     "    return inside || a != a ? whole : -9223372036854775807 - 1;\n"
     "}\n"},
    {"ig_truncate_f32_i64", NULL, "ig_truncate_f64_i64",
     "INLINE int64_t ig_truncate_f32_i64(float a) { return ig_truncate_f64_i64((double)a); }\n"},
    {"ig_truncate_f64_u64", NULL, "ig_truncate_f64_i64",
     "INLINE uint64_t ig_truncate_f64_u64(double a) {\n"
     "    const _Bool high = a >= 0x1p63 && a < 0x1p64;\n"
     "    const uint64_t whole = (uint64_t)ig_truncate_f64_i64(high ? a - 0x1p63 : a);\n"
     "    return high ? whole + ((uint64_t)1 << 63) : whole;\n"
     "}\n"},
    {"ig_truncate_f32_u64", NULL, "ig_truncate_f64_u64",
     "INLINE uint64_t ig_truncate_f32_u64(float a) { return ig_truncate_f64_u64((double)a); }\n"},
    {"ig_saturate_f64_", "i8 i16 i32 u8 u16", NULL,
     "INLINE $T ig_saturate_f64_$S(double a) {\n"
     "    const double low = a > (double)$L ? a : (double)$L;\n"
     "    const double inside = low < (double)$H ? low : (double)$H;\n"
     "    return ($T)(int32_t)(a != a ? 0.0 : inside);\n"
     "}\n"},
    {"ig_saturate_f64_u32", NULL, NULL,
     "INLINE uint32_t ig_saturate_f64_u32(double a) {\n"
     "    const double low = a > 0.0 ? __builtin_trunc(a) : 0.0;\n"
     "    const double inside = low < 4294967295.0 ? low : 4294967295.0;\n"
     "    return (uint32_t)(int32_t)((a != a ? 0.0 : inside) - 0x1p31) ^ 0x80000000u;\n"
     "}\n"},
    {"ig_saturate_f64_", "i64", NULL,
     "INLINE int64_t ig_saturate_f64_$S(double a) {\n"
     "    const int64_t whole = (int64_t)(a >= -0x1p63 && a < 0x1p63 ? a : 0.0);\n"
     "    return a >= 0x1p63 ? $H : a < -0x1p63 ? $L : whole;\n"
     "}\n"},
    {"ig_saturate_f64_u64", NULL, "ig_truncate_f64_u64",
     "INLINE uint64_t ig_saturate_f64_u64(double a) {\n"
     "    const uint64_t whole = ig_truncate_f64_u64(a);\n"
     "    return a >= 0x1p64 ? ~(uint64_t)0 : a > 0.0 ? whole : 0;\n"
     "}\n"},
    {"ig_saturate_f32_", "u8 u16", NULL, /* NaN is not greater than 0 */
     "INLINE $T ig_saturate_f32_$S(float a) {\n"
     "    const float low = a > 0.0f ? a : 0.0f;\n"
     "    return ($T)(int32_t)(low < (float)$H ? low : (float)$H);\n"
     "}\n"},
    {"ig_saturate_f32_", "i8 i16", NULL,
     "INLINE $T ig_saturate_f32_$S(float a) {\n"
     "    const float number = a == a ? a : 0.0f, low = number > (float)$L ? number : (float)$L;\n"
     "    return ($T)(int32_t)(low < (float)$H ? low : (float)$H);\n"
     "}\n"},
    {"ig_saturate_f32_", "i32 i64 u32 u64", "ig_saturate_f64_$S",
     "INLINE $T ig_saturate_f32_$S(float a) { return ig_saturate_f64_$S((double)a); }\n"},
    {"ig_saturate_i64_", "i8 i16 i32 i64 u8 u16 u32", NULL,
     "INLINE $T ig_saturate_i64_$S(int64_t a) {\n"
     "    return a < (int64_t)$L ? $L : a > (int64_t)$H ? $H : ($T)a;\n"
     "}\n"},
    {"ig_saturate_i64_u64", NULL, NULL,
     "INLINE uint64_t ig_saturate_i64_u64(int64_t a) { return a < 0 ? 0 : (uint64_t)a; }\n"},
    {"ig_saturate_u64_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "INLINE $T ig_saturate_u64_$S(uint64_t a) { return a > (uint64_t)$H ? $H : ($T)a; }\n"},
};
const size_t ig_code_functions_convert_count = sizeof ig_code_functions_convert / sizeof *ig_code_functions_convert;
