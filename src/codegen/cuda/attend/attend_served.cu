// ---- Keys and values by a warp of their own --------------------------------------------------------------------------
//
// The last warp of a block, its server, copies keys and values for the warp groups that multiply. So these never wait for
// each other, and one multiplies while another computes weights (Shah et al. 2024, without the order that they impose on
// groups). A stage has four barriers: those of keys and of values are `full` when the server's copies have arrived, and `empty`
// when all warps have read them.

enum { KEYS_FULL, VALUES_FULL, KEYS_EMPTY, VALUES_EMPTY, KINDS };

__device__ __forceinline__ unsigned barrier(int kind, int stage) {
    return shared_memory() + BARRIERS_AT + 8 * (stage * KINDS + kind);
}

// One arrival per warp.
__device__ __forceinline__ void arrive(unsigned at) {
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

// A stage's turn that begins with a step; its parity distinguishes it from the one before.
struct served_step {
    int stage;
    unsigned parity;

    __device__ __forceinline__ served_step(int step) : stage(step % STAGES), parity(step / STAGES & 1) {
    }
    __device__ __forceinline__ int keys_at() const {
        return KEYS_AT + stage * STAGE;
    }
};

// Waits for the server's copies but the LEFT newest groups, and says so.
template <int LEFT> __device__ __forceinline__ void announce(unsigned full) {
    wait_for_copies<LEFT>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    arrive(full);
}

template <int BYTES>
__device__ __forceinline__ void bring(int at, const void *from, long long ld, long long first, long long keys, int bytes) {
    const long long left = keys - first;
    copy<STEP, BYTES, 32, -1>(shared_address(at), (const char *)from + first * ld * ELEMENT, ld, left < STEP ? (int)left : (int)STEP,
                              bytes, threadIdx.x % 32);
    close_copies();
}

// All threads of the block come here before a tile; the server copies all that the others need for it, and returns true.
__device__ __forceinline__ bool serve(const void *k, long long ldk, const void *v, long long ldv, long long keys) {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            start_barrier(BARRIERS_AT + 8 * (stage * KINDS + KEYS_FULL), 1);
            start_barrier(BARRIERS_AT + 8 * (stage * KINDS + VALUES_FULL), 1);
            start_barrier(BARRIERS_AT + 8 * (stage * KINDS + KEYS_EMPTY), WARPS);
            start_barrier(BARRIERS_AT + 8 * (stage * KINDS + VALUES_EMPTY), WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp_number() < WARPS) return false;
#pragma unroll 1
    for (int step = 0; step < (keys + STEP - 1) / STEP; step++) {
        const served_step s(step);
        const long long first = (long long)step * STEP;
        wait(barrier(KEYS_EMPTY, s.stage), s.parity ^ 1); // returns at once for a stage that was never filled
        bring<LINE>(s.keys_at(), k, ldk, first, keys, DEPTH_BYTES);
        wait(barrier(VALUES_EMPTY, s.stage), s.parity ^ 1);
        bring<LINE_V>(s.keys_at() + VALUES_AT, v, ldv, first, keys, COLUMN_BYTES);
        announce<1>(barrier(KEYS_FULL, s.stage));
        announce<0>(barrier(VALUES_FULL, s.stage));
    }
    return true;
}

// What the loop over tiles begins with.
#define ATTEND_SERVE(...) if (attend::serve(__VA_ARGS__)) continue

__device__ __forceinline__ void begin_served(float *sums, float *state, const void *q, long long ldq, long long queries) {
    copy<ROWS, LINE, THREADS, -1>(shared_address(0), (const char *)q, ldq, queries < ROWS ? (int)queries : ROWS, DEPTH_BYTES,
                                  threadIdx.x);
    close_copies();
    clear(sums, state);
    wait_for_copies<0>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    meet_workers();
}

__device__ __forceinline__ void multiply_served(float *scores, int step) {
    const served_step s(step);
    wait(barrier(KEYS_FULL, s.stage), s.parity);
    score(scores, 0, s.keys_at());
    arrive(barrier(KEYS_EMPTY, s.stage));
}

__device__ __forceinline__ void accumulate_served(float *scores, float *sums, float *state, int step, float scale) {
    const served_step s(step);
    unsigned weights[KEYS / 4];
    weigh_rows(scores, sums, state, scale);
    pack_all(weights, scores);
    wait(barrier(VALUES_FULL, s.stage), s.parity);
    sum_packed(sums, weights, s.keys_at() + VALUES_AT);
    arrive(barrier(VALUES_EMPTY, s.stage));
}

// After finish_narrow, when nobody waits any more, so that the next tile can start barriers again.
__device__ __forceinline__ void end_served() {
    if (threadIdx.x >= 4 * STAGES) return;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_memory() + BARRIERS_AT + 8 * threadIdx.x) : "memory");
}
