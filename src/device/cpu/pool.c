/*
 * A fork-join pool for short work; see pool.h.
 *
 * Tiles are split into contiguous ranges, the same for an item on every run, so that what a worker wrote is likely to
 * be in its own cache when it reads it in the next item. A worker that has finished its range steals chunks from the
 * ranges of others (a processor may be busy with other work, and tiles may differ in cost).
 *
 * A run uses as many workers as the ledger grants it (ledger.h). Where that changes in the middle of a run, the run goes
 * on after the next barrier but one with another number of workers: it consists of stretches, each of one width.
 *
 * Sleeping and waking follow the usual futex discipline ("Futexes Are Tricky", U. Drepper, 2011). All ordering comes
 * from atomics, none from fences, so that ThreadSanitizer sees it.
 */
#define _GNU_SOURCE
#include "device/cpu/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "device/cpu/ledger.h"

#define CACHE_LINE 64
/* Spins (40 to 140 cycles each, some ten microseconds in all) before a waiting worker yields its processor, which
 * the awaited thread may need. Between runs a worker polls for about a millisecond, as long as nobody else wants the
 * processor, so that runs in quick succession find it awake: waking it takes 50 to 250 microseconds. */
#define SPINS 400
#define YIELDS_BETWEEN_RUNS 2500
#define MAX_WORKERS 1024
#define MAX_ROUNDS 10 /* of a barrier: log2 of MAX_WORKERS */
#define MIN_SCRATCH 64
#define STACK_BYTES ((size_t)1 << 20)

/* A counter in a cache line of its own. */
struct line {
    _Alignas(CACHE_LINE) atomic_ullong number;
};

struct worker {
    /* Incremented by the caller to start a run; the futex that the worker sleeps on. */
    _Alignas(CACHE_LINE) atomic_uint start;
    atomic_uint asleep;
    /* How many tiles of its range were taken, by any worker. Phases alternate between the two, so that one can be
     * cleared while the other is in use. */
    _Alignas(CACHE_LINE) atomic_llong taken[2];
    /* By round of the barrier: the number of the last barrier that the partner in that round has reached. */
    struct line met[MAX_ROUNDS];
    _Alignas(CACHE_LINE) struct ig_pool *pool;
    uint32_t index;
    pthread_t thread;
    void *scratch;
};

struct ig_pool {
    const struct ingot_allocator *allocator;
    struct worker *workers;
    uint32_t n_workers, n_started; /* n_started includes the caller */
    void *scratch;
    size_t scratch_bytes; /* per worker */
    struct ig_claim claim;
    /* Workers from here on are not wanted for now, and sleep. Read between runs: apart from what the caller writes. */
    _Alignas(CACHE_LINE) atomic_uint limit;
    /* The current stretch of a run: written by the caller before it starts the workers, read-only until all have met at
     * its end. */
    _Alignas(CACHE_LINE) const struct ig_pool_item *items;
    int64_t first_tile; /* of the first item: earlier ones are done */
    uint32_t n_items, width;
    const struct ig_stop *stop; /* NULL: never */
    uint64_t barriers;          /* number of barriers in all earlier stretches; a barrier's number is never reused */
    /* The barrier that ends the stretch before its last item. Worker 0 writes it before the barrier before that one,
     * so that all know of it in time. */
    atomic_ullong ends_at;
    bool stopping;
};

/* ---- One item -------------------------------------------------------------------------------------------------- */

struct range {
    int64_t begin, end;
};

/* What of `all` worker w of n does; the first workers have one tile more. */
static struct range range_of(struct range all, uint32_t n, uint32_t w) {
    int64_t tiles = all.end - all.begin, each = tiles / n, more = tiles % n;
    int64_t begin = all.begin + each * w + (w < more ? w : more);
    return (struct range){begin, begin + each + (w < more)};
}

/* The turn that begins with a tile. */
static struct range turn_at(const struct ig_pool_item *item, int64_t tile) {
    bool last = item->turn <= 0 || item->tiles - tile <= item->turn;
    return (struct range){tile, last ? item->tiles : tile + item->turn};
}

static uint32_t workers_of(const struct ig_pool *pool, const struct ig_pool_item *item) {
    return item->workers < pool->width ? item->workers : pool->width;
}

