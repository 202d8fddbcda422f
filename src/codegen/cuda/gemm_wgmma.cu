// Products on the tensor cores of sm_90a (wgmma), asynchronous to the threads: a warp group multiplies 64 rows, reading
// both operands from shared memory, where all threads have copied them.

struct sums {
    static constexpr int own_n = BN / WARPS_N, groups_m = BM / 64;
    float c[own_n / 8][4];

    __device__ __forceinline__ static int group() {
        return threadIdx.x / 128;
    }
    __device__ __forceinline__ static int first_row() {
        return group() % groups_m * 64;
    }
    __device__ __forceinline__ static int first_column() {
        return group() / groups_m * own_n;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int j = 0; j < own_n / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[j][e] = 0;
    }

    // Issues the products of a step.
    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
        begin_products();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 32 / ELEMENT)
            multiply_add(c, part<A_ACROSS, BM>(a_from, first_row(), depth),
                         part<B_ACROSS, BN>(b_from, first_column(), depth));
        close_products();
    }

    template <int LEFT> __device__ __forceinline__ void wait() {
        wait_for_products<LEFT>();
    }

    __device__ __forceinline__ void store(float *tile) const {
        const int lane = threadIdx.x % 32, row = first_row() + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < own_n / 8; j++) {
            float *to = tile + row * TILE_ROW + first_column() + j * 8 + lane % 4 * 2;
            *(float2 *)to = make_float2(c[j][0], c[j][1]);
            *(float2 *)(to + 8 * TILE_ROW) = make_float2(c[j][2], c[j][3]);
        }
    }
};
