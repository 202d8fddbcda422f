/*
 * Memory: the caller's allocator, and arenas on top of it. All size arithmetic is checked for overflow.
 */
#ifndef IG_BASE_MEMORY_H
#define IG_BASE_MEMORY_H

#include "ingot/ingot.h"

/* The C library's allocator (aligned_alloc, free). */
extern const struct ingot_allocator ig_libc_allocator;

/* False if a * b (or a + b) overflows. */
bool ig_size_mul(size_t a, size_t b, size_t *out);
bool ig_size_add(size_t a, size_t b, size_t *out);

/* Zeroed memory or NULL. */
void *ig_allocate(const struct ingot_allocator *allocator, size_t size, size_t alignment);
void ig_release(const struct ingot_allocator *allocator, void *memory, size_t size);

/* A bump allocator in growing blocks; everything is freed at once. Not thread-safe. */
struct ig_arena {
    const struct ingot_allocator *allocator;
    struct ig_arena_block *head;
};

void ig_arena_init(struct ig_arena *arena, const struct ingot_allocator *allocator);
void ig_arena_deinit(struct ig_arena *arena);
/* Zeroed, aligned to 16 bytes (64 for sizes from 4096 up); NULL if the allocator fails. */
void *ig_arena_alloc(struct ig_arena *arena, size_t size);
/* Total bytes of its blocks. */
size_t ig_arena_bytes(const struct ig_arena *arena);

#endif
