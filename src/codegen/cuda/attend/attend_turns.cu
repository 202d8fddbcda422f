// ---- Heads in turn ---------------------------------------------------------------------------------------------------
//
// A head has one step of keys. While it is computed, the operands of the next one are on their way to the other half of
// the memory, which the threads have left when they met before storing the results of the turn before.

constexpr int TURN = KEYS_AT + STAGE;

// Issues the copies of a turn, one group, which is empty if none is left.
__device__ __forceinline__ void fetch(long long turn, long long left, const void *q, long long ldq, long long queries,
                                      const void *k, long long ldk, const void *v, long long ldv, long long keys) {
    const int at = (int)(turn % 2) * TURN;
    if (left > 0) {
        copy<ROWS, LINE, THREADS, TABLE_Q>(shared_address(at), (const char *)q, ldq, queries < ROWS ? (int)queries : ROWS,
                                           DEPTH_BYTES, threadIdx.x);
        copy_keys<LINE, TABLE_K>(at + KEYS_AT, k, ldk, 0, keys, DEPTH_BYTES);
        copy_keys<LINE_V, TABLE_V>(at + KEYS_AT + VALUES_AT, v, ldv, 0, keys, COLUMN_BYTES);
    }
    close_copies();
}

// Waits for this thread's copies of a turn, after those of the next one have been issued.
__device__ __forceinline__ void wait_turn() {
    wait_for_copies<1>();
    if constexpr (GROUPS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Computes the scores of a turn, when all threads have waited.
__device__ __forceinline__ void multiply_turn(float *scores, long long turn) {
    const int at = (int)(turn % 2) * TURN;
    score(scores, at, at + KEYS_AT);
}

// Sums the values, weighted by the exponentials of the scores; see accumulate.
__device__ __forceinline__ void accumulate_turn(float *scores, float *sums, float *state, long long turn,
                                                long long queries) {
#pragma unroll
    for (int e = 0; e < BLOCKS_V * R * CV; e++)
        sums[e] = 0;
    if (threadIdx.x / 32 / WARPS_N * 16 < queries) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            state[r] = largest(scores, r, -infinity());
            state[R + r] = weigh(scores, r, state[r], 1);
        }
    }
    sum(sums, scores, (int)(turn % 2) * TURN + KEYS_AT + VALUES_AT);
}
