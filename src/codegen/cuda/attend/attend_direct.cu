// Few queries: keys and values go from memory straight into registers, all of a step's loads under way at once, and the
// threads of a warp need nothing from each other but maxima. Time is mostly latency: each thing waited for counts.
//
// Eight keys (a block of scores) are dealt to the warps in turn, so that all have as many. Pieces are 16 bytes. Of a key, a
// thread has every fourth piece: eight depths, in whatever order, are what it supplies to two instructions, as it is for
// the queries, whose rows 8 to 15 do not exist. Of a value, it has every eighth piece: the columns are the rows of the
// instruction, and the queries its columns, for which a thread's weights are where they are needed.
//
//     sums[(i * 4 + c) * 4 + e * 2 + r]    query lane % 4 * 2 + r, column (i * 8 + lane / 4) * 8 + 2 * c + e

constexpr int PIECES = (DEPTH_BYTES + 63) / 64, PIECES_V = (COLUMN_BYTES + 127) / 128;

__device__ __forceinline__ void load_piece(unsigned (&to)[4], const char *from, bool inside) {
    to[0] = to[1] = to[2] = to[3] = 0;
    if (inside)
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "l"(from));
}

// Which query a thread has sums of; that is where their factors are.
__device__ __forceinline__ float of_query(float x, int r) {
    return __shfl_sync(0xffffffff, x, (threadIdx.x % 4 * 2 + r) * 4);
}

// Stores in the memory of the cluster's first block.
__device__ __forceinline__ void give(float *to, float x) {
    unsigned at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((unsigned)__cvta_generic_to_shared(to)), "r"(0));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory");
}

__device__ __forceinline__ void give(float *to, float4 x) {
    unsigned at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((unsigned)__cvta_generic_to_shared(to)), "r"(0));
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
}

// COUNT parts of the results in shared memory: unnormalised sums [COUNT][ROWS][TILE_ROW], maxima and sums of weights
// [ROWS][COUNT].
template <int COUNT> struct parts {
    static constexpr int maxima = COUNT * ROWS * TILE_ROW, totals = maxima + ROWS * COUNT, size = totals + ROWS * COUNT;

    // Makes them one part: the LAST one, or this block's in the memory of the cluster's first block.
    template <bool LAST> static __device__ __forceinline__ void join(const float *from, int rows, float *to) {
#pragma unroll 1
        for (int e = threadIdx.x; e < rows * (COLUMNS / 4); e += THREADS) {
            const int row = e / (COLUMNS / 4), column = e % (COLUMNS / 4) * 4;
            float most = -infinity(), total = 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                most = fmaxf(most, from[maxima + row * COUNT + i]);
            const float base = most == -infinity() ? 0 : most;
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                // 1 for infinity, which exceeds itself by NaN
                const float by = power_of_two(fminf(from[maxima + row * COUNT + i] - base, 0) * 1.44269504f);
                const float4 part = *(const float4 *)(from + (i * ROWS + row) * TILE_ROW + column);
                total = fmaf(by, from[totals + row * COUNT + i], total);
                sum.x = fmaf(by, part.x, sum.x), sum.y = fmaf(by, part.y, sum.y);
                sum.z = fmaf(by, part.z, sum.z), sum.w = fmaf(by, part.w, sum.w);
            }
            if constexpr (!LAST) {
                const int rank = cluster_rank();
                give(to + (rank * ROWS + row) * TILE_ROW + column, sum);
                if (column > 0) continue;
                give(to + parts<SPLIT>::maxima + row * SPLIT + rank, most);
                give(to + parts<SPLIT>::totals + row * SPLIT + rank, total);
            } else {
                *(float4 *)(to + row * TILE_ROW + column) = sum;
                if (column == 0) to[parts<1>::maxima + row] = most, to[parts<1>::totals + row] = total;
            }
        }
    }
};

struct direct {
    unsigned query[PIECES][4], key[BLOCKS][PIECES][4], value[BLOCKS][2][PIECES_V][4];
    const char *keys, *values;
    long long line, line_v; // bytes between keys, and values
    int left;               // keys

    __device__ __forceinline__ void load_keys(int step) {
        const int lane = threadIdx.x % 32, first = step * STEP + threadIdx.x / 32 * 8 + lane / 4;
        const char *from = keys + first * line + lane % 4 * 16;
#pragma unroll
        for (int j = 0; j < BLOCKS; j++, from += WARPS * 8 * line)
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                load_piece(key[j][p], from + p * 64, first + j * WARPS * 8 < left && p * 64 + lane % 4 * 16 < DEPTH_BYTES);
    }

