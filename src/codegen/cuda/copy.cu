// Asynchronous copies from global to shared memory.

// Copies BYTES bytes if `inside`; else zero-fills, whatever `from` is. Copies of 4 bytes and more are asynchronous
// until wait_for_copies. AGAIN: the block will soon copy the same bytes again, so they are kept in L1.
template <int BYTES, bool AGAIN = false> __device__ __forceinline__ void copy(unsigned to, const char *from, bool inside) {
    if constexpr (BYTES == 16 && !AGAIN) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0));
    } else if constexpr (BYTES >= 4) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                     "r"(inside ? BYTES : 0));
    } else if constexpr (BYTES == 2) {
        unsigned short value = 0;
        if (inside) value = *(const unsigned short *)from;
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(value));
    } else {
        unsigned value = 0;
        if (inside) value = *(const unsigned char *)from;
        asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(value));
    }
}

// Stores BYTES bytes, of which `word` repeats four.
template <int BYTES> __device__ __forceinline__ void fill(unsigned to, unsigned word) {
    if constexpr (BYTES >= 4) {
#pragma unroll
        for (int i = 0; i < BYTES; i += 4)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + i), "r"(word));
    } else if constexpr (BYTES == 2) {
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((unsigned short)word));
    } else {
        asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(word));
    }
}

__device__ __forceinline__ void close_copies() {
    asm volatile("cp.async.commit_group;" ::);
}

// Waits until all but the newest LEFT groups of copies have arrived.
template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
