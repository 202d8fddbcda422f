// Asynchronous copies of operands from global to shared memory, one step of the depth at a time.
//
// An operand's part of a step is a set of lines in shared memory. The 16-byte chunks of a line are permuted by the
// line's number (swizzled), so that eight lines read at the same place (ldmatrix), and neighbours in a line, fall into
// different banks. Lines longer than 128 bytes are laid out as panels of 128 bytes, one after the other.

// The offset of a byte in line `line` of LINES lines of BYTES bytes. TURN: by how many chunks the permutation advances
// per line.
template <int LINES, int BYTES, int TURN = 1> __device__ __forceinline__ unsigned place(int line, int byte) {
    constexpr int width = BYTES < 128 ? BYTES : 128, chunks = width / 16, together = 8 / chunks;
    const int turned = (byte % width / 16) ^ (line / together * TURN % chunks);
    return byte / width * (LINES * width) + line * width + turned * 16 + byte % 16;
}

// LINES lines with unit stride along the depth; a step copies DEPTH elements of each. PART: some tiles have fewer lines.
template <int LINES, int COPY, bool PART> struct along {
    static constexpr int units = DEPTH * ELEMENT / COPY, apart = THREADS / units, count = (LINES + apart - 1) / apart;
    const char *from;
    long long stride;          // between lines of this thread, in bytes
    unsigned long long inside; // a bit per line

    __device__ __forceinline__ void start(const char *base, long long ld, long long first, long long lines) {
        const int line = threadIdx.x / units;
        from = base + (first + line) * ld * ELEMENT + threadIdx.x % units * COPY;
        stride = apart * ld * ELEMENT;
        inside = 0;
        for (int i = 0; i < count; i++)
            inside |= (line + i * apart < LINES && first + line + i * apart < lines ? 1ull : 0ull) << i;
    }

    __device__ __forceinline__ void load(unsigned to, long long depth, long long end) const {
        const int line = threadIdx.x / units, byte = threadIdx.x % units * COPY;
        const bool within = WHOLE_DEPTH || depth + byte / ELEMENT < end;
        const char *const here = from + depth * ELEMENT;
        copy_pieces<COPY, PART, count>([&](int i) {
            return piece{to + place<LINES, DEPTH * ELEMENT>(line + i * apart, byte), here + i * stride, within && (inside >> i & 1),
                         LINES % apart == 0 || line + i * apart < LINES};
        });
    }
};

// LINES lines whose offsets, in elements from the base, are in a list in shared memory. Along the depth a line consists
// of pieces of PIECE elements, `piece_stride` elements apart; PIECE 0: of a single one.
template <int LINES, int COPY, int PIECE> struct listed {
    static constexpr int units = DEPTH * ELEMENT / COPY, apart = THREADS / units, count = (LINES + apart - 1) / apart;
    const char *base;
    const long long *list;
    long long piece_stride, left; // lines from the first on

    __device__ __forceinline__ void start(const char *from, const long long *lines_at, long long stride, long long first,
                                          long long lines) {
        base = from;
        list = lines_at;
        piece_stride = stride;
        left = lines - first;
    }

    __device__ __forceinline__ void load(unsigned to, long long depth, long long end) const {
        const int line = threadIdx.x / units, byte = threadIdx.x % units * COPY;
        const long long p = depth + byte / ELEMENT;
        long long offset = p;
        if constexpr (PIECE > 0) offset = (unsigned)p / PIECE * piece_stride + (unsigned)p % PIECE;
        copy_pieces<COPY, false, count>([&](int i) {
            const bool exists = LINES % apart == 0 || line + i * apart < LINES;
            return piece{to + place<LINES, DEPTH * ELEMENT>(line + i * apart, byte),
                         base + (exists ? list[line + i * apart] + offset : 0) * ELEMENT,
                         (WHOLE_DEPTH || p < end) && line + i * apart < left, exists};
        });
    }
};

// WIDTH operand lines with unit stride across the depth: a step copies DEPTH rows of WIDTH elements. PART: as above.
template <int WIDTH, int COPY, bool PART> struct across {
    static constexpr int units = WIDTH * ELEMENT / COPY, apart = THREADS / units, count = (DEPTH + apart - 1) / apart;
    const char *from;
    long long step; // bytes between elements of the depth
    bool inside;

    __device__ __forceinline__ void start(const char *base, long long ld, long long first, long long lines) {
        const int unit = threadIdx.x % units * (COPY / ELEMENT);
        inside = first + unit < lines;
        from = base + (first + unit) * ELEMENT;
        step = ld * ELEMENT;
    }

    __device__ __forceinline__ void load(unsigned to, long long depth, long long end) const {
        const int line = threadIdx.x / units, byte = threadIdx.x % units * COPY;
        const char *const here = from + (depth + line) * step;
        copy_pieces<COPY, PART, count>([&](int i) {
            return piece{to + place<DEPTH, WIDTH * ELEMENT, ACROSS_TURN>(line + i * apart, byte), here + i * apart * step,
                         inside && (WHOLE_DEPTH || depth + line + i * apart < end),
                         DEPTH % apart == 0 || line + i * apart < DEPTH};
        });
    }
};
