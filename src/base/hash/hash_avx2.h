/* The AVX2 path of hash.c. */
#ifndef IG_BASE_HASH_AVX2_H
#define IG_BASE_HASH_AVX2_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash/hash.h"

/* In unoptimised builds the library's own code is faster. */
#if defined(__x86_64__) && defined(__OPTIMIZE__)
#define IG_HASH_HAS_AVX2 1
/* The processor must have AVX2. */
uint64_t ig_hash64_avx2(const void *data, size_t size);
struct ig_hash128 ig_hash128_avx2(const void *data, size_t size);
#else
#define IG_HASH_HAS_AVX2 0
#endif

#endif
