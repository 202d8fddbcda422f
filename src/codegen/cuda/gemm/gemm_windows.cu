// Rows of A that are windows of a convolution over a channels-last image (implicit GEMM), gathered on the way to shared
// memory: row m is an output position; the depth runs over kernel rows, kernel columns and channels. Elements outside
// the image are zero, or BORDER.

template <int LINES, int COPY> struct windows {
    // If copies are small, or those of neighbouring lines are contiguous in the image, a thread has one line and many
    // places in it; else one place and several lines.
    static constexpr int units = DEPTH * ELEMENT / COPY;
    static constexpr bool one_line = (COPY < 8 || SIDE_BY_SIDE) && THREADS % LINES == 0;
    static constexpr int apart = one_line ? THREADS / LINES : THREADS / units;
    static constexpr int count = one_line ? (units + apart - 1) / apart : (LINES + apart - 1) / apart;
    static constexpr int lines = one_line ? 1 : count;
    static constexpr bool overlap = TAPS_X > STRIDE_X || TAPS_Y > STRIDE_Y || TAPS_Z > STRIDE_Z;
    static constexpr int columns_at = TAPS_Y, planes_at = TAPS_Y + TAPS_X; // bits of `inside`
    static constexpr bool many = TAPS_Y + TAPS_X + (TAPS_Z > 1 ? TAPS_Z : 0) > 32; // taps for that
    struct origin {
        int z, y, x;
    };
    const char *base; // first channel of the group
    int planes, height, width;
    long long pixel;   // elements between pixels
    unsigned channels; // of the group
    const char *from[lines]; // the window's first pixel, which may lie outside the image
    unsigned inside[many ? 1 : lines]; // a bit for each of the window's rows, columns and planes: it is inside the image
    origin at[many ? lines : 1];       // or, where there are too many, the place of the first pixel

    __device__ __forceinline__ static int line_of(int i) {
        return one_line ? threadIdx.x % LINES : threadIdx.x / units + i * apart;
    }

    // ahead, above, before: planes, rows and columns of padding.
    __device__ __forceinline__ void start(const char *image, long long image_planes, long long image_height,
                                          long long image_width, long long pixel_stride, long long image_channels,
                                          long long out_planes, long long out_height, long long out_width,
                                          long long ahead, long long above, long long before, long long first,
                                          long long rows) {
        base = image;
        planes = (int)image_planes;
        height = (int)image_height;
        width = (int)image_width;
        pixel = pixel_stride;
        channels = (unsigned)image_channels;
#pragma unroll
        for (int l = 0; l < lines; l++) {
            const long long m = first + line_of(l);
            const bool exists = m < rows && line_of(l) < LINES;
            const unsigned output = exists ? (unsigned)m : 0, row = output / (unsigned)out_width;
            const unsigned plane = row / (unsigned)out_height, number = plane / (unsigned)out_planes;
            const int z = (int)(plane - number * (unsigned)out_planes) * STRIDE_Z - (int)ahead;
            const int y = (int)(row - plane * (unsigned)out_height) * STRIDE_Y - (int)above;
            const int x = (int)(output - row * (unsigned)out_width) * STRIDE_X - (int)before;
            const bool valid = exists && (TAPS_Z > 1 || (unsigned)z < (unsigned)planes);
            from[l] = base + ((((long long)number * planes + z) * height + y) * width + x) * pixel * ELEMENT;
            if constexpr (many)
                at[l] = {z, valid ? y : -(1 << 30), x};
            else
                inside[l] = bits({z, y, x}, valid);
        }
    }

    // What is inside of a window that begins at a place.
    __device__ __forceinline__ unsigned bits(origin p, bool valid) const {
        unsigned all = 0;
#pragma unroll
        for (int t = 0; t < TAPS_Y; t++)
            all |= (valid && (unsigned)(p.y + t * DILATION_Y) < (unsigned)height ? 1u : 0u) << t;
#pragma unroll
        for (int t = 0; t < TAPS_X; t++)
            all |= ((unsigned)(p.x + t * DILATION_X) < (unsigned)width ? 1u : 0u) << (columns_at + t);
        if constexpr (TAPS_Z > 1) {
#pragma unroll
            for (int t = 0; t < TAPS_Z; t++)
                all |= ((unsigned)(p.z + t * DILATION_Z) < (unsigned)planes ? 1u : 0u) << (planes_at + t);
        }
        return all;
    }

    // If steps divide the channels, the walk goes through all taps of a slice of channels first, so that overlapping
    // windows hit L1.
    __device__ __forceinline__ long long depth_at(int step) const {
        constexpr unsigned taps = TAPS_Z * TAPS_Y * TAPS_X;
        if (channels % DEPTH != 0) return (long long)step * DEPTH;
        return (long long)(step % taps) * channels + step / taps * DEPTH;
    }

    // The tap and channel of the element of the depth at which a copy begins.
    struct tap {
        int plane, row, column;
        long long offset; // from the window's first pixel, in bytes
        bool within;
    };
    __device__ __forceinline__ tap take_apart(unsigned p, long long end) const {
        const unsigned number = p / channels, channel = p - number * channels;
        const unsigned row = number / TAPS_X, plane = TAPS_Z == 1 ? 0 : row / TAPS_Y;
        tap t = {(int)plane, (int)(row - plane * TAPS_Y), (int)(number % TAPS_X), 0, WHOLE_DEPTH || p < end};
        const long long line = (long long)t.plane * DILATION_Z * height + t.row * DILATION_Y;
        t.offset = ((line * width + t.column * DILATION_X) * pixel + channel) * ELEMENT;
        return t;
    }

    __device__ __forceinline__ bool is_inside(const origin &window, const tap &t) const {
        return (unsigned)(window.y + t.row * DILATION_Y) < (unsigned)height &&
               (unsigned)(window.x + t.column * DILATION_X) < (unsigned)width &&
               (TAPS_Z == 1 || (unsigned)(window.z + t.plane * DILATION_Z) < (unsigned)planes);
    }

    __device__ __forceinline__ piece piece_of(unsigned to, int l, int line, int byte, const tap &t, bool exists) const {
        unsigned all; // its lowest bit counts
        if constexpr (many)
            all = is_inside(at[l], t);
        else
            all = inside[l] >> t.row & inside[l] >> (columns_at + t.column);
        if constexpr (TAPS_Z > 1 && !many) all &= inside[l] >> (planes_at + t.plane);
        return {to + place<LINES, DEPTH * ELEMENT>(line, byte), from[l] + t.offset, t.within && (all & 1), exists};
    }

    template <int COUNT, class PIECES> __device__ __forceinline__ static void copy_or_fill(const PIECES &pieces) {
        if constexpr (BORDER && COPY >= 4) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const piece p = pieces(i);
                if (p.exists && !p.inside) fill<COPY>(p.to, BORDER * 0x1010101u);
                else if (p.exists) copy<COPY, overlap>(p.to, p.from, true);
            }
        } else {
            copy_pieces<COPY, overlap, COUNT>(pieces, BORDER * 0x1010101u);
        }
    }

    __device__ __forceinline__ void load(unsigned to, long long depth, long long end) const {
        if constexpr (one_line) {
            constexpr int together = COPY < 4 ? 8 : 4;
#pragma unroll 1
            for (int first = 0; first < count; first += together)
                copy_or_fill<together>([&](int i) {
                    const int unit = threadIdx.x / LINES + (first + i) * apart;
                    return piece_of(to, 0, line_of(0), unit * COPY, take_apart((unsigned)depth + unit * COPY / ELEMENT, end),
                                    unit < units);
                });
        } else {
            const int byte = threadIdx.x % units * COPY;
            const tap t = take_apart((unsigned)depth + byte / ELEMENT, end);
            copy_or_fill<count>([&](int i) { return piece_of(to, i, line_of(i), byte, t, LINES % apart == 0 || line_of(i) < LINES); });
        }
    }
};
