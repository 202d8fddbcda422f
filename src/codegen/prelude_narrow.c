/*
 * The prelude's conversions of narrow types (base/narrow.h has their definition). Elements are codes in bytes, of which bits
 * beyond the type's are ignored. Floats round to nearest even; the largest code, and what is beyond it, differ by type.
 */
#include "codegen/prelude.h"

/*
 * Widens a magnitude: `special` is the least code that is no number. `shift` is 23 less the bits of the mantissa, `offset` the
 * difference of the exponents' biases, in place, and `unit` the smallest number.
 */
static const char widened_text[] =
    "INLINE float ig_narrow_size(const uint32_t size, const int32_t shift, const uint32_t offset, const float unit) {\n"
    "    const float normal = ig_of_bits_f32((int32_t)((size << shift) + offset));\n"
    "    const float subnormal = (float)(int32_t)size * unit;\n"
    "    return size << shift < 0x00800000 ? subnormal : normal;\n"
    "}\n";

/*
 * Rounds a finite magnitude, given by its bits, to a code, which may be beyond the largest. Adding `magic`, whose last bit is
 * worth the smallest number, rounds what is below the normal numbers.
 */
static const char rounded_text[] =
    "INLINE uint32_t ig_narrow_code(const uint32_t size, const int32_t shift, const uint32_t offset, const float "
    "magic) {\n"
    "    const uint32_t normal = (size - offset + ((1u << (shift - 1)) - 1) + (size >> shift & 1)) >> shift;\n"
    "    const float sum = ig_of_bits_f32((int32_t)size) + magic;\n"
    "    const uint32_t subnormal = (uint32_t)ig_bits_f32(sum) - (uint32_t)ig_bits_f32(magic);\n"
    "    return size < offset + 0x00800000 ? subnormal : normal;\n"
    "}\n";

/* A float with infinities or NaN in its highest codes. */
#define WIDEN(name, shift, offset, unit, largest, special)                                                        \
    {                                                                                                             \
        "ig_widen_" name, NULL, "ig_narrow_size",                                                                 \
            "INLINE float ig_widen_" name "(uint8_t a) {\n"                                                       \
            "    const uint32_t size = a & 0x7f;\n"                                                               \
            "    const float finite = ig_narrow_size(size, " shift ", " offset ", " unit ");\n"                   \
            "    const float number = size > " largest " ? " special " : finite;\n"                               \
            "    return ig_of_bits_f32((int32_t)((uint32_t)ig_bits_f32(number) | (uint32_t)(a & 0x80) << 24));\n" \
            "}\n"                                                                                                 \
    }
/* A float whose only NaN has the code of -0. */
#define WIDEN_UNSIGNED_ZERO(name, shift, offset, unit)                                              \
    {                                                                                               \
        "ig_widen_" name, NULL, "ig_narrow_size",                                                   \
            "INLINE float ig_widen_" name "(uint8_t a) {\n"                                         \
            "    const float size = ig_narrow_size(a & 0x7f, " shift ", " offset ", " unit ");\n"   \
            "    const uint32_t bits = (uint32_t)ig_bits_f32(size) | (uint32_t)(a & 0x80) << 24;\n" \
            "    return ig_of_bits_f32((int32_t)(a == 0x80 ? 0x7fc00000 : bits));\n"                \
            "}\n"                                                                                   \
    }
/* kind: "narrow" or "saturate"; beyond: what is larger than the largest code. */
#define NARROW(kind, name, shift, offset, magic, largest, beyond, nan)                             \
    {                                                                                              \
        "ig_" kind "_f32_" name, NULL, "ig_narrow_code",                                           \
            "INLINE uint8_t ig_" kind "_f32_" name "(float a) {\n"                                 \
            "    const uint32_t bits = (uint32_t)ig_bits_f32(a), size = bits & 0x7fffffff;\n"      \
            "    const uint32_t code = ig_narrow_code(size, " shift ", " offset ", " magic ");\n"  \
            "    const uint32_t bounded = code > " largest " ? " beyond " : code;\n"               \
            "    return (uint8_t)(size > 0x7f800000 ? " nan " : bounded | (bits >> 24 & 0x80));\n" \
            "}\n"                                                                                  \
    }
