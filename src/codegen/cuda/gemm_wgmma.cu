// Products by the tensor cores of sm_90a, asynchronous to the threads: a group of four warps multiplies 64 rows, reading both
// operands from shared memory. While the products of a step are under way, the copies of later steps are waited for and
// begun; so the walk is here too. `multiply_add` is the instruction, printed for the tile's width.

struct sums {
    static constexpr int own_n = BN / WARPS_N, groups_m = BM / 64;
    float c[own_n / 8][4];

    __device__ __forceinline__ static int group() {
        return threadIdx.x / 128;
    }
    __device__ __forceinline__ static int first_row() {
        return group() % groups_m * 64;
    }
    __device__ __forceinline__ static int first_column() {
        return group() / groups_m * own_n;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int j = 0; j < own_n / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[j][e] = 0;
    }

    // How an operand lies: its address, the distance between panels (across) and between groups of eight lines.
    __device__ __forceinline__ static unsigned long long describe(unsigned from, int panels, int eight, int layout) {
        return (unsigned long long)((from & 0x3ffff) >> 4) | (unsigned long long)(panels >> 4) << 16 |
               (unsigned long long)(eight >> 4) << 32 | (unsigned long long)layout << 62;
    }
    // Lines `line` and on of an operand of LINES lines, at element `depth` of the step. Lines along the depth are 128 bytes
    // long; lines across it are too, in panels, or 64 where there are but 32 elements.
    template <bool ACROSS, int LINES>
    __device__ __forceinline__ static unsigned long long part(unsigned from, int line, int depth) {
        constexpr int width = ACROSS && LINES * ELEMENT < 128 ? LINES * ELEMENT : 128;
        if (ACROSS) from += line * ELEMENT / width * (DEPTH * width) + depth * width;
        else from += line * width + depth * ELEMENT;
        return describe(from, ACROSS ? DEPTH * width : 16, 8 * width, width == 128 ? 1 : 2);
    }

    // Begins a step's products.
    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 16)
            multiply_add(c, part<A_ACROSS, BM>(a_from, first_row(), depth),
                         part<B_ACROSS, BN>(b_from, first_column(), depth));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    // Waits until all but the products of the LEFT newest steps are done.
    template <int LEFT> __device__ __forceinline__ void wait() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
    }

    __device__ __forceinline__ void store(float *tile) const {
        const int lane = threadIdx.x % 32, row = first_row() + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < own_n / 8; j++) {
            float *to = tile + row * TILE_ROW + first_column() + j * 8 + lane % 4 * 2;
            *(float2 *)to = make_float2(c[j][0], c[j][1]);
            *(float2 *)(to + 8 * TILE_ROW) = make_float2(c[j][2], c[j][3]);
        }
    }
};

// What has been copied by all threads is seen by the tensor cores.
template <int LEFT> __device__ __forceinline__ void receive() {
    wait_for_copies<LEFT>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void walk(float *tile, const LOAD_A &load_a, const LOAD_B &load_b, long long depth) {
    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);
    int first, end;
    share_out(depth, first, end);
    __syncthreads();
    copy_first(memory, load_a, load_b, first, end, depth);
    sums c;
    c.clear();
    int now = 0, next = STAGES - 1;
    receive<STAGES - 2>();
    for (int s = first; s < end; s++) {
        c.step(memory + now * STAGE_BYTES, memory + now * STAGE_BYTES + A_BYTES);
        c.wait<1>(); // the last step's, whose place is the next to be filled
        receive<STAGES - 3>();
        copy_step(memory + next * STAGE_BYTES, load_a, load_b, s + STAGES - 1, end, depth);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    c.wait<0>();
    wait_for_copies<0>();
    finish(c, tile);
}
