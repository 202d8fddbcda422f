/* cache/seal.h: keys, and that nothing but what a trusted key has signed is accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/seal.h"
#include "support/cache/folder.h"
#include "support/support.h"

enum { SIZE = 300 };

struct keys {
    char path[128], public[65];
    struct ig_seal_keys keys;
};

static void make_keys(struct keys *k, const struct test_folder *folder, const char *name) {
    struct ingot_error error;
    snprintf(k->path, sizeof k->path, "%s/%s", folder->path, name);
    if (ig_seal_generate(k->path, k->public, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(strlen(k->public), 64);
    if (ig_seal_keys_read(k->path, NULL, 0, &k->keys, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_true(k->keys.can_sign);
    assert_int_equal(k->keys.n_trusted, 1);
}

static void expect_refused(const struct ig_seal_keys *keys, const unsigned char *bytes, size_t size) {
    struct ingot_error error;
    assert_int_equal(ig_seal_check(keys, bytes, size, &error), INGOT_BAD_ENGINE);
}

static void test_signatures(void **state) {
    struct test_folder folder;
    struct keys ours, theirs;
    struct ig_seal_keys reader, nobody;
    unsigned char bytes[SIZE + IG_SEAL_BYTES];
    test_folder_make(&folder);
    make_keys(&ours, &folder, "ours");
    make_keys(&theirs, &folder, "theirs");
    const char *const trusted[] = {theirs.public, ours.public};
    assert_int_equal(ig_seal_keys_read(NULL, trusted, 2, &reader, NULL), INGOT_OK);
    assert_int_equal(ig_seal_keys_read(NULL, NULL, 0, &nobody, NULL), INGOT_OK);
    assert_false(reader.can_sign);
    for (size_t size = 0; size <= SIZE; size += 100) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)(7 * i);
        ig_seal(&ours.keys, bytes, size, bytes + size);
        const size_t sealed = size + IG_SEAL_BYTES;
        assert_int_equal(ig_seal_check(&ours.keys, bytes, sealed, NULL), INGOT_OK);
        assert_int_equal(ig_seal_check(&reader, bytes, sealed, NULL), INGOT_OK);
        expect_refused(&theirs.keys, bytes, sealed);
        expect_refused(&nobody, bytes, sealed);
        for (size_t i = 0; i < 8 * sealed; i++) {
            bytes[i / 8] ^= (unsigned char)(1u << i % 8);
            expect_refused(&reader, bytes, sealed);
            bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        }
        for (size_t i = 0; i < sealed; i++)
            expect_refused(&reader, bytes, i);
        /* Somebody else's key on our signature. */
        memcpy(bytes + size, theirs.keys.trusted[0], IG_SEAL_KEY);
        expect_refused(&reader, bytes, sealed);
    }
    test_folder_remove(&folder);
}

static void test_keys(void **state) {
    struct test_folder folder;
    struct keys k;
    struct ingot_error error;
    struct ig_seal_keys keys;
    struct stat info;
    unsigned char *bytes;
    test_folder_make(&folder);
    make_keys(&k, &folder, "key");
    assert_int_equal(stat(k.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(ig_seal_generate(k.path, k.public, &error), INGOT_IO); /* never overwritten */
    static const char *const wrong[] = {
        "",
        "12",
        "fe29272f701c77a23254fac49cba271e96c143507a10a37e9057b566e4ceb25",
        "fe29272f701c77a23254fac49cba271e96c143507a10a37e9057b566e4ceb25dd",
        "fe29272f701c77a23254fac49cba271e96c143507a10a37e9057b566e4ceb25g",
        NULL,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ig_seal_keys_read(NULL, &wrong[i], 1, &keys, &error), INGOT_INVALID_ARGUMENT);
    size_t size = test_file_read(k.path, &bytes);
    for (size_t i = 0; i < size; i++) { /* truncated, or with a character that does not belong there */
        test_file_write(k.path, bytes, i);
        assert_int_equal(ig_seal_keys_read(k.path, NULL, 0, &keys, &error), INGOT_INVALID_ARGUMENT);
        unsigned char before = bytes[i];
        bytes[i] = '#';
        test_file_write(k.path, bytes, size);
        bytes[i] = before;
        assert_int_equal(ig_seal_keys_read(k.path, NULL, 0, &keys, &error), INGOT_INVALID_ARGUMENT);
    }
    assert_int_equal(ig_seal_keys_read("no/such/file", NULL, 0, &keys, &error), INGOT_IO);
    free(bytes);
    test_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
