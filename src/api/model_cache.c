/* ingot_cache_*: the cache of builds. */
#include "api/options.h"
#include "cache/disk.h"
#include "cache/memory.h"
#include "cache/shared.h"

static const uint64_t DEFAULT_BYTES = 10000000000u;
static const size_t DEFAULT_MEMORY_BYTES = (size_t)64 << 20;
enum { WAIT_SECONDS = 600 };

static enum ingot_status add_shared(struct ingot_cache *cache, const struct ingot_cache_options *o,
                                    struct ingot_error *error) {
    struct ig_seal_keys keys;
    struct ig_cache_level *level = NULL;
    const double seconds = o->shared_seconds > 0 ? o->shared_seconds : 5;
    if (!(o->shared_seconds >= 0) || seconds > 3600 || (o->n_trusted_keys > 0 && !o->trusted_keys))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a time limit or an array of keys of the shared cache is wrong");
    IG_TRY(ig_seal_keys_read(o->key_file, o->trusted_keys, o->n_trusted_keys, &keys, error));
    IG_TRY(ig_cache_shared_create(o->shared, (unsigned)(seconds * 1000) + 1, &keys, cache->allocator, &level, error));
    cache->levels[cache->n_levels++] = level;
    return INGOT_OK;
}

static enum ingot_status fill(struct ingot_cache *cache, const struct ingot_cache_options *o,
                              struct ingot_error *error) {
    if (o->engines) cache->max_engine = (o->max_bytes ? o->max_bytes : DEFAULT_BYTES) / 8;
    struct ig_cache_level *memory =
        ig_cache_memory_create(cache->allocator, o->max_memory_bytes ? o->max_memory_bytes : DEFAULT_MEMORY_BYTES);
    if (!memory) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a cache");
    cache->levels[cache->n_levels++] = memory;
    if (o->folder) {
        IG_TRY(ig_cache_disk_create(o->folder, o->max_bytes ? o->max_bytes : DEFAULT_BYTES, cache->allocator,
                                    &cache->disk, error));
        cache->levels[cache->n_levels++] = cache->disk;
    }
    return o->shared ? add_shared(cache, o, error) : INGOT_OK;
}

enum ingot_status ingot_cache_open(const struct ingot_cache_options *given, struct ingot_cache **out_cache,
                                   struct ingot_error *error) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    if (!out_cache) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_open: out_cache is NULL");
    IG_TRY(ig_options_read("ingot_cache_options", given, sizeof options, &options, error));
    IG_TRY(ig_options_allocator(options.allocator, &ig_libc_allocator, &allocator, error));
    struct ingot_cache *cache = ig_allocate(allocator, sizeof *cache, _Alignof(struct ingot_cache));
    if (!cache) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a cache");
    cache->allocator = allocator;
    cache->wait_seconds = WAIT_SECONDS;
    enum ingot_status status = fill(cache, &options, error);
    if (status != INGOT_OK) {
        ingot_cache_close(cache);
        return status;
    }
    *out_cache = cache;
    return INGOT_OK;
}

void ingot_cache_close(struct ingot_cache *cache) {
    if (!cache) return;
    for (unsigned i = 0; i < cache->n_levels; i++)
        cache->levels[i]->api->destroy(cache->levels[i]);
    ig_release(cache->allocator, cache, sizeof *cache);
}

enum ingot_status ingot_cache_generate_key(const char *key_file, char out_public[65], struct ingot_error *error) {
    if (!key_file || !out_public)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_generate_key: NULL argument");
    return ig_seal_generate(key_file, out_public, error);
}

static enum ingot_status need_folder(const struct ingot_cache *cache, const char *function, struct ingot_error *error) {
    if (!cache) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s: NULL argument", function);
    if (!cache->disk) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the cache has no folder");
    return INGOT_OK;
}

/* ---- Listing */

