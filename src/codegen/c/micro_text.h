/* The printers behind ig_c_micro, one a kind, and what they share. */
#ifndef IG_CODEGEN_C_MICRO_TEXT_H
#define IG_CODEGEN_C_MICRO_TEXT_H

#include "codegen/c/micro.h"

/* The C type of elements. */
const char *ig_c_micro_type(enum ingot_dtype dtype);
/* Types NAME_e (an element), NAME_v (a vector) and NAME_u (a vector in memory, aligned as an element). */
void ig_c_micro_types(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

void ig_c_micro_gemm(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_pack(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_topk(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_depthwise(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

#endif
