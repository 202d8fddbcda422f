/*
 * The prelude's transcendental functions of float32: errors of one to three units in the last place, all special
 * values, denormal results included. The common ones are computed in float32; the others go through float64, where a
 * polynomial that is good enough for double leaves half a unit. Coefficients: tools/minimax.py.
 */
#include "codegen/c/tables.h"

const struct ig_code_function ig_c_functions_f32[] = {
    /* e^a = 2^k e^r with |r| <= ln(2)/2; 2^k in two factors, so that results may be denormal. Where the result is 0, as for
     * all that a mask hides, a factor is 0: to round a product to 0 takes processors a hundred cycles. */
    {"ig_exp_f32", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_exp_f32(float a) {\n"
     "    const float low = a < -104.0f ? -104.0f : a;\n"
     "    const float x = low > 89.0f ? 89.0f : low;\n"
     "    const float shifted = x * 0x1.715476p+0f + 0x1.8p23f;\n"
     "    const float turns = shifted - 0x1.8p23f;\n"
     "    const float r = (x - turns * 0x1.62e4p-1f) - turns * 0x1.7f7d1cp-20f;\n"
     "    float p = 0.00138146058f;\n"
     "    p = p * r + 0.00836870912f;\n"
     "    p = p * r + 0.041668389f;\n"
     "    p = p * r + 0.166665211f;\n"
     "    p = p * r + 0.49999994f;\n"
     "    const int32_t k = ig_bits_f32(shifted) - 0x4b400000, half = k >> 1;\n"
     "    const float first = ig_of_bits_f32((half + 127) << 23);\n"
     "    const float second = a < -104.0f ? 0.0f : ig_of_bits_f32((k - half + 127) << 23);\n"
     "    return (1.0f + (r + r * r * p)) * first * second;\n"
     "}\n"},
    /* log a = k log 2 + log(1 + f) with 1 + f between sqrt(1/2) and sqrt(2). */
    {"ig_log_f32", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_log_f32(float a) {\n"
     "    const _Bool tiny = a < 0x1p-126f;\n"
     "    const int32_t bits = ig_bits_f32(tiny ? a * 0x1p23f : a);\n"
     "    const int32_t k = (bits - 0x3f3504f3) >> 23;\n"
     "    const float f = ig_of_bits_f32(bits - k * 0x800000) - 1.0f;\n"
     "    const float turns = (float)k - (tiny ? 23.0f : 0.0f);\n"
     "    float p = 0.0691616237f;\n"
     "    p = p * f - 0.117889635f;\n"
     "    p = p * f + 0.118721232f;\n"
     "    p = p * f - 0.12384446f;\n"
     "    p = p * f + 0.142187983f;\n"
     "    p = p * f - 0.166692495f;\n"
     "    p = p * f + 0.200022191f;\n"
     "    p = p * f - 0.249999866f;\n"
     "    p = p * f + 0.333333105f;\n"
     "    const float tail = f * f * (f * p - 0.5f) + turns * 0x1.7f7d1cp-20f;\n"
     "    const float sum = turns * 0x1.62e4p-1f + (f + tail);\n"
     "    const float positive = a == __builtin_inff() ? a : sum;\n"
     "    const float any = a < 0.0f ? __builtin_nanf(\"\") : positive;\n"
     "    return a == 0.0f ? -__builtin_inff() : a != a ? a : any;\n"
     "}\n"},
    /* unit / (unit + unit e^-a), with a unit so small that the sum stays in range where a result is denormal. */
    {"ig_sigmoid_f32", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_sigmoid_f32(float a) {\n"
     "    const float high = a > 88.0f ? 88.0f : a;\n"
     "    const float x = high < -104.0f ? -104.0f : high;\n"
     "    const float shifted = x * -0x1.715476p+0f + 0x1.8p23f;\n"
     "    const float turns = shifted - 0x1.8p23f;\n"
     "    const float r = -(x + turns * 0x1.62e4p-1f) - turns * 0x1.7f7d1cp-20f;\n"
     "    float p = 0.00138146058f;\n"
     "    p = p * r + 0.00836870912f;\n"
     "    p = p * r + 0.041668389f;\n"
     "    p = p * r + 0.166665211f;\n"
     "    p = p * r + 0.49999994f;\n"
     "    const float unit = x < -64.0f ? 0x1p-64f : 1.0f;\n"
     "    const float scale = ig_of_bits_f32((int32_t)((uint32_t)ig_bits_f32(shifted) << 23) + ig_bits_f32(unit));\n"
     "    return unit / (unit + (1.0f + (r + r * r * p)) * scale);\n"
     "}\n"},
    /* tanh a = t / (t + 2) with t = e^(2a) - 1, which keeps all digits of small arguments. */
    {"ig_tanh_f32", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_tanh_f32(float a) {\n"
     "    const float size = __builtin_fabsf(a);\n"
     "    const float x = 2.0f * (size > 10.0f ? 10.0f : size);\n"
     "    const float shifted = x * 0x1.715476p+0f + 0x1.8p23f;\n"
     "    const float turns = shifted - 0x1.8p23f;\n"
     "    const float r = (x - turns * 0x1.62e4p-1f) - turns * 0x1.7f7d1cp-20f;\n"
     "    float p = 0.00138146058f;\n"
     "    p = p * r + 0.00836870912f;\n"
     "    p = p * r + 0.041668389f;\n"
     "    p = p * r + 0.166665211f;\n"
     "    p = p * r + 0.49999994f;\n"
     "    const float scale = ig_of_bits_f32((ig_bits_f32(shifted) - 0x4b400000 + 127) << 23);\n"
     "    const float t = scale * (r + r * r * p) + (scale - 1.0f);\n"
     "    return __builtin_copysignf(t / (t + 2.0f), a);\n"
     "}\n"},
    /* A polynomial in a^2 below 1, 1 - e^(a p(a)) above. */
    {"ig_erf_f32", NULL, "ig_exp_f32",
     "INLINE float ig_erf_f32(float a) {\n"
     "    const float size = __builtin_fabsf(a), z = a * a;\n"
     "    float small = 7.88916514e-05f;\n"
     "    small = small * z - 0.000802085444f;\n"
     "    small = small * z + 0.00518953661f;\n"
     "    small = small * z - 0.0268544443f;\n"
     "    small = small * z + 0.112836003f;\n"
     "    small = small * z - 0.37612626f;\n"
     "    small = small * z + 1.12837911f;\n"
     "    const float x = size > 4.0f ? 4.0f : size;\n"
     "    float large = -1.41372311e-05f;\n"
     "    large = large * x + 0.000352359726f;\n"
     "    large = large * x - 0.00376474741f;\n"
     "    large = large * x + 0.0240256451f;\n"
     "    large = large * x - 0.106549211f;\n"
     "    large = large * x - 0.634958267f;\n"
     "    large = large * x - 1.12869716f;\n"
     "    const float far = __builtin_copysignf(1.0f - ig_exp_f32(x * large), a);\n"
     "    return size < 1.0f ? a * small : far;\n"
     "}\n"},
    /* For a up to 127, with an error of a unit and a half; results below 2^-126 become 0. */
    {"ig_exp2_f32", NULL, "ig_bits_f32 ig_of_bits_f32",
     "INLINE float ig_exp2_f32(float a) {\n"
     "    const float x = a < -127.0f ? -127.0f : a;\n"
     "    const float shifted = x + 0x1.8p23f;\n"
     "    const float r = x - (shifted - 0x1.8p23f);\n"
     "    float p = 0.00132647249f;\n"
     "    p = p * r + 0.00967151092f;\n"
     "    p = p * r + 0.0555073375f;\n"
     "    p = p * r + 0.240222421f;\n"
     "    p = p * r + 0.693146978f;\n"
     "    p = p * r + 1.0f;\n"
     "    return p * ig_of_bits_f32((int32_t)(((uint32_t)ig_bits_f32(shifted) << 23) + 0x3f800000u));\n"
     "}\n"},
    {"ig_log1p_f32", NULL, "ig_log1p_f64",
     "INLINE float ig_log1p_f32(float a) { return (float)ig_log1p_f64((double)a); }\n"},
    {"ig_asin_f32", NULL, "ig_asin_f64",
     "INLINE float ig_asin_f32(float a) { return (float)ig_asin_f64((double)a); }\n"},
    {"ig_acos_f32", NULL, "ig_acos_f64",
     "INLINE float ig_acos_f32(float a) { return (float)ig_acos_f64((double)a); }\n"},
    {"ig_atan_f32", NULL, "ig_atan_f64",
     "INLINE float ig_atan_f32(float a) { return (float)ig_atan_f64((double)a); }\n"},
    {"ig_sinh_f32", NULL, "ig_sinh_f64",
     "INLINE float ig_sinh_f32(float a) { return (float)ig_sinh_f64((double)a); }\n"},
    {"ig_cosh_f32", NULL, "ig_cosh_f64",
     "INLINE float ig_cosh_f32(float a) { return (float)ig_cosh_f64((double)a); }\n"},
    {"ig_asinh_f32", NULL, "ig_asinh_f64",
     "INLINE float ig_asinh_f32(float a) { return (float)ig_asinh_f64((double)a); }\n"},
    {"ig_acosh_f32", NULL, "ig_acosh_f64",
     "INLINE float ig_acosh_f32(float a) { return (float)ig_acosh_f64((double)a); }\n"},
    {"ig_atanh_f32", NULL, "ig_atanh_f64",
     "INLINE float ig_atanh_f32(float a) { return (float)ig_atanh_f64((double)a); }\n"},
    {"ig_pow_f32", NULL, "ig_pow_f64",
     "INLINE float ig_pow_f32(float a, float b) { return (float)ig_pow_f64((double)a, (double)b); }\n"},
    /* See codegen/cuda/prelude.c. */
    {"ig_average", NULL, NULL,
     "INLINE float ig_average(float sum, float count, float inverse) {\n"
     "    const float q = sum * inverse, rest = __builtin_fmaf(-count, q, sum);\n"
     "    const float corrected = __builtin_fmaf(rest, inverse, q);\n"
     "    return corrected == corrected ? corrected : q;\n"
     "}\n"},
};
const size_t ig_c_functions_f32_count = sizeof ig_c_functions_f32 / sizeof *ig_c_functions_f32;
