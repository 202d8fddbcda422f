/*
 * Extensible option structs: a caller compiled against an older header passes a shorter struct, one against a newer
 * header a longer one. Reading copies the fields that both sides know over the defaults.
 */
#ifndef IG_API_OPTIONS_H
#define IG_API_OPTIONS_H

#include "base/error.h"

/*
 * `options` (NULL: all defaults) begins with its size. `out_options`, of `size` bytes, holds the defaults and receives
 * the caller's settings; `name` is the struct's, for messages. A longer struct is refused unless the part that this
 * library does not know is zero.
 */
enum ingot_status ig_options_read(const char *name, const void *options, size_t size, void *out_options,
                                  struct ingot_error *error);

/* `allocator` if it is given and complete, else `standard`. */
enum ingot_status ig_options_allocator(const struct ingot_allocator *allocator, const struct ingot_allocator *standard,
                                       const struct ingot_allocator **out_allocator, struct ingot_error *error);

#endif
