/*
 * Option structs that grow: a caller compiled against an older header passes a shorter struct, one against a newer
 * header a longer one. Reading copies what both sides know over the defaults.
 */
#ifndef IG_API_OPTIONS_H
#define IG_API_OPTIONS_H

#include "base/error.h"

/*
 * `options` (may be NULL: all defaults) begins with its size. `out_options`, of `size` bytes, holds the defaults and gets
 * what the caller set; `name` is the struct's, for messages. A longer struct is refused where the part that this
 * library does not know is not zero.
 */
enum ingot_status ig_options_read(const char *name, const void *options, size_t size, void *out_options,
                                  struct ingot_error *error);

/* `allocator` where it is given and whole, else `standard`. */
enum ingot_status ig_options_allocator(const struct ingot_allocator *allocator, const struct ingot_allocator *standard,
                                       const struct ingot_allocator **out_allocator, struct ingot_error *error);

#endif
