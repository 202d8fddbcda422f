// Attention's products on the CUDA cores.

__device__ __forceinline__ float4 load_four(unsigned from) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(from));
    return x;
}

__device__ __forceinline__ float dot(float sum, float4 a, float4 b) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void score(float *scores, int queries_at, int keys_at) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned queries = shared_address(queries_at + warp / WARPS_N * 16 * LINE);
    const unsigned keys = shared_address(keys_at + warp % WARPS_N * KEYS * LINE);
#pragma unroll
    for (int e = 0; e < BLOCKS * R * C; e++)
        scores[e] = 0;
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

// Weights go through shared memory, since each thread needs those of all keys.
__device__ __forceinline__ void sum(float *sums, const float *weights, int values_at) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned values = shared_address(values_at + warp % WARPS_N * KEYS * LINE_V);
    float *own = (float *)(memory() + WEIGHTS_AT) + warp * 16 * WEIGHT_ROW;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < BLOCKS * R; e++)
        own[(lane / L + e % R * (16 / R)) * WEIGHT_ROW + e / R * L + lane % L] = fmaxf(weights[e], 0); // 0 for NaN
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
