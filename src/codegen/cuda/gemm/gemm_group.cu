// What all products by wgmma (sm_90a) share: the descriptors that tell the instruction where operands lie in shared
// memory, and the wait for its results. `multiply_add` is the instruction, printed for the tile's width.

// The descriptor of an operand: address, distance between panels (across), and distance between groups of eight lines.
__device__ __forceinline__ static unsigned long long describe(unsigned from, int panels, int eight, int layout) {
    return (unsigned long long)((from & 0x3ffff) >> 4) | (unsigned long long)(panels >> 4) << 16 |
           (unsigned long long)(eight >> 4) << 32 | (unsigned long long)layout << 62;
}
// The descriptor of the lines from `line` on of an operand of LINES lines, at element `depth` of the step. Lines are
// 128 bytes long (across the depth: in panels), or 64 if there are only so many.
template <bool ACROSS, int LINES>
__device__ __forceinline__ static unsigned long long part(unsigned from, int line, int depth) {
    constexpr int width = !ACROSS ? DEPTH * ELEMENT : LINES * ELEMENT < 128 ? LINES * ELEMENT : 128;
    if (ACROSS) from += line * ELEMENT / width * (DEPTH * width) + depth * width;
    else from += line * width + depth * ELEMENT;
    return describe(from, ACROSS ? DEPTH * width : 16, 8 * width, width == 128 ? 1 : 2);
}

__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void close_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for the products of all but the LEFT newest steps.
template <int LEFT> __device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Keeps the compiler from moving what is computed with a sum to before this.
__device__ __forceinline__ void hold(float &sum) {
    asm volatile("" : "+f"(sum));
}
__device__ __forceinline__ void hold(int &sum) {
    asm volatile("" : "+r"(sum));
}

// Adds sums, which have only some of the bits of f32, to those of more of the depth, once they are computed; all but the LEFT
// newest steps are then.
template <int LEFT, int EIGHTS>
__device__ __forceinline__ void promote(total (&to)[EIGHTS][4], step_total (&some)[EIGHTS][4], const step_scales<EIGHTS * 8> &by) {
    wait_for_products<LEFT>();
#pragma unroll
    for (int j = 0; j < EIGHTS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            hold(some[j][e]);
            by.add(to[j][e], some[j][e], 0, j, e);
        }
}
