// Rows of A that are the windows of a convolution over a channels-last image, made on the way to shared memory: row m is
// an output position, the depth runs over kernel rows, kernel columns and channels. What lies beyond the image is zero.

template <int LINES, int COPY> struct windows {
    // Where copies are small, a thread has one line and many places in it, else it has one place and several lines.
    static constexpr int units = DEPTH * ELEMENT / COPY;
    static constexpr bool one_line = COPY < 8 && THREADS % LINES == 0;
    static constexpr int apart = one_line ? THREADS / LINES : THREADS / units;
    static constexpr int count = one_line ? (units + apart - 1) / apart : (LINES + apart - 1) / apart;
    static constexpr int lines = one_line ? 1 : count;
    const char *base; // first channel of the group
    int height, width;
    long long pixel;   // elements from one pixel to the next
    unsigned channels; // of the group
    const char *from[lines]; // the window's first pixel, which may lie outside
    int y[lines], x[lines];  // its row and column; y is far outside where the line is

    __device__ __forceinline__ static int line_of(int i) {
        return one_line ? threadIdx.x % LINES : threadIdx.x / units + i * apart;
    }

    // above, before: rows and columns of padding.
    __device__ __forceinline__ void start(const char *image, long long image_height, long long image_width,
                                          long long pixel_stride, long long image_channels, long long out_height,
                                          long long out_width, long long above, long long before, long long first,
                                          long long rows) {
        base = image;
        height = (int)image_height;
        width = (int)image_width;
        pixel = pixel_stride;
        channels = (unsigned)image_channels;
#pragma unroll
        for (int l = 0; l < lines; l++) {
            const long long m = first + line_of(l);
            const bool valid = m < rows && line_of(l) < LINES;
            const unsigned at = valid ? (unsigned)m : 0, row = at / (unsigned)out_width;
            const unsigned number = row / (unsigned)out_height;
            y[l] = (int)(row - number * (unsigned)out_height) * STRIDE_Y - (int)above;
            x[l] = (int)(at - row * (unsigned)out_width) * STRIDE_X - (int)before;
            from[l] = base + (((long long)number * height + y[l]) * width + x[l]) * pixel * ELEMENT;
            if (!valid) y[l] = -(1 << 30);
        }
    }

    // The element of the depth at which a copy begins, taken apart.
    struct tap {
        int y, x;
        long long offset; // from the window's first pixel, in bytes
        bool within;
    };
    __device__ __forceinline__ tap take_apart(unsigned p, long long end) const {
        const unsigned number = p / channels, channel = p - number * channels;
        const int row = number / TAPS_X, column = number % TAPS_X;
        tap t = {row * DILATION_Y, column * DILATION_X, 0, p < end};
        t.offset = ((t.y * width + t.x) * pixel + channel) * ELEMENT;
        return t;
    }

    __device__ __forceinline__ void copy_one(unsigned to, int l, int line, int byte, const tap &t) const {
        const int row = y[l] + t.y, column = x[l] + t.x;
        const bool valid = t.within && (unsigned)row < (unsigned)height && (unsigned)column < (unsigned)width;
        copy<COPY>(to + place<LINES, DEPTH * ELEMENT>(line, byte), valid ? from[l] + t.offset : base, valid);
    }

    __device__ __forceinline__ void load(unsigned to, long long depth, long long end) const {
        if constexpr (one_line) {
#pragma unroll 4
            for (int i = 0; i < count; i++) {
                const int unit = threadIdx.x / LINES + i * apart;
                if (unit < units)
                    copy_one(to, 0, line_of(0), unit * COPY, take_apart((unsigned)depth + unit * COPY / ELEMENT, end));
            }
        } else {
            const int byte = threadIdx.x % units * COPY;
            const tap t = take_apart((unsigned)depth + byte / ELEMENT, end);
#pragma unroll
            for (int i = 0; i < count; i++) {
                if (LINES % apart == 0 || line_of(i) < LINES) copy_one(to, i, line_of(i), byte, t);
            }
        }
    }
};
