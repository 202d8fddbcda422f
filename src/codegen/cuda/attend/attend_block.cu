// Attention with an online softmax: Rabe and Staats 2021, Dao et al. 2022.
//
// A block does ROWS queries of one head, in steps of STEP keys. Its warps form a grid of WARPS_M x WARPS_N: each does
// 16 of the queries and KEYS of a step's keys, with its own running maximum, running sum and unnormalised result, so
// that warps synchronise only to share copied data. The elements of a thread:
//
//     scores[(j * R + r) * C + c]    query 16 * m + lane / L + r * (16 / R), key KEYS * n + (j * L + lane % L) * C + c
//     sums[(j * R + r) * CV + c]     the same query, column (j * L + lane % L) * CV + c
//
// On tensor cores this is the register layout of the instructions' results. The kernel's loops change the scores
// between multiply and accumulate, and divide by the sums after finish.
//
// This file has the constants and what weights are; attend_copy.cu has the copies, one of attend_fma.cu, attend_mma.cu and
// attend_wgmma.cu the products, attend.cu the steps. With few queries (DIRECT), attend_direct.cu has all of it. With a warp
// that copies for the others (SERVED), attend_served.cu has the steps.

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS, ROWS = DIRECT ? 8 : 16 * WARPS_M, STEP = KEYS * WARPS_N;
constexpr bool CORES = MATH == FMA;
constexpr int L = CORES ? 8 : 4, R = CORES ? 4 : DIRECT ? 1 : 2, C = CORES ? 1 : 2, CV = CORES ? 4 : 2;
constexpr int BLOCKS = KEYS / (L * C), BLOCKS_V = COLUMNS / (L * CV);
// Offsets in shared memory.
constexpr int KEYS_AT = ROWS * LINE, VALUES_AT = STEP * LINE, STAGE = STEP * (LINE + LINE_V);
constexpr int WEIGHT_ROW = KEYS + 4, WEIGHTS_AT = KEYS_AT + STAGES * STAGE;

__device__ __forceinline__ char *memory() {
    extern __shared__ __align__(1024) char ig_shared[];
    return ig_shared;
}

__device__ __forceinline__ unsigned shared_address(int byte) {
    return (unsigned)__cvta_generic_to_shared(memory()) + byte;
}

// ---- Weights ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7f800000);
}

// 2^x; results below 2^-126 are flushed to zero.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Weights are exp(scale * score), relative to the largest score. If tensor-core products follow, they are computed as
// 2^(score * factor(most) - base(most)): one rounding and one instruction before the power. That base is rounded does
// not matter: all weights of a row are relative to it, and `correction` is known. Large scores differ by so much that
// all but the largest have weight zero; their factor is scale itself, so that base is exact and nothing overflows.
__device__ __forceinline__ bool is_large(float most, float scale) {
    return !(fabsf(most) < 0x1p27f / scale); // scale is a constant
}

__device__ __forceinline__ float factor(float most, float scale) {
    return is_large(most, scale) ? scale : scale * 1.44269504f;
}

__device__ __forceinline__ float base(float most, float scale) {
    return most == -infinity() ? 0 : most * factor(most, scale);
}

__device__ __forceinline__ float correction(float most, float scale) {
    if (CORES || is_large(most, scale)) return 1;
    return power_of_two(-fmaf(most, factor(most, scale), -base(most, scale)));
}

// The factor that rescales sums from a previous maximum, no larger, to this one. A choice and no branch, which would keep the
// rows of a thread from being computed side by side.
__device__ __forceinline__ float change(float from, float most, float scale) {
    const float by = CORES ? expf(from - most) : power_of_two(from * factor(most, scale) - base(most, scale));
    return from == most ? 1 : by;
}

// Sums and maxima of a row's elements in a thread are taken in several chains, so that none waits for the one before.
constexpr int CHAINS = BLOCKS * C % 4 == 0 ? 4 : 1;

// The largest score of a row, in all threads that share it, or `most` if that is larger.
__device__ __forceinline__ float largest(const float *scores, int r, float most) {
    float chain[CHAINS];
#pragma unroll
    for (int e = 0; e < BLOCKS * C; e++) {
        const float x = scores[(e / C * R + r) * C + e % C];
        chain[e % CHAINS] = e < CHAINS ? x : fmaxf(chain[e % CHAINS], x);
    }
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        most = fmaxf(most, chain[i]);
#pragma unroll
    for (int apart = 1; apart < L; apart *= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, apart));
    return most;
}

// Replaces the scores of a row by weights; returns their sum.
__device__ __forceinline__ float weigh(float *scores, int r, float most, float scale) {
    const float by = factor(most, scale), from = base(most, scale);
    float chain[CHAINS] = {}, total = 0;
#pragma unroll
    for (int e = 0; e < BLOCKS * C; e++) {
        float &x = scores[(e / C * R + r) * C + e % C];
        x = CORES ? expf(x - (most == -infinity() ? 0 : most)) : power_of_two(fmaf(x, by, -from));
        chain[e % CHAINS] += x;
    }
#pragma unroll
    for (int i = 0; i < CHAINS; i++)
        total += chain[i];
    return total;
}

// Rounds two numbers to the operands' type and packs them.
__device__ __forceinline__ unsigned round_pair(float low, float high) {
    unsigned word;
    if constexpr (MATH == F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// Packs two weights for the tensor cores. If NaN weights count as zeros (REPAIRED), they do not spread: a row's sum of weights,
// which is NaN, says what becomes of its results.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word = round_pair(low, high);
    if constexpr (!REPAIRED)
        return word;
    else if constexpr (MATH == F16)
        asm("max.f16x2 %0, %1, %2;" : "=r"(word) : "r"(word), "r"(0));
    else
        asm("max.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(word), "r"(0));
    return word;
}

// ---- Threads ---------------------------------------------------------------------------------------------------------

// The number of this thread's warp, in a form that compilers know to be the same for all of the warp.
__device__ __forceinline__ int warp_number() {
    return __shfl_sync(0xffffffff, (int)threadIdx.x / 32, 0);
}

// A barrier of the threads that multiply.
__device__ __forceinline__ void meet_workers() {
    if constexpr (SERVED)
        asm volatile("bar.sync %0, %1;" ::"r"(1), "r"((int)THREADS) : "memory");
    else
        __syncthreads();
}

// ---- Clusters --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ int cluster_rank() {
    unsigned rank = 0;
    if constexpr (SPLIT > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}
