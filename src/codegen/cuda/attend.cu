// Attention with an online softmax: Rabe and Staats 2021, Dao et al. 2022.
//
// A block does ROWS queries of one head, in steps of STEP keys. Its warps are a grid of WARPS_M x WARPS_N: each does 16 of
// the queries and KEYS of a step's keys, with a running maximum, a running sum and an unfinished result of its own, so that
// warps meet only to share what is copied. Where a thread has its elements:
//
//     scores[(j * R + r) * C + c]    query 16 * m + lane / L + r * (16 / R), key KEYS * n + (j * L + lane % L) * C + c
//     sums[(j * R + r) * CV + c]     the same query, column (j * L + lane % L) * CV + c
//
// On tensor cores (mma.sync) this is the order in which the instructions give their results. The kernel's loops change
// the scores between multiply and accumulate, and divide by the sums after finish.

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS, ROWS = 16 * WARPS_M, STEP = KEYS * WARPS_N;
constexpr bool CORES = MATH == FMA;
constexpr int L = CORES ? 8 : 4, R = CORES ? 4 : 2, C = CORES ? 1 : 2, CV = CORES ? 4 : 2;
constexpr int BLOCKS = KEYS / (L * C), BLOCKS_V = COLUMNS / (L * CV);
// Bytes of lines, and where things are in shared memory.
constexpr int LINE = DEPTH * ELEMENT, LINE_V = COLUMNS * ELEMENT;
constexpr int KEYS_AT = ROWS * LINE, VALUES_AT = STEP * LINE, STAGE = STEP * (LINE + LINE_V);
constexpr int WEIGHT_ROW = KEYS + 4, WEIGHTS_AT = KEYS_AT + STAGES * STAGE;

// ---- Copies ----------------------------------------------------------------------------------------------------------

// The position of a byte in a set of lines of BYTES bytes. The 16-byte chunks of a line are permuted by the line's number,
// so that eight lines read at the same place fall into different banks.
template <int BYTES> __device__ __forceinline__ unsigned place(int line, int byte) {
    constexpr int chunks = BYTES % 128 == 0 ? 8 : BYTES % 64 == 0 ? 4 : BYTES % 32 == 0 ? 2 : 1;
    return line * BYTES + ((byte / 16) ^ (line / (8 / chunks) % chunks)) * 16 + byte % 16;
}

__device__ __forceinline__ char *memory() {
    extern __shared__ __align__(1024) char ig_shared[];
    return ig_shared;
}

__device__ __forceinline__ unsigned shared_address(int byte) {
    return (unsigned)__cvta_generic_to_shared(memory()) + byte;
}

// Copies LINES lines, `ld` elements apart, of which `bytes` bytes exist; clears what is beyond them and beyond `left` lines.
// Done by threads thread, thread + COUNT, ….
template <int LINES, int BYTES, int COUNT>
__device__ __forceinline__ void copy(unsigned to, const char *from, long long ld, int left, int bytes, int thread) {
    constexpr int units = BYTES / 16;
#pragma unroll
    for (int i = 0; i < (LINES * units + COUNT - 1) / COUNT; i++) {
        const int unit = thread + i * COUNT, line = unit / units, byte = unit % units * 16;
        const bool inside = line < left && byte < bytes;
        if (LINES * units % COUNT == 0 || unit < LINES * units)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to + place<BYTES>(line, byte)),
                         "l"(from + (inside ? line * ld * ELEMENT + byte : 0)), "r"(inside ? 16 : 0));
    }
}

__device__ __forceinline__ void close_copies() {
    asm volatile("cp.async.commit_group;" ::);
}

// Waits until all but the newest LEFT groups of copies have arrived.
template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Where warps share no keys, each copies its own.
constexpr bool OWN = WARPS_M == 1;

template <int BYTES>
__device__ __forceinline__ void copy_keys(int at, const void *from, long long ld, long long first, long long keys,
                                          int bytes) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if constexpr (OWN) first += warp * KEYS;
    const long long left = keys - first;
    const int some = left < STEP ? left < 0 ? 0 : (int)left : STEP;
    const char *line = (const char *)from + (some ? first * ld * ELEMENT : 0);
    if constexpr (OWN)
        copy<KEYS, BYTES, 32>(shared_address(at + warp * KEYS * BYTES), line, ld, some, bytes, lane);
    else
        copy<STEP, BYTES, THREADS>(shared_address(at), line, ld, some, bytes, threadIdx.x);
}

// The keys and values of a step, a group of copies each.
__device__ __forceinline__ void copy_step(long long step, const void *k, long long ldk, const void *v, long long ldv,
                                          long long keys) {
    const int at = KEYS_AT + (int)(step % STAGES) * STAGE;
    if (step * STEP < keys) copy_keys<LINE>(at, k, ldk, step * STEP, keys, DEPTH_BYTES);
    close_copies();
    if (step * STEP < keys) copy_keys<LINE_V>(at + VALUES_AT, v, ldv, step * STEP, keys, COLUMN_BYTES);
    close_copies();
}