#define NARROW_UNSIGNED_ZERO(kind, name, shift, offset, magic, beyond)                            \
    {                                                                                             \
        "ig_" kind "_f32_" name, NULL, "ig_narrow_code",                                          \
            "INLINE uint8_t ig_" kind "_f32_" name "(float a) {\n"                                \
            "    const uint32_t bits = (uint32_t)ig_bits_f32(a), size = bits & 0x7fffffff;\n"     \
            "    const uint32_t code = ig_narrow_code(size, " shift ", " offset ", " magic ");\n" \
            "    const uint32_t bounded = code > 0x7f ? " beyond " : code;\n"                     \
            "    const uint32_t number = bounded == 0 ? 0 : bounded | (bits >> 24 & 0x80);\n"     \
            "    return (uint8_t)(size > 0x7f800000 ? 0x80 : number);\n"                          \
            "}\n"                                                                                 \
    }
#define NARROW_F64(kind)                                                                                     \
    {                                                                                                        \
        "ig_" kind "_f64_", "f8e4m3fn f8e5m2 f8e4m3fnuz f8e5m2fnuz f4e2m1", "ig_" kind "_f32_$S ig_odd_f64", \
            "INLINE uint8_t ig_" kind "_f64_$S(double a) { return ig_" kind "_f32_$S(ig_odd_f64(a)); }\n"    \
    }

#define NAN_TEXT "ig_of_bits_f32(0x7fc00000)"
#define INFINITY_TEXT "ig_of_bits_f32(0x7f800000)"
#define E4M3FN "f8e4m3fn", "20", "0x3c000000"
#define E5M2 "f8e5m2", "21", "0x38000000"
#define E4M3FNUZ "f8e4m3fnuz", "20", "0x3b800000"
#define E5M2FNUZ "f8e5m2fnuz", "21", "0x37800000"
#define APPLY(macro, ...) macro(__VA_ARGS__)

