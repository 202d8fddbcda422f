/* See grid.h. */
#include "emulator/grid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fake_cuda/fake_cuda.h"

enum {
    MOST_THREADS = 1024,
    MOST_RANKS = 16,
    MOST_COROUTINES = 8192,
    MOST_COPIES = 256,
    MOST_GROUPS = 32,
    MOST_BOXES = 256, /* in flight */
    NAMED = 16,       /* named barriers per block */
    STACK = 256 << 10,
    SHOWN = 64,              /* bytes that a lane may pass to others */
    SHARED_BEGIN = 1024,     /* the first address of shared memory, as on sm_90 */
    RANK_BITS = 24,          /* lowest bit of an address's upper field: rank + 1, or 0 */
    SEVERAL = 0x8000,        /* flag of `reader`: several lanes of the warp in the other bits */
    SEVERAL_WARPS = 0xffff,  /* readers */
    MOST_SHARED = 227 << 10, /* bytes per block */
    MOST_STATIC = 48 << 10,  /* of these, for __shared__ variables */
};

/* ---- Memory ----------------------------------------------------------------------------------------------------------- */

/* The last accesses to a byte. An epoch is the time between two barriers of a block. */
struct cell {
    uint32_t write_epoch, read_epoch;
    uint16_t writer, reader; /* threads */
    uint16_t write_sync, read_sync;
};

struct region {
    char *begin, *end;
    const char *name;
    struct cell *cells; /* one per byte; NULL: none yet */
};

static struct region *regions; /* from emulator_add_memory */
static size_t n_regions, room_for_regions;
static struct region *last_region;

void emulator_add_memory(void *begin, size_t size) {
    if (n_regions == room_for_regions) {
        room_for_regions = room_for_regions ? 2 * room_for_regions : 64;
        regions = realloc(regions, room_for_regions * sizeof *regions);
        if (!regions) abort();
    }
    regions[n_regions++] = (struct region){begin, (char *)begin + size, "global memory", NULL};
    last_region = NULL;
}

static size_t bytes_of_cells(const struct region *r) {
    return (size_t)(r->end - r->begin + 1) * sizeof(struct cell);
}

static void drop_cells(struct region *r) {
    if (r->cells) munmap(r->cells, bytes_of_cells(r));
    r->cells = NULL;
}

void emulator_remove_memory(void *begin) {
    for (size_t i = 0; i < n_regions; i++) {
        if (regions[i].begin != begin) continue;
        drop_cells(&regions[i]);
        regions[i] = regions[--n_regions];
        break;
    }
    last_region = NULL;
}

/* ---- The running grid --------------------------------------------------------------------------------------------------- */

enum wait { NOTHING, BLOCK, CLUSTER, WARP, NAMED_BARRIER, ROUND };

struct copy {
    char *to;
    const char *from;
    size_t size, valid;
};

/* The eight bytes of an mbarrier in shared memory. */
struct round {
    uint16_t arrivals, missing; /* per round; still missing in this one */
    int32_t bytes : 31;         /* announced but not yet copied */
    uint32_t parity : 1;
};

/* A TMA copy of a box of a matrix, in flight; or of a tap of windows. */
struct box {
    struct fake_tensor_map map;
    char *to;
    int x, y;
    int at[4], tap[3]; /* of windows: where the first begins, and its image; offset of the tap */
    struct round *round;
};

struct thread {
    jmp_buf at;
    bool begun, done, parity;
    enum wait waiting;
    int name; /* for NAMED_BARRIER */
    const struct round *round;
    unsigned round_parity;
    unsigned team, parities; /* of the last exchange: its lanes, and which of `shows` each lane used */
    uint16_t syncs;          /* warp synchronisations that the thread took part in */
    unsigned n_copies, n_groups, groups[MOST_GROUPS]; /* copies in flight; end of each committed group */
    struct copy copies[MOST_COPIES];
    char shows[2][SHOWN] __attribute__((aligned(16)));
};

