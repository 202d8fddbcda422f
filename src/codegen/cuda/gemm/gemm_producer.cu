// Products on the tensor cores of sm_90a with a specialised producer: one warp has the copy engine (TMA) fetch tiles of
// both operands by their tensor maps, for all tiles of the block in turn, STAGES steps ahead. Warp groups consume them:
// all share the rows of each tile, or TURNS groups take tiles in turns, so that one multiplies while the others run the
// epilogue on their sums.
//
// With PATCH, a stage is the part of an image that a tile's windows need, of a slice of the channels, and a step all taps of it.
//
// If KEPT, all steps of B, so many, stay in shared memory while a block's tiles have the same columns, which they do
// where there are as many blocks; the stages hold A only.
//
// Each stage has two barriers in shared memory: `full` completes when the copies have arrived, `empty` when all warps
// that read the stage are done with it. Barriers are reused: a wait names the parity of its round, which distinguishes
// that round from the previous one only. So groups that take turns also wait for each other: each has a barrier `turn`,
// which completes when the group before it has received all of its tile.
//
// The sums stay in registers; the epilogue runs on those of the thread's own rows.

enum { GROUP = 128, CONSUMERS = ALL_GROUPS * GROUP, GROUPS = TURNS ? 1 : ALL_GROUPS };
enum { FULL_AT = BARRIERS_AT, EMPTY_AT = FULL_AT + 8 * STAGES, TURNS_AT = EMPTY_AT + 8 * STAGES, KEPT_FULL_AT = TURNS_AT + 8 * TURNS, KEPT_AT = STAGES * STAGE_BYTES };

// ---- Roles -----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ bool is_producer() {
    return threadIdx.x >= CONSUMERS;
}

__device__ __forceinline__ int group() {
    return threadIdx.x / GROUP;
}

// The distance between a block's tiles. Where tiles are numbered row by row (KEPT), all have the same columns if that is a
// multiple of COLUMN_BLOCKS; the blocks left over have none.
__device__ __forceinline__ int stride() {
    const int blocks = (int)gridDim.x;
    return KEPT && blocks >= COLUMN_BLOCKS ? blocks - blocks % COLUMN_BLOCKS : blocks;
}

__device__ __forceinline__ int first_of_block() {
    return (int)blockIdx.x < stride() ? (int)blockIdx.x : 0x7fffffff;
}

// The tiles of a consumer: all of the block's, or some if groups take turns.
__device__ __forceinline__ int first_tile() {
    const int first = first_of_block();
    return TURNS && first < stride() ? first + group() * stride() : first;
}

__device__ __forceinline__ int next_tile() {
    return (TURNS ? TURNS : 1) * stride();
}

// The producer, whose group only has one warp with work, gives registers to the consumers, who have sums in most of
// theirs: a multiprocessor has 65536.
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(24));
}

__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)REGISTERS));
}

// Which matrix of an operand: its number among the inner ones, and among the outer ones.
struct matrix {
    int inner, outer;
};

// Locates a tile: its batch, its first row and column. Those of a batch follow each other. Tiles that run concurrently lie in a band of BAND times as many, for reuse
// in L2; if KEPT, in few rows.
struct field {
    int row_blocks, column_blocks, inner;

    __device__ __forceinline__ field(long long rows, long long columns, long long batches) : inner((int)batches) {
        row_blocks = (int)((rows + BM - 1) / BM);
        column_blocks = (int)((columns + BN - 1) / BN);
    }
    __device__ __forceinline__ void locate(int tile, int &row, int &column, matrix &of) const {
        if constexpr (BATCHES) {
            const int batch = tile / (row_blocks * column_blocks);
            tile -= batch * row_blocks * column_blocks;
            of = {batch % inner, batch / inner};
        }
        if constexpr (KEPT) {
            row = tile / COLUMN_BLOCKS * BM;
            column = tile % COLUMN_BLOCKS * BN;
            return;
        }
        const int band = tile / (BAND * column_blocks), first = band * BAND;
        const int height = min((int)BAND, row_blocks - first), within = tile - first * column_blocks;
        row = (first + within % height) * BM;
        column = within / height * BN;
    }
};

// Stages of a tile: steps of the depth, or, with patches, slices of the channels.
__device__ __forceinline__ int steps_of(long long depth) {
    return PATCH ? SLICES : (int)((depth + DEPTH - 1) / DEPTH);
}

// ---- Barriers --------------------------------------------------------------------------------------------------------

