// Few rows by weights whose columns lie along the depth: each warp streams what it multiplies through a ring of its own in
// shared memory, by the copy engine, STAGES pieces ahead, across the ends of columns. So the memory is busy from the start of the
// kernel, while the preceding one still runs, to its end.
//
// A group of columns is one (gemm_stream_fma.cu), and warps take groups in turns; or 16 (gemm_stream_mma.cu), and warps take
// the pieces of each along the depth in turns: then they have parts of the sums, which are added up at the end. Of two
// PRODUCTS of the same A, the groups of the second come behind those of the first.

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
        bring(at.memory() + lane * LINE, column + at.piece * PIECE, bytes, at.barrier());
    }
};

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *b, long long ldb, long long first_column, long long columns,
                                         long long, const void *twin = nullptr) {
    weights from;
    from.line = ldb * ELEMENT;
    from.columns = columns - first_column < BN ? (int)(columns - first_column) : (int)BN;
    from.from[PRODUCTS - 1] = (const char *)twin + first_column * from.line;
    from.from[0] = (const char *)b + first_column * from.line;
    walk now, ahead;
    start_ring(from, ahead);
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    const rows_of_block lines((const char *)a + first_row * lda * ELEMENT, lda * ELEMENT,
                              rows - first_row < BM ? (int)(rows - first_row) : (int)BM);
    for (; now.group < GROUPS; now.next_group()) {
        const int width = from.width(now.group);
        sums c;
        c.clear();
        for (; width > 0 && now.has_piece(); now.next_piece()) {
            c.load(now, lines);
            wait(now.barrier(), now.parity);
            c.add(now, width);
            __syncwarp(); // the stage has been read
            bring_next(from, ahead);
        }
        c.store(tile, now.group);
    }
    end_ring();
    __syncthreads();
    add_up(tile);
}
