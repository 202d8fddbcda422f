// Up to 16 rows on the tensor cores (mma.sync), whose rows are 16 columns of the weights, and whose columns are rows. A thread has
// eight depths of each 32, of both operands alike; rows come straight from memory, mostly the first-level cache.

constexpr int WIDTH = PRODUCTS * BN;

struct rows_of_block {
    const char *from;
    long long line;
    int left;

    __device__ __forceinline__ rows_of_block(const char *begin, long long bytes, int rows) {
        from = begin + threadIdx.x % 32 / 4 * bytes;
        line = bytes;
        left = rows - threadIdx.x % 32 / 4;
    }
    // 16 bytes of row 8n and the thread's.
    __device__ __forceinline__ uint4 load(int n, int at) const {
        uint4 x = make_uint4(0, 0, 0, 0);
        if (n * 8 < left && at < ALL_DEPTH * ELEMENT)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from + n * 8 * line + at));
        return x;
    }
};

__device__ __forceinline__ uint4 load_shared(unsigned from, bool inside) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (inside)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                     : "r"(from));
    return x;
}

struct sums {
    float c[BM / 8][4];
    uint4 x[PIECE / 64][BM / 8]; // of a piece

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < BM / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[n][e] = 0;
    }

    __device__ __forceinline__ void load(const walk &at, const rows_of_block &rows) {
        #pragma unroll
        for (int i = 0; i < PIECE / 64; i++)
#pragma unroll
            for (int n = 0; n < BM / 8; n++)
                x[i][n] = rows.load(n, at.piece * PIECE + threadIdx.x % 4 * 16 + i * 64);
    }

    __device__ __forceinline__ void add(const walk &at, int width) {
                const int quarter = threadIdx.x % 4 * 16, own = threadIdx.x % 32 / 4;
        // What lies behind the piece, or beyond the columns, is left from others.
        const int bytes = at.bytes() - quarter, low = own < width ? bytes : 0, high = own + 8 < width ? bytes : 0;
        const unsigned memory = at.memory() + own * LINE + quarter;
#pragma unroll
        for (int i = 0; i < PIECE / 64; i++) {
            const uint4 w = load_shared(memory + i * 64, i * 64 < low);
            const uint4 v = load_shared(memory + 8 * LINE + i * 64, i * 64 < high);
            const unsigned first_half[4] = {w.x, v.x, w.y, v.y}, second_half[4] = {w.z, v.z, w.w, v.w};
#pragma unroll
            for (int n = 0; n < BM / 8; n++) {
                multiply_add(c[n], first_half, x[i][n].x, x[i][n].y);
                multiply_add(c[n], second_half, x[i][n].z, x[i][n].w);
            }
        }
    }

    // A warp's part of the sums, behind the tile.
    __device__ __forceinline__ void store(float *tile, int group) const {
        float *const part = (float *)((char *)tile + PARTS_AT) + threadIdx.x / 32 * BM * WIDTH;
        float *at = part + threadIdx.x % 4 * 2 * WIDTH + group * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int n = 0; n < BM / 8; n++, at += 8 * WIDTH) {
            at[0] = c[n][0];
            at[WIDTH] = c[n][1];
            at[8] = c[n][2];
            at[WIDTH + 8] = c[n][3];
        }
    }
};

__device__ __forceinline__ void add_up(float *tile) {
    const float *const parts = (const float *)((const char *)tile + PARTS_AT);
    for (int e = threadIdx.x; e < BM * WIDTH; e += THREADS) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < THREADS / 32; i++)
            sum += parts[i * BM * WIDTH + e];
        tile[e / WIDTH * TILE_ROW + e % WIDTH] = sum;
    }
    __syncthreads();
}
