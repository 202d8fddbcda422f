/*
 * Windows: memory of each GPU of a group that the group's other GPUs write to, as kernels of collectives
 * (kernel/cuda/exchange_block.h) and the group (dist/windows.h) know it.
 *
 * A window has two halves, of even and of odd epochs, and each half a slot for each sender: IG_WINDOW_HEADERS headers, one
 * for a block, then the lines of short messages, then those of long ones. All have 16 bytes. Headers and short messages'
 * lines are two words of 64 bits, written and read whole. The high 32 bits of a word are the epoch in which it was written,
 * so that a word brings its own proof of having come; the low ones are data, and of a header the number of the collective
 * and what it is of. Lines of long messages are data alone, which a block's header says to have come.
 *
 * Where ranks share a GPU, a kernel that waits may keep a multiprocessor from the very kernel that it waits for; and of memory
 * that a GPU reaches by several addresses, as these ranks' windows, a kernel need not see what another one writes before both
 * have ended. There a call is split into launches of its kernel: one sends the lines of a turn, and the next one, which the
 * host puts behind what all ranks have sent, finds everything in its window. What is computed is the same.
 *
 * Epochs go on from call to call and are never reset: 2 to 2^32 - 1, and again from 2. So that no word of four thousand
 * million epochs ago is taken for one of now, each rank clears a half's words every 2^30 epochs, in the epoch before that
 * half's, and before it writes anything that lets the others go on.
 */
#ifndef IG_BASE_WINDOW_H
#define IG_BASE_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"

enum {
    IG_WINDOW_HEADERS = 128, /* the most blocks of a kernel */
    IG_WINDOW_THREADS = 256,
    IG_WINDOW_SHORT_EACH = 2, /* lines of a thread */
    IG_WINDOW_LONG_EACH = 4,
    IG_WINDOW_SHORT_LINES = IG_WINDOW_HEADERS * IG_WINDOW_THREADS * IG_WINDOW_SHORT_EACH,
    IG_WINDOW_LONG_LINES = IG_WINDOW_HEADERS * IG_WINDOW_THREADS * IG_WINDOW_LONG_EACH,
    IG_WINDOW_SLOT = (IG_WINDOW_HEADERS + IG_WINDOW_SHORT_LINES + IG_WINDOW_LONG_LINES) * 16, /* bytes */
    IG_WINDOW_SHORT = 512 << 10, /* the most bytes of a short message; at most 8 of a short line */
    IG_WINDOW_FIRST_EPOCH = 2,
};

/* What a kernel is given, in the memory of its GPU. */
struct ig_window_seat {
    uint64_t windows[IG_MOST_RANKS]; /* addresses of the ranks' windows, as this GPU reaches them; its own too */
    uint64_t report;                 /* address of a struct ig_window_report, in pinned memory of the host */
    uint64_t patience;               /* nanoseconds that a kernel waits for another rank */
    uint32_t rank;
    uint32_t given_up; /* not 0: a kernel did: none exchanges anything any more */
    /* Of the next call, all equal between kernels: block b of a grid of n blocks reads number b, and leaves behind numbers b,
     * b + n, b + 2 n and so on, so that blocks need not agree on who is the last. */
    uint32_t epochs[IG_WINDOW_HEADERS];
    uint32_t is_split;
    uint32_t launches[IG_WINDOW_HEADERS]; /* of the call under way, by block as above, if calls are split */
};

enum ig_window_state { IG_WINDOW_WELL, IG_WINDOW_LATE, IG_WINDOW_DIFFERENT };
struct ig_window_report {
    uint32_t state;                    /* written last */
    uint32_t peer;                     /* the rank that was waited for, or that does something else */
    uint32_t number, size;             /* of the collective, as in headers */
    uint32_t other_number, other_size; /* DIFFERENT */
    uint32_t stop;                     /* 1: written by the host: kernels shall not wait any longer */
};

static inline size_t ig_window_bytes(uint32_t ranks) {
    return (size_t)2 * ranks * IG_WINDOW_SLOT;
}

/* How many launches a split call takes, two for each turn of its kernel of so many blocks; `elements`: those of the longest message, of
 * `size` bytes each. */
static inline size_t ig_window_launches(size_t elements, size_t size, size_t blocks) {
    const size_t bytes = elements * size, is_short = bytes <= IG_WINDOW_SHORT;
    const size_t line = is_short ? 8 : 16, each = is_short ? IG_WINDOW_SHORT_EACH : IG_WINDOW_LONG_EACH;
    const size_t turn = each * blocks * IG_WINDOW_THREADS * line;
    return bytes > turn ? 2 * ((bytes + turn - 1) / turn) : 2;
}

#endif