// One arrival per warp.
__device__ __forceinline__ void arrive(unsigned barrier) {
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void start_barriers() {
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            start_barrier(FULL_AT + 8 * s, 1);
            start_barrier(EMPTY_AT + 8 * s, 4 * GROUPS);
        }
        for (int g = 0; g < TURNS; g++)
            start_barrier(TURNS_AT + 8 * g, 4);
        if (KEPT) start_barrier(KEPT_FULL_AT, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

// A stage, and the parity of its current round.
struct place {
    unsigned stage, parity;

    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ unsigned memory() const {
        return shared_memory() + stage * STAGE_BYTES;
    }
    __device__ __forceinline__ unsigned full() const {
        return shared_memory() + FULL_AT + stage * 8;
    }
    __device__ __forceinline__ unsigned empty() const {
        return shared_memory() + EMPTY_AT + stage * 8;
    }
};

// ---- The producer ----------------------------------------------------------------------------------------------------

// A box of a matrix whose lines are dealt out in 32s.
__device__ __forceinline__ void bring_dealt(unsigned to, const tensor_map &map, int x, int y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
                 "[%7];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(0), "r"(0), "r"(0), "r"(y / 32), "r"(barrier)
                 : "memory");
}

// A box of the matrix that a batch has; MATRICES tells how its number follows from that of the batch.
template <int MATRICES>
__device__ __forceinline__ void bring_of(unsigned to, const tensor_map &map, int x, int y, matrix of, unsigned barrier) {
    if constexpr (MATRICES) bring(to, map, x, y, MATRICES & INNER ? of.inner : 0, MATRICES & OUTER ? of.outer : 0, barrier);
    else bring(to, map, x, y, barrier);
}

// Fetches LINES lines of an operand from `line` on, at `depth`; elements beyond the operand are zero. Lines across the
// depth come in panels.
template <bool ACROSS, int LINES, int MATRICES>
__device__ __forceinline__ void bring_lines(unsigned to, const tensor_map &map, int line, int depth, matrix of, unsigned barrier) {
    if constexpr (ACROSS) {
        constexpr int width = LINES * ELEMENT < 128 ? LINES : 128 / ELEMENT;
#pragma unroll
        for (int panel = 0; panel < LINES / width; panel++)
            bring_of<MATRICES>(to + panel * DEPTH * width * ELEMENT, map, line + panel * width, depth, of, barrier);
    } else {
        bring_of<MATRICES>(to, map, depth, line, of, barrier);
    }
}

// `column` counts those of whole tiles; each group of channels has columns of its own, whose lines follow those of the one before.
__device__ __forceinline__ void bring_columns(unsigned to, const tensor_map &map, int column, int depth, matrix of, unsigned barrier) {
    if constexpr (CHANNEL_GROUPS > 1) {
        const int first = column / GROUP_COLUMNS * GROUP_LINES, own = column % GROUP_COLUMNS;
        column = B_ACROSS ? own : first + own;
        depth += B_ACROSS ? first : 0;
    }
    if constexpr (DEALT) bring_dealt(to, map, depth, column, barrier);
    else bring_lines<B_ACROSS, BN, B_MATRICES>(to, map, column, depth, of, barrier);
}

// The part of B of a stage, which is announced with that of A.
__device__ __forceinline__ void bring_b(const place &p, const tensor_map &map, int column, int step, matrix of) {
    expect(p.full(), ARRIVING);
    if constexpr (!KEPT) bring_columns(p.memory() + A_BYTES, map, column, step * DEPTH, of, p.full());
}

// Where a step of B begins. A patch's steps are slices of a tap's channels, of which the last may have fewer: its patch has zeros beyond
// them, for what B has of the next tap.
__device__ __forceinline__ int depth_of(int step) {
    return PATCH && PIXEL > 16 ? step / SLICES * CHANNELS + step % SLICES * DEPTH : step * DEPTH;
}

// All of B that a tile needs. The stages up to `next` have been filled.
__device__ __forceinline__ void bring_kept(place next, const tensor_map &map, int column) {
    for (int s = 0; s < STAGES; s++, next.advance())
        wait(next.empty(), next.parity ^ 1); // then no products read the old one
    expect(shared_memory() + KEPT_FULL_AT, KEPT * B_BYTES);
#pragma unroll 1
    for (int s = 0; s < KEPT; s++)
        bring_columns(shared_memory() + KEPT_AT + s * B_BYTES, map, column, depth_of(s), {0, 0}, shared_memory() + KEPT_FULL_AT);
}

// The tiles of A that is a matrix.
struct matrix_tiles {
    const tensor_map &map;
    int row;
    matrix of;

    __device__ __forceinline__ matrix_tiles(const tensor_map &a) : map(a), row(0), of{0, 0} {
    }
    __device__ __forceinline__ void start(int first, int column, matrix batch) {
        row = first;
        of = batch;
    }
    __device__ __forceinline__ void bring(unsigned to, int step, unsigned barrier) const {
        bring_lines<A_ACROSS, BM, A_MATRICES>(to, map, row, step * DEPTH, of, barrier);
    }
};

// If B is constant, its parts of the first steps are fetched before the wait for the preceding kernels. Batches are those of `inner`.
template <class A>
__device__ __forceinline__ void produce(A a, const tensor_map &b, int tiles, long long rows, long long columns,
                                        long long depth, long long inner) {
    const int steps = steps_of(depth);
    const field all(rows, columns, inner);
    matrix of = {0, 0};
    const bool leads = threadIdx.x == CONSUMERS;
    const int first = first_of_block(), early = EARLY && first < tiles ? min(steps, (int)STAGES) : 0;
    int row, column, kept = -1;
    if (leads && early > 0) {
        all.locate(first, row, column, of);
        place p = {0, 0};
        if constexpr (KEPT) bring_kept(p, b, kept = column);
        for (int s = 0; s < early; s++, p.advance())
            bring_b(p, b, column, s, of);
    }
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (!leads) return;
    place p = {0, 0};
    for (int tile = first; tile < tiles; tile += stride()) {
        all.locate(tile, row, column, of);
        a.start(row, column, of);
        if (KEPT && column != kept) bring_kept(p, b, kept = column);
        for (int s = 0; s < steps; s++, p.advance()) {
            if (tile != first || s >= early) {
                wait(p.empty(), p.parity ^ 1); // returns at once for a stage that was never filled
                bring_b(p, b, column, s, of);
            }
            a.bring(p.memory(), s, p.full());
        }
    }
}

// ---- The consumers ---------------------------------------------------------------------------------------------------

struct sums {
    static constexpr int blocks = BM / 64 / GROUPS;
    total c[blocks][BN / 8][4];
    scales by;

    // Groups that share a tile have every second, or third, 64 of its rows.
    __device__ __forceinline__ static int row(int block) {
        return block * 64 * GROUPS + (TURNS ? 0 : group() * 64);
    }

    // Hides that the sums are zeros: otherwise, for a single step, NVIDIA's compiler may set them behind the wait for the
    // operands, and then lets all products of the kernel follow each other.
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < blocks; i++)
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    c[i][j][e] = 0;
                    hold(c[i][j][e]);
                }
    }

    // The same with a number for each column: the tile's begin at `from`, where there are `left`, an even number. Of 32 columns that
    // are dealt out a thread has eight neighbours, of others two of each eight.
    __device__ __forceinline__ void begin_with(const total *from, int left) {
        constexpr int near = DEALT ? 8 : 2, groups = DEALT ? BN / 32 : BN / 8, apart = DEALT ? 32 : 8;
#pragma unroll
        for (int g = 0; g < groups; g++) {
            __align__(16) total own[near];
            const total *const at = from + min(g * apart + (int)threadIdx.x % 4 * near, left - near);
#pragma unroll
            for (int k = 0; k < near; k += DEALT ? 4 : 2) {
                if constexpr (DEALT) *(totals *)(own + k) = *(const totals *)(at + k);
                else *(two_totals *)(own + k) = *(const two_totals *)(at + k);
            }
#pragma unroll
            for (int i = 0; i < blocks; i++)
#pragma unroll
                for (int k = 0; k < 2 * near; k++) {
                    total &to = c[i][g * near / 2 + k / 4][k % 4];
                    to = own[k / 4 * 2 + k % 2];
                    hold(to);
                }
        }
    }

    // Issues new products of 64 rows.
    __device__ __forceinline__ static void begin(step_total (&some)[BN / 8][4], int block, unsigned a_from, unsigned b_from) {
        begin_products();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 32 / ELEMENT)
            multiply_add(some, part<A_ACROSS, BM>(a_from, row(block), depth), part<B_ACROSS, BN>(b_from, 0, depth),
                         depth > 0);
        close_products();
    }

    // Of the step that was issued last, and of its 64 rows.
    __device__ __forceinline__ void take_scales(step_scales<BN> &to, int block) {
        by.of_rows(to, 0, row(block) + (int)threadIdx.x % GROUP / 32 * 16);
        if (block == 0) by.of_columns(to, 0);
        if (block == blocks - 1) by.advance(1);
    }

    // Issues the products of a step. If they are PROMOTED, waits for those of each 64 rows and adds them up.
    __device__ __forceinline__ void step(unsigned a_from, unsigned b_from) {
        if constexpr (PROMOTED) {
            step_scales<BN> now;
#pragma unroll
            for (int i = 0; i < blocks; i++) {
                step_total some[BN / 8][4];
                begin(some, i, a_from, b_from);
                take_scales(now, i);
                promote<0>(c[i], some, now);
            }
        } else {
            begin_products();
#pragma unroll
            for (int depth = 0; depth < DEPTH; depth += 32 / ELEMENT)
#pragma unroll
                for (int i = 0; i < blocks; i++)
                    multiply_add((step_total(&)[BN / 8][4])c[i], part<A_ACROSS, BM>(a_from, row(i), depth),
                                 part<B_ACROSS, BN>(b_from, 0, depth), 1);
            close_products();
        }
    }

    // The descriptor of 64 windows, from `line` of the tile on, under a tap of the patch. Their first eight lie side by side, the
    // next eight in the next row, or beside them where a tile is one row. The pattern is that of addresses, so that a patch may be
    // read from any pixel on. Pixels of 16 bytes are halves of a step; the other halves are their neighbours, 16 bytes further.
    __device__ __forceinline__ static unsigned long long windows(unsigned from, int line, int tap_y, int tap_x, int depth) {
        constexpr int next = PATCH_COLUMNS == 8 ? PATCH_LINE : 8;
        constexpr unsigned pattern = PIXEL == 128 ? 1 : PIXEL == 64 ? 2 : PIXEL == 32 ? 3 : 0;
        constexpr unsigned high = next * PIXEL / 16 | pattern << 30;
        const int phase = tap_y % STRIDE_Y * PHASES_X + tap_x % STRIDE_X;
        const int y = line / PATCH_COLUMNS + tap_y / STRIDE_Y, x = line % PATCH_COLUMNS + tap_x / STRIDE_X;
        const int offset = phase * PATCH_BYTES + (y * PATCH_LINE + x) * PIXEL + depth * ELEMENT;
        return (unsigned long long)high << 32 | (from / 16 | 1u << 16) + offset / 16;
    }

    // Issues the products of all taps of a slice of the channels. That all threads have the same address lets the compiler add to it
    // in the registers that the instructions read. In a loop NVIDIA's compiler may let these products follow each other.
    __device__ __forceinline__ void step_of_patch(unsigned from, int slice) {
        const unsigned a_from = __shfl_sync(0xffffffffu, from, 0);
        const unsigned b_from = __shfl_sync(0xffffffffu, shared_memory() + KEPT_AT + slice * B_BYTES, 0);
        constexpr int together = PIXEL == 16 ? 2 : 1; // taps of a step
        begin_products();
#pragma unroll
        for (int y = 0; y < TAPS_Y; y++)
#pragma unroll
            for (int x = 0; x < TAPS_X; x += together)
#pragma unroll
                for (int depth = 0; depth < DEPTH; depth += 32 / ELEMENT)
#pragma unroll
                    for (int i = 0; i < blocks; i++)
                        multiply_add((step_total(&)[BN / 8][4])c[i],
                                     windows(a_from, row(i), y * DILATION_Y, x * DILATION_X, depth),
                                     part<B_ACROSS, BN>(b_from + (y * TAPS_X + x) / together * SLICES * B_BYTES, 0, depth), 1);
        close_products();
    }

    __device__ __forceinline__ static unsigned columns_of(place p, int s) {
        return KEPT ? shared_memory() + KEPT_AT + s * B_BYTES : p.memory() + A_BYTES;
    }

    // Step number s, once it has arrived.
    __device__ __forceinline__ void take_step(place p, int s) {
        wait(p.full(), p.parity);
        if constexpr (PATCH) step_of_patch(p.memory(), s);
        else step(p.memory(), columns_of(p, s));
    }
    __device__ __forceinline__ static void begin_step(step_total (&some)[BN / 8][4], place p, int s) {
        wait(p.full(), p.parity);
        begin(some, 0, p.memory(), columns_of(p, s));
    }
};

