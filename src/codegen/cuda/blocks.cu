// Few rows by weights that are codes of 4 or 8 bits (ir/blocks.h: the form IG_BLOCKS_FRAGMENTS). Codes go from memory straight
// into registers, 16 bytes a thread, which are a thread's part of the first operand of four instructions of the tensor cores
// (of 4 bits; of 8 bits, two), whose rows are columns of the weights. They are dequantised there, in pairs, by the same roundings
// as in the reference: subtractions are exact, since 1024 + c is the half whose bits are 0x6400 | c, and 128 + c the bfloat
// 0x4300 | c for c < 16; floats of 8 bits are halves whose exponents are too small, or are cut off. Rows are the columns of the instructions. The depths of an instruction are those of a thread in the order of its
// codes, of both operands alike.

constexpr int THREAD_DEPTHS = BITS == 4 ? 16 : 8, CHUNK = 4 * THREAD_DEPTHS, CHUNKS = (DEPTH + CHUNK - 1) / CHUNK;
constexpr int PRODUCTS = THREAD_DEPTHS / 4, BN = 16 * WARPS_N, BLOCK_THREADS = 32 * WARPS_N * WARPS_K;

// The scales and zero points of a thread's two columns for a chunk: as pairs of equal halves, or as floats.
struct factors {
    unsigned scale[2]; // of the element's type; with WIDE_SCALE, a float's bits
    unsigned zero[2];
};

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

__device__ __forceinline__ float scale_of(const factors &by, int column) {
    return WIDE_SCALE ? __uint_as_float(by.scale[column]) : widen(by.scale[column]);
}

// A pair of weights from differences in a half's type.
__device__ __forceinline__ unsigned scaled(unsigned pair, const factors &by, int column) {
    if constexpr (!WIDE_SCALE) return times(pair, twice(by.scale[column]));
    const float scale = scale_of(by, column);
    return pack(widen(pair & 0xffff) * scale, widen(pair >> 16) * scale);
}

// The number n < 1024 as a half, or n < 256 as a bfloat, twice; exact.
__device__ __forceinline__ unsigned both(unsigned n) {
    if constexpr (MATH == BF16) return twice(__float_as_uint((float)(int)n) >> 16);
    return less(twice(0x6400 | n), 0x64006400);
}

// Weights from two codes of 4 bits, in bits 0 to 3 and 16 to 19.
__device__ __forceinline__ unsigned from_nibbles(unsigned codes, const factors &by, int column, float entry) {
    codes &= 0x000f000f;
    if constexpr (TABLE) {
        const float low = __shfl_sync(0xffffffff, entry, (int)(codes & 15)),
                    high = __shfl_sync(0xffffffff, entry, (int)(codes >> 16));
        const float zero = ZERO ? (float)(int)by.zero[column] : 0, scale = scale_of(by, column);
        return pack((low - zero) * scale, (high - zero) * scale);
    }
    if constexpr (MATH == F16)
        return scaled(less(codes | 0x64006400, twice(0x6400 + OFFSET + (ZERO ? by.zero[column] : 0))), by, column);
    unsigned pair = less(codes | 0x43004300, twice(0x4300 + OFFSET));
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
    const float from = (float)(8388608 + (int)offset), scale = scale_of(by, column);
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
    const float scale = scale_of(by, column);
    return pack(from_half(pair & 0xffff) * scale, from_half(pair >> 16) * scale);
}

// What a thread reads of the weights: every WARPS_K-th chunk of the depth of 16 columns.
struct weights {
    const char *codes;
    const void *scales;
    const unsigned char *zeros;
    bool inside;

    __device__ __forceinline__ void start(const void *all, const void *scale, const void *zero, int column) {
        const int lane = threadIdx.x % 32;
        inside = column < COLUMNS;
        codes = (const char *)all + ((long long)(column / 16) * CHUNKS * 32 + lane) * 16;
        scales = (const char *)scale + (long long)(column + lane / 4) * SCALE_BYTES;
        zeros = (const unsigned char *)zero + column + lane / 4;
    }
    // Depths of a chunk beyond the last have a scale of 0.
    __device__ __forceinline__ factors of_chunk(int chunk) const {
        const int depth = chunk * CHUNK + threadIdx.x % 4 * THREAD_DEPTHS;
        const long long at = (long long)(depth / BLOCK) * COLUMNS;
        const bool exists = inside && depth < DEPTH;
        factors f;
#pragma unroll
        for (int column = 0; column < 2; column++) {
            f.scale[column] = f.zero[column] = 0;
            if (!exists) continue;
            if constexpr (SCALE_BYTES == 4)
                f.scale[column] = ((const unsigned *)scales)[at + column * 8];
            else
                f.scale[column] = (unsigned)((const unsigned short *)scales)[at + column * 8] << (WIDE_SCALE ? 16 : 0);
            if constexpr (ZERO) f.zero[column] = zeros[at + column * 8];
        }
        return f;
    }
};