static struct {
    const struct emulated_launch *launch;
    struct emulator_options options;
    struct emulator seen;
    int count, ranks; /* threads per block; blocks that run concurrently */
    int current;      /* index of the running coroutine */
    int arrived[MOST_RANKS], arrived_cluster, arrived_named[MOST_RANKS][NAMED];
    struct box boxes[MOST_BOXES];
    unsigned n_boxes;
    uint32_t launch_epoch, block_epoch, epoch[MOST_RANKS], last_epoch;
    struct region dynamic[MOST_RANKS], variables; /* shared memory */
    char *kept[MOST_RANKS];                       /* saved variables of the concurrent blocks that are not running */
    int loaded;                                   /* the rank whose variables are loaded */
    jmp_buf scheduler, refused;
    char message[512];
} grid;

static struct thread *threads[MOST_COROUTINES];
static char *stacks[MOST_COROUTINES];

static struct thread *self(void) {
    return threads[grid.current];
}

static int lane_of(int coroutine) {
    return coroutine % grid.count % 32;
}

static void refuse(const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(grid.message, sizeof grid.message, "kernel '%s', block %d, thread %d: %s", grid.launch->name,
             grid.seen.block, grid.seen.thread, what);
    _longjmp(grid.refused, 1);
}

/* ---- Accesses ----------------------------------------------------------------------------------------------------------- */

static bool lies_in(const struct region *r, const char *at, size_t size) {
    return at >= r->begin && at <= r->end && size <= (size_t)(r->end - at);
}

static struct region *region_of(const char *at, size_t size) {
    struct region *shared = &grid.dynamic[grid.seen.rank];
    if (last_region && lies_in(last_region, at, size)) return last_region;
    if (lies_in(shared, at, size)) return shared;
    if (lies_in(&grid.variables, at, size)) return &grid.variables;
    for (size_t i = 0; i < n_regions; i++) {
        if (lies_in(&regions[i], at, size)) return last_region = &regions[i];
    }
    return NULL;
}

/* Reports an address outside all regions, relative to the nearest one. */
static void refuse_address(const char *at, size_t size, bool write) {
    const struct region *nearest = &grid.dynamic[grid.seen.rank];
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < n_regions + 2; i++) {
        const struct region *r = i < n_regions    ? &regions[i]
                                 : i == n_regions ? &grid.variables
                                                  : &grid.dynamic[grid.seen.rank];
        if (r->begin == r->end) continue;
        size_t away = at < r->begin ? (size_t)(r->begin - at) : at >= r->end ? (size_t)(at - r->end) : 0;
        if (away >= distance) continue;
        distance = away;
        nearest = r;
    }
    refuse("%s %zu bytes at %lld of %lld bytes of %s", write ? "writes" : "reads", size,
           (long long)(at - nearest->begin), (long long)(nearest->end - nearest->begin), nearest->name);
}

static bool is_ordered(const struct region *r, uint32_t epoch, unsigned who, uint16_t sync) {
    int rank = grid.seen.rank;
    if (epoch < grid.launch_epoch) return true;
    if (epoch < grid.block_epoch) return r == &grid.variables || r == &grid.dynamic[rank] || grid.ranks > 1;
    if (epoch != grid.epoch[rank] || who == (unsigned)grid.seen.thread) return true;
    if (who == SEVERAL_WARPS) return false;
    unsigned warp = who & SEVERAL ? who & ~(unsigned)SEVERAL : who / 32;
    return warp == (unsigned)grid.seen.thread / 32 && sync != self()->syncs;
}

static void refuse_race(const struct region *r, const char *at, bool write, const char *other, unsigned who) {
    char whom[32];
    if (who == SEVERAL_WARPS) {
        snprintf(whom, sizeof whom, "several warps");
    } else if (who & SEVERAL) {
        snprintf(whom, sizeof whom, "lanes of warp %u", who & ~(unsigned)SEVERAL);
    } else {
        snprintf(whom, sizeof whom, "thread %u", who);
    }
    refuse("%s byte %lld of %lld of %s, which %s %s with no barrier between", write ? "writes" : "reads",
           (long long)(at - r->begin), (long long)(r->end - r->begin), r->name, whom, other);
}

