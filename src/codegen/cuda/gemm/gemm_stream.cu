// Few rows by weights whose columns lie along the depth: each warp streams what it multiplies through a ring of its own in
// shared memory, by the copy engine, STAGES pieces ahead, across the ends of columns. So the memory is busy from the start of the
// kernel, while the preceding one still runs, to its end.
//
// A group of columns is one (gemm_stream_fma.cu), and warps take groups in turns; or 16 (gemm_stream_mma.cu), and warps take
// the pieces of each along the depth in turns: then they have parts of the sums, which are added up at the end. Of two
// PRODUCTS of the same A, the groups of the second come behind those of the first.

constexpr int WARPS = THREADS / 32, PIECE = DEPTH * ELEMENT /* bytes of a column */, COLUMN = ALL_DEPTH * ELEMENT;
constexpr int PIECES = (COLUMN + PIECE - 1) / PIECE, SHARES = GROUP > 1 ? WARPS : 1;
// Of shared memory. Lines of a group are half the banks apart, so that quarters of a warp read two at once.
constexpr int LINE = PIECE + (GROUP > 1 ? 64 : 0), STAGE = GROUP * LINE;

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

// The weights of a block's columns.
struct weights {
    const char *from[PRODUCTS];
    long long line; // bytes between columns
    int columns;

    // The columns of a group that exist.
    __device__ __forceinline__ int width(int group) const {
        return min(GROUP, columns - group * GROUP % BN);
    }
    __device__ __forceinline__ void copy(const walk &at) const {
        const int lane = threadIdx.x % 32, own = width(at.group), bytes = at.bytes();
        if (lane == 0) expect(at.barrier(), bytes * own);
        __syncwarp();
        if (lane >= own) return;
        const char *const column = (PRODUCTS == 2 && at.group * GROUP >= BN ? from[PRODUCTS - 1] : from[0]) +
                                   (at.group * GROUP % BN + lane) * line;
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         at.memory() + lane * LINE),
                     "l"(column + at.piece * PIECE), "r"(bytes), "r"(at.barrier())
                     : "memory");
    }
    // Copies the piece at `at`, if there is one, and goes on to the next.
    __device__ __forceinline__ void copy_next(walk &at) const {
        while (at.group < PRODUCTS * BN / GROUP && (width(at.group) <= 0 || !at.has_piece()))
            at.next_group();
        if (at.group >= PRODUCTS * BN / GROUP) return;
        copy(at);
        at.next_piece();
    }
};

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *b, long long ldb, long long first_column, long long columns,
                                         long long, const void *twin = nullptr) {
    const int lane = threadIdx.x % 32;
    weights from;
    from.line = ldb * ELEMENT;
    from.columns = columns - first_column < BN ? (int)(columns - first_column) : (int)BN;
    from.from[PRODUCTS - 1] = (const char *)twin + first_column * from.line;
    from.from[0] = (const char *)b + first_column * from.line;
    walk now, ahead;
    if (lane < STAGES) start_barrier(BARRIERS_AT + (threadIdx.x / 32 * STAGES + lane) * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncwarp();
    for (int s = 0; s < STAGES; s++)
        from.copy_next(ahead);
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    const rows_of_block lines((const char *)a + first_row * lda * ELEMENT, lda * ELEMENT,
                              rows - first_row < BM ? (int)(rows - first_row) : (int)BM);
    for (; now.group < PRODUCTS * BN / GROUP; now.next_group()) {
        const int width = from.width(now.group);
        sums c;
        c.clear();
        for (; width > 0 && now.has_piece(); now.next_piece()) {
            c.load(now, lines);
            wait(now.barrier(), now.parity);
            c.add(now, width);
            __syncwarp(); // the stage has been read
            from.copy_next(ahead);
        }
        c.store(tile, now.group);
    }
    if (lane < STAGES)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_memory() + BARRIERS_AT + (threadIdx.x / 32 * STAGES + lane) * 8)
                     : "memory");
    __syncthreads();
    add_up(tile);
}
