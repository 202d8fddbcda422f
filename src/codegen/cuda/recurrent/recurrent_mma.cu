// The products of one step of a recurrence on the tensor cores (mma.sync): the weights of 16 sums are an instruction's
// rows. Its eight columns are a group of four rows of states, each in two columns: rounded to the weights' type, and what that leaves,
// so that the sums are as good as those of states in f32. All weights stay in the chip: of each warp's part of the terms,
// those of the first REGISTERS steps in its registers, the others in shared memory, lines of LINE halves.

enum { TILES = (SUMS + 15) / 16, STEPS = (HIDDEN + 15) / 16, PART_STEPS = DEPTH / 16, KEPT_STEPS = KEPT / 16 };
enum { LINE = TILES * 16 + 8, OPERAND = STEPS * 16 + 8, SLOTS = 3 };
enum { GROUPS = (ROWS + 3) / 4, COLUMNS = 8 * GROUPS };
enum { CHAINS = GROUPS < 4 ? 4 / GROUPS : 1 }; // sums that do not wait for each other

__device__ __forceinline__ unsigned short narrow(float x) {
    unsigned short bits;
    if constexpr (MATH == F16) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    else asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
__device__ __forceinline__ float widen(unsigned short bits) {
    if constexpr (MATH == BF16) return __int_as_float((int)bits << 16);
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}

struct weights {
    unsigned own[REGISTERS > 0 ? REGISTERS : 1][4];
    const half *kept;

    // The panel's weight of a sum and a term; zero beyond them, since the instruction multiplies what is there.
    __device__ __forceinline__ static unsigned short element_of(const half *panel, int sum, int term) {
        return sum < SUMS && term < HIDDEN ? panel[(long long)term * SUMS + sum] : (unsigned short)0;
    }

    // Memory begins with the operands' SLOTS, which are cleared: their places beyond HIDDEN stay zero.
    __device__ __forceinline__ void keep(half *memory, const half *panel, half *operands) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile = warp % TILES, part = warp / TILES;
#pragma unroll
        for (int step = 0; step < REGISTERS; step++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int sum = tile * 16 + lane / 4 + i % 2 * 8, term = (part * PART_STEPS + step) * 16 + lane % 4 * 2 + i / 2 * 8;
                own[step][i] = element_of(panel, sum, term) | (unsigned)element_of(panel, sum, term + 1) << 16;
            }
        }
        kept = memory;
        for (int i = THREAD; i < PARTS * KEPT * TILES * 16; i += THREADS) {
            const int sum = i % (TILES * 16), line = i / (TILES * 16);
            const int term = line / (KEPT > 0 ? KEPT : 1) * DEPTH + REGISTERS * 16 + line % (KEPT > 0 ? KEPT : 1);
            memory[line * LINE + sum] = element_of(panel, sum, term);
        }
        for (int i = THREAD; i < SLOTS * COLUMNS * OPERAND; i += THREADS)
            operands[i] = 0;
    }

    __device__ __forceinline__ void multiply(element *sums, const half *operand, int rows, int first, int count) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile = warp % TILES, part = warp / TILES;
        const half *column = operand + lane / 4 * OPERAND + part * DEPTH + lane % 4 * 2;
        const unsigned lines = (unsigned)__cvta_generic_to_shared(kept) +
                               ((part * KEPT + lane / 16 * 8 + lane % 8) * LINE + tile * 16 + lane / 8 % 2 * 8) * 2;
        float sum[GROUPS][CHAINS][4] = {};
        const bool wanted = tile * 16 < (first + count) * UNITS && tile * 16 + 16 > first * UNITS;
        if (wanted && part < PARTS) {
#pragma unroll
            for (int step = 0; step < REGISTERS + KEPT_STEPS; step++) {
                if (part * PART_STEPS + step >= STEPS) break;
                unsigned from_shared[4];
                if (step >= REGISTERS) load_transposed(from_shared, lines + (step - REGISTERS) * 16 * LINE * 2);
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    const half *at = column + group * 8 * OPERAND + step * 16;
                    const unsigned b0 = *(const unsigned *)at, b1 = *(const unsigned *)(at + 8);
                    multiply_add(sum[group][step % CHAINS], step < REGISTERS ? own[step < REGISTERS ? step : 0] : from_shared, b0, b1);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4 * GROUPS; i++) {
            const float(&own_sums)[CHAINS][4] = sum[i / 4];
            float both = own_sums[0][i % 4];
#pragma unroll
            for (int chain = 1; chain < CHAINS; chain++)
                both += own_sums[chain][i % 4];
            both += __shfl_xor_sync(0xffffffff, both, 2);
            const int row = i / 4 * 4 + lane % 4 * 2 + i % 2, at = tile * 16 + lane / 4 + i / 2 % 2 * 8;
            const bool first_half = lane % 4 < 2; // the others have the same sums
            if (wanted && first_half && part < PARTS && row < rows && at < SUMS) sums[(part * ROWS + row) * SUMS + at] = both;
        }
        add_parts(sums, rows, first, count);
    }
};

// The block's units of each row, to all blocks; quads of them, since UNITS is a multiple of four.
__device__ __forceinline__ void share(half *operand, const element *states, int rows) {
    enum { QUADS = UNITS / 4 };
    const int own = own_rank();
    for (int i = THREAD; i < BLOCKS * rows * 2 * QUADS; i += THREADS) {
        const int quad = i % QUADS, rest = i / QUADS % 2, row = i / QUADS / 2 % rows;
        const int block = (own + i / QUADS / 2 / rows) % BLOCKS, unit = own * UNITS + quad * 4;
        unsigned words[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (unit + j >= HIDDEN) break;
            const float x = states[row * STRIDE + unit + j], rounded = widen(narrow(x)), left = x - rounded;
            const unsigned short bits = narrow(!rest ? rounded : fabsf(left) < __int_as_float(0x7f800000) ? left : 0.0f);
            words[j / 2] |= (unsigned)bits << j % 2 * 16;
        }
        half *to = operand + (row / 4 * 8 + row % 4 + rest * 4) * OPERAND + unit;
        if (unit >= HIDDEN) continue;
        if constexpr (BLOCKS > 1)
            asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(address_in(block, to)), "r"(words[0]),
                         "r"(words[1]) : "memory");
        else *(uint2 *)to = make_uint2(words[0], words[1]);
    }
    meet();
}
