/* A hash map by open addressing with linear probing; entries are never removed. See map.h. */
#include "base/map.h"

#include <string.h>

#include "base/hash/hash.h"

struct ig_map_slot {
    const void *key; /* NULL: empty */
    size_t length;
    uint64_t hash;
    uint32_t value;
};

void ig_map_init(struct ig_map *map, struct ig_job *job) {
    *map = (struct ig_map){.job = job};
}

/* The slot of the key, or the empty one where it belongs. The capacity is a power of two, and the table never full. */
static struct ig_map_slot *find(const struct ig_map *map, const void *key, size_t length, uint64_t hash) {
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
        struct ig_map_slot *slot = &map->slots[i];
        if (!slot->key) return slot;
        if (slot->hash == hash && slot->length == length && memcmp(slot->key, key, length) == 0) return slot;
    }
}

static void grow(struct ig_map *map) {
    struct ig_map_slot *old = map->slots;
    uint32_t old_capacity = map->capacity;
    if (old_capacity > UINT32_MAX / 2) ig_raise(map->job, INGOT_OUT_OF_MEMORY, "out of memory (a map is full)");
    uint32_t capacity = old_capacity ? 2 * old_capacity : 16;
    map->slots = ig_alloc_array(map->job, capacity, sizeof *map->slots);
    map->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].key) *find(map, old[i].key, old[i].length, old[i].hash) = old[i];
    }
}

void ig_map_put(struct ig_map *map, const void *key, size_t length, uint32_t value) {
    if (map->count >= map->capacity - map->capacity / 4) grow(map); /* also true if both are 0 */
    uint64_t hash = ig_hash64(key, length);
    struct ig_map_slot *slot = find(map, key, length, hash);
    if (!slot->key) {
        *slot = (struct ig_map_slot){.key = ig_memdup(map->job, key, length), .length = length, .hash = hash};
        map->count++;
    }
    slot->value = value;
}

bool ig_map_get(const struct ig_map *map, const void *key, size_t length, uint32_t *out_value) {
    if (!map->capacity) return false;
    const struct ig_map_slot *slot = find(map, key, length, ig_hash64(key, length));
    if (!slot->key) return false;
    *out_value = slot->value;
    return true;
}

void ig_map_put_name(struct ig_map *map, const char *name, uint32_t value) {
    ig_map_put(map, name, strlen(name), value);
}

bool ig_map_get_name(const struct ig_map *map, const char *name, uint32_t *out_value) {
    return ig_map_get(map, name, strlen(name), out_value);
}
