/*
 * Fair shares of the processors; see ledger.h.
 *
 * Per set of processors there is one word of counts. A run is entered as satisfied, with the threads that it has, or as
 * hungry, if it wants more than its share. What the satisfied leave over is divided equally among the hungry. A run that
 * finds its share changed enters itself anew, and so all arrive at the max-min fair shares (D. Bertsekas, R. Gallager,
 * Data Networks, 1992, section 6.5), although none of them knows who the others are. Counts are all that is shared: no
 * memory is published through them, so relaxed order suffices, and a count that is read late costs time, never a result.
 */
#define _GNU_SOURCE
#include "device/cpu/ledger.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/stop.h"

#define CACHE_LINE 64
#define MAX_SETS 64
#define NO_SET MAX_SETS
/* Longer than the pause between two runs of a busy context, shorter than anyone minds. */
#define GROWTH_DELAY 2000000u /* ns */
/* How often what remains of a division goes to others; long against the time to wake a thread. */
#define TURN 32000000u /* ns */

/* The counts: threads of the satisfied in bits 0 to 31, how many they are in bits 32 to 47, the hungry from bit 48. */
#define ONE_SATISFIED ((uint64_t)1 << 32)
#define ONE_HUNGRY ((uint64_t)1 << 48)

/* Processors that the threads of some pools may use. */
struct set {
    struct ig_processors processors;
    atomic_uint usable;
    uint32_t n_pools;     /* 0: the entry is free */
    atomic_ullong rivals; /* a bit for each set that competes with this one, itself included */
    _Alignas(CACHE_LINE) atomic_ullong counts;
};

/*
 * One for the whole process, since the processors are: contexts know nothing of each other, and may have been created by
 * different parts of a program. Nothing is allocated for it, so it belongs to nobody's allocator. The lock is for joining
 * and leaving. The counts of a free entry are left as they are: a run of a rival may still be entered there.
 */
