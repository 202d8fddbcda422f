/*
 * The CUDA features that kernels use, in C++ for the host; included before the kernels' text, which translate.c has
 * rewritten. Inline assembly has become calls of functions named after the instructions: "ldmatrix.sync.aligned" is
 * ptx_ldmatrix_sync_aligned, with the operands as arguments in their order. An instruction that is missing here does
 * not compile. The compiler's instrumentation for ThreadSanitizer and UndefinedBehaviorSanitizer reports memory
 * accesses, indices beyond an array and overflow; the functions that it calls are defined here as well.
 */
#include "emulator/grid.h"

#define EMULATED_WEAK __attribute__((visibility("hidden"), weak))
#define EMULATED __attribute__((unused, no_sanitize("thread", "undefined")))

static const struct emulator *emulator;

/* ---- Declarations --------------------------------------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static EMULATED_SHARED /* defined before each kernel */
#define __constant__ static const
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict

typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

extern "C" {
double exp(double), log(double), log1p(double), tanh(double), erf(double), erfc(double), sin(double), cos(double), tan(double);
double asin(double), acos(double), atan(double), sinh(double), cosh(double), asinh(double), acosh(double);
double atanh(double), pow(double, double), fmod(double, double), fabs(double), floor(double), ceil(double);
double trunc(double), rint(double), sqrt(double), copysign(double, double), fma(double, double, double), exp2(double);
float expf(float), logf(float), log1pf(float), tanhf(float), erff(float), sinf(float), cosf(float), tanf(float);
float asinf(float), acosf(float), atanf(float), sinhf(float), coshf(float), asinhf(float), acoshf(float);
float atanhf(float), powf(float, float), fmodf(float, float), fabsf(float), floorf(float), ceilf(float);
float truncf(float), rintf(float), sqrtf(float), copysignf(float, float), fmaf(float, float, float), exp2f(float);
float fminf(float, float), fmaxf(float, float), log2f(float);
double fmin(double, double), fmax(double, double), log2(double);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
}

#define EMULATED_VECTOR(name, type, bytes)             \
    struct __attribute__((aligned(bytes))) name##2 {   \
        type x, y;                                     \
    };                                                 \
    EMULATED static name##2 make_##name##2(type x, type y) { return name##2{x, y}; }
EMULATED_VECTOR(float, float, 8)
EMULATED_VECTOR(int, int, 8)
EMULATED_VECTOR(uint, unsigned, 8)
struct __attribute__((aligned(16))) double2 {
    double x, y;
};
struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
};
struct __attribute__((aligned(16))) int4 {
    int x, y, z, w;
};
struct __attribute__((aligned(16))) uint4 {
    unsigned x, y, z, w;
};
EMULATED static float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}
EMULATED static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}

template <class T> EMULATED static inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T> EMULATED static inline T max(T a, T b) {
    return a < b ? b : a;
}

template <class TO, class FROM> EMULATED static inline TO emulated_bits(FROM from) {
    static_assert(sizeof(TO) == sizeof(FROM), "bits of another size");
    TO to;
    memcpy(&to, &from, sizeof to);
    return to;
}
/* Products that are not contracted with sums. */
EMULATED static float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
EMULATED static float __fmul_rn(float a, float b) {
    volatile float product = a * b;
    return product;
}
EMULATED static double __dmul_rn(double a, double b) {
    volatile double product = a * b;
    return product;
}
EMULATED static float __int_as_float(int i) {
    return emulated_bits<float>(i);
}
EMULATED static int __float_as_int(float f) {
    return emulated_bits<int>(f);
}
EMULATED static inline float __uint_as_float(unsigned i) {
    return emulated_bits<float>(i);
}
EMULATED static unsigned __float_as_uint(float f) {
    return emulated_bits<unsigned>(f);
}
EMULATED static double __longlong_as_double(long long i) {
    return emulated_bits<double>(i);
}
EMULATED static long long __double_as_longlong(double f) {
    return emulated_bits<long long>(f);
}

template <class HALF, class CHOOSE> EMULATED static unsigned emulated_halves(unsigned a, unsigned b, CHOOSE choose) {
    unsigned low = (unsigned short)choose((HALF)(a & 0xffff), (HALF)(b & 0xffff));
    return low | (unsigned)(unsigned short)choose((HALF)(a >> 16), (HALF)(b >> 16)) << 16;
}
EMULATED static unsigned __vmaxs2(unsigned a, unsigned b) {
    return emulated_halves<short>(a, b, [](short x, short y) { return x > y ? x : y; });
}
EMULATED static unsigned __vmins2(unsigned a, unsigned b) {
    return emulated_halves<short>(a, b, [](short x, short y) { return x < y ? x : y; });
}
EMULATED static unsigned __vmaxu2(unsigned a, unsigned b) {
    return emulated_halves<unsigned short>(a, b, [](unsigned short x, unsigned short y) { return x > y ? x : y; });
}
EMULATED static unsigned __vminu2(unsigned a, unsigned b) {
    return emulated_halves<unsigned short>(a, b, [](unsigned short x, unsigned short y) { return x < y ? x : y; });
}
/* Bytes of b:a, chosen by the digits of `by`, or their signs by those from 8 on. */
EMULATED static void ptx_prmt_b32(int &to, unsigned a, unsigned b, unsigned by) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned word = 0;
    for (int i = 0; i < 4; i++) {
        unsigned digit = by >> 4 * i & 0xf, byte = (unsigned)(both >> 8 * (digit & 7) & 0xff);
        word |= (digit & 8 ? byte & 0x80 ? 0xff : 0 : byte) << 8 * i;
    }
    to = (int)word;
}
/* Without signs: it does not look at the highest bit of a digit. */
EMULATED static unsigned __byte_perm(unsigned a, unsigned b, unsigned by) {
    int word;
    ptx_prmt_b32(word, a, b, by & 0x7777);
    return (unsigned)word;
}

