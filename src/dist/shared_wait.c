/* Publishing and waiting; see shared_wait.h. The futex discipline is that of device/cpu/pool.c: either who sleeps sees the
 * new number before it sleeps, or who publishes sees that it sleeps. */
#define _GNU_SOURCE
#include "dist/shared_wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/stop.h"
#include "dist/links.h"

#define MILLISECOND 1000000u
#define YIELDING (2 * MILLISECOND) /* of a wait, before it sleeps: waking takes 50 microseconds and more */
#define NAP (5 * MILLISECOND)      /* between two looks at whether the others are there */

static bool has_come(const struct ig_shared_number *number, uint32_t value) {
    return (int32_t)(atomic_load_explicit(&number->value, memory_order_acquire) - value) >= 0;
}

/* Between processes: not FUTEX_PRIVATE. */
static void nap(struct ig_shared_number *number, uint32_t value) {
    const struct timespec time = {.tv_nsec = NAP};
    atomic_fetch_add(&number->sleepers, 1);
    uint32_t now = atomic_load(&number->value);
    if ((int32_t)(now - value) < 0) syscall(SYS_futex, &number->value, FUTEX_WAIT, now, &time, NULL, 0);
    atomic_fetch_sub(&number->sleepers, 1);
}

void ig_shared_publish(struct ig_shared_number *number, uint32_t value, uint64_t signature) {
    atomic_store_explicit(&number->signature[value & 1], signature, memory_order_relaxed);
    atomic_store(&number->value, value);
    if (atomic_load(&number->sleepers)) syscall(SYS_futex, &number->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- Where ranks are --------------------------------------------------------------------------------------------- */

void ig_shared_begin(struct ig_shared_group *group, const struct ig_collective_call *call) {
    struct ig_shared_seat *seat = group->seat;
    uint64_t words[IG_SHARED_WHERE] = {0};
    size_t length = strnlen(call->label, sizeof words - 1);
    memcpy(words, call->label, length);
    unsigned long long calls = atomic_load_explicit(&seat->calls, memory_order_relaxed);
    for (int i = 0; i < IG_SHARED_WHERE; i++)
        atomic_store_explicit(&seat->where[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&seat->kind, call->what.kind, memory_order_relaxed);
    atomic_store_explicit(&seat->calls, calls + 1, memory_order_release);
}

/* "all_gather 'layer 3' (call 17)" */
static void say_where(const struct ig_shared_group *group, uint32_t rank, char *out_text, size_t size) {
    const struct ig_shared_seat *seat = &group->header->seats[rank];
    uint64_t words[IG_SHARED_WHERE];
    char label[sizeof words];
    unsigned long long calls = atomic_load_explicit(&seat->calls, memory_order_acquire);
    for (int i = 0; i < IG_SHARED_WHERE; i++)
        words[i] = atomic_load_explicit(&seat->where[i], memory_order_relaxed);
    memcpy(label, words, sizeof label);
    label[sizeof label - 1] = '\0';
    if (calls)
        snprintf(out_text, size, "%s '%s' (call %llu)",
                 ig_collective_name(atomic_load_explicit(&seat->kind, memory_order_relaxed)), label, calls);
    else
        snprintf(out_text, size, "no call yet");
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

void ig_shared_fail(struct ig_group *base, const char *reason) {
    struct ig_shared_header *header = ((struct ig_shared_group *)base)->header;
    unsigned none = 0;
    if (!atomic_compare_exchange_strong(&header->failed, &none, 1)) return;
    header->failed_rank = base->rank;
    header->failed_status = base->failure.status;
    snprintf(header->failure, sizeof header->failure, "%s", reason);
    atomic_store(&header->failed, 2);
}

/* What another rank has said. Its memory is not trusted to hold a status or to end. */
static enum ingot_status say_failure(struct ig_shared_group *group, const struct ig_collective_call *call,
                                     struct ingot_error *error) {
    const struct ig_shared_header *header = group->header;
    char reason[sizeof header->failure];
    memcpy(reason, header->failure, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    uint32_t status = header->failed_status;
    if (status == INGOT_OK || status > INGOT_CANCELLED) status = INGOT_DEVICE;
    return IG_ERR(error, (enum ingot_status)status, "%s '%s': rank %u ended the group: %s",
                  ig_collective_name(call->what.kind), call->label, header->failed_rank, reason);
}

enum ingot_status ig_shared_heed(struct ig_shared_group *group, const struct ig_collective_call *call,
                                 struct ingot_error *error) {
    return atomic_load_explicit(&group->header->failed, memory_order_acquire) == 2 ? say_failure(group, call, error)
                                                                                   : INGOT_OK;
}

static enum ingot_status say_gone(struct ig_shared_group *group, const struct ig_collective_call *call, uint32_t of,
                                  bool left, struct ingot_error *error) {
    char where[160];
    say_where(group, of, where, sizeof where);
    return IG_ERR(error, INGOT_DEVICE, "%s '%s': rank %u %s; its last: %s", ig_collective_name(call->what.kind),
                  call->label, of, left ? "has left the group" : "has died", where);
}

enum ingot_status ig_shared_look(struct ig_group *base, struct ingot_error *error) {
    struct ig_shared_group *group = (struct ig_shared_group *)base;
    const struct ig_collective_sizes nothing = {0};
    const struct ig_collective_call waits = {
        .what = {IG_ALL_GATHER, INGOT_U8, 0, 0}, .sizes = &nothing, .label = "a run"};
    IG_TRY(ig_shared_heed(group, &waits, error));
    const uint64_t lost = group->links ? ig_links_lost(group->links) : 0;
    for (uint32_t r = 0; r < base->ranks; r++) {
        if (r == base->rank) continue;
        bool left = atomic_load_explicit(&group->header->seats[r].left, memory_order_acquire);
        if (!left && !(lost >> r & 1)) continue;
        IG_TRY(ig_shared_heed(group, &waits, error)); /* whoever leaves may have said why since */
        return say_gone(group, &waits, r, left, error);
    }
    return INGOT_OK;
}

static enum ingot_status say_late(struct ig_shared_group *group, const struct ig_collective_call *call, uint32_t of,
                                  struct ingot_error *error) {
    char where[160];
    say_where(group, of, where, sizeof where);
    return IG_ERR(error, INGOT_TIMEOUT, "%s '%s' (call %llu): rank %u waited %.3g s for rank %u; its last: %s",
                  ig_collective_name(call->what.kind), call->label,
                  (unsigned long long)atomic_load_explicit(&group->seat->calls, memory_order_relaxed), group->base.rank,
                  (double)group->base.limit / 1e9, of, where);
}

/* Has something happened that ends a wait for rank `of`? It must be looked at before the number is, since what ends may
 * have been published before. */
struct news {
    bool failed, left;
    uint64_t lost; /* ranks, as bits */
};

static struct news look_around(const struct ig_shared_group *group, uint32_t of) {
    return (struct news){.failed = atomic_load(&group->header->failed) == 2,
                         .left = atomic_load(&group->header->seats[of].left),
                         .lost = group->links ? ig_links_lost(group->links) : 0};
}

static enum ingot_status heed(struct ig_shared_group *group, const struct ig_collective_call *call, struct news news,
                              uint32_t of, struct ingot_error *error) {
    if (news.failed) return say_failure(group, call, error);
    if (news.left) return say_gone(group, call, of, true, error);
    for (uint32_t r = 0; news.lost && r < group->base.ranks; r++) {
        bool died = news.lost >> r & 1 && !atomic_load(&group->header->seats[r].left);
        if (died) return say_gone(group, call, r, false, error);
    }
    return INGOT_OK;
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

enum ingot_status ig_shared_await(struct ig_shared_group *group, struct ig_shared_number *number, uint32_t value,
                                  uint32_t of, const struct ig_collective_call *call, struct ingot_error *error) {
    for (unsigned i = 0; i < group->spins; i++) {
        if (has_come(number, value)) return INGOT_OK;
        ig_cpu_pause();
    }
    const uint64_t begin = ig_clock();
    for (;;) {
        struct news news = look_around(group, of);
        if (has_come(number, value)) return INGOT_OK;
        IG_TRY(heed(group, call, news, of, error));
        if (call->stop && ig_stop_asked(call->stop))
            return IG_ERR(error, INGOT_CANCELLED, "%s '%s': rank %u was stopped", ig_collective_name(call->what.kind),
                          call->label, group->base.rank);
        uint64_t waited = ig_clock() - begin;
        if (waited > group->base.limit) return say_late(group, call, of, error);
        if (waited < YIELDING)
            sched_yield();
        else
            nap(number, value);
    }
}

enum ingot_status ig_shared_compare(struct ig_shared_group *group, const struct ig_shared_number *number,
                                    uint32_t value, uint64_t signature, uint32_t of,
                                    const struct ig_collective_call *call, struct ingot_error *error) {
    if (atomic_load_explicit(&number->signature[value & 1], memory_order_relaxed) == signature) return INGOT_OK;
    char mine[160], other[160];
    say_where(group, group->base.rank, mine, sizeof mine);
    say_where(group, of, other, sizeof other);
    return IG_ERR(error, INGOT_INCOMPATIBLE,
                  "ranks do different things: rank %u is at %s of %zu x %zu %s, rank %u at %s; all must make the same "
                  "calls, of the same sizes and types, in the same order",
                  group->base.rank, mine, call->sizes->outer, call->sizes->inner,
                  ingot_dtype_name((enum ingot_dtype)call->what.dtype), of, other);
}
