/*
 * An allocator that keeps large blocks for later: memory that is used again and again for a few milliseconds would
 * otherwise come from the system each time, which zeroes it page by page.
 */
#ifndef IG_BASE_SPARE_H
#define IG_BASE_SPARE_H

#include <pthread.h>

#include "base/memory.h"

enum { IG_MOST_BLOCKS = 256 };

struct ig_spares {
    struct ingot_allocator allocator; /* to be used; thread-safe */
    const struct ingot_allocator *base;
    pthread_mutex_t mutex; /* guards what follows */
    struct ig_spare {
        void *memory;
        size_t size, alignment;
        bool is_used;
    } blocks[IG_MOST_BLOCKS];
};

void ig_spares_init(struct ig_spares *spares, const struct ingot_allocator *base);
/* All blocks must have been released. */
void ig_spares_deinit(struct ig_spares *spares);

#endif
