// Attention's products on the tensor cores of sm_90a (wgmma): a warp group does 64 queries, and reads keys and values
// once for all of them. multiply_keys and multiply_values are the instructions, printed for the widths of a step and of
// the values.

// Describes copied lines: address, distance between panels, and bytes per line; lines are contiguous. The address is in the low
// half, so that what lies further on is described by an addition there.
struct lines {
    unsigned low, high;

    __device__ __forceinline__ lines(unsigned from, int panels, int line)
        : low((from & 0x3ffff) >> 4 | (unsigned)(panels >> 4) << 16), high(8 * line >> 4 | (line == 128 ? 1u : 2u) << 30) {
    }
    __device__ __forceinline__ unsigned long long at(int byte) const {
        return (unsigned long long)high << 32 | (low + byte / 16);
    }
};

// Waits for all products issued.
__device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
}

// Queries times keys, 16 elements of the depth at a time.
__device__ __forceinline__ void score(float *scores, int queries_at, int keys_at) {
    constexpr int line = LINE < 128 ? LINE : 128;
    const int group = ROWS > 64 ? warp_number() / 4 : 0;
    const lines queries(shared_address(queries_at + group * 64 * line), 16, line), keys(shared_address(keys_at), 16, line);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int byte = 0; byte < DEPTH * 2; byte += 32)
        multiply_keys(scores, queries.at(byte / line * (ROWS * line) + byte % line),
                      keys.at(byte / line * (STEP * line) + byte % line), byte > 0);
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
    const lines values(shared_address(values_at), STEP * line, line);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int key = 0; key < KEYS; key += 16)
        multiply_values(sums, weights + key / 4, values.at(key * line));
    finish_products();
}

__device__ __forceinline__ void sum(float *sums, const float *weights, int values_at) {
    unsigned packed[KEYS / 4];
    pack_all(packed, weights);
    sum_packed(sums, packed, values_at);
}
