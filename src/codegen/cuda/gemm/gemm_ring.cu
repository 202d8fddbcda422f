// Rings in shared memory, one for each warp: STAGES pieces that the copy engine brings, STAGE bytes apart, each with a barrier. Pieces
// are those of GROUPS groups of columns, COLUMN bytes along the depth in PIECES pieces of PIECE bytes. SHARES warps take the pieces
// of a group in turns; with one share, warps take groups in turns.

// The pieces of a warp, in the order in which it multiplies them.
struct walk {
    int group, piece, stage;
    unsigned parity;

    __device__ __forceinline__ walk() {
        const int warp = threadIdx.x / 32;
        group = warp / SHARES, piece = warp % SHARES, stage = 0, parity = 0;
    }
    __device__ __forceinline__ bool has_piece() const {
        return piece < PIECES;
    }
    __device__ __forceinline__ void next_group() {
        piece = threadIdx.x / 32 % SHARES;
        group += WARPS / SHARES;
    }
    __device__ __forceinline__ void next_piece() {
        piece += SHARES;
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ int bytes() const {
        return min(PIECE, COLUMN - piece * PIECE);
    }
    __device__ __forceinline__ unsigned memory() const {
        return shared_memory() + RING_AT + (threadIdx.x / 32 * STAGES + stage) * STAGE;
    }
    __device__ __forceinline__ unsigned barrier() const {
        return shared_memory() + BARRIERS_AT + (threadIdx.x / 32 * STAGES + stage) * 8;
    }
};

// Multiples of 16 bytes, from a multiple of 16.
__device__ __forceinline__ void bring(unsigned to, const char *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

// Has the piece at `at` brought, if there is one, and goes on to the next.
template <class WEIGHTS> __device__ __forceinline__ void bring_next(const WEIGHTS &from, walk &at) {
    while (at.group < GROUPS && (from.width(at.group) <= 0 || !at.has_piece()))
        at.next_group();
    if (at.group >= GROUPS) return;
    from.copy(at);
    at.next_piece();
}

template <class WEIGHTS> __device__ __forceinline__ void start_ring(const WEIGHTS &from, walk &ahead) {
    const int lane = threadIdx.x % 32;
    if (lane < STAGES) start_barrier(BARRIERS_AT + (threadIdx.x / 32 * STAGES + lane) * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncwarp();
    for (int s = 0; s < STAGES; s++)
        bring_next(from, ahead);
}

// Once all pieces have been waited for.
__device__ __forceinline__ void end_ring() {
    const int lane = threadIdx.x % 32;
    if (lane < STAGES)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_memory() + BARRIERS_AT + (threadIdx.x / 32 * STAGES + lane) * 8)
                     : "memory");
}
