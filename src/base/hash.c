/* XXH3 (https://github.com/Cyan4973/xxHash), whose values are fixed since version 0.8. See hash.h. */
#include "base/hash.h"

#include <stdio.h>
#include <xxhash.h>

#include "base/hash_avx2.h"

uint64_t ig_hash64(const void *data, size_t size) {
#if IG_HASH_HAS_AVX2
    if (size >= 4096 && __builtin_cpu_supports("avx2")) return ig_hash64_avx2(data, size);
#endif
    return XXH3_64bits(data, size);
}

struct ig_hash128 ig_hash128(const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (struct ig_hash128){hash.low64, hash.high64};
}

void ig_hash128_print(struct ig_hash128 hash, char out_text[33]) {
    snprintf(out_text, 33, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}
