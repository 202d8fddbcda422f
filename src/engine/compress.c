/* Compressed texts; see compress.h. */
#include "engine/compress.h"

#include <string.h>
#include <zstd.h>

/* From here on texts hardly shrink any more, and compressing takes several times as long. */
enum { LEVEL = 9 };
/* No text is longer: a few bytes can claim to hold any number. */
#define MOST ((unsigned long long)1 << 30)

enum ingot_status ig_compress_text(const char *text, const struct ingot_allocator *allocator,
                                   struct ig_compressed *out_compressed, struct ingot_error *error) {
    size_t length = strlen(text);
    struct ig_compressed c = {.capacity = ZSTD_compressBound(length)};
    if (length > MOST) return IG_ERR(error, INGOT_UNSUPPORTED, "a text of the engine has %zu bytes", length);
    c.data = ig_allocate(allocator, c.capacity, 1);
    if (!c.data) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for compressing %zu bytes", length);
    c.size = ZSTD_compress(c.data, c.capacity, text, length, LEVEL);
    if (ZSTD_isError(c.size)) {
        ig_compressed_release(&c, allocator);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot compress %zu bytes", length);
    }
    *out_compressed = c;
    return INGOT_OK;
}

void ig_compressed_release(struct ig_compressed *compressed, const struct ingot_allocator *allocator) {
    ig_release(allocator, compressed->data, compressed->capacity);
    *compressed = (struct ig_compressed){0};
}

enum ingot_status ig_decompress_text(const void *data, size_t size, const char *what,
                                     const struct ingot_allocator *allocator, char **out_text, size_t *out_size,
                                     struct ingot_error *error) {
    unsigned long long length = ZSTD_getFrameContentSize(data, size);
    /* Unknown and erroneous sizes are huge numbers. */
    if (length > MOST) return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's %s has no valid size", what);
    char *text = ig_allocate(allocator, (size_t)length + 1, 1);
    if (!text) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the engine's %s", what);
    size_t got = ZSTD_decompress(text, (size_t)length, data, size);
    if (got != length || memchr(text, 0, (size_t)length)) {
        ig_release(allocator, text, (size_t)length + 1);
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's %s cannot be decompressed", what);
    }
    text[length] = 0;
    *out_text = text;
    *out_size = (size_t)length + 1;
    return INGOT_OK;
}
