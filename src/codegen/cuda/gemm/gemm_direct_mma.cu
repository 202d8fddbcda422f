// Products of 8 or 16 rows on the tensor cores (mma.sync), whose rows are B's columns: the four depths and eight columns
// that a thread reads are what it supplies to four instructions. Rows of A are their columns.

struct sums {
    // Of instruction i, which has columns 2i and 2i + 1 of each thread's eight, and of rows 8n to 8n + 7.
    float c[BM / 8][PIECE / 2][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < BM / 8; n++)
#pragma unroll
            for (int i = 0; i < PIECE / 2; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    c[n][i][e] = 0;
    }

    __device__ __forceinline__ void add(const pieces &b, const char *a, long long line, int rows, int step, int depth) {
        const int row = threadIdx.x % 32 / 4;
        four x[AHEAD][BM / 8];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = (step + u * WALKERS) * STEP + own_depth();
#pragma unroll
            for (int n = 0; n < BM / 8; n++)
                x[u][n].load(a + (n * 8 + row) * line + (long long)at * ELEMENT, n * 8 + row < rows && at < depth);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            unsigned w[4][4];
#pragma unroll
            for (int p = 0; p < 4; p++)
                w[p][0] = b.x[u][p].x, w[p][1] = b.x[u][p].y, w[p][2] = b.x[u][p].z, w[p][3] = b.x[u][p].w;
#pragma unroll
            for (int i = 0; i < PIECE / 2; i++) {
                const unsigned left[4] = {__byte_perm(w[0][i], w[1][i], 0x5410), __byte_perm(w[0][i], w[1][i], 0x7632),
                                          __byte_perm(w[2][i], w[3][i], 0x5410), __byte_perm(w[2][i], w[3][i], 0x7632)};
#pragma unroll
                for (int n = 0; n < BM / 8; n++)
                    multiply_add(c[n][i], left, x[u][n].words[0], x[u][n].words[1]);
            }
        }
    }

    // `to`: [BM][BN].
    __device__ __forceinline__ void store(float *to) {
        const int row = threadIdx.x % 4 * 2;
#pragma unroll
        for (int n = 0; n < BM / 8; n++)
#pragma unroll
            for (int i = 0; i < PIECE / 2; i++) {
                float *at = to + (n * 8 + row) * BN + own_piece() * PIECE + 2 * i;
                *(float2 *)at = make_float2(c[n][i][0], c[n][i][2]);
                *(float2 *)(at + BN) = make_float2(c[n][i][1], c[n][i][3]);
            }
    }
};