static void report(struct ig_cache_level *disk, const struct ig_disk_entry *e,
                   void (*entry)(void *user, const struct ingot_cache_entry *entry), void *user) {
    struct ig_cache_found found = {.fd = -1};
    struct ingot_error error;
    char key[33];
    enum ig_cache_answer answer = ig_disk_check(disk, &e->id, &found, &error);
    if (answer == IG_CACHE_MISS) return; /* removed since it was listed */
    ig_hash128_print(e->id.key, key);
    struct ingot_cache_entry out = {
        .kind = ig_cache_kind_name(e->id.kind), .key = key, .bytes = e->bytes, .used = e->used_seconds};
    if (answer == IG_CACHE_HIT) {
        out.label = found.content.label;
        out.contents_bytes = found.content.head_size + found.content.body_size;
    } else {
        out.damage = error.message;
    }
    entry(user, &out);
    ig_cache_found_release(&found);
}

enum ingot_status ingot_cache_list(struct ingot_cache *cache,
                                   void (*entry)(void *user, const struct ingot_cache_entry *entry), void *user,
                                   struct ingot_error *error) {
    struct ig_disk_list list = {0};
    IG_TRY(need_folder(cache, "ingot_cache_list", error));
    if (!entry) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_list: NULL argument");
    IG_TRY(ig_disk_list(cache->disk, &list, error));
    for (size_t i = list.count; i-- > 0;)
        report(cache->disk, &list.at[i], entry, user);
    ig_disk_list_release(cache->disk, &list);
    return INGOT_OK;
}

enum ingot_status ingot_cache_describe(struct ingot_cache *cache, struct ingot_cache_info *out_info,
                                       struct ingot_error *error) {
    struct ig_disk_list list = {0};
    IG_TRY(need_folder(cache, "ingot_cache_describe", error));
    if (!out_info) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_describe: NULL argument");
    IG_TRY(ig_disk_list(cache->disk, &list, error));
    uint64_t entries[IG_CACHE_KIND_END] = {0}, bytes[IG_CACHE_KIND_END] = {0};
    for (size_t i = 0; i < list.count; i++) {
        entries[list.at[i].id.kind]++;
        bytes[list.at[i].id.kind] += list.at[i].bytes;
    }
    *out_info = (struct ingot_cache_info){
        .folder = ig_disk_folder(cache->disk),
        .max_bytes = ig_disk_max_bytes(cache->disk),
        .entries = list.count,
        .bytes = list.bytes,
        .kernels = entries[IG_CACHE_KERNEL],
        .structures = entries[IG_CACHE_STRUCTURE],
        .engines = entries[IG_CACHE_ENGINE],
        .kernel_bytes = bytes[IG_CACHE_KERNEL],
        .structure_bytes = bytes[IG_CACHE_STRUCTURE],
        .engine_bytes = bytes[IG_CACHE_ENGINE],
    };
    ig_disk_list_release(cache->disk, &list);
    return INGOT_OK;
}

/* ---- Changing */

enum ingot_status ingot_cache_prune(struct ingot_cache *cache, uint64_t max_bytes, uint64_t *out_entries,
                                    uint64_t *out_bytes, struct ingot_error *error) {
    size_t entries = 0;
    uint64_t bytes = 0;
    IG_TRY(need_folder(cache, "ingot_cache_prune", error));
    IG_TRY(ig_disk_prune(cache->disk, max_bytes, &entries, &bytes, error));
    if (out_entries) *out_entries = entries;
    if (out_bytes) *out_bytes = bytes;
    return INGOT_OK;
}

enum ingot_status ingot_cache_export(struct ingot_cache *cache, const char *path, uint64_t *out_entries,
                                     struct ingot_error *error) {
    size_t entries = 0;
    IG_TRY(need_folder(cache, "ingot_cache_export", error));
    if (!path) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_export: NULL argument");
    IG_TRY(ig_disk_export(cache->disk, path, &entries, error));
    if (out_entries) *out_entries = entries;
    return INGOT_OK;
}

enum ingot_status ingot_cache_import(struct ingot_cache *cache, const char *path, uint64_t *out_entries,
                                     uint64_t *out_new, struct ingot_error *error) {
    size_t entries = 0, new = 0;
    IG_TRY(need_folder(cache, "ingot_cache_import", error));
    if (!path) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_cache_import: NULL argument");
    IG_TRY(ig_disk_import(cache->disk, path, &entries, &new, error));
    if (out_entries) *out_entries = entries;
    if (out_new) *out_new = new;
    return INGOT_OK;
}
