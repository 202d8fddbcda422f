// Few rows by weights that are codes of 2, 4 or 8 bits (ir/blocks.h: the form IG_BLOCKS_FRAGMENTS). A thread has 16 bytes of a chunk in
// registers, which are its part of the first operand of four instructions of the tensor cores (of 4 bits; of 8 bits, two; of 2 bits, eight), whose
// rows are columns of the weights; rows are their columns. Two instructions do a run of 32 depths, of which a thread has eight, of
// both operands alike.
//
// Codes less their zero points are exact in the element's type: subtractions are exact, since 1024 + c is the half whose bits are
// 0x6400 | c, and 128 + c the bfloat 0x4300 | c for c < 16; floats of 8 bits are halves whose exponents are too small, or are cut
// off. Where blocks are whole runs, sums are scaled, in f32 (LATE): that takes a third of the instructions, and rounds less. Else
// each weight is, and rounded as in the reference, and so are entries of a table.

constexpr int RUNS = 8 / BITS, CHUNK = 32 * RUNS, CHUNKS = (DEPTH + CHUNK - 1) / CHUNK;
constexpr bool WHOLE = BLOCK % CHUNK == 0 || BLOCK == DEPTH; // all runs of a chunk have the same factors
constexpr bool LATE = !TABLE && (BLOCK % 32 == 0 || BLOCK == DEPTH);

// The scales and zero points of a thread's two columns for a run.
struct factors {
    unsigned scale[2]; // of the element's type; with WIDE_SCALE, a float's bits
    unsigned zero[2];
};

// Where the depths of a run begin whose factors a thread needs: of its weights, or of sums, which are of all.
__device__ __forceinline__ int own_depths() {
    return LATE ? 0 : threadIdx.x % 4 * 8;
}

__device__ __forceinline__ unsigned twice(unsigned half) {
    return half * 0x10001;
}
__device__ __forceinline__ float from_half(unsigned half) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"((unsigned short)half));
    return wide;
}
__device__ __forceinline__ float widen(unsigned half) {
    return MATH == BF16 ? __uint_as_float(half << 16) : from_half(half);
}
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned word;
    if constexpr (MATH == F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
// a * b, and a - b where the difference is exact, of pairs.
__device__ __forceinline__ unsigned times(unsigned a, unsigned b) {
    unsigned word;
    if constexpr (MATH == F16)
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(0x80008000u));
    return word;
}
__device__ __forceinline__ unsigned less(unsigned a, unsigned b) {
    unsigned word;
    if constexpr (MATH == F16)
        asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(0xbf80bf80u), "r"(a));
    return word;
}

// a & b | c by one instruction: the compiler takes two where b and c are constants.
__device__ __forceinline__ unsigned masked(unsigned a, unsigned b, unsigned c) {
    unsigned word;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(word) : "r"(a), "r"(b), "r"(c), "n"(0xea));
    return word;
}

// a * b - c of halves, where that is exact.
__device__ __forceinline__ unsigned times_less(unsigned a, unsigned b, unsigned c) {
    unsigned word;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(c ^ 0x80008000u));
    return word;
}

__device__ __forceinline__ float scale_of(const factors &by, int column) {
    return WIDE_SCALE ? __uint_as_float(by.scale[column]) : widen(by.scale[column]);
}

// For sums. An infinite scale makes NaN, as it does of weights of both signs, or zero; one that no half is small enough for makes 0.
__device__ __forceinline__ float late_scale(const factors &by, int column) {
    constexpr float LARGEST = CODES == U8 ? 1 << BITS : CODES == E4M3 ? 448 : 57344;
    const float scale = scale_of(by, column);
    return MATH == F16 && fabsf(scale) * LARGEST <= 0x1p-25f ? 0 : fmaf(scale, 0, scale);
}

// A pair of weights from exact ones in a half's type.
__device__ __forceinline__ unsigned scaled(unsigned pair, const factors &by, int column) {
    if constexpr (LATE) return pair;
    if constexpr (!WIDE_SCALE) return times(pair, twice(by.scale[column]));
    const float scale = scale_of(by, column);
    return pack(widen(pair & 0xffff) * scale, widen(pair >> 16) * scale);
}

// The number n < 1024 as a half, or n < 256 as a bfloat, twice; exact.
__device__ __forceinline__ unsigned both(unsigned n) {
    if constexpr (MATH == BF16) return twice(__float_as_uint((float)(int)n) >> 16);
    return less(twice(0x6400 | n), 0x64006400);
}

