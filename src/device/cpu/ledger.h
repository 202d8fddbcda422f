/*
 * How many threads each pool may use while others run beside it. Pools that together want more threads than there are
 * processors would spin against each other: those who wait take the processors of those awaited. So every run enters
 * here what it wants, and gets its fair share: all that it wants where there is room, else an equal part of what those
 * that want less leave over; at least 1, the caller's own thread. A pool that runs alone gets all it wants.
 */
#ifndef IG_DEVICE_CPU_LEDGER_H
#define IG_DEVICE_CPU_LEDGER_H

#include "base/cpu.h"

/* A pool's place in the ledger. The thread that runs the pool uses it, no other. */
struct ig_claim {
    uint32_t set; /* whose processors; see ledger.c */
    uint32_t number;
    uint64_t (*clock)(void); /* nanoseconds; tests replace it */
    /* The run under way. */
    uint32_t wanted, share;
    uint64_t sets;    /* where it is entered, */
    uint64_t entered; /* as what; */
    uint64_t seen;    /* the counts by which `share` was settled */
    /* From run to run: a share shrinks at once, but grows only when it could have for a while, so that it is not wide
     * in the moment between two runs of another pool. */
    uint32_t limit;       /* UINT32_MAX: none */
    uint64_t roomy_since; /* since when there was room for more than `limit`; 0: there was none */
};

/* Registers a pool whose threads may use these processors. Every join needs a leave, when no run is under way. */
void ig_ledger_join(struct ig_claim *claim, const struct ig_processors *processors);
void ig_ledger_leave(struct ig_claim *claim);

/* A run that can use up to `wanted` threads begins, with as many as this returns, 1 to `wanted`. */
uint32_t ig_ledger_begin(struct ig_claim *claim, uint32_t wanted);
/* The share of the run under way as it is now; cheap where nothing has changed. */
uint32_t ig_ledger_review(struct ig_claim *claim);
void ig_ledger_end(struct ig_claim *claim);

/* How many runs are under way on the claim's processors. */
uint32_t ig_ledger_running(const struct ig_claim *claim);

#endif
