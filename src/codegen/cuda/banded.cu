// A depthwise convolution on the tensor cores. Of one channel, 8 neighbouring outputs are a line of the input times a
// banded matrix: element (i, x) is the filter's tap i - x, or zero. The instruction's other operand has 16 such lines, of
// as many slots; a slot has 8 columns of outputs in ROWS lines, and slots that are neighbours along a line share input.
// A fragment of input is loaded once for all lines of the filter, whose fragments stay in registers.
//
// Each channel's images lie by themselves in shared memory, so that eight columns are one row of ldmatrix: threads load
// eight pixels with eight channels each, and transpose them. A warp has OWN channels, whose sums it leaves where their
// images were.
//
// The zeros of the banded matrix meet inputs outside of a position's window, and give NaN if these are not finite. Where a
// warp finds NaN among its sums, it computes them again, tap by tap.

enum { PIECES = GROUP / 8 }; // of 16 bytes

// Column x of a slot is column 2x or 2(x - 4) + 1 of the product, so that a thread's sums in shared memory are neighbours
// of other threads'.
__device__ __forceinline__ int column_of(int n) {
    return n / 2 + n % 2 * 4;
}

// Bytes from the beginning of a channel to the first input of a slot; the first one's for slots that are too many.
__device__ __forceinline__ int slot_at(int slot) {
    if (slot >= BANDS * IMAGES * PLACES) slot = 0;
    const int place = slot % PLACES, image = slot / PLACES % IMAGES, band = slot / (PLACES * IMAGES);
    return image * IMAGE + band * ROWS * STRIDE_Y * LINE + place * STRIDE_X * 16;
}

__device__ __forceinline__ float widen(unsigned short x) {
    if constexpr (MATH == BF16) return __uint_as_float((unsigned)x << 16);
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
}

// Two neighbours of a channel, of which `second` says whether it is the second in its word.
__device__ __forceinline__ unsigned pair(unsigned a, unsigned b, bool second) {
    return __byte_perm(a, b, second ? 0x7632 : 0x5410);
}

// Eight pixels of eight channels, from `from` on; those outside of the line are zero.
__device__ __forceinline__ void load_chunk(char *to, const uint4 *from, bool exists, int column, int columns) {
    unsigned in[8][4];
#pragma unroll
    for (int x = 0; x < 8; x++) {
        uint4 four = {0, 0, 0, 0};
        if (exists && (unsigned)(column + x) < (unsigned)columns) four = from[x * (CHANNELS / 8)];
        in[x][0] = four.x;
        in[x][1] = four.y;
        in[x][2] = four.z;
        in[x][3] = four.w;
    }
#pragma unroll
    for (int channel = 0; channel < 8; channel++) {
        uint4 four;
        four.x = pair(in[0][channel / 2], in[1][channel / 2], channel % 2);
        four.y = pair(in[2][channel / 2], in[3][channel / 2], channel % 2);
        four.z = pair(in[4][channel / 2], in[5][channel / 2], channel % 2);
        four.w = pair(in[6][channel / 2], in[7][channel / 2], channel % 2);
        *(uint4 *)(to + channel * PLANE) = four;
    }
}

__device__ __forceinline__ constexpr int plane_at(int channel) {
    return channel * PLANE + channel / 8 * SKEW;
}

__device__ __forceinline__ void load_images(char *to, const void *images, int count, int rows, int columns, int image,
                                            int row, int column, int channel) {
    constexpr int all = PIECES * CHUNKS * LINES * IMAGES;
    for (int i = threadIdx.x; i < all; i += THREADS) {
        const int piece = i % PIECES, chunk = i / PIECES % CHUNKS, line = i / (PIECES * CHUNKS) % LINES;
        const int number = i / (PIECES * CHUNKS * LINES), x = column + chunk * 8, y = row + line;
        const bool exists = image + number < count && (unsigned)y < (unsigned)rows && channel + piece * 8 < CHANNELS;
        const long long pixel = ((long long)(image + number) * rows + y) * columns + x;
        load_chunk(to + plane_at(piece * 8) + number * IMAGE + line * LINE + chunk * 16,
                   (const uint4 *)images + (pixel * CHANNELS + channel) / 8 + piece, exists, x, columns);
    }
}

// In shared memory a line of a filter has a zero behind it. What a thread has of the filters: taps of eight channels.
enum { TAPS = TAPS_Y * TAPS_X, FILTER_LINE = TAPS_X + 1, FILTER = TAPS_Y * FILTER_LINE };
enum { OWN_TAPS = (FILTER * PIECES + THREADS - 1) / THREADS };
typedef uint4 taps[OWN_TAPS];

__device__ __forceinline__ void load_taps(taps &own, const uint4 *filters, int channel) {
#pragma unroll
    for (int k = 0; k < OWN_TAPS; k++) {
        const int i = k * THREADS + threadIdx.x, piece = i % PIECES, x = i / PIECES % FILTER_LINE;
        const int y = i / (PIECES * FILTER_LINE);
        own[k] = {0, 0, 0, 0};
        if (x < TAPS_X && y < TAPS_Y && channel + piece * 8 < CHANNELS)
            own[k] = filters[(y * TAPS_X + x) * (CHANNELS / 8) + channel / 8 + piece];
    }
}

// Two channels a word, tap by tap.
__device__ __forceinline__ void store_taps(unsigned *filters, const taps &own) {
#pragma unroll
    for (int k = 0; k < OWN_TAPS; k++) {
        const int i = k * THREADS + threadIdx.x, piece = i % PIECES, tap = i / PIECES;
        if (tap >= FILTER) continue;
        unsigned *const to = filters + piece * 4 * FILTER + tap;
        to[0] = own[k].x;
        to[FILTER] = own[k].y;
        to[2 * FILTER] = own[k].z;
        to[3 * FILTER] = own[k].w;
    }
}