// Weights from the i-th codes of both halves of a word.
__device__ __forceinline__ unsigned from_fields(unsigned word, int i, const factors &by, int column, float entry) {
    constexpr unsigned MASK = ((1 << BITS) - 1) * 0x10001;
    if constexpr (TABLE) {
        const unsigned codes = word >> i * BITS & MASK;
        const float low = __shfl_sync(0xffffffff, entry, (int)(codes & 15)),
                    high = __shfl_sync(0xffffffff, entry, (int)(codes >> 16));
        const float zero = ZERO ? (float)(int)by.zero[column] : 0, scale = scale_of(by, column);
        return pack((low - zero) * scale, (high - zero) * scale);
    }
    const unsigned zero = OFFSET + (ZERO ? by.zero[column] : 0);
    if constexpr (MATH == F16) {
        // 1024 + 16 c, by a sixteenth, is 64 + c, and saves a shift.
        const int within = i * BITS % 8;
        if (within > 0) {
            const unsigned high = masked(word >> i * BITS / 8 * 8, MASK << within, 0x64006400), by_power = twice((15 - within) << 10);
            return scaled(times_less(high, by_power, both((1024 >> within) + zero)), by, column);
        }
        return scaled(less(masked(word >> i * BITS, MASK, 0x64006400), twice(0x6400 + zero)), by, column);
    }
    unsigned pair = less(masked(word >> i * BITS, MASK, 0x43004300), twice(0x4300 + OFFSET));
    if constexpr (ZERO) pair = less(pair, both(by.zero[column]));
    return scaled(pair, by, column);
}

// Weights from two codes of 8 bits, bytes 2 * which and 2 * which + 1 of a word.
__device__ __forceinline__ unsigned from_bytes(unsigned word, int which, const factors &by, int column) {
    const unsigned offset = OFFSET + (ZERO ? by.zero[column] : 0);
    if constexpr (MATH == F16) {
        const unsigned pair = __byte_perm(word, 0x64646464, which ? 0x4342 : 0x4140);
        return scaled(less(pair, twice(0x6400 + offset)), by, column);
    }
    const float from = (float)(8388608 + (int)offset), scale = LATE ? 1 : scale_of(by, column);
    const float low = __uint_as_float(__byte_perm(word, 0x4b000000, which ? 0x7442 : 0x7440));
    const float high = __uint_as_float(__byte_perm(word, 0x4b000000, which ? 0x7443 : 0x7441));
    return pack((low - from) * scale, (high - from) * scale);
}

// Two floats of 8 bits, in bits 0 to 7 and 16 to 23, as halves. Those of f8e4m3fn are 2^8 times as large as the halves with their
// exponents; NaN of theirs is the largest.
__device__ __forceinline__ unsigned halves_of(unsigned codes) {
    if constexpr (CODES == E5M2) return codes << 8;
    const unsigned size = codes & 0x007f007f, nan = (size + 0x00010001) >> 7 & 0x00010001;
    unsigned word;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(size << 7), "r"(0x5c005c00u));
    return word | nan * 0x7fff | (codes & 0x00800080) << 8;
}

// Weights from two of them, bytes 2 * which and 2 * which + 1 of a word.
__device__ __forceinline__ unsigned from_floats(unsigned word, int which, const factors &by, int column) {
    const unsigned pair = halves_of(__byte_perm(word, 0, which ? 0x4342 : 0x4140));
    if constexpr (MATH == F16) return scaled(pair, by, column);
    const float scale = LATE ? 1 : scale_of(by, column);
    return pack(from_half(pair & 0xffff) * scale, from_half(pair >> 16) * scale);
}

// A thread's depths of a run of one row.
struct elements {
    unsigned words[4];
};

struct rows_of_block {
    const char *from;
    long long line; // bytes
    int left;

    __device__ __forceinline__ rows_of_block(const void *a, long long lda, long long first, long long rows) {
        from = (const char *)a + (first + threadIdx.x % 32 / 4) * lda * 2;
        line = lda * 2;
        left = (rows - first < BM ? (int)(rows - first) : (int)BM) - threadIdx.x % 32 / 4;
    }
    // Of row 8n and the thread's, a run that begins at depth `first` + `further`, a constant. Behind the last depth, which only
    // what is CHECKED reaches, it is zero. For rows that do not exist the last one stands, whose results are not stored.
    template <bool CHECKED> __device__ __forceinline__ elements load(int n, int first, int further) const {
        const int depth = first + threadIdx.x % 4 * 8;
        const char *const at = from + min(n * 8, left - 1) * line + (long long)depth * 2;
        elements x = {{0, 0, 0, 0}};
        if (CHECKED && depth + further >= DEPTH) return x;
        if constexpr (FIRST) {
            const uint4 own = *(const uint4 *)(at + further * 2);
            x = {{own.x, own.y, own.z, own.w}};
        } else
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.words[0]), "=r"(x.words[1]), "=r"(x.words[2]), "=r"(x.words[3])
                         : "l"(at + further * 2));
        return x;
    }
};

