/* Parts of tensors, packed and unpacked; see rows.h. */
#include "dist/rows.h"

#include <stdbool.h>
#include <string.h>

static void move(const struct ig_rows *rows, char *lines, size_t begin, size_t size, char *packed, bool pack) {
    for (size_t done = 0; done < size;) {
        size_t line = (begin + done) / rows->length, within = (begin + done) % rows->length;
        size_t piece = rows->length - within < size - done ? rows->length - within : size - done;
        char *at = lines + line * rows->stride + within;
        if (pack)
            memcpy(packed + done, at, piece);
        else
            memcpy(at, packed + done, piece);
        done += piece;
    }
}

void ig_rows_pack(const struct ig_rows *rows, const void *lines, size_t begin, size_t size, void *out_packed) {
    move(rows, (char *)(uintptr_t)lines, begin, size, out_packed, true);
}

void ig_rows_unpack(const struct ig_rows *rows, void *lines, size_t begin, size_t size, const void *packed) {
    move(rows, lines, begin, size, (char *)(uintptr_t)packed, false);
}
