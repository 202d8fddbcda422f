/*
 * Prelude functions for CUDA only: CUDA's own math functions, accurate to one or two units in the last place ("CUDA C++
 * Programming Guide", Mathematical Functions), instead of the polynomials for CPUs; conversions by GPU instructions;
 * reductions over the threads of a team or a block.
 */
#include "codegen/prelude.h"
#include "codegen/cuda/printer.h"

#define TYPES "f32 f64 i32 i64 u32 u64"

#define MATH(name, f32, f64)                                                                              \
    {"ig_" name "_f32", NULL, NULL, "INLINE float ig_" name "_f32(float a) { return " f32 "(a); }\n"}, {  \
        "ig_" name "_f64", NULL, NULL, "INLINE double ig_" name "_f64(double a) { return " f64 "(a); }\n" \
    }

/* One memory access of several bytes, to or from registers. */
#define COPY(bytes, type)                                                                                 \
    {                                                                                                     \
        "ig_copy_" bytes, NULL, NULL,                                                                     \
            "INLINE void ig_copy_" bytes "(void *to, const void *from) { *(" type " *)to = *(const " type \
            " *)from; }\n"                                                                                \
    }

/* Reduces over `lanes` adjacent threads of a warp; each gets the result. */
#define TEAM(name, combined, needs)                                                                           \
    {                                                                                                         \
        "ig_team_" name "_", TYPES, needs,                                                                    \
            "INLINE $T ig_team_" name "_$S($T a, int lanes) {\n"                                              \
            "    const unsigned team = (unsigned)(((1ull << lanes) - 1) << (THREAD % 32 / lanes * lanes));\n" \
            "    for (int away = lanes / 2; away > 0; away /= 2) {\n"                                         \
            "        const $T b = __shfl_xor_sync(team, a, away);\n"                                          \
            "        a = " combined ";\n"                                                                     \
            "    }\n"                                                                                         \
            "    return a;\n"                                                                                 \
            "}\n"                                                                                             \
    }

/* Reduces over the block: within each warp, then over the warps' results in shared memory, in the same order in each
 * thread. */
#define BLOCK(name, combined, needs)                                  \
    {                                                                 \
        "ig_block_" name "_", TYPES, "ig_team_" name "_$S " needs,    \
            "static __device__ $T ig_block_" name "_$S($T a) {\n"     \
            "    __shared__ $T parts[THREADS / 32];\n"                \
            "    a = ig_team_" name "_$S(a, 32);\n"                   \
            "    __syncthreads();\n"                                  \
            "    if (THREAD % 32 == 0) parts[THREAD / 32] = a;\n"     \
            "    __syncthreads();\n"                                  \
            "    a = parts[0];\n"                                     \
            "    for (int warp = 1; warp < THREADS / 32; warp++) {\n" \
            "        const $T b = parts[warp];\n"                     \
            "        a = " combined ";\n"                             \
            "    }\n"                                                 \
            "    return a;\n"                                         \
            "}\n"                                                     \
    }

/* Reduces over the blocks of a cluster, in the same order in each thread; takes the first 16 bytes of dynamic shared
 * memory. */
#define CLUSTER(name, combined, needs)                                                                                \
    {                                                                                                                 \
        "ig_cluster_" name "_", "f32", "ig_block_" name "_$S " needs,                                                 \
            "static __device__ $T ig_cluster_" name "_$S($T a) {\n"                                                   \
            "    extern __shared__ __align__(1024) char ig_shared[];\n"                                               \
            "    $T *own = ($T *)ig_shared;\n"                                                                        \
            "    a = ig_block_" name "_$S(a);\n"                                                                      \
            "    if (THREAD == 0) *own = a;\n"                                                                        \
            "    asm volatile(\"barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;\" ::: \"memory\");\n" \
            "    for (int rank = 0; rank < CLUSTER; rank++) {\n"                                                      \
            "        unsigned from;\n"                                                                                \
            "        $T b;\n"                                                                                         \
            "        asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\"\n"                                         \
            "                     : \"=r\"(from) : \"r\"((unsigned)__cvta_generic_to_shared(own)), \"r\"(rank));\n"   \
            "        asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(b) : \"r\"(from));\n"                 \
            "        a = rank == 0 ? b : " combined ";\n"                                                             \
            "    }\n"                                                                                                 \
            "    asm volatile(\"barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;\" ::: \"memory\");\n" \
            "    return a;\n"                                                                                         \
            "}\n"                                                                                                     \
    }

