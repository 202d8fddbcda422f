/*
 * Micro-kernels as C: plain loops over GCC vector types, every accumulator a variable of its own. No intrinsics, so that
 * gcc and clang compile the same text and no header costs time.
 */
#ifndef IG_CODEGEN_C_MICRO_H
#define IG_CODEGEN_C_MICRO_H

#include "kernel/micro.h"

/* The static function that `micro` describes, complete with the types it needs. */
void ig_c_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

#endif