// What all threads that share keys have copied is seen by all of them.
__device__ __forceinline__ void meet(bool first) {
    if (OWN && !first)
        __syncwarp();
    else
        __syncthreads();
}

// ---- Products --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float4 load_four(unsigned from) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(from));
    return x;
}

// Two weights as the tensor cores read them.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    if constexpr (MATH == F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// Queries times keys, 32 bytes of the depth at a time.
__device__ __forceinline__ void score_on_tensor_cores(float *scores, unsigned queries, unsigned keys) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int byte = 0; byte < LINE; byte += 32) {
        unsigned a[4];
        load_matrices(a, queries + place<LINE>(lane % 16, byte + lane / 16 * 16));
        round_words(a);
#pragma unroll
        for (int j = 0; j < BLOCKS; j += 2) {
            unsigned b[4];
            load_matrices(b, keys + place<LINE>(j * 8 + lane / 16 * 8 + lane % 8, byte + lane / 8 % 2 * 16));
            round_words(b);
            multiply_add(scores + j * 4, a, b[0], b[1]);
            multiply_add(scores + j * 4 + 4, a, b[2], b[3]);
        }
    }
}

// Weights times values, 16 keys at a time.
__device__ __forceinline__ void sum_halves(float *sums, const float *weights, unsigned values) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BLOCKS; j += 2) {
        const float *w = weights + j * 4;
        const unsigned a[4] = {pack(w[0], w[1]), pack(w[2], w[3]), pack(w[4], w[5]), pack(w[6], w[7])};
#pragma unroll
        for (int i = 0; i < BLOCKS_V; i += 2) {
            unsigned b[4];
            load_transposed(b, values + place<LINE_V>(j * 8 + lane % 16, (i * 8 + lane / 16 * 8) * 2));
            multiply_add(sums + i * 4, a, b[0], b[1]);
            multiply_add(sums + i * 4 + 4, a, b[2], b[3]);
        }
    }
}

// The same, 8 keys at a time. The instruction's key t is key 2t here and its key t + 4 is key 2t + 1, so that each thread
// already has the weights that it gives.
__device__ __forceinline__ void sum_tf32(float *sums, const float *weights, unsigned values) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        const float *w = weights + j * 4;
        const unsigned a[4] = {to_tf32(w[0]), to_tf32(w[2]), to_tf32(w[1]), to_tf32(w[3])};
#pragma unroll
        for (int i = 0; i < BLOCKS_V; i++) {
            const int key = j * 8 + lane % 4 * 2, byte = (i * 8 + lane / 4) * 4;
            const unsigned b0 = load_word(values + place<LINE_V>(key, byte));
            const unsigned b1 = load_word(values + place<LINE_V>(key + 1, byte));
            multiply_add(sums + i * 4, a, to_tf32(__uint_as_float(b0)), to_tf32(__uint_as_float(b1)));
        }
    }
}

__device__ __forceinline__ float dot(float sum, float4 a, float4 b) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void score_on_cores(float *scores, unsigned queries, unsigned keys) {
    const int lane = threadIdx.x % 32;
#pragma unroll 4
    for (int byte = 0; byte < LINE; byte += 16) {
        float4 q[R];
#pragma unroll
        for (int r = 0; r < R; r++)
            q[r] = load_four(queries + place<LINE>(lane / L + r * (16 / R), byte));
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            const float4 k = load_four(keys + place<LINE>(j * L + lane % L, byte));
#pragma unroll
            for (int r = 0; r < R; r++)
                scores[j * R + r] = dot(scores[j * R + r], q[r], k);
        }
    }
}

// Weights go through shared memory, for each thread needs those of all keys.
__device__ __forceinline__ void sum_on_cores(float *sums, const float *weights, unsigned values) {
    const int lane = threadIdx.x % 32;
    float *own = (float *)(memory() + WEIGHTS_AT) + threadIdx.x / 32 * 16 * WEIGHT_ROW;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < BLOCKS * R; e++)
        own[(lane / L + e % R * (16 / R)) * WEIGHT_ROW + e / R * L + lane % L] = weights[e];
    __syncwarp();
#pragma unroll 2
    for (int key = 0; key < KEYS; key += 4) {
        float w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            *(float4 *)w[r] = *(const float4 *)(own + (lane / L + r * (16 / R)) * WEIGHT_ROW + key);
#pragma unroll
        for (int i = 0; i < BLOCKS_V; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float4 v = load_four(values + place<LINE_V>(key + k, (i * L + lane % L) * 16));
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float *sum = sums + (i * R + r) * CV;
                    sum[0] = fmaf(w[r][k], v.x, sum[0]), sum[1] = fmaf(w[r][k], v.y, sum[1]);
                    sum[2] = fmaf(w[r][k], v.z, sum[2]), sum[3] = fmaf(w[r][k], v.w, sum[3]);
                }
            }
    }
}

