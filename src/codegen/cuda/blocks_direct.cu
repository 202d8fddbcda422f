// Codes go from memory straight into registers, AHEAD chunks at once. WARPS_N warps side by side have 16 columns each, of whose chunks
// WARPS_K warps take turns. Of two PRODUCTS of the same rows each has half of the warps that are side by side.

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

struct factors_of_chunk {
    const factors *by;
    __device__ __forceinline__ const factors &operator()(int run) const {
        return by[run];
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

// At most this many chunks' rows are in registers at once: of few rows, those of all that are under way.
constexpr int MOST_HELD = 8 * 8 / (BM * RUNS) > 0 ? 8 * 8 / (BM * RUNS) : 1, HELD = AHEAD < MOST_HELD ? AHEAD : MOST_HELD;

struct product {
    weights from;
    float entry;
    pieces now;

    __device__ __forceinline__ void begin(const void *codes, const void *scales, const void *zeros, const float *table,
                                          long long first_column, const void *twin = nullptr, const void *twin_scales = nullptr,
                                          const void *twin_zeros = nullptr) {
        constexpr int OWN = WARPS_N / PRODUCTS; // warps side by side of each product
        const int warp = threadIdx.x / 32, beside = warp % WARPS_N, column = (int)first_column + beside % OWN * 16;
        if (beside < OWN)
            from.start(codes, scales, zeros, column);
        else
            from.start(twin, twin_scales, twin_zeros, column);
        entry = 0;
        if constexpr (TABLE) entry = table[threadIdx.x % 16];
        now.load(from, warp / WARPS_N);
        if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    __device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows) {
        const int warp = threadIdx.x / 32, at = warp % WARPS_N * 16, share = warp / WARPS_N;
        const rows_of_block lines(a, lda, first_row, rows);
        sums c;
        c.clear();
        for (int chunk = share;;) {
#pragma unroll
            for (int first = 0; first < AHEAD; first += HELD) {
                rows_of_chunks<HELD> held;
                held.template load<true>(lines, (chunk + first * WARPS_K) * CHUNK, WARPS_K * CHUNK);
                asm volatile("fence.acq_rel.cta;" ::: "memory"); // else the assembler loads each where it is used
#pragma unroll
                for (int u = first; u < first + HELD; u++)
                    c.add(now.x[u], factors_of_chunk{now.by[u]}, held_rows{held.x[u - first]}, entry);
            }
            chunk += AHEAD * WARPS_K;
            if (chunk >= CHUNKS) break;
            now.load(from, chunk);
        }
        if constexpr (WARPS_K == 1) {
            c.store(tile + at, BN);
        } else {
            c.store(parts_of(tile) + share * BM * BN + at, BN);
            add_parts<WARPS_K>(tile);
        }
        __syncthreads();
    }
};
