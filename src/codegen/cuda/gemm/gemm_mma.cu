// One step's product on the tensor cores (mma.sync), each warp doing its part of the tile. Sums are f32, or i32 of integers.

struct sums {
    // The sums, in blocks of 16 x 8; per 32 bytes of the depth, one takes 16 rows of A and 8 columns of B.
    static constexpr int own_m = BM / WARPS_M, own_n = BN / WARPS_N, blocks_m = own_m / 16, blocks_n = own_n / 8;
    total c[blocks_m][blocks_n][4];
    scales by;

    __device__ __forceinline__ static int first_row() {
        return threadIdx.x / 32 / WARPS_N * own_m;
    }
    __device__ __forceinline__ static int first_column() {
        return threadIdx.x / 32 % WARPS_N * own_n;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < blocks_m; i++)
#pragma unroll
            for (int j = 0; j < blocks_n; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    c[i][j][e] = 0;
    }

    // Rows row … row + 15 at byte `byte` of the depth.
    __device__ __forceinline__ static void load_a(unsigned (&a)[4], unsigned from, int row, int byte) {
        const int lane = threadIdx.x % 32;
        if constexpr (!A_ACROSS) {
            load_matrices(a, from + place_a(row + lane % 16, byte + lane / 16 * 16));
        } else if constexpr (ELEMENT == 2) {
            load_transposed(a, from + place_a(byte / 2 + lane / 16 * 8 + lane % 8, (row + lane / 8 % 2 * 8) * 2));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[e] = load_word(from + place_a(byte / 4 + lane % 4 + e / 2 * 4, (row + lane / 4 + e % 2 * 8) * 4));
        }
        round_words(a);
    }

    // Columns column … column + 15: two blocks.
    __device__ __forceinline__ static void load_b(unsigned (&b)[4], unsigned from, int column, int byte) {
        const int lane = threadIdx.x % 32;
        if constexpr (!B_ACROSS) {
            load_matrices(b, from + place_b(column + lane / 16 * 8 + lane % 8, byte + lane / 8 % 2 * 16));
        } else if constexpr (ELEMENT == 2) {
            load_transposed(b, from + place_b(byte / 2 + lane % 16, (column + lane / 16 * 8) * 2));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                b[e] = load_word(from + place_b(byte / 4 + lane % 4 + e % 2 * 4, (column + lane / 4 + e / 2 * 8) * 4));
        }
        round_words(b);
    }

    // Adds the products of a step to sums as the instructions have them.
    __device__ __forceinline__ static void add_products(step_total (&to)[blocks_m][blocks_n][4], unsigned a_from, unsigned b_from) {
#pragma unroll
        for (int byte = 0; byte < DEPTH * ELEMENT; byte += 32) {
            unsigned a[blocks_m][4], b[blocks_n / 2][4];
#pragma unroll
            for (int i = 0; i < blocks_m; i++)
                load_a(a[i], a_from, first_row() + i * 16, byte);
#pragma unroll
            for (int j = 0; j < blocks_n / 2; j++)
                load_b(b[j], b_from, first_column() + j * 16, byte);
#pragma unroll
            for (int i = 0; i < blocks_m; i++)
#pragma unroll
                for (int j = 0; j < blocks_n; j++)
                    multiply_block(to[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
        if constexpr (SCALE_COLUMNS > 0) {
            step_total some[blocks_m][blocks_n][4] = {};
            step_scales<own_n, blocks_m> now;
            by.of_columns(now, first_column());
#pragma unroll
            for (int i = 0; i < blocks_m; i++)
                by.of_rows(now, i, first_row() + i * 16);
            by.advance(1);
            add_products(some, a_from, b_from);
#pragma unroll
            for (int i = 0; i < blocks_m; i++)
#pragma unroll
                for (int j = 0; j < blocks_n; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        now.add(c[i][j][e], some[i][j][e], i, j, e);
        } else {
            add_products((step_total(&)[blocks_m][blocks_n][4])c, a_from, b_from); // of the same type
        }
    }

    // Products are synchronous: done when step returns.
    template <int LEFT> __device__ __forceinline__ void wait() {
    }

    __device__ __forceinline__ void store(total *tile) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < blocks_m; i++)
#pragma unroll
            for (int j = 0; j < blocks_n; j++) {
                total *to = tile + (first_row() + i * 16 + lane / 4) * TILE_ROW + first_column() + j * 8 + lane % 4 * 2;
                store_two(to, c[i][j][0], c[i][j][1]);
                store_two(to + 8 * TILE_ROW, c[i][j][2], c[i][j][3]);
            }
    }
};