typedef float totals[ROWS][4];
typedef unsigned matrices[TAPS_Y][STEPS][2];

// The tap of a line that multiplies input column k of a thread's output column, or the zero.
__device__ __forceinline__ int tap_of(int k) {
    const int away = k - column_of(threadIdx.x % 32 / 4) * STRIDE_X;
    return away >= 0 && away % DILATION_X == 0 && away / DILATION_X < TAPS_X ? away / DILATION_X : TAPS_X;
}

// The filters of two channels as banded matrices, line by line.
__device__ __forceinline__ void load_bands(matrices &first, matrices &second, const unsigned *filters) {
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int k = step * 16 + half * 8 + threadIdx.x % 4 * 2, one = tap_of(k), next = tap_of(k + 1);
#pragma unroll
            for (int y = 0; y < TAPS_Y; y++) {
                const unsigned a = filters[y * FILTER_LINE + one], b = filters[y * FILTER_LINE + next];
                first[y][step][half] = pair(a, b, false);
                second[y][step][half] = pair(a, b, true);
            }
        }
}

__device__ __forceinline__ void add_products(totals &sums, unsigned from, const matrices &b) {
#pragma unroll
    for (int line = 0; line < REACH; line++) {
        unsigned a[STEPS][4];
        bool loaded = false;
#pragma unroll
        for (int y = 0; y < TAPS_Y; y++) {
            const int away = line - y * DILATION_Y;
            if (away < 0 || away % STRIDE_Y != 0 || away / STRIDE_Y >= ROWS) continue;
#pragma unroll
            for (int step = 0; step < STEPS && !loaded; step++)
                load_matrices(a[step], from + line * LINE + step * 32);
            loaded = true;
#pragma unroll
            for (int step = 0; step < STEPS; step++)
                multiply_add(sums[away / STRIDE_Y], a[step], b[y][step][0], b[y][step][1]);
        }
    }
}

// One sum, tap by tap. `from`: the first input of a slot; `number`: of the thread's sums of a channel.
__device__ __forceinline__ float single(const char *from, const unsigned *filters, bool second, int number) {
    const int x = threadIdx.x % 4 + number % 2 * 4, line = number / 4;
    float sum = 0;
#pragma unroll 1
    for (int tap = 0; tap < TAPS; tap++) {
        const int y = tap / TAPS_X, along = x * STRIDE_X + tap % TAPS_X * DILATION_X;
        const unsigned short *const input = (const unsigned short *)(from + (line * STRIDE_Y + y * DILATION_Y) * LINE);
        const unsigned two = filters[y * FILTER_LINE + tap % TAPS_X];
        sum = fmaf(widen(input[along]), widen((unsigned short)(second ? two >> 16 : two)), sum);
    }
    return sum;
}

__device__ __forceinline__ void add_singly(totals &sums, const char *plane, const unsigned *filters, bool second,
                                           int slot) {
#pragma unroll 1
    for (int i = 0; i < ROWS * 4; i++) {
        const float sum = single(plane + slot_at(slot + i / 2 % 2 * 8), filters, second, i);
#pragma unroll
        for (int j = 0; j < ROWS * 4; j++) // so that sums stay in registers
            if (i == j) sums[j / 4][j % 4] = sum;
    }
}

__device__ __forceinline__ bool has_nan(const totals &sums) {
    float all = 0;
#pragma unroll
    for (int i = 0; i < ROWS * 4; i++)
        all += sums[i / 4][i % 4];
    return __any_sync(0xffffffff, all != all);
}

__device__ __forceinline__ void store(float *to, const totals &sums, int slot) {
#pragma unroll
    for (int i = 0; i < ROWS * 4; i++)
        to[((i / 4 * 2 + i % 2) * 16 + slot + i / 2 % 2 * 8) * 4 + threadIdx.x % 4] = sums[i / 4][i % 4];
}

// All sums of a channel.
__device__ __forceinline__ void convolve(char *plane, const matrices &bands, const unsigned *filter, bool second) {
    const int lane = threadIdx.x % 32;
    totals sums = {};
    add_products(sums, (unsigned)__cvta_generic_to_shared(plane) + slot_at(lane % 16) + lane / 16 * 16, bands);
    if (has_nan(sums)) add_singly(sums, plane, filter, second, lane / 4);
    __syncwarp();
    store((float *)plane, sums, lane / 4);
}

__device__ __forceinline__ void multiply(float *sums, const void *images, long long count, long long rows,
                                         long long columns, long long image, long long row, long long column,
                                         const void *filters, long long channel) {
    char *const memory = (char *)sums;
    unsigned *const filters_at = (unsigned *)(memory + FILTERS_AT);
    const int own = threadIdx.x / 32 * OWN;
    taps taps;
    load_taps(taps, (const uint4 *)filters, (int)channel);
    __syncthreads();
    load_images(memory, images, (int)count, (int)rows, (int)columns, (int)image, (int)row, (int)column, (int)channel);
    store_taps(filters_at, taps);
    __syncthreads();
#pragma unroll 1
    for (int i = own; i < own + OWN; i += 2) {
        const unsigned *const two = filters_at + i / 2 * FILTER;
        matrices first, second;
        load_bands(first, second, two);
        convolve(memory + plane_at(i), first, two, false);
        convolve(memory + plane_at(i + 1), second, two, true);
    }
    __syncthreads();
}
