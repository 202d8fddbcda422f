/* Engines in memory; see engine.h. */
#include <string.h>

#include "base/memory.h"
#include "engine/engine.h"

enum { ALIGNMENT = 64 };

static bool resize(struct ig_engine_memory *m, size_t capacity) {
    unsigned char *data = m->allocator->alloc(m->allocator->user, capacity, ALIGNMENT); /* need not be zeroed */
    if (!data) return false;
    if (m->size > 0) memcpy(data, m->data, m->size);
    ig_release(m->allocator, m->data, m->capacity);
    m->data = data;
    m->capacity = capacity;
    return true;
}

static enum ingot_status memory_write(void *user, const void *data, size_t size, struct ingot_error *error) {
    struct ig_engine_memory *m = user;
    size_t needed;
    if (!ig_size_add(m->size, size, &needed)) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    if (needed > m->capacity && !resize(m, needed + needed / 2))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an engine of %zu bytes", needed);
    if (size > 0) memcpy(m->data + m->size, data, size);
    m->size = needed;
    return INGOT_OK;
}

static enum ingot_status memory_patch(void *user, uint64_t offset, const void *data, size_t size,
                                      struct ingot_error *error) {
    struct ig_engine_memory *m = user;
    if (offset > m->size || size > m->size - offset) {
        return IG_ERR(error, INGOT_INTERNAL, "patch of %zu bytes at %llu outside the engine", size,
                      (unsigned long long)offset);
    }
    if (size > 0) memcpy(m->data + offset, data, size);
    return INGOT_OK;
}

struct ig_engine_sink ig_engine_memory_sink(struct ig_engine_memory *m) {
    return (struct ig_engine_sink){m, memory_write, memory_patch};
}

bool ig_engine_memory_fit(struct ig_engine_memory *m) {
    return m->capacity == m->size || resize(m, m->size);
}

void ig_engine_memory_release(struct ig_engine_memory *m) {
    ig_release(m->allocator, m->data, m->capacity);
    *m = (struct ig_engine_memory){.allocator = m->allocator};
}