// Lets the next group have what comes behind a tile.
__device__ __forceinline__ void pass_turn() {
    if constexpr (TURNS > 0) arrive(shared_memory() + TURNS_AT + 8 * (group() + 1 < TURNS ? group() + 1 : 0));
}

// The sums of a tile, where those of a step are added up while the next one's products are in flight.
__device__ __forceinline__ void multiply_in_pairs(sums &c, place p, int steps) {
    step_total even[BN / 8][4], odd[BN / 8][4];
    step_scales<BN> even_scales, odd_scales;
    place before = p;
    sums::begin_step(even, p, 0);
    c.take_scales(even_scales, 0);
    p.advance();
    int s = 1;
#pragma unroll 1
    for (; s + 1 < steps; s += 2) {
        sums::begin_step(odd, p, s);
        c.take_scales(odd_scales, 0);
        promote<1>(c.c[0], even, even_scales);
        arrive(before.empty());
        before = p;
        p.advance();
        sums::begin_step(even, p, s + 1);
        c.take_scales(even_scales, 0);
        promote<1>(c.c[0], odd, odd_scales);
        arrive(before.empty());
        before = p;
        p.advance();
    }
    if (s < steps) {
        sums::begin_step(odd, p, s);
        c.take_scales(odd_scales, 0);
        pass_turn();
        promote<1>(c.c[0], even, even_scales);
        arrive(before.empty());
        promote<0>(c.c[0], odd, odd_scales);
        arrive(p.empty());
    } else {
        pass_turn();
        promote<0>(c.c[0], even, even_scales);
        arrive(before.empty());
    }
}

