// Rows of a product, sent as soon as they are computed to all ranks, also this one, where the kernel behind it waits for them: an
// all-reduce by rows (exchange_row.cu), which sends their headers. What was exchanged before has ended when the product begins
// (exchange.cu), so that this half of the windows is free.

struct push {
    char *to[RANKS]; // where this rank's lines begin in the windows: first the others', in turn, then its own
    unsigned epoch;
    bool sends;

    // Behind the wait for the kernel before: only now may the next one start, which shall find what was exchanged before ended.
    // Without a seat there are no windows, and the product is only stored.
    __device__ __forceinline__ void begin(const void *given) {
        if constexpr (EARLY) asm volatile("griddepcontrol.launch_dependents;");
        const seat *const me = (const seat *)given;
        sends = me != nullptr;
        if (!me) return;
        const int rank = (int)me->rank;
        epoch = peek(&me->epochs[0]);
        sends = peek(&me->given_up) == 0;
#pragma unroll
        for (int n = 0; n < RANKS; n++)
            to[n] = me->windows[(rank + 1 + n) % RANKS] + ((epoch & 1) * RANKS + rank) * (long long)SLOT + HEADERS * 16;
    }
    // Results of BM rows and WIDTH columns at most, which the block's threads have put back where the sums were; their lines are APART
    // floats apart.
    template <int BM, int WIDTH, int APART>
    __device__ __forceinline__ void send(const float *tile, long long first_row, long long all_rows, long long first_column) const {
        constexpr int UNIT = piece<false>::UNIT, LINES = ROW / UNIT, ACROSS = WIDTH / UNIT;
        static_assert(WIDTH % UNIT == 0 && ROW % UNIT == 0, "whole lines");
        if (!sends) return;
        __syncthreads();
        const int rows = all_rows - first_row < BM ? (int)(all_rows - first_row) : (int)BM;
        for (int i = threadIdx.x; i < rows * ACROSS; i += THREADS) {
            const int row = i / ACROSS, at = (int)first_column / UNIT + i % ACROSS;
            if (at >= LINES) continue;
            const float *const from = tile + row * APART + i % ACROSS * UNIT;
            piece<false> p;
#pragma unroll
            for (int e = 0; e < UNIT; e++)
                narrow(from[e], p.e[e]);
            line<false> l;
            l.pack(epoch, p);
#pragma unroll
            for (int n = 0; n < RANKS; n++)
                l.store(to[n] + (((int)first_row + row) * LINES + at) * 16);
        }
    }
};
