/*
 * Signatures on what comes from others: an entry's file, then a public key and an Ed25519 signature of the file (RFC 8032,
 * by libsodium). Bytes that nobody trusted has signed are never looked into.
 */
#ifndef IG_CACHE_SEAL_H
#define IG_CACHE_SEAL_H

#include "cache/cache.h"

enum { IG_SEAL_KEY = 32, IG_SEAL_SECRET = 64, IG_SEAL_SIGNATURE = 64, IG_SEAL_BYTES = IG_SEAL_KEY + IG_SEAL_SIGNATURE };
enum { IG_SEAL_MOST_KEYS = 64 };

struct ig_seal_keys {
    bool can_sign;
    unsigned char secret[IG_SEAL_SECRET]; /* its second half is the public key, which is trusted */
    unsigned n_trusted;
    unsigned char trusted[IG_SEAL_MOST_KEYS][IG_SEAL_KEY];
};

/* Makes a pair of keys: writes the secret one to `path`, a new file for its owner alone, and returns the public one as 64
 * hexadecimal digits. */
enum ingot_status ig_seal_generate(const char *path, char out_public[2 * IG_SEAL_KEY + 1], struct ingot_error *error);
/* Reads a secret key's file; NULL: none. `trusted`: public keys. */
enum ingot_status ig_seal_keys_read(const char *path, const char *const *trusted, size_t n_trusted,
                                    struct ig_seal_keys *out_keys, struct ingot_error *error);

/* Writes the seal of these bytes. The keys can sign. */
void ig_seal(const struct ig_seal_keys *keys, const void *bytes, size_t size, unsigned char out_seal[IG_SEAL_BYTES]);
/* Does a seal end the bytes, of one who is trusted? INGOT_BAD_ENGINE. */
enum ingot_status ig_seal_check(const struct ig_seal_keys *keys, const void *bytes, size_t size,
                                struct ingot_error *error);

#endif
