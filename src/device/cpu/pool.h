/*
 * The threads of a CPU device. The caller is worker 0; the others sleep between runs and spin within one.
 *
 * A run is a flat list of items that all its workers walk side by side: each does its share of an item, then all meet at
 * a barrier. Compared with a fork and a join for every item, that is one exchange of a cache line instead of two, and
 * nobody has to be told what comes next. Neighbouring items that are not worth sharing are done by worker 0 between two
 * barriers.
 */
#ifndef IG_DEVICE_CPU_POOL_H
#define IG_DEVICE_CPU_POOL_H

#include "base/error.h"

/* Does tiles begin … end-1. Any number of workers call it with disjoint ranges. */
typedef void (*ig_pool_kernel)(void *const *buffers, const int64_t *dims, int64_t begin, int64_t end, void *scratch);

struct ig_pool_item {
    ig_pool_kernel kernel;
    void *const *buffers;
    const int64_t *dims;
    int64_t tiles;
    uint32_t workers; /* among whom the tiles are divided: 1 … ig_pool_size, and at most `tiles` */
    uint32_t chunks;  /* in which a worker's range is handed out, so that others can help; 0 or 1: it keeps it whole */
};

struct ig_pool;

/* `threads`: 1 to 1024, the caller's included. */
enum ingot_status ig_pool_create(unsigned threads, const struct ingot_allocator *allocator, struct ig_pool **out_pool,
                                 struct ingot_error *error);
void ig_pool_destroy(struct ig_pool *pool);
uint32_t ig_pool_size(const struct ig_pool *pool);

/* Gives every worker at least `bytes` of scratch, aligned to 64. */
enum ingot_status ig_pool_reserve_scratch(struct ig_pool *pool, size_t bytes, struct ingot_error *error);

/* Does the items in order, each seeing what those before it wrote. Allocates nothing. */
void ig_pool_run(struct ig_pool *pool, const struct ig_pool_item *items, uint32_t n_items);

#endif