static struct {
    pthread_mutex_t lock;
    pid_t owner;
    uint32_t n_joined;
    struct set sets[MAX_SETS];
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Joining and leaving ----------------------------------------------------------------------------------------- */

static bool compete(const struct ig_processors *a, const struct ig_processors *b) {
    unsigned together = 0, quota = a->quota < b->quota ? a->quota : b->quota;
    bool overlap = false;
    for (int i = 0; i < IG_PROCESSOR_WORDS; i++) {
        together += (unsigned)__builtin_popcountll(a->mask[i] | b->mask[i]);
        overlap |= (a->mask[i] & b->mask[i]) != 0;
    }
    return overlap || quota < together;
}

/* A child of fork() has none of the runs that its parent had under way. */
static void forget_parent(void) {
    pid_t self = getpid();
    if (ledger.owner == self) return;
    ledger.owner = self;
    for (uint32_t i = 0; i < MAX_SETS; i++)
        atomic_store_explicit(&ledger.sets[i].counts, 0, memory_order_relaxed);
}

/* The entry of these processors, or a free one; NO_SET if there is neither. */
static uint32_t find_set(const struct ig_processors *processors) {
    uint32_t found = NO_SET;
    for (uint32_t i = 0; i < MAX_SETS; i++) {
        const struct set *set = &ledger.sets[i];
        if (set->n_pools && memcmp(set->processors.mask, processors->mask, sizeof processors->mask) == 0) return i;
        if (!set->n_pools && found == NO_SET) found = i;
    }
    return found;
}

static void open_set(uint32_t index) {
    struct set *set = &ledger.sets[index];
    uint64_t rivals = 0;
    for (uint32_t i = 0; i < MAX_SETS; i++) {
        struct set *other = &ledger.sets[i];
        if (i != index && !(other->n_pools && compete(&set->processors, &other->processors))) continue;
        rivals |= (uint64_t)1 << i;
        atomic_fetch_or_explicit(&other->rivals, (uint64_t)1 << index, memory_order_relaxed);
    }
    atomic_store_explicit(&set->rivals, rivals, memory_order_relaxed);
}

static void close_set(uint32_t index) {
    for (uint32_t i = 0; i < MAX_SETS; i++)
        atomic_fetch_and_explicit(&ledger.sets[i].rivals, ~((uint64_t)1 << index), memory_order_relaxed);
}

void ig_ledger_join(struct ig_claim *claim, const struct ig_processors *processors) {
    pthread_mutex_lock(&ledger.lock);
    forget_parent();
    *claim = (struct ig_claim){
        .set = find_set(processors), .number = ledger.n_joined++, .clock = ig_clock, .limit = UINT32_MAX};
    if (claim->set != NO_SET) {
        struct set *set = &ledger.sets[claim->set];
        atomic_store_explicit(&set->usable, ig_processors_usable(processors), memory_order_relaxed);
        if (set->n_pools++ == 0) {
            set->processors = *processors;
            open_set(claim->set);
        }
    }
    pthread_mutex_unlock(&ledger.lock);
}

void ig_ledger_leave(struct ig_claim *claim) {
    if (claim->set == NO_SET) return;
    pthread_mutex_lock(&ledger.lock);
    if (--ledger.sets[claim->set].n_pools == 0) close_set(claim->set);
    pthread_mutex_unlock(&ledger.lock);
}

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

static uint32_t n_hungry(uint64_t counts) {
    return (uint32_t)(counts >> 48);
}

static uint32_t n_satisfied(uint64_t counts) {
    return counts >> 32 & 0xffff;
}

/* How many threads there are for this claim beside the others. */
static uint32_t level(const struct ig_claim *claim, uint64_t others) {
    uint32_t usable = atomic_load_explicit(&ledger.sets[claim->set].usable, memory_order_relaxed);
    uint32_t satisfied = (uint32_t)others, left = usable > satisfied ? usable - satisfied : 0;
    uint32_t hungry = n_hungry(others) + 1, least = usable / (hungry + n_satisfied(others));
    uint32_t each = left / hungry, rest = left % hungry;
    /* No share is below `least`; where it seems so, others have more than theirs, which they will notice. */
    if (each < least) return least > 1 ? least : 1;
    if (rest && (claim->number + claim->clock() / TURN) % hungry < rest) each++;
    return each > 1 ? each : 1;
}

static uint32_t settle(struct ig_claim *claim, uint64_t others) {
    uint32_t wanted = claim->wanted, share = others ? level(claim, others) : wanted;
    if (share > wanted) share = wanted;
    if (share <= claim->limit) {
        if (share == wanted) return share;
        claim->limit = share;
        claim->roomy_since = 0;
        return share;
    }
    uint64_t now = claim->clock();
    if (!claim->roomy_since) claim->roomy_since = now;
    if (now - claim->roomy_since < GROWTH_DELAY) return claim->limit;
    claim->limit = share < wanted ? share : UINT32_MAX;
    claim->roomy_since = 0;
    return share;
}

static void add(uint64_t sets, uint64_t counts) {
    for (; sets; sets &= sets - 1)
        atomic_fetch_add_explicit(&ledger.sets[__builtin_ctzll(sets)].counts, counts, memory_order_relaxed);
}

static uint64_t entry_of(const struct ig_claim *claim) {
    return claim->share < claim->wanted ? ONE_HUNGRY : ONE_SATISFIED + claim->share;
}

static void enter(struct ig_claim *claim, uint32_t share) {
    claim->share = share;
    uint64_t entry = entry_of(claim);
    if (entry != claim->entered) add(claim->sets, entry - claim->entered);
    claim->entered = entry;
}

uint32_t ig_ledger_begin(struct ig_claim *claim, uint32_t wanted) {
    claim->wanted = claim->share = wanted;
    if (claim->set == NO_SET) return wanted;
    struct set *set = &ledger.sets[claim->set];
    uint64_t self = (uint64_t)1 << claim->set;
    uint64_t expected = atomic_load_explicit(&set->counts, memory_order_relaxed);
    claim->share = settle(claim, expected);
    claim->entered = entry_of(claim);
    claim->sets = atomic_load_explicit(&set->rivals, memory_order_relaxed);
    uint64_t others = atomic_fetch_add_explicit(&set->counts, claim->entered, memory_order_relaxed);
    add(claim->sets & ~self, claim->entered);
    /* Of two that begin at once, one at least knows of the other. */
    if (others != expected) enter(claim, settle(claim, others));
    claim->seen = others + claim->entered;
    return claim->share;
}

uint32_t ig_ledger_review(struct ig_claim *claim) {
    if (claim->set == NO_SET || claim->wanted == 1) return claim->share;
    uint64_t counts = atomic_load_explicit(&ledger.sets[claim->set].counts, memory_order_relaxed);
    if (counts == claim->seen && !claim->roomy_since) return claim->share;
    uint64_t others = counts - claim->entered;
    enter(claim, settle(claim, others));
    claim->seen = others + claim->entered;
    return claim->share;
}

void ig_ledger_end(struct ig_claim *claim) {
    if (claim->set != NO_SET) add(claim->sets, 0 - claim->entered);
}

uint32_t ig_ledger_running(const struct ig_claim *claim) {
    if (claim->set == NO_SET) return 0;
    uint64_t counts = atomic_load_explicit(&ledger.sets[claim->set].counts, memory_order_relaxed);
    return n_hungry(counts) + n_satisfied(counts);
}
