// Collectives through windows (base/window.h). A rank writes what it has for another into the other's window, as lines of two
// words that each have the epoch beside their data, and waits until the lines for itself have come into its own. So what
// travels needs neither an answer nor a fence: one way over the link. A half of a window is written again two epochs later,
// when its reader is done: who has come to epoch e + 1 got all headers of epoch e, which their senders wrote after they had
// read what was sent in epoch e - 1; and between two kernels, after the whole of the first.

constexpr int UNIT = 8 / (int)sizeof(element); // elements of a line

struct seat {
    unsigned long long windows[MOST_RANKS], report, patience;
    unsigned rank, epoch, arrivals, given_up;
};
struct report {
    unsigned state, peer, number, size, other_number, other_size, stop;
};
enum { WELL, LATE, DIFFERENT };

union piece {
    unsigned words[2];
    element e[UNIT];
};

// ---- Elements

__device__ __forceinline__ float widen(f16 x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
__device__ __forceinline__ float widen(bf16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}
template <typename T> __device__ __forceinline__ T widen(T x) {
    return x;
}
__device__ __forceinline__ void narrow(float x, f16 &to) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(0.0f), "f"(x));
    to.bits = (unsigned short)word;
}
__device__ __forceinline__ void narrow(float x, bf16 &to) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(0.0f), "f"(x));
    to.bits = (unsigned short)word;
}
template <typename T> __device__ __forceinline__ void narrow(total x, T &to) {
    to = (T)x;
}

// Of the maximum and the minimum, NaN with anything is NaN.
__device__ __forceinline__ total combine(total a, total b) {
    if constexpr (REDUCTION == SUM) return a + b;
    if (a != a || b != b) return a != a ? a : b;
    return (REDUCTION == MAX) == (a > b) ? a : b;
}

// ---- Words

__device__ __forceinline__ unsigned peek(const unsigned *at) {
    unsigned word;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
    return word;
}
__device__ __forceinline__ void poke(unsigned *at, unsigned word) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(word) : "memory");
}

struct line {
    unsigned long long a, b;
};
__device__ __forceinline__ line load_line(const char *at) {
    line l;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(l.a), "=l"(l.b) : "l"(at) : "memory");
    return l;
}
__device__ __forceinline__ void store_line(char *at, unsigned epoch, unsigned a, unsigned b) {
    const unsigned long long high = (unsigned long long)epoch << 32;
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(high | a), "l"(high | b) : "memory");
}

// ---- The sizes: what lies where

struct sizes {
    long long outer, inner, whole, parts[RANKS];

    __device__ __forceinline__ long long length(int part) const {
        if constexpr (KIND == ALL_GATHER || KIND == REDUCE_SCATTER) return outer * parts[part] * inner;
        return outer * inner;
    }
    // Elements of the messages to and from a rank.
    __device__ __forceinline__ long long sent(int rank, int to) const {
        if (KIND == BROADCAST && rank != ROOT) return 0;
        return length(KIND == REDUCE_SCATTER ? to : rank);
    }
    __device__ __forceinline__ long long received(int rank, int from) const {
        if (KIND == BROADCAST && from != ROOT) return 0;
        return length(KIND == REDUCE_SCATTER ? rank : from);
    }
    // Where element i of a part lies in [outer, whole, inner].
    __device__ __forceinline__ long long in_whole(int part, long long i) const {
        long long before = 0;
        for (int r = 0; r < part; r++)
            before += parts[r];
        const long long size = parts[part] * inner, o = outer == 1 ? 0 : i / size;
        return o * whole * inner + before * inner + i - o * size;
    }
    __device__ __forceinline__ long long source_at(int to, long long i) const {
        if constexpr (KIND == REDUCE_SCATTER) return in_whole(to, i);
        return KIND == ALL_TO_ALL ? to * outer * inner + i : i;
    }
    __device__ __forceinline__ long long destination_at(int from, long long i) const {
        if constexpr (KIND == ALL_GATHER) return in_whole(from, i);
        return KIND == ALL_TO_ALL ? from * outer * inner + i : i;
    }
    __device__ __forceinline__ piece load(const element *source, int rank, int to, long long unit) const {
        const long long i = unit * UNIT, end = sent(rank, to);
        piece p = {{0, 0}};
        if (EVEN && i + UNIT <= end) return *(const piece *)(source + source_at(to, i));
        for (int e = 0; e < UNIT && i + e < end; e++)
            p.e[e] = source[source_at(to, i + e)];
        return p;
    }
    __device__ __forceinline__ void store(element *destination, int rank, int from, long long unit, piece p) const {
        const long long i = unit * UNIT, end = received(rank, from);
        if (EVEN && i + UNIT <= end) {
            *(piece *)(destination + destination_at(from, i)) = p;
            return;
        }
        for (int e = 0; e < UNIT && i + e < end; e++)
            destination[destination_at(from, i + e)] = p.e[e];
    }
};

