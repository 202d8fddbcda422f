/* An allocator that counts allocations and releases, and fails on request. Thread-safe. */
#ifndef TESTS_SUPPORT_COUNTING_ALLOCATOR_H
#define TESTS_SUPPORT_COUNTING_ALLOCATOR_H

#include <stdatomic.h>

#include "ingot/ingot.h"

struct counting_allocator {
    struct ingot_allocator base;
    atomic_size_t calls;      /* of alloc */
    atomic_size_t live_count; /* allocations not yet released */
    atomic_size_t live_bytes;
    atomic_size_t wrong; /* releases with a size other than the allocated one */
    size_t fail_at;      /* this call of alloc fails, counted from 1; 0: none */
};

void counting_allocator_init(struct counting_allocator *allocator);

#endif