const struct ig_code_function ig_cuda_functions[] = {
    {"ig_fetch", NULL, NULL,
     "/* Brings what begins in lines of 128 bytes to the second cache. */\n"
     "INLINE void ig_fetch(const void *from, int bytes) {\n"
     "#pragma unroll 1\n"
     "    for (int at = THREAD * 128; at < bytes; at += THREADS * 128)\n"
     "        asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"((const char *)from + at));\n"
     "}\n"},
    {"ig_fetch_share", NULL, NULL,
     "/* The same, for this block's share of it. */\n"
     "INLINE void ig_fetch_share(const void *from, long long bytes) {\n"
     "    const long long each = (bytes / gridDim.x + 128) / 128 * 128, first = blockIdx.x * each;\n"
     "#pragma unroll 1\n"
     "    for (long long at = THREAD * 128; at < each && first + at < bytes; at += THREADS * 128)\n"
     "        asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"((const char *)from + first + at));\n"
     "}\n"},
    {"ig_keep", NULL, NULL,
     "/* Copies whole pieces of 16 bytes to shared memory, all of them under way together. */\n"
     "static __device__ void ig_keep(void *to, const void *from, int bytes) {\n"
     "    const unsigned own = (unsigned)__cvta_generic_to_shared(to);\n"
     "    for (int at = THREAD * 16; at < bytes; at += THREADS * 16)\n"
     "        asm volatile(\"cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\" ::\"r\"(own + at),\n"
     "                     \"l\"((const char *)from + at), \"r\"(16)\n"
     "                     : \"memory\");\n"
     "    asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n"
     "}\n"},
    {"ig_list_range", NULL, NULL,
     "/* A warp lists, in order, which of `count` places are from lo on and below hi, and how many these are. */\n"
     "static __device__ void ig_list_range(uint16_t *listed, int32_t *found, const int32_t *places, int count, int64_t "
     "lo,\n"
     "                                     int64_t hi) {\n"
     "    const int lane = threadIdx.x % 32;\n"
     "    int n = 0;\n"
     "#pragma unroll 4\n"
     "    for (int first = 0; first < count; first += 32) {\n"
     "        const int place = first + lane < count ? places[first + lane] : -1;\n"
     "        const bool own = lo <= place && place < hi;\n"
     "        const unsigned all = __ballot_sync(0xffffffff, own);\n"
     "        if (own) listed[n + __popc(all & ((1u << lane) - 1))] = (uint16_t)(first + lane);\n"
     "        n += __popc(all);\n"
     "    }\n"
     "    if (lane == 0) *found = n;\n"
     "}\n"},
    {"ig_cluster_sum_f32", NULL, NULL,
     "/* Adds up a number of each thread, if it has one, with those of the same threads of the cluster's other */\n"
     "/* blocks, in the same order everywhere; takes as much of the beginning of dynamic shared memory as there are. "
     "*/\n"
     "static __device__ void ig_cluster_sum_f32(float *number) {\n"
     "    extern __shared__ __align__(1024) char ig_shared[];\n"
     "    float *own = (float *)ig_shared + THREAD, sum = 0.0f;\n"
     "    if (number) *own = *number;\n"
     "    asm volatile(\"barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;\" ::: \"memory\");\n"
     "    for (int rank = 0; rank < CLUSTER && number; rank++) {\n"
     "        unsigned from;\n"
     "        float b;\n"
     "        asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\"\n"
     "                     : \"=r\"(from) : \"r\"((unsigned)__cvta_generic_to_shared(own)), \"r\"(rank));\n"
     "        asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(b) : \"r\"(from));\n"
     "        sum += b;\n"
     "    }\n"
     "    asm volatile(\"barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;\" ::: \"memory\");\n"
     "    if (number) *number = sum;\n"
     "}\n"},
    {"ig_cluster_sums_f32", NULL, "ig_cluster_sum_f32",
     "/* The same of arrays, of up to THREADS numbers. */\n"
     "INLINE void ig_cluster_sums_f32(float *numbers, int count) {\n"
     "    ig_cluster_sum_f32(THREAD < count ? numbers + THREAD : 0);\n"
     "}\n"},
    {"ig_cluster_sums_pair_f32", NULL, "ig_cluster_sum_f32",
     "INLINE void ig_cluster_sums_pair_f32(float *a, float *b, int count) {\n"
     "    ig_cluster_sum_f32(THREAD < count ? a + THREAD : THREAD < 2 * count ? b + (THREAD - count) : 0);\n"
     "}\n"},
    /* Both sums of a pass, with the barriers of one. */
    {"ig_block_add_pair_f32", NULL, "ig_team_add_f32 ig_plus_f32",
     "static __device__ void ig_block_add_pair_f32(float &a, float &b) {\n"
     "    __shared__ float parts[2][THREADS / 32];\n"
     "    a = ig_team_add_f32(a, 32);\n"
     "    b = ig_team_add_f32(b, 32);\n"
     "    __syncthreads();\n"
     "    if (THREAD % 32 == 0) {\n"
     "        parts[0][THREAD / 32] = a;\n"
     "        parts[1][THREAD / 32] = b;\n"
     "    }\n"
     "    __syncthreads();\n"
     "    a = parts[0][0];\n"
     "    b = parts[1][0];\n"
     "    for (int warp = 1; warp < THREADS / 32; warp++) {\n"
     "        a = ig_plus_f32(a, parts[0][warp]);\n"
     "        b = ig_plus_f32(b, parts[1][warp]);\n"
     "    }\n"
     "}\n"},
    {"ig_cluster_add_pair_f32", NULL, "ig_block_add_pair_f32 ig_cluster_sums_f32",
     "static __device__ void ig_cluster_add_pair_f32(float &a, float &b) {\n"
     "    __shared__ float both[2];\n"
     "    ig_block_add_pair_f32(a, b);\n"
     "    if (THREAD < 2) both[THREAD] = THREAD == 0 ? a : b;\n"
     "    ig_cluster_sums_f32(both, 2);\n"
     "    __syncthreads();\n"
     "    a = both[0];\n"
     "    b = both[1];\n"
     "}\n"},
    {"ig_nothing", NULL, NULL,
     "/* Read, and not used, in place of inputs without elements. */\n"
     "static __device__ const uint64_t ig_nothing[8] = {0};\n"},
    {"ig_bits_f32", NULL, NULL, "INLINE int32_t ig_bits_f32(float a) { return __float_as_int(a); }\n"},
    {"ig_of_bits_f32", NULL, NULL, "INLINE float ig_of_bits_f32(int32_t a) { return __int_as_float(a); }\n"},
    {"ig_bits_f64", NULL, NULL, "INLINE int64_t ig_bits_f64(double a) { return __double_as_longlong(a); }\n"},
    {"ig_of_bits_f64", NULL, NULL, "INLINE double ig_of_bits_f64(int64_t a) { return __longlong_as_double(a); }\n"},
    /* sum / count, correctly rounded, given 1 / count (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
     * processor", 1990): for whole counts up to 4096 that was compared for every significand. Infinities have no rest; quotients
     * below the smallest normal number may be a unit off. */
    {"ig_average", NULL, NULL,
     "INLINE float ig_average(float sum, float count, float inverse) {\n"
     "    const float q = sum * inverse, rest = __fmaf_rn(-count, q, sum), corrected = __fmaf_rn(rest, inverse, q);\n"
     "    return corrected == corrected ? corrected : q;\n"
     "}\n"},
    /* NaN if either operand is. */
    {"ig_min_f32", NULL, NULL,
     "INLINE float ig_min_f32(float a, float b) {\n"
     "    float c;\n"
     "    asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(c) : \"f\"(a), \"f\"(b));\n"
     "    return c;\n"
     "}\n"},
    {"ig_max_f32", NULL, NULL,
     "INLINE float ig_max_f32(float a, float b) {\n"
     "    float c;\n"
     "    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(c) : \"f\"(a), \"f\"(b));\n"
     "    return c;\n"
     "}\n"},
    {"ig_load_f16", NULL, NULL,
     "INLINE float ig_load_f16(uint16_t half) {\n"
     "    float a;\n"
     "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(a) : \"h\"(half));\n"
     "    return a;\n"
     "}\n"},
    {"ig_store_f16", NULL, NULL,
     "INLINE uint16_t ig_store_f16(float a) {\n"
     "    uint16_t half;\n"
     "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(half) : \"f\"(a));\n"
     "    return half;\n"
     "}\n"},
    {"ig_store_bf16", NULL, NULL,
     "INLINE uint16_t ig_store_bf16(float a) {\n"
     "    uint16_t half;\n"
     "    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(half) : \"f\"(a));\n"
     "    return half;\n"
     "}\n"},
    /* Saturates to 32 bits, and gives 0 for NaN. */
    {"ig_whole_f32", NULL, NULL,
     "INLINE int32_t ig_whole_f32(float a) {\n"
     "    int32_t whole;\n"
     "    asm(\"cvt.rzi.s32.f32 %0, %1;\" : \"=r\"(whole) : \"f\"(a));\n"
     "    return whole;\n"
     "}\n"},
    {"ig_saturate_f32_", "i16 u16", "ig_whole_f32",
     "INLINE $T ig_saturate_f32_$S(float a) {\n"
     "    const int32_t whole = ig_whole_f32(a), low = whole > $L ? whole : $L;\n"
     "    return ($T)(low < $H ? low : $H);\n"
     "}\n"},
    {"ig_saturate_f32_i8", NULL, NULL,
     "INLINE int8_t ig_saturate_f32_i8(float a) {\n"
     "    int32_t byte;\n"
     "    asm(\"cvt.rzi.s8.f32 %0, %1;\" : \"=r\"(byte) : \"f\"(a));\n"
     "    return (int8_t)byte;\n"
     "}\n"},
    {"ig_saturate_f32_u8", NULL, NULL,
     "INLINE uint8_t ig_saturate_f32_u8(float a) {\n"
     "    int32_t byte;\n"
     "    asm(\"cvt.rzi.u8.f32 %0, %1;\" : \"=r\"(byte) : \"f\"(a));\n"
     "    return (uint8_t)byte;\n"
     "}\n"},
    {"ig_saturate_f32_i32", NULL, "ig_whole_f32",
     "INLINE int32_t ig_saturate_f32_i32(float a) { return ig_whole_f32(a); }\n"},
    {"ig_saturate_f32_f8e4m3fn", NULL, "ig_narrow_code",
     "INLINE uint8_t ig_saturate_f32_f8e4m3fn(float a) {\n"
     "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890\n"
     "    uint16_t two;\n"
     "    asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(two) : \"f\"(0.0f), \"f\"(a));\n"
     "    return (uint8_t)((two & 0x7f) == 0x7f ? 0x7f : two);\n"
     "#else\n"
     "    const uint32_t bits = (uint32_t)ig_bits_f32(a), size = bits & 0x7fffffff;\n"
     "    const uint32_t code = ig_narrow_code(size, 20, 0x3c000000, 0x1p14f), bounded = code > 0x7e ? 0x7e : code;\n"
     "    return (uint8_t)(size > 0x7f800000 ? 0x7f : bounded | (bits >> 24 & 0x80));\n"
     "#endif\n"
     "}\n"},
    COPY("2", "unsigned short"),
    COPY("4", "unsigned"),
    COPY("8", "uint2"),
    COPY("16", "uint4"),
    /* In assembly, since compilers make branches of conditions, across which they do not move loads. */
    {"ig_copy_if_4", NULL, NULL,
     "INLINE void ig_copy_if_4(void *to, const void *from, bool inside) {\n"
     "    const unsigned a = *(const unsigned *)from;\n"
     "    asm volatile(\"{\\n.reg .pred inside;\\nsetp.ne.b32 inside, %0, 0;\\n@inside st.global.b32 [%1], %2;\\n}\"\n"
     "                 ::\"r\"((int)inside), \"l\"(to), \"r\"(a));\n"
     "}\n"},
    {"ig_copy_if_8", NULL, NULL,
     "INLINE void ig_copy_if_8(void *to, const void *from, bool inside) {\n"
     "    const uint2 a = *(const uint2 *)from;\n"
     "    asm volatile(\"{\\n.reg .pred inside;\\nsetp.ne.b32 inside, %0, 0;\\n@inside st.global.v2.b32 [%1], {%2, "
     "%3};\\n}\"\n"
     "                 ::\"r\"((int)inside), \"l\"(to), \"r\"(a.x), \"r\"(a.y));\n"
     "}\n"},
    {"ig_copy_if_16", NULL, NULL,
     "INLINE void ig_copy_if_16(void *to, const void *from, bool inside) {\n"
     "    const uint4 a = *(const uint4 *)from;\n"
     "    asm volatile(\"{\\n.reg .pred inside;\\nsetp.ne.b32 inside, %0, 0;\\n\"\n"
     "                 \"@inside st.global.v4.b32 [%1], {%2, %3, %4, %5};\\n}\"\n"
     "                 ::\"r\"((int)inside), \"l\"(to), \"r\"(a.x), \"r\"(a.y), \"r\"(a.z), \"r\"(a.w));\n"
     "}\n"},
    {"ig_copy_32", NULL, "ig_copy_16",
     "INLINE void ig_copy_32(void *to, const void *from) {\n"
     "    ig_copy_16(to, from);\n"
     "    ig_copy_16((uint4 *)to + 1, (const uint4 *)from + 1);\n"
     "}\n"},
    {"ig_copy_64", NULL, "ig_copy_32",
     "INLINE void ig_copy_64(void *to, const void *from) {\n"
     "    ig_copy_32(to, from);\n"
     "    ig_copy_32((uint4 *)to + 2, (const uint4 *)from + 2);\n"
     "}\n"},
    {"ig_copy_128", NULL, "ig_copy_64",
     "INLINE void ig_copy_128(void *to, const void *from) {\n"
     "    ig_copy_64(to, from);\n"
     "    ig_copy_64((uint4 *)to + 4, (const uint4 *)from + 4);\n"
     "}\n"},
    MATH("exp", "expf", "exp"),
    MATH("log", "logf", "log"),
    MATH("log1p", "log1pf", "log1p"),
    MATH("tanh", "tanhf", "tanh"),
    MATH("erf", "erff", "erf"),
    MATH("sin", "sinf", "sin"),
    MATH("cos", "cosf", "cos"),
    MATH("tan", "tanf", "tan"),
    MATH("asin", "asinf", "asin"),
    MATH("acos", "acosf", "acos"),
    MATH("atan", "atanf", "atan"),
    MATH("sinh", "sinhf", "sinh"),
    MATH("cosh", "coshf", "cosh"),
    MATH("asinh", "asinhf", "asinh"),
    MATH("acosh", "acoshf", "acosh"),
    MATH("atanh", "atanhf", "atanh"),
    /* Accurate to 2^-22; results below 2^-126 become 0. */
    {"ig_exp2_f32", NULL, NULL,
     "INLINE float ig_exp2_f32(float a) {\n"
     "    float b;\n"
     "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(b) : \"f\"(a));\n"
     "    return b;\n"
     "}\n"},
    {"ig_normcdf_f64", NULL, NULL,
     "INLINE double ig_normcdf_f64(double a) { return 0.5 * erfc(a * -0x1.6a09e667f3bcdp-1); }\n"},
    /* By the exponential that does not overflow, so that small results are denormal and not zero. __fdividef */
    /* is accurate to two units where the divisor is neither tiny nor huge; here it lies between 1 and 2. */
    {"ig_sigmoid_f32", NULL, NULL,
     "INLINE float ig_sigmoid_f32(float a) {\n"
     "    const float e = expf(-fabsf(a));\n"
     "    return __fdividef(a < 0.0f ? e : 1.0f, 1.0f + e);\n"
     "}\n"},
    {"ig_sigmoid_f64", NULL, NULL,
     "INLINE double ig_sigmoid_f64(double a) {\n"
     "    const double e = exp(-fabs(a));\n"
     "    return (a < 0.0 ? e : 1.0) / (1.0 + e);\n"
     "}\n"},
    /* Short forms, for results that are rounded to 16 bits (rounded.c). Relative error below 2^-16. With the scale, the */
    /* quotient is denormal nowhere. */
    {"ig_short_sigmoid_f32", NULL, "ig_exp2_f32 ig_rcp_f32",
     "INLINE float ig_short_sigmoid_f32(float a) {\n"
     "    return ig_rcp_f32(0x1p-24f + ig_exp2_f32(a * -1.44269504f - 24.0f)) * 0x1p-24f;\n"
     "}\n"},
    /* Relative error below 2^-14: where tanh(a) is a, and beyond, where two numbers near 1 are subtracted. */
    {"ig_short_tanh_f32", NULL, "ig_exp2_f32 ig_rcp_f32",
     "INLINE float ig_short_tanh_f32(float a) {\n"
     "    const float far = 1.0f - 2.0f * ig_rcp_f32(1.0f + ig_exp2_f32(a * 2.88539008f));\n"
     "    return fabsf(a) < 0.01f ? a : far;\n"
     "}\n"},
    /* Like ig_normcdf_f32, fitted so that GELU is off by less than a quarter of the distance between numbers of f16. */
    {"ig_short_normcdf_f32", NULL, "ig_exp2_f32",
     "INLINE float ig_short_normcdf_f32(float a) {\n"
     "    const float size = fabsf(a);\n"
     "    float p = -0.00034652595f;\n"
     "    p = p * size + 0.006075447425f;\n"
     "    p = p * size - 0.04905465618f;\n"
     "    p = p * size - 0.4630408883f;\n"
     "    p = p * size - 1.149663568f;\n"
     "    p = p * size - 1.000087142f;\n"
     "    const float tail = ig_exp2_f32(p);\n"
     "    return a < 0.0f ? tail : 1.0f - tail;\n"
     "}\n"},
    /* The same for floats of 8 bits: relative error below 0.9%, where the result is not below 1e-8. */
    {"ig_coarse_normcdf_f32", NULL, "ig_exp2_f32",
     "INLINE float ig_coarse_normcdf_f32(float a) {\n"
     "    const float size = fabsf(a);\n"
     "    float p = -0.0110618f * size - 0.56094166f;\n"
     "    p = p * size - 1.06101675f;\n"
     "    p = p * size - 1.01288195f;\n"
     "    const float tail = ig_exp2_f32(p);\n"
     "    return a < 0.0f ? tail : 1.0f - tail;\n"
     "}\n"},
    {"ig_rcp_f32", NULL, NULL,
     "INLINE float ig_rcp_f32(float a) {\n"
     "    float b;\n"
     "    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(b) : \"f\"(a));\n"
     "    return b;\n"
     "}\n"},
    {"ig_pow_f32", NULL, NULL, "INLINE float ig_pow_f32(float a, float b) { return powf(a, b); }\n"},
    {"ig_pow_f64", NULL, NULL, "INLINE double ig_pow_f64(double a, double b) { return pow(a, b); }\n"},
    {"ig_fmod_f32", NULL, NULL, "INLINE float ig_fmod_f32(float a, float b) { return fmodf(a, b); }\n"},
    {"ig_fmod_f64", NULL, NULL, "INLINE double ig_fmod_f64(double a, double b) { return fmod(a, b); }\n"},
    {"ig_pow_", "i8 i16 i32 i64 u8 u16 u32 u64", NULL,
     "static __device__ $T ig_pow_$S($T a, $T b) {\n"
     "    uint64_t power = 1, base = (uint64_t)a;\n"
     "    if (b < 0) return a == 1 ? 1 : a == ($T)-1 ? ($T)(b & 1 ? -1 : 1) : 0;\n"
     "    for (uint64_t rest = (uint64_t)b; rest; rest >>= 1, base *= base) {\n"
     "        if (rest & 1) power *= base;\n"
     "    }\n"
     "    return ($T)power;\n"
     "}\n"},
    /* On data: integers wrap. */
    {"ig_plus_", "f32 f64", NULL, "INLINE $T ig_plus_$S($T a, $T b) { return a + b; }\n"},
    {"ig_times_", "f32 f64", NULL, "INLINE $T ig_times_$S($T a, $T b) { return a * b; }\n"},
    {"ig_plus_", "i32 i64 u32 u64", NULL, "INLINE $T ig_plus_$S($T a, $T b) { return ($T)(($U)a + ($U)b); }\n"},
    {"ig_times_", "i32 i64 u32 u64", NULL, "INLINE $T ig_times_$S($T a, $T b) { return ($T)(($U)a * ($U)b); }\n"},
    TEAM("add", "ig_plus_$S(a, b)", "ig_plus_$S"),
    TEAM("mul", "ig_times_$S(a, b)", "ig_times_$S"),
    TEAM("min", "ig_min_$S(a, b)", "ig_min_$S"),
    TEAM("max", "ig_max_$S(a, b)", "ig_max_$S"),
    BLOCK("add", "ig_plus_$S(a, b)", ""),
    BLOCK("mul", "ig_times_$S(a, b)", ""),
    BLOCK("min", "ig_min_$S(a, b)", "ig_min_$S"),
    BLOCK("max", "ig_max_$S(a, b)", "ig_max_$S"),
    CLUSTER("add", "ig_plus_$S(a, b)", "ig_plus_$S"),
    CLUSTER("mul", "ig_times_$S(a, b)", "ig_times_$S"),
    CLUSTER("min", "ig_min_$S(a, b)", "ig_min_$S"),
    CLUSTER("max", "ig_max_$S(a, b)", "ig_max_$S"),
};
const size_t ig_cuda_functions_count = sizeof ig_cuda_functions / sizeof *ig_cuda_functions;
