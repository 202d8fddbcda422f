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

/* Four whole numbers as saturated bytes. */
#define PACK(type, instruction_type)                                          \
    "INLINE uint32_t ig_pack_" type "(const int32_t *a) {\n"                  \
    "    uint32_t high, all;\n"                                               \
    "    asm(\"cvt.pack.sat." instruction_type ".s32.b32 %0, %1, %2, %3;\"\n" \
    "        : \"=r\"(high) : \"r\"(a[3]), \"r\"(a[2]), \"r\"(0));\n"         \
    "    asm(\"cvt.pack.sat." instruction_type ".s32.b32 %0, %1, %2, %3;\"\n" \
    "        : \"=r\"(all) : \"r\"(a[1]), \"r\"(a[0]), \"r\"(high));\n"       \
    "    return all;\n"                                                       \
    "}\n"

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

/* An element of an array at a multiple of 4 bytes. The even ones are taken out by the slow units that convert bytes, the odd ones by
 * those that permute them, so that neither is waited for. (__byte_perm does not extend signs.) */
#define NUMBER(type, c_type, sign, chosen)                                                                             \
    {                                                                                                                  \
        "ig_number_" type, NULL, NULL,                                                                                 \
            "INLINE float ig_number_" type "(const " c_type " *from, int i) {\n"                                       \
            "    const uint32_t word = ((const uint32_t *)from)[i / 4];\n"                                             \
            "    const int at = i % 4;\n"                                                                              \
            "    int32_t byte;\n"                                                                                      \
            "    if (at % 2)\n"                                                                                        \
            "        asm(\"prmt.b32 %0, %1, %2, %3;\" : \"=r\"(byte) : \"r\"(word), \"r\"(0), \"r\"(" chosen "));\n"   \
            "    else\n"                                                                                               \
            "        asm(\"bfe." sign "32 %0, %1, %2, %3;\" : \"=r\"(byte) : \"r\"(word), \"r\"(8 * at), \"r\"(8));\n" \
            "    return (float)byte;\n"                                                                                \
            "}\n"                                                                                                      \
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
    {"ig_whole", NULL, NULL,
     "/* A number, rounded, plus MORE; NaN and what is negative then become 0. A product with the least f32 is rounded "
     "to a\n"
     " * multiple of it: to a whole number, as bits. It is rounded behind a sum, which must be even for ties. */\n"
     "template <int MORE> INLINE int32_t ig_whole(float a) {\n"
     "    constexpr float least = 0x1p-149f;\n"
     "    float whole;\n"
     "    if (MORE % 2 == 0) {\n"
     "        asm(\"fma.rn.sat.f32 %0, %1, %2, %3;\" : \"=f\"(whole) : \"f\"(a), \"f\"(least), \"f\"(MORE * least));\n"
     "    } else {\n"
     "        const float even = __fmaf_rn(a, least, (MORE - 1) * least);\n"
     "        asm(\"add.rn.sat.f32 %0, %1, %2;\" : \"=f\"(whole) : \"f\"(even), \"f\"(least));\n"
     "    }\n"
     "    return __float_as_int(whole);\n"
     "}\n"},
    {"ig_pack_i8", NULL, NULL, PACK("i8", "s8")},
    {"ig_pack_u8", NULL, NULL, PACK("u8", "u8")},
    {"ig_between", NULL, "ig_whole",
     "/* Rounded, between whole numbers, plus another. NaN becomes the lower bound. */\n"
     "template <int LOW, int HIGH, int MORE> INLINE float ig_between(float a) {\n"
     "    const uint32_t whole = (uint32_t)ig_whole<-LOW>(a) + 0x4b000000u; /* in the lowest bits of 2^23, if it is "
     "small */\n"
     "    return __uint_as_float(min(whole, 0x4b000000u + (uint32_t)(HIGH - LOW))) - (8388608.0f - (LOW + MORE));\n"
     "}\n"},
    {"ig_four_bytes", NULL, "ig_whole ig_pack_i8 ig_pack_u8",
     "/* The same of four as bytes. Instructions that pack them saturate them, too. */\n"
     "template <int LOW, int HIGH, int MORE> INLINE uint32_t ig_four_bytes(const float *a) {\n"
     "    constexpr bool below = LOW + MORE < 0, positive = !below && HIGH + MORE <= 127; /* of i8; of both */\n"
     "    constexpr int lift = below ? 128 : 0, low = LOW + MORE + lift, high = HIGH + MORE + lift;\n"
     "    int32_t whole[4];\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < 4; i++) {\n"
     "        whole[i] = ig_whole<MORE + lift>(a[i]);\n"
     "        if (low > 0) whole[i] = max(whole[i], low);\n"
     "        if (high != (positive ? 127 : 255)) whole[i] = min(whole[i], high);\n"
     "    }\n"
     "    const uint32_t all = positive ? ig_pack_i8(whole) : ig_pack_u8(whole);\n"
     "    return below ? all ^ 0x80808080 : all;\n"
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
    NUMBER("u8", "uint8_t", "u", "0x4440 + at"),
    NUMBER("i8", "int8_t", "s", "0x8880 + at * 0x1111"),
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
