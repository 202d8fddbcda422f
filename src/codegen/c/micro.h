/*
 * Micro-kernels as C: plain loops over GCC vector types, every accumulator a variable of its own. No intrinsics, so
 * that gcc and clang compile the same text and no header costs compile time.
 */
#ifndef IG_CODEGEN_C_MICRO_H
#define IG_CODEGEN_C_MICRO_H

#include "kernel/micro.h"

/* Prints the static function that `micro` describes, with the types it needs. */
void ig_c_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

#endif
