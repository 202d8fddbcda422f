// Products of a few rows, which take as long as B takes to read: the threads divide a step's part of B among them, COPY bytes
// of columns side by side, and keep it in registers. Where B is constant the first step's is there before the rows are.

struct sums {
    static constexpr int per = B_COPY / ELEMENT, units = BN / per, lines = THREADS / units, each = DEPTH / lines;
    static constexpr int warps = THREADS / 32;
    float c[ROWS][per];

    // What all threads have added up, by way of the memory behind the tile.
    __device__ __forceinline__ void store(float *tile) const {
        float *const parts = tile + BM * TILE_ROW;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < per; j++) {
                float sum = c[r][j];
#pragma unroll
                for (int apart = units; apart < 32; apart *= 2)
                    sum += __shfl_xor_sync(0xffffffff, sum, apart);
                if (threadIdx.x % 32 < units)
                    parts[(threadIdx.x / 32 * ROWS + r) * BN + threadIdx.x % units * per + j] = sum;
            }
        __syncthreads();
#pragma unroll 1
        for (int e = threadIdx.x; e < ROWS * BN; e += THREADS) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < warps; w++)
                sum += parts[w * ROWS * BN + e];
            tile[e / BN * TILE_ROW + e % BN] = sum;
        }
        if constexpr (SPLIT > 1)
#pragma unroll 1
            for (int e = threadIdx.x; e < (BM - ROWS) * BN; e += THREADS)
                tile[(ROWS + e / BN) * TILE_ROW + e % BN] = 0;
    }
};

__device__ __forceinline__ float number(unsigned word, int half) {
    if constexpr (ELEMENT == 4) return __uint_as_float(word);
    if constexpr (MATH == BF16) return __uint_as_float(half ? word & 0xffff0000 : word << 16);
    float a;
    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"((unsigned short)(word >> 16 * half)));
    return a;
}

// Loads that stay where they are, before the wait for other kernels or behind it.
template <int WORDS> __device__ __forceinline__ void load_words(unsigned (&to)[WORDS], const char *from) {
    if constexpr (WORDS == 4)
        asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "l"(from));
    else if constexpr (WORDS == 2)
        asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
    else
        asm volatile("ld.global.b32 %0, [%1];" : "=r"(to[0]) : "l"(from));
}
__device__ __forceinline__ float load_number(const char *from) {
    if constexpr (ELEMENT == 4) {
        unsigned word;
        asm volatile("ld.global.b32 %0, [%1];" : "=r"(word) : "l"(from));
        return number(word, 0);
    } else {
        unsigned short half;
        asm volatile("ld.global.b16 %0, [%1];" : "=h"(half) : "l"(from));
        return number(half, 0);
    }
}

// A thread's part of a step of B: the same columns of every `lines`th line. What is beyond the operand is loaded from its
// beginning, and then not counted.
struct held {
    static constexpr int words = B_COPY / 4;
    unsigned b[sums::each][words];

    __device__ __forceinline__ void load(const char *from, long long ld, long long first, long long depth) {
#pragma unroll
        for (int i = 0; i < sums::each; i++) {
            const long long p = first + threadIdx.x / sums::units + i * sums::lines;
            load_words<words>(b[i], from + (WHOLE_DEPTH || p < depth ? p * ld * ELEMENT : 0));
        }
    }
};

__device__ __forceinline__ void add_step(sums &c, const held &now, const char *a, long long ld, long long first,
                                         long long depth) {
    float x[sums::each][ROWS];
#pragma unroll
    for (int i = 0; i < sums::each; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const long long p = first + threadIdx.x / sums::units + i * sums::lines;
            x[i][r] = load_number(a + (r * ld + (WHOLE_DEPTH || p < depth ? p : 0)) * ELEMENT);
        }
#pragma unroll
    for (int i = 0; i < sums::each; i++) {
        if (!WHOLE_DEPTH && first + threadIdx.x / sums::units + i * sums::lines >= depth) continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < sums::per; j++)
                c.c[r][j] += x[i][r] * number(now.b[i][j * ELEMENT / 4], j * ELEMENT / 2 % 2);
    }
}

__device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows,
                                         const void *b, long long ldb, long long first_column, long long columns,
                                         long long depth) {
    int first, end;
    share_out(depth, first, end);
    const long long column = first_column + threadIdx.x % sums::units * sums::per;
    const char *const from = (const char *)b + (column < columns ? column : 0) * ELEMENT;
    held now;
    now.load(from, ldb, (long long)first * DEPTH, depth);
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    sums c = {};
#pragma unroll 1
    for (int s = first; s < end; s++) {
        const held here = now;
        if (s + 1 < end) now.load(from, ldb, (long long)(s + 1) * DEPTH, depth);
        add_step(c, here, (const char *)a, lda, (long long)s * DEPTH, depth);
    }
    finish(c, tile);
}
