// The walk along the depth: copies run STAGES - 1 steps ahead of the products.

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The sums of the cluster's blocks, in the order of the blocks: each block adds up its own share of the tile's rows.
__device__ __forceinline__ void add_up(float *tile) {
    constexpr int share = BM / SPLIT, fours = share * BN / 4;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    cluster_barrier();
    const unsigned own = (unsigned)__cvta_generic_to_shared(tile);
    for (int e = threadIdx.x; e < fours; e += THREADS) {
        const unsigned at = ((rank * share + e / (BN / 4)) * TILE_ROW + e % (BN / 4) * 4) * 4;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int block = 0; block < SPLIT; block++) {
            unsigned from;
            float4 part;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(own + at), "r"(block));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(part.x), "=f"(part.y), "=f"(part.z), "=f"(part.w)
                         : "r"(from));
            sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
        *(float4 *)((char *)tile + at) = sum;
    }
    cluster_barrier();
}

// What every multiply ends with: the tile is complete and seen by all threads.
__device__ __forceinline__ void finish(const sums &c, float *tile) {
    __syncthreads();
    c.store(tile);
    if constexpr (SPLIT > 1) add_up(tile);
    __syncthreads();
}

template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void walk(float *tile, const LOAD_A &load_a, const LOAD_B &load_b, long long depth) {
    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);
    int first = 0, steps = (int)((depth + DEPTH - 1) / DEPTH);
    if constexpr (SPLIT > 1) {
        unsigned rank;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        const int share = (steps + SPLIT - 1) / SPLIT;
        first = min((int)rank * share, steps);
        steps = min(first + share, steps);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s < steps) {
            load_a.load(memory + s * STAGE_BYTES, (long long)(first + s) * DEPTH, depth);
            load_b.load(memory + s * STAGE_BYTES + A_BYTES, (long long)(first + s) * DEPTH, depth);
        }
        close_copies();
    }
    sums c;
    c.clear();
    int now = 0, next = STAGES - 1;
    for (int s = first; s < steps; s++) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        if (s + STAGES - 1 < steps) {
            load_a.load(memory + next * STAGE_BYTES, (long long)(s + STAGES - 1) * DEPTH, depth);
            load_b.load(memory + next * STAGE_BYTES + A_BYTES, (long long)(s + STAGES - 1) * DEPTH, depth);
        }
        close_copies();
        c.step(memory + now * STAGE_BYTES, memory + now * STAGE_BYTES + A_BYTES);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    wait_for_copies<0>();
    finish(c, tile);
}
