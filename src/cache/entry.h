/*
 * The file of an entry, format 1 (numbers are little-endian):
 *
 *     header      struct ig_entry_header
 *     label       for people
 *     head        as it is, or compressed with zstd, whichever is shorter
 *     zeroes      up to a multiple of 4096, if there is a body
 *     body        as it is: it can be mapped, and cloned by file systems that share blocks
 *     checksum    XXH3-128 of all bytes before it
 *
 * The size follows from the header, so that every bit and the end of the file are covered. Checksums detect damage, not
 * malice: who can write entries can make Ingot run code.
 */
#ifndef IG_CACHE_ENTRY_H
#define IG_CACHE_ENTRY_H

#include "cache/cache.h"

enum { IG_ENTRY_FORMAT = 1, IG_ENTRY_PAGE = 4096, IG_ENTRY_CHECKSUM = 16 };

struct ig_entry_header {
    char magic[8]; /* "IngotCE\n" */
    uint32_t format;
    uint32_t kind;
    uint64_t key_high, key_low;
    uint32_t label_size;  /* at most 255 */
    uint32_t compression; /* of the head: 0 none, 1 zstd */
    uint64_t head_size;
    uint64_t head_stored; /* its bytes in the file */
    uint64_t body_size;
};

/* Is this a header, and of an entry whose file has how many bytes? */
bool ig_entry_header_check(const struct ig_entry_header *header, uint64_t *out_size);

/* Writes an entry from the descriptor's position on. */
enum ingot_status ig_entry_write(int fd, const struct ig_cache_id *id, const struct ig_cache_content *content,
                                 const struct ingot_allocator *allocator, uint64_t *out_size,
                                 struct ingot_error *error);

/*
 * Reads and checks the whole entry in the regular file `fd`, which then belongs to the result (or, if there is none, is
 * still the caller's). `id`: what it must be; NULL: anything, which *out_id tells. IG_CACHE_TROUBLE: `error` has the
 * reason, and its status is INGOT_BAD_ENGINE if the entry is damaged.
 */
enum ig_cache_answer ig_entry_read(int fd, const struct ig_cache_id *id, const struct ingot_allocator *allocator,
                                   struct ig_cache_id *out_id, struct ig_cache_found *out_found,
                                   struct ingot_error *error);

#endif
