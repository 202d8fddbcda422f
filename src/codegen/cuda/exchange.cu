// Collectives through windows (base/window.h). A rank writes what it has for another into the other's window, and waits until
// what the others have for itself has come into its own.
//
// Of short messages (not BULK) a line has two words that each have the epoch beside their data. So what travels needs neither
// an answer nor a fence: one way over the link. Of long ones a line is data alone, half as many bytes, and a block's header
// follows behind a fence, which waits for the lines to have come.
//
// A half of a window is written again two epochs later, when its reader is done: who has come to epoch e + 1 got all headers
// of epoch e, which their senders wrote after they had read what was sent in epoch e - 1; and between two kernels, after the
// whole of the first.
//
// Where ranks share a GPU (base/window.h), even launches of a call send and odd ones receive.

// ---- The sizes: what lies where

struct sizes {
    long long outer, inner, whole, parts[RANKS];

    // Along the axis, without an index that only the run knows, which would put the sizes into local memory.
    __device__ __forceinline__ long long size_of(int part) const {
        long long size = 0;
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            size = r == part ? parts[r] : size;
        return size;
    }
    __device__ __forceinline__ long long length(int part) const {
        if constexpr (KIND == ALL_GATHER || KIND == REDUCE_SCATTER) return outer * size_of(part) * inner;
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
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            before += r < part ? parts[r] : 0;
        const long long size = size_of(part) * inner, o = outer == 1 ? 0 : i / size;
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
    template <bool BULK>
    __device__ __forceinline__ piece<BULK> load(const element *source, int rank, int to, long long unit) const {
        typedef piece<BULK> own;
        const long long i = unit * own::UNIT, end = sent(rank, to);
        own p = {{0}};
        if (EVEN >= (int)sizeof p && i + own::UNIT <= end) return *(const own *)(source + source_at(to, i));
#pragma unroll
        for (int e = 0; e < own::UNIT; e++)
            if (i + e < end) p.e[e] = source[source_at(to, i + e)];
        return p;
    }
    template <bool BULK>
    __device__ __forceinline__ void store(element *destination, int rank, int from, long long unit,
                                          const piece<BULK> &p) const {
        typedef piece<BULK> own;
        const long long i = unit * own::UNIT, end = received(rank, from);
        if (EVEN >= (int)sizeof p && i + own::UNIT <= end) {
            *(own *)(destination + destination_at(from, i)) = p;
            return;
        }
#pragma unroll
        for (int e = 0; e < own::UNIT; e++)
            if (i + e < end) destination[destination_at(from, i + e)] = p.e[e];
    }
};

// ---- Waiting

template <bool BULK> struct exchange {
    static constexpr int UNIT = piece<BULK>::UNIT, EACH = BULK ? LONG_EACH : SHORT_EACH;
    static constexpr int FIRST_LINE = HEADERS + (BULK ? SHORT_LINES : 0);

    seat *me;
    char *own, *others[RANKS]; // windows: others[n] of the rank that comes n after this one
    int rank;
    unsigned number, size, epoch, tries;
    unsigned launch; // of the call, if it is split
    bool is_split;
    unsigned long long began; // to wait, by the GPU's clock; 0: it did not have to so far
    bool lost;                // it waits for nobody any more, and sends nothing: others would take it for what they wait for

    // What never changes, which may be read early.
    __device__ __forceinline__ void begin(seat *given) {
        me = given;
        rank = (int)me->rank;
        own = me->windows[rank];
#pragma unroll
        for (int n = 1; n < RANKS; n++)
            others[n] = me->windows[(rank + n) % RANKS];
        is_split = me->is_split != 0;
        tries = 0;
        began = 0;
    }
    // What the kernel before may have changed.
    __device__ __forceinline__ void go_on() {
        epoch = peek(&me->epochs[blockIdx.x]);
        launch = is_split ? peek(&me->launches[blockIdx.x]) : 0;
        lost = peek(&me->given_up) != 0;
    }

    // A sender's slot in a window.
    static __device__ __forceinline__ char *slot(char *window, unsigned epoch, int sender) {
        return window + (int)((epoch & 1) * RANKS + sender) * (long long)SLOT;
    }
    __device__ __forceinline__ char *slot(char *window, int sender) const {
        return slot(window, epoch, sender);
    }
    __device__ __forceinline__ char *header(char *window, int sender) const {
        return slot(window, sender) + blockIdx.x * 16;
    }
    __device__ __forceinline__ char *line_at(char *window, int sender, int i) const {
        return slot(window, sender) + (FIRST_LINE + (i * gridDim.x + blockIdx.x) * THREADS + threadIdx.x) * 16;
    }

    // The first thread that gives up says why. No member: what lies in registers must not have an address.
    static __device__ __noinline__ void tell(seat *me, unsigned state, int peer, unsigned number, unsigned size,
                                             unsigned other_number, unsigned other_size) {
        report *const to = me->to;
        if (atomicAdd(&me->given_up, 1u) != 0 || state == WELL) return;
        poke(&to->peer, peer);
        poke(&to->number, number);
        poke(&to->size, size);
        poke(&to->other_number, other_number);
        poke(&to->other_size, other_size);
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        poke(&to->state, state);
    }

    // Returns when the wait began, by the GPU's clock; 0: nobody waits any more.
    static __device__ __noinline__ unsigned long long look(seat *me, unsigned long long began, int peer, unsigned number,
                                                           unsigned size) {
        unsigned long long now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (began == 0) began = now;
        if (peek(&me->given_up)) return 0;
        const bool stops = threadIdx.x < RANKS && peek(&me->to->stop); // over a slow link: only those that wait for headers
        if (!stops && now - began <= me->patience) return began;
        tell(me, stops ? WELL : LATE, peer, number, size, 0, 0);
        return 0;
    }

    // For what a rank has not sent yet: looks from time to time whether there is still somebody to wait for.
    __device__ __forceinline__ void keep_waiting(int peer) {
        if (++tries % 1024 != 0) return;
        began = look(me, began, peer, number, size);
        lost = began == 0;
    }
    __device__ __forceinline__ void wait(const char *at, line<false> &l, int peer) {
        while (!l.is_of(epoch) && !lost) {
            l.load(at);
            keep_waiting(peer);
        }
    }

    // ---- An epoch

    __device__ __forceinline__ void send_header() {
        if constexpr (BULK) lost = __syncthreads_or(lost); // the fence is behind the lines of all, if all sent them
        if (lost || threadIdx.x == 0 || threadIdx.x >= RANKS) return;
        if constexpr (BULK) asm volatile("fence.acq_rel.sys;" ::: "memory");
        line<false> l;
        l.fill(epoch, number, size);
        l.store(header(me->windows[(rank + threadIdx.x) % RANKS], rank));
    }
    __device__ __forceinline__ void check_header() {
        if (threadIdx.x > 0 && threadIdx.x < RANKS) {
            const int peer = (rank + (int)threadIdx.x) % RANKS;
            const char *const at = header(own, peer);
            line<false> l;
            l.load(at);
            wait(at, l, peer);
            if (!lost && ((unsigned)l.a != number || (unsigned)l.b != size)) {
                tell(me, DIFFERENT, peer, number, size, (unsigned)l.a, (unsigned)l.b);
                lost = true;
            }
            if constexpr (BULK) asm volatile("fence.acq_rel.sys;" ::: "memory");
        }
        if constexpr (BULK) lost = __syncthreads_or(lost);
    }

    // Clears this block's share of the words of the half of an epoch.
    static __device__ __noinline__ void clear(char *own, unsigned epoch) {
        for (int sender = 0; sender < RANKS; sender++) {
            const line<false> nothing = {0, 0};
            const int b = blockIdx.x + threadIdx.x * gridDim.x; // of all that a larger kernel may have had
            if (b < HEADERS) nothing.store(slot(own, epoch, sender) + b * 16);
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < SHORT_LINES; i += gridDim.x * THREADS)
                nothing.store(slot(own, epoch, sender) + (HEADERS + i) * 16);
        }
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        __syncthreads();
    }
    __device__ __forceinline__ void clear_next() const {
        if (epoch % (1u << 30) == FIRST_EPOCH || epoch % (1u << 30) == FIRST_EPOCH + 1) clear(own, epoch + 1);
    }

