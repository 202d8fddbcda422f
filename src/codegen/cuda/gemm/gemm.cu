// What all walks along the depth share: the split of the depth among blocks (split-K), and the handling of the sums.

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ total total_of(unsigned bits) {
    if constexpr (MATH == I8 && !SCALE_COLUMNS) return (int)bits;
    else return __uint_as_float(bits);
}

// Adds up the sums of the cluster's blocks, in the order of the blocks: each block does its own share of the tile's
// rows.
__device__ __forceinline__ void add_up(total *tile) {
    constexpr int share = BM / SPLIT, fours = share * BN / 4;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    cluster_barrier();
    const unsigned own = (unsigned)__cvta_generic_to_shared(tile);
    for (int e = threadIdx.x; e < fours; e += THREADS) {
        const unsigned at = ((rank * share + e / (BN / 4)) * TILE_ROW + e % (BN / 4) * 4) * 4;
        totals sum = {0, 0, 0, 0};
#pragma unroll
        for (int block = 0; block < SPLIT; block++) {
            unsigned from;
            uint4 part;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(own + at), "r"(block));
            asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
                         : "r"(from));
            sum.x += total_of(part.x), sum.y += total_of(part.y);
            sum.z += total_of(part.z), sum.w += total_of(part.w);
        }
        *(totals *)((char *)tile + at) = sum;
    }
    cluster_barrier();
}

__device__ __forceinline__ void store_two(float *to, float a, float b) {
    *(float2 *)to = make_float2(a, b);
}
__device__ __forceinline__ void store_two(int *to, int a, int b) {
    *(int2 *)to = make_int2(a, b);
}

// The end of every multiply: the tile is complete and visible to all threads.
template <class SUMS> __device__ __forceinline__ void finish(const SUMS &c, total *tile) {
    __syncthreads();
    c.store(tile);
    if constexpr (SPLIT > 1) add_up(tile);
    __syncthreads();
}

// The steps of this block: each block of a cluster has a share.
__device__ __forceinline__ void share_out(long long depth, int &first, int &end) {
    first = 0;
    end = (int)((depth + DEPTH - 1) / DEPTH);
    if constexpr (SPLIT > 1) {
        unsigned rank;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if constexpr (UNROLLED_STEPS > 0) {
            first = (int)rank * UNROLLED_STEPS;
            end = first + UNROLLED_STEPS;
        } else {
            const int share = (end + SPLIT - 1) / SPLIT;
            first = min((int)rank * share, end);
            end = min(first + share, end);
        }
    }
}

// The depth at which a step begins.
template <class LOAD_A> __device__ __forceinline__ long long depth_at(const LOAD_A &load_a, int step) {
    if constexpr (WINDOWS) return load_a.depth_at(step);
    return (long long)step * DEPTH;
}

// Issues the copies of the first STAGES - 1 steps. If B is constant, its parts come first, and the wait for the
// preceding kernels overlaps with them.
template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void copy_first(unsigned to, const LOAD_A &load_a, const LOAD_B &load_b, int first, int end,
                                           long long depth) {
    if constexpr (EARLY) {
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++)
            if (first + s < end) load_b.load(to + s * STAGE_BYTES + A_BYTES, depth_at(load_a, first + s), depth);
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s < end) {
            const long long at = depth_at(load_a, first + s);
            load_a.load(to + s * STAGE_BYTES, at, depth);
            if constexpr (!EARLY) load_b.load(to + s * STAGE_BYTES + A_BYTES, at, depth);
        }
        close_copies();
    }
}

// Issues the copies of a step into its stage, if there is such a step.
template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void copy_step(unsigned to, const LOAD_A &load_a, const LOAD_B &load_b, int step, int end,
                                          long long depth) {
    if (step < end) {
        const long long at = depth_at(load_a, step);
        load_a.load(to, at, depth);
        load_b.load(to + A_BYTES, at, depth);
    }
    close_copies();
}
