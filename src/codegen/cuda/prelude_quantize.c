/* The prelude's functions for bytes as C++ templates: quantisation without conversions and divisions (quantize.c), extrema. */
#include "codegen/cuda/printer.h"

/* Stores floats as bytes, four by four. */
#define PUT(name, parameters, four, needs, more, copy, last)                                                       \
    {                                                                                                              \
        "ig_put_" name, NULL, "ig_copy_" copy "4 ig_copy_" copy "8 ig_copy_" copy "16 " needs,                     \
            "template <int COUNT" parameters "> INLINE void ig_put_" name "(void *to, const float *a" more ") {\n" \
            "    __align__(16) uint32_t words[COUNT / 4];\n"                                                       \
            "#pragma unroll\n"                                                                                     \
            "    for (int i = 0; i < COUNT / 4; i++)\n"                                                            \
            "        words[i] = " four "(a + 4 * i);\n"                                                            \
            "    if (COUNT == 4) ig_copy_" copy "4(to, words" last ");\n"                                          \
            "    if (COUNT == 8) ig_copy_" copy "8(to, words" last ");\n"                                          \
            "    if (COUNT == 16) ig_copy_" copy "16(to, words" last ");\n"                                        \
            "}\n"                                                                                                  \
    }
#define PUT_BOTH(name, parameters, four, needs)     \
    PUT(name, parameters, four, needs, "", "", ""), \
        PUT("if_" name, parameters, four, needs, ", bool inside", "if_", ", inside")

/* x / by, given RN(1 / by): the first product, corrected; zeros keep their signs. What is huge is bounded. */
#define QUOTIENT(name, first)                                                                 \
    {                                                                                         \
        name, NULL, "ig_corrected ig_min_f32",                                                \
            "INLINE float " name "(float x, float by, float inverse) {\n"                     \
            "    const float size = ig_min_f32(fabsf(x), 0x1p100f * (by < 1 ? by : 1.0f));\n" \
            "    const float q = size * inverse;\n"                                           \
            "    return copysignf(ig_corrected(" first ", size, by, inverse), x);\n"          \
            "}\n"                                                                             \
    }

/* Bytes at multiples of 4, in halves of words: of the odd ones, and of the even ones in their place. The other byte of a half decides
 * nothing, as it counts for less. */
#define EXTREME(type, name, sign)                                                                        \
    {                                                                                                    \
        "ig_four_" name "_" type, NULL, NULL,                                                            \
            "template <int COUNT> INLINE void ig_four_" name "_" type "(void *to, const void *from) {\n" \
            "#pragma unroll\n"                                                                           \
            "    for (int i = 0; i < COUNT / 4; i++) {\n"                                                \
            "        const uint32_t a = ((const uint32_t *)to)[i], b = ((const uint32_t *)from)[i];\n"   \
            "        const uint32_t even = __v" name sign "2(a << 8, b << 8);\n"                         \
            "        ((uint32_t *)to)[i] = __byte_perm(even, __v" name sign "2(a, b), 0x7351);\n"        \
            "    }\n"                                                                                    \
            "}\n"                                                                                        \
    }

const struct ig_code_function ig_cuda_functions_quantize[] = {
    {"ig_between", NULL, NULL,
     "/* Between whole numbers, rounded, plus another. NaN becomes the lower bound. */\n"
     "template <int LOW, int HIGH, int MORE> INLINE float ig_between(float a) {\n"
     "    const float inside = fminf(fmaxf(a, (float)LOW), (float)HIGH);\n"
     "    return inside + 12582912.0f - (12582912.0f - MORE);\n"
     "}\n"},
    {"ig_byte", NULL, NULL,
     "/* The same in the lowest byte. */\n"
     "template <int LOW, int HIGH, int MORE> INLINE uint32_t ig_byte(float a) {\n"
     "    if (LOW == 0 && HIGH == 255 && MORE == 0) {\n"
     "        int32_t byte;\n"
     "        asm(\"cvt.rni.u8.f32 %0, %1;\" : \"=r\"(byte) : \"f\"(a));\n"
     "        return (uint32_t)byte;\n"
     "    }\n"
     "    const float inside = fminf(fmaxf(a, (float)LOW), (float)HIGH);\n"
     "    return (uint32_t)(__float_as_int(inside + 12582912.0f) + MORE);\n"
     "}\n"},
    {"ig_four_bytes", NULL, "ig_byte",
     "template <int LOW, int HIGH, int MORE> INLINE uint32_t ig_four_bytes(const float *a) {\n"
     "    const uint32_t low = __byte_perm(ig_byte<LOW, HIGH, MORE>(a[0]), ig_byte<LOW, HIGH, MORE>(a[1]), 0x40);\n"
     "    const uint32_t high = __byte_perm(ig_byte<LOW, HIGH, MORE>(a[2]), ig_byte<LOW, HIGH, MORE>(a[3]), 0x40);\n"
     "    return __byte_perm(low, high, 0x5410);\n"
     "}\n"},
    PUT_BOTH("bytes", ", int LOW, int HIGH, int MORE", "ig_four_bytes<LOW, HIGH, MORE>", "ig_four_bytes"),
    {"ig_four_f8e4m3fn", NULL, "ig_saturate_f32_f8e4m3fn",
     "/* NaN loses its sign. */\n"
     "INLINE uint32_t ig_four_f8e4m3fn(const float *a) {\n"
     "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890\n"
     "    uint16_t low, high;\n"
     "    asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(low) : \"f\"(a[1]), \"f\"(a[0]));\n"
     "    asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(high) : \"f\"(a[3]), \"f\"(a[2]));\n"
     "    const uint32_t all = (uint32_t)high << 16 | low;\n"
     "    return all & ~(((all & 0x7f7f7f7f) + 0x01010101) & 0x80808080);\n"
     "#else\n"
     "    uint32_t all = 0;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < 4; i++)\n"
     "        all |= (uint32_t)ig_saturate_f32_f8e4m3fn(a[i]) << 8 * i;\n"
     "    return all;\n"
     "#endif\n"
     "}\n"},
    PUT_BOTH("f8e4m3fn", "", "ig_four_f8e4m3fn", "ig_four_f8e4m3fn"),
    {"ig_number_u8", NULL, NULL,
     "/* An element of an array at a multiple of 4 bytes: as the lowest bits of 2^23. */\n"
     "INLINE float ig_number_u8(const uint8_t *from, int i) {\n"
     "    const uint32_t word = ((const uint32_t *)from)[i / 4];\n"
     "    return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i % 4)) - 8388608.0f;\n"
     "}\n"},
    {"ig_number_i8", NULL, NULL,
     "INLINE float ig_number_i8(const int8_t *from, int i) {\n"
     "    const uint32_t word = ((const uint32_t *)from)[i / 4] ^ 0x80808080;\n"
     "    return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i % 4)) - 8388736.0f;\n"
     "}\n"},
    EXTREME("i8", "max", "s"),
    EXTREME("i8", "min", "s"),
    EXTREME("u8", "max", "u"),
    EXTREME("u8", "min", "u"),
    {"ig_corrected", NULL, NULL,
     "INLINE float ig_corrected(float q, float x, float by, float inverse) {\n"
     "    return __fmaf_rn(__fmaf_rn(-by, q, x), inverse, q);\n"
     "}\n"},
    QUOTIENT("ig_quotient", "q"),
    QUOTIENT("ig_quotient_twice", "ig_corrected(q, size, by, inverse)"),
};
const size_t ig_cuda_functions_quantize_count = sizeof ig_cuda_functions_quantize / sizeof *ig_cuda_functions_quantize;