/* Checks an access against a byte's cell and returns the updated cell. */
static struct cell after_access(const struct region *r, const char *at, bool write, struct cell c) {
    uint32_t epoch = grid.epoch[grid.seen.rank];
    unsigned thread = (unsigned)grid.seen.thread;
    if (!is_ordered(r, c.write_epoch, c.writer, c.write_sync)) refuse_race(r, at, write, "wrote", c.writer);
    if (write) {
        if (!is_ordered(r, c.read_epoch, c.reader, c.read_sync)) refuse_race(r, at, write, "read", c.reader);
        c.write_epoch = epoch;
        c.writer = (uint16_t)thread;
        c.write_sync = self()->syncs;
    } else if (c.read_epoch != epoch || is_ordered(r, c.read_epoch, c.reader, c.read_sync)) {
        c.read_epoch = epoch;
        c.reader = (uint16_t)thread;
        c.read_sync = self()->syncs;
    } else {
        bool same_warp = c.reader != SEVERAL_WARPS &&
                         (c.reader & SEVERAL ? c.reader & ~(unsigned)SEVERAL : c.reader / 32u) == thread / 32;
        c.reader = (uint16_t)(same_warp ? SEVERAL | thread / 32 : SEVERAL_WARPS);
        c.read_sync = self()->syncs;
    }
    return c;
}

