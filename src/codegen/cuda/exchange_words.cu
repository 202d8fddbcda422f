// What lies in windows and seats (base/window.h): the elements of messages, and the words of lines.

struct report {
    unsigned state, peer, number, size, other_number, other_size, stop;
};
struct seat {
    char *windows[MOST_RANKS];
    report *to;
    unsigned long long patience;
    unsigned rank, given_up, epochs[HEADERS], is_split, launches[HEADERS];
};
enum { WELL, LATE, DIFFERENT };

// The data of a line. Loops over its elements are unrolled, or else it would lie in local memory.
template <bool BULK> union alignas(BULK ? 16 : 8) piece {
    static constexpr int WORDS = BULK ? 4 : 2, UNIT = WORDS * 4 / (int)sizeof(element);
    unsigned words[WORDS];
    element e[UNIT];
};

// ---- Elements

__device__ __forceinline__ float widen(f16 x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
__device__ __forceinline__ float widen(bf16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}
template <typename T> __device__ __forceinline__ T widen(T x) {
    return x;
}
__device__ __forceinline__ void narrow(float x, f16 &to) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(0.0f), "f"(x));
    to.bits = (unsigned short)word;
}
__device__ __forceinline__ void narrow(float x, bf16 &to) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(0.0f), "f"(x));
    to.bits = (unsigned short)word;
}
template <typename T> __device__ __forceinline__ void narrow(total x, T &to) {
    to = (T)x;
}

// Of the maximum and the minimum, NaN with anything is NaN.
__device__ __forceinline__ total combine(total a, total b) {
    if constexpr (REDUCTION == SUM) return a + b;
    if (a != a || b != b) return a != a ? a : b;
    return (REDUCTION == MAX) == (a > b) ? a : b;
}

// ---- Words

__device__ __forceinline__ unsigned peek(const unsigned *at) {
    unsigned word;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
    return word;
}
__device__ __forceinline__ void poke(unsigned *at, unsigned word) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(word));
}

template <bool BULK> struct line;
template <> struct line<false> {
    unsigned long long a, b;

    __device__ __forceinline__ void load(const char *at) {
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(at));
    }
    __device__ __forceinline__ void store(char *at) const {
        asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(a), "l"(b));
    }
    __device__ __forceinline__ void fill(unsigned epoch, unsigned first, unsigned second) {
        a = (unsigned long long)epoch << 32 | first;
        b = (unsigned long long)epoch << 32 | second;
    }
    __device__ __forceinline__ void pack(unsigned epoch, const piece<false> &p) {
        fill(epoch, p.words[0], p.words[1]);
    }
    __device__ __forceinline__ piece<false> unpack() const {
        piece<false> p;
        p.words[0] = (unsigned)a;
        p.words[1] = (unsigned)b;
        return p;
    }
    __device__ __forceinline__ bool is_of(unsigned epoch) const {
        return (unsigned)(a >> 32) == epoch && (unsigned)(b >> 32) == epoch;
    }
};
// Past the first cache, where what the half held before may still be.
template <> struct line<true> {
    piece<true> p;

    __device__ __forceinline__ void load(const char *at) {
        unsigned long long a, b;
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(at));
        p.words[0] = (unsigned)a;
        p.words[1] = (unsigned)(a >> 32);
        p.words[2] = (unsigned)b;
        p.words[3] = (unsigned)(b >> 32);
    }
    __device__ __forceinline__ void store(char *at) const {
        *(uint4 *)at = make_uint4(p.words[0], p.words[1], p.words[2], p.words[3]);
    }
    __device__ __forceinline__ void pack(unsigned, const piece<true> &from) {
        p = from;
    }
    __device__ __forceinline__ piece<true> unpack() const {
        return p;
    }
};
