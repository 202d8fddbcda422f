/*
 * Which way a call between GPUs takes: through windows or by NCCL.
 *
 * Short messages go through windows, very long ones by NCCL. Where the two are near each other, the ranks measure both ways, once for
 * each kind of call and each power of two of its bytes, and all take what was faster for the slowest rank: they decide by the same
 * numbers. That is done only where both ways give the same bits, so that a run's results do not depend on what was measured:
 * bytes that are moved, and sums of two ranks, which have one order. (Of other reductions NCCL's NaNs may differ.)
 */
#include "dist/group.h"

/* NCCL with its 8 blocks takes longer up to here: 128 us for 16 MiB between two H100, where windows take 119. */
#define CROSSING ((size_t)64 << 20)
#define NEAR 4 /* times less or more than that: measured */

/* A call of NCCL ends a captured run and begins another one, so it is taken if it needs less than 19/20 of the time. */
static bool is_worth(uint64_t nccl, uint64_t windows) {
    return nccl / 19 < windows / 20;
}

static uint64_t bit_of(size_t bytes) {
    return UINT64_C(1) << (63 - __builtin_clzll((unsigned long long)bytes | 1));
}

static bool has_same_bits(const struct ig_group *group, const struct ig_collective *what) {
    if (!ig_collective_reduces(what->kind)) return true;
    return group->ranks == 2 && what->reduction == IG_REDUCE_SUM;
}

static bool is_measured(const struct ig_group *group, const struct ig_collective_call *call, size_t bytes) {
    const size_t crossing = group->ways.crossing;
    return bytes >= crossing / NEAR && bytes <= crossing * NEAR && has_same_bits(group, &call->what) &&
           group->api->has_both_ways && group->api->has_both_ways(group, call);
}

void ig_ways_init(struct ig_ways *ways) {
    ways->crossing = CROSSING;
}

enum ig_way ig_group_way(const struct ig_group *group, const struct ig_collective_call *call, size_t bytes) {
    const struct ig_ways *ways = &group->ways;
    const uint64_t bit = bit_of(bytes);
    if (!ig_group_seat(group)) return IG_WAY_NCCL;
    if (ig_group_has_windows_alone(group)) return IG_WAY_WINDOWS;
    if (!is_measured(group, call, bytes)) return bytes > ways->crossing ? IG_WAY_NCCL : IG_WAY_WINDOWS;
    if (!(atomic_load_explicit(&ways->known[call->what.kind], memory_order_acquire) & bit)) return IG_WAY_OPEN;
    return atomic_load_explicit(&ways->nccl[call->what.kind], memory_order_relaxed) & bit ? IG_WAY_NCCL
                                                                                          : IG_WAY_WINDOWS;
}

enum ingot_status ig_group_choose_way(struct ig_group *group, const struct ig_collective_call *call, size_t bytes,
                                      const struct ig_way_times *mine, struct ingot_error *error) {
    struct ig_ways *ways = &group->ways;
    struct ig_way_times all[IG_MOST_RANKS], slowest = {0};
    const uint64_t bit = bit_of(bytes);
    bool complete = true;
    IG_TRY(ig_group_gather(group, mine, sizeof *mine, all, "which way is faster", error));
    for (uint32_t r = 0; r < group->ranks; r++) {
        complete = complete && all[r].windows > 0 && all[r].nccl > 0;
        if (all[r].windows > slowest.windows) slowest.windows = all[r].windows;
        if (all[r].nccl > slowest.nccl) slowest.nccl = all[r].nccl;
    }
    const bool by_nccl = complete && is_worth(slowest.nccl, slowest.windows);
    if (complete && ways->n_measured < IG_MOST_WAYS)
        ways->measured[ways->n_measured++] = (struct ig_way_measured){call->what.kind, bytes, slowest, by_nccl};
    if (by_nccl) atomic_fetch_or_explicit(&ways->nccl[call->what.kind], bit, memory_order_relaxed);
    atomic_fetch_or_explicit(&ways->known[call->what.kind], bit, memory_order_release);
    return INGOT_OK;
}

size_t ig_group_ways(const struct ig_group *group, struct ig_way_measured *out, size_t capacity) {
    for (size_t i = 0; i < group->ways.n_measured && i < capacity; i++)
        out[i] = group->ways.measured[i];
    return group->ways.n_measured;
}
