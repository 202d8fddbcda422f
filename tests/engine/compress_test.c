/* engine/compress.h: texts come back unchanged, and nothing else is accepted. */
#include "engine/compress.h"

#include <string.h>

#include "base/memory.h"
#include "support/support.h"

static void check_text(const char *expected) {
    struct ig_compressed c = {0};
    char *text;
    size_t size;
    assert_int_equal(ig_compress_text(expected, &ig_libc_allocator, &c, NULL), INGOT_OK);
    assert_int_equal(ig_decompress_text(c.data, c.size, "text", &ig_libc_allocator, &text, &size, NULL), INGOT_OK);
    assert_int_equal(size, strlen(expected) + 1);
    assert_string_equal(text, expected);
    ig_release(&ig_libc_allocator, text, size);
    ig_compressed_release(&c, &ig_libc_allocator);
}

static void refuse_text(const void *data, size_t size, const char *message) {
    char *text = NULL;
    size_t got;
    struct ingot_error error;
    assert_int_equal(ig_decompress_text(data, size, "text", &ig_libc_allocator, &text, &got, &error), INGOT_BAD_ENGINE);
    assert_string_equal(error.message, message);
    assert_null(text);
}

static void test_compressed_text(void **state) {
    static char long_text[300000];
    for (size_t i = 0; i + 1 < sizeof long_text; i++)
        long_text[i] = "kernel"[i * i / 7 % 6];
    check_text("");
    check_text("a");
    check_text(long_text);
    struct ig_compressed c = {0};
    assert_int_equal(ig_compress_text(long_text, &ig_libc_allocator, &c, NULL), INGOT_OK);
    assert_true(c.size < sizeof long_text / 4);
    refuse_text(c.data, 0, "the engine's text has no valid size");
    refuse_text(c.data, c.size - 1, "the engine's text cannot be decompressed"); /* cut short */
    refuse_text("{\"why\": 1}", 11, "the engine's text has no valid size");      /* not compressed */
    /* RFC 8878, 3.1.1: the magic number, a descriptor that says that 8 bytes of size follow, a size of 2^40. */
    const unsigned char huge[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 0x01, 0, 0};
    refuse_text(huge, sizeof huge, "the engine's text has no valid size");
    /* A raw block of three bytes, one of which is 0. */
    const unsigned char with_nul[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, 'a', 0, 'b'};
    refuse_text(with_nul, sizeof with_nul, "the engine's text cannot be decompressed");
    ig_compressed_release(&c, &ig_libc_allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compressed_text)};
    return cmocka_run_group_tests_name("compressed texts", tests, NULL, NULL);
}
