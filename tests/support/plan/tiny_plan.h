/*
 * Hand-made plans, for tests of code that follows plans: arrays of fixed capacity, and functions that append to them.
 * Symbols come before shape instructions; subplans are built one after the other, the main one first; within a subplan,
 * inputs come first, then outputs, then steps.
 */
#ifndef TESTS_SUPPORT_TINY_PLAN_H
#define TESTS_SUPPORT_TINY_PLAN_H

#include "engine/engine.h"
#include "support/device/stub_code.h"

#define TINY_CAPACITY 512

struct tiny_plan {
    struct ig_plan_symbol symbols[16];
    struct ig_shape_instr instrs[TINY_CAPACITY];
    struct ig_plan_tensor tensors[64];
    struct ig_plan_buffer buffers[TINY_CAPACITY];
    uint32_t operands[4 * TINY_CAPACITY];
    ig_slot dims[TINY_CAPACITY];
    struct ig_plan_step steps[TINY_CAPACITY];
    struct ig_plan_kernel kernels[32];
    struct ig_collective collectives[16];
    struct ig_subplan subplans[8];
    struct ig_plan_check checks[8];
    char strings[4096];
    struct stub_code code;
    _Alignas(64) unsigned char weights[1024];
    struct ig_plan plan; /* counts, and pointers to the above */
    struct ig_subplan *current;
};

void tiny_init(struct tiny_plan *tiny);
/* The plan as a loaded engine. */
struct ig_engine_file tiny_file(const struct tiny_plan *tiny);

/* axis IG_PLAN_NONE: element 0 of the input. Returns the slot. */
ig_slot tiny_symbol(struct tiny_plan *tiny, const char *name, uint32_t input, uint32_t axis, int64_t lo, int64_t hi);
ig_slot tiny_const(struct tiny_plan *tiny, int64_t value);
ig_slot tiny_op(struct tiny_plan *tiny, enum ig_shape_op op, ig_slot a, ig_slot b);
uint32_t tiny_kernel(struct tiny_plan *tiny, const char *name, stub_kernel kernel);

/* Begins a subplan; returns its number. */
uint32_t tiny_subplan(struct tiny_plan *tiny);
/* Adds a check to the current subplan; b, a symbol, names it. */
void tiny_check(struct tiny_plan *tiny, ig_slot a, ig_slot b);
/* Adds a tensor to the current subplan, with its buffer, whose number is returned. dims: one slot per axis. */
uint32_t tiny_input(struct tiny_plan *tiny, const char *name, enum ingot_dtype dtype, uint32_t rank,
                    const ig_slot *dims);
uint32_t tiny_output(struct tiny_plan *tiny, const char *name, enum ingot_dtype dtype, uint32_t rank,
                     const ig_slot *dims);
uint32_t tiny_arena(struct tiny_plan *tiny, ig_slot bytes);
uint32_t tiny_alias(struct tiny_plan *tiny, uint32_t of, ig_slot offset, ig_slot bytes);
/* A weight of n floats at offset `place` (in units of 64 bytes). */
uint32_t tiny_weight(struct tiny_plan *tiny, uint32_t place, const float *values, uint32_t n);

/* Adds a step of any kind, which the caller may modify. */
struct ig_plan_step *tiny_step(struct tiny_plan *tiny, enum ig_plan_step_kind kind, const char *label,
                               const uint32_t *operands, uint32_t n_operands);
/* Adds a kernel step whose dims and tiles are the given slots. */
struct ig_plan_step *tiny_launch(struct tiny_plan *tiny, uint32_t kernel, ig_slot tiles, const uint32_t *operands,
                                 uint32_t n_operands, const ig_slot *dims, uint32_t n_dims);

/* Adds a collective of `ranks`; dims: outer, inner and the ranks' parts. */
struct ig_plan_step *tiny_collective(struct tiny_plan *tiny, struct ig_collective what, const char *label,
                                     const uint32_t *operands, uint32_t ranks, const ig_slot *dims);

#endif
