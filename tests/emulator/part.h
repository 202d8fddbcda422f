/*
 * The parts of grids that run in the emulator, and the memory that they access. What runs together of a grid, one block or
 * one cluster, is a *part*. Parts run one at a time, in turns (turn.h).
 */
#ifndef TESTS_EMULATOR_PART_H
#define TESTS_EMULATOR_PART_H

#include <stdint.h>
#include <time.h>

#include "emulator/grid.h"
#include "fake_cuda/fake_cuda.h"

enum {
    MOST_THREADS = 1024,
    MOST_RANKS = 16,
    MOST_COROUTINES = 9216,
    MOST_COPIES = 256,
    MOST_GROUPS = 32,
    MOST_BOXES = 1024,       /* in flight */
    NAMED = 16,              /* named barriers per block */
    SHOWN = 64,              /* bytes that a lane may pass to others */
    SHARED_BEGIN = 1024,     /* the first address of shared memory, as on sm_90 */
    RANK_BITS = 24,          /* lowest bit of an address's upper field: rank + 1, or 0 */
    SEVERAL = 0x8000,        /* flag of a stamp's thread: several lanes of the warp in the other bits */
    SEVERAL_WARPS = 0xffff,  /* readers */
    MOST_SHARED = 227 << 10, /* bytes per block */
    MOST_STATIC = 48 << 10,  /* of these, for __shared__ variables */
    PART_BITS = 5,           /* lowest bits of an epoch: the part's number */
    MOST_PARTS = 1 << PART_BITS,
    MOST_RESIDENT = 8, /* parts of one grid */
    WORD = 4,          /* bytes that are mostly accessed together */
    PATIENCE = 120,    /* seconds that a grid may poll while none of its blocks ends */
    STACK_STEP = 1088, /* bytes from where one stack begins in its memory to where the next does */
    STACK_PLACES = 64,
};

/* When and by whom a byte was accessed: the epoch, the thread or lanes or warps (16 bits), and the thread's synchronisations
 * with its warp (16 bits). An epoch is the time between two barriers of a block; epochs of a part are in order. */
typedef uint64_t stamp;

/* The last accesses to a byte, or to the bytes of a word if they were all accessed alike. */
struct cell {
    stamp write, read;
};

#define DIVIDED UINT64_MAX /* as the `write` of a word: its bytes have cells of their own; no epoch is that large */

struct region {
    char *begin, *end;
    const char *name;
    size_t most;        /* bytes that it ever has; cells are for so many */
    struct cell *cells; /* one per word, then one per byte, for words that are divided; NULL: none yet */
};

enum wait { NOTHING, POLLING, BLOCK, CLUSTER, WARP, NAMED_BARRIER, ROUND };

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

/* Where a thread goes on. The compiler's own buffers: _longjmp asks the C library for handlers of cancellation each time. */
typedef void *resumption[5];

/* A TMA copy of a box of a matrix, in flight; or of a tap of windows; or of a patch of a picture. */
struct box {
    struct fake_tensor_map map;
    char *to;
    int x, y;
    const char *from; /* of bytes without a map, `size` of them */
    size_t size;
    int at[4], tap[3]; /* of windows: where the first begins, and its image; offset of the tap, which patches lack */
    struct round *round;
};

struct thread {
    resumption at;
    bool begun, done, parity;
    enum wait waiting;
    int name; /* for NAMED_BARRIER */
    const struct round *round;
    unsigned round_parity;
    unsigned team, parities; /* of the last exchange: its lanes, and which of `shows` each lane used */
    unsigned come;           /* of a warp's first thread: the lanes that wait for others of their teams */
    uint16_t syncs;          /* warp synchronisations that the thread took part in */
    unsigned n_copies, n_groups, groups[MOST_GROUPS]; /* copies in flight; end of each committed group */
    struct copy *copies; /* MOST_COPIES; apart, so that what the scheduler looks at lies close together */
    char shows[2][SHOWN] __attribute__((aligned(16)));
};

/* A launch under way. */
struct run {
    const struct emulated_launch *launch;
    struct emulator_options options;
    int begun, ended; /* blocks */
    struct part *parts[MOST_RESIDENT];
    int n_parts;
    time_t heard; /* when its last block ended */
    resumption refused;
    char *message;
};

struct part {
    struct run *run;        /* NULL: free */
    uint32_t number, taken; /* the first epoch of this run */
    bool busy;              /* with blocks that have not ended */
    const struct emulated_launch *launch;
    struct emulator_options options;
    struct emulator seen;
    int count, ranks; /* threads per block; blocks that run together */
    int current;      /* index of the running coroutine */
    int arrived[MOST_RANKS], arrived_cluster, arrived_named[MOST_RANKS][NAMED];
    int brings[MOST_RANKS];  /* to a block's barrier: did any thread bring what is not 0? */
    int brought[MOST_RANKS]; /* and to the last one */
    bool copies[MOST_RANKS]; /* did any thread of the block copy asynchronously? */
    struct box boxes[MOST_BOXES];
    unsigned n_boxes;
    uint32_t block_epoch, epoch[MOST_RANKS];
    char *memory[MOST_RANKS];                     /* for dynamic shared memory */
    struct region dynamic[MOST_RANKS], variables; /* shared memory */
    char *kept[MOST_RANKS];                       /* saved variables of the blocks that are not running */
    int loaded;                                   /* the rank whose variables are loaded */
    resumption scheduler;
    struct thread *threads[MOST_COROUTINES];
    char *stacks[MOST_COROUTINES];
};

extern struct part *parts[MOST_PARTS]; /* created when first needed; those of no run are free */
extern struct part *part;              /* whose turn it is */

static inline struct thread *self(void) {
    return part->threads[part->current];
}

/* Ends the running grid with an error of the running thread. */
void part_refuse(const char *format, ...);

/* ---- Memory ----------------------------------------------------------------------------------------------------------- */

static inline bool lies_in(const struct region *r, const char *at, size_t size) {
    return at >= r->begin && at <= r->end && size <= (size_t)(r->end - at);
}

/* Where the running thread may access these bytes; NULL: nowhere. */
struct region *memory_region(const char *at, size_t size);
/* Checks an access; `how`: flags of grid.h. */
void memory_access(const void *where, size_t size, int how);
/* Reports an address outside all regions, relative to the nearest one. */
void memory_refuse(const char *at, size_t size, bool write);
void memory_drop_cells(struct region *r);
/* Of all memory. */
void memory_drop_all(void);

#endif
