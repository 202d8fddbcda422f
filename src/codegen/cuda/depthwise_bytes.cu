// The same of bytes, with sums in i32: LANES neighbouring channels of a pixel are loaded as one word. TOGETHER rows of the window
// (at most four) are multiplied at a time: what they have in a column is transposed, so that a word has the bytes of one
// channel, and one instruction multiplies and adds up all of them.

template <int SIZE> struct word_of;
template <> struct word_of<1> {
    typedef unsigned char type;
};
template <> struct word_of<2> {
    typedef unsigned short type;
};
template <> struct word_of<4> {
    typedef unsigned type;
};
typedef word_of<LANES>::type piece;

__device__ __forceinline__ int dot(unsigned x, unsigned w, int sum) {
    if (INPUT == U8 && WEIGHT == U8) asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(w), "r"(sum));
    if (INPUT == U8 && WEIGHT == I8) asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(w), "r"(sum));
    if (INPUT == I8 && WEIGHT == U8) asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(w), "r"(sum));
    if (INPUT == I8 && WEIGHT == I8) asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(w), "r"(sum));
    return sum;
}

// From a word for each row to one for each channel, whose bytes beyond TOGETHER are any.
__device__ __forceinline__ void transpose(const unsigned (&row)[4], unsigned (&to)[LANES]) {
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
        if (TOGETHER == 1) {
            to[lane] = row[0] >> 8 * lane;
            continue;
        }
        // Two channels of the first two rows, and of the last.
        const unsigned halves = lane < 2 ? 0x5140 : 0x7362;
        const unsigned upper = __byte_perm(row[0], row[1], halves);
        if (TOGETHER == 2) to[lane] = upper >> 16 * (lane % 2);
        if (TOGETHER == 3) to[lane] = __byte_perm(upper, row[2], (lane % 2 ? 0x0032 : 0x0010) | (4 + lane) << 8);
        if (TOGETHER == 4)
            to[lane] = __byte_perm(upper, __byte_perm(row[2], row[3], halves), lane % 2 ? 0x7632 : 0x5410);
    }
}

// The products of some rows of the window. `line`: for each the input at the first position's first tap, which lies in column
// `first` of `width`, or NULL; what lies outside is not read, and is BORDER. `taps`: the first of `left` rows of weights.
__device__ __forceinline__ void add_rows(int (&sums)[WIDTH * LANES], const piece *const (&line)[4], int first, int width,
                                         const piece *taps, int left) {
    unsigned weight[TAPS_X][LANES], row[4];
#pragma unroll
    for (int tap = 0; tap < TAPS_X; tap++) {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            row[i] = i < left ? taps[(i * TAPS_X + tap) * PIECES] : 0;
        transpose(row, weight[tap]);
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            weight[tap][lane] &= 0xffffffffu >> 8 * (4 - TOGETHER);
    }
    // If taps lie so far apart that positions share no element, only those columns are walked that have one.
    constexpr bool apart = DILATION_X > (WIDTH - 1) * STRIDE_X;
#pragma unroll
    for (int i = 0; i <= (apart ? TAPS_X * WIDTH - 1 : (WIDTH - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X); i++) {
        const int column = apart ? i / WIDTH * DILATION_X + i % WIDTH * STRIDE_X : i;
        const bool exists = (unsigned)(first + column) < (unsigned)width;
        unsigned channel[LANES];
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
            row[j] = BORDER * 0x01010101u;
            if (exists && line[j]) row[j] = line[j][(long long)column * PIECES];
        }
        transpose(row, channel);
#pragma unroll
        for (int at = 0; at < WIDTH; at++) {
            const int along = column - at * STRIDE_X;
            if (along < 0 || along % DILATION_X != 0 || along / DILATION_X >= TAPS_X) continue;
#pragma unroll
            for (int lane = 0; lane < LANES; lane++)
                sums[at * LANES + lane] = dot(channel[lane], weight[along / DILATION_X][lane], sums[at * LANES + lane]);
        }
    }
}

// plane, row, column: where the first position's window begins in image number `image`, maybe outside; channel: the
// first of LANES.
__device__ __forceinline__ void add_up(int (&sums)[WIDTH * LANES], const void *input, const void *filters, long long image,
                                       int plane, int row, int column, int channel, int planes, int rows, int columns) {
    const piece *images = (const piece *)input + channel / LANES, *taps = (const piece *)filters + channel / LANES;
    const piece *line[4];
#pragma unroll
    for (int i = 0; i < WIDTH * LANES; i++)
        sums[i] = 0;
#pragma unroll(AT_ONCE ? TAPS_Z * STEPS_Y : 1)
    for (int step = 0; step < TAPS_Z * STEPS_Y; step++) {
        const int z = plane + step / STEPS_Y * DILATION_Z, tap = step % STEPS_Y * TOGETHER;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int y = row + (tap + i) * DILATION_Y;
            const bool exists = tap + i < TAPS_Y && (unsigned)z < (unsigned)planes && (unsigned)y < (unsigned)rows;
            line[i] = exists ? images + (((image * planes + z) * rows + y) * columns + column) * PIECES : nullptr;
        }
        add_rows(sums, line, column, columns, taps + (step / STEPS_Y * TAPS_Y + tap) * TAPS_X * PIECES, TAPS_Y - tap);
    }
}
