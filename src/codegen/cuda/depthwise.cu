// A depthwise convolution's sums of WIDTH neighbouring output positions along the last axis, of LANES neighbouring
// channels, in the registers of a thread. A row of the window is multiplied at a time: each input element of the row is
// read and converted once for all positions that need it, and each weight once for all positions.

// LANES neighbouring elements of a type, as they lie in memory; narrow ones in pairs, if there are pairs.
template <bool PAIRS> struct words {
    typedef unsigned type;
};
template <> struct words<false> {
    typedef unsigned short type;
};
struct __align__(LANES * 2) narrow {
    words<(LANES > 1)>::type word[(LANES + 1) / 2];
    __device__ __forceinline__ unsigned short element(int lane) const {
        return (unsigned short)(word[lane / 2] >> (lane % 2 * 16));
    }
};
template <int TYPE> struct pieces;
template <> struct pieces<F32> {
    struct __align__(LANES * 4) piece {
        float element[LANES];
    };
    __device__ __forceinline__ static float widen(const piece &p, int lane) {
        return p.element[lane];
    }
};
template <> struct pieces<F16> {
    typedef narrow piece;
    __device__ __forceinline__ static float widen(const piece &p, int lane) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(p.element(lane)));
        return wide;
    }
};
template <> struct pieces<BF16> {
    typedef narrow piece;
    __device__ __forceinline__ static float widen(const piece &p, int lane) {
        return __int_as_float((int)p.element(lane) << 16);
    }
};

typedef pieces<INPUT> inputs;
typedef pieces<WEIGHT> weights;

// The products of one row of the window. `line`: the input at the first position's first tap, which lies in column
// `first` of `width`; positions outside are not read and count as zero.
__device__ __forceinline__ void add_row(float (&sums)[WIDTH * LANES], const inputs::piece *line, int first, int width,
                                        bool exists, const weights::piece *taps) {
    float weight[TAPS_X][LANES];
#pragma unroll
    for (int tap = 0; tap < TAPS_X; tap++) {
        const weights::piece piece = taps[tap * PIECES];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
            weight[tap][lane] = weights::widen(piece, lane);
    }
    // If taps lie so far apart that positions share no element, only those columns are walked that have one.
    constexpr bool apart = DILATION_X > (WIDTH - 1) * STRIDE_X;
#pragma unroll
    for (int i = 0; i <= (apart ? TAPS_X * WIDTH - 1 : (WIDTH - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X); i++) {
        const int column = apart ? i / WIDTH * DILATION_X + i % WIDTH * STRIDE_X : i;
        inputs::piece piece = {};
        if (exists && (unsigned)(first + column) < (unsigned)width) piece = line[(long long)column * PIECES];
#pragma unroll
        for (int at = 0; at < WIDTH; at++) {
            const int along = column - at * STRIDE_X;
            if (along < 0 || along % DILATION_X != 0 || along / DILATION_X >= TAPS_X) continue;
#pragma unroll
            for (int lane = 0; lane < LANES; lane++)
                sums[at * LANES + lane] = fmaf(inputs::widen(piece, lane), weight[along / DILATION_X][lane],
                                               sums[at * LANES + lane]);
        }
    }
}

// plane, row, column: where the first position's window begins in image number `image`, maybe outside; channel: the
// first of LANES.
__device__ __forceinline__ void add_up(float (&sums)[WIDTH * LANES], const void *input, const void *filters,
                                       long long image, int plane, int row, int column, int channel, int planes,
                                       int rows, int columns) {
    const inputs::piece *images = (const inputs::piece *)input + channel / LANES;
    const weights::piece *taps = (const weights::piece *)filters + channel / LANES;
#pragma unroll
    for (int i = 0; i < WIDTH * LANES; i++)
        sums[i] = 0;
#pragma unroll(AT_ONCE ? TAPS_Z * TAPS_Y : 1)
    for (int tap = 0; tap < TAPS_Z * TAPS_Y; tap++) {
        const int z = plane + tap / TAPS_Y * DILATION_Z, y = row + tap % TAPS_Y * DILATION_Y;
        const bool exists = (unsigned)z < (unsigned)planes && (unsigned)y < (unsigned)rows;
        if (!AT_ONCE && !exists) continue;
        const long long at = ((image * planes + z) * rows + y) * columns + column;
        add_row(sums, images + at * PIECES, column, columns, exists, taps + tap * TAPS_X * PIECES);
    }
}