// Rows of some chunks, whose loads are all under way at once.
template <int COUNT> struct rows_of_chunks {
    elements x[COUNT][BM / 8][RUNS];

    // Chunk u begins at depth first + u * apart, a constant.
    template <bool CHECKED> __device__ __forceinline__ void load(const rows_of_block &all, int first, int apart) {
#pragma unroll
        for (int u = 0; u < COUNT; u++)
#pragma unroll
            for (int n = 0; n < BM / 8; n++)
#pragma unroll
                for (int run = 0; run < RUNS; run++)
                    x[u][n][run] = all.template load<CHECKED>(n, first, u * apart + run * 32);
    }
};
struct held_rows {
    const elements (&x)[BM / 8][RUNS];
    __device__ __forceinline__ elements of(int n, int run) const {
        return x[n][run];
    }
};

// The sums of COUNT warps that divide the depth: each leaves its own at parts_of(tile), behind the tile that add_parts makes of them.
__device__ __forceinline__ float *parts_of(float *tile) {
    return (float *)((char *)tile + PARTS_AT);
}
template <int COUNT> __device__ __forceinline__ void add_parts(float *tile) {
    __syncthreads();
    for (int e = threadIdx.x; e < BM * BN; e += THREADS) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum += parts_of(tile)[i * BM * BN + e];
        tile[e] = sum;
    }
}

struct sums {
    float c[BM / 8][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < BM / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[n][e] = 0;
    }

    // The products of a run, whose words of codes are those of the thread's two columns.
    template <class ROWS>
    __device__ __forceinline__ void add_run(float (&to)[BM / 8][4], const uint4 &x, int run, const factors &by, const ROWS &rows,
                                            float entry) {
        unsigned left[2][4];
#pragma unroll
        for (int p = 0; p < 2; p++)
#pragma unroll
            for (int column = 0; column < 2; column++)
#pragma unroll
                for (int pair = 0; pair < 2; pair++) {
                    const unsigned low = column ? x.z : x.x, high = column ? x.w : x.y;
                    const unsigned word = (BITS == 8 ? p : run * BITS / 4) ? high : low;
                    const int field = (BITS == 2 ? run % 2 * 4 : 0) + p * 2 + pair;
                    left[p][column + 2 * pair] = BITS < 8      ? from_fields(word, field, by, column, entry)
                                                 : CODES != U8 ? from_floats(word, pair, by, column)
                                                               : from_bytes(word, pair, by, column);
                }
#pragma unroll
        for (int n = 0; n < BM / 8; n++) {
            const elements right = rows.of(n, run);
#pragma unroll
            for (int p = 0; p < 2; p++)
                multiply_add(to[n], left[p], right.words[2 * p], right.words[2 * p + 1]);
        }
    }

    // The products of a chunk. rows.of(n, run): a thread's depths of a run of it, of row 8n and its own; factors_of(run): of a run.
    template <class ROWS, class FACTORS>
    __device__ __forceinline__ void add(const uint4 &x, const FACTORS &factors_of, const ROWS &rows, float entry) {
        if constexpr (!LATE) {
            factors by = factors_of(0);
#pragma unroll
            for (int run = 0; run < RUNS; run++) {
                if (run > 0 && !WHOLE) by = factors_of(run);
                add_run(c, x, run, by, rows, entry);
            }
            return;
        }
        float part[BM / 8][4];
        factors by = factors_of(0);
#pragma unroll
        for (int run = 0; run < RUNS; run++) {
            if (run > 0 && !WHOLE) by = factors_of(run);
            if (run == 0 || !WHOLE)
#pragma unroll
                for (int e = 0; e < BM / 2; e++)
                    part[e / 4][e % 4] = 0;
            add_run(part, x, run, by, rows, entry);
            if (run < RUNS - 1 && WHOLE) continue;
            const float scale[2] = {late_scale(by, 0), late_scale(by, 1)};
#pragma unroll
            for (int e = 0; e < BM / 2; e++)
                c[e / 4][e % 4] = fmaf(part[e / 4][e % 4], scale[e % 4 / 2], c[e / 4][e % 4]);
        }
    }

    // `to`: [BM][ld].
    __device__ __forceinline__ void store(float *to, int ld) const {
        const int row = threadIdx.x % 4 * 2, column = threadIdx.x % 32 / 4;
#pragma unroll
        for (int n = 0; n < BM / 8; n++) {
            float *at = to + (n * 8 + row) * ld + column;
            at[0] = c[n][0];
            at[ld] = c[n][1];
            at[8] = c[n][2];
            at[ld + 8] = c[n][3];
        }
    }
};