const struct ig_code_function ig_code_functions_narrow[] = {
    {"ig_narrow_size", NULL, "ig_of_bits_f32 ig_bits_f32", widened_text},
    {"ig_narrow_code", NULL, "ig_of_bits_f32 ig_bits_f32", rounded_text},
    APPLY(WIDEN, E4M3FN, "0x1p-9f", "0x7e", NAN_TEXT),
    APPLY(WIDEN, E5M2, "0x1p-16f", "0x7b", "size == 0x7c ? " INFINITY_TEXT " : " NAN_TEXT),
    APPLY(WIDEN_UNSIGNED_ZERO, E4M3FNUZ, "0x1p-10f"),
    APPLY(WIDEN_UNSIGNED_ZERO, E5M2FNUZ, "0x1p-17f"),
    APPLY(NARROW, "narrow", E4M3FN, "0x1p14f", "0x7e", "0x7f", "0x7f"),
    APPLY(NARROW, "saturate", E4M3FN, "0x1p14f", "0x7e", "0x7e", "0x7f"),
    APPLY(NARROW, "narrow", E5M2, "0x1p7f", "0x7b", "0x7c", "0x7e"),
    APPLY(NARROW, "saturate", E5M2, "0x1p7f", "0x7b", "0x7b", "0x7e"),
    APPLY(NARROW_UNSIGNED_ZERO, "narrow", E4M3FNUZ, "0x1p13f", "0x80"),
    APPLY(NARROW_UNSIGNED_ZERO, "saturate", E4M3FNUZ, "0x1p13f", "0x7f"),
    APPLY(NARROW_UNSIGNED_ZERO, "narrow", E5M2FNUZ, "0x1p6f", "0x80"),
    APPLY(NARROW_UNSIGNED_ZERO, "saturate", E5M2FNUZ, "0x1p6f", "0x7f"),
    {"ig_widen_f4e2m1", NULL, "ig_narrow_size",
     "INLINE float ig_widen_f4e2m1(uint8_t a) {\n"
     "    const float size = ig_narrow_size(a & 7, 22, 0x3f000000, 0.5f);\n"
     "    return ig_of_bits_f32((int32_t)((uint32_t)ig_bits_f32(size) | (uint32_t)(a & 8) << 28));\n"
     "}\n"},
    {"ig_saturate_f32_f4e2m1", NULL, "ig_narrow_code",
     "INLINE uint8_t ig_saturate_f32_f4e2m1(float a) {\n"
     "    const uint32_t bits = (uint32_t)ig_bits_f32(a), size = bits & 0x7fffffff;\n"
     "    const uint32_t code = ig_narrow_code(size, 22, 0x3f000000, 0x1p22f);\n"
     "    const uint32_t bounded = (code > 7 ? 7 : code) | (bits >> 28 & 8);\n"
     "    return (uint8_t)(size > 0x7f800000 ? 8 : bounded);\n"
     "}\n"},
    {"ig_narrow_f32_f4e2m1", NULL, "ig_saturate_f32_f4e2m1",
     "INLINE uint8_t ig_narrow_f32_f4e2m1(float a) { return ig_saturate_f32_f4e2m1(a); }\n"},
    {"ig_widen_f8e8m0", NULL, "ig_of_bits_f32",
     "INLINE float ig_widen_f8e8m0(uint8_t a) {\n"
     "    const uint32_t bits = a == 0 ? 0x00400000 : (uint32_t)a << 23;\n"
     "    return ig_of_bits_f32((int32_t)(a == 0xff ? 0x7fc00000 : bits));\n"
     "}\n"},
    {"ig_narrow_f32_f8e8m0", NULL, "ig_bits_f32",
     "INLINE uint8_t ig_narrow_f32_f8e8m0(float a) {\n"
     "    const uint32_t size = (uint32_t)ig_bits_f32(a) & 0x7fffffff;\n"
     "    return (uint8_t)(size < 0x00400000 ? 0xff : size >> 23);\n"
     "}\n"},
    {"ig_saturate_f32_f8e8m0", NULL, "ig_bits_f32",
     "INLINE uint8_t ig_saturate_f32_f8e8m0(float a) {\n"
     "    const uint32_t size = (uint32_t)ig_bits_f32(a) & 0x7fffffff;\n"
     "    return (uint8_t)(size == 0x7f800000 ? 0xfe : size >> 23);\n"
     "}\n"},
    NARROW_F64("narrow"),
    NARROW_F64("saturate"),
    {"ig_widen_i4", NULL, NULL, "INLINE int8_t ig_widen_i4(int8_t a) { return (int8_t)(((a & 15) ^ 8) - 8); }\n"},
    {"ig_widen_i2", NULL, NULL, "INLINE int8_t ig_widen_i2(int8_t a) { return (int8_t)(((a & 3) ^ 2) - 2); }\n"},
    {"ig_widen_u4", NULL, NULL, "INLINE uint8_t ig_widen_u4(uint8_t a) { return (uint8_t)(a & 15); }\n"},
    {"ig_widen_u2", NULL, NULL, "INLINE uint8_t ig_widen_u2(uint8_t a) { return (uint8_t)(a & 3); }\n"},
    {"ig_narrow_i8_", "i4 i2", "ig_widen_$S", "INLINE int8_t ig_narrow_i8_$S(int8_t a) { return ig_widen_$S(a); }\n"},
    {"ig_narrow_u8_", "u4 u2", "ig_widen_$S", "INLINE uint8_t ig_narrow_u8_$S(uint8_t a) { return ig_widen_$S(a); }\n"},
};
const size_t ig_code_functions_narrow_count = sizeof ig_code_functions_narrow / sizeof *ig_code_functions_narrow;
