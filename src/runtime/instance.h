/*
 * A plan instance: what a context knows about one set of shapes. Instances live in a cache that is bounded in number
 * and in bytes, least recently used out first.
 */
#ifndef IG_RUNTIME_INSTANCE_H
#define IG_RUNTIME_INSTANCE_H

#include "runtime/frame.h"

struct ig_instance {
    struct ig_arena memory; /* everything below; the instance itself comes from the allocator */
    int64_t *slots;         /* all numbers of these shapes; the first, the symbols, are the key */
    struct ig_frame *frame; /* of the main plan */
    size_t scratch;         /* per worker */
    size_t bytes;           /* of it all, lists included */
    size_t list_bytes;
    bool captured;
    uint64_t last_used;
};

/* Evaluates the shapes and plans the memory; `symbols` have been checked. No addresses yet: see ig_frame_place. Of `env`
 * the device's parts, the file and the allocator are set. */
enum ingot_status ig_instance_create(const struct ig_frame_env *env, const int64_t *symbols,
                                     struct ig_instance **out_instance, struct ingot_error *error);
/* Captures the lists, once; see ig_frame_capture for what must be there. */
enum ingot_status ig_instance_capture(struct ig_instance *instance, const struct ig_frame_env *env,
                                      struct ingot_error *error);
/* What was captured does not hold any more and was given back. */
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
/* NULL where there is none for these symbols. Counts as a use. */
struct ig_instance *ig_instance_cache_find(struct ig_instance_cache *cache, const int64_t *symbols, uint32_t n_symbols);
/* Adds, and destroys the least recently used where there is no room. */
void ig_instance_cache_add(struct ig_instance_cache *cache, struct ig_instance *instance,
                           const struct ig_frame_env *env);
/* Destroys the least recently used until the bytes keep to the bound; the one used last stays in any case. */
void ig_instance_cache_trim(struct ig_instance_cache *cache, const struct ig_frame_env *env);

#endif
