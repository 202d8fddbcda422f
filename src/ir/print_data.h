/* The text of constants' data: literals where they are few, else base 64 or only a hash. For print.c and parse.c. */
#ifndef IG_IR_PRINT_DATA_H
#define IG_IR_PRINT_DATA_H

#include "ir/graph.h"

/* "[1,2.5,nan]", "base64:AAEC…" (where in full), or "hash:0123456789abcdef". */
void ig_data_print(const struct ig_type *type, const struct ig_data *data, bool in_full, struct ig_text *text);
/* Reads it back for a constant of that many elements from terminated text with `given` bytes left; NULL where it does not
 * fit. Zeros stand for data left out. */
const struct ig_data *ig_data_parse(struct ig_job *job, enum ingot_dtype dtype, int64_t count, size_t given,
                                    const char **inout_text);

/* A float so that it reads back as the same value of its type. */
void ig_float_print(enum ingot_dtype dtype, double value, struct ig_text *text);

#endif