EMULATED static float __fdividef(float a, float b) {
    return a / b;
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------------- */

struct emulated_index {
    unsigned x;
};
/* These never change during a thread's lifetime, hence the attribute `const`. */
EMULATED __attribute__((const, noinline)) static emulated_index emulated_thread() {
    return {(unsigned)emulator->thread};
}
EMULATED __attribute__((const, noinline)) static emulated_index emulated_block() {
    return {(unsigned)emulator->block};
}
EMULATED __attribute__((const, noinline)) static emulated_index emulated_blocks() {
    return {(unsigned)emulator->blocks};
}
EMULATED __attribute__((const, noinline)) static char *emulated_dynamic() {
    return emulator->shared;
}
#define threadIdx (emulated_thread())
#define blockIdx (emulated_block())
#define gridDim (emulated_blocks())

EMULATED static void __syncthreads() {
    emulator->wait_block();
}
EMULATED static int __syncthreads_or(int value) {
    return emulator->wait_block_any(value);
}
EMULATED static void __syncwarp(unsigned team = 0xffffffff) {
    emulator->sync_warp(team);
}
EMULATED static void __threadfence_block() {
}
template <class T> EMULATED static T emulated_shuffle(unsigned team, T value, int lane, bool there) {
    emulator->meet(team, &value, sizeof value);
    if (there && !(team >> lane & 1)) emulator->refuse("shuffles with lane %d, which is none of %#x", lane, team);
    if (there) memcpy(&value, emulator->shown(lane), sizeof value);
    return value;
}
template <class T> EMULATED static T __shfl_xor_sync(unsigned team, T value, int away, int width = 32) {
    int lane = emulator->thread % 32, other = lane ^ away;
    return emulated_shuffle(team, value, other, other / width == lane / width);
}
template <class T> EMULATED static T __shfl_down_sync(unsigned team, T value, int away, int width = 32) {
    int lane = emulator->thread % 32, other = lane + away;
    return emulated_shuffle(team, value, other, other < 32 && other / width == lane / width);
}
template <class T> EMULATED static T __shfl_up_sync(unsigned team, T value, int away, int width = 32) {
    int lane = emulator->thread % 32, other = lane - away;
    return emulated_shuffle(team, value, other, other >= 0 && other / width == lane / width);
}
template <class T> EMULATED static T __shfl_sync(unsigned team, T value, int from, int width = 32) {
    return emulated_shuffle(team, value, emulator->thread % 32 / width * width + from % width, true);
}
EMULATED static unsigned __ballot_sync(unsigned team, int value) {
    unsigned all = 0;
    emulator->meet(team, &value, sizeof value);
    for (int lane = 0; lane < 32; lane++)
        if (team >> lane & 1 && *(const int *)emulator->shown(lane)) all |= 1u << lane;
    return all;
}
EMULATED static int __any_sync(unsigned team, int value) {
    return __ballot_sync(team, value) != 0;
}
EMULATED static int __all_sync(unsigned team, int value) {
    return __ballot_sync(team, value) == team;
}
template <class T> struct emulated_same {
    typedef T type;
};
/* Of several threads to the same place; all grids of this process take turns. */
template <class T> EMULATED static T atomicAdd(T *to, typename emulated_same<T>::type by) {
    emulator->access(to, sizeof *to, EMULATED_WRITE | EMULATED_ALIGNED | EMULATED_ATOMIC);
    T before = *to;
    *to = before + by;
    return before;
}
EMULATED static void __nanosleep(unsigned) {
    emulator->poll();
}
EMULATED static int __ffs(int bits) {
    return __builtin_ffs(bits);
}
EMULATED static int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
EMULATED static size_t __cvta_generic_to_shared(const void *at) {
    return emulator->shared_address(at);
}

/* ---- Instructions: elements -------------------------------------------------------------------------------------------------- */

EMULATED static bool emulated_sign(float a) {
    return __float_as_int(a) < 0;
}
EMULATED static void ptx_min_NaN_f32(float &c, float a, float b) {
    c = a != a ? a : b != b ? b : a < b || (a == b && emulated_sign(a)) ? a : b;
}
EMULATED static void ptx_max_NaN_f32(float &c, float a, float b) {
    c = a != a ? a : b != b ? b : a > b || (a == b && emulated_sign(b)) ? a : b;
}
/* Written out because a cast would be a library call on processors without float16. */
EMULATED static inline float emulated_f16(unsigned half) {
    unsigned sign = (half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) return emulated_bits<float>(sign | 0x7f800000 | rest << 13);
    float scaled = emulated_bits<float>(rest << 13) * 0x1p112f; /* corrects the exponent's bias */
    return emulated_bits<float>(sign | emulated_bits<unsigned>(scaled));
}
EMULATED static inline float emulated_bf16(unsigned half) {
    return __uint_as_float(half << 16);
}
EMULATED static unsigned emulated_to_f16(float a) {
    return emulated_bits<unsigned short>((_Float16)a);
}
EMULATED static unsigned emulated_to_bf16(float a) {
    unsigned u = __float_as_uint(a);
    return (unsigned short)(a != a ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
EMULATED static void ptx_cvt_f32_f16(float &a, unsigned short half) {
    a = emulated_f16(half);
}
EMULATED static void ptx_cvt_rn_f16_f32(unsigned short &half, float a) {
    half = (unsigned short)emulated_to_f16(a);
}
EMULATED static void ptx_cvt_rn_bf16_f32(unsigned short &half, float a) {
    half = (unsigned short)emulated_to_bf16(a);
}
/* The first source operand becomes the upper half. */
EMULATED static void ptx_cvt_rn_f16x2_f32(unsigned &both, float upper, float lower) {
    both = emulated_to_f16(upper) << 16 | emulated_to_f16(lower);
}
EMULATED static void ptx_cvt_rn_bf16x2_f32(unsigned &both, float upper, float lower) {
    both = emulated_to_bf16(upper) << 16 | emulated_to_bf16(lower);
}
/* The maximum of each half; NaN only if both operands are. */
template <class GET, class TO> EMULATED static unsigned emulated_larger(unsigned a, unsigned b, GET get, TO to) {
    unsigned both = 0;
    for (int half = 0; half < 2; half++)
        both |= (to(fmaxf(get(a >> 16 * half & 0xffff), get(b >> 16 * half & 0xffff))) & 0xffff) << 16 * half;
    return both;
}
EMULATED static void ptx_max_f16x2(unsigned &larger, unsigned a, unsigned b) {
    larger = emulated_larger(a, b, emulated_f16, emulated_to_f16);
}
EMULATED static void ptx_max_bf16x2(unsigned &larger, unsigned a, unsigned b) {
    larger = emulated_larger(a, b, emulated_bf16, emulated_to_bf16);
}
EMULATED static unsigned emulated_to_e4m3(float a) {
    unsigned bits = __float_as_uint(a), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (a != a) return 0x7f;
    if (size >= 0x43e00000) return sign | 0x7e; /* 448 */
    if (size < 0x3c800000) return sign | (unsigned)(int)rintf(__uint_as_float(size) * 512);
    return sign | (size - 0x3c000000 + 0x7ffff + (size >> 20 & 1)) >> 20;
}
EMULATED static void ptx_cvt_rn_satfinite_e4m3x2_f32(unsigned short &two, float upper, float lower) {
    two = (unsigned short)(emulated_to_e4m3(upper) << 8 | emulated_to_e4m3(lower));
}
EMULATED static void ptx_cvt_rzi_s32_f32(int &whole, float a) {
    whole = a != a ? 0 : a >= 0x1p31f ? 0x7fffffff : a <= -0x1p31f ? -0x7fffffff - 1 : (int)a;
}
EMULATED static void ptx_cvt_rzi_s8_f32(int &byte, float a) {
    byte = a != a ? 0 : a > 127 ? 127 : a < -128 ? -128 : (int)a;
}
EMULATED static void ptx_cvt_rzi_u8_f32(int &byte, float a) {
    byte = a != a ? 0 : a > 255 ? 255 : a < 0 ? 0 : (int)a;
}
/* What is no number becomes 0, as on GPUs. */
EMULATED static float emulated_saturated(float a) {
    return a > 1 ? 1 : a > 0 ? a : 0;
}
EMULATED static void ptx_fma_rn_sat_f32(float &to, float a, float b, float c) {
    to = emulated_saturated(fmaf(a, b, c));
}
EMULATED static void ptx_add_rn_sat_f32(float &to, float a, float b) {
    to = emulated_saturated(a + b);
}
/* The second operand becomes the lowest byte, the third what is above both. */
EMULATED static void ptx_cvt_pack_sat_s8_s32_b32(unsigned &to, int second, int first, unsigned above) {
    auto byte = [](int a) { return (unsigned)(a > 127 ? 127 : a < -128 ? -128 : a) & 0xff; };
    to = above << 16 | byte(second) << 8 | byte(first);
}
EMULATED static void ptx_cvt_pack_sat_u8_s32_b32(unsigned &to, int second, int first, unsigned above) {
    auto byte = [](int a) { return (unsigned)(a > 255 ? 255 : a < 0 ? 0 : a); };
    to = above << 16 | byte(second) << 8 | byte(first);
}
EMULATED static void ptx_bfe_s32(int &to, unsigned from, unsigned at, unsigned length) {
    to = (int)(from << (32 - at - length)) >> (32 - length);
}
EMULATED static void ptx_bfe_u32(int &to, unsigned from, unsigned at, unsigned length) {
    to = (int)(from << (32 - at - length) >> (32 - length));
}
template <class A, class B> EMULATED static int emulated_dot(unsigned a, unsigned b, int sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (A)(a >> i) * (B)(b >> i);
    return sum;
}
EMULATED static void ptx_dp4a_u32_u32(int &to, unsigned a, unsigned b, int sum) {
    to = emulated_dot<unsigned char, unsigned char>(a, b, sum);
}
EMULATED static void ptx_dp4a_u32_s32(int &to, unsigned a, unsigned b, int sum) {
    to = emulated_dot<unsigned char, signed char>(a, b, sum);
}
EMULATED static void ptx_dp4a_s32_u32(int &to, unsigned a, unsigned b, int sum) {
    to = emulated_dot<signed char, unsigned char>(a, b, sum);
}
EMULATED static void ptx_dp4a_s32_s32(int &to, unsigned a, unsigned b, int sum) {
    to = emulated_dot<signed char, signed char>(a, b, sum);
}
EMULATED static void ptx_lop3_b32(unsigned &to, unsigned a, unsigned b, unsigned c, int table) {
    to = 0;
    for (int i = 0; i < 32; i++)
        to |= (unsigned)(table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
}
/* Products of halves are exact in f32; the results of templates' differences too. */
EMULATED static void ptx_mul_rn_f16x2(unsigned &to, unsigned a, unsigned b) {
    to = emulated_to_f16(emulated_f16(a >> 16) * emulated_f16(b >> 16)) << 16 |
         emulated_to_f16(emulated_f16(a & 0xffff) * emulated_f16(b & 0xffff));
}
EMULATED static void ptx_sub_rn_f16x2(unsigned &to, unsigned a, unsigned b) {
    to = emulated_to_f16(emulated_f16(a >> 16) - emulated_f16(b >> 16)) << 16 |
         emulated_to_f16(emulated_f16(a & 0xffff) - emulated_f16(b & 0xffff));
}
EMULATED static void ptx_fma_rn_f16x2(unsigned &to, unsigned a, unsigned b, unsigned c) {
    to = emulated_to_f16(emulated_f16(a >> 16) * emulated_f16(b >> 16) + emulated_f16(c >> 16)) << 16 |
         emulated_to_f16(emulated_f16(a & 0xffff) * emulated_f16(b & 0xffff) + emulated_f16(c & 0xffff));
}
EMULATED static void ptx_fma_rn_bf16x2(unsigned &to, unsigned a, unsigned b, unsigned c) {
    to = (unsigned)emulated_to_bf16(emulated_bf16(a >> 16) * emulated_bf16(b >> 16) + emulated_bf16(c >> 16)) << 16 |
         (emulated_to_bf16(emulated_bf16(a & 0xffff) * emulated_bf16(b & 0xffff) + emulated_bf16(c & 0xffff)) & 0xffff);
}
EMULATED static void ptx_cvt_rna_tf32_f32(unsigned &to, float a) {
    to = (__float_as_uint(a) + 0x1000) & ~0x1fffu;
}
EMULATED static void ptx_ex2_approx_ftz_f32(float &to, float a) {
    to = exp2f(a);
}
EMULATED static void ptx_rcp_approx_ftz_f32(float &to, float a) {
    to = 1 / a;
}
EMULATED static void ptx_ex2_approx_f32(float &to, float a) {
    to = exp2f(a);
}

/* ---- Instructions: memory ------------------------------------------------------------------------------------------------------ */

template <class T> EMULATED static inline T emulated_load(unsigned from) {
    T value;
    memcpy(&value, emulator->shared_at(from, sizeof value, EMULATED_ALIGNED), sizeof value);
    return value;
}
template <class T> EMULATED static void emulated_store(unsigned to, T value) {
    memcpy(emulator->shared_at(to, sizeof value, EMULATED_WRITE | EMULATED_ALIGNED), &value, sizeof value);
}
EMULATED static void ptx_prefetch_global_L2(const void *from) {
    (void)*(const volatile char *)from;
}
template <class P> EMULATED static uint4 emulated_global(P from, size_t size) {
    uint4 v = {0, 0, 0, 0};
    emulator->access((void *)from, size, EMULATED_ALIGNED);
    memcpy(&v, (const void *)from, size);
    return v;
}
template <class P>
EMULATED static void ptx_ld_global_v4_u32(unsigned &x, unsigned &y, unsigned &z, unsigned &w, P from) {
    uint4 v = emulated_global(from, 16);
    x = v.x, y = v.y, z = v.z, w = v.w;
}
template <class P>
EMULATED static void ptx_ld_relaxed_gpu_global_L1__no_allocate_L2__128B_v4_u32(unsigned &x, unsigned &y, unsigned &z,
                                                                      unsigned &w, P from) {
    ptx_ld_global_v4_u32(x, y, z, w, from);
}
template <class P> EMULATED static void ptx_ld_relaxed_gpu_global_u32(unsigned &x, P from) {
    x = emulated_global(from, 4).x;
}
template <class P> EMULATED static void ptx_ld_relaxed_gpu_global_u16(unsigned short &x, P from) {
    x = (unsigned short)emulated_global(from, 2).x;
}
template <class P> EMULATED static void ptx_ld_relaxed_gpu_global_u8(unsigned &x, P from) {
    x = emulated_global(from, 1).x;
}
template <class P> EMULATED static void ptx_ld_global_v2_u32(unsigned &x, unsigned &y, P from) {
    uint4 v = emulated_global(from, 8);
    x = v.x, y = v.y;
}
template <class P> EMULATED static void ptx_ld_global_u32(unsigned &x, P from) {
    x = emulated_global(from, 4).x;
}
EMULATED static void ptx_ld_shared_b32(unsigned &to, unsigned from) {
    to = emulated_load<unsigned>(from);
}
EMULATED static void ptx_ld_shared_u16(unsigned short &to, unsigned from) {
    to = emulated_load<unsigned short>(from);
}
EMULATED static void ptx_ld_shared_u8(unsigned &to, unsigned from) {
    to = emulated_load<unsigned char>(from);
}
EMULATED static void ptx_ld_shared_f32(float &to, unsigned from) {
    to = emulated_load<float>(from);
}
EMULATED static void ptx_ld_shared_v4_f32(float &x, float &y, float &z, float &w, unsigned from) {
    float4 v = emulated_load<float4>(from);
    x = v.x, y = v.y, z = v.z, w = v.w;
}
EMULATED static void ptx_ld_shared_v4_u32(unsigned &x, unsigned &y, unsigned &z, unsigned &w, unsigned from) {
    uint4 v = emulated_load<uint4>(from);
    x = v.x, y = v.y, z = v.z, w = v.w;
}
EMULATED static void ptx_ld_shared__cluster_v4_f32(float &x, float &y, float &z, float &w, unsigned from) {
    ptx_ld_shared_v4_f32(x, y, z, w, from);
}
EMULATED static void ptx_ld_shared__cluster_v4_u32(unsigned &x, unsigned &y, unsigned &z, unsigned &w, unsigned from) {
    ptx_ld_shared_v4_u32(x, y, z, w, from);
}
EMULATED static void ptx_ld_shared__cluster_f32(float &x, unsigned from) {
    ptx_ld_shared_f32(x, from);
}
EMULATED static void ptx_st_shared__cluster_v4_f32(unsigned to, float x, float y, float z, float w) {
    emulated_store(to, float4{x, y, z, w});
}
EMULATED static void ptx_st_shared__cluster_v2_b32(unsigned to, unsigned x, unsigned y) {
    emulated_store(to, uint2{x, y});
}
EMULATED static void ptx_st_shared_u16(unsigned to, unsigned short value) {
    emulated_store(to, value);
}
EMULATED static void ptx_st_shared_u8(unsigned to, unsigned value) {
    emulated_store(to, (unsigned char)value);
}
EMULATED static void ptx_st_shared__cluster_f32(unsigned to, float value) {
    emulated_store(to, value);
}
EMULATED static void ptx_st_shared_b32(unsigned to, unsigned value) {
    emulated_store(to, value);
}
EMULATED static void ptx_st_shared_v4_b32(unsigned to, unsigned x, unsigned y, unsigned z, unsigned w) {
    emulated_store(to, uint4{x, y, z, w});
}
template <class P> EMULATED static void emulated_copy(unsigned to, P from, size_t size, size_t valid) {
    emulator->copy(emulator->shared_at(to, 0, 0), (const char *)from, size, valid);
}
template <class P> EMULATED static void ptx_cp_async_cg_shared_global_L2__128B(unsigned to, P from, int valid = 16) {
    emulated_copy(to, from, 16, (size_t)valid);
}
template <class P> EMULATED static void ptx_cp_async_cg_shared_global(unsigned to, P from, int valid = 16) {
    emulated_copy(to, from, 16, (size_t)valid);
}
template <class P> EMULATED static void ptx_cp_async_ca_shared_global(unsigned to, P from, int size, int valid) {
    emulated_copy(to, from, (size_t)size, (size_t)valid);
}
EMULATED static void ptx_cp_async_commit_group() {
    emulator->close_copies();
}
EMULATED static void ptx_cp_async_wait_group(int left) {
    emulator->wait_copies(left);
}
EMULATED static void ptx_cp_async_wait_all() {
    emulator->close_copies();
    emulator->wait_copies(0);
}
EMULATED static void ptx_fence_proxy_async_shared__cta() {
}
EMULATED static void ptx_fence_proxy_async() {
}
EMULATED static void ptx_griddepcontrol_wait() {
}
EMULATED static void ptx_griddepcontrol_launch_dependents() {
}
EMULATED static void ptx_bar_sync(int name, int count) {
    emulator->wait_named(name, count);
}
EMULATED static void ptx_bar_warp_sync(unsigned team = 0xffffffff) {
    emulator->sync_warp(team);
}

/* Cluster barriers: the wait is also the arrival. */
EMULATED static void ptx_barrier_cluster_arrive_aligned() {
}
EMULATED static void ptx_barrier_cluster_arrive_relaxed_aligned() {
}
EMULATED static void ptx_barrier_cluster_wait_aligned() {
    emulator->wait_cluster();
}
EMULATED static void ptx_mov_u32_cluster_ctarank(unsigned &rank) {
    rank = (unsigned)emulator->rank;
}
EMULATED static void ptx_mapa_shared__cluster_u32(unsigned &to, unsigned from, int rank) {
    to = emulator->map_rank(from, rank);
}

/* mbarriers and TMA copies. */
EMULATED static void ptx_mbarrier_init_shared__cta_b64(unsigned barrier, unsigned arrivals) {
    emulator->start_round(barrier, arrivals);
}
EMULATED static void ptx_fence_mbarrier_init_release_cluster() {
}
EMULATED static void ptx_mbarrier_arrive_shared__cta_b64(unsigned barrier) {
    emulator->arrive(barrier, 0);
}
EMULATED static void ptx_mbarrier_arrive_expect_tx_shared__cta_b64(unsigned barrier, unsigned bytes) {
    emulator->arrive(barrier, bytes);
}
EMULATED static void ptx_mbarrier_try_wait_parity_shared__cta_b64(unsigned &over, unsigned barrier, unsigned parity) {
    emulator->wait_round(barrier, parity);
    over = 1;
}
EMULATED static void ptx_mbarrier_inval_shared__cta_b64(unsigned barrier) {
    emulator->end_rounds(barrier);
}
EMULATED static void ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(unsigned to, const void *from,
                                                                                           unsigned bytes,
                                                                                           unsigned barrier) {
    emulator->bring_bytes(to, from, bytes, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_2d_shared__cluster_global_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int x, int y, unsigned barrier) {
    emulator->bring(to, map, x, y, false, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_5d_shared__cluster_global_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int x, int first, int second, int third, int y, unsigned barrier) {
    if (first || second || third) emulator->refuse("brings a part of lines that are dealt out");
    emulator->bring(to, map, x, y * 32, true, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_4d_shared__cluster_global_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int channel, int x, int y, int image, unsigned barrier) {
    const int at[] = {x, y, image};
    emulator->bring_patch(to, map, channel, false, at, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_3d_shared__cluster_global_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int element, int y, int image, unsigned barrier) {
    const int at[] = {0, y, image};
    emulator->bring_patch(to, map, element, true, at, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_4d_shared__cluster_global_im2col_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int channel, int x, int y, int image, unsigned barrier, unsigned short column,
    unsigned short row) {
    const int at[] = {x, y, image}, tap[] = {column, row};
    emulator->bring_windows(to, map, channel, at, tap, barrier);
}
EMULATED static void ptx_cp_async_bulk_tensor_5d_shared__cluster_global_im2col_mbarrier__complete_tx__bytes(
    unsigned to, const void *map, int channel, int x, int y, int z, int image, unsigned barrier, unsigned short column,
    unsigned short row, unsigned short plane) {
    const int at[] = {x, y, z, image}, tap[] = {column, row, plane};
    emulator->bring_windows(to, map, channel, at, tap, barrier);
}
EMULATED static void ptx_setmaxnreg_inc_sync_aligned_u32(int) {
}
EMULATED static void ptx_setmaxnreg_dec_sync_aligned_u32(int) {
}

/* Accesses of system scope. */
template <class WORD, class P> EMULATED static void emulated_load_system(WORD *to, int count, P from) {
    emulator->load((const void *)from, to, sizeof(WORD), count);
}
template <class WORD, class P> EMULATED static void ptx_ld_relaxed_sys_global_u64(WORD &a, P from) {
    static_assert(sizeof(WORD) == 8, "a word of another size");
    emulated_load_system(&a, 1, from);
}
template <class P> EMULATED static void ptx_ld_relaxed_sys_global_u32(unsigned &a, P from) {
    emulated_load_system(&a, 1, from);
}
template <class WORD, class P> EMULATED static void ptx_ld_relaxed_sys_global_v2_u64(WORD &a, WORD &b, P from) {
    static_assert(sizeof(WORD) == 8, "words of another size");
    WORD both[2];
    emulated_load_system(both, 2, from);
    a = both[0], b = both[1];
}
template <class P> EMULATED static void ptx_st_relaxed_sys_global_u64(P to, unsigned long long a) {
    emulator->store((void *)to, &a, sizeof a, 1);
}
template <class P> EMULATED static void ptx_st_relaxed_sys_global_u32(P to, unsigned a) {
    emulator->store((void *)to, &a, sizeof a, 1);
}
template <class P>
EMULATED static void ptx_st_relaxed_sys_global_v2_u64(P to, unsigned long long a, unsigned long long b) {
    const unsigned long long both[] = {a, b};
    emulator->store((void *)to, both, sizeof a, 2);
}
EMULATED static void ptx_fence_acq_rel_gpu() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EMULATED static void ptx_fence_acq_rel_cta() {
}
EMULATED static void ptx_fence_acq_rel_sys() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
template <class WORD> EMULATED static void ptx_mov_u64_globaltimer(WORD &time) {
    time = emulator->time();
}

/* @inside st.global: a store under a condition. */
template <class... WORDS> EMULATED static void ptx__inside(int inside, void *to, WORDS... words) {
    const unsigned all[] = {words...};
    for (unsigned i = 0; inside && i < sizeof all / sizeof *all; i++)
        ((unsigned *)to)[i] = all[i];
}

/* ---- Instructions: matrices (PTX ISA, "Matrix fragments for mma.m16n8k16" and its neighbours) ----------------------------------- */

/* Lane 8*i + j has the address of row j of matrix i. */
template <int COUNT, bool TURNED> EMULATED static void emulated_matrices(unsigned *to, unsigned from) {
    int lane = emulator->thread % 32;
    emulator->meet(0xffffffff, &from, sizeof from);
    for (int i = 0; i < COUNT; i++) {
        unsigned line, half[2];
        for (int h = 0; h < 1 + TURNED; h++) {
            memcpy(&line, emulator->shown(i * 8 + (TURNED ? lane % 4 * 2 + h : lane / 4)), sizeof line);
            if (line % 16) emulator->refuse("ldmatrix at %u, no multiple of 16", line);
            if (TURNED) half[h] = emulated_load<unsigned short>(line + (unsigned)lane / 4 * 2);
        }
        to[i] = TURNED ? half[0] | half[1] << 16 : emulated_load<unsigned>(line + (unsigned)lane % 4 * 4);
    }
}
template <bool TURNED>
EMULATED static void emulated_matrices4(unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned from) {
    unsigned to[4];
    emulated_matrices<4, TURNED>(to, from);
    a = to[0], b = to[1], c = to[2], d = to[3];
}
template <bool TURNED> EMULATED static void emulated_matrices2(unsigned &a, unsigned &b, unsigned from) {
    unsigned to[2];
    emulated_matrices<2, TURNED>(to, from);
    a = to[0], b = to[1];
}
#define ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16 emulated_matrices4<false>
#define ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16 emulated_matrices4<true>
#define ptx_ldmatrix_sync_aligned_m8n8_x2_shared_b16 emulated_matrices2<false>
#define ptx_ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16 emulated_matrices2<true>

/* Lane 8*i + j has the address of row j of matrix i, of which lane 4*j + n has elements 2*n and 2*n + 1. */
EMULATED static void ptx_stmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    const unsigned words[] = {a, b, c, d};
    int lane = emulator->thread % 32;
    emulator->meet(0xffffffff, &to, sizeof to);
    for (int i = 0; i < 4; i++) {
        unsigned line;
        memcpy(&line, emulator->shown(i * 8 + lane / 4), sizeof line);
        if (line % 16) emulator->refuse("stmatrix at %u, no multiple of 16", line);
        emulated_store(line + (unsigned)lane % 4 * 4, words[i]);
    }
}

/* A lane's fragments of A and B. */
struct emulated_fragments {
    unsigned a[4], b[2];
};
EMULATED static inline float emulated_tf32(unsigned word) {
    return __uint_as_float(word & ~0x1fffu);
}
EMULATED static inline float emulated_f16_half(unsigned word, int half) {
    return emulated_f16(word >> 16 * half & 0xffff);
}
EMULATED static inline float emulated_bf16_half(unsigned word, int half) {
    return emulated_bf16(word >> 16 * half & 0xffff);
}
/* A lane's words of A: rows lane/4 and lane/4 + 8 in the first half of the depth, then both in the second half. A word
 * holds PER consecutive elements along the depth; the next lane of the four that share a row holds the next ones. */
template <int PER, class SUM, class GET_A, class GET_B>
EMULATED static void emulated_product(SUM **c, const unsigned *a, const unsigned *b, GET_A get_a, GET_B get_b) {
    int lane = emulator->thread % 32;
    struct emulated_fragments own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    emulator->meet(0xffffffff, &own, sizeof own);
    const emulated_fragments *rows[4], *columns[2][4];
    for (int word = 0; word < 4; word++) {
        rows[word] = (const emulated_fragments *)emulator->shown(lane / 4 * 4 + word);
        for (int e = 0; e < 2; e++)
            columns[e][word] = (const emulated_fragments *)emulator->shown((lane % 4 * 2 + e) * 4 + word);
    }
    for (int e = 0; e < 4; e++) {
        SUM sum = 0;
        for (int half = 0; half < 2; half++) {
            for (int word = 0; word < 4; word++) {
                unsigned x = rows[word]->a[half * 2 + e / 2], y = columns[e % 2][word]->b[half];
                for (int part = 0; part < PER; part++)
                    sum += get_a(x, part) * get_b(y, part);
            }
        }
        *c[e] += sum;
    }
}
#define EMULATED_MMA_OF(name, sum, per, get_a, get_b)                                                                  \
    EMULATED static void name(sum &c0, sum &c1, sum &c2, sum &c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,  \
                              unsigned b0, unsigned b1) {                                                              \
        sum *c[4] = {&c0, &c1, &c2, &c3};                                                                              \
        const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};                                                       \
        emulated_product<per>(c, a, b, get_a, get_b);                                                                  \
    }
#define EMULATED_MMA(name, per, get) EMULATED_MMA_OF(name, float, per, get, get)
EMULATED static float emulated_tf32_part(unsigned word, int) {
    return emulated_tf32(word);
}
EMULATED_MMA(ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, 2, emulated_f16_half)
EMULATED_MMA(ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, 2, emulated_bf16_half)
EMULATED_MMA(ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32, 1, emulated_tf32_part)
EMULATED static int emulated_s8(unsigned word, int part) {
    return (signed char)(word >> 8 * part);
}
EMULATED static int emulated_u8(unsigned word, int part) {
    return (unsigned char)(word >> 8 * part);
}
EMULATED static float emulated_e4m3(unsigned word, int part) {
    unsigned code = word >> 8 * part & 0xff, rest = code & 0x7f;
    float a = rest == 0x7f ? __builtin_nanf("") : emulated_bits<float>(rest << 20) * 0x1p120f; /* corrects the bias */
    return code & 0x80 ? -a : a;
}
EMULATED static float emulated_e5m2(unsigned word, int part) {
    return emulated_f16((word >> 8 * part & 0xff) << 8);
}
#define EMULATED_MMA_BYTES(sum, a, b)                                                                   \
    EMULATED_MMA_OF(ptx_mma_sync_aligned_m16n8k32_row_col_##sum##_##a##_##b##_##sum, emulated_sum_##sum, 4, \
                    emulated_##a, emulated_##b)
typedef int emulated_sum_s32;
typedef float emulated_sum_f32;
EMULATED_MMA_BYTES(s32, s8, s8)
EMULATED_MMA_BYTES(s32, s8, u8)
EMULATED_MMA_BYTES(s32, u8, s8)
EMULATED_MMA_BYTES(s32, u8, u8)
EMULATED_MMA_BYTES(f32, e4m3, e4m3)
EMULATED_MMA_BYTES(f32, e4m3, e5m2)
EMULATED_MMA_BYTES(f32, e5m2, e4m3)
EMULATED_MMA_BYTES(f32, e5m2, e5m2)

/* ---- Instructions: products of warp groups (PTX ISA, "wgmma", "Matrix descriptor format") ---------------------------------------- */

EMULATED static void ptx_wgmma_fence_sync_aligned() {
}
EMULATED static void ptx_wgmma_commit_group_sync_aligned() {
}
/* Lets the warp's lanes continue when all have their products. */
EMULATED static void ptx_wgmma_wait_group_sync_aligned(int) {
    emulator->meet(0xffffffff, "", 0);
}

struct emulated_operand {
    unsigned start, leading, stride, width; /* in bytes; width: of the swizzled lines */
    bool turned;                            /* lines run across the depth */
};
EMULATED static emulated_operand emulated_describe(unsigned long long d, bool turned) {
    static const unsigned widths[] = {16, 128, 64, 32};
    return {(unsigned)(d & 0x3fff) << 4, (unsigned)(d >> 16 & 0x3fff) << 4, (unsigned)(d >> 32 & 0x3fff) << 4,
            widths[d >> 62], turned};
}
/* The types of elements: 32 bytes of the depth are one instruction's. */
#define EMULATED_ELEMENT(name, bits, value, expression)      \
    struct emulated_of_##name {                               \
        typedef bits word;                                    \
        typedef value sum;                                    \
        EMULATED static value get(word w) { return expression; } \
    };
EMULATED_ELEMENT(f16, unsigned short, float, emulated_f16_half(w, 0))
EMULATED_ELEMENT(bf16, unsigned short, float, emulated_bf16_half(w, 0))
EMULATED_ELEMENT(tf32, unsigned, float, emulated_tf32(w))
EMULATED_ELEMENT(s8, unsigned char, int, emulated_s8(w, 0))
EMULATED_ELEMENT(u8, unsigned char, int, emulated_u8(w, 0))
EMULATED_ELEMENT(e4m3, unsigned char, float, emulated_e4m3(w, 0))
EMULATED_ELEMENT(e5m2, unsigned char, float, emulated_e5m2(w, 0))
/* Address of element k along the depth of line `line`, of `size` bytes each; only those of two bytes can be turned. */
EMULATED static inline unsigned emulated_place(const emulated_operand &o, unsigned line, unsigned k, unsigned size) {
    unsigned at, per = o.width / 2;
    if (o.turned) {
        if (size != 2) emulator->refuse("wgmma with operands of %u bytes across the depth", size);
        at = o.start + line / per * o.leading + line % per * 2 + k / 8 * o.stride + k % 8 * o.width;
    } else {
        const unsigned byte = k * size; /* without a pattern, pieces of 16 bytes of the depth lie `leading` apart */
        at = o.start + line / 8 * o.stride + line % 8 * o.width;
        at += o.width == 16 ? byte / 16 * o.leading + byte % 16 : byte;
    }
    return at ^ ((at >> 7 & (o.width / 16 - 1)) << 4);
}
/* Reads a line's 32 bytes along the depth, 16 together where they lie together. Checks the accesses that are `share` of
 * eight; those of all eight if it is ALL_SHARES. */
enum { ALL_SHARES = -1 };
template <class OF>
EMULATED static inline void emulated_read_line(typename OF::sum *to, const emulated_operand &o, unsigned line,
                                               const char *shared, int share) {
    typedef typename OF::word word;
    const int together = o.turned ? 1 : 16 / (int)sizeof(word);
    for (int k = 0; k < 32 / (int)sizeof(word); k += together) {
        unsigned at = emulated_place(o, line, (unsigned)k, sizeof(word));
        if (share == ALL_SHARES || (int)(line / 8 + line % 2 * 2 + (unsigned)(k / together)) % 8 == share)
            emulator->shared_at(at, (size_t)together * sizeof(word), EMULATED_ALIGNED);
        for (int i = 0; i < together; i++)
            to[k + i] = OF::get(((const word *)(shared + at))[i]);
    }
}
/* Where shared memory would begin if addresses counted from zero. */
EMULATED static const char *emulated_shared_of(const emulated_operand &o) {
    return emulator->shared_at(o.start, 0, 0) - o.start;
}
/* Accumulates two rows, whose elements of A are `left`. Eight lanes read the same columns of B: each checks an eighth
 * of these accesses and reads the rest unchecked. */
template <class OF>
EMULATED static void emulated_rows_product(typename OF::sum **c, int columns, const typename OF::sum (&left)[2][32],
                                           const emulated_operand &b) {
    int lane = emulator->thread % 32;
    const char *shared = emulated_shared_of(b);
    for (int j = 0; j < columns / 8; j++) {
        for (int e = 0; e < 2; e++) {
            typename OF::sum sums[2] = {0, 0}, right[32];
            emulated_read_line<OF>(right, b, (unsigned)(j * 8 + lane % 4 * 2 + e), shared, lane / 4);
            for (int k = 0; k < 32 / (int)sizeof(typename OF::word); k++) {
                sums[0] += left[0][k] * right[k];
                sums[1] += left[1][k] * right[k];
            }
            *c[j * 4 + e] += sums[0];
            *c[j * 4 + 2 + e] += sums[1];
        }
    }
}
template <class OF_A, class OF_B>
EMULATED static void emulated_group_product(typename OF_A::sum **c, int columns, const emulated_operand &a,
                                            const emulated_operand &b) {
    int lane = emulator->thread % 32, first = emulator->thread / 32 % 4 * 16 + lane / 4;
    typename OF_A::sum left[2][32];
    for (int row = 0; row < 2; row++)
        emulated_read_line<OF_A>(left[row], a, (unsigned)(first + row * 8), emulated_shared_of(a), ALL_SHARES);
    emulated_rows_product<OF_B>(c, columns, left, b);
}
/* With A in registers, two elements in each, laid out as for emulated_product. */
template <class OF>
EMULATED static void emulated_group_product(float **c, int columns, const unsigned (&a)[4], const emulated_operand &b) {
    int lane = emulator->thread % 32;
    struct emulated_fragments own = {{a[0], a[1], a[2], a[3]}, {0, 0}};
    float left[2][32];
    emulator->meet(0xffffffff, &own, sizeof own);
    for (int e = 0; e < 32; e++) {
        const void *from = emulator->shown(lane / 4 * 4 + e % 8 / 2);
        unsigned pair = ((const emulated_fragments *)from)->a[e % 16 / 8 * 2 + e / 16];
        left[e / 16][e % 16] = OF::get((typename OF::word)(pair >> e % 2 * 16));
    }
    emulated_rows_product<OF>(c, columns, left, b);
}
/* Takes the accumulators one by one, then the operands: descriptors, or a thread's registers of A; and, where it is no
 * constant, whether the accumulators count or are zeros. */
template <class OF_A, class OF_B> struct emulated_wgmma {
    typedef typename OF_A::sum sum;
    sum *c[128];
    int given;
    EMULATED void check(int n) {
        if (given != n / 2) emulator->refuse("wgmma with %d sums of a thread for %d columns", given, n);
    }
    EMULATED void take(int n, bool ta, bool tb, unsigned long long a, unsigned long long b, int add = 1) {
        check(n);
        for (int i = 0; i < given && !add; i++)
            *c[i] = 0;
        emulated_group_product<OF_A, OF_B>(c, n, emulated_describe(a, ta), emulated_describe(b, tb));
    }
    EMULATED void take(int n, bool, bool tb, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned long long b) {
        const unsigned a[4] = {a0, a1, a2, a3};
        check(n);
        emulated_group_product<OF_A>(c, n, a, emulated_describe(b, tb));
    }
    template <class... OPERANDS> EMULATED void take(int n, bool ta, bool tb, sum &one, OPERANDS &&...more) {
        c[given++] = &one;
        take(n, ta, tb, (OPERANDS &&)more...);
    }
};
template <class OF_A, class OF_B, class... OPERANDS>
EMULATED static void emulated_wgmma_of(int n, bool ta, bool tb, OPERANDS &&...operands) {
    emulated_wgmma<OF_A, OF_B> w;
    w.given = 0;
    w.take(n, ta, tb, (OPERANDS &&)operands...);
}

/* ---- Kernels and their metadata -------------------------------------------------------------------------------------------------- */

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));
EMULATED extern struct emulated_object emulated_object;
struct emulated_object emulated_object = {&emulator, __ehdr_start, _end};
}

template <int... I> struct emulated_numbers {};
template <int N, int... I> struct emulated_count : emulated_count<N - 1, N - 1, I...> {};
template <int... I> struct emulated_count<0, I...> {
    typedef emulated_numbers<I...> type;
};
template <class A> EMULATED static A emulated_argument(const void *parameter) {
    A value;
    memcpy(&value, parameter, sizeof value);
    return value;
}
template <class... A, int... I>
EMULATED static void emulated_spread(void (*kernel)(A...), void *const *parameters, emulated_numbers<I...>) {
    kernel(emulated_argument<A>(parameters[I])...);
}
template <class... A> EMULATED static void emulated_call(void (*kernel)(A...), void *const *parameters) {
    emulated_spread(kernel, parameters, typename emulated_count<sizeof...(A)>::type());
}
/* Tensor maps are the only parameters of 128 bytes. */
template <class... A> constexpr int emulated_maps(void (*)(A...)) {
    return (0 + ... + (sizeof(A) == 128));
}
template <class... A> constexpr int emulated_parameters(void (*)(A...)) {
    return sizeof...(A);
}

/* ---- Instrumentation -------------------------------------------------------------------------------------------------------------- */

extern "C" {
#define EMULATED_HOOK extern "C" EMULATED __attribute__((visibility("hidden"), used)) void
EMULATED_HOOK __tsan_init() {
}
EMULATED_HOOK __tsan_func_entry(void *) {
}
EMULATED_HOOK __tsan_func_exit(void *) {
}
/* Most accesses are to a thread's own stack, which only it may touch: those are not worth a call. */
EMULATED static inline bool emulated_is_own(const void *at, size_t alignment) {
    return (size_t)((const char *)at - emulator->stack) < EMULATED_STACK && (uintptr_t)at % alignment == 0;
}
#define EMULATED_ACCESS(size)                                                                              \
    EMULATED_HOOK __tsan_read##size(void *at) {                                                            \
        if (!emulated_is_own(at, size)) emulator->access(at, size, EMULATED_ALIGNED);                      \
    }                                                                                                      \
    EMULATED_HOOK __tsan_write##size(void *at) {                                                           \
        if (!emulated_is_own(at, size)) emulator->access(at, size, EMULATED_ALIGNED | EMULATED_WRITE);     \
    }                                                                                                      \
    EMULATED_HOOK __tsan_unaligned_read##size(void *at) {                                                  \
        if (!emulated_is_own(at, 1)) emulator->access(at, size, 0);                                        \
    }                                                                                                      \
    EMULATED_HOOK __tsan_unaligned_write##size(void *at) {                                                 \
        if (!emulated_is_own(at, 1)) emulator->access(at, size, EMULATED_WRITE);                           \
    }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
EMULATED_HOOK __tsan_read_range(void *at, long size) {
    emulator->access(at, (size_t)size, 0);
}
EMULATED_HOOK __tsan_write_range(void *at, long size) {
    emulator->access(at, (size_t)size, EMULATED_WRITE);
}

struct emulated_place_in_text {
    const char *file;
    unsigned line, column;
};
#define EMULATED_UNDEFINED(name, what, ...)                                                            \
    EMULATED_HOOK __ubsan_handle_##name(void *at, __VA_ARGS__) {                                        \
        const emulated_place_in_text *place = (const emulated_place_in_text *)at;                       \
        emulator->refuse("%s in line %u, column %u", what, place->line, place->column);                \
    }
EMULATED_UNDEFINED(out_of_bounds, "an index beyond its array", void *)
EMULATED_UNDEFINED(add_overflow, "a sum overflows", void *, void *)
EMULATED_UNDEFINED(sub_overflow, "a difference overflows", void *, void *)
EMULATED_UNDEFINED(mul_overflow, "a product overflows", void *, void *)
EMULATED_UNDEFINED(negate_overflow, "a negation overflows", void *)
EMULATED_UNDEFINED(divrem_overflow, "a division by zero, or one that overflows,", void *, void *)
}
