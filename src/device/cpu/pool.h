/*
 * The threads of a CPU device. The caller is worker 0; the others sleep between runs and spin within one.
 *
 * A run is a flat list of items that all workers walk together: each does its share of an item, then all meet at a
 * barrier. Compared with a fork and a join per item, that is one exchange of a cache line instead of two, and no worker
 * has to be told what comes next. Consecutive items that are too small to share are done by worker 0 between two
 * barriers.
 */
#ifndef IG_DEVICE_CPU_POOL_H
#define IG_DEVICE_CPU_POOL_H

#include "base/cpu.h"
#include "base/error.h"
#include "base/stop.h"

/* Executes tiles begin … end-1. Workers call it concurrently with disjoint ranges. */
typedef void (*ig_pool_kernel)(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch);

struct ig_pool_item {
    ig_pool_kernel kernel;
    void *const *buffers;
    const int64_t *dims;
    int64_t tiles;
    uint32_t workers; /* that share the tiles, if the run has so many: 1 … ig_pool_size, and at most `tiles` */
    uint32_t chunks;  /* per worker's range, the unit of stealing; 0 or 1: the range is not shared */
    /* Tiles of a turn: a turn begins when the one before has ended, and sees what that one wrote. A worker alone may do
     * several at once, tile after tile. 0: all tiles are one turn. */
    int64_t turn;
};

struct ig_pool;

/* `threads`: 1 to 1024, the caller's included. `processors`: those that they may use, shared with other pools. */
enum ingot_status ig_pool_create(unsigned threads, const struct ig_processors *processors,
                                 const struct ingot_allocator *allocator, struct ig_pool **out_pool,
                                 struct ingot_error *error);
void ig_pool_destroy(struct ig_pool *pool);
uint32_t ig_pool_size(const struct ig_pool *pool);

/* Ensures at least `bytes` of scratch per worker, aligned to 64 bytes. */
enum ingot_status ig_pool_reserve_scratch(struct ig_pool *pool, size_t bytes, struct ingot_error *error);

/* Executes the items in order; each sees what those before it wrote. Once `stop` (may be NULL) asks for it, skips the
 * rest, each worker for itself: then some results of any item may be missing. Allocates nothing. While other pools run
 * on the same processors, it does so with a fair share of them (ledger.h). */
void ig_pool_run(struct ig_pool *pool, const struct ig_pool_item *items, uint32_t n_items, const struct ig_stop *stop);

#endif
