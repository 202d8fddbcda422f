/* An engine that is written to memory. */
#ifndef TEST_ENGINE_BYTES_H
#define TEST_ENGINE_BYTES_H

#include "base/job.h"
#include "engine/engine.h"

struct engine_bytes {
    struct ig_job *job;  /* has the memory */
    unsigned char *data; /* aligned to 64 bytes */
    size_t size, capacity;
};

/* Writes to `bytes`, which it empties. */
struct ig_engine_sink engine_bytes_sink(struct engine_bytes *bytes, struct ig_job *job);

#endif
