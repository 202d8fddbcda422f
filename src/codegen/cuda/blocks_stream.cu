// The copy engine brings codes and factors, for each warp through a ring of its own (gemm_ring.cu): so the memory is busy from the start
// of the kernel, while the preceding one still runs, to its end. Groups are of 16 columns. A piece is some chunks of a group and,
// behind them, the scales and zero points of their SCALE_ROWS blocks.

constexpr int BLOCKS = (DEPTH + BLOCK - 1) / BLOCK, PIECE_DEPTH = PIECE / 512 * CHUNK;
constexpr int SCALE_LINE = 16 * SCALE_BYTES;
constexpr bool ENDS = DEPTH % PIECE_DEPTH != 0; // does a piece reach behind the last depth?

struct weights {
    const char *codes, *scales, *zeros;
    int columns;

    __device__ __forceinline__ int width(int group) const {
        return columns - group * 16;
    }
    __device__ __forceinline__ void copy(const walk &at) const {
        const int lane = threadIdx.x % 32, first = at.piece * PIECE_DEPTH / BLOCK, rows = min(SCALE_ROWS, BLOCKS - first);
        if (lane == 0) expect(at.barrier(), at.bytes() + rows * (SCALE_LINE + ZERO * 16));
        __syncwarp();
        if (lane == 0)
            bring(at.memory(), codes + (long long)at.group * COLUMN + at.piece * PIECE, at.bytes(), at.barrier());
        for (int row = lane; row < rows; row += 32) {
            const long long factors = (long long)(first + row) * COLUMNS + at.group * 16;
            bring(at.memory() + PIECE + row * SCALE_LINE, scales + factors * SCALE_BYTES, SCALE_LINE, at.barrier());
            if constexpr (ZERO)
                bring(at.memory() + PIECE + SCALE_ROWS * SCALE_LINE + row * 16, zeros + factors, 16, at.barrier());
        }
    }
};

// Of a chunk of the piece at `memory`, which begins at `depth`. Depths beyond the last have a scale of 0.
struct factors_of_chunk {
    unsigned memory;
    int depth, chunk;

    __device__ __forceinline__ factors operator()(int run) const {
        const int within = chunk * CHUNK + run * 32 + own_depths(), row = BLOCK < PIECE_DEPTH ? within / BLOCK : 0;
        factors f;
#pragma unroll
        for (int column = 0; column < 2; column++) {
            const int own = threadIdx.x % 32 / 4 + column * 8;
            f.scale[column] = f.zero[column] = 0;
            if (ENDS && depth + within >= DEPTH) continue;
            const unsigned scale = memory + PIECE + row * SCALE_LINE + own * SCALE_BYTES;
            if constexpr (SCALE_BYTES == 4) {
                asm volatile("ld.shared.b32 %0, [%1];" : "=r"(f.scale[column]) : "r"(scale));
            } else {
                unsigned short half;
                asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(scale));
                f.scale[column] = (unsigned)half << (WIDE_SCALE ? 16 : 0);
            }
            if constexpr (ZERO)
                asm volatile("ld.shared.u8 %0, [%1];"
                             : "=r"(f.zero[column])
                             : "r"(memory + PIECE + SCALE_ROWS * SCALE_LINE + row * 16 + own));
        }
        return f;
    }
};

__device__ __forceinline__ uint4 load_codes(unsigned from) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from));
    return x;
}

struct product {
    weights from;
    float entry;
    walk now, ahead;
    exchange::push push;

    __device__ __forceinline__ void begin(const void *codes, const void *scales, const void *zeros, const float *table,
                                          long long first_column, const void *seat = nullptr) {
        from = {(const char *)codes + first_column / 16 * COLUMN, (const char *)scales + first_column * SCALE_BYTES,
                (const char *)zeros + first_column, (int)(COLUMNS - first_column)};
        start_ring(from, ahead);
        entry = 0;
        if constexpr (TABLE) entry = table[threadIdx.x % 16];
        if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
        push.begin(seat);
    }
    __device__ __forceinline__ void multiply(float *tile, const void *a, long long lda, long long first_row, long long rows) {
        const rows_of_block lines(a, lda, first_row, rows);
        float *const own = parts_of(tile) + threadIdx.x / 32 * BM * BN;
        for (; now.group < GROUPS; now.next_group()) {
            sums c;
            c.clear();
            for (; from.width(now.group) > 0 && now.has_piece(); now.next_piece()) {
                rows_of_chunks<PIECE / 512> held; // loaded before the piece is waited for
                held.template load<ENDS>(lines, now.piece * PIECE_DEPTH, CHUNK);
                wait(now.barrier(), now.parity);
#pragma unroll
                for (int u = 0; u < PIECE / 512; u++) {
                    if (ENDS && u * 512 >= now.bytes()) break;
                    c.add(load_codes(now.memory() + u * 512 + threadIdx.x % 32 * 16),
                          factors_of_chunk{now.memory(), now.piece * PIECE_DEPTH, u}, held_rows{held.x[u]}, entry);
                }
                __syncwarp(); // the stage has been read
                bring_next(from, ahead);
            }
            c.store(own + now.group * 16, BN);
        }
        end_ring();
        add_parts<WARPS>(tile);
        __syncthreads();
    }
};
