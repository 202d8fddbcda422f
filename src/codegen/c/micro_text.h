/* The printers behind ig_c_micro, one a kind, and what they share. */
#ifndef IG_CODEGEN_C_MICRO_TEXT_H
#define IG_CODEGEN_C_MICRO_TEXT_H

#include "codegen/c/micro.h"

/* The C type of elements. */
const char *ig_c_micro_type(enum ingot_dtype dtype);
/* Types NAME_e (an element), NAME_v (a vector) and NAME_u (a vector in memory, aligned as an element). */
void ig_c_micro_types(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

/* Operands of type H. Where that is half precision, ig_c_micro_half prints NAME_h (an element in memory) and the functions
 * NAME_load (a vector of `lanes` elements from there, as a NAME_<vector>) and NAME_one (an element, converted). Else they
 * are read as elements of T. */
void ig_c_micro_half(const struct ig_micro *micro, int lanes, const char *vector, struct ig_text *text);
/* "h" or "e": NAME_<suffix> is an element of H. */
const char *ig_c_micro_element(const struct ig_micro *micro);
/* What comes before an address to read from it: "NAME_load(" or "*(const NAME_<memory> *)(". */
const char *ig_c_micro_reader(struct ig_job *job, const struct ig_micro *micro, const char *memory);

void ig_c_micro_gemm(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_pack(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_topk(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_depthwise(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

#endif
