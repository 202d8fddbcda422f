/* The level in memory: copies of the entries used last, for a process that builds more than once. */
#ifndef IG_CACHE_MEMORY_H
#define IG_CACHE_MEMORY_H

#include "cache/cache.h"

/* NULL if memory runs out. Holds at most `max_bytes`, least recently used out first, and no entry of more than a quarter
 * of that. */
struct ig_cache_level *ig_cache_memory_create(const struct ingot_allocator *allocator, size_t max_bytes);

#endif