// Computes the sums of a tile. A stage is released once the products of the next one are in flight, or its own are added
// up. The last step stands
// behind the loop, which is not unrolled: otherwise NVIDIA's compiler (13.0 to 13.5) may move arithmetic on sums ahead of
// the wait for them, and then lets all products of the kernel follow each other, which takes 1.5 times as long.
__device__ __forceinline__ void multiply(sums &c, int tile, long long depth, const total *start = nullptr, int left = 0) {
    const int steps = steps_of(depth);
    const unsigned tiles = (unsigned)(tile - (int)blockIdx.x) / (unsigned)stride(), before = tiles * (unsigned)steps;
    place p = {before % STAGES, before / STAGES & 1};
    unsigned last = 0;
    if constexpr (BEGUN) c.begin_with(start, left);
    else c.clear();
    if constexpr (TURNS > 0) {
        constexpr unsigned groups = TURNS;
        wait(shared_memory() + TURNS_AT + 8 * group(), tiles / groups + (tiles % groups == 0) & 1);
    }
    if constexpr (KEPT) wait(shared_memory() + KEPT_FULL_AT, stride() % COLUMN_BLOCKS ? tiles & 1 : 0);
    if constexpr (ADDS_IN_PAIRS) {
        multiply_in_pairs(c, p, steps);
        return;
    }
#pragma unroll 1
    for (int s = 0; s + 1 < steps; s++, p.advance()) {
        c.take_step(p, s);
        if constexpr (PROMOTED) {
            arrive(p.empty());
        } else {
            wait_for_products<1>();
            if (s > 0) arrive(last);
            last = p.empty();
        }
    }
    c.take_step(p, steps - 1);
    pass_turn();
    wait_for_products<0>();
    if (!PROMOTED && steps > 1) arrive(last);
    arrive(p.empty());
}

