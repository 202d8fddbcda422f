// One step's product on the CUDA cores, in f32: a thread has THREAD_M x THREAD_N results, whose rows and columns are
// spread over the tile so that the threads of a warp read neighbouring lines.

__device__ __forceinline__ float4 load_four(unsigned from) {
    float4 four;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(from));
    return four;
}

struct sums {
    static constexpr int across_n = BN / THREAD_N, across_m = BM / THREAD_M;
    float c[THREAD_M][THREAD_N];
    scales by; // none

    // Lines along the depth are assigned one by one, lines across it in groups of four.
    __device__ __forceinline__ static int row(int i) {
        const int at = threadIdx.x / across_n;
        return A_ACROSS ? at * 4 + i / 4 * (across_m * 4) + i % 4 : at + i * across_m;
    }
    __device__ __forceinline__ static int column(int j) {
        const int at = threadIdx.x % across_n;
        return B_ACROSS ? at * 4 + j / 4 * (across_n * 4) + j % 4 : at + j * across_n;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                c[i][j] = 0;
    }

    // Four elements of the depth.
    __device__ __forceinline__ static void load_a(float (&a)[THREAD_M][4], unsigned from, int depth) {
        if constexpr (A_ACROSS) {
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int i = 0; i < THREAD_M; i += 4) {
                    const float4 four = load_four(from + place_a(depth + p, row(i) * 4));
                    a[i][p] = four.x, a[i + 1][p] = four.y, a[i + 2][p] = four.z, a[i + 3][p] = four.w;
                }
        } else {
#pragma unroll
            for (int i = 0; i < THREAD_M; i++) {
                const float4 four = load_four(from + place_a(row(i), depth * 4));
                a[i][0] = four.x, a[i][1] = four.y, a[i][2] = four.z, a[i][3] = four.w;
            }
        }
    }
    __device__ __forceinline__ static void load_b(float (&b)[THREAD_N][4], unsigned from, int depth) {
        if constexpr (B_ACROSS) {
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j += 4) {
                    const float4 four = load_four(from + place_b(depth + p, column(j) * 4));
                    b[j][p] = four.x, b[j + 1][p] = four.y, b[j + 2][p] = four.z, b[j + 3][p] = four.w;
                }
        } else {
#pragma unroll
            for (int j = 0; j < THREAD_N; j++) {
                const float4 four = load_four(from + place_b(column(j), depth * 4));
                b[j][0] = four.x, b[j][1] = four.y, b[j][2] = four.z, b[j][3] = four.w;
            }
        }
    }

    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 4) {
            float a[THREAD_M][4], b[THREAD_N][4];
            load_a(a, a_from, depth);
            load_b(b, b_from, depth);
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                    for (int j = 0; j < THREAD_N; j++)
                        c[i][j] = fmaf(a[i][p], b[j][p], c[i][j]);
        }
    }

    // Products are synchronous: done when step returns.
    template <int LEFT> __device__ __forceinline__ void wait() {
    }

    __device__ __forceinline__ void store(total *tile) const {
#pragma unroll
        for (int i = 0; i < THREAD_M; i++)
#pragma unroll
            for (int j = 0; j < THREAD_N; j++)
                tile[row(i) * TILE_ROW + column(j)] = c[i][j];
    }
};
