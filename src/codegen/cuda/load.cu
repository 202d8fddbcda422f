// Loads of what is read once.

// Before the kernel waits for the preceding one loads are of the `relaxed` kind: the assembler moves weaker ones, of constants above all, behind
// the wait, and to where each is used.

// 16 bytes, past the first cache if weights may be read early; zeros where there is nothing.
__device__ __forceinline__ uint4 load_piece(const char *from, bool inside) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (inside) {
        if constexpr (EARLY)
            asm volatile("ld.relaxed.gpu.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from));
        else
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from));
    }
    return x;
}

// A number of four, two or one bytes.
__device__ __forceinline__ unsigned load_number(const unsigned *from) {
    if constexpr (!EARLY) return *from;
    unsigned x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}
__device__ __forceinline__ unsigned load_number(const unsigned short *from) {
    if constexpr (!EARLY) return *from;
    unsigned short x;
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(x) : "l"(from));
    return x;
}
__device__ __forceinline__ unsigned load_number(const unsigned char *from) {
    if constexpr (!EARLY) return *from;
    unsigned x;
    asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}
