#include "support/plan/engine_bytes.h"

#include <stdint.h>
#include <string.h>

static enum ingot_status write(void *user, const void *data, size_t size, struct ingot_error *error) {
    struct engine_bytes *b = user;
    (void)error;
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        unsigned char *bytes = ig_alloc(b->job, b->capacity + 64);
        bytes += (64 - (uintptr_t)bytes % 64) % 64;
        if (b->size > 0) memcpy(bytes, b->data, b->size);
        b->data = bytes;
    }
    if (size > 0) memcpy(b->data + b->size, data, size);
    b->size += size;
    return INGOT_OK;
}

static enum ingot_status patch(void *user, uint64_t offset, const void *data, size_t size, struct ingot_error *error) {
    struct engine_bytes *b = user;
    (void)error;
    memcpy(b->data + offset, data, size);
    return INGOT_OK;
}

struct ig_engine_sink engine_bytes_sink(struct engine_bytes *bytes, struct ig_job *job) {
    *bytes = (struct engine_bytes){.job = job};
    return (struct ig_engine_sink){bytes, write, patch};
}
