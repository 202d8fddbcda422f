/*
 * A plan instance: everything that a context derives from one set of shapes. Instances live in an LRU cache bounded in
 * number and in bytes.
 */
#ifndef IG_RUNTIME_INSTANCE_H
#define IG_RUNTIME_INSTANCE_H

#include "runtime/frame.h"

struct ig_instance {
    struct ig_arena memory; /* holds everything below; the struct itself comes from the allocator */
    int64_t *slots;         /* values of the shape program; the symbols come first and are the cache key */
    struct ig_frame *frame; /* of the main plan */
    size_t scratch;         /* bytes per worker */
    size_t bytes;           /* total, lists included */
    size_t list_bytes;
    bool captured;
    uint64_t last_used;
};

/* Evaluates the shape program and plans the memory; `symbols` have been checked. Assigns no addresses: see
 * ig_frame_place. The caller sets the device's parts of `env`, the file and the allocator. */
enum ingot_status ig_instance_create(const struct ig_frame_env *env, const int64_t *symbols,
                                     struct ig_instance **out_instance, struct ingot_error *error);
/* Captures the lists, once per instance; for preconditions see ig_frame_capture. */
enum ingot_status ig_instance_capture(struct ig_instance *instance, const struct ig_frame_env *env,
                                      struct ingot_error *error);
/* Notes that the captured lists are stale and have been destroyed. */
void ig_instance_forget(struct ig_instance *instance);
void ig_instance_destroy(struct ig_instance *instance, const struct ig_frame_env *env);

struct ig_instance_cache {
    struct ig_instance **at;
    size_t count, capacity;
    size_t max_bytes;
    uint64_t clock;
};

enum ingot_status ig_instance_cache_init(struct ig_instance_cache *cache, size_t capacity, size_t max_bytes,
                                         const struct ingot_allocator *allocator, struct ingot_error *error);
void ig_instance_cache_deinit(struct ig_instance_cache *cache, const struct ig_frame_env *env);
/* NULL if there is none for these symbols. Counts as a use. */
struct ig_instance *ig_instance_cache_find(struct ig_instance_cache *cache, const int64_t *symbols, uint32_t n_symbols);
/* Adds the instance, destroying the least recently used if the cache is full. */
void ig_instance_cache_add(struct ig_instance_cache *cache, struct ig_instance *instance,
                           const struct ig_frame_env *env);
/* Destroys the least recently used instances until the bytes are within the bound; always keeps the most recent. */
void ig_instance_cache_trim(struct ig_instance_cache *cache, const struct ig_frame_env *env);

#endif
