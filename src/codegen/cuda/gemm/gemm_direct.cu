// Few rows by weights: B goes from memory straight into registers, each element once, so that the time is that of
// reading it. While the preceding kernel still runs, a thread has the loads of AHEAD steps under way, and the rest of the
// block's part of B is on its way to the second-level cache.
//
// A thread reads pieces of 16 bytes, PIECE columns wide, of four depths in a row. ACROSS threads of a warp share a depth;
// a step of a warp is DOWN fours of depths. The warps of a block, and the blocks of a cluster, take steps in turn. Of two
// PRODUCTS of the same A, each has half of the warps.
//
// This file has the loads; gemm_direct_fma.cu or gemm_direct_mma.cu has the products, gemm_direct_walk.cu the steps.

constexpr int WARPS = THREADS / 32, PIECE = 16 / ELEMENT, ACROSS = BN / PIECE, DOWN = 32 / ACROSS;
constexpr int STEP = DOWN * 4, SHARE = WARPS / PRODUCTS, WALKERS = SHARE * SPLIT;

// Which piece of the columns a thread has, and which four of a step's depths. Instructions of the tensor cores want
// neighbouring threads to have neighbouring depths.
__device__ __forceinline__ int own_piece() {
    const int lane = threadIdx.x % 32;
    return BM > 4 ? lane / DOWN : lane % ACROSS;
}
__device__ __forceinline__ int own_depth() {
    const int lane = threadIdx.x % 32;
    return (BM > 4 ? lane % DOWN : lane / ACROSS) * 4;
}

// Four elements of A along the depth: 8 or 16 bytes.
struct four {
    unsigned words[ELEMENT];
    __device__ __forceinline__ void load(const char *from, bool inside) {
#pragma unroll
        for (int i = 0; i < ELEMENT; i++)
            words[i] = 0;
        if (!inside) return;
        if constexpr (ELEMENT == 4)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "l"(from));
        else
            asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from));
    }
};

// The part of B that a thread reads.
struct weights {
    const char *from;
    long long line; // bytes between depths
    int depth;
    bool inside;

    __device__ __forceinline__ void start(const char *b, long long ld, long long first, long long columns,
                                          long long depths) {
        const long long column = first + own_piece() * PIECE;
        from = b + column * ELEMENT;
        line = ld * ELEMENT;
        depth = (int)depths;
        inside = column < columns;
    }
    __device__ __forceinline__ bool has(int at) const {
        return inside && at < depth;
    }
    // Asks for the lines from a step on to be brought to the second-level cache.
    __device__ __forceinline__ void fetch(int step) const {
        for (int at = step * STEP + own_depth(); own_piece() % 8 == 0 && has(at); at += WALKERS * STEP)
#pragma unroll
            for (int i = 0; i < 4; i++)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (at + i) * line));
    }
};

// AHEAD steps' pieces, from a step on.
struct pieces {
    uint4 x[AHEAD][4];
    __device__ __forceinline__ void load(const weights &b, int step) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = (step + u * WALKERS) * STEP + own_depth();
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[u][i] = load_piece(b.from + (at + i) * b.line, b.has(at));
        }
    }
};
