// ---- The steps of a tile ---------------------------------------------------------------------------------------------

// state: R running maxima, then R running sums of this thread's share of the keys.
__device__ __forceinline__ void clear(float *sums, float *state) {
#pragma unroll
    for (int e = 0; e < BLOCKS_V * R * CV; e++)
        sums[e] = 0;
#pragma unroll
    for (int r = 0; r < R; r++)
        state[r] = -infinity(), state[R + r] = 0;
}

__device__ __forceinline__ void begin(float *sums, float *state, const void *q, long long ldq, long long queries,
                                      const void *k, long long ldk, const void *v, long long ldv, long long keys) {
    copy<ROWS, LINE, THREADS, TABLE_Q>(shared_address(0), (const char *)q, ldq, queries < ROWS ? (int)queries : ROWS,
                                       DEPTH_BYTES, threadIdx.x);
#pragma unroll
    for (int s = 0; s < STAGES; s++)
        copy_step(s, k, ldk, v, ldv, keys);
    clear(sums, state);
}

// Computes the scores of a step, and issues the copies of the one that takes the place of the step before.
__device__ __forceinline__ void multiply(float *scores, long long step, const void *k, long long ldk, const void *v,
                                         long long ldv, long long keys) {
    if (WHOLE || step == 0)
        wait_for_copies<2 * STAGES - 1>();
    else
        wait_for_copies<2 * AHEAD - 1>();
    meet(step == 0);
    if (WHOLE || step > 0) copy_step(step + AHEAD, k, ldk, v, ldv, keys);
    score(scores, 0, KEYS_AT + (int)(step % STAGES) * STAGE);
}

// Replaces the scores of all rows of this thread by weights, and rescales its sums to the new maxima. These are found first, so
// that one row's exchange among threads takes place beside the other's.
__device__ __forceinline__ void weigh_rows(float *scores, float *sums, float *state, float scale) {
    float most[R], by[R];
    bool changed = false;
#pragma unroll
    for (int r = 0; r < R; r++)
        most[r] = largest(scores, r, state[r]);
#pragma unroll
    for (int r = 0; r < R; r++) {
        by[r] = change(state[r], most[r], scale);
        changed = changed || by[r] != 1;
        state[r] = most[r];
        state[R + r] = state[R + r] * by[r] + weigh(scores, r, most[r], scale);
    }
    if (!__any_sync(0xffffffff, changed)) return; // mostly so, where there are many keys
#pragma unroll
    for (int e = 0; e < BLOCKS_V * R * CV; e++)
        sums[e] *= by[e / CV % R];
}

// Adds the values of a step, weighted by the exponentials of the scores times `scale`; `queries` are left in the tile.
// A row that has seen only -infinity has that as its maximum, and no sum. A NaN or infinite score makes the sum of the
// weights NaN but not the results, which are still needed if the model counts NaN weights as zero.
__device__ __forceinline__ void accumulate(float *scores, float *sums, float *state, long long step, long long queries,
                                           float scale) {
    if (threadIdx.x / 32 / WARPS_N * 16 < queries) weigh_rows(scores, sums, state, scale);
    wait_for_copies<2 * AHEAD>();
    meet(false);
    sum(sums, scores, KEYS_AT + (int)(step % STAGES) * STAGE + VALUES_AT);
}

// ---- Packed tables ---------------------------------------------------------------------------------------------------

// Four numbers. Loads of memory that may change stay in front of barriers; those of constants go behind the products that they are
// to arrive beside.
template <typename T> __device__ __forceinline__ void load_four(T *to, const T *from) {
    if constexpr (sizeof(T) == 1) {
        unsigned x;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(from));
        *(unsigned *)to = x;
    } else if constexpr (sizeof(T) == 2) {
        uint2 x;
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(from));
        *(uint2 *)to = x;
    } else {
        uint4 x;
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
        *(uint4 *)to = x;
    }
}

// What is added to a thread's scores of a row, in `from`, which is that of the first 16 keys: four numbers of each 16, from a
// step's first ones on, and the last ones again behind them.
template <typename T> __device__ __forceinline__ void load_packed(T *to, const T *from, int row, long long first, long long last) {
#pragma unroll
    for (int i = 0; i < BLOCKS / 2; i++)
        load_four(to + (i * R + row) * 4, from + ((int)first + i < (int)last ? (int)first + i : (int)last) * 16);
}

constexpr int PARTS = WARPS_N * SPLIT;

// Writes the unnormalised results [PARTS][ROWS][TILE_ROW], maxima and sums [PARTS][ROWS] to the beginning of shared
// memory.
__device__ __forceinline__ void finish(float *tile, const float *sums, const float *state, float scale) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if constexpr (!TURNS) {
        wait_for_copies<0>();
        __syncthreads();
    }
    const int first = (cluster_rank() * WARPS_N + warp % WARPS_N) * ROWS + warp / WARPS_N * 16 + lane / L;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int row = first + r * (16 / R);
        const float by = TURNS ? 1 : correction(state[r], scale); // for parts to be combined
        float total = state[R + r] * by;
#pragma unroll
        for (int apart = 1; apart < L; apart *= 2)
            total += __shfl_xor_sync(0xffffffff, total, apart);
        if (lane % L == 0) {
            float *statistics = tile + PARTS * ROWS * TILE_ROW;
            statistics[row] = state[r] * scale;
            statistics[PARTS * ROWS + row] = total;
        }
#pragma unroll
        for (int j = 0; j < BLOCKS_V; j++) {
            float *to = tile + row * TILE_ROW + (j * L + lane % L) * CV;
            const float *from = sums + (j * R + r) * CV;
            if constexpr (CV == 4)
                *(float4 *)to = make_float4(from[0] * by, from[1] * by, from[2] * by, from[3] * by);
            else
                *(float2 *)to = make_float2(from[0] * by, from[1] * by);
        }
    }
}

// Gathers the results of a cluster in its first block, through distributed shared memory: of each part that another
// block has, maxima and sums, and the results of the `queries` that are left. Several loads are under way at once.
__device__ __forceinline__ void gather(float *tile, long long queries) {
    constexpr int others = SPLIT > 1 ? PARTS - WARPS_N : 1, statistics = others * ROWS / 4, fours = COLUMNS / 4, together = 8;
    const unsigned own = (unsigned)__cvta_generic_to_shared(tile);
    const int rows = queries < ROWS ? (int)queries : (int)ROWS;
    cluster_barrier();
    for (int e = threadIdx.x; cluster_rank() == 0 && e < 2 * statistics + others * rows * fours; e += THREADS * together) {
        float4 x[together];
        int at[together];
#pragma unroll
        for (int i = 0; i < together; i++) {
            const int k = e + i * THREADS, left = k - 2 * statistics, line = left / fours;
            at[i] = -1;
            if (left >= others * rows * fours) continue;
            int part = WARPS_N + (k < 2 * statistics ? k % statistics * 4 / ROWS : line / rows);
            if (left < 0)
                at[i] = PARTS * ROWS * (TILE_ROW + k / statistics) + WARPS_N * ROWS + k % statistics * 4;
            else
                at[i] = (part * ROWS + line % rows) * TILE_ROW + left % fours * 4;
            unsigned from;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(own + at[i] * 4), "r"(part / WARPS_N));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x[i].x), "=f"(x[i].y), "=f"(x[i].z), "=f"(x[i].w)
                         : "r"(from));
        }
#pragma unroll
        for (int i = 0; i < together; i++)
            if (at[i] >= 0) *(float4 *)(tile + at[i]) = x[i];
    }
    cluster_barrier();
}
