// Elements of operands as floats.

// Element e of four, or of a piece, as a float.
__device__ __forceinline__ float element_of(const unsigned *words, int e) {
    float x;
    if constexpr (ELEMENT == 4) {
        x = __uint_as_float(words[e]);
    } else if constexpr (MATH == BF16) {
        x = __uint_as_float(e % 2 ? words[e / 2] & 0xffff0000u : words[e / 2] << 16);
    } else {
        const unsigned short half = (unsigned short)(e % 2 ? words[e / 2] >> 16 : words[e / 2]);
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    }
    return x;
}