// Exchanges registers with the thread AWAY lanes away: the one whose bit AWAY is not set gives its `high` for the
// other's `low`.
template <int AWAY> __device__ __forceinline__ void exchange(total &low, total &high) {
    const bool upper = threadIdx.x & AWAY;
    const total got = __shfl_xor_sync(0xffffffffu, upper ? low : high, AWAY);
    if (upper) low = got;
    else high = got;
}

// As exchange, of the two halves of sums whose indices differ in bit BIT.
template <int AWAY, int BIT> __device__ __forceinline__ void exchange_halves(total *to) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (!(i & BIT)) exchange<AWAY>(to[i], to[i | BIT]);
}

// A thread's eight sums of 32 columns, number `columns`, in eight rows: wgmma leaves it two columns of eight, number
// threadIdx.x % 4, in one of the rows. The rows are one of two eighths, `half`, in number `rows` of the group's 64. Threads
// exchange sums so that each has VECTOR neighbouring columns, and the warp's accesses fill whole sectors.
template <int VECTOR>
__device__ __forceinline__ void own_sums(const sums &c, total *to, int rows, int columns, int half) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = c.c[rows][4 * columns + i][2 * half];
        to[2 * i + 1] = c.c[rows][4 * columns + i][2 * half + 1];
    }
    if constexpr (DEALT) return;
    if constexpr (VECTOR == 1) exchange_halves<4, 1>(to);
    if constexpr (VECTOR <= 2) {
        exchange_halves<8, 2>(to);
        exchange_halves<16, 4>(to);
    }
    if constexpr (VECTOR >= 4) exchange_halves<1, 2>(to);
    if constexpr (VECTOR == 8) exchange_halves<2, 4>(to);
}
