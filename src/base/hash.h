/* XXH3 of xxHash: section checksums (64 bits) and fingerprints (128 bits). */
#ifndef IG_BASE_HASH_H
#define IG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ig_hash64(const void *data, size_t size);

struct ig_hash128 {
    uint64_t low, high;
};
struct ig_hash128 ig_hash128(const void *data, size_t size);
/* 32 hexadecimal digits and a terminator. */
void ig_hash128_print(struct ig_hash128 hash, char out_text[33]);

#endif
