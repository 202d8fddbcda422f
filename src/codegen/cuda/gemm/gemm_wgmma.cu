// Products on the tensor cores of sm_90a (wgmma), asynchronous to the threads: a warp group multiplies 64 rows, reading
// both operands from shared memory, where all threads have copied them.

struct sums {
    // A group has 64 rows of the tile and `own` columns, or, if SWAPPED, `own` rows and 64 columns.
    static constexpr int own = SWAPPED ? BM / WARPS_M : BN / WARPS_N, groups = (SWAPPED ? BN : BM) / 64;
    total c[own / 8][4];
    scales by;

    __device__ __forceinline__ static int first_row() {
        const int group = threadIdx.x / 128;
        return SWAPPED ? group / groups * own : group % groups * 64;
    }
    __device__ __forceinline__ static int first_column() {
        const int group = threadIdx.x / 128;
        return SWAPPED ? group % groups * 64 : group / groups * own;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int j = 0; j < own / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[j][e] = 0;
    }

    __device__ __forceinline__ static void issue(step_total (&to)[own / 8][4], unsigned a_from, unsigned b_from) {
        begin_products();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 32 / ELEMENT) {
            const unsigned long long a = part<A_ACROSS, BM>(a_from, first_row(), depth);
            const unsigned long long b = part<B_ACROSS, BN>(b_from, first_column(), depth);
            multiply_add(to, SWAPPED ? b : a, SWAPPED ? a : b, depth > 0);
        }
        close_products();
    }

    // Issues the products of a step. If they are PROMOTED, waits for them and adds them up.
    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
        if constexpr (PROMOTED) {
            step_total some[own / 8][4];
            issue(some, a_from, b_from);
            step_scales<own> now;
            by.of_rows(now, 0, first_row() + (int)threadIdx.x / 32 % 4 * 16);
            by.of_columns(now, first_column());
            by.advance(1);
            promote<0>(c, some, now);
        } else {
            issue((step_total(&)[own / 8][4])c, a_from, b_from); // of the same type, since scaled sums are PROMOTED
        }
    }

    template <int LEFT> __device__ __forceinline__ void wait() {
        wait_for_products<LEFT>();
    }

    __device__ __forceinline__ void store(total *tile) const {
        const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < own / 8; j++) {
            const int second = j * 8 + lane % 4 * 2;
            if constexpr (SWAPPED) {
                total *to = tile + (first_row() + second) * TILE_ROW + first_column() + first;
                to[0] = c[j][0], to[TILE_ROW] = c[j][1];
                to[8] = c[j][2], to[TILE_ROW + 8] = c[j][3];
            } else {
                total *to = tile + (first_row() + first) * TILE_ROW + first_column() + second;
                store_two(to, c[j][0], c[j][1]);
                store_two(to + 8 * TILE_ROW, c[j][2], c[j][3]);
            }
        }
    }
};
