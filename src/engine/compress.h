/*
 * Texts within an engine, compressed with zstd (RFC 8878): the sources of its kernels have most of their lines in
 * common, and shrink to a tenth or less.
 */
#ifndef IG_ENGINE_COMPRESS_H
#define IG_ENGINE_COMPRESS_H

#include "base/error.h"
#include "base/memory.h"

struct ig_compressed {
    void *data; /* NULL: none */
    size_t size, capacity;
};

/* The same bytes for the same text and version of zstd. */
enum ingot_status ig_compress_text(const char *text, const struct ingot_allocator *allocator,
                                   struct ig_compressed *out_compressed, struct ingot_error *error);
/* Several texts, each with its NUL. */
enum ingot_status ig_compress_texts(const char *texts, size_t size, const struct ingot_allocator *allocator,
                                    struct ig_compressed *out_compressed, struct ingot_error *error);
void ig_compressed_release(struct ig_compressed *compressed, const struct ingot_allocator *allocator);

/* Data that need not be what it seems: INGOT_BAD_ENGINE, with a message about `what`. The caller releases the text,
 * *out_size bytes with its NUL. */
enum ingot_status ig_decompress_text(const void *data, size_t size, const char *what,
                                     const struct ingot_allocator *allocator, char **out_text, size_t *out_size,
                                     struct ingot_error *error);
enum ingot_status ig_decompress_texts(const void *data, size_t size, const char *what,
                                      const struct ingot_allocator *allocator, char **out_texts, size_t *out_size,
                                      struct ingot_error *error);

#endif