// ---- Waiting

struct exchange {
    seat *me;
    int rank;
    unsigned epoch, number, size, tries;
    unsigned long long began; // to wait, by the GPU's clock; 0: it did not have to so far
    bool lost;                // it waits for nobody any more

    // This rank's slot in the window of `owner`, or what `sender` wrote into a slot of its own.
    __device__ __forceinline__ char *slot(int owner, int sender) const {
        return (char *)me->windows[owner] + ((long long)(epoch & 1) * RANKS + sender) * SLOT;
    }
    __device__ __forceinline__ char *line_at(int owner, int sender, int i) const {
        const long long at = ((long long)i * gridDim.x + blockIdx.x) * THREADS + threadIdx.x;
        return slot(owner, sender) + (HEADERS + at) * 16;
    }

    // The first thread that gives up says why.
    __device__ void give_up(unsigned state, int peer, unsigned other_number, unsigned other_size) {
        lost = true;
        if (atomicAdd(&me->given_up, 1u) != 0 || state == WELL) return;
        report *to = (report *)me->report;
        poke(&to->peer, peer);
        poke(&to->number, number);
        poke(&to->size, size);
        poke(&to->other_number, other_number);
        poke(&to->other_size, other_size);
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        poke(&to->state, state);
    }

    __device__ bool is_hopeless(int peer) {
        if (lost || ++tries % 1024 != 0) return lost;
        unsigned long long now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (began == 0) began = now;
        if (peek(&me->given_up))
            lost = true;
        else if (threadIdx.x == 0 && peek(&((const report *)me->report)->stop))
            give_up(WELL, peer, 0, 0);
        else if (now - began > me->patience)
            give_up(LATE, peer, 0, 0);
        return lost;
    }

    __device__ __forceinline__ bool has_come(const line &l) const {
        return (unsigned)(l.a >> 32) == epoch && (unsigned)(l.b >> 32) == epoch;
    }
    __device__ __forceinline__ line wait(const char *at, line l, int peer) {
        while (!has_come(l) && !is_hopeless(peer))
            l = load_line(at);
        return l;
    }

    // ---- An epoch

    __device__ __forceinline__ void send_header() const {
        if (threadIdx.x < RANKS && threadIdx.x != rank)
            store_line(slot(threadIdx.x, rank) + blockIdx.x * 16, epoch, number, size);
    }
    __device__ __forceinline__ void check_header() {
        const int peer = threadIdx.x;
        if (peer >= RANKS || peer == rank) return;
        const char *const at = slot(rank, peer) + blockIdx.x * 16;
        const line l = wait(at, load_line(at), peer);
        if (!lost && ((unsigned)l.a != number || (unsigned)l.b != size))
            give_up(DIFFERENT, peer, (unsigned)l.a, (unsigned)l.b);
    }

    // Clears this block's lines, and its header, of the half of the next epoch.
    __device__ __forceinline__ void clear_next() {
        epoch++;
        for (int sender = 0; sender < RANKS; sender++) {
            if (threadIdx.x == 0) store_line(slot(rank, sender) + blockIdx.x * 16, 0, 0, 0);
            for (long long i = blockIdx.x * THREADS + threadIdx.x; i < LINES; i += (long long)gridDim.x * THREADS)
                store_line(slot(rank, sender) + (HEADERS + i) * 16, 0, 0, 0);
        }
        epoch--;
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        __syncthreads();
    }

