// The sums of a convolution over a tile of TILE_Y x TILE_X output positions, whose windows all lie in one patch of the
// channels-last image. The patch is copied to shared memory once, and the tensor cores' operands are loaded from there,
// from wherever a tap begins. The weights stay in shared memory while a block's tiles need the same ones.
//
// A pixel has its channels in chunks of 16 bytes, the last one filled up with zeros; an odd number of chunks apart, so that
// eight neighbours fall into different banks. With JOINED > 1 a pixel also has those of its neighbours to the right. Pixels whose columns are equal modulo STRIDE_X lie together, for the same
// reason. The depth is a row of chunks, by taps and channels; a step multiplies two. If their number is odd, the last
// step's second chunk is zero. Copies go through the first cache, since those past it that only write zeros are slow.

enum { TAPS = TAPS_Z * TAPS_Y * TAPS_X, TOTAL = TAPS * CHUNKS, BLOCKS_N = BN / 8 };

// Where chunk `number` of the depth lies, from the window's first pixel on.
__device__ __forceinline__ constexpr unsigned chunk_at(int number) {
    const int tap = number / CHUNKS, x = tap % TAPS_X * DILATION_X, y = tap / TAPS_X % TAPS_Y * DILATION_Y;
    const int z = tap / (TAPS_X * TAPS_Y) * DILATION_Z;
    return (unsigned)(z * PLANE + y * LINE + (x % STRIDE_X * PHASE + x / STRIDE_X) * PIXEL + number % CHUNKS * 16);
}

// load_patch where a pixel is two bytes, so that copies one by one would take eight stores a chunk: a thread collects its eight neighbours.
// `from`: the patch's first pixel.
__device__ __forceinline__ void load_joined(unsigned to, const char *from, int planes, int rows, int columns, int plane, int row, int column) {
    for (int i = threadIdx.x; i < PATCH_Z * PATCH_Y * PATCH_X; i += THREADS) {
        const int x = i % PATCH_X, y = i / PATCH_X % PATCH_Y, z = i / (PATCH_X * PATCH_Y);
        const bool inside = (unsigned)(plane + z) < (unsigned)planes && (unsigned)(row + y) < (unsigned)rows;
        const char *const line = from + (((long long)z * rows + y) * columns + x) * 2;
        unsigned pixel[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            pixel[j] = inside && (unsigned)(column + x + j) < (unsigned)columns ? get<2>(line + 2 * j) : 0;
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + z * PLANE + y * LINE + x * PIXEL),
                     "r"(pixel[0] | pixel[1] << 16), "r"(pixel[2] | pixel[3] << 16),
                     "r"(pixel[4] | pixel[5] << 16), "r"(pixel[6] | pixel[7] << 16)
                     : "memory");
    }
}

// Copies the patch that begins at `plane`, `row` and `column` of image `number`, or outside of it, where it is zero.
__device__ __forceinline__ void load_patch(unsigned to, const char *images, long long pixel, int planes, int rows,
                                           int columns, long long number, int plane, int row, int column) {
    constexpr int units = CHUNKS * 16 / COPY, pieces = PATCH_Z * PATCH_Y * PATCH_X * units;
    const char *const from = images + (((number * planes + plane) * rows + row) * columns + column) * pixel * ELEMENT;
    if constexpr (JOINED > 1 && CHANNELS * ELEMENT / JOINED == 2) {
        load_joined(to, from, planes, rows, columns, plane, row, column);
        return;
    }
    for (int i = threadIdx.x; i < pieces; i += THREADS) {
        const int byte = i % units * COPY, x = i / units % PATCH_X, line = i / (units * PATCH_X);
        const int y = line % PATCH_Y, z = line / PATCH_Y;
        const int beside = JOINED > 1 ? byte / (CHANNELS * ELEMENT / JOINED) : 0;
        const bool inside = byte < CHANNELS * ELEMENT && (unsigned)(plane + z) < (unsigned)planes &&
                            (unsigned)(row + y) < (unsigned)rows && (unsigned)(column + x + beside) < (unsigned)columns;
        const long long away = ((long long)z * rows + y) * columns + x;
        copy<COPY, true>(to + z * PLANE + y * LINE + (x % STRIDE_X * PHASE + x / STRIDE_X) * PIXEL + byte,
                   from + away * pixel * ELEMENT + byte, inside);
    }
}

