// The products of one step of a recurrence on the tensor cores (mma.sync). A warp has eight units, with all their gates: two gates
// are an instruction's 16 rows. Its eight columns are rows of states, each of which is two numbers, rounded to the weights' type and what
// that leaves, so that the sums are as good as those of states in f32: one instruction multiplies the former, another the
// latter; or one both, of four rows. So a thread ends up with the sums of all gates of one of its warp's units, in ELEMENTS rows.
//
// All weights stay in the chip: those of the first REGISTERS steps of the terms in registers, the others in shared memory, behind the
// operands: SLOTS of COLUMNS columns of COLUMN halves.

enum { PAIRED = ROWS == 4, GROUPS = PAIRED ? 1 : ROWS / 8, ELEMENTS = ROWS / 4, NUMBERS = PAIRED ? 1 : 2 };
enum { STEPS = (HIDDEN + 15) / 16, WHOLE_UNITS = (UNITS + 7) / 8 * 8, TILES = (GATES + 1) / 2, SLOTS = 3 };
enum { CHAINS = TILES * GROUPS * NUMBERS < 4 ? 2 : 1 }; // sums that do not wait for each other

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
    unsigned own[TILES][REGISTERS][4];
    half *operands;
    unsigned kept; // where the warp's first ones lie, for load_transposed

    // The panel's weight of a unit's gate and a term; zero beyond them, since the instruction multiplies what is there.
    __device__ __forceinline__ static unsigned short element_of(const half *panel, int gate, int unit, int term) {
        return gate < GATES && unit < UNITS && term < HIDDEN ? panel[((long long)term * GATES + gate) * UNITS + unit] : (unsigned short)0;
    }

    // Operands are cleared: their places beyond HIDDEN stay zero.
    __device__ __forceinline__ void keep(half *memory, const half *panel) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        __syncthreads(); // the tile before needs its memory no more
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int step = 0; step < REGISTERS; step++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int gate = 2 * tile + i % 2, unit = warp * 8 + lane / 4, term = step * 16 + lane % 4 * 2 + i / 2 * 8;
                    own[tile][step][i] = element_of(panel, gate, unit, term) | (unsigned)element_of(panel, gate, unit, term + 1) << 16;
                }
        operands = memory;
        half *const lines = memory + SLOTS * COLUMNS * COLUMN;
        for (int i = THREAD; i < KEPT * 2 * TILES * WHOLE_UNITS; i += THREADS) {
            const int at = i % (2 * TILES * WHOLE_UNITS), line = i / (2 * TILES * WHOLE_UNITS);
            lines[line * TERM + at] = element_of(panel, at / WHOLE_UNITS, at % WHOLE_UNITS, REGISTERS * 16 + line);
        }
        kept = (unsigned)__cvta_generic_to_shared(lines) +
               ((lane / 16 * 8 + lane % 8) * TERM + lane / 8 % 2 * WHOLE_UNITS + warp * 8) * 2;
        for (int i = THREAD; i < SLOTS * COLUMNS * COLUMN; i += THREADS)
            operands[i] = 0;
        __syncthreads();
    }

    // Sums of COUNT gates from FIRST on, where these are whole tiles: of element e and gate g at e * GATES + g.
    template <int FIRST, int COUNT> __device__ __forceinline__ void multiply(float *sums, int slot) const {
        constexpr int first = FIRST / 2, end = (FIRST + COUNT + 1) / 2;
        const int lane = threadIdx.x % 32;
        const half *const column = operands + (slot * COLUMNS + lane / 4) * COLUMN + lane % 4 * 2;
        float sum[TILES][GROUPS][NUMBERS * CHAINS][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            unsigned words[GROUPS][NUMBERS][2];
#pragma unroll
            for (int n = 0; n < GROUPS * NUMBERS; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    words[n / NUMBERS][n % NUMBERS][i] = *(const unsigned *)(column + n * 8 * COLUMN + step * 16 + i * 8);
#pragma unroll
            for (int tile = first; tile < end; tile++) {
                unsigned from_shared[4];
                if (step >= REGISTERS)
                    load_transposed(from_shared, kept + ((step - REGISTERS) * 16 * TERM + 2 * tile * WHOLE_UNITS) * 2);
#pragma unroll
                for (int n = 0; n < GROUPS * NUMBERS; n++) {
                    const unsigned(&b)[2] = words[n / NUMBERS][n % NUMBERS];
                    float *const to = sum[tile][n / NUMBERS][n % NUMBERS * CHAINS + step % CHAINS];
                    if (step < REGISTERS) multiply_add(to, own[tile][step < REGISTERS ? step : 0], b[0], b[1]);
                    else multiply_add(to, from_shared, b[0], b[1]);
                }
            }
        }
#pragma unroll
        for (int tile = first; tile < end; tile++)
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                float total[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    total[i] = sum[tile][group][0][i];
#pragma unroll
                    for (int part = 1; part < NUMBERS * CHAINS; part++)
                        total[i] += sum[tile][group][part][i];
                    if constexpr (PAIRED) total[i] += __shfl_xor_sync(0xffffffff, total[i], 2);
                }
#pragma unroll
                for (int gate = 2 * tile; gate < 2 * tile + 2 && gate < GATES; gate++) {
                    const float low = total[gate % 2 * 2], high = total[gate % 2 * 2 + 1];
                    if constexpr (PAIRED) {
                        sums[gate] = lane & 2 ? high : low;
                    } else {
                        sums[2 * group * GATES + gate] = low;
                        sums[(2 * group + 1) * GATES + gate] = high;
                    }
                }
            }
    }

    // Makes the states of all blocks' threads an operand of all blocks, and waits for them.
    __device__ __forceinline__ void share(int slot, const float *states) const {
        const int lane = threadIdx.x % 32, own_unit = threadIdx.x / 32 * 8 + lane / 4, first = own_rank() * UNITS;
        half *const to = operands + slot * COLUMNS * COLUMN;
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) {
            const int row = PAIRED ? lane % 2 * 2 + lane / 2 % 2 : lane % 4 * 2 + e % 2;
            const float x = states[e], rounded = widen(narrow(x)), left = x - rounded;
            half *const at = to + (e / 2 * 16 + row) * COLUMN + first + own_unit;
            if (own_unit >= UNITS || first + own_unit >= HIDDEN) break;
            at[0] = narrow(rounded);
            at[(PAIRED ? 4 : 8) * COLUMN] = narrow(fabsf(left) < __int_as_float(0x7f800000) ? left : 0.0f);
        }
        __syncthreads();
        if constexpr (BLOCKS > 1) {
            enum { QUADS = UNITS / 4 };
            for (int i = THREAD; i < (BLOCKS - 1) * COLUMNS * QUADS; i += THREADS) {
                const int block = (own_rank() + 1 + i / QUADS / COLUMNS) % BLOCKS, unit = first + i % QUADS * 4;
                half *const quad = to + i / QUADS % COLUMNS * COLUMN + unit;
                if (unit >= HIDDEN) continue;
                const uint2 words = *(const uint2 *)quad;
                asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(address_in(block, quad)), "r"(words.x),
                             "r"(words.y) : "memory");
            }
            meet();
        }
    }
};