// ---- The steps of a tile ---------------------------------------------------------------------------------------------

__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7f800000);
}

// Where narrow products follow, a weight of less than 2^-126 is nothing.
__device__ __forceinline__ float power(float x) {
    if constexpr (CORES) return expf(x);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}

// state: R running maxima, then R running sums of this thread's share of the keys.
__device__ __forceinline__ void begin(float *sums, float *state, const void *q, long long ldq, long long queries,
                                      const void *k, long long ldk, const void *v, long long ldv, long long keys) {
    copy<ROWS, LINE, THREADS>(shared_address(0), (const char *)q, ldq, queries < ROWS ? (int)queries : ROWS, DEPTH_BYTES,
                              threadIdx.x);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        copy_step(s, k, ldk, v, ldv, keys);
#pragma unroll
    for (int e = 0; e < BLOCKS_V * R * CV; e++)
        sums[e] = 0;
#pragma unroll
    for (int r = 0; r < R; r++)
        state[r] = -infinity(), state[R + r] = 0;
}

// The scores of a step; copies run STAGES - 1 steps ahead.
__device__ __forceinline__ void multiply(float *scores, long long step, const void *k, long long ldk, const void *v,
                                         long long ldv, long long keys) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int e = 0; e < BLOCKS * R * C; e++)
        scores[e] = 0;
    wait_for_copies<2 * STAGES - 3>();
    meet(step == 0);
    copy_step(step + STAGES - 1, k, ldk, v, ldv, keys);
    const unsigned q = shared_address(warp / WARPS_N * 16 * LINE);
    const unsigned from = shared_address(KEYS_AT + (int)(step % STAGES) * STAGE + warp % WARPS_N * KEYS * LINE);
    if constexpr (CORES)
        score_on_cores(scores, q, from);
    else
        score_on_tensor_cores(scores, q, from);
}

// Adds the values of a step, weighted by the exponentials of the scores. A row that has met nothing but -infinity has
// that as its maximum and no sum. Where a score is NaN, or infinity, the sum of the weights becomes NaN, but not the
// results, which are still asked for where a model takes NaN weights for zero.
__device__ __forceinline__ void accumulate(float *scores, float *sums, float *state, long long step) {
#pragma unroll
    for (int r = 0; r < R; r++) {
        float most = state[r];
#pragma unroll
        for (int e = 0; e < BLOCKS * C; e++)
            most = fmaxf(most, scores[(e / C * R + r) * C + e % C]);
#pragma unroll
        for (int apart = 1; apart < L; apart *= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, apart));
        const float base = most == -infinity() ? 0 : most, scale = state[r] == most ? 1 : power(state[r] - base);
        float sum = state[R + r] * scale;
#pragma unroll
        for (int e = 0; e < BLOCKS * C; e++) {
            float &score = scores[(e / C * R + r) * C + e % C];
            const float weight = power(score - base);
            sum += weight;
            score = fmaxf(weight, 0); // 0 for NaN
        }
#pragma unroll
        for (int e = 0; e < BLOCKS_V * CV; e++)
            sums[(e / CV * R + r) * CV + e % CV] *= scale;
        state[r] = most;
        state[R + r] = sum;
    }
    wait_for_copies<2 * STAGES - 2>();
    meet(false);
    const int at = KEYS_AT + (int)(step % STAGES) * STAGE + VALUES_AT;
    const unsigned values = shared_address(at + threadIdx.x / 32 % WARPS_N * KEYS * LINE_V);
    if constexpr (CORES)
        sum_on_cores(sums, scores, values);
    else if constexpr (MATH == TF32)
        sum_tf32(sums, scores, values);
    else
        sum_halves(sums, scores, values);
}

// Leaves the unfinished results [WARPS_N][ROWS][TILE_ROW], maxima and sums [WARPS_N][ROWS] at the beginning of the shared
// memory.
__device__ __forceinline__ void finish(float *tile, const float *sums, const float *state) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    wait_for_copies<0>();
    __syncthreads();
    const int first = warp % WARPS_N * ROWS + warp / WARPS_N * 16 + lane / L;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int row = first + r * (16 / R);
        float sum = state[R + r];
#pragma unroll
        for (int apart = 1; apart < L; apart *= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, apart);
        if (lane % L == 0) {
            float *statistics = tile + WARPS_N * ROWS * TILE_ROW;
            statistics[row] = state[r];
            statistics[WARPS_N * ROWS + row] = sum;
        }
#pragma unroll
        for (int j = 0; j < BLOCKS_V; j++) {
            float *to = tile + row * TILE_ROW + (j * L + lane % L) * CV;
            const float *from = sums + (j * R + r) * CV;
            if constexpr (CV == 4)
                *(float4 *)to = make_float4(from[0], from[1], from[2], from[3]);
            else
                *(float2 *)to = make_float2(from[0], from[1]);
        }
    }
}