static void note_access(struct region *r, const char *at, size_t size, bool write) {
    if (!r->cells) {
        void *cells =
            mmap(NULL, bytes_of_cells(r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (cells == MAP_FAILED) return;
        r->cells = cells;
    }
    struct cell *c = r->cells + (at - r->begin), before, after;
    for (size_t i = 0; i < size; i++) {
        /* Adjacent bytes mostly have equal cells. */
        if (i == 0 || memcmp(&c[i], &before, sizeof before) != 0) {
            before = c[i];
            after = after_access(r, at + i, write, before);
        }
        c[i] = after;
    }
}

/* Nearly all sizes are powers of two, which need no division. */
static bool is_aligned(const char *at, size_t size) {
    return (size & (size - 1)) == 0 ? ((uintptr_t)at & (size - 1)) == 0 : (uintptr_t)at % size == 0;
}

static void access_memory(const void *where, size_t size, int how) {
    const char *at = where, *stack = stacks[grid.current];
    bool write = how & EMULATED_WRITE;
    if (how & EMULATED_ALIGNED && size <= 16 && !is_aligned(at, size))
        refuse("%s %zu bytes at an address that is no multiple of them", write ? "writes" : "reads", size);
    if (at >= stack && at < stack + STACK) return;
    struct region *r = region_of(at, size);
    if (r) {
        if (grid.options.races) note_access(r, at, size, write);
        return;
    }
    const struct emulated_object *o = grid.launch->object;
    if (!write && at >= o->begin && at + size <= o->end) return;
    refuse_address(at, size, write);
}

/* ---- Scheduling --------------------------------------------------------------------------------------------------------- */

static void pause_for(enum wait what) {
    struct thread *t = self();
    t->waiting = what;
    if (!_setjmp(t->at)) _longjmp(grid.scheduler, 1);
}

/* A coroutine is reused: it runs the same thread of one block after another. */
static void live(void) {
    for (;;) {
        grid.launch->kernel->start(grid.launch->parameters);
        self()->done = true;
        pause_for(NOTHING);
    }
}

static void create_coroutine(int i) {
    if (!stacks[i]) {
        stacks[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        threads[i] = calloc(1, sizeof *threads[i]);
        if (stacks[i] == MAP_FAILED || !threads[i]) abort();
    }
}

static void begin_coroutine(int i) {
    ucontext_t context, unused;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[i];
    context.uc_stack.ss_size = STACK;
    makecontext(&context, live, 0);
    threads[i]->begun = true;
    swapcontext(&unused, &context);
}

/* The blocks of a cluster run concurrently, but there is one instance of the __shared__ variables: swaps in those of
 * `rank`. */
static void load_variables(int rank) {
    size_t size = (size_t)(grid.variables.end - grid.variables.begin);
    if (grid.loaded == rank || size == 0) return;
    memcpy(grid.kept[grid.loaded], grid.variables.begin, size);
    memcpy(grid.variables.begin, grid.kept[rank], size);
    grid.loaded = rank;
}

static void become(int i) {
    int rank = i / grid.count;
    grid.current = i;
    grid.seen.thread = i % grid.count;
    grid.seen.rank = rank;
    grid.seen.block = grid.seen.block / grid.ranks * grid.ranks + rank;
    grid.seen.shared = grid.dynamic[rank].begin;
    load_variables(rank);
}

static void resume(int i) {
    become(i);
    threads[i]->waiting = NOTHING;
    if (_setjmp(grid.scheduler)) return;
    if (threads[i]->begun) _longjmp(threads[i]->at, 1);
    begin_coroutine(i);
}

/* Wakes the threads that wait for `what`, and begins a new epoch for their blocks. */
static void release(int from, int end, enum wait what) {
    for (int i = from; i < end; i++) {
        if (threads[i]->waiting == what) threads[i]->waiting = NOTHING;
    }
    for (int rank = from / grid.count; rank * grid.count < end; rank++)
        grid.epoch[rank] = ++grid.last_epoch;
}

/* Wakes threads whose round has ended; returns whether there were any. */
static bool release_rounds(void) {
    bool any = false;
    for (int i = 0; i < grid.count * grid.ranks; i++) {
        struct thread *t = threads[i];
        if (t->done || t->waiting != ROUND || t->round->parity == t->round_parity) continue;
        t->waiting = NOTHING;
        any = true;
    }
    return any;
}

static void end_round(struct round *r) {
    if (r->missing > 0 || r->bytes > 0) return;
    r->parity = !r->parity;
    r->missing = r->arrivals;
}

/* The number of the pixel under the tap; -1 if it lies outside. */
static int64_t pixel_of(const struct box *b, const int *at) {
    const struct fake_tensor_map *m = &b->map;
    int64_t pixel = at[m->axes];
    if (pixel < 0 || pixel >= (int64_t)m->lines) return -1;
    for (uint32_t i = m->axes; i-- > 0;) {
        int64_t here = (int64_t)at[i] + b->tap[i];
        if (here < 0 || here >= m->sizes[i]) return -1;
        pixel = pixel * m->sizes[i] + here;
    }
    return pixel;
}

/* Advances to the next window, in the order of the outputs. */
static void advance(const struct fake_tensor_map *m, int *at) {
    for (uint32_t i = 0; i < m->axes; i++) {
        at[i] += (int)m->steps[i];
        if (at[i] <= (int)m->sizes[i] - 1 + m->upper[i]) return;
        at[i] = m->lower[i];
    }
    at[m->axes]++;
}

/* Copies element by element, swizzled; elements outside the matrix are zero. */
static void bring_box(const struct box *b) {
    const struct fake_tensor_map *m = &b->map;
    int window[4];
    memcpy(window, b->at, sizeof window);
    for (uint32_t line = 0; line < m->box_lines; line++) {
        int64_t place = m->dealt ? line / 32 * 32 + line % 8 / 2 * 8 + line % 32 / 8 * 2 + line % 2 : line;
        int64_t y = m->axes ? pixel_of(b, window) : b->y + place;
        int64_t lines = m->axes ? INT64_MAX : (int64_t)m->lines;
        if (m->axes) advance(m, window);
        for (uint32_t i = 0; i < m->box_width; i++) {
            int64_t x = (int64_t)b->x + i;
            size_t at = (size_t)line * m->swizzle + i * m->element;
            char *to = b->to + (at ^ ((uintptr_t)(b->to + at) >> 7 & (m->swizzle / 16 - 1)) << 4);
            bool inside = x >= 0 && y >= 0 && x < (int64_t)m->width && y < lines;
            const char *from =
                (const char *)(uintptr_t)m->memory + (inside ? y * (int64_t)m->pitch + x * m->element : 0);
            if (inside)
                memcpy(to, from, m->element);
            else
                memset(to, 0, m->element);
        }
    }
    b->round->bytes -= (int32_t)(m->box_lines * m->box_width * m->element);
    end_round(b->round);
}

/* Executes the oldest copy in flight. */
static bool bring_first(void) {
    if (grid.n_boxes == 0) return false;
    const struct box first = grid.boxes[0];
    memmove(grid.boxes, grid.boxes + 1, --grid.n_boxes * sizeof first);
    bring_box(&first);
    return true;
}

static void release_barriers(void) {
    int all = grid.count * grid.ranks;
    for (int rank = 0; rank < grid.ranks; rank++) {
        if (grid.arrived[rank] < grid.count) continue;
        grid.arrived[rank] = 0;
        release(rank * grid.count, (rank + 1) * grid.count, BLOCK);
    }
    if (grid.arrived_cluster < all) return;
    grid.arrived_cluster = 0;
    release(0, all, CLUSTER);
}

static void refuse_parting(int all) {
    int ended = 0;
    for (int i = 0; i < all; i++)
        ended += threads[i]->done;
    for (int i = 0; i < all; i++) {
        if (threads[i]->done) continue;
        become(i);
        static const char *const names[] = {"",         "the block",    "the cluster",
                                            "its warp", "some threads", "the end of a round"};
        refuse("waits for %s forever: %d of %d threads have ended, the others wait elsewhere",
               names[threads[i]->waiting], ended, all);
    }
}

static void clear_threads(void) {
    for (int i = 0; i < grid.count * grid.ranks; i++) {
        struct thread *t = threads[i];
        t->done = false;
        t->waiting = NOTHING;
        t->syncs = 0;
        t->n_copies = t->n_groups = 0;
        grid.n_boxes = 0;
    }
}

static void clear_shared(void) {
    for (int rank = 0; rank < grid.ranks; rank++) {
        struct region *r = &grid.dynamic[rank];
        memset(r->begin, 0xff, (size_t)(r->end - r->begin));
        grid.epoch[rank] = ++grid.last_epoch;
        if (grid.ranks > 1) memset(grid.kept[rank], 0xff, MOST_STATIC);
    }
    if (grid.variables.begin) memset(grid.variables.begin, 0xff, (size_t)(grid.variables.end - grid.variables.begin));
    grid.loaded = 0;
    grid.block_epoch = grid.epoch[0];
}

/* Runs one cluster, or one block: those from number `first` that run concurrently. */
static void run_blocks(int first) {
    int all = grid.count * grid.ranks;
    grid.seen.block = first;
    clear_threads();
    clear_shared();
    for (int left = all; left > 0;) {
        bool progress = false;
        left = 0;
        for (int n = 0; n < all; n++) {
            int i = grid.options.backwards ? all - 1 - n : n;
            if (!threads[i]->done && threads[i]->waiting == NOTHING) {
                resume(i);
                progress = true;
            }
            left += !threads[i]->done;
        }
        release_barriers();
        if (release_rounds()) continue;
        if (!progress && left > 0) {
            if (bring_first()) {
                release_rounds();
                continue;
            }
            bool waits = true;
            for (int i = 0; i < all; i++)
                waits = waits && (threads[i]->done || threads[i]->waiting != NOTHING);
            if (waits) refuse_parting(all);
        }
    }
}

/* ---- Calls from kernels --------------------------------------------------------------------------------------------------- */

static void wait_block(void) {
    grid.arrived[grid.seen.rank]++;
    pause_for(BLOCK);
}

/* The last thread to arrive wakes the others. */
static void wait_named(int name, int count) {
    struct thread *t = self();
    int rank = grid.seen.rank, first = rank * grid.count, *arrived = &grid.arrived_named[rank][name & (NAMED - 1)];
    if (name < 0 || name >= NAMED) refuse("waits at barrier %d of %d", name, NAMED);
    t->name = name;
    if (++*arrived < count) {
        pause_for(NAMED_BARRIER);
        return;
    }
    *arrived = 0;
    for (int i = first; i < first + grid.count; i++) {
        if (threads[i]->waiting == NAMED_BARRIER && threads[i]->name == name) threads[i]->waiting = NOTHING;
    }
    grid.epoch[rank] = ++grid.last_epoch;
}

static void wait_cluster(void) {
    grid.arrived_cluster++;
    pause_for(CLUSTER);
}

/* The last lane of the team to arrive wakes the others. */
static void meet(unsigned team, const void *mine, size_t size) {
    struct thread *t = self();
    int warp = grid.current - lane_of(grid.current);
    if (!(team >> lane_of(grid.current) & 1)) refuse("meets lanes %#x, of which it is none", team);
    if (size > SHOWN) refuse("shows %zu bytes", size);
    t->parity = !t->parity;
    memcpy(t->shows[t->parity], mine, size);
    t->team = team;
    unsigned parities = 0;
    bool all = true;
    for (int lane = 0; lane < 32; lane++) {
        if (!(team >> lane & 1)) continue;
        if (warp + lane >= grid.count * (grid.seen.rank + 1)) refuse("meets lane %d, which the warp has not", lane);
        const struct thread *other = threads[warp + lane];
        all = all && (other == t || (other->waiting == WARP && other->team == team));
        parities |= (unsigned)other->parity << lane;
    }
    if (!all) {
        pause_for(WARP);
        return;
    }
    for (int lane = 0; lane < 32; lane++) {
        if (!(team >> lane & 1)) continue;
        threads[warp + lane]->parities = parities;
        threads[warp + lane]->waiting = NOTHING;
    }
}

static const void *shown(int lane) {
    int warp = grid.current - lane_of(grid.current);
    return threads[warp + lane]->shows[self()->parities >> lane & 1];
}

static void sync_warp(unsigned team) {
    meet(team, "", 0);
    self()->syncs++;
}

static void do_copy(const struct copy *c) {
    if (c->valid) memcpy(c->to, c->from, c->valid);
    memset(c->to + c->valid, 0, c->size - c->valid);
}

static void copy_later(char *to, const char *from, size_t size, size_t valid) {
    struct thread *t = self();
    const struct copy c = {to, from, size, valid};
    access_memory(to, size, EMULATED_WRITE | EMULATED_ALIGNED);
    if (valid) access_memory(from, valid, valid == size ? EMULATED_ALIGNED : 0);
    if (!grid.options.late) {
        do_copy(&c);
        return;
    }
    if (t->n_copies == MOST_COPIES) refuse("has more than %d copies under way", MOST_COPIES);
    t->copies[t->n_copies++] = c;
}

static void close_copies(void) {
    struct thread *t = self();
    if (t->n_groups == MOST_GROUPS) refuse("has more than %d groups of copies under way", MOST_GROUPS);
    t->groups[t->n_groups++] = t->n_copies;
}

static void wait_copies(int left) {
    struct thread *t = self();
    if ((int)t->n_groups <= left) return;
    unsigned ended = t->n_groups - (unsigned)left, copies = t->groups[ended - 1];
    for (unsigned i = 0; i < copies; i++) {
        access_memory(t->copies[i].to, t->copies[i].size, EMULATED_WRITE);
        do_copy(&t->copies[i]);
    }
    memmove(t->copies, t->copies + copies, (t->n_copies - copies) * sizeof *t->copies);
    t->n_copies -= copies;
    for (unsigned i = ended; i < t->n_groups; i++)
        t->groups[i - ended] = t->groups[i] - copies;
    t->n_groups -= ended;
}

/* __shared__ variables come first, as the CUDA compiler lays them out, then dynamic shared memory. */
static unsigned dynamic_begin(void) {
    unsigned variables = (unsigned)(grid.variables.end - grid.variables.begin),
             by = (unsigned)grid.launch->kernel->alignment;
    return SHARED_BEGIN + (variables + by - 1) / by * by;
}

static unsigned shared_address(const void *where) {
    const char *at = where;
    if (lies_in(&grid.dynamic[grid.seen.rank], at, 0))
        return dynamic_begin() + (unsigned)(at - grid.dynamic[grid.seen.rank].begin);
    if (!lies_in(&grid.variables, at, 0)) refuse("takes an address for one of shared memory that is not");
    return SHARED_BEGIN + (unsigned)(at - grid.variables.begin);
}

static unsigned map_rank(unsigned address, int rank) {
    if (rank < 0 || rank >= grid.ranks) refuse("looks for block %d of a cluster of %d", rank, grid.ranks);
    return (address & ((1u << RANK_BITS) - 1)) | (unsigned)(rank + 1) << RANK_BITS;
}

static char *shared_at(unsigned address, size_t size, int how) {
    unsigned other = address >> RANK_BITS, place = address & ((1u << RANK_BITS) - 1);
    if (other > 0 && (int)other - 1 != grid.seen.rank) {
        struct region *r = &grid.dynamic[other - 1];
        char *at = r->begin + ((long long)place - dynamic_begin());
        if (!lies_in(r, at, size)) refuse_address(at, size, how & EMULATED_WRITE);
        return at;
    }
    const struct region *variables = &grid.variables;
    char *at = place >= dynamic_begin() ? grid.dynamic[grid.seen.rank].begin + (place - dynamic_begin())
                                        : variables->begin + ((long long)place - SHARED_BEGIN);
    access_memory(at, size, how);
    return at;
}

/* Not checked for races: barriers are accessed only through these functions. */
static struct round *round_at(unsigned barrier) {
    unsigned place = barrier & ((1u << RANK_BITS) - 1), other = barrier >> RANK_BITS;
    struct region *r = &grid.dynamic[other > 0 ? (int)other - 1 : grid.seen.rank];
    char *at = r->begin + ((long long)place - dynamic_begin());
    _Static_assert(sizeof(struct round) == 8, "what a barrier has of shared memory");
    if (place % 8 != 0) refuse("has a barrier at %u, no multiple of 8", place);
    if (!lies_in(r, at, sizeof(struct round))) refuse_address(at, sizeof(struct round), true);
    return (struct round *)(void *)at;
}

static void start_round(unsigned barrier, unsigned arrivals) {
    *round_at(barrier) = (struct round){.arrivals = (uint16_t)arrivals, .missing = (uint16_t)arrivals};
}

static void arrive(unsigned barrier, unsigned bytes) {
    struct round *r = round_at(barrier);
    if (r->missing == 0 || r->arrivals == 0) refuse("arrives at a barrier that waits for nobody");
    r->bytes += (int32_t)bytes;
    r->missing--;
    end_round(r);
}

/* A round has ended when the current one has the other parity. */
static void wait_round(unsigned barrier, unsigned parity) {
    struct thread *t = self();
    t->round = round_at(barrier);
    t->round_parity = parity & 1;
    if (t->round->arrivals == 0) refuse("waits at a barrier that was never started");
    if (t->round->parity == t->round_parity) pause_for(ROUND);
}

static void start_box(struct box *b, unsigned to, const void *map, unsigned barrier) {
    b->round = round_at(barrier);
    memcpy(&b->map, map, sizeof b->map);
    if (b->map.magic != FAKE_TENSOR_MAP) refuse("uses a tensor map that was never encoded");
    if (to % 128 != 0) refuse("brings a box to %u, no multiple of 128", to);
    size_t size = (size_t)b->map.box_lines * b->map.swizzle, lines = b->map.lines;
    for (uint32_t i = 0; i < b->map.axes; i++)
        lines *= b->map.sizes[i];
    size_t matrix = (lines - 1) * b->map.pitch + b->map.width * b->map.element;
    if (b->map.box_width * b->map.element != b->map.swizzle) refuse("brings a box that is narrower than its pattern");
    struct region *r = &grid.dynamic[grid.seen.rank];
    b->to = r->begin + ((long long)to - dynamic_begin());
    if (!lies_in(r, b->to, size)) refuse_address(b->to, size, true);
    const char *from = (const char *)(uintptr_t)b->map.memory;
    if (!region_of(from, matrix)) refuse_address(from, matrix, false);
    if (!grid.options.late) {
        bring_box(b);
        return;
    }
    if (grid.n_boxes == MOST_BOXES) refuse("has more than %d boxes under way", MOST_BOXES);
    grid.boxes[grid.n_boxes++] = *b;
}

static void bring(unsigned to, const void *map, int x, int y, bool dealt, unsigned barrier) {
    struct box b = {.x = x, .y = y};
    start_box(&b, to, map, barrier);
    if (b.map.dealt != dealt) refuse("brings a matrix by a map of another order of lines");
    if (b.map.axes) refuse("brings a matrix by a map of windows");
}

static void bring_windows(unsigned to, const void *map, int channel, const int *at, const int *tap, unsigned barrier) {
    struct box b = {.x = channel};
    uint32_t axes;
    memcpy(&axes, (const char *)map + offsetof(struct fake_tensor_map, axes), sizeof axes);
    if (axes != 2 && axes != 3) refuse("brings windows by a map of a matrix");
    memcpy(b.at, at, (axes + 1) * sizeof *at);
    memcpy(b.tap, tap, axes * sizeof *tap);
    start_box(&b, to, map, barrier);
}

/* ---- Launches ------------------------------------------------------------------------------------------------------------- */

static void place_shared(const struct emulated_launch *l) {
    static char *memory[MOST_RANKS];
    for (int rank = 0; rank < grid.ranks; rank++) {
        if (!memory[rank]) {
            memory[rank] = aligned_alloc(1024, MOST_SHARED + 1024);
            grid.kept[rank] = aligned_alloc(1024, MOST_STATIC);
            if (!memory[rank] || !grid.kept[rank]) abort();
        }
        drop_cells(&grid.dynamic[rank]);
        grid.dynamic[rank] = (struct region){memory[rank], memory[rank] + l->shared, "dynamic shared memory", NULL};
    }
    drop_cells(&grid.variables);
    grid.variables = (struct region){l->kernel->shared, l->kernel->shared_end, "the shared variables", NULL};
}

static void begin_launch(const struct emulated_launch *l, const struct emulator_options *options) {
    grid.launch = l;
    grid.options = *options;
    grid.count = l->threads;
    grid.ranks = l->kernel->cluster > 1 ? l->kernel->cluster : 1;
    grid.launch_epoch = ++grid.last_epoch;
    memset(grid.arrived, 0, sizeof grid.arrived);
    memset(grid.arrived_named, 0, sizeof grid.arrived_named);
    grid.arrived_cluster = 0;
    grid.seen = (struct emulator){.blocks = l->blocks,
                                  .access = access_memory,
                                  .refuse = refuse,
                                  .wait_block = wait_block,
                                  .wait_named = wait_named,
                                  .wait_cluster = wait_cluster,
                                  .meet = meet,
                                  .shown = shown,
                                  .sync_warp = sync_warp,
                                  .copy = copy_later,
                                  .close_copies = close_copies,
                                  .wait_copies = wait_copies,
                                  .shared_address = shared_address,
                                  .map_rank = map_rank,
                                  .shared_at = shared_at,
                                  .start_round = start_round,
                                  .arrive = arrive,
                                  .wait_round = wait_round,
                                  .bring = bring,
                                  .bring_windows = bring_windows};
    *l->object->emulator = &grid.seen;
    place_shared(l);
    for (int i = 0; i < grid.count * grid.ranks; i++)
        create_coroutine(i);
}

static const char *refusal(const struct emulated_launch *l) {
    size_t variables = (size_t)(l->kernel->shared_end - l->kernel->shared);
    if (l->threads < 1 || l->threads > MOST_THREADS || l->threads != l->kernel->threads) return "its threads";
    if (l->kernel->cluster > MOST_RANKS || l->threads * (l->kernel->cluster + 1) > MOST_COROUTINES)
        return "its cluster";
    if (l->kernel->cluster > 1 && l->blocks % l->kernel->cluster != 0) return "a cluster that is not whole";
    return variables > MOST_STATIC || l->shared + variables > MOST_SHARED ? "its shared memory" : NULL;
}

const char *emulator_run(const struct emulated_launch *l, const struct emulator_options *options) {
    const char *reason = refusal(l);
    if (reason) {
        snprintf(grid.message, sizeof grid.message, "kernel '%s' cannot be launched: %s", l->name, reason);
        return grid.message;
    }
    begin_launch(l, options);
    if (_setjmp(grid.refused)) {
        for (int i = 0; i < MOST_COROUTINES && threads[i]; i++)
            threads[i]->begun = false;
        return grid.message;
    }
    for (int b = 0; b < l->blocks; b += grid.ranks)
        run_blocks(options->backwards ? l->blocks - grid.ranks - b : b);
    return NULL;
}
