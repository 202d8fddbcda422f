/* Hashes of many ranges of bytes at once, by several threads. */
#ifndef IG_BASE_HASH_ALL_H
#define IG_BASE_HASH_ALL_H

#include "base/hash/hash.h"
#include "base/job.h"

struct ig_bytes {
    const void *data;
    size_t size;
};

/* out_hashes[i] is ig_hash128 of ranges[i]. Raises if memory is short. */
void ig_hash128_all(struct ig_job *job, const struct ig_bytes *ranges, uint32_t count, struct ig_hash128 *out_hashes);

#endif
