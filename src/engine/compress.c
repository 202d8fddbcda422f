/* Compressed texts; see compress.h. */
#include "engine/compress.h"

#include <string.h>
#include <zstd.h>

/* From here on texts hardly shrink any more, and compressing takes several times as long. */
enum { LEVEL = 9 };
/* No text is longer: a few bytes can claim to hold any number. */
#define MOST ((unsigned long long)1 << 30)

enum ingot_status ig_compress_texts(const char *texts, size_t size, const struct ingot_allocator *allocator,
                                    struct ig_compressed *out_compressed, struct ingot_error *error) {
    struct ig_compressed c = {.capacity = ZSTD_compressBound(size)};
    if (size > MOST) return IG_ERR(error, INGOT_UNSUPPORTED, "a text of the engine has %zu bytes", size);
    c.data = ig_allocate(allocator, c.capacity, 1);
    if (!c.data) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for compressing %zu bytes", size);
    c.size = ZSTD_compress(c.data, c.capacity, texts, size, LEVEL);
    if (ZSTD_isError(c.size)) {
        ig_compressed_release(&c, allocator);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot compress %zu bytes", size);
    }
    *out_compressed = c;
    return INGOT_OK;
}

enum ingot_status ig_compress_text(const char *text, const struct ingot_allocator *allocator,
                                   struct ig_compressed *out_compressed, struct ingot_error *error) {
    return ig_compress_texts(text, strlen(text), allocator, out_compressed, error);
}

void ig_compressed_release(struct ig_compressed *compressed, const struct ingot_allocator *allocator) {
    ig_release(allocator, compressed->data, compressed->capacity);
    *compressed = (struct ig_compressed){0};
}

/* One text, or several, each with its NUL. The memory has one byte more than was decompressed, a NUL. */
static enum ingot_status decompress(const void *data, size_t size, bool several, const char *what,
                                    const struct ingot_allocator *allocator, char **out_text, size_t *out_size,
                                    struct ingot_error *error) {
    unsigned long long length = ZSTD_getFrameContentSize(data, size);
    /* Unknown and erroneous sizes are huge numbers. */
    if (length > MOST) return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's %s has no valid size", what);
    char *text = ig_allocate(allocator, (size_t)length + 1, 1);
    if (!text) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the engine's %s", what);
    size_t got = ZSTD_decompress(text, (size_t)length, data, size);
    if (got != length || (!several && memchr(text, 0, (size_t)length))) {
        ig_release(allocator, text, (size_t)length + 1);
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's %s cannot be decompressed", what);
    }
    text[length] = 0;
    *out_text = text;
    *out_size = (size_t)length + 1;
    return INGOT_OK;
}

enum ingot_status ig_decompress_text(const void *data, size_t size, const char *what,
                                     const struct ingot_allocator *allocator, char **out_text, size_t *out_size,
                                     struct ingot_error *error) {
    return decompress(data, size, false, what, allocator, out_text, out_size, error);
}

enum ingot_status ig_decompress_texts(const void *data, size_t size, const char *what,
                                      const struct ingot_allocator *allocator, char **out_texts, size_t *out_size,
                                      struct ingot_error *error) {
    return decompress(data, size, true, what, allocator, out_texts, out_size, error);
}
