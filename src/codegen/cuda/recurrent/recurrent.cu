// What the recurrences' products share: see recurrent.h. Their sums' terms are divided into parts, which are added at the
// end.

// Adds the parts of the sums of `count` gates from `first` on.
__device__ __forceinline__ void add_parts(element *sums, int rows, int first, int count) {
    if (PARTS == 1) return;
    __syncthreads();
    for (int i = THREAD; i < rows * count * UNITS; i += THREADS) {
        const int at = i / (count * UNITS) * SUMS + first * UNITS + i % (count * UNITS);
        element sum = sums[at];
#pragma unroll
        for (int part = 1; part < PARTS; part++)
            sum += sums[part * ROWS * SUMS + at];
        sums[at] = sum;
    }
}

__device__ __forceinline__ void meet() {
    if (BLOCKS > 1) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ int own_rank() {
    unsigned own = 0;
    if constexpr (BLOCKS > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(own));
    return (int)own;
}

// The address of what lies at `from` in this block, in another block of the cluster.
__device__ __forceinline__ unsigned address_in(int block, const void *from) {
    unsigned to = (unsigned)__cvta_generic_to_shared(from);
    if constexpr (BLOCKS > 1) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(to), "r"(block));
    return to;
}
