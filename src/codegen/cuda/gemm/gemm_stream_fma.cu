// Up to four rows on the CUDA cores, in f32. The rows come to shared memory first. A warp multiplies a column: a thread has 16
// bytes of each 512, and a part of the sum of each row.

struct rows_of_block {
    // Beyond the last of `left` rows, elements are zero.
    __device__ __forceinline__ rows_of_block(const char *from, long long line, int left) {
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

    __device__ __forceinline__ void load(const walk &, const rows_of_block &) {
    }

    __device__ __forceinline__ void add(const walk &at, int) {
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

    __device__ __forceinline__ void store(float *tile, int group) {
#pragma unroll
        for (int m = 0; m < BM; m++) {
            float sum = c[m][0] + c[m][1];
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, apart);
            if (threadIdx.x % 32 == 0) tile[m * TILE_ROW + group] = sum;
        }
    }
};

__device__ __forceinline__ void add_up(float *) {
}