/* Takes chunks of worker `victim`'s range of the turn until none are left. */
static void take_from(struct ig_pool *pool, const struct ig_pool_item *item, struct range turn, uint32_t victim,
                      unsigned phase, int64_t chunk, void *scratch) {
    atomic_llong *taken = &pool->workers[victim].taken[phase & 1];
    struct range range = range_of(turn, workers_of(pool, item), victim);
    int64_t size = range.end - range.begin;
    while (atomic_load_explicit(taken, memory_order_relaxed) < size) {
        int64_t at = atomic_fetch_add_explicit(taken, chunk, memory_order_relaxed);
        if (at >= size) return;
        int64_t end = size - at < chunk ? size : at + chunk;
        item->kernel(item->buffers, item->dims, range.begin + at, range.begin + end, scratch);
    }
}

static void do_share(struct ig_pool *pool, const struct ig_pool_item *item, struct range turn, uint32_t w,
                     unsigned phase) {
    uint32_t n = workers_of(pool, item);
    if (w >= n) return;
    void *scratch = pool->workers[w].scratch;
    int64_t tiles = turn.end - turn.begin;
    if (item->chunks <= 1 || tiles < 2 * (int64_t)n) {
        struct range range = range_of(turn, n, w);
        item->kernel(item->buffers, item->dims, range.begin, range.end, scratch);
        return;
    }
    int64_t chunk = tiles / n / item->chunks;
    if (chunk < 1) chunk = 1;
    for (uint32_t i = 0; i < n; i++)
        take_from(pool, item, turn, w + i < n ? w + i : w + i - n, phase, chunk, scratch);
}

/* From a tile on, all turns. */
static void do_alone(struct ig_pool *pool, const struct ig_pool_item *item, int64_t from) {
    if (item->tiles > from) item->kernel(item->buffers, item->dims, from, item->tiles, pool->workers[0].scratch);
}

/* ---- A run ----------------------------------------------------------------------------------------------------- */

static void wait_for(atomic_ullong *number, uint64_t wanted) {
    unsigned spins = 0;
    while (atomic_load_explicit(number, memory_order_acquire) < wanted) {
        if (++spins < SPINS)
            ig_cpu_pause();
        else
            sched_yield();
    }
}

/*
 * A run's last barrier releases the caller once all workers have reached it, not once all have left it. A late worker
 * may signal its partner of that barrier after another worker, which has the same partner in a later run of another
 * width, has signalled a later one. So the number is never lowered there; elsewhere this cannot happen, and a store is
 * cheaper.
 */
static void tell(atomic_ullong *number, uint64_t barrier, bool last) {
    if (!last) {
        atomic_store_explicit(number, barrier, memory_order_release);
        return;
    }
    unsigned long long told = atomic_load_explicit(number, memory_order_relaxed);
    while (told < barrier &&
           !atomic_compare_exchange_weak_explicit(number, &told, barrier, memory_order_release, memory_order_relaxed))
        continue;
}

/* A dissemination barrier (D. Hensgen, R. Finkel, U. Manber, 1988): in round r each worker signals the one 2^r
 * further on, and waits for a signal. */
static void meet(struct ig_pool *pool, uint32_t w, uint32_t width, uint64_t barrier, bool last) {
    for (uint32_t round = 0, distance = 1; distance < width; round++, distance *= 2) {
        uint32_t partner = w + distance < width ? w + distance : w + distance - width;
        tell(&pool->workers[partner].met[round].number, barrier, last);
        wait_for(&pool->workers[w].met[round].number, barrier);
    }
}

static bool is_stopped(const struct ig_pool *pool) {
    return pool->stop && ig_stop_asked(pool->stop);
}

/* Where a walk has come to: a tile of an item, which begins a turn. */
struct place {
    uint32_t item;
    int64_t tile;
};

/* Does the items from `at` up to the next barrier; returns the place behind it. Workers that stop still walk the list
 * and meet, since they need not agree on where to stop. */
static struct place do_phase(struct ig_pool *pool, struct place at, uint32_t w, unsigned phase) {
    const struct ig_pool_item *items = pool->items;
    if (items[at.item].workers > 1) {
        struct range turn = turn_at(&items[at.item], at.tile);
        if (!is_stopped(pool)) do_share(pool, &items[at.item], turn, w, phase);
        bool last = turn.end >= items[at.item].tiles;
        return last ? (struct place){at.item + 1, 0} : (struct place){at.item, turn.end};
    }
    for (; at.item < pool->n_items && items[at.item].workers <= 1; at = (struct place){at.item + 1, 0}) {
        if (w == 0 && !is_stopped(pool)) do_alone(pool, &items[at.item], at.tile);
    }
    return at;
}