// Copies the weights of BN columns from column `first` of `columns` on.
__device__ __forceinline__ void load_weights(unsigned to, const char *weights, long long ld, int first, int columns) {
    if constexpr (B_ACROSS) {
        for (int i = threadIdx.x; i < STEPS * 16 * BLOCKS_N; i += THREADS) {
            const int block = i % BLOCKS_N, row = i / BLOCKS_N, tap = row / (CHUNKS * 8), channel = row % (CHUNKS * 8);
            const bool inside = tap < TAPS && channel < CHANNELS && first + block * 8 < columns;
            copy<16, true>(to + row * WEIGHTS_LINE + block * 16,
                     weights + ((tap * CHANNELS + channel) * ld + first + block * 8) * 2, inside);
        }
    } else {
        constexpr int bytes = CHANNELS * ELEMENT % 16 ? COPY : 16, units = 16 / bytes;
        for (int i = threadIdx.x; i < BN * STEPS * 2 * units; i += THREADS) {
            const int chunk = i / units % (STEPS * 2), column = i / (units * STEPS * 2), tap = chunk / CHUNKS;
            const int byte = chunk % CHUNKS * 16 + i % units * bytes;
            const bool inside = tap < TAPS && byte < CHANNELS * ELEMENT && first + column < columns;
            copy<bytes, true>(to + column * WEIGHTS_LINE + chunk * 16 + i % units * bytes,
                       weights + ((first + column) * ld + tap * CHANNELS) * ELEMENT + byte, inside);
        }
    }
}

// Columns 16 * pair … of a step: two blocks of eight; behind the last one, it is loaded twice.
__device__ __forceinline__ void load_columns(unsigned (&b)[4], unsigned from, int step, int pair) {
    const int lane = threadIdx.x % 32, second = pair * 16 + 8 < BN ? lane / 16 : 0;
    if constexpr (B_ACROSS)
        load_transposed(b, from + (step * 16 + lane % 16) * WEIGHTS_LINE + (pair * 2 + second) * 16);
    else
        load_matrices(b, from + (pair * 16 + second * 8 + lane % 8) * WEIGHTS_LINE + step * 32 + lane / 8 % 2 * 16);
}

typedef total sums[BLOCKS_M][BLOCKS_N][4];

// Each warp has BLOCKS_M times 16 positions of the tile, row by row.
__device__ __forceinline__ void add_products(sums &c, unsigned memory) {
    const int lane = threadIdx.x % 32;
    const bool second = lane >= 16;
    unsigned from[BLOCKS_M];
#pragma unroll
    for (int i = 0; i < BLOCKS_M; i++) {
        const int position = threadIdx.x / 32 * BLOCKS_M * 16 + i * 16 + lane % 16;
        from[i] = memory + position / TILE_X * STRIDE_Y * LINE + position % TILE_X * PIXEL;
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const bool beyond = step * 2 + 1 == TOTAL;
        const unsigned away = second && !beyond ? chunk_at(step * 2 + 1) : chunk_at(step * 2);
        unsigned a[BLOCKS_M][4], b[(BLOCKS_N + 1) / 2][4];
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++)
            load_matrices(a[i], second && beyond ? memory + ZERO_AT : from[i] + away);
#pragma unroll
        for (int j = 0; j < (BLOCKS_N + 1) / 2; j++)
            load_columns(b[j], memory + WEIGHTS_AT, step, j);
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
            for (int j = 0; j < BLOCKS_N; j++)
                multiply_block(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

// Sums begin with zeros or, if BEGUN, with a number for each column, of which there are `left`, an even number. A thread has two columns
// of each eight.
__device__ __forceinline__ void begin(sums &c, const total *start, int left) {
#pragma unroll
    for (int j = 0; j < BLOCKS_N; j++) {
        two_totals two = {0, 0};
        if constexpr (BEGUN) two = *(const two_totals *)(start + min(j * 8 + (int)threadIdx.x % 4 * 2, left - 2));
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++) {
            c[i][j][0] = c[i][j][2] = two.x;
            c[i][j][1] = c[i][j][3] = two.y;
        }
    }
}

__device__ __forceinline__ void store(const sums &c, total *tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j++) {
            const int position = threadIdx.x / 32 * BLOCKS_M * 16 + i * 16 + lane / 4;
            total *const to = tile + position * TILE_ROW + j * 8 + lane % 4 * 2;
            *(two_totals *)to = {c[i][j][0], c[i][j][1]};
            *(two_totals *)(to + 8 * TILE_ROW) = {c[i][j][2], c[i][j][3]};
        }
}

// Leaves the sums in `tile`, the beginning of dynamic shared memory. Of this block's tiles, which are tiles_apart apart,
// `each` in a row have the same weights. plane, row, column: where the first window begins in image `number`.
__device__ __forceinline__ void multiply(total *tile, const void *images, long long pixel, long long planes,
                                         long long rows, long long columns, long long number, long long plane,
                                         long long row, long long column, const void *weights, long long ld,
                                         long long first, long long last, long long index, long long each,
                                         const total *start = nullptr) {
    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);
    const int now = (int)index, before = now - (int)gridDim.x;
    __syncthreads();
    if (before < 0 || before / (int)each != now / (int)each) {
        load_weights(memory + WEIGHTS_AT, (const char *)weights, ld, (int)first, (int)last);
        if (threadIdx.x == 0) copy<16>(memory + ZERO_AT, (const char *)weights, false);
    }
    load_patch(memory, (const char *)images, pixel, (int)planes, (int)rows, (int)columns, number, (int)plane, (int)row,
               (int)column);
    close_copies();
    wait_for_copies<0>();
    __syncthreads();
    sums c;
    begin(c, start, (int)(last - first));
    add_products(c, memory);
    __syncthreads();
    store(c, tile);
    __syncthreads();
}
