// Up to 16 rows by weights whose columns lie along the depth, on the tensor cores (mma.sync), whose rows are 16 columns of the
// weights, and whose columns are rows. Each warp streams what it multiplies through a ring of its own in shared memory, STAGES pieces
// ahead: the memory is busy from the start of the kernel, while the preceding one still runs, to its end. A piece is PIECE bytes
// along the depth of all of the block's columns, brought as boxes of 128 bytes: the copy engine takes about as long for a line of a
// few hundred bytes that it is told of by itself as for a box. Warps take pieces in turns, so that each row is read once for all
// columns, and add up their parts of the sums at the end.
//
// Of each 128 bytes of the depth a thread has 32, of both operands alike, so that eight threads that read together find
// their 16 bytes in different banks. Rows come straight from memory, mostly the first-level cache, a piece ahead; or from shared
// memory, where the kernel has computed ROWS_FIRST.

constexpr int BOX = 128, BOXES = PIECE / BOX, WIDTH = PRODUCTS * BN;

struct weights {
    const tensor_map &first, &second;
    int line; // of the matrices, of the block's first column

    __device__ __forceinline__ int width(int) const {
        return WIDTH;
    }
    // Elements beyond the depth and lines beyond the matrix are zero.
    __device__ __forceinline__ void copy(const walk &at) const {
        if (threadIdx.x % 32 != 0) return;
        expect(at.barrier(), STAGE);
#pragma unroll
        for (int i = 0; i < PRODUCTS * BOXES; i++)
            bring(at.memory() + i * BN * BOX, i < BOXES ? first : second, (at.piece * PIECE + i % BOXES * BOX) / ELEMENT, line,
                  at.barrier());
    }
};

__device__ __forceinline__ uint4 load_shared(unsigned from) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from));
    return x;
}

struct rows_of_block {
    const char *from;
    long long line;
    int left;

    __device__ __forceinline__ rows_of_block(const char *begin, long long bytes, int rows) {
        from = begin + threadIdx.x % 32 / 4 * bytes;
        line = bytes;
        left = rows - threadIdx.x % 32 / 4;
    }
    // 16 bytes of row 8n and the thread's.
    __device__ __forceinline__ uint4 load(int n, int at) const {
        uint4 x = make_uint4(0, 0, 0, 0);
        if (n * 8 < left && at < ALL_DEPTH * ELEMENT && ROWS_FIRST)
            x = load_shared(shared_memory() + ROWS_AT + (threadIdx.x % 32 / 4 + n * 8) * ALL_DEPTH * ELEMENT + at);
        else if (n * 8 < left && at < ALL_DEPTH * ELEMENT)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "l"(from + n * 8 * line + at));
        return x;
    }
};

struct sums {
    float c[WIDTH / 16][BM / 8][4];
    uint4 x[PIECE / 64][BM / 8]; // the rows of a piece

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int w = 0; w < WIDTH / 16; w++)
#pragma unroll
            for (int n = 0; n < BM / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    c[w][n][e] = 0;
    }

    __device__ __forceinline__ void load(const walk &at, const rows_of_block &rows) {
#pragma unroll
        for (int i = 0; i < PIECE / 64; i++)
#pragma unroll
            for (int n = 0; n < BM / 8; n++)
                x[i][n] = rows.load(n, at.piece * PIECE + i / 2 * BOX + threadIdx.x % 4 * 32 + i % 2 * 16);
    }

    __device__ __forceinline__ void add(const walk &at) {
        const int own = threadIdx.x % 32 / 4;
#pragma unroll
        for (int i = 0; i < PIECE / 64; i++)
#pragma unroll
            for (int w = 0; w < WIDTH / 16; w++) {
                const int product = w / (BN / 16), column = w % (BN / 16) * 16 + own;
                const unsigned box = at.memory() + (product * BOXES + i / 2) * BN * BOX;
                const unsigned line = box + column * BOX + ((threadIdx.x % 4 * 2 + i % 2) ^ own) * 16;
                const uint4 u = load_shared(line), v = load_shared(line + 8 * BOX);
                const unsigned first_half[4] = {u.x, v.x, u.y, v.y}, second_half[4] = {u.z, v.z, u.w, v.w};
#pragma unroll
                for (int n = 0; n < BM / 8; n++) {
                    multiply_add(c[w][n], first_half, x[i][n].x, x[i][n].y);
                    multiply_add(c[w][n], second_half, x[i][n].z, x[i][n].w);
                }
            }
    }

    __device__ __forceinline__ void store(float *part) const {
#pragma unroll
        for (int w = 0; w < WIDTH / 16; w++) {
            float *at = part + threadIdx.x % 4 * 2 * WIDTH + w * 16 + threadIdx.x % 32 / 4;
#pragma unroll
            for (int n = 0; n < BM / 8; n++, at += 8 * WIDTH) {
                at[0] = c[w][n][0];
                at[WIDTH] = c[w][n][1];
                at[8] = c[w][n][2];
                at[WIDTH + 8] = c[w][n][3];
            }
        }
    }
};

// The warps' parts of the sums lie where their rings were.
__device__ __forceinline__ void add_up(float *tile, const sums &own) {
    float *const parts = (float *)((char *)tile + RING_AT);
    __syncthreads();
    own.store(parts + threadIdx.x / 32 * BM * WIDTH);
    __syncthreads();
    for (int e = threadIdx.x; e < BM * WIDTH; e += THREADS) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < THREADS / 32; i++)
            sum += parts[i * BM * WIDTH + e];
        tile[e / WIDTH * TILE_ROW + e % WIDTH] = sum;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // the copy engine writes there for the block's next tile
    __syncthreads();
}

// A tile: `begin` has the first pieces brought and waits for the kernel before; then come loads for the epilogue; then `multiply`.
struct stream {
    weights from;
    walk now, ahead;
    exchange::push push;

    __device__ __forceinline__ stream(const tensor_map &first, const tensor_map &second) : from{first, second, 0} {
    }
    // With the columns from `line` on of what the maps describe.
    __device__ __forceinline__ void begin(long long line, const void *seat = nullptr) {
        from.line = (int)line;
        start_ring(from, ahead);
        if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
        push.begin(seat);
    }
    // The rows from first_row on, to the tile.
    __device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows) {
        const rows_of_block lines((const char *)a + first_row * lda * ELEMENT, lda * ELEMENT,
                                  rows - first_row < BM ? (int)(rows - first_row) : (int)BM);
        sums c;
        c.clear();
        if (now.has_piece()) c.load(now, lines);
        while (now.has_piece()) {
            wait(now.barrier(), now.parity);
            c.add(now);
            __syncwarp(); // the stage has been read
            now.next_piece();
            if (now.has_piece()) c.load(now, lines);
            bring_next(from, ahead);
        }
        end_ring();
        add_up(tile, c);
    }
};