    // What goes to a rank. Everything is loaded before the first line or header leaves, since what comes behind a store in the text
    // is not loaded earlier; and what goes to all alike, once.
    static constexpr bool ALIKE = KIND == ALL_REDUCE || KIND == ALL_GATHER || KIND == BROADCAST;
    __device__ __forceinline__ void load(piece<BULK> (&mine)[EACH], int other, const sizes &s, const element *source,
                                         long long first, long long step) const {
        const long long end = s.sent(rank, other);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if ((first + i * step) * UNIT < end) mine[i] = s.template load<BULK>(source, rank, other, first + i * step);
    }
    __device__ __forceinline__ void send(piece<BULK> (&mine)[EACH], const sizes &s, const element *source, long long first,
                                         long long step) {
        line<BULK> lines[EACH];
#pragma unroll
        for (int n = 1; n < RANKS; n++) {
            const int other = (rank + n) % RANKS;
            const long long end = s.sent(rank, other);
            if (n > 1 && !ALIKE) load(mine, other, s, source, first, step);
#pragma unroll
            for (int i = 0; i < EACH && (n == 1 || !ALIKE); i++)
                lines[i].pack(epoch, mine[i]);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if ((first + i * step) * UNIT < end) lines[i].store(line_at(others[n], rank, i));
        }
    }

