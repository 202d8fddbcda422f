/* What is narrow in memory and wide in registers: casts of halves, the dequantisation of bytes, and casts of few integers. */
#ifndef IG_PASS_WIDENING_H
#define IG_PASS_WIDENING_H

#include "pass/pass.h"

/*
 * By node: those that belong to no region, since each reader computes them from the narrow operand 0, which is what is stored.
 * Casts from half-precision types to f32; and of bytes that only elementwise operators and reductions read, perhaps through views, the casts, and
 * what is added to these and multiplied with these of constants of one element; and casts of a few integers that are read likewise, which
 * are not worth a kernel.
 */
bool *ig_find_widening(struct ig_graph *graph);

/* Is v an f32 constant that was rounded to half precision, and cast back? An attention reads what was rounded, and widens it. */
bool ig_widens_rounded(const struct ig_graph *graph, ig_value v);

#endif
