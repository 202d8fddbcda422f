/*
 * XXH3 with AVX2; same values. Distributions build the library for all x86-64 processors, which checks an engine's
 * weights at 6 GB/s. This reaches 10, and a large engine takes as long to load as its weights take to check.
 */
#include "base/hash/hash_avx2.h"
#include "base/hash/hash.h"

#if IG_HASH_HAS_AVX2

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* XXH_AVX2 */
#include <xxhash.h>

uint64_t ig_hash64_avx2(const void *data, size_t size) {
    return XXH3_64bits(data, size);
}

struct ig_hash128 ig_hash128_avx2(const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (struct ig_hash128){hash.low64, hash.high64};
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

/* A translation unit must not be empty. */
typedef int ig_hash_avx2_is_elsewhere;

#endif