    __device__ __forceinline__ void send(const sizes &s, const element *source, long long first, long long step) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const long long unit = first + i * step;
#pragma unroll
            for (int n = 1; n < RANKS; n++) {
                const int to = (rank + n) % RANKS;
                if (unit * UNIT >= s.sent(rank, to)) continue;
                const piece p = s.load(source, rank, to, unit);
                store_line(line_at(to, rank, i), epoch, p.words[0], p.words[1]);
            }
        }
    }

    // The ranks' messages in their order, so that all ranks get the same bits.
    __device__ __forceinline__ void reduce(const sizes &s, const element *source, element *destination, long long first,
                                           long long step) {
        constexpr int TOGETHER = 4;
        for (int i = 0; i < EACH; i += TOGETHER) {
            total sums[TOGETHER][UNIT];
#pragma unroll
            for (int from = 0; from < RANKS; from++) {
                line lines[TOGETHER];
                piece own[TOGETHER];
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) {
                    const long long unit = first + (i + j) * step;
                    if (unit * UNIT >= s.received(rank, from)) continue;
                    if (from == rank)
                        own[j] = s.load(source, rank, rank, unit);
                    else
                        lines[j] = load_line(line_at(rank, from, i + j));
                }
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) {
                    const long long unit = first + (i + j) * step;
                    if (unit * UNIT >= s.received(rank, from)) continue;
                    if (from != rank) {
                        const line l = wait(line_at(rank, from, i + j), lines[j], from);
                        own[j].words[0] = (unsigned)l.a;
                        own[j].words[1] = (unsigned)l.b;
                    }
#pragma unroll
                    for (int e = 0; e < UNIT; e++) {
                        const total x = (total)widen(own[j].e[e]);
                        sums[j][e] = from == 0 ? x : combine(sums[j][e], x);
                    }
                }
            }
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                const long long unit = first + (i + j) * step;
                if (unit * UNIT >= s.received(rank, 0)) continue;
                piece p;
#pragma unroll
                for (int e = 0; e < UNIT; e++)
                    narrow(sums[j][e], p.e[e]);
                s.store(destination, rank, rank, unit, p);
            }
        }
    }

    __device__ __forceinline__ void take(const sizes &s, const element *source, element *destination, long long first,
                                         long long step) {
        for (int n = 0; n < RANKS; n++) {
            const int from = (rank + n) % RANKS;
            for (int i = 0; i < EACH; i++) {
                const long long unit = first + i * step;
                if (unit * UNIT >= s.received(rank, from)) break;
                if (n == 0) {
                    s.store(destination, rank, rank, unit, s.load(source, rank, rank, unit));
                    continue;
                }
                const char *const at = line_at(rank, from, i);
                const line l = wait(at, load_line(at), from);
                piece p;
                p.words[0] = (unsigned)l.a;
                p.words[1] = (unsigned)l.b;
                s.store(destination, rank, from, unit, p);
            }
        }
    }
};

// The last block to end leaves the seat to the next kernel.
__device__ __forceinline__ void leave(seat *me, unsigned next) {
    __syncthreads();
    if (threadIdx.x != 0 || atomicAdd(&me->arrivals, 1u) + 1 < gridDim.x) return;
    me->arrivals = 0;
    me->epoch = next;
}

template <typename... part>
__device__ __forceinline__ void run(const void *from, void *to, void *given, long long number, long long outer,
                                    long long inner, part... parts) {
    const element *const source = (const element *)from;
    element *const destination = (element *)to;
    sizes s = {outer, inner, 0, {(long long)parts...}};
    seat *const me = (seat *)given;
    long long longest = 0;
    unsigned size = (unsigned)(outer * inner) ^ (unsigned)KIND << 28;
    for (int r = 0; r < RANKS; r++) {
        s.whole += s.parts[r];
        size = size * 31 + (unsigned)s.parts[r];
        longest = s.length(r) > longest ? s.length(r) : longest;
    }
    exchange x = {me, (int)me->rank, peek(&me->epoch), (unsigned)number, size, 0, 0, peek(&me->given_up) != 0};
    const long long step = (long long)gridDim.x * THREADS, all = (longest + UNIT - 1) / UNIT;
    for (long long first = blockIdx.x * THREADS + threadIdx.x, begin = 0;;) {
        if (x.epoch % (1u << 30) == FIRST_EPOCH || x.epoch % (1u << 30) == FIRST_EPOCH + 1) x.clear_next();
        x.send_header();
        x.send(s, source, first, step);
        x.check_header();
        if constexpr (REDUCES)
            x.reduce(s, source, destination, first, step);
        else
            x.take(s, source, destination, first, step);
        x.epoch = x.epoch == 0xffffffff ? FIRST_EPOCH : x.epoch + 1;
        first += EACH * step;
        begin += EACH * step;
        if (begin >= all) break;
        __syncthreads(); // the whole block has read its lines before it sends the next header
    }
    leave(me, x.epoch);
}
