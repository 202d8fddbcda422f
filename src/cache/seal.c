/* Keys and signatures; see seal.h. */
#include "cache/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

_Static_assert(IG_SEAL_KEY == crypto_sign_PUBLICKEYBYTES && IG_SEAL_SECRET == crypto_sign_SECRETKEYBYTES &&
                   IG_SEAL_SIGNATURE == crypto_sign_BYTES,
               "sizes of Ed25519");

static const char first_line[] = "Ingot secret key\n";
enum { FILE_SIZE = sizeof first_line - 1 + 2 * IG_SEAL_SECRET + 1 };

static enum ingot_status begin(struct ingot_error *error) {
    if (sodium_init() < 0) return IG_ERR(error, INGOT_DEVICE, "libsodium finds no source of random numbers");
    return INGOT_OK;
}

/* True if `text` is these bytes in hexadecimal digits, and nothing else. */
static bool parse(const char *text, size_t length, unsigned char *out, size_t size) {
    size_t got = 0;
    return length == 2 * size && sodium_hex2bin(out, size, text, length, NULL, &got, NULL) == 0 && got == size;
}

static enum ingot_status write_secret(const char *path, const unsigned char *secret, struct ingot_error *error) {
    char text[FILE_SIZE + 1];
    memcpy(text, first_line, sizeof first_line - 1);
    sodium_bin2hex(text + sizeof first_line - 1, 2 * IG_SEAL_SECRET + 1, secret, IG_SEAL_SECRET);
    text[FILE_SIZE - 1] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return IG_ERR(error, INGOT_IO, "cannot create '%s': %s", path, strerror(errno));
    bool is_written = write(fd, text, FILE_SIZE) == FILE_SIZE && fsync(fd) == 0;
    int reason = errno;
    close(fd);
    sodium_memzero(text, sizeof text);
    if (is_written) return INGOT_OK;
    unlink(path);
    return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", path, strerror(reason));
}

enum ingot_status ig_seal_generate(const char *path, char out_public[2 * IG_SEAL_KEY + 1], struct ingot_error *error) {
    unsigned char public[IG_SEAL_KEY], secret[IG_SEAL_SECRET];
    IG_TRY(begin(error));
    crypto_sign_keypair(public, secret);
    enum ingot_status status = write_secret(path, secret, error);
    sodium_memzero(secret, sizeof secret);
    if (status == INGOT_OK) sodium_bin2hex(out_public, 2 * IG_SEAL_KEY + 1, public, IG_SEAL_KEY);
    return status;
}

static enum ingot_status read_secret(const char *path, struct ig_seal_keys *keys, struct ingot_error *error) {
    struct ig_mapping file = {0};
    IG_TRY(ig_file_map(path, &file, error));
    const char *text = file.data;
    const size_t start = sizeof first_line - 1;
    keys->can_sign = file.size == FILE_SIZE && memcmp(text, first_line, start) == 0 && text[FILE_SIZE - 1] == '\n' &&
                     parse(text + start, 2 * IG_SEAL_SECRET, keys->secret, IG_SEAL_SECRET);
    ig_file_unmap(&file);
    if (!keys->can_sign) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "'%s' holds no secret key of Ingot's", path);
    memcpy(keys->trusted[keys->n_trusted++], keys->secret + IG_SEAL_SECRET - IG_SEAL_KEY, IG_SEAL_KEY);
    return INGOT_OK;
}

enum ingot_status ig_seal_keys_read(const char *path, const char *const *trusted, size_t n_trusted,
                                    struct ig_seal_keys *out_keys, struct ingot_error *error) {
    memset(out_keys, 0, sizeof *out_keys);
    IG_TRY(begin(error));
    if (path) IG_TRY(read_secret(path, out_keys, error));
    for (size_t i = 0; i < n_trusted; i++) {
        if (out_keys->n_trusted == IG_SEAL_MOST_KEYS)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "more than %d trusted keys", IG_SEAL_MOST_KEYS);
        if (!trusted[i] || !parse(trusted[i], strlen(trusted[i]), out_keys->trusted[out_keys->n_trusted], IG_SEAL_KEY))
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "'%s' is no public key: expected %d hexadecimal digits",
                          trusted[i] ? trusted[i] : "", 2 * IG_SEAL_KEY);
        out_keys->n_trusted++;
    }
    return INGOT_OK;
}

void ig_seal(const struct ig_seal_keys *keys, const void *bytes, size_t size, unsigned char out_seal[IG_SEAL_BYTES]) {
    memcpy(out_seal, keys->secret + IG_SEAL_SECRET - IG_SEAL_KEY, IG_SEAL_KEY);
    crypto_sign_detached(out_seal + IG_SEAL_KEY, NULL, bytes, size, keys->secret);
}

enum ingot_status ig_seal_check(const struct ig_seal_keys *keys, const void *bytes, size_t size,
                                struct ingot_error *error) {
    if (size < IG_SEAL_BYTES) return IG_ERR(error, INGOT_BAD_ENGINE, "it is not signed");
    const unsigned char *seal = (const unsigned char *)bytes + size - IG_SEAL_BYTES;
    for (unsigned i = 0; i < keys->n_trusted; i++) {
        if (memcmp(keys->trusted[i], seal, IG_SEAL_KEY) != 0) continue;
        if (crypto_sign_verify_detached(seal + IG_SEAL_KEY, bytes, size - IG_SEAL_BYTES, keys->trusted[i]) == 0)
            return INGOT_OK;
        return IG_ERR(error, INGOT_BAD_ENGINE, "its signature is wrong");
    }
    return IG_ERR(error, INGOT_BAD_ENGINE, "it is not signed by anybody who is trusted");
}