/*
 * Worker w's walk through the list; returns where the stretch ends. Its counter `taken` of a phase is cleared after the
 * phase's barrier, when nobody takes from it any more, and before the worker reaches the next barrier, which all pass
 * before they use it again. After the last barrier a worker touches nothing of the stretch, since the caller may have
 * begun another.
 */
static struct place walk(struct ig_pool *pool, uint32_t w) {
    struct place at = {0, pool->first_tile};
    uint32_t n = pool->n_items, width = pool->width;
    uint64_t barrier = pool->barriers;
    bool last = false;
    for (unsigned phase = 0; !last; phase++) {
        at = do_phase(pool, at, w, phase);
        last = at.item == n || atomic_load_explicit(&pool->ends_at, memory_order_relaxed) == barrier + 1;
        if (w == 0 && !last && ig_ledger_review(&pool->claim) != width)
            atomic_store_explicit(&pool->ends_at, barrier + 2, memory_order_relaxed);
        meet(pool, w, width, ++barrier, last);
        if (!last) atomic_store_explicit(&pool->workers[w].taken[phase & 1], 0, memory_order_relaxed);
    }
    if (w == 0) pool->barriers = barrier;
    return at;
}

static void futex(atomic_uint *word, int operation, unsigned value) {
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void start_worker(struct worker *worker) {
    /* Sequentially consistent against `asleep`: either the worker sees the new number before it sleeps, or the caller
     * sees that it is asleep. */
    atomic_fetch_add(&worker->start, 1);
    if (atomic_load(&worker->asleep)) futex(&worker->start, FUTEX_WAKE_PRIVATE, 1);
}

static bool is_wanted(const struct worker *worker) {
    return worker->index < atomic_load_explicit(&worker->pool->limit, memory_order_relaxed);
}

static unsigned await_start(struct worker *worker, unsigned seen) {
    for (unsigned i = 0; i < SPINS + YIELDS_BETWEEN_RUNS && is_wanted(worker); i++) {
        unsigned number = atomic_load_explicit(&worker->start, memory_order_acquire);
        if (number != seen) return number;
        if (i < SPINS)
            ig_cpu_pause();
        else
            sched_yield();
    }
    unsigned now;
    atomic_store(&worker->asleep, 1);
    while ((now = atomic_load(&worker->start)) == seen)
        futex(&worker->start, FUTEX_WAIT_PRIVATE, seen);
    atomic_store(&worker->asleep, 0);
    return now;
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    unsigned seen = 0;
    for (;;) {
        seen = await_start(worker, seen);
        if (worker->pool->stopping) return NULL;
        walk(worker->pool, worker->index);
    }
}

/* Without other workers, until the share has grown; returns the place behind the last item done. */
static struct place run_alone(struct ig_pool *pool, const struct ig_pool_item *items, uint32_t n_items,
                              int64_t first_tile) {
    for (uint32_t i = 0; i < n_items && !is_stopped(pool); i++) {
        do_alone(pool, &items[i], i == 0 ? first_tile : 0);
        if (ig_ledger_review(&pool->claim) > 1) return (struct place){i + 1, 0};
    }
    return (struct place){n_items, 0};
}

static struct place run_together(struct ig_pool *pool, const struct ig_pool_item *items, uint32_t n_items,
                                 int64_t first_tile, uint32_t width) {
    pool->items = items;
    pool->first_tile = first_tile;
    pool->n_items = n_items;
    pool->width = width;
    for (uint32_t w = 0; w < width; w++) {
        atomic_store_explicit(&pool->workers[w].taken[0], 0, memory_order_relaxed);
        atomic_store_explicit(&pool->workers[w].taken[1], 0, memory_order_relaxed);
    }
    for (uint32_t w = 1; w < width; w++)
        start_worker(&pool->workers[w]);
    return walk(pool, 0);
}

void ig_pool_run(struct ig_pool *pool, const struct ig_pool_item *items, uint32_t n_items, const struct ig_stop *stop) {
    uint32_t widest = 1;
    struct place at = {0, 0}, done;
    pool->stop = stop;
    for (uint32_t i = 0; i < n_items; i++) {
        if (items[i].workers > widest) widest = items[i].workers;
    }
    ig_ledger_begin(&pool->claim, widest);
    while (at.item < n_items) {
        uint32_t share = pool->claim.share, limit = pool->claim.limit, left = n_items - at.item;
        if (atomic_load_explicit(&pool->limit, memory_order_relaxed) != limit)
            atomic_store_explicit(&pool->limit, limit, memory_order_relaxed);
        done = share > 1 ? run_together(pool, items + at.item, left, at.tile, share)
                         : run_alone(pool, items + at.item, left, at.tile);
        at = (struct place){at.item + done.item, done.tile};
    }
    ig_ledger_end(&pool->claim);
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

/* Blocks all signals in workers: the application's handlers must not run on our threads. */
static enum ingot_status start_threads(struct ig_pool *pool, struct ingot_error *error) {
    sigset_t all, old;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for threads");
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failure = 0;
    while (pool->n_started < pool->n_workers && !failure) {
        struct worker *worker = &pool->workers[pool->n_started];
        failure = pthread_create(&worker->thread, &attributes, worker_main, worker);
        if (!failure) pool->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (failure)
        return IG_ERR(error, INGOT_DEVICE, "cannot start thread %u of %u: %s", pool->n_started + 1, pool->n_workers,
                      strerror(failure));
    return INGOT_OK;
}

static enum ingot_status make_workers(struct ig_pool *pool, struct ingot_error *error) {
    pool->workers = ig_allocate(pool->allocator, pool->n_workers * sizeof *pool->workers, CACHE_LINE);
    if (!pool->workers) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %u threads", pool->n_workers);
    for (uint32_t w = 0; w < pool->n_workers; w++) {
        pool->workers[w].pool = pool;
        pool->workers[w].index = w;
    }
    return INGOT_OK;
}

enum ingot_status ig_pool_create(unsigned threads, const struct ig_processors *processors,
                                 const struct ingot_allocator *allocator, struct ig_pool **out_pool,
                                 struct ingot_error *error) {
    if (threads < 1 || threads > MAX_WORKERS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%u threads: at least 1 and at most %d compute", threads,
                      MAX_WORKERS);
    struct ig_pool *pool = ig_allocate(allocator, sizeof *pool, CACHE_LINE);
    if (!pool) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a thread pool");
    pool->allocator = allocator;
    pool->n_workers = threads;
    pool->n_started = 1;
    atomic_init(&pool->limit, UINT32_MAX);
    ig_ledger_join(&pool->claim, processors);
    enum ingot_status status = make_workers(pool, error);
    if (status == INGOT_OK) status = ig_pool_reserve_scratch(pool, MIN_SCRATCH, error);
    if (status == INGOT_OK) status = start_threads(pool, error);
    if (status == INGOT_OK)
        *out_pool = pool;
    else
        ig_pool_destroy(pool);
    return status;
}

void ig_pool_destroy(struct ig_pool *pool) {
    if (!pool) return;
    pool->stopping = true;
    for (uint32_t w = 1; w < pool->n_started; w++)
        start_worker(&pool->workers[w]);
    for (uint32_t w = 1; w < pool->n_started; w++)
        pthread_join(pool->workers[w].thread, NULL);
    ig_ledger_leave(&pool->claim);
    ig_release(pool->allocator, pool->scratch, pool->n_workers * pool->scratch_bytes);
    ig_release(pool->allocator, pool->workers, pool->n_workers * sizeof *pool->workers);
    ig_release(pool->allocator, pool, sizeof *pool);
}

uint32_t ig_pool_size(const struct ig_pool *pool) {
    return pool->n_workers;
}

enum ingot_status ig_pool_reserve_scratch(struct ig_pool *pool, size_t bytes, struct ingot_error *error) {
    if (bytes <= pool->scratch_bytes) return INGOT_OK;
    size_t each, total;
    /* Two lines apart, since the hardware fetches lines in pairs. */
    bool fits = ig_size_add(bytes, 2 * CACHE_LINE - 1, &each);
    each = each / (2 * CACHE_LINE) * (2 * CACHE_LINE);
    if (!fits || !ig_size_mul(each, pool->n_workers, &total))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "%zu bytes of scratch for each of %u threads are too many", bytes,
                      pool->n_workers);
    char *scratch = ig_allocate(pool->allocator, total, 2 * CACHE_LINE);
    if (!scratch) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %zu bytes of scratch", total);
    ig_release(pool->allocator, pool->scratch, pool->n_workers * pool->scratch_bytes);
    pool->scratch = scratch;
    pool->scratch_bytes = each;
    for (uint32_t w = 0; w < pool->n_workers; w++)
        pool->workers[w].scratch = scratch + w * each;
    return INGOT_OK;
}
