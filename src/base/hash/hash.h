/* XXH3 of xxHash: section checksums (64 bits) and fingerprints (128 bits). */
#ifndef IG_BASE_HASH_H
#define IG_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t ig_hash64(const void *data, size_t size);

struct ig_hash128 {
    uint64_t low, high;
};
struct ig_hash128 ig_hash128(const void *data, size_t size);
/* 32 hexadecimal digits and a terminator. */
void ig_hash128_print(struct ig_hash128 hash, char out_text[33]);
/* Reads them back; lower case only. False if the first 32 characters are no such digits. */
bool ig_hash128_parse(const char *text, struct ig_hash128 *out_hash);

/* The same 128-bit hash of bytes that come in pieces. */
struct ig_hash_stream {
    _Alignas(64) unsigned char state[640];
};
void ig_hash_stream_begin(struct ig_hash_stream *stream);
void ig_hash_stream_add(struct ig_hash_stream *stream, const void *data, size_t size);
struct ig_hash128 ig_hash_stream_end(const struct ig_hash_stream *stream);

#endif
