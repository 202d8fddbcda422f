/*
 * A rank's part of a tensor that is divided along an axis: `lines` lines of `length` bytes, `stride` bytes apart. Taken one
 * after the other, they are its packed bytes, of which back ends move ranges.
 */
#ifndef IG_DIST_ROWS_H
#define IG_DIST_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct ig_rows {
    size_t lines, length, stride;
};

/* Packs bytes begin … begin + size - 1 from where the lines lie, or unpacks them there. */
void ig_rows_pack(const struct ig_rows *rows, const void *lines, size_t begin, size_t size, void *out_packed);
void ig_rows_unpack(const struct ig_rows *rows, void *lines, size_t begin, size_t size, const void *packed);

#endif
