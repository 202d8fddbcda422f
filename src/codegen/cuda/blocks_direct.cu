// Codes go from memory straight into registers, AHEAD chunks at once. WARPS_N warps side by side have 16 columns each, of whose chunks
// WARPS_K warps take turns.

// What a thread reads of the weights: every WARPS_K-th chunk of the depth of 16 columns.
struct weights {
    const char *codes;
    const void *scales;
    const unsigned char *zeros;
    bool inside;

    __device__ __forceinline__ void start(const void *all, const void *scale, const void *zero, int column) {
        const int lane = threadIdx.x % 32;
        inside = column < COLUMNS;
        codes = (const char *)all + ((long long)(column / 16) * CHUNKS * 32 + lane) * 16;
        scales = (const char *)scale + (long long)(column + lane / 4) * SCALE_BYTES;
        zeros = (const unsigned char *)zero + column + lane / 4;
    }
    // Depths beyond the last have a scale of 0.
    __device__ __forceinline__ factors of_run(int chunk, int run) const {
        const int depth = chunk * CHUNK + run * 32 + own_depths();
        const long long at = (long long)(depth / BLOCK) * COLUMNS;
        const bool exists = inside && depth < DEPTH;
        factors f;
#pragma unroll
        for (int column = 0; column < 2; column++) {
            f.scale[column] = f.zero[column] = 0;
            if (!exists) continue;
            if constexpr (SCALE_BYTES == 4)
                f.scale[column] = load_number((const unsigned *)scales + at + column * 8);
            else
                f.scale[column] = load_number((const unsigned short *)scales + at + column * 8) << (WIDE_SCALE ? 16 : 0);
            if constexpr (ZERO) f.zero[column] = load_number(zeros + at + column * 8);
        }
        return f;
    }
};

// AHEAD chunks of a thread, from a chunk on.
struct pieces {
    uint4 x[AHEAD];
    factors by[AHEAD][WHOLE ? 1 : RUNS];
    __device__ __forceinline__ void load(const weights &w, int chunk) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = chunk + u * WARPS_K;
            x[u] = load_piece(w.codes + (long long)at * 512, w.inside && at < CHUNKS);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int run = 0; run < (WHOLE ? 1 : RUNS); run++)
                by[u][run] = w.of_run(chunk + u * WARPS_K, run);
    }
};

struct factors_of_chunk {
    const factors *by;
    __device__ __forceinline__ const factors &operator()(int run) const {
        return by[run];
    }
};

// Rows that are loaded when they are needed.
struct rows_of_chunk {
    const rows_of_block &all;
    int chunk;
    __device__ __forceinline__ elements of(int n, int run) const {
        return all.template load<true>(n, chunk * CHUNK, run * 32);
    }
};

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *codes, const void *scales, const void *zeros, const float *table,
                                         long long first_column) {
    const int warp = threadIdx.x / 32, own = warp % WARPS_N, share = warp / WARPS_N;
    weights from;
    from.start(codes, scales, zeros, (int)first_column + own * 16);
    float entry = 0;
    if constexpr (TABLE) entry = table[threadIdx.x % 16];
    pieces now;
    now.load(from, share);
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    const rows_of_block lines(a, lda, first_row, rows);
    sums c;
    c.clear();
    for (int chunk = share;;) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            c.add(now.x[u], factors_of_chunk{now.by[u]}, rows_of_chunk{lines, chunk + u * WARPS_K}, entry);
        chunk += AHEAD * WARPS_K;
        if (chunk >= CHUNKS) break;
        now.load(from, chunk);
    }
    if constexpr (WARPS_K == 1) {
        c.store(tile + own * 16, BN);
    } else {
        float *const parts = tile + BM * BN;
        c.store(parts + share * BM * BN + own * 16, BN);
        __syncthreads();
        for (int e = threadIdx.x; e < BM * BN; e += THREADS) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < WARPS_K; i++)
                sum += parts[i * BM * BN + e];
            tile[e] = sum;
        }
    }
    __syncthreads();
}
