// Asynchronous copies from global to shared memory.

// What threads copy themselves: one byte or two.
template <int BYTES> __device__ __forceinline__ unsigned get(const char *from) {
    if constexpr (BYTES == 2) return *(const unsigned short *)from;
    else return *(const unsigned char *)from;
}
template <int BYTES> __device__ __forceinline__ void put(unsigned to, unsigned value) {
    if constexpr (BYTES == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((unsigned short)value));
    else asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(value));
}

// Copies BYTES bytes if `inside`; else zero-fills, whatever `from` is. Copies of 4 bytes and more are asynchronous
// until wait_for_copies. AGAIN: the block will soon copy the same bytes again, so they are kept in L1.
template <int BYTES, bool AGAIN = false> __device__ __forceinline__ void copy(unsigned to, const char *from, bool inside) {
    if constexpr (BYTES < 4) {
        put<BYTES>(to, inside ? get<BYTES>(from) : 0);
    } else if constexpr (BYTES == 16 && !AGAIN) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0));
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                     "r"(inside ? BYTES : 0));
    }
}

// Stores BYTES bytes, of which `word` repeats four.
template <int BYTES> __device__ __forceinline__ void fill(unsigned to, unsigned word) {
    if constexpr (BYTES < 4) {
        put<BYTES>(to, word);
    } else {
#pragma unroll
        for (int i = 0; i < BYTES; i += 4)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + i), "r"(word));
    }
}

// A copy that one of several is; those that do not exist are left out.
struct piece {
    unsigned to;
    const char *from;
    bool inside, exists;
};

// Copies pieces of BYTES bytes, number i of COUNT being piece_of(i). A thread has several small ones under way before it stores the first,
// since it waits for each; `outside` is what these are where they are not `inside`.
template <int BYTES, bool AGAIN, int COUNT, class PIECES>
__device__ __forceinline__ void copy_pieces(const PIECES &piece_of, unsigned outside = 0) {
    constexpr int together = BYTES < 4 ? 8 : 1;
#pragma unroll
    for (int first = 0; first < COUNT; first += together) {
        if constexpr (BYTES < 4) {
            unsigned value[together];
#pragma unroll
            for (int i = first; i < first + together && i < COUNT; i++) {
                const piece p = piece_of(i);
                value[i - first] = outside;
                if (p.exists && p.inside) value[i - first] = get<BYTES>(p.from);
            }
#pragma unroll
            for (int i = first; i < first + together && i < COUNT; i++) {
                const piece p = piece_of(i);
                if (p.exists) put<BYTES>(p.to, value[i - first]);
            }
        } else {
            const piece p = piece_of(first);
            if (p.exists) copy<BYTES, AGAIN>(p.to, p.from, p.inside);
        }
    }
}

__device__ __forceinline__ void close_copies() {
    asm volatile("cp.async.commit_group;" ::);
}

// Waits until all but the newest LEFT groups of copies have arrived.
template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