    // The lines that a rank has sent: loads all, then waits for each.
    __device__ __forceinline__ void receive(line<BULK> (&lines)[EACH], int from, long long first, long long step,
                                            long long end) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if ((first + i * step) * UNIT < end) lines[i].load(line_at(own, from, i));
        if constexpr (!BULK) {
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if ((first + i * step) * UNIT < end) wait(line_at(own, from, i), lines[i], from);
        }
    }

    // The ranks' messages in their order, so that all ranks get the same bits.
    __device__ __forceinline__ void reduce(const sizes &s, const element *source, element *destination, long long first,
                                           long long step) {
        const long long end = s.received(rank, 0);
        total sums[EACH][UNIT];
#pragma unroll
        for (int from = 0; from < RANKS; from++) {
            line<BULK> lines[EACH];
            if (from == rank) {
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    if ((first + i * step) * UNIT < end)
                        lines[i].pack(epoch, s.template load<BULK>(source, rank, rank, first + i * step));
            } else {
                receive(lines, from, first, step, end);
            }
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                if ((first + i * step) * UNIT >= end) continue;
                const piece<BULK> p = lines[i].unpack();
#pragma unroll
                for (int e = 0; e < UNIT; e++) {
                    const total x = (total)widen(p.e[e]);
                    sums[i][e] = from == 0 ? x : combine(sums[i][e], x);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if ((first + i * step) * UNIT >= end) continue;
            piece<BULK> p;
#pragma unroll
            for (int e = 0; e < UNIT; e++)
                narrow(sums[i][e], p.e[e]);
            s.template store<BULK>(destination, rank, rank, first + i * step, p);
        }
    }

    __device__ __forceinline__ void take(const sizes &s, const element *source, element *destination, long long first,
                                         long long step) {
        for (int i = 0; i < EACH; i++) {
            const long long unit = first + i * step;
            if (unit * UNIT < s.received(rank, rank))
                s.template store<BULK>(destination, rank, rank, unit, s.template load<BULK>(source, rank, rank, unit));
        }
        for (int n = 1; n < RANKS; n++) {
            const int from = (rank + n) % RANKS;
            const long long end = s.received(rank, from);
            line<BULK> lines[EACH];
            receive(lines, from, first, step, end);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if ((first + i * step) * UNIT < end)
                    s.template store<BULK>(destination, rank, from, first + i * step, lines[i].unpack());
        }
    }

    // Apart for split calls, so that others keep in registers what they have loaded to send.
    template <bool SPLIT>
    __device__ __forceinline__ void go(const sizes &s, const element *source, element *destination, long long longest) {
        const long long step = (long long)gridDim.x * THREADS, all = (longest + UNIT - 1) / UNIT;
        const long long done = SPLIT ? launch / 2 * EACH * step : 0;
        for (long long first = done + blockIdx.x * THREADS + threadIdx.x, begin = done;;) {
            if (!SPLIT || launch % 2 == 0) {
                piece<BULK> mine[EACH];
                load(mine, (rank + 1) % RANKS, s, source, first, step);
                clear_next();
                if constexpr (!BULK) send_header();
                if (!lost) send(mine, s, source, first, step);
                if constexpr (BULK) send_header();
                if constexpr (SPLIT) {
                    launch++;
                    break;
                }
            }
            check_header();
            if constexpr (REDUCES)
                reduce(s, source, destination, first, step);
            else
                take(s, source, destination, first, step);
            epoch = epoch == 0xffffffff ? FIRST_EPOCH : epoch + 1;
            first += EACH * step;
            begin += EACH * step;
            if constexpr (SPLIT) launch = begin >= all ? 0 : launch + 1;
            if (SPLIT || begin >= all) break;
            __syncthreads(); // the whole block has read its lines before it sends the next header
        }
        leave();
    }

    // For the next kernel.
    __device__ __forceinline__ void leave() const {
        __syncthreads(); // all have read this one's
        const int b = blockIdx.x + threadIdx.x * gridDim.x;
        if (b < HEADERS) me->epochs[b] = epoch;
        if (b < HEADERS && is_split) me->launches[b] = launch;
    }
};

template <bool BULK>
__device__ __forceinline__ void run(const element *source, element *destination, seat *given, unsigned number,
                                    unsigned size, const sizes &s, long long longest) {
    exchange<BULK> x;
    x.begin(given);
    x.number = number;
    x.size = size;
    if constexpr (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    x.go_on();
    if (x.is_split)
        x.template go<true>(s, source, destination, longest);
    else
        x.template go<false>(s, source, destination, longest);
}

template <typename... part>
__device__ __forceinline__ void run(const void *from, void *to, void *given, long long number, long long outer,
                                    long long inner, part... parts) {
    sizes s = {outer, inner, 0, {(long long)parts...}};
    long long longest = 0;
    unsigned size = (unsigned)(outer * inner) ^ (unsigned)KIND << 28;
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
        s.whole += s.parts[r];
        size = size * 31 + (unsigned)s.parts[r];
        longest = s.length(r) > longest ? s.length(r) : longest;
    }
    if (longest * (long long)sizeof(element) <= SHORT)
        run<false>((const element *)from, (element *)to, (seat *)given, (unsigned)number, size, s, longest);
    else
        run<true>((const element *)from, (element *)to, (seat *)given, (unsigned)number, size, s, longest);
}
