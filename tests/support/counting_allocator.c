#include "support/counting_allocator.h"

#include <stdlib.h>
#include <string.h>

/* Precedes each allocation, to check its release. */
struct header {
    void *block;
    size_t size;
};

static void *count_alloc(void *user, size_t size, size_t alignment) {
    struct counting_allocator *counter = user;
    if (atomic_fetch_add(&counter->calls, 1) + 1 == counter->fail_at) return NULL;
    if (size > (size_t)1 << 40) return NULL; /* sanitizers abort on such sizes */
    if (alignment < sizeof(struct header)) alignment = sizeof(struct header);
    char *block = malloc(size + alignment + sizeof(struct header));
    if (!block) return NULL;
    uintptr_t at = (uintptr_t)block + sizeof(struct header);
    char *memory = block + sizeof(struct header) + (alignment - at % alignment) % alignment;
    struct header header = {block, size};
    memcpy(memory - sizeof header, &header, sizeof header);
    memset(memory, 0xa5, size); /* callers must not rely on zeros */
    atomic_fetch_add(&counter->live_count, 1);
    atomic_fetch_add(&counter->live_bytes, size);
    return memory;
}

static void count_release(void *user, void *memory, size_t size) {
    struct counting_allocator *counter = user;
    struct header header;
    memcpy(&header, (char *)memory - sizeof header, sizeof header);
    if (header.size != size) atomic_fetch_add(&counter->wrong, 1);
    atomic_fetch_sub(&counter->live_count, 1);
    atomic_fetch_sub(&counter->live_bytes, header.size);
    free(header.block);
}

void counting_allocator_init(struct counting_allocator *allocator) {
    memset(allocator, 0, sizeof *allocator);
    allocator->base = (struct ingot_allocator){allocator, count_alloc, count_release};
}
