// The walk along the depth: copies run STAGES - 1 steps ahead of the products.

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
    for (int s = first; s < end; s++) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        copy_step(memory + next * STAGE_BYTES, load_a, load_b, s + STAGES - 1, end, depth);
        c.step(memory + now * STAGE_BYTES, memory + now * STAGE_BYTES + A_BYTES);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    wait_for_copies<0>();
    finish(c, tile);
}
