/* The text of constants' data: literals if there are few, else base 64 or only a hash. For print.c and parse.c. */
#ifndef IG_IR_PRINT_DATA_H
#define IG_IR_PRINT_DATA_H

#include "ir/graph.h"

/* "[1,2.5,nan]", "base64:AAEC…" (if in_full), or "hash:0123456789abcdef". */
void ig_data_print(const struct ig_type *type, const struct ig_data *data, bool in_full, struct ig_text *text);
/* Parses it for a constant of `count` elements, from NUL-terminated text with `given` bytes left; NULL if it does not
 * fit. Omitted data become zeros. */
const struct ig_data *ig_data_parse(struct ig_job *job, enum ingot_dtype dtype, int64_t count, size_t given,
                                    const char **inout_text);

/* Prints a float so that it parses to the same value of its type. */
void ig_float_print(enum ingot_dtype dtype, double value, struct ig_text *text);

#endif
