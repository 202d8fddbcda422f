// Loads of what is read once.

// 16 bytes, past the first cache if weights may be read early; zeros where there is nothing.
__device__ __forceinline__ uint4 load_piece(const char *from, bool inside) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (inside) {
        if constexpr (EARLY)
            asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from));
        else
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from));
    }
    return x;
}
