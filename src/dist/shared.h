/*
 * The memory that ranks of one host share, and how they meet in it.
 *
 * Each rank has a seat there, which it alone writes: two halves of a buffer, and the number of *phases* that it has
 * published. In phase p a rank fills half p % 2, publishes, waits until all ranks have published p, and reads what it
 * needs of theirs. It may fill that half again in phase p + 2, without waiting for its readers: all ranks have then
 * published p + 1, which each does after it has read what it needs of phase p. So there is one wait per phase, and none
 * at its end. The numbers only grow (modulo 2^32), so that nothing is ever reset.
 *
 * Pairs have mailboxes of the same kind, one for each direction: the sender waits until what was in a half has been
 * taken.
 *
 * Who waits spins for a while, then yields its processor, then sleeps (futex), and looks from time to time whether the
 * others are still there and whether its time has passed.
 */
#ifndef IG_DIST_SHARED_H
#define IG_DIST_SHARED_H

#include <stdatomic.h>

#include "dist/group.h"

#define IG_SHARED_LINE 128                     /* the hardware fetches lines of 64 bytes in pairs */
#define IG_SHARED_MAIL_HALF ((size_t)64 << 10) /* bytes of a half of a mailbox */
enum { IG_SHARED_WHERE = 8 };                  /* words of a label, for messages */

/* A number that one rank increases and others wait for. */
struct ig_shared_number {
    _Alignas(IG_SHARED_LINE) atomic_uint value; /* a futex */
    atomic_ullong signature[2];                 /* of what was published at an even, an odd number */
    _Alignas(IG_SHARED_LINE) atomic_uint sleepers;
};

struct ig_shared_seat {
    struct ig_shared_number phase;
    _Alignas(IG_SHARED_LINE) atomic_uint left; /* 1: will take part in nothing any more */
    atomic_uint kind;                          /* of the call that it is in, or was in last */
    atomic_ullong calls;                       /* begun */
    atomic_ullong where[IG_SHARED_WHERE];      /* that call's label, cut off */
};

struct ig_shared_mail {
    struct ig_shared_number sent, taken; /* halves */
};

struct ig_shared_header {
    uint32_t ranks;
    atomic_uint users;  /* seats of this process; the last one unmaps the memory */
    atomic_uint failed; /* 0: no; 1: a rank is about to say why; 2: it has */
    uint32_t failed_rank, failed_status;
    char failure[512];
    struct ig_shared_seat seats[IG_MOST_RANKS];
};

/* Bytes of the memory for so many ranks, of which only those that are used are backed. */
size_t ig_shared_bytes(uint32_t ranks);
/* A seat in memory of that size, zeroed when it was made, which is the seats' from now on, also on failure. `links`:
 * connections to other processes, which tell when these die, the seat's too; NULL: none. */
struct ig_links;
enum ingot_status ig_shared_create(void *memory, uint32_t rank, uint32_t ranks, struct ig_links *links,
                                   const struct ig_group_options *options, struct ig_group **out_group,
                                   struct ingot_error *error);

#endif
