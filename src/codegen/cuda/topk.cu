// The k best of a row, best first, by TEAM threads: radix selection, then a bitonic sort of what was selected.
//
// An element and its place are a key; keys are distinct, so that ties go to the element that comes first. A pass counts
// the elements by one digit of their orders and finds the digit of the last one of the k best, until all elements with its
// digits are among them. If elements equal to it are too many, further passes choose the first by their places. Counting
// and collecting are atomic additions of integers; the order in which threads come does not matter, since what they
// collect is sorted. A row has less than 2^32 elements.

// COPIES: of the counts, since elements tend to have equal digits, whose additions wait for each other.
enum { DIGIT = 8, BINS = 1 << DIGIT, TEAMS = THREADS / TEAM, COPIES = TEAM == 32 ? 1 : 8, AT_ONCE = 4 };

struct __align__(2 * sizeof(wide)) key {
    wide order;
    place at;
};
__device__ __forceinline__ bool is_before(const key &a, const key &b) {
    return a.order < b.order || (a.order == b.order && a.at < b.at);
}

__device__ __forceinline__ void meet() {
    if (TEAM == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// Calls visit(order, place) for the thread's elements; several loads are under way at once.
template <class F>
__device__ __forceinline__ void visit_all(const element *row, int64_t stride, place n, int thread, F visit) {
    for (place i = thread; i < n; i += AT_ONCE * TEAM) {
        element x[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            x[j] = row[(int64_t)min(i + j * TEAM, n - 1) * stride];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * TEAM < n) visit(order_of(x[j]), i + j * TEAM);
        }
    }
}

// Where to look for the last of the k best: number `rank`, from 0, of those whose digits in `mask` are `digits`.
template <class T> struct search {
    T digits, mask;
    unsigned rank;
    bool all; // are all of these among the k best?
};

// Narrows the search down by the digit that begins at bit `shift`, by which the elements have been counted. Each warp does
// the same.
template <class T> __device__ __forceinline__ void narrow(search<T> *s, const uint4 *counts, int shift) {
    const int lane = (int)threadIdx.x % 32;
    unsigned own[BINS / 32] = {}, sum = 0, size = 0;
#pragma unroll
    for (int copy = 0; copy < COPIES; copy++) {
#pragma unroll
        for (int i = 0; i < BINS / 32; i += 4) {
            const uint4 some = counts[(copy * BINS + lane * (BINS / 32) + i) / 4];
            own[i] += some.x;
            own[i + 1] += some.y;
            own[i + 2] += some.z;
            own[i + 3] += some.w;
        }
    }
#pragma unroll
    for (int i = 0; i < BINS / 32; i++)
        sum += own[i];
    unsigned before = sum;
#pragma unroll
    for (int away = 1; away < 32; away *= 2) {
        const unsigned more = __shfl_up_sync(0xffffffff, before, away);
        if (lane >= away) before += more;
    }
    before -= sum;
    const bool here = s->rank >= before && s->rank < before + sum;
    unsigned rank = s->rank - before;
    int digit = lane * (BINS / 32) - 1;
    bool found = false;
#pragma unroll
    for (int i = 0; i < BINS / 32; i++) {
        if (!found) {
            digit++;
            size = own[i];
            found = rank < size;
            if (!found) rank -= size;
        }
    }
    const int who = __ffs((int)__ballot_sync(0xffffffff, here)) - 1;
    digit = __shfl_sync(0xffffffff, digit, who);
    s->rank = __shfl_sync(0xffffffff, rank, who);
    s->all = __shfl_sync(0xffffffff, size, who) == s->rank + 1;
    s->digits |= (T)digit << shift;
    s->mask |= (T)(BINS - 1) << shift;
}

// One pass: counts the elements that `digit_of` gives a digit, not -1.
template <class T, class F>
__device__ __forceinline__ void search_digit(search<T> *s, uint4 *counts, const element *row, int64_t stride, place n,
                                             int thread, int shift, F digit_of) {
    unsigned *own = (unsigned *)counts + thread % COPIES * BINS;
    meet();
    for (int i = thread; i < COPIES * BINS / 4; i += TEAM)
        counts[i] = make_uint4(0, 0, 0, 0);
    meet();
    visit_all(row, stride, n, thread, [&](wide order, place at) {
        const int digit = digit_of(order, at);
        if (digit >= 0) atomicAdd(own + digit, 1u);
    });
    meet();
    narrow(s, counts, shift);
}

// Exchanges two keys, of `n`, that are in the wrong order.
__device__ __forceinline__ void order_pair(key *keys, place n, place a, place b) {
    if (b >= n || !is_before(keys[b], keys[a])) return;
    const key moved = keys[a];
    keys[a] = keys[b];
    keys[b] = moved;
}

// Batcher's bitonic sort, each run of which is merged with the next, mirrored; beyond the end there are only keys that
// stay where they are.
__device__ __forceinline__ void sort(key *keys, place n, int thread) {
    place all = 1;
    while (all < n)
        all *= 2;
    for (place run = 1; run < n; run *= 2) {
        meet();
        for (place i = thread; i < all / 2; i += TEAM) {
            const place begin = i & ~(run - 1), off = i & (run - 1);
            order_pair(keys, n, 2 * begin + off, 2 * begin + 2 * run - 1 - off);
        }
        for (place half = run / 2; half > 0; half /= 2) {
            meet();
            for (place i = thread; i < all / 2; i += TEAM) {
                const place first = 2 * (i & ~(half - 1)) + (i & (half - 1));
                order_pair(keys, n, first, first + half);
            }
        }
    }
    meet();
}

__device__ __forceinline__ void select(int thread, const element *row, int64_t stride, place n, place kept,
                                       uint4 *counts, unsigned *taken, key *keys) {
    search<wide> best = {0, 0, (unsigned)(kept - 1), false};
    for (int shift = BITS - DIGIT; shift >= 0 && !best.all; shift -= DIGIT) {
        const search<wide> s = best;
        search_digit(&best, counts, row, stride, n, thread, shift, [&](wide order, place) {
            return (order & s.mask) == s.digits ? (int)(order >> shift & (BINS - 1)) : -1;
        });
    }
    // Of those that equal the last one, those behind this place are too many.
    place limit = n - 1;
    if (!best.all) {
        search<place> last = {0, 0, best.rank, false};
        int shift = 0;
        while ((n - 1) >> shift >= BINS)
            shift += DIGIT;
        for (; shift >= 0 && !last.all; shift -= DIGIT) {
            const search<place> s = last;
            search_digit(&last, counts, row, stride, n, thread, shift, [&](wide order, place at) {
                const bool counted = (order & best.mask) == best.digits && (at & s.mask) == s.digits;
                return counted ? (int)(at >> shift & (BINS - 1)) : -1;
            });
        }
        limit = last.digits + (last.mask & -last.mask) - 1;
    }
    if (thread == 0) *taken = 0;
    meet();
    visit_all(row, stride, n, thread, [&](wide order, place at) {
        const wide digits = order & best.mask;
        if (digits < best.digits || (digits == best.digits && at <= limit)) {
            const key k = {order, at};
            keys[atomicAdd(taken, 1u)] = k;
        }
    });
}

// `more`: room for k keys if k > KEPT.
static __device__ __forceinline__ void run(int thread, const element *row, int64_t stride, place n, element *values,
                                           int64_t *indices, int64_t step, place k, void *more) {
    __shared__ uint4 counts[TEAMS][COPIES * BINS / 4];
    __shared__ unsigned taken[TEAMS];
    __shared__ key few[TEAMS][KEPT];
    const int team = (int)threadIdx.x / TEAM;
    const place kept = k < n ? k : n, sorted = n <= 2 * TEAM && n <= KEPT ? n : kept;
    key *keys = sorted <= KEPT ? few[team] : (key *)more;
    meet(); // the row before has been stored
    if (sorted < n && sorted > 0) {
        select(thread, row, stride, n, sorted, counts[team], &taken[team], keys);
    } else {
        for (place i = thread; i < sorted; i += TEAM) {
            const key own = {order_of(row[(int64_t)i * stride]), i};
            keys[i] = own;
        }
    }
    sort(keys, sorted, thread);
    for (place i = thread; i < k; i += TEAM) {
        const place at = i < kept ? keys[i].at : 0;
        if (values) values[(int64_t)i * step] = i < kept ? row[(int64_t)at * stride] : 0;
        if (indices) indices[(int64_t)i * step] = (int64_t)at;
    }
}
