/* Plan instances and their cache; see instance.h. */
#include "runtime/frame/instance.h"

#include <string.h>

#include "base/hash/hash.h"
#include "runtime/frame/shape.h"

/* The buckets of a new cache: enough for the few shapes that most contexts see. */
#define FIRST_BUCKETS 16

static enum ingot_status fill(struct ig_instance *instance, struct ig_frame_env *env, const int64_t *symbols,
                              struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    instance->slots = ig_arena_alloc(&instance->memory, ig_shape_slots(plan) * sizeof *instance->slots);
    env->seen = ig_arena_alloc(&instance->memory, plan->n_subplans);
    if (!instance->slots || !env->seen) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
    if (plan->n_symbols) memcpy(instance->slots, symbols, plan->n_symbols * sizeof *symbols);
    IG_TRY(ig_shape_evaluate(plan, instance->slots, error));
    env->slots = instance->slots;
    env->memory = &instance->memory;
    IG_TRY(ig_frame_create(env, 0, &instance->frame, error));
    instance->scratch = env->scratch;
    instance->bytes = sizeof *instance + ig_arena_bytes(&instance->memory);
    return INGOT_OK;
}

enum ingot_status ig_instance_create(const struct ig_frame_env *env, const int64_t *symbols,
                                     struct ig_instance **out_instance, struct ingot_error *error) {
    struct ig_instance *instance = ig_allocate(env->allocator, sizeof *instance, _Alignof(struct ig_instance));
    if (!instance) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
    ig_arena_init(&instance->memory, env->allocator);
    instance->part = -1;
    struct ig_frame_env own = *env;
    enum ingot_status status = fill(instance, &own, symbols, error);
    if (status != INGOT_OK)
        ig_instance_destroy(instance, env);
    else
        *out_instance = instance;
    return status;
}

enum ingot_status ig_instance_capture(struct ig_instance *instance, const struct ig_frame_env *env,
                                      struct ingot_error *error) {
    if (instance->captured) return INGOT_OK;
    IG_TRY(ig_frame_capture(env, instance->frame, error));
    instance->list_bytes = ig_frame_list_bytes(instance->frame, env->device);
    instance->bytes += instance->list_bytes;
    instance->captured = true;
    return INGOT_OK;
}

enum ingot_status ig_instance_make_ready(struct ig_instance *instance, struct ig_device *device,
                                         struct ig_stream *stream, struct ingot_error *error) {
    if (instance->ready) return INGOT_OK;
    IG_TRY(ig_frame_make_ready(device, stream, instance->frame, error));
    instance->ready = true;
    return INGOT_OK;
}

void ig_instance_forget(struct ig_instance *instance) {
    instance->bytes -= instance->list_bytes;
    instance->list_bytes = 0;
    instance->captured = instance->ready = false;
}

void ig_instance_destroy(struct ig_instance *instance, const struct ig_frame_env *env) {
    if (!instance) return;
    ig_frame_destroy(instance->frame, env->device);
    ig_arena_deinit(&instance->memory);
    ig_release(env->allocator, instance, sizeof *instance);
}

/* ---- The cache --------------------------------------------------------------------------------------------------- */

static struct ig_instance **new_buckets(const struct ingot_allocator *allocator, size_t count) {
    return ig_allocate(allocator, count * sizeof(struct ig_instance *), _Alignof(struct ig_instance *));
}

static void release_buckets(const struct ig_instance_cache *cache) {
    ig_release(cache->allocator, cache->buckets, cache->n_buckets * sizeof(struct ig_instance *));
}

enum ingot_status ig_instance_cache_init(struct ig_instance_cache *cache, size_t max_count, size_t max_bytes,
                                         const struct ingot_allocator *allocator, struct ingot_error *error) {
    *cache = (struct ig_instance_cache){
        .allocator = allocator, .n_buckets = FIRST_BUCKETS, .max_count = max_count, .max_bytes = max_bytes};
    cache->buckets = new_buckets(allocator, FIRST_BUCKETS);
    return cache->buckets ? INGOT_OK : IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for plan instances");
}

void ig_instance_cache_deinit(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    for (struct ig_instance *at = cache->newest, *older; at; at = older) {
        older = at->older;
        ig_instance_destroy(at, env);
    }
    if (cache->buckets) release_buckets(cache);
}

