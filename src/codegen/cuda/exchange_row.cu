// All-reduces by rows: block b reduces row b of ROW elements for what follows in the kernel, which finds it in shared memory.
// The row's lines are number b * LINES to (b + 1) * LINES - 1 of the short ones, of whichever kernel: between two kernels
// nothing is in use (exchange.cu).

struct rows : exchange<false> {
    static constexpr int LINES = (ROW + UNIT - 1) / UNIT, TURNS = (LINES + THREADS - 1) / THREADS;
    piece<false> mine[TURNS]; // of this rank's row

    // Waits for the kernel before, behind the loads of what never changes. Not for a product that sends the rows: all of its blocks have
    // waited for what was before it, so that this may be read; and what it reads is not written here (compile/plan_build.c).
    __device__ __forceinline__ rows(void *given) {
        begin((seat *)given);
        if constexpr (EARLY && !PUSHED) asm volatile("griddepcontrol.wait;" ::: "memory");
        go_on();
        if constexpr (EARLY && PUSHED) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }

    __device__ __forceinline__ char *line_of_row(char *window, int sender, int i) const {
        return slot(window, sender) + (HEADERS + blockIdx.x * LINES + i) * 16;
    }
    __device__ __forceinline__ const element *own_row(const void *matrix) const {
        return (const element *)matrix + (long long)blockIdx.x * ROW;
    }
    __device__ __forceinline__ piece<false> load(const element *row, int i) const {
        piece<false> p = {{0, 0}};
        if (EVEN >= (int)sizeof p) return *(const piece<false> *)(row + i * UNIT);
#pragma unroll
        for (int e = 0; e < UNIT; e++)
            if (i * UNIT + e < ROW) p.e[e] = row[i * UNIT + e];
        return p;
    }
    __device__ __forceinline__ void store(element *row, int i, const piece<false> &p) const {
        if (EVEN >= (int)sizeof p) {
            *(piece<false> *)(row + i * UNIT) = p;
            return;
        }
#pragma unroll
        for (int e = 0; e < UNIT; e++)
            if (i * UNIT + e < ROW) row[i * UNIT + e] = p.e[e];
    }

    // This rank's row to all others, if it is not there yet. True: that is all that this launch does.
    __device__ __forceinline__ bool send(const void *from, long long collective, long long lines_of_all) {
        number = (unsigned)collective;
        size = ~((unsigned)lines_of_all * 31 + (unsigned)ROW); // no other kernel's
#pragma unroll
        for (int t = 0; t < TURNS && !PUSHED; t++) // before anything leaves, see exchange::load
            if (const int i = t * THREADS + threadIdx.x; i < LINES) mine[t] = load(own_row(from), i);
        if (launch > 0) return false;
        clear_next();
        send_header();
        if (!PUSHED && !lost) send_lines();
        if (!is_split) return false;
        launch = 1;
        leave();
        return true;
    }
    __device__ __forceinline__ void send_lines() const {
        line<false> lines[TURNS];
#pragma unroll
        for (int t = 0; t < TURNS; t++)
            if (const int i = t * THREADS + threadIdx.x; i < LINES) lines[t].pack(epoch, mine[t]);
#pragma unroll
        for (int n = 1; n < RANKS; n++)
#pragma unroll
            for (int t = 0; t < TURNS; t++)
                if (const int i = t * THREADS + threadIdx.x; i < LINES) lines[t].store(line_of_row(others[n], rank, i));
    }

    // This thread's lines of all ranks. Those that have not come are loaded again, all together: who is the last is not known.
    __device__ __forceinline__ void receive(line<false> (&lines)[RANKS][TURNS]) {
        bool comes = true;
        int missing = 0;
#pragma unroll
        for (int sender = 0; sender < RANKS; sender++)
#pragma unroll
            for (int t = 0; t < TURNS; t++)
                if (!PUSHED && sender == rank) lines[sender][t].pack(epoch, mine[t]);
                else lines[sender][t].fill(epoch - 1, 0, 0);
        while (comes && !lost) {
            comes = false;
#pragma unroll
            for (int sender = 0; sender < RANKS; sender++)
#pragma unroll
                for (int t = 0; t < TURNS; t++)
                    if (const int i = t * THREADS + threadIdx.x; i < LINES && !lines[sender][t].is_of(epoch))
                        lines[sender][t].load(line_of_row(own, sender, i));
#pragma unroll
            for (int sender = 0; sender < RANKS; sender++)
#pragma unroll
                for (int t = 0; t < TURNS; t++)
                    if (t * THREADS + threadIdx.x < LINES && !lines[sender][t].is_of(epoch)) comes = true, missing = sender;
            if (comes) keep_waiting(missing);
        }
    }

    // The sum of the ranks' rows, in their order: to shared memory, in whole pieces, and to the matrix of results if there is one.
    // The block meets before it reads that.
    __device__ __forceinline__ void take(void *to, void *results = nullptr) {
        line<false> lines[RANKS][TURNS];
        total sums[TURNS][UNIT];
        check_header();
        receive(lines);
#pragma unroll
        for (int sender = 0; sender < RANKS; sender++)
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                if (t * THREADS + threadIdx.x >= LINES) continue;
                const piece<false> p = lines[sender][t].unpack();
#pragma unroll
                for (int e = 0; e < UNIT; e++) {
                    const total x = (total)widen(p.e[e]);
                    sums[t][e] = sender == 0 ? x : combine(sums[t][e], x);
                }
            }
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const int i = t * THREADS + threadIdx.x;
            if (i >= LINES) continue;
            piece<false> p;
#pragma unroll
            for (int e = 0; e < UNIT; e++)
                narrow(sums[t][e], p.e[e]);
            ((piece<false> *)to)[i] = p;
            if (results) store((element *)results + (long long)blockIdx.x * ROW, i, p);
        }
        epoch = epoch == 0xffffffff ? FIRST_EPOCH : epoch + 1;
        launch = 0;
    }
    // The product has ended then, which has read the epochs too.
    __device__ __forceinline__ void leave() const {
        if constexpr (EARLY && PUSHED) asm volatile("griddepcontrol.wait;" ::: "memory");
        exchange<false>::leave();
    }
};
#define SEND_ROWS(...) \
    if (all.send(__VA_ARGS__)) return
