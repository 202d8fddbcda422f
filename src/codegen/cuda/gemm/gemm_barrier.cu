// Barriers in shared memory (mbarrier) for copies by the copy engine: a round ends when all have arrived, and all bytes that they
// announced. A wait names the parity of its round, which distinguishes that round from the preceding one only.

__device__ __forceinline__ unsigned shared_memory() {
    extern __shared__ __align__(1024) char ig_shared[];
    return (unsigned)__cvta_generic_to_shared(ig_shared);
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile("{\n.reg .pred over;\nmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, over;\n}"
                     : "=r"(over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!over);
}

__device__ __forceinline__ void start_barrier(unsigned at, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_memory() + at), "r"(arrivals) : "memory");
}

// Arrives, and announces copies of so many bytes.
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
