// The walk along the depth: copies run STAGES - 1 steps ahead of the products. Products by warp groups (wgmma) are
// asynchronous to the threads: while those of a step are in flight, the threads wait for the copies of later steps and
// issue more.

// Makes copies visible to all threads, and to the instructions that multiply.
template <int LEFT> __device__ __forceinline__ void receive() {
    wait_for_copies<LEFT>();
    if constexpr (WARPGROUPS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

// Multiplies step s, whose copies arrive in stage `now`, and issues those of the step that is STAGES - 1 further, into
// stage `next`.
template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void take_step(sums &c, unsigned memory, const LOAD_A &load_a, const LOAD_B &load_b, int s,
                                          int end, long long depth, int &now, int &next) {
    const unsigned from = memory + now * STAGE_BYTES;
    if constexpr (WARPGROUPS) {
        c.step(from, from + A_BYTES);
        c.wait<1>(); // the previous step's, whose stage is filled next
        receive<STAGES - 3>();
    } else {
        receive<STAGES - 2>();
    }
    copy_step(memory + next * STAGE_BYTES, load_a, load_b, s + STAGES - 1, end, depth);
    if constexpr (!WARPGROUPS) c.step(from, from + A_BYTES);
    now = now + 1 == STAGES ? 0 : now + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
}

template <class LOAD_A, class LOAD_B>
__device__ __forceinline__ void walk(total *tile, const LOAD_A &load_a, const LOAD_B &load_b, long long depth,
                                     const scales &by) {
    const unsigned memory = (unsigned)__cvta_generic_to_shared(tile);
    int first, end;
    share_out(depth, first, end);
    __syncthreads();
    copy_first(memory, load_a, load_b, first, end, depth);
    sums c;
    c.clear();
    c.by = by;
    c.by.advance(first);
    int now = 0, next = STAGES - 1;
    if constexpr (WARPGROUPS) receive<STAGES - 2>();
    if constexpr (UNROLLED_STEPS > 0) { // stages, and which copies are left to issue, are constants then
#pragma unroll
        for (int i = 0; i < UNROLLED_STEPS; i++)
            take_step(c, memory, load_a, load_b, first + i, end, depth, now, next);
    } else {
        for (int s = first; s < end; s++)
            take_step(c, memory, load_a, load_b, s, end, depth, now, next);
    }
    c.wait<0>();
    wait_for_copies<0>();
    finish(c, tile);
}
