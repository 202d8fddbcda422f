/* A hash map from byte strings to 32-bit numbers, in a job's arena. Keys are copied. */
#ifndef IG_BASE_MAP_H
#define IG_BASE_MAP_H

#include "base/job.h"

struct ig_map {
    struct ig_job *job;
    struct ig_map_slot *slots;
    uint32_t count, capacity;
};

void ig_map_init(struct ig_map *map, struct ig_job *job);
/* Adds or replaces. */
void ig_map_put(struct ig_map *map, const void *key, size_t length, uint32_t value);
bool ig_map_get(const struct ig_map *map, const void *key, size_t length, uint32_t *out_value);
/* The same with NUL-terminated strings. */
void ig_map_put_name(struct ig_map *map, const char *name, uint32_t value);
bool ig_map_get_name(const struct ig_map *map, const char *name, uint32_t *out_value);

#endif
