/* XXH3 (https://github.com/Cyan4973/xxHash), whose values are fixed since version 0.8. See hash.h. */
#include "base/hash/hash.h"

#include <stdio.h>
#define XXH_STATIC_LINKING_ONLY /* the size of its state */
#include <xxhash.h>

#include "base/hash/hash_avx2.h"

uint64_t ig_hash64(const void *data, size_t size) {
#if IG_HASH_HAS_AVX2
    if (size >= 4096 && __builtin_cpu_supports("avx2")) return ig_hash64_avx2(data, size);
#endif
    return XXH3_64bits(data, size);
}

struct ig_hash128 ig_hash128(const void *data, size_t size) {
#if IG_HASH_HAS_AVX2
    if (size >= 4096 && __builtin_cpu_supports("avx2")) return ig_hash128_avx2(data, size);
#endif
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (struct ig_hash128){hash.low64, hash.high64};
}

void ig_hash128_print(struct ig_hash128 hash, char out_text[33]) {
    snprintf(out_text, 33, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}

bool ig_hash128_parse(const char *text, struct ig_hash128 *out_hash) {
    uint64_t words[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        char c = text[i];
        bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && (c < 'a' || c > 'f')) return false;
        words[i / 16] = words[i / 16] << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    *out_hash = (struct ig_hash128){.high = words[0], .low = words[1]};
    return true;
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct ig_hash_stream), "room for the state");

void ig_hash_stream_begin(struct ig_hash_stream *stream) {
    XXH3_128bits_reset((XXH3_state_t *)stream->state);
}

void ig_hash_stream_add(struct ig_hash_stream *stream, const void *data, size_t size) {
    if (size > 0) XXH3_128bits_update((XXH3_state_t *)stream->state, data, size);
}

struct ig_hash128 ig_hash_stream_end(const struct ig_hash_stream *stream) {
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)stream->state);
    return (struct ig_hash128){hash.low64, hash.high64};
}
