// The steps of a block, and the sums of its warps and of a cluster's blocks: each block ends up with those of its share
// of the columns.

__device__ __forceinline__ int cluster_rank() {
    unsigned rank = 0;
    if constexpr (SPLIT > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

// Adds up the tiles of a cluster's blocks, in the order of the blocks.
__device__ __forceinline__ void add_up(float *tile) {
    constexpr int share = BN / SPLIT, fours = share / 4;
    const unsigned own = (unsigned)__cvta_generic_to_shared(tile);
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    for (int e = threadIdx.x; e < PRODUCTS * BM * fours; e += THREADS) {
        const int row = e / fours % BM, product = e / fours / BM;
        const int at = row * TILE_ROW + product * BN + cluster_rank() * share + e % fours * 4;
        float4 part[SPLIT], sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int block = 0; block < SPLIT; block++) {
            unsigned from;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(own + at * 4), "r"(block));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(part[block].x), "=f"(part[block].y), "=f"(part[block].z), "=f"(part[block].w)
                         : "r"(from));
        }
#pragma unroll
        for (int block = 0; block < SPLIT; block++) {
            sum.x += part[block].x, sum.y += part[block].y;
            sum.z += part[block].z, sum.w += part[block].w;
        }
        *(float4 *)(tile + at) = sum;
    }
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

// After the epilogue: the other blocks of the cluster have read this one's sums.
__device__ __forceinline__ void leave() {
    if constexpr (SPLIT > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *b, long long ldb, long long first_column, long long columns,
                                         long long depth, const void *twin = nullptr) {
    const int warp = threadIdx.x / 32, steps = ((int)depth + STEP - 1) / STEP;
    int step = cluster_rank() * SHARE + warp % SHARE;
    weights from;
    from.start((const char *)(warp < SHARE ? b : twin), ldb, first_column, columns, depth);
    pieces now;
    now.load(from, step);
    if constexpr (EARLY) {
        from.fetch(step + AHEAD * WALKERS);
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    const char *const line = (const char *)a + first_row * lda * ELEMENT;
    const int left = rows - first_row < BM ? (int)(rows - first_row) : (int)BM;
    sums c;
    c.clear();
    for (;;) {
        c.add(now, line, lda * ELEMENT, left, step, (int)depth);
        step += AHEAD * WALKERS;
        if (step >= steps) break;
        now.load(from, step);
    }
    float *const parts = tile + BM * TILE_ROW;
    __syncthreads(); // the preceding tile has been read
    c.store(parts + warp * BM * BN);
    __syncthreads();
    for (int e = threadIdx.x; e < PRODUCTS * BM * BN; e += THREADS) {
        const int product = e / (BM * BN), at = e % (BM * BN);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < SHARE; i++)
            sum += parts[(product * SHARE + i) * BM * BN + at];
        tile[at / BN * TILE_ROW + product * BN + at % BN] = sum;
    }
    if constexpr (SPLIT > 1) add_up(tile);
    __syncthreads();
}
