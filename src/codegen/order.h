/* Elements as unsigned integers in their order: what sorting compares. For printers of C and CUDA C. */
#ifndef IG_CODEGEN_ORDER_H
#define IG_CODEGEN_ORDER_H

#include "base/text.h"
#include "kernel/micro.h"

/* The unsigned type that has an element's bits. */
const char *ig_code_bits(enum ingot_dtype dtype);
/* The function NAME_order, of type `wide`: an element's bits (a NAME_e) as an unsigned integer, smaller for better ones.
 * Both zeros are equal, and NaN is greater than all else. */
void ig_code_order(const struct ig_micro *micro, const char *qualifiers, const char *wide, struct ig_text *text);

#endif
