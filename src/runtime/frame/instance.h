/*
 * A plan instance: everything that a context derives from one set of shapes. Instances live in a cache that is bounded
 * in bytes and, if asked for, in number: a hash table by the symbols' values, whose entries are also linked in the order
 * of their last use.
 */
#ifndef IG_RUNTIME_INSTANCE_H
#define IG_RUNTIME_INSTANCE_H

#include "runtime/frame/frame.h"

struct ig_results;

struct ig_instance {
    struct ig_arena memory; /* holds everything below; the struct itself comes from the allocator */
    int64_t *slots;         /* values of the shape program; the symbols come first and are the cache key */
    struct ig_frame *frame; /* of the main plan */
    size_t scratch;         /* bytes per worker */
    size_t bytes;           /* total, lists included */
    size_t list_bytes;
    struct ig_results *results; /* that its lists were last bound to; NULL: none */
    int64_t part;               /* rows of the parts that these shapes are computed in; 0: whole; -1: undecided */
    bool captured, ready;       /* ready: its lists are made for many launches, not one */
    size_t counted;             /* the part of `bytes` that is in the cache's total */
    uint64_t hash;              /* of the symbols */
    struct ig_instance *chain;  /* the next in the same bucket, or of those that preparer.h has */
    struct ig_instance *older, *newer; /* by last use */
};

/* Evaluates the shape program and plans the memory; `symbols` have been checked. Assigns no addresses: see
 * ig_frame_place. The caller sets the device's parts of `env`, the file and the allocator. */
enum ingot_status ig_instance_create(const struct ig_frame_env *env, const int64_t *symbols,
                                     struct ig_instance **out_instance, struct ingot_error *error);
/* Captures the lists, once per instance; for preconditions see ig_frame_capture. */
enum ingot_status ig_instance_capture(struct ig_instance *instance, const struct ig_frame_env *env,
                                      struct ingot_error *error);
/* Makes the captured lists ready for many launches, once per instance; see list_ready in device.h. */
enum ingot_status ig_instance_make_ready(struct ig_instance *instance, struct ig_device *device,
                                         struct ig_stream *stream, struct ingot_error *error);
/* Notes that the captured lists are stale and have been destroyed. */
void ig_instance_forget(struct ig_instance *instance);
void ig_instance_destroy(struct ig_instance *instance, const struct ig_frame_env *env);

struct ig_instance_cache {
    const struct ingot_allocator *allocator;
    struct ig_instance **buckets;
    size_t n_buckets; /* a power of two */
    struct ig_instance *newest, *oldest;
    size_t max_count, max_bytes;
    struct ingot_plans_info info; /* `instances` and `bytes` are those in the cache */
};

/* `max_count` 0: no bound. */
enum ingot_status ig_instance_cache_init(struct ig_instance_cache *cache, size_t max_count, size_t max_bytes,
                                         const struct ingot_allocator *allocator, struct ingot_error *error);
void ig_instance_cache_deinit(struct ig_instance_cache *cache, const struct ig_frame_env *env);
/* NULL if there is none for these symbols. Counts as a use. */
struct ig_instance *ig_instance_cache_find(struct ig_instance_cache *cache, const int64_t *symbols, uint32_t n_symbols);
/* The same without counting as a use. */
struct ig_instance *ig_instance_cache_peek(const struct ig_instance_cache *cache, const int64_t *symbols,
                                           uint32_t n_symbols);
/* Would adding the instance destroy others? */
bool ig_instance_cache_is_full(const struct ig_instance_cache *cache, const struct ig_instance *instance);
/* Adds the instance for `n_symbols` symbols, destroying the least recently used ones if the cache is full. */
void ig_instance_cache_add(struct ig_instance_cache *cache, struct ig_instance *instance, uint32_t n_symbols,
                           const struct ig_frame_env *env);
/* Destroys an instance of the cache, which no run uses. */
void ig_instance_cache_drop(struct ig_instance_cache *cache, struct ig_instance *instance,
                            const struct ig_frame_env *env);
/* Counts what the most recent instance has grown by since it was added, and destroys the least recently used ones until
 * the bytes are within the bound; the most recent always stays. */
void ig_instance_cache_trim(struct ig_instance_cache *cache, const struct ig_frame_env *env);

#endif
