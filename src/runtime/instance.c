/* Plan instances and their cache; see instance.h. */
#include "runtime/instance.h"

#include <string.h>

#include "runtime/shape.h"

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

void ig_instance_forget(struct ig_instance *instance) {
    instance->bytes -= instance->list_bytes;
    instance->list_bytes = 0;
    instance->captured = false;
}

void ig_instance_destroy(struct ig_instance *instance, const struct ig_frame_env *env) {
    if (!instance) return;
    ig_frame_destroy(instance->frame, env->device);
    ig_arena_deinit(&instance->memory);
    ig_release(env->allocator, instance, sizeof *instance);
}

/* ---- The cache --------------------------------------------------------------------------------------------------- */

enum ingot_status ig_instance_cache_init(struct ig_instance_cache *cache, size_t capacity, size_t max_bytes,
                                         const struct ingot_allocator *allocator, struct ingot_error *error) {
    size_t bytes;
    *cache = (struct ig_instance_cache){.capacity = capacity, .max_bytes = max_bytes};
    if (ig_size_mul(capacity, sizeof(struct ig_instance *), &bytes))
        cache->at = ig_allocate(allocator, bytes, _Alignof(struct ig_instance *));
    if (!cache->at) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %zu plan instances", capacity);
    return INGOT_OK;
}

void ig_instance_cache_deinit(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    for (size_t i = 0; i < cache->count; i++)
        ig_instance_destroy(cache->at[i], env);
    ig_release(env->allocator, cache->at, cache->capacity * sizeof(struct ig_instance *));
}

struct ig_instance *ig_instance_cache_find(struct ig_instance_cache *cache, const int64_t *symbols,
                                           uint32_t n_symbols) {
    for (size_t i = 0; i < cache->count; i++) {
        struct ig_instance *instance = cache->at[i];
        if (n_symbols && memcmp(instance->slots, symbols, n_symbols * sizeof *symbols) != 0) continue;
        instance->last_used = ++cache->clock;
        return instance;
    }
    return NULL;
}

static void drop_oldest(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    size_t oldest = 0;
    for (size_t i = 1; i < cache->count; i++) {
        if (cache->at[i]->last_used < cache->at[oldest]->last_used) oldest = i;
    }
    ig_instance_destroy(cache->at[oldest], env);
    cache->at[oldest] = cache->at[--cache->count];
}

void ig_instance_cache_add(struct ig_instance_cache *cache, struct ig_instance *instance,
                           const struct ig_frame_env *env) {
    instance->last_used = ++cache->clock;
    if (cache->count == cache->capacity) drop_oldest(cache, env);
    cache->at[cache->count++] = instance;
}

static size_t bytes_of_all(const struct ig_instance_cache *cache) {
    size_t bytes = 0;
    for (size_t i = 0; i < cache->count; i++)
        bytes += cache->at[i]->bytes;
    return bytes;
}

void ig_instance_cache_trim(struct ig_instance_cache *cache, const struct ig_frame_env *env) {
    while (cache->count > 1 && bytes_of_all(cache) > cache->max_bytes)
        drop_oldest(cache, env);
}
