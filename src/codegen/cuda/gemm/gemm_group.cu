// What all products by wgmma (sm_90a) share: the descriptors that tell the instruction where operands lie in shared
// memory, and the wait for its results. `multiply_add` is the instruction, printed for the tile's width.

// The descriptor of the lines from `line` on of an operand of LINES lines, at element `depth` of the step: address, distance
// between panels (across), and distance between groups of eight lines. Lines are 128 bytes long (across the depth: in panels),
// or 64 or 32 if there are only so many. The address is in the low half, so that all descriptors of an operand are sums of one number and
// constants.
template <bool ACROSS, int LINES>
__device__ __forceinline__ static unsigned long long part(unsigned from, int line, int depth) {
    constexpr int width = !ACROSS ? DEPTH * ELEMENT : LINES * ELEMENT < 128 ? LINES * ELEMENT : 128;
    constexpr unsigned panels = ACROSS ? DEPTH * width : 16, high = 8 * width / 16 | (width == 128 ? 1u : width == 64 ? 2u : 3u) << 30;
    const int offset = ACROSS ? line * ELEMENT / width * (DEPTH * width) + depth * width : line * width + depth * ELEMENT;
    const unsigned low = (from & 0x3ffff) / 16 | panels / 16 << 16;
    return (unsigned long long)high << 32 | (low + offset / 16);
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
