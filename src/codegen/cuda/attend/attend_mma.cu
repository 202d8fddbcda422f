// Attention's products on the tensor cores (mma.sync).

// Queries times keys, 32 bytes of the depth at a time.
__device__ __forceinline__ void score(float *scores, int queries_at, int keys_at) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned queries = shared_address(queries_at + warp / WARPS_N * 16 * LINE);
    const unsigned keys = shared_address(keys_at + warp % WARPS_N * KEYS * LINE);
#pragma unroll
    for (int e = 0; e < BLOCKS * R * C; e++)
        scores[e] = 0;
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

// 0 for NaN.
__device__ __forceinline__ unsigned weight(float x) {
    return to_tf32(fmaxf(x, 0));
}

// The same, 8 keys at a time. Key t of the instruction is key 2t here, and its key t + 4 is key 2t + 1, so that each
// thread already holds the weights that it supplies.
__device__ __forceinline__ void sum_tf32(float *sums, const float *weights, unsigned values) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        const float *w = weights + j * 4;
        const unsigned a[4] = {weight(w[0]), weight(w[2]), weight(w[1]), weight(w[3])};
#pragma unroll
        for (int i = 0; i < BLOCKS_V; i++) {
            const int key = j * 8 + lane % 4 * 2, byte = (i * 8 + lane / 4) * 4;
            const unsigned b0 = load_word(values + place<LINE_V>(key, byte));
            const unsigned b1 = load_word(values + place<LINE_V>(key + 1, byte));
            multiply_add(sums + i * 4, a, to_tf32(__uint_as_float(b0)), to_tf32(__uint_as_float(b1)));
        }
    }
}

__device__ __forceinline__ void sum(float *sums, const float *weights, int values_at) {
    const unsigned values = shared_address(values_at + threadIdx.x / 32 % WARPS_N * KEYS * LINE_V);
    if constexpr (MATH == TF32)
        sum_tf32(sums, weights, values);
    else
        sum_halves(sums, weights, values);
}
