// Attention's products on the tensor cores of sm_90a (wgmma): a warp group does 64 queries, and reads keys and values
// once for all of them. multiply_keys and multiply_values are the instructions, printed for the widths of a step and of
// the values.

// The descriptor of copied lines: address, distance between panels, and bytes per line; lines are contiguous.
__device__ __forceinline__ unsigned long long describe(unsigned from, int panels, int line) {
    return (unsigned long long)((from & 0x3ffff) >> 4) | (unsigned long long)(panels >> 4) << 16 |
           (unsigned long long)(8 * line >> 4) << 32 | (unsigned long long)(line == 128 ? 1 : 2) << 62;
}

// Waits for all products issued.
__device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
}

// Queries times keys, 16 elements of the depth at a time.
__device__ __forceinline__ void score(float *scores, int queries_at, int keys_at) {
    constexpr int line = LINE < 128 ? LINE : 128;
    const int group = ROWS > 64 ? warp_number() / 4 : 0;
    const unsigned queries = shared_address(queries_at + group * 64 * line), keys = shared_address(keys_at);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int byte = 0; byte < DEPTH * 2; byte += 32)
        multiply_keys(scores, describe(queries + byte / line * (ROWS * line) + byte % line, 16, line),
                      describe(keys + byte / line * (STEP * line) + byte % line, 16, line), byte > 0);
    finish_products();
}

__device__ __forceinline__ void pack_all(unsigned *packed, const float *weights) {
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        packed[i] = pack(weights[2 * i], weights[2 * i + 1]);
}

// Weights times values, 16 keys at a time.
__device__ __forceinline__ void sum_packed(float *sums, const unsigned *weights, int values_at) {
    constexpr int line = LINE_V < 128 ? LINE_V : 128;
    const unsigned values = shared_address(values_at);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int key = 0; key < KEYS; key += 16)
        multiply_values(sums, weights + key / 4, describe(values + key * line, STEP * line, line));
    finish_products();
}

__device__ __forceinline__ void sum(float *sums, const float *weights, int values_at) {
    unsigned packed[KEYS / 4];
    pack_all(packed, weights);
    sum_packed(sums, packed, values_at);
}
