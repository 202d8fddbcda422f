// Up to four rows by weights whose columns lie along the depth, on the CUDA cores, in f32: each warp streams what it multiplies
// through a ring of its own in shared memory, by the copy engine, STAGES pieces ahead, across the ends of columns. So the memory is
// busy from the start of the kernel, while the preceding one still runs, to its end. Of two PRODUCTS of the same A, the columns
// of the second come behind those of the first.
//
// The rows come to shared memory first. A warp multiplies a column: a thread has 16 bytes of each 512, and a part of the sum of
// each row.

// The weights of a block's columns.
struct weights {
    const char *from[PRODUCTS];
    long long line; // bytes between columns
    int columns;    // of each product that exist

    __device__ __forceinline__ int width(int column) const {
        return columns - column % BN;
    }
    __device__ __forceinline__ void copy(const walk &at) const {
        if (threadIdx.x % 32 != 0) return;
        const char *const column = (PRODUCTS == 2 && at.group >= BN ? from[PRODUCTS - 1] : from[0]) + at.group % BN * line;
        expect(at.barrier(), at.bytes());
        bring(at.memory(), column + at.piece * PIECE, at.bytes(), at.barrier());
    }
};

struct rows_of_block {
    // Beyond the last of `left` rows, elements are zero.
    __device__ __forceinline__ rows_of_block(const char *from, long long line, int left) {
        if constexpr (ROWS_FIRST) return; // the kernel has computed them there
        constexpr int each = ALL_DEPTH * ELEMENT / A_COPY;
        __syncthreads(); // the preceding tile's have been read
        for (int i = threadIdx.x; i < BM * each; i += THREADS)
            copy<A_COPY>(shared_memory() + ROWS_AT + i * A_COPY, from + i / each * line + i % each * A_COPY, i / each < left);
        close_copies();
        wait_for_copies<0>();
        __syncthreads();
    }
};

__device__ __forceinline__ void load_shared(unsigned (&to)[4], unsigned from) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

struct sums {
    float c[BM][2]; // of elements at even depths, and odd ones

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int m = 0; m < BM; m++)
            c[m][0] = c[m][1] = 0;
    }

    __device__ __forceinline__ void add(const walk &at) {
        const unsigned memory = at.memory(), rows = shared_memory() + ROWS_AT + at.piece * PIECE;
        const int bytes = at.bytes();
#pragma unroll 4
        for (int i = threadIdx.x % 32 * 16; i < bytes; i += 512) {
            unsigned w[4], x[4];
            load_shared(w, memory + i);
#pragma unroll
            for (int m = 0; m < BM; m++) {
                load_shared(x, rows + m * ALL_DEPTH * ELEMENT + i);
#pragma unroll
                for (int e = 0; e < 16 / ELEMENT; e++)
                    c[m][e % 2] = fmaf(element_of(w, e), element_of(x, e), c[m][e % 2]);
            }
        }
    }

    __device__ __forceinline__ void store(float *tile, int column) {
#pragma unroll
        for (int m = 0; m < BM; m++) {
            float sum = c[m][0] + c[m][1];
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, apart);
            if (threadIdx.x % 32 == 0) tile[m * TILE_ROW + column] = sum;
        }
    }
};

// A tile: `begin` has the first pieces brought and waits for the kernel before; then come loads for the epilogue; then `multiply`.
struct stream {
    weights from;
    walk now, ahead;
    exchange::push push;

    __device__ __forceinline__ void begin(const void *b, long long ldb, long long first_column, long long columns,
                                          const void *twin = nullptr, const void *seat = nullptr) {
        from.line = ldb * ELEMENT;
        from.columns = columns - first_column < BN ? (int)(columns - first_column) : (int)BN;
        from.from[PRODUCTS - 1] = (const char *)twin + first_column * from.line;
        from.from[0] = (const char *)b + first_column * from.line;
        start_ring(from, ahead);
        if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
        push.begin(seat);
    }
    // The rows from first_row on, to the tile.
    __device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows) {
        const rows_of_block lines((const char *)a + first_row * lda * ELEMENT, lda * ELEMENT,
                                  rows - first_row < BM ? (int)(rows - first_row) : (int)BM);
        for (; now.group < GROUPS; now.next_group()) {
            if (from.width(now.group) <= 0) continue;
            sums c;
            c.clear();
            for (; now.has_piece(); now.next_piece()) {
                wait(now.barrier(), now.parity);
                c.add(now);
                __syncwarp(); // the stage has been read
                bring_next(from, ahead);
            }
            c.store(tile, now.group);
        }
        end_ring();
        __syncthreads();
    }
};
