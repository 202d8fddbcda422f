/*
 * The prelude's exact operators: extrema, signs, rounding, integer division, powers and shifts, remainders, and the
 * order-preserving integer keys that vector loops use for the minimum and maximum of floats. Also the normal
 * distribution function, which both languages compute from a power of two (coefficients: tools/minimax.py).
 */
#include "codegen/prelude.h"

const struct ig_code_function ig_code_functions_basic[] = {
    {"ig_nothing", NULL, NULL,
     "/* Read, and not used, in place of inputs without elements. */\n"
     "static const uint64_t ig_nothing[8];\n"},
    {"ig_bits_", "f32 f64", NULL,
     "INLINE int$B_t ig_bits_$S($T a) {\n"
     "    union { $T f; int$B_t i; } both = {a};\n"
     "    return both.i;\n"
     "}\n"},
    {"ig_of_bits_", "f32 f64", NULL,
     "INLINE $T ig_of_bits_$S(int$B_t i) {\n"
     "    union { int$B_t i; $T f; } both = {i};\n"
     "    return both.f;\n"
     "}\n"},
    /* NaN if either operand is. Against a constant b (ReLU, Clip) one comparison and one select remain. */
    {"ig_min_", "f32 f64", NULL,
     "INLINE $T ig_min_$S($T a, $T b) {\n"
     "    const $T less = b < a ? b : a;\n"
     "    return b != b ? b : less;\n"
     "}\n"},
    {"ig_max_", "f32 f64", NULL,
     "INLINE $T ig_max_$S($T a, $T b) {\n"
     "    const $T more = b > a ? b : a;\n"
     "    return b != b ? b : more;\n"
     "}\n"},
    {"ig_min_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL, "INLINE $T ig_min_$S($T a, $T b) { return a < b ? a : b; }\n"},
    {"ig_max_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL, "INLINE $T ig_max_$S($T a, $T b) { return a > b ? a : b; }\n"},
    /* Integers in the order of the floats, with NaN above (max) or below (min) all others. */
    {"ig_key_max_", "f32 f64", "ig_bits_$S",
     "INLINE int$B_t ig_key_max_$S($T a) {\n"
     "    const int$B_t bits = ig_bits_$S(a);\n"
     "    const int$B_t key = bits ^ (int$B_t)((uint$B_t)(bits >> ($B - 1)) >> 1);\n"
     "    return a != a ? (int$B_t)(~(uint$B_t)0 >> 1) : key;\n"
     "}\n"},
    {"ig_key_min_", "f32 f64", "ig_bits_$S",
     "INLINE int$B_t ig_key_min_$S($T a) {\n"
     "    const int$B_t bits = ig_bits_$S(a);\n"
     "    const int$B_t key = bits ^ (int$B_t)((uint$B_t)(bits >> ($B - 1)) >> 1);\n"
     "    return a != a ? -(int$B_t)(~(uint$B_t)0 >> 1) - 1 : key;\n"
     "}\n"},
    {"ig_unkey_", "f32 f64", "ig_of_bits_$S",
     "INLINE $T ig_unkey_$S(int$B_t key) {\n"
     "    return ig_of_bits_$S(key ^ (int$B_t)((uint$B_t)(key >> ($B - 1)) >> 1));\n"
     "}\n"},
    /* a where the byte is not 0, else b. */
    {"ig_pick_", "f32", "ig_bits_$S ig_of_bits_$S",
     "INLINE $T ig_pick_$S(uint8_t byte, $T a, $T b) {\n"
     "    const int$B_t mask = -(int$B_t)(((uint$B_t)byte + 255) >> 8);\n"
     "    return ig_of_bits_$S((ig_bits_$S(a) & mask) | (ig_bits_$S(b) & ~mask));\n"
     "}\n"},
    {"ig_abs_", "f32 f64", NULL, "INLINE $T ig_abs_$S($T a) { return __builtin_fabs$F(a); }\n"},
    {"ig_abs_", "i8 i16 i32 i64", NULL, "INLINE $T ig_abs_$S($T a) { return a < 0 ? ($T)(0 - ($U)a) : a; }\n"},
    {"ig_abs_", "u8 u16 u32 u64", NULL, "INLINE $T ig_abs_$S($T a) { return a; }\n"},
    {"ig_neg_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL, "INLINE $T ig_neg_$S($T a) { return ($T)(0 - ($U)a); }\n"},
    {"ig_sign_", "f32 f64", NULL,
     "INLINE $T ig_sign_$S($T a) {\n"
     "    const $T sign = ($T)((a > 0) - (a < 0));\n"
     "    return a != a ? a : sign;\n"
     "}\n"},
    {"ig_sign_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "INLINE $T ig_sign_$S($T a) { return ($T)((a > 0) - (a < 0)); }\n"},
    {"ig_floor_", "f32 f64", NULL, "INLINE $T ig_floor_$S($T a) { return __builtin_floor$F(a); }\n"},
    {"ig_ceil_", "f32 f64", NULL, "INLINE $T ig_ceil_$S($T a) { return __builtin_ceil$F(a); }\n"},
    /* A product that is not contracted with a sum, given a zero of which compilers do not know. */
    {"ig_apart_", "f32 f64", "ig_bits_$S ig_of_bits_$S",
     "INLINE $T ig_apart_$S($T a, int32_t zero) { return ig_of_bits_$S(ig_bits_$S(a) ^ zero); }\n"},
    {"ig_round_", "f32 f64", NULL, "INLINE $T ig_round_$S($T a) { return __builtin_rint$F(a); }\n"},
    {"ig_sqrt_", "f32 f64", NULL, "INLINE $T ig_sqrt_$S($T a) { return __builtin_sqrt$F(a); }\n"},
    {"ig_isnan_", "f32 f64", NULL, "INLINE _Bool ig_isnan_$S($T a) { return a != a; }\n"},
    {"ig_isinf_", "f32 f64", NULL,
     "INLINE _Bool ig_isinf_$S($T a) { return __builtin_fabs$F(a) == __builtin_inf$F(); }\n"},
    {"ig_bitnot_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL, "INLINE $T ig_bitnot_$S($T a) { return ($T)~a; }\n"},
    /* Division by zero gives 0; the lowest number divided by -1 wraps. */
    {"ig_div_", "i8 i16 i32 i64", NULL,
     "INLINE $T ig_div_$S($T a, $T b) {\n"
     "    const $T by = b == 0 || b == -1 ? 1 : b;\n"
     "    const $T quotient = a / by;\n"
     "    const $T negative = ($T)(0 - ($U)a);\n"
     "    return b == 0 ? 0 : b == -1 ? negative : quotient;\n"
     "}\n"},
    {"ig_div_", "u8 u16 u32 u64", NULL,
     "INLINE $T ig_div_$S($T a, $T b) {\n"
     "    const $T quotient = a / (b == 0 ? 1 : b);\n"
     "    return b == 0 ? 0 : quotient;\n"
     "}\n"},
    {"ig_fmod_", "i8 i16 i32 i64", NULL,
     "INLINE $T ig_fmod_$S($T a, $T b) { return a % (b == 0 || b == -1 ? 1 : b); }\n"},
    {"ig_fmod_", "u8 u16 u32 u64", NULL, "INLINE $T ig_fmod_$S($T a, $T b) { return a % (b == 0 ? 1 : b); }\n"},
    {"ig_mod_", "i8 i16 i32 i64", "ig_fmod_$S",
     "INLINE $T ig_mod_$S($T a, $T b) {\n"
     "    const $T rest = ig_fmod_$S(a, b);\n"
     "    return ($T)(rest + (rest != 0 && (rest < 0) != (b < 0) ? b : 0));\n"
     "}\n"},
    {"ig_mod_", "u8 u16 u32 u64", NULL, "INLINE $T ig_mod_$S($T a, $T b) { return a % (b == 0 ? 1 : b); }\n"},
    {"ig_mod_f64", NULL, NULL,
     "INLINE double ig_mod_f64(double a, double b) { return a - b * __builtin_floor(a / b); }\n"},
    {"ig_mod_f32", NULL, "ig_mod_f64",
     "INLINE float ig_mod_f32(float a, float b) { return (float)ig_mod_f64((double)a, (double)b); }\n"},
    /* Exact for all operands: long division of the mantissas, 11 bits at a time. */
    {"ig_fmod_f64", NULL, "ig_bits_f64 ig_of_bits_f64",
     "static double ig_fmod_f64(double a, double b) {\n"
     "    uint64_t ua = (uint64_t)ig_bits_f64(a) << 1 >> 1, ub = (uint64_t)ig_bits_f64(b) << 1 >> 1;\n"
     "    if (!(__builtin_fabs(a) < __builtin_inf()) || b != b || ub == 0) return __builtin_nan(\"\");\n"
     "    if (ua < ub) return a;\n"
     "    int64_t ea = (int64_t)(ua >> 52), eb = (int64_t)(ub >> 52);\n"
     "    ua = (ua & 0xfffffffffffff) | (ea ? (uint64_t)1 << 52 : 0);\n"
     "    ub = (ub & 0xfffffffffffff) | (eb ? (uint64_t)1 << 52 : 0);\n"
     "    ea += ea == 0;\n"
     "    eb += eb == 0;\n"
     "    ua %= ub;\n"
     "    while (ea > eb) {\n"
     "        const int64_t shift = ea - eb < 11 ? ea - eb : 11;\n"
     "        ua = (ua << shift) % ub;\n"
     "        ea -= shift;\n"
     "    }\n"
     "    /* ua * 2^(eb - 1075): exact in two steps. */\n"
     "    const int64_t half = (eb - 1075) / 2;\n"
     "    const double size = (double)ua * ig_of_bits_f64((half + 1023) << 52) * ig_of_bits_f64((eb - 1075 - half + "
     "1023) << 52);\n"
     "    return __builtin_copysign(size, a);\n"
     "}\n"},
    {"ig_fmod_f32", NULL, "ig_fmod_f64",
     "static float ig_fmod_f32(float a, float b) { return (float)ig_fmod_f64((double)a, (double)b); }\n"},
    /* The smaller tail is 2^p(|a|). p falls everywhere, so that no argument needs a bound, and is fitted for GELU: the */
    /* largest absolute errors are 1.2e-7 on CPUs and 1.5e-7 on GPUs, no more than those of 0.5 + 0.5 erf, and the */
    /* relative error is 5e-4 down to -5, where 0.5 + 0.5 erf has lost all digits. */
    {"ig_normcdf_f32", NULL, "ig_exp2_f32",
     "INLINE float ig_normcdf_f32(float a) {\n"
     "    const float size = __builtin_fabsf(a);\n"
     "    float p = -1.79401922e-06f;\n"
     "    p = p * size + 2.75869033e-05f;\n"
     "    p = p * size - 0.000133569152f;\n"
     "    p = p * size - 0.000255164319f;\n"
     "    p = p * size + 0.00720522812f;\n"
     "    p = p * size - 0.0525845256f;\n"
     "    p = p * size - 0.459182825f;\n"
     "    p = p * size - 1.15110761f;\n"
     "    p = p * size - 1.0f;\n"
     "    const float tail = ig_exp2_f32(p);\n"
     "    return a < 0.0f ? tail : 1.0f - tail;\n"
     "}\n"},
    /* By squaring; wraps. A negative power, 1/a^-b, truncates to 0 unless a is 1 or -1. */
    {"ig_pow_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "static $T ig_pow_$S($T a, $T b) {\n"
     "    uint64_t power = 1, base = (uint64_t)a;\n"
     "    if (b < 0) return a == 1 ? 1 : ($T)(a + 1) == 0 ? ($T)(b & 1 ? -1 : 1) : 0;\n"
     "    for (uint64_t rest = (uint64_t)b; rest; rest >>= 1, base *= base) {\n"
     "        if (rest & 1) power *= base;\n"
     "    }\n"
     "    return ($T)power;\n"
     "}\n"},
    /* Shifts by the width or more, or by a negative count, give 0. */
    {"ig_shl_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "INLINE $T ig_shl_$S($T a, $T b) { return b < 0 || b >= $B ? 0 : ($T)((uint64_t)a << (b & ($B - 1))); }\n"},
    {"ig_shr_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "INLINE $T ig_shr_$S($T a, $T b) { return b < 0 || b >= $B ? 0 : ($T)(a >> (b & ($B - 1))); }\n"},
};
const size_t ig_code_functions_basic_count = sizeof ig_code_functions_basic / sizeof *ig_code_functions_basic;
