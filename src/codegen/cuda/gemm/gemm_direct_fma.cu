// Products of up to four rows on the CUDA cores, in f32: a thread has the sums of its PIECE columns, for all rows.

struct sums {
    static constexpr int all = BM * PIECE;
    float c[all];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < all; i++)
            c[i] = 0;
    }

    __device__ __forceinline__ void add(const pieces &b, const char *a, long long line, int rows, int step, int depth) {
        four x[AHEAD][BM];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = (step + u * WALKERS) * STEP + own_depth();
#pragma unroll
            for (int m = 0; m < BM; m++)
                x[u][m].load(a + m * line + (long long)at * ELEMENT, m < rows && at < depth);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const unsigned words[4] = {b.x[u][i].x, b.x[u][i].y, b.x[u][i].z, b.x[u][i].w};
#pragma unroll
                for (int j = 0; j < PIECE; j++) {
                    const float y = element_of(words, j);
#pragma unroll
                    for (int m = 0; m < BM; m++)
                        c[m * PIECE + j] = fmaf(element_of(x[u][m].words, i), y, c[m * PIECE + j]);
                }
            }
    }

    // Adds up the threads of a warp that have the same columns: in each round a thread keeps half of its COUNT sums and
    // gives the other half away, until it has one.
    template <int COUNT, int APART> __device__ __forceinline__ void join(int &first) {
        if constexpr (APART >= ACROSS) {
            constexpr int half = COUNT > 1 ? COUNT / 2 : 1;
            if constexpr (COUNT > 1) {
                const bool upper = (threadIdx.x & APART) != 0;
                first += upper ? half : 0;
#pragma unroll
                for (int i = 0; i < half; i++) {
                    const float kept = upper ? c[i + half] : c[i], given = upper ? c[i] : c[i + half];
                    c[i] = kept + __shfl_xor_sync(0xffffffff, given, APART);
                }
            } else {
                c[0] += __shfl_xor_sync(0xffffffff, c[0], APART);
            }
            join<half, APART / 2>(first);
        }
    }

    // `to`: [BM][BN]. If there are more threads than sums, several have the same.
    __device__ __forceinline__ void store(float *to) {
        constexpr int left = all > DOWN ? all / DOWN : 1, same = all < DOWN ? (DOWN / all - 1) * ACROSS : 0;
        int first = 0;
        join<all, 16>(first);
        if ((threadIdx.x & same) != 0) return;
#pragma unroll
        for (int i = 0; i < left; i++)
            to[(first + i) / PIECE * BN + own_piece() * PIECE + (first + i) % PIECE] = c[i];
    }
};
