// The products of one step of a recurrence on the CUDA cores: rows of states by the block's panel of weights,
// [HIDDEN][SUMS]. A thread adds up WIDTH neighbouring sums of all rows over one of PARTS parts of the terms. The first KEPT
// weights of each part stay in shared memory for the whole sequence, the others come from the second cache.

enum { WIDTH = 4, GROUPS = SUMS / WIDTH };

struct __align__(WIDTH * sizeof(weight) < 16 ? WIDTH * sizeof(weight) : 16) quad {
    weight of[WIDTH];
};
struct __align__(16) elements {
    element of[16 / sizeof(element)];
};

__device__ __forceinline__ float widen(float w) {
    return w;
}
__device__ __forceinline__ double widen(double w) {
    return w;
}
__device__ __forceinline__ float widen(f16 w) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(w.bits));
    return wide;
}
__device__ __forceinline__ float widen(bf16 w) {
    return __int_as_float((int)w.bits << 16);
}

__device__ __forceinline__ int first_of(int part) {
    return part * DEPTH < HIDDEN ? part * DEPTH : HIDDEN;
}

// Adds `count` terms; from: the weights of the first one.
template <int COUNT>
__device__ __forceinline__ void add_terms(element (&sum)[COUNT][WIDTH], const quad *from, const element *states,
                                          int count) {
    enum { STEP = 16 / sizeof(element) };
#pragma unroll 4
    for (int first = 0; first < count; first += STEP) {
        elements state[COUNT];
#pragma unroll
        for (int row = 0; row < COUNT; row++)
            state[row] = *(const elements *)(states + row * STRIDE + first);
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            if (HIDDEN % STEP != 0 && first + i >= count) break;
            const quad w = from[(first + i) * GROUPS];
#pragma unroll
            for (int row = 0; row < COUNT; row++) {
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    sum[row][j] = fma(widen(w.of[j]), state[row].of[i], sum[row][j]);
            }
        }
    }
}

// One group's sums over one part.
template <int COUNT>
__device__ __forceinline__ void add_part(element *sums, const element *states, const quad *kept,
                                         const quad *panel, int group, int part) {
    element sum[COUNT][WIDTH] = {};
    const int first = first_of(part), count = first_of(part + 1) - first;
    const int resident = count < KEPT ? count : KEPT;
    if (KEPT > 0) add_terms(sum, kept + part * KEPT * GROUPS + group, states + first, resident);
    if (KEPT < DEPTH) {
        const int next = first + resident;
        add_terms(sum, panel + (long long)next * GROUPS + group, states + next, count - resident);
    }
#pragma unroll
    for (int row = 0; row < COUNT; row++) {
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            sums[(part * ROWS + row) * SUMS + group * WIDTH + j] = sum[row][j];
    }
}

// Adds the parts of the sums of `count` gates from `first` on.
__device__ __forceinline__ void add_parts(element *sums, int rows, int first, int count) {
    if (PARTS == 1) return;
    __syncthreads();
    for (int i = THREAD; i < rows * count * UNITS; i += THREADS) {
        const int at = i / (count * UNITS) * SUMS + first * UNITS + i % (count * UNITS);
        element sum = sums[at];
#pragma unroll
        for (int part = 1; part < PARTS; part++)
            sum += sums[part * ROWS * SUMS + at];
        sums[at] = sum;
    }
}

struct weights {
    const quad *panel;
    quad *kept;

    __device__ __forceinline__ void keep(void *memory, const weight *weights) {
        panel = (const quad *)weights;
        kept = (quad *)memory;
        for (int i = THREAD; i < PARTS * KEPT * GROUPS; i += THREADS) {
            const int line = i / GROUPS, depth = line / KEPT * DEPTH + line % KEPT;
            if (depth < HIDDEN) kept[i] = panel[depth * GROUPS + i % GROUPS];
        }
    }

    __device__ __forceinline__ void multiply(element *sums, const element *states, int rows, int first, int count) {
        const int from = first * UNITS / WIDTH, groups = count * UNITS / WIDTH;
        for (int i = THREAD; i < PARTS * groups; i += THREADS) {
            const int group = from + i % groups, part = i / groups;
            if (rows == 1) add_part<1>(sums, states, kept, panel, group, part);
            else add_part<ROWS>(sums, states, kept, panel, group, part);
        }
        add_parts(sums, rows, first, count);
    }
};

// The states are the operand of the products: those of other blocks are needed here, and are theirs to send.
__device__ __forceinline__ void share(const element *states, int rows) {
    if constexpr (BLOCKS > 1) {
        enum { PIECES = UNITS * sizeof(element) / 16, ROW = STRIDE * sizeof(element) / 16 };
        const int own = own_rank();
        for (int i = THREAD; i < (BLOCKS - 1) * rows * PIECES; i += THREADS) {
            const int piece = i % PIECES, row = i / PIECES % rows, block = (own + 1 + i / PIECES / rows) % BLOCKS;
            const float4 *from = (const float4 *)states + row * ROW + own * PIECES + piece;
            const float4 value = *from;
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address_in(block, from)),
                         "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
        }
        meet();
    }
}