static struct ig_instance **bucket_of(const struct ig_instance_cache *cache, uint64_t hash) {
    return &cache->buckets[hash & (cache->n_buckets - 1)];
}

static void unlink_use(struct ig_instance_cache *cache, struct ig_instance *instance) {
    *(instance->newer ? &instance->newer->older : &cache->newest) = instance->older;
    *(instance->older ? &instance->older->newer : &cache->oldest) = instance->newer;
}

static void link_newest(struct ig_instance_cache *cache, struct ig_instance *instance) {
    instance->newer = NULL;
    instance->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = instance;
    cache->newest = instance;
}

static uint64_t hash_of(const int64_t *symbols, uint32_t n_symbols) {
    return n_symbols ? ig_hash64(symbols, n_symbols * sizeof *symbols) : 0;
}

struct ig_instance *ig_instance_cache_peek(const struct ig_instance_cache *cache, const int64_t *symbols,
                                           uint32_t n_symbols) {
    uint64_t hash = hash_of(symbols, n_symbols);
    struct ig_instance *at = *bucket_of(cache, hash);
    while (at && (at->hash != hash || (n_symbols && memcmp(at->slots, symbols, n_symbols * sizeof *symbols) != 0)))
        at = at->chain;
    return at;
}

struct ig_instance *ig_instance_cache_find(struct ig_instance_cache *cache, const int64_t *symbols,
                                           uint32_t n_symbols) {
    struct ig_instance *at = ig_instance_cache_peek(cache, symbols, n_symbols);
    if (!at) return NULL;
    cache->info.hits++;
    if (at == cache->newest) return at;
    unlink_use(cache, at);
    link_newest(cache, at);
    return at;
}

void ig_instance_cache_drop(struct ig_instance_cache *cache, struct ig_instance *instance,
                            const struct ig_frame_env *env) {
    struct ig_instance **link = bucket_of(cache, instance->hash);
    while (*link != instance)
        link = &(*link)->chain;
    *link = instance->chain;
    unlink_use(cache, instance);
    cache->info.bytes -= instance->counted;
    cache->info.instances--;
    cache->info.evictions++;
    ig_instance_destroy(instance, env);
}

static void drop_oldest(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    ig_instance_cache_drop(cache, cache->oldest, env);
}

/* Doubles the buckets. Without memory for it the chains stay longer, which only costs time. */
static void grow(struct ig_instance_cache *cache) {
    struct ig_instance **larger = new_buckets(cache->allocator, 2 * cache->n_buckets);
    if (!larger) return;
    release_buckets(cache);
    cache->buckets = larger;
    cache->n_buckets *= 2;
    for (struct ig_instance *at = cache->newest; at; at = at->older) {
        struct ig_instance **bucket = bucket_of(cache, at->hash);
        at->chain = *bucket;
        *bucket = at;
    }
}

void ig_instance_cache_trim(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    struct ig_instance *newest = cache->newest;
    cache->info.bytes += newest->bytes - newest->counted;
    newest->counted = newest->bytes;
    while (cache->oldest && cache->oldest != newest && cache->info.bytes > cache->max_bytes)
        drop_oldest(cache, env);
}

bool ig_instance_cache_is_full(const struct ig_instance_cache *cache, const struct ig_instance *instance) {
    bool many = cache->max_count && cache->info.instances == cache->max_count;
    return cache->oldest &&
           (many || instance->bytes > cache->max_bytes || cache->info.bytes > cache->max_bytes - instance->bytes);
}

void ig_instance_cache_add(struct ig_instance_cache *cache, struct ig_instance *instance, uint32_t n_symbols,
                           const struct ig_frame_env *env) {
    if (cache->max_count && cache->info.instances == cache->max_count) drop_oldest(cache, env);
    if (cache->info.instances == cache->n_buckets) grow(cache);
    instance->hash = hash_of(instance->slots, n_symbols);
    struct ig_instance **bucket = bucket_of(cache, instance->hash);
    instance->chain = *bucket;
    *bucket = instance;
    link_newest(cache, instance);
    cache->info.instances++;
    cache->info.misses++;
    ig_instance_cache_trim(cache, env);
}
