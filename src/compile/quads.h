/*
 * The quads of weights of u8 by i8 products on CPUs without VNNI (codegen/c/gemm_quads.c): how many are proved to not saturate.
 * Kernels prove them by themselves as they run; this is for reports.
 */
#ifndef IG_COMPILE_QUADS_H
#define IG_COMPILE_QUADS_H

#include "compile/plan_build.h"
#include "ir/target.h"

struct ig_quads {
    uint64_t proved, widened;
};

/* The bytes of a quad of this weight; 0: it has none. */
size_t ig_quad_size(const struct ig_target *target, const struct ig_weight *weight);
/* Counts the quads of so many bytes. */
void ig_quads_count(const void *bytes, size_t size, size_t quad, struct ig_quads *quads);

#endif