    __device__ __forceinline__ void load_values(int step) {
        const int lane = threadIdx.x % 32, first = step * STEP + threadIdx.x / 32 * 8 + lane % 4 * 2;
        const char *from = values + first * line_v + lane / 4 * 16;
#pragma unroll
        for (int j = 0; j < BLOCKS; j++, from += WARPS * 8 * line_v)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int p = 0; p < PIECES_V; p++)
                    load_piece(value[j][e][p], from + e * line_v + p * 128,
                               first + j * WARPS * 8 + e < left && p * 128 + lane / 4 * 16 < COLUMN_BYTES);
    }

    __device__ __forceinline__ void begin(float *sums, float *state, const void *q, long long ldq, long long queries,
                                          const void *k, long long ldk, const void *v, long long ldv, long long count) {
        const int lane = threadIdx.x % 32;
        if constexpr (SPLIT > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
        keys = (const char *)k, values = (const char *)v;
        line = ldk * ELEMENT, line_v = ldv * ELEMENT;
        left = (int)count;
        load_keys(0);
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const int byte = (p * 4 + lane % 4) * 16;
            load_piece(query[p], (const char *)q + lane / 4 * ldq * ELEMENT + byte, lane / 4 < queries && byte < DEPTH_BYTES);
        }
        load_values(0);
#pragma unroll
        for (int i = 0; i < PIECES_V * 16; i++)
            sums[i] = 0;
        state[0] = -infinity(), state[1] = 0;
    }

    // Computes the scores of a step.
    __device__ __forceinline__ void multiply(float *scores, long long step) {
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            float c[4] = {0, 0, 0, 0};
#pragma unroll
            for (int p = 0; p < PIECES; p++)
#pragma unroll
                for (int half = 0; half < 4; half += 2) {
                    const unsigned a[4] = {query[p][half], 0, query[p][half + 1], 0};
                    multiply_add(c, a, key[j][p][half], key[j][p][half + 1]);
                }
            scores[2 * j] = c[0], scores[2 * j + 1] = c[1];
        }
        if ((step + 1) * STEP < left) load_keys((int)step + 1);
    }

    // Adds the values of a step, weighted by the exponentials of the scores times `scale`. See accumulate in attend.cu.
    __device__ __forceinline__ void accumulate(float *scores, float *sums, float *state, long long step, float scale) {
        const float most = largest(scores, 0, state[0]);
        const float by = change(state[0], most, scale), own[2] = {of_query(by, 0), of_query(by, 1)};
        state[0] = most;
        state[1] = state[1] * by + weigh(scores, 0, most, scale);
#pragma unroll
        for (int i = 0; i < PIECES_V * 16; i++)
            sums[i] *= own[i % 2];
#pragma unroll
        for (int j = 0; j < BLOCKS; j += 2) {
            const unsigned b0 = pack(scores[2 * j], scores[2 * j + 1]), b1 = pack(scores[2 * j + 2], scores[2 * j + 3]);
#pragma unroll
            for (int p = 0; p < PIECES_V; p++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const unsigned x = value[j][0][p][c], y = value[j][1][p][c], z = value[j + 1][0][p][c],
                                   w = value[j + 1][1][p][c];
                    const unsigned a[4] = {__byte_perm(x, y, 0x5410), __byte_perm(x, y, 0x7632), __byte_perm(z, w, 0x5410),
                                           __byte_perm(z, w, 0x7632)};
                    multiply_add(sums + (p * 4 + c) * 4, a, b0, b1);
                }
        }
        if ((step + 1) * STEP < left) load_values((int)step + 1);
    }

    // The warps' parts become one of the block; in a cluster, the blocks' parts one in its first block. `tile`: the results,
    // maxima and sums; the parts lie behind.
    __device__ __forceinline__ void finish(float *tile, const float *sums, const float *state, long long queries, float scale) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = queries < ROWS ? (int)queries : (int)ROWS;
        float *const of_blocks = tile + parts<1>::size, *const of_warps = of_blocks + (SPLIT > 1 ? parts<SPLIT>::size : 0);
        const float by = correction(state[0], scale);
        float total = state[1] * by;
        total += __shfl_xor_sync(0xffffffff, total, 1);
        total += __shfl_xor_sync(0xffffffff, total, 2);
        if (lane % 4 == 0) {
            float *const statistics = of_warps + parts<WARPS>::maxima + lane / 4 * WARPS + warp;
            statistics[0] = state[0] * scale, statistics[ROWS * WARPS] = total;
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = lane % 4 * 2 + r;
            const float own = of_query(by, r);
#pragma unroll
            for (int i = 0; i < PIECES_V * 2; i++) {
                const int column = (i / 2 * 8 + lane / 4) * 8 + i % 2 * 4;
                const float *from = sums + i * 8 + r;
                if (column < COLUMNS && row < rows)
                    *(float4 *)(of_warps + (warp * ROWS + row) * TILE_ROW + column) =
                        make_float4(from[0] * own, from[2] * own, from[4] * own, from[6] * own);
            }
        }
        __syncthreads();
        if constexpr (SPLIT > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); // its first block is there
        parts<WARPS>::join<SPLIT == 1>(of_warps, rows, SPLIT > 1 ? of_blocks : tile);
        if constexpr (SPLIT > 1) {
            asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
            if (cluster_rank() == 0) parts<SPLIT>::join<true>(of_blocks, rows, tile);
        }
    }
};
