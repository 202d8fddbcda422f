// What the recurrences' products share: see recurrent.h.

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