// AHEAD chunks of a thread, from a chunk on.
struct pieces {
    uint4 x[AHEAD];
    factors by[AHEAD];
    __device__ __forceinline__ void load(const weights &w, int chunk) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = chunk + u * WARPS_K;
            x[u] = load_piece(w.codes + (long long)at * 512, w.inside && at < CHUNKS);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            by[u] = w.of_chunk(chunk + u * WARPS_K);
    }
};

// A thread's depths of a chunk of one row.
struct elements {
    unsigned words[THREAD_DEPTHS / 2];
    __device__ __forceinline__ void load(const char *row, int depth, bool exists) {
#pragma unroll
        for (int i = 0; i < THREAD_DEPTHS / 2; i += 4) {
            uint4 x = make_uint4(0, 0, 0, 0);
            if (exists && depth < DEPTH)
                asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                             : "l"(row + depth * 2 + i * 4));
            words[i] = x.x, words[i + 1] = x.y, words[i + 2] = x.z, words[i + 3] = x.w;
        }
    }
};

struct sums {
    float c[BM / 8][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < BM / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[n][e] = 0;
    }

    __device__ __forceinline__ void add(const uint4 &x, const factors &by, const char *a, long long line, int rows,
                                        int chunk, float entry) {
        const int row = threadIdx.x % 32 / 4, depth = chunk * CHUNK + threadIdx.x % 4 * THREAD_DEPTHS;
        const unsigned word[2][2] = {{x.x, x.y}, {x.z, x.w}};
        unsigned left[PRODUCTS][4];
#pragma unroll
        for (int p = 0; p < PRODUCTS; p++)
#pragma unroll
            for (int column = 0; column < 2; column++)
#pragma unroll
                for (int pair = 0; pair < 2; pair++)
                    left[p][column + 2 * pair] =
                        BITS == 4      ? from_nibbles(word[column][p / 2] >> (p % 2 * 2 + pair) * 4, by, column, entry)
                        : CODES != U8 ? from_floats(word[column][p], pair, by, column)
                                      : from_bytes(word[column][p], pair, by, column);
#pragma unroll
        for (int n = 0; n < BM / 8; n++) {
            elements right;
            right.load(a + (n * 8 + row) * line, depth, n * 8 + row < rows);
#pragma unroll
            for (int p = 0; p < PRODUCTS; p++)
                multiply_add(c[n], left[p], right.words[2 * p], right.words[2 * p + 1]);
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

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *codes, const void *scales, const void *zeros, const float *table,
                                         long long first_column) {
    const int warp = threadIdx.x / 32, own = warp % WARPS_N, share = warp / WARPS_N;
    weights from;
    from.start(codes, scales, zeros, (int)first_column + own * 16);
    float entry = 0;
    if constexpr (TABLE) entry = table[threadIdx.x % 16];
    pieces now;
    now.load(from, share);
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    const char *const line = (const char *)a + first_row * lda * 2;
    const int left = rows - first_row < BM ? (int)(rows - first_row) : (int)BM;
    sums c;
    c.clear();
    for (int chunk = share;;) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            c.add(now.x[u], now.by[u], line, lda * 2, left, chunk + u * WARPS_K, entry);
        chunk += AHEAD * WARPS_K;
        if (chunk >= CHUNKS) break;
        now.load(from, chunk);
    }
    if constexpr (WARPS_K == 1) {
        c.store(tile + own * 16, BN);
    } else {
        float *const parts = tile + BM * BN;
        c.store(parts + share * BM * BN + own * 16, BN);
        __syncthreads();
        for (int e = threadIdx.x; e < BM * BN; e += BLOCK_THREADS) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < WARPS_K; i++)
                sum += parts[i * BM * BN + e];
            tile[e] = sum;
        }
    }
    __syncthreads();
}
