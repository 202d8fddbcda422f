/* See grid.h. Where a part polls memory, others get a turn: further blocks of its grid, and grids of other threads. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "emulator/part.h"
#include "emulator/turn.h"

struct part *parts[MOST_PARTS], *part;
static uint32_t last_epoch; /* of all parts, without the part's number */

static uint32_t new_epoch(void) {
    return ++last_epoch << PART_BITS | part->number;
}

/* Of functions in which threads go on: callers must not rely on the registers that they see used there. */
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

APART __attribute__((noreturn)) static void go_to(resumption to) {
    __builtin_longjmp(to, 1);
}

void part_refuse(const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(part->run->message, EMULATOR_MESSAGE, "kernel '%s', block %d, thread %d: %s", part->launch->name,
             part->seen.block, part->seen.thread, what);
    go_to(part->run->refused);
}

/* Kernels trap where they compute what has no value. */
static void take_trap(int signal, siginfo_t *info, void *context) {
    const char *at = info->si_addr;
    (void)context;
    if (part && part->run && at >= part->launch->object->begin && at < part->launch->object->end)
        part_refuse("uses an index beyond its array, or an integer overflows or is divided by zero: "
                    "EMULATOR=places says where");
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); /* ends the process when it is tried again */
}

/* ---- Scheduling --------------------------------------------------------------------------------------------------------- */

APART static void pause_for(enum wait what) {
    struct thread *t = self();
    t->waiting = what;
    if (!__builtin_setjmp(t->at)) go_to(part->scheduler);
}

/* A coroutine is reused: it runs the same thread of one block after another. */
static void live(void) {
    for (;;) {
        part->launch->kernel->start(part->launch->parameters);
        self()->done = true;
        pause_for(NOTHING);
    }
}

