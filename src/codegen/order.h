/* Maps elements to unsigned integers of the same order, which sorting compares. For the printers of C and CUDA C. */
#ifndef IG_CODEGEN_ORDER_H
#define IG_CODEGEN_ORDER_H

#include "base/text.h"
#include "kernel/micro.h"

/* The unsigned type with an element's bits. */
const char *ig_code_bits(enum ingot_dtype dtype);
/* Prints the function NAME_order, of type `wide`: maps an element's bits (a NAME_e) to an unsigned integer, smaller for
 * better ones. Both zeros are equal, and NaN is greater than all else. */
void ig_code_order(const struct ig_micro *micro, const char *qualifiers, const char *wide, struct ig_text *text);

#endif
