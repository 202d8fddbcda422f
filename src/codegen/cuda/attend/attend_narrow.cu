// ---- Narrow results --------------------------------------------------------------------------------------------------

// What a row's sums are multiplied by. `none`: there are no keys, and all results are zero.
__device__ __forceinline__ float normalizer(float most, float total, bool none) {
#pragma unroll
    for (int apart = 1; apart < L; apart *= 2)
        total += __shfl_xor_sync(0xffffffff, total, apart);
    if (GUARDED && total == 0) total = 1;
    if (!GUARDED && most == -infinity()) total = __int_as_float(0x7fc00000); // softmax of nothing but -infinity
    return none || (REPAIRED && total != total) ? 0 : 1 / total;
}

// Writes the normalised results [ROWS][TILE_ROW] to the beginning of shared memory, 16 x 16 of a warp at a time.
__device__ __forceinline__ void finish_narrow(unsigned short *tile, const float *sums, const float *state, bool none) {
    const int lane = threadIdx.x % 32;
    const float by[R] = {normalizer(state[0], state[R], none), normalizer(state[1], state[R + 1], none)};
    if constexpr (!TURNS) {
        wait_for_copies<0>();
        meet_workers();
    }
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile + (threadIdx.x / 32 * 16 + lane % 16) * TILE_ROW + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < BLOCKS_V; j += 2) {
        unsigned word[4]; // the first eight rows and the others, of eight columns and of the next eight
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *from = sums + ((j + i / 2) * R + i % 2) * CV;
            word[i] = round_pair(from[0] * by[i % 2], from[1] * by[i % 2]);
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + j * 16), "r"(word[0]),
                     "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    }
}