/* Stacks do not all begin at a multiple of a large power of two: a cache has room for few such addresses. */
static void create_coroutine(int i) {
    if (part->stacks[i]) return;
    const size_t away = (size_t)i % STACK_PLACES * STACK_STEP;
    void *memory = mmap(NULL, EMULATED_STACK + STACK_PLACES * STACK_STEP, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    part->threads[i] = calloc(1, sizeof(struct thread));
    if (memory == MAP_FAILED || !part->threads[i]) abort();
    part->threads[i]->copies = calloc(MOST_COPIES, sizeof *part->threads[i]->copies);
    if (!part->threads[i]->copies) abort();
    part->stacks[i] = (char *)memory + away;
}

static void begin_coroutine(int i) {
    ucontext_t context, unused;
    getcontext(&context);
    context.uc_stack.ss_sp = part->stacks[i];
    context.uc_stack.ss_size = EMULATED_STACK;
    makecontext(&context, live, 0);
    part->threads[i]->begun = true;
    swapcontext(&unused, &context);
}

/* The blocks of a cluster run concurrently, but there is one instance of the __shared__ variables: swaps in those of
 * `rank`. */
static void load_variables(int rank) {
    size_t size = (size_t)(part->variables.end - part->variables.begin);
    if (part->loaded == rank || size == 0) return;
    memcpy(part->kept[part->loaded], part->variables.begin, size);
    memcpy(part->variables.begin, part->kept[rank], size);
    part->loaded = rank;
}

static void become(int i) {
    int rank = i / part->count;
    part->current = i;
    part->seen.thread = i % part->count;
    part->seen.rank = rank;
    part->seen.stack = part->stacks[i];
    part->seen.block = part->seen.block / part->ranks * part->ranks + rank;
    part->seen.shared = part->dynamic[rank].begin;
    load_variables(rank);
}

APART static void resume(int i) {
    become(i);
    part->threads[i]->waiting = NOTHING;
    if (__builtin_setjmp(part->scheduler)) return;
    if (part->threads[i]->begun) go_to(part->threads[i]->at);
    begin_coroutine(i);
}

/* Wakes the threads that wait for `what`, and begins a new epoch for their blocks. */
static void release(int from, int end, enum wait what) {
    for (int i = from; i < end; i++) {
        if (part->threads[i]->waiting == what) part->threads[i]->waiting = NOTHING;
    }
    for (int rank = from / part->count; rank * part->count < end; rank++)
        part->epoch[rank] = new_epoch();
}

/* Wakes threads whose round has ended; returns whether there were any. */
static bool release_rounds(void) {
    bool any = false;
    for (int i = 0; i < part->count * part->ranks; i++) {
        struct thread *t = part->threads[i];
        if (t->done || t->waiting != ROUND || t->round->parity == t->round_parity) continue;
        t->waiting = NOTHING;
        any = true;
    }
    return any;
}

/* Returns whether it has ended. */
static bool end_round(struct round *r) {
    if (r->missing > 0 || r->bytes > 0) return false;
    r->parity = !r->parity;
    r->missing = r->arrivals;
    return true;
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

/* Where the pixel of a patch lies, in bytes; -1: outside. */
static int64_t place_of(const struct fake_tensor_map *m, const int *at) {
    if (at[0] < 0 || at[1] < 0 || at[2] < 0) return -1;
    if ((uint32_t)at[0] >= m->sizes[0] || (uint32_t)at[1] >= m->sizes[1] || (uint64_t)at[2] >= m->lines) return -1;
    return at[0] * (int64_t)m->pitch + at[1] * (int64_t)m->apart[0] + at[2] * (int64_t)m->apart[1];
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

/* Goes on to the next pixel of a patch that begins at `first`. */
static void go_on(const struct fake_tensor_map *m, const int *first, int *at) {
    at[0] += (int)m->steps[0];
    if (at[0] < first[0] + (int)(m->patch[0] * m->steps[0])) return;
    at[0] = first[0];
    at[1] += (int)m->steps[1];
}

/* Copies element by element, swizzled; elements outside the matrix are zero. */
static void bring_box(const struct box *b) {
    const struct fake_tensor_map *m = &b->map;
    if (b->from) {
        memcpy(b->to, b->from, b->size);
        b->round->bytes -= (int32_t)b->size;
        end_round(b->round);
        return;
    }
    int window[4];
    memcpy(window, b->at, sizeof window);
    for (uint32_t line = 0; line < m->box_lines; line++) {
        int64_t place = m->dealt ? line / 32 * 32 + line % 8 / 2 * 8 + line % 32 / 8 * 2 + line % 2 : line;
        int64_t y = m->patch[0] ? place_of(m, window) : m->axes ? pixel_of(b, window) : b->y + place;
        int64_t lines = m->axes ? INT64_MAX : (int64_t)m->lines, pitch = m->patch[0] ? 1 : (int64_t)m->pitch;
        if (m->patch[0])
            go_on(m, b->at, window);
        else if (m->axes)
            advance(m, window);
        for (uint32_t i = 0; i < m->box_width; i++) {
            int64_t x = (int64_t)b->x + i;
            size_t at = (size_t)line * m->swizzle + i * m->element;
            char *to = b->to + (at ^ ((uintptr_t)(b->to + at) >> 7 & (m->swizzle / 16 - 1)) << 4);
            bool inside = x >= 0 && y >= 0 && x < (int64_t)m->width && y < lines;
            const char *from = (const char *)(uintptr_t)m->memory + (inside ? y * pitch + x * m->element : 0);
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
    if (part->n_boxes == 0) return false;
    const struct box first = part->boxes[0];
    memmove(part->boxes, part->boxes + 1, --part->n_boxes * sizeof first);
    bring_box(&first);
    return true;
}

static void release_barriers(void) {
    int all = part->count * part->ranks;
    for (int rank = 0; rank < part->ranks; rank++) {
        if (part->arrived[rank] < part->count) continue;
        part->arrived[rank] = 0;
        part->brought[rank] = part->brings[rank];
        part->brings[rank] = 0;
        release(rank * part->count, (rank + 1) * part->count, BLOCK);
    }
    if (part->arrived_cluster < all) return;
    part->arrived_cluster = 0;
    release(0, all, CLUSTER);
}

static void refuse_parting(int all) {
    int ended = 0;
    for (int i = 0; i < all; i++)
        ended += part->threads[i]->done;
    for (int i = 0; i < all; i++) {
        if (part->threads[i]->done) continue;
        become(i);
        static const char *const names[] = {
            "", "", "the block", "the cluster", "its warp", "some threads", "the end of a round"};
        part_refuse("waits for %s forever: %d of %d threads have ended, the others wait elsewhere",
                    names[part->threads[i]->waiting], ended, all);
    }
}

static void clear_threads(void) {
    for (int i = 0; i < part->count * part->ranks; i++) {
        struct thread *t = part->threads[i];
        t->done = false;
        t->waiting = NOTHING;
        t->syncs = 0;
        t->come = 0;
        t->n_copies = t->n_groups = 0;
        part->n_boxes = 0;
    }
}

static void clear_shared(void) {
    for (int rank = 0; rank < part->ranks; rank++) {
        struct region *r = &part->dynamic[rank];
        memset(r->begin, 0xff, (size_t)(r->end - r->begin));
        part->epoch[rank] = new_epoch();
        part->copies[rank] = false;
        if (part->ranks > 1) memset(part->kept[rank], 0xff, MOST_STATIC);
    }
    if (part->variables.begin)
        memset(part->variables.begin, 0xff, (size_t)(part->variables.end - part->variables.begin));
    part->loaded = 0;
    part->block_epoch = part->epoch[0];
}

/* Of one cluster, or one block: those from number `first` that run together. */
static void begin_blocks(int first) {
    part->seen.block = first;
    clear_threads();
    clear_shared();
}

/* Of one pass over the threads: those that have not ended; did one run, and does one poll? */
struct pass {
    int left;
    bool progress, polls;
};

static struct pass resume_all(int all) {
    struct pass pass = {0};
    for (int n = 0; n < all; n++) {
        int i = part->options.backwards ? all - 1 - n : n;
        const struct thread *t = part->threads[i];
        if (!t->done && t->waiting <= POLLING) {
            resume(i);
            pass.progress = true;
            pass.polls = pass.polls || t->waiting == POLLING;
        }
        pass.left += !t->done;
    }
    return pass;
}

/* Runs the part's blocks until they have ended; returns false if they poll, for others to get a turn. */
static bool run_blocks(void) {
    int all = part->count * part->ranks;
    for (;;) {
        struct pass pass = resume_all(all);
        if (pass.left == 0) return true;
        release_barriers();
        bool any = release_rounds();
        if ((!any && !pass.progress) || pass.polls) any = bring_first() || any;
        if (any) release_rounds();
        if (pass.polls) return false;
        if (any || pass.progress) continue;
        bool waits = true;
        for (int i = 0; i < all; i++)
            waits = waits && (part->threads[i]->done || part->threads[i]->waiting > POLLING);
        if (waits) refuse_parting(all);
    }
}

/* ---- Calls from kernels --------------------------------------------------------------------------------------------------- */

static void wait_block(void) {
    part->arrived[part->seen.rank]++;
    pause_for(BLOCK);
}

static int wait_block_any(int value) {
    part->brings[part->seen.rank] |= value != 0;
    wait_block();
    return part->brought[part->seen.rank];
}

/* The last thread to arrive wakes the others. */
static void wait_named(int name, int count) {
    struct thread *t = self();
    int rank = part->seen.rank, first = rank * part->count, *arrived = &part->arrived_named[rank][name & (NAMED - 1)];
    if (name < 0 || name >= NAMED) part_refuse("waits at barrier %d of %d", name, NAMED);
    t->name = name;
    if (++*arrived < count) {
        pause_for(NAMED_BARRIER);
        return;
    }
    *arrived = 0;
    for (int i = first; i < first + part->count; i++) {
        if (part->threads[i]->waiting == NAMED_BARRIER && part->threads[i]->name == name)
            part->threads[i]->waiting = NOTHING;
    }
    part->epoch[rank] = new_epoch();
}

static void wait_cluster(void) {
    part->arrived_cluster++;
    pause_for(CLUSTER);
}

/* Has each lane of the team come to meet this team? Nearly always the lanes alone tell that one has not. */
static bool all_meet(int warp, unsigned team) {
    if (team & ~part->threads[warp]->come) return false;
    for (unsigned left = team; left; left &= left - 1) {
        if (part->threads[warp + __builtin_ctz(left)]->team != team) return false;
    }
    return true;
}

/* The last lane of the team to arrive wakes the others. */
static void meet(unsigned team, const void *mine, size_t size) {
    struct thread *t = self();
    int lane = part->seen.thread % 32, warp = part->current - lane, lanes = part->count - part->seen.thread + lane;
    unsigned parities = 0;
    if (!(team >> lane & 1)) part_refuse("meets lanes %#x, of which it is none", team);
    if (lanes < 32 && team >> lanes)
        part_refuse("meets lane %d, which the warp has not", lanes + __builtin_ctz(team >> lanes));
    if (size > SHOWN) part_refuse("shows %zu bytes", size);
    t->parity = !t->parity;
    memcpy(t->shows[t->parity], mine, size);
    t->team = team;
    part->threads[warp]->come |= 1u << lane;
    if (!all_meet(warp, team)) {
        pause_for(WARP);
        return;
    }
    part->threads[warp]->come &= ~team;
    for (unsigned left = team; left; left &= left - 1)
        parities |= (unsigned)part->threads[warp + __builtin_ctz(left)]->parity << __builtin_ctz(left);
    for (unsigned left = team; left; left &= left - 1) {
        struct thread *other = part->threads[warp + __builtin_ctz(left)];
        other->parities = parities;
        other->waiting = NOTHING;
    }
}

static const void *shown(int lane) {
    int warp = part->current - part->seen.thread % 32;
    return part->threads[warp + lane]->shows[self()->parities >> lane & 1];
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
    part->copies[part->seen.rank] = true;
    memory_access(to, size, EMULATED_WRITE | EMULATED_ALIGNED);
    if (valid) memory_access(from, valid, valid == size ? EMULATED_ALIGNED : 0);
    if (!part->options.late) {
        do_copy(&c);
        return;
    }
    if (t->n_copies == MOST_COPIES) part_refuse("has more than %d copies under way", MOST_COPIES);
    t->copies[t->n_copies++] = c;
}

static void close_copies(void) {
    struct thread *t = self();
    if (t->n_groups == MOST_GROUPS) part_refuse("has more than %d groups of copies under way", MOST_GROUPS);
    t->groups[t->n_groups++] = t->n_copies;
}

static void wait_copies(int left) {
    struct thread *t = self();
    if ((int)t->n_groups <= left) return;
    unsigned ended = t->n_groups - (unsigned)left, copies = t->groups[ended - 1];
    for (unsigned i = 0; i < copies; i++) {
        memory_access(t->copies[i].to, t->copies[i].size, EMULATED_WRITE);
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
    unsigned variables = (unsigned)(part->variables.end - part->variables.begin),
             by = (unsigned)part->launch->kernel->alignment;
    return SHARED_BEGIN + (variables + by - 1) / by * by;
}

static unsigned shared_address(const void *where) {
    const char *at = where;
    if (lies_in(&part->dynamic[part->seen.rank], at, 0))
        return dynamic_begin() + (unsigned)(at - part->dynamic[part->seen.rank].begin);
    if (!lies_in(&part->variables, at, 0)) part_refuse("takes an address for one of shared memory that is not");
    return SHARED_BEGIN + (unsigned)(at - part->variables.begin);
}

static unsigned map_rank(unsigned address, int rank) {
    if (rank < 0 || rank >= part->ranks) part_refuse("looks for block %d of a cluster of %d", rank, part->ranks);
    return (address & ((1u << RANK_BITS) - 1)) | (unsigned)(rank + 1) << RANK_BITS;
}

static char *shared_at(unsigned address, size_t size, int how) {
    unsigned other = address >> RANK_BITS, place = address & ((1u << RANK_BITS) - 1);
    if (other > 0 && (int)other - 1 != part->seen.rank) {
        struct region *r = &part->dynamic[other - 1];
        char *at = r->begin + ((long long)place - dynamic_begin());
        if (!lies_in(r, at, size)) memory_refuse(at, size, how & EMULATED_WRITE);
        return at;
    }
    const struct region *variables = &part->variables;
    char *at = place >= dynamic_begin() ? part->dynamic[part->seen.rank].begin + (place - dynamic_begin())
                                        : variables->begin + ((long long)place - SHARED_BEGIN);
    memory_access(at, size, how);
    return at;
}

/* Not checked for races: barriers are accessed only through these functions. */
static struct round *round_at(unsigned barrier) {
    unsigned place = barrier & ((1u << RANK_BITS) - 1), other = barrier >> RANK_BITS;
    struct region *r = &part->dynamic[other > 0 ? (int)other - 1 : part->seen.rank];
    char *at = r->begin + ((long long)place - dynamic_begin());
    _Static_assert(sizeof(struct round) == 8, "what a barrier has of shared memory");
    if (place % 8 != 0) part_refuse("has a barrier at %u, no multiple of 8", place);
    if (!lies_in(r, at, sizeof(struct round))) memory_refuse(at, sizeof(struct round), true);
    return (struct round *)(void *)at;
}

static void start_round(unsigned barrier, unsigned arrivals) {
    *round_at(barrier) = (struct round){.arrivals = (uint16_t)arrivals, .missing = (uint16_t)arrivals};
}

/* In blocks whose threads copy by themselves (cp.async), a round that an arrival ends orders what threads did before it and do after
 * it, as a barrier of the block does: for all of them, which forgives some races of those that did not arrive. What the copy engine
 * brings is not checked, and needs no order. */
static void arrive(unsigned barrier, unsigned bytes) {
    struct round *r = round_at(barrier);
    int other = (int)(barrier >> RANK_BITS), rank = other > 0 ? other - 1 : part->seen.rank;
    if (r->missing == 0 || r->arrivals == 0) part_refuse("arrives at a barrier that waits for nobody");
    r->bytes += (int32_t)bytes;
    r->missing--;
    if (end_round(r) && part->copies[rank]) part->epoch[rank] = new_epoch();
}

/* A round has ended when the current one has the other parity. */
static void wait_round(unsigned barrier, unsigned parity) {
    struct thread *t = self();
    t->round = round_at(barrier);
    t->round_parity = parity & 1;
    if (t->round->arrivals == 0) part_refuse("waits at a barrier that was never started");
    if (t->round->parity == t->round_parity) pause_for(ROUND);
}

static void enqueue_box(const struct box *b) {
    if (!part->options.late) {
        bring_box(b);
        return;
    }
    if (part->n_boxes == MOST_BOXES) part_refuse("has more than %d boxes under way", MOST_BOXES);
    part->boxes[part->n_boxes++] = *b;
}

static void bring_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier) {
    struct region *r = &part->dynamic[part->seen.rank];
    struct box b = {.round = round_at(barrier), .from = from, .size = bytes};
    if (to % 16 != 0 || (uintptr_t)from % 16 != 0 || bytes % 16 != 0 || bytes == 0)
        part_refuse("brings %u bytes to %u from %p, which are not all multiples of 16", bytes, to, from);
    b.to = r->begin + ((long long)to - dynamic_begin());
    if (!lies_in(r, b.to, bytes)) memory_refuse(b.to, bytes, true);
    if (!memory_region(from, bytes)) memory_refuse(from, bytes, false);
    enqueue_box(&b);
}

static void end_rounds(unsigned barrier) {
    struct round *r = round_at(barrier);
    if (r->arrivals == 0 || r->missing != r->arrivals || r->bytes != 0) part_refuse("ends a barrier that is in use");
    *r = (struct round){0};
}

static void start_box(struct box *b, unsigned to, const void *map, unsigned barrier) {
    b->round = round_at(barrier);
    memcpy(&b->map, map, sizeof b->map);
    if (b->map.magic != FAKE_TENSOR_MAP) part_refuse("uses a tensor map that was never encoded");
    if (to % 128 != 0) part_refuse("brings a box to %u, no multiple of 128", to);
    size_t size = (size_t)b->map.box_lines * b->map.swizzle, lines = b->map.lines;
    for (uint32_t i = 0; i < b->map.axes; i++)
        lines *= b->map.sizes[i];
    size_t matrix = (lines - 1) * b->map.pitch + b->map.width * b->map.element;
    if (b->map.patch[0]) {
        const int last[3] = {(int)b->map.sizes[0] - 1, (int)b->map.sizes[1] - 1, (int)b->map.lines - 1};
        matrix = (size_t)place_of(&b->map, last) + b->map.width * b->map.element;
    }
    if (b->map.box_width * b->map.element != b->map.swizzle)
        part_refuse("brings a box that is narrower than its pattern");
    struct region *r = &part->dynamic[part->seen.rank];
    b->to = r->begin + ((long long)to - dynamic_begin());
    if (!lies_in(r, b->to, size)) memory_refuse(b->to, size, true);
    const char *from = (const char *)(uintptr_t)b->map.memory;
    if (!memory_region(from, matrix)) memory_refuse(from, matrix, false);
    enqueue_box(b);
}

static void bring(unsigned to, const void *map, int x, int y, bool dealt, unsigned barrier) {
    struct box b = {.x = x, .y = y};
    start_box(&b, to, map, barrier);
    if (b.map.dealt != dealt) part_refuse("brings a matrix by a map of another order of lines");
    if (b.map.axes) part_refuse("brings a matrix by a map of windows");
}

static void bring_windows(unsigned to, const void *map, int channel, const int *at, const int *tap, unsigned barrier) {
    struct box b = {.x = channel};
    uint32_t axes;
    memcpy(&axes, (const char *)map + offsetof(struct fake_tensor_map, axes), sizeof axes);
    if (axes != 2 && axes != 3) part_refuse("brings windows by a map of a matrix");
    memcpy(b.at, at, (axes + 1) * sizeof *at);
    memcpy(b.tap, tap, axes * sizeof *tap);
    start_box(&b, to, map, barrier);
    if (b.map.patch[0]) part_refuse("brings windows by a map of patches");
}

static void bring_patch(unsigned to, const void *map, int channel, bool joined, const int *at, unsigned barrier) {
    struct box b = {.x = joined ? 0 : channel};
    struct fake_tensor_map m;
    memcpy(&m, map, sizeof m);
    if (m.axes != 2 || !m.patch[0] || m.joined != joined) part_refuse("brings a patch by a map of something else");
    memcpy(b.at, at, 3 * sizeof *at);
    if (joined && channel % (int)m.width != 0) part_refuse("brings a patch that begins within a pixel");
    if (joined) b.at[0] += channel / (int)m.width;
    start_box(&b, to, map, barrier);
}

/* ---- Memory that several grids access at once --------------------------------------------------------------------------------------- */

static void poll(void) {
    pause_for(POLLING);
}

/* Before each load others get a turn. Not checked for races: grids and the host synchronise by these. */
static void load(const void *from, void *to, size_t size, int count) {
    poll();
    memory_access(from, size * (size_t)count, EMULATED_ALIGNED | EMULATED_ATOMIC);
    for (int i = 0; i < count; i++) {
        if (size == 8)
            ((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_ACQUIRE);
        else
            ((uint32_t *)to)[i] = __atomic_load_n((const uint32_t *)from + i, __ATOMIC_ACQUIRE);
    }
}

/* The words of a vector are stored in either order, and others may see one without the other. */
static void store(void *to, const void *from, size_t size, int count) {
    for (int n = 0; n < count; n++) {
        int i = part->options.backwards ? count - 1 - n : n;
        if (n > 0) poll();
        memory_access(to, size * (size_t)count, EMULATED_WRITE | EMULATED_ALIGNED | EMULATED_ATOMIC);
        if (size == 8)
            __atomic_store_n((uint64_t *)to + i, ((const uint64_t *)from)[i], __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint32_t *)to + i, ((const uint32_t *)from)[i], __ATOMIC_RELEASE);
    }
}

static unsigned long long time_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

/* ---- Launches ------------------------------------------------------------------------------------------------------------- */

/* Shared memory keeps its cells: what an earlier launch did was in other epochs, and new cells are slow at first. */
static void set_region(struct region *r, char *begin, char *end, size_t most, const char *name) {
    *r = (struct region){begin, end, name, most, r->cells};
}

static void place_shared(const struct emulated_launch *l) {
    for (int rank = 0; rank < part->ranks; rank++) {
        if (!part->memory[rank]) {
            part->memory[rank] = aligned_alloc(1024, MOST_SHARED + 1024);
            part->kept[rank] = aligned_alloc(1024, MOST_STATIC);
            if (!part->memory[rank] || !part->kept[rank]) abort();
        }
        char *begin = part->memory[rank];
        set_region(&part->dynamic[rank], begin, begin + l->shared, MOST_SHARED, "dynamic shared memory");
    }
    set_region(&part->variables, l->kernel->shared, l->kernel->shared_end, MOST_STATIC, "the shared variables");
}

/* Of `part`, for its first block. */
static void prepare_part(struct run *run) {
    const struct emulated_launch *l = run->launch;
    part->run = run;
    part->launch = l;
    part->options = run->options;
    part->count = l->threads;
    part->ranks = l->kernel->cluster > 1 ? l->kernel->cluster : 1;
    part->taken = new_epoch();
    part->busy = false;
    part->loaded = 0;
    memset(part->arrived, 0, sizeof part->arrived);
    memset(part->brings, 0, sizeof part->brings);
    memset(part->arrived_named, 0, sizeof part->arrived_named);
    part->arrived_cluster = 0;
    part->seen = (struct emulator){.blocks = l->blocks,
                                   .access = memory_access,
                                   .refuse = part_refuse,
                                   .wait_block = wait_block,
                                   .wait_block_any = wait_block_any,
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
                                   .end_rounds = end_rounds,
                                   .bring_bytes = bring_bytes,
                                   .wait_round = wait_round,
                                   .bring = bring,
                                   .bring_windows = bring_windows,
                                   .bring_patch = bring_patch,
                                   .poll = poll,
                                   .load = load,
                                   .store = store,
                                   .time = time_now};
    place_shared(l);
    for (int i = 0; i < part->count * part->ranks; i++)
        create_coroutine(i);
}

/* Epochs begin anew before their numbers end, when no cell that holds one is needed. */
static void renew_epochs(void) {
    if (last_epoch < UINT32_MAX >> (PART_BITS + 1)) return;
    for (int i = 0; i < MOST_PARTS; i++) {
        if (parts[i] && parts[i]->run) return;
    }
    memory_drop_all();
    last_epoch = 0;
}

/* Returns false if the grid has all the parts that it may have or needs, or others have them. */
static bool add_part(struct run *run) {
    uint32_t number = 0;
    if (run->n_parts == MOST_RESIDENT || run->begun == run->launch->blocks) return false;
    renew_epochs();
    while (number < MOST_PARTS && parts[number] && parts[number]->run)
        number++;
    if (number == MOST_PARTS) return false;
    if (!parts[number]) parts[number] = calloc(1, sizeof *parts[number]);
    if (!parts[number]) abort();
    part = run->parts[run->n_parts++] = parts[number];
    part->number = number;
    prepare_part(run);
    return true;
}

/* All parts of a grid, and grids of one kernel, have the same instance of the __shared__ variables. */
static void swap_variables(struct part *p, bool in) {
    char *here = p->variables.begin, *kept = p->kept[p->loaded];
    if (here) memcpy(in ? here : kept, in ? kept : here, (size_t)(p->variables.end - here));
}

/* Gives the part its turn; returns whether blocks ended. */
static bool run_part(struct run *run, struct part *p) {
    bool any = false;
    const int blocks = run->launch->blocks;
    part = p;
    *run->launch->object->emulator = &p->seen;
    if (p->busy) swap_variables(p, true);
    while (p->busy || run->begun < blocks) {
        if (!p->busy) {
            begin_blocks(run->options.backwards ? blocks - p->ranks - run->begun : run->begun);
            run->begun += p->ranks;
            p->busy = true;
        }
        if (!run_blocks()) {
            swap_variables(p, false);
            break;
        }
        run->ended += p->ranks;
        p->busy = false;
        any = true;
    }
    return any;
}

static time_t seconds_now(void) {
    return (time_t)(time_now() / 1000000000);
}

/* A grid that waits for what nobody writes is refused, lest tests never end. */
static void check_patience(struct run *run) {
    if (run->n_parts == 0 || seconds_now() - run->heard < PATIENCE) return;
    part = run->parts[0];
    for (int i = 1; !part->busy && i < run->n_parts; i++)
        part = run->parts[i];
    become(0);
    part_refuse("has polled memory, or waited for threads that do, for %d seconds", PATIENCE);
}

static void run_grid(struct run *run) {
    while (run->ended < run->launch->blocks) {
        bool any = false;
        for (int i = 0; i < run->n_parts; i++)
            any = run_part(run, run->parts[i]) || any;
        if (any) run->heard = seconds_now();
        if (run->ended == run->launch->blocks || (!any && add_part(run))) continue;
        check_patience(run);
        turn_pass();
    }
}

static void free_parts(struct run *run) {
    for (int i = 0; i < run->n_parts; i++)
        run->parts[i]->run = NULL;
}

/* The threads of a part that was refused do not go on: their coroutines begin anew. */
static void abandon(const struct part *p) {
    for (int i = 0; i < MOST_COROUTINES && p->threads[i]; i++)
        p->threads[i]->begun = false;
}

APART static bool is_refused(struct run *run) {
    if (!__builtin_setjmp(run->refused)) {
        run_grid(run);
        return false;
    }
    for (int i = 0; i < run->n_parts; i++)
        abandon(run->parts[i]);
    return true;
}

static const char *refusal(const struct emulated_launch *l) {
    size_t variables = (size_t)(l->kernel->shared_end - l->kernel->shared);
    if (l->threads < 1 || l->threads > MOST_THREADS || l->threads != l->kernel->threads) return "its threads";
    if (l->kernel->cluster > MOST_RANKS || l->threads * (l->kernel->cluster + 1) > MOST_COROUTINES)
        return "its cluster";
    if (l->kernel->cluster > 1 && l->blocks % l->kernel->cluster != 0) return "a cluster that is not whole";
    return variables > MOST_STATIC || l->shared + variables > MOST_SHARED ? "its shared memory" : NULL;
}

bool emulator_run(const struct emulated_launch *l, const struct emulator_options *options, char *message) {
    struct run run = {.launch = l, .options = *options, .heard = seconds_now(), .message = message};
    const char *reason = refusal(l);
    if (reason) {
        snprintf(message, EMULATOR_MESSAGE, "kernel '%s' cannot be launched: %s", l->name, reason);
        return false;
    }
    turn_take();
    sigaction(SIGILL, &(struct sigaction){.sa_sigaction = take_trap, .sa_flags = SA_SIGINFO | SA_NODEFER}, NULL);
    bool good = !is_refused(&run);
    free_parts(&run);
    turn_end();
    return good;
}
