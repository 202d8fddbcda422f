/* A plan with one of everything, which breaks no rule: symbols, a loop, an if, a kernel with an alternative, a library's
 * call, a collective of two ranks. For tests of engine files, and of the rules. */
#ifndef TESTS_SMALL_PLAN_H
#define TESTS_SMALL_PLAN_H

#include "engine/plan.h"

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof *(array))
/* Bytes of code and weights that it refers to. */
enum { SMALL_CODE = 8192, SMALL_WEIGHTS = 192 };

/* Slots: batch, trip, then 4, 4*batch, 8, 1, 64. */
enum { BATCH, TRIP, FOUR, FOUR_BATCH, EIGHT, ONE, SIXTY_FOUR };
/* Strings. */
enum { NOTHING = 0, NAME_X = 1, NAME_N = 3, NAME_Y = 5, NAME_BATCH = 7, NAME_4BATCH = 13, NAME_K = 21 };
static const char strings[] = "\0x\0n\0y\0batch\0004*batch\0kernel";

static const struct ig_plan_symbol symbols[] = {
    {NAME_BATCH, 0, 0, 0, 1, 1000, IG_PLAN_NONE, 0},
    {NAME_N, 1, IG_PLAN_NONE, 0, 0, 99, NAME_K, 0},
};
#define CONSTANTS(i)                                                                                               \
    {IG_SHAPE_CONST, 0, 0, 0, 70 + (i)}, {IG_SHAPE_CONST, 0, 0, 0, 71 + (i)}, {IG_SHAPE_CONST, 0, 0, 0, 72 + (i)}, \
        {IG_SHAPE_CONST, 0, 0, 0, 73 + (i)}, {                                                                     \
        IG_SHAPE_CONST, 0, 0, 0, 74 + (i)                                                                          \
    }
static const struct ig_shape_instr instrs[] = {
    {IG_SHAPE_CONST, 0, 0, 0, 4},
    {IG_SHAPE_MUL, FOUR, BATCH, 0, 0},
    {IG_SHAPE_CONST, 0, 0, 0, 8},
    {IG_SHAPE_CONST, 0, 0, 0, 1},
    {IG_SHAPE_CONST, 0, 0, 0, 64},
    /* Of no use, but in constant stride: the file has them as a repetition, and its strings compressed. */
    CONSTANTS(0),
    CONSTANTS(5),
    CONSTANTS(10),
    CONSTANTS(15),
    CONSTANTS(20),
    CONSTANTS(25),
};
static const struct ig_plan_tensor tensors[] = {
    /* The main plan's inputs and output. */
    {NAME_X, INGOT_F32, 1, 0, {BATCH}, {NAME_BATCH}, 0, 0},
    {NAME_N, INGOT_I64, 0, 1, {0}, {0}, 0, 0},
    {NAME_Y, INGOT_F32, 1, 2, {BATCH}, {NAME_BATCH}, 0, 0},
    /* The loop body: inputs iteration, condition, carried value; outputs condition, carried value. */
    {NAME_N, INGOT_I64, 0, 0, {0}, {0}, 0, 0},
    {NAME_N, INGOT_BOOL, 0, 1, {0}, {0}, 0, 0},
    {NAME_X, INGOT_F32, 1, 2, {BATCH}, {NAME_BATCH}, 0, 0},
    {NAME_N, INGOT_BOOL, 0, 3, {0}, {0}, 0, 0},
    {NAME_Y, INGOT_F32, 1, 4, {BATCH}, {NAME_BATCH}, 0, 0},
    /* The branches of an if: one captured input, one result each. */
    {NAME_X, INGOT_F32, 1, 0, {BATCH}, {NAME_BATCH}, 0, 0},
    {NAME_Y, INGOT_F32, 1, 1, {BATCH}, {NAME_BATCH}, 0, 0},
    {NAME_X, INGOT_F32, 1, 0, {BATCH}, {NAME_BATCH}, 0, 0},
    {NAME_Y, INGOT_F32, 1, 1, {BATCH}, {NAME_BATCH}, 0, 0},
};
static const struct ig_plan_buffer buffers[] = {
    /* Main: x, n, y, weight, a, b, alias of b, condition. */
    {IG_PLAN_INPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_INPUT, 1, EIGHT, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_OUTPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_WEIGHT, 1, SIXTY_FOUR, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_ARENA, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 1},
    {IG_PLAN_ARENA, 0, FOUR_BATCH, IG_PLAN_NONE, 1, 2},
    {IG_PLAN_ALIAS, 5, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_ARENA, 0, ONE, IG_PLAN_NONE, 0, 2},
    /* Loop body. */
    {IG_PLAN_INPUT, 0, EIGHT, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_INPUT, 1, ONE, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_INPUT, 2, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_OUTPUT, 0, ONE, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_OUTPUT, 1, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    /* Then and else. */
    {IG_PLAN_INPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_OUTPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_INPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
    {IG_PLAN_OUTPUT, 0, FOUR_BATCH, IG_PLAN_NONE, 0, 0},
};
static const uint32_t operands[] = {
    0, 3,
    4, 7, /* kernel: x, weight -> a, condition */
    1, IG_PLAN_NONE,
    4, 5, /* loop: trip, always, a -> b */
    7, 6,
    2, /* if: condition, alias of b -> y */
    1, 3,
    2, 4, /* loop body: two copies */
    0, 1,
    0, 1, /* then, else: a collective, a copy */
    0, 3,
    4, 7, /* the kernel's alternative */
};
static const ig_slot dim_table[] = {BATCH, FOUR, BATCH, FOUR, ONE, ONE, BATCH, FOUR};
#define NONE IG_PLAN_NONE
static const struct ig_plan_step steps[] = {
    {IG_STEP_KERNEL, 1, 0, 4, 0, 2, BATCH, SIXTY_FOUR, FOUR_BATCH, NONE, NONE, 0, 0, NAME_K, 7, 1, ONE, 1},
    {IG_STEP_LOOP, NONE, 4, 4, 0, 0, NONE, NONE, NONE, 1, NONE, 0, 1, NAME_K, 0, 0, NONE, 0},
    {IG_STEP_IF, NONE, 8, 3, 0, 0, NONE, NONE, NONE, 2, 3, 1, 0, NAME_K, 0, 0, NONE, 0},
    {IG_STEP_COPY, NONE, 11, 2, 0, 0, NONE, NONE, NONE, NONE, NONE, 0, 0, NAME_K, 0, 0, NONE, 2},
    {IG_STEP_COPY, NONE, 13, 2, 0, 0, NONE, NONE, NONE, NONE, NONE, 0, 0, NAME_K, 0, 0, NONE, 0},
    {IG_STEP_COLLECTIVE, 0, 15, 2, 4, 4, NONE, NONE, NONE, NONE, NONE, 0, 0, NAME_K, 0, 0, NONE, 0},
    {IG_STEP_COPY, NONE, 17, 2, 0, 0, NONE, NONE, NONE, NONE, NONE, 0, 0, NAME_K, 0, 0, NONE, 0},
    /* The first step's alternative, which belongs to no plan. */
    {IG_STEP_KERNEL, 1, 19, 4, 2, 2, FOUR, NONE, FOUR_BATCH, NONE, NONE, 0, 0, NAME_K, 0, 0, NONE, 1},
};
/* Two slots of their own: 8*batch, and what that is with itself. The kernel demands, then the copies. */
enum { DEMANDED = TRIP + 1 + 5 + 30, SQUARE };
static const struct ig_shape_instr demand_instrs[] = {
    {IG_SHAPE_MUL, EIGHT, BATCH, 0, 0},
    {IG_SHAPE_MUL, DEMANDED, DEMANDED, 0, 0},
};
static const struct ig_plan_demand demands[] = {
    {SIXTY_FOUR, FOUR_BATCH, FOUR_BATCH, {[IG_UNIT_F32] = SQUARE, [IG_UNIT_SIMPLE] = DEMANDED}, ONE},
    {ONE, FOUR_BATCH, FOUR_BATCH, {0}, ONE},
};
static const struct ig_plan_kernel kernels[] = {
    {0, UINT64_MAX, NAME_K, NAME_X, NAME_Y, 0, 0, 0, 0, 0, 0, {{0}}, 0, 0, 0},
    {64, 128, NAME_K, NAME_X, NAME_Y, 256, 1024, 0, 0, 1, 1, {{1, 1, 0, 1, 64, 128, .element = 2}}, 0, 0, 0},
    {0, UINT64_MAX, NAME_K, NAME_X, NAME_Y, 0, 0, 0, 1, 0, 0, {{0}}, 0, 0, 0},
};
static const struct ig_library_call calls[] = {
    {IG_LIBRARY_CUBLASLT, IG_LIBRARY_PRODUCT, 2, 0, 1, 2, NONE, 3, NONE, 0.5F, INGOT_F16, INGOT_F16, INGOT_F32, 0, 1, 0,
     IG_LIBRARY_RELU},
};
static const struct ig_collective collectives[] = {{IG_ALL_GATHER, INGOT_F32, 0, 0}, {IG_SEND, INGOT_F16, 0, 1}};
static const struct ig_subplan subplans[] = {
    {0, 2, 2, 1, 0, 8, 0, 3, 0, 1},
    {3, 3, 6, 2, 8, 5, 3, 2, 1, 0},
    {8, 1, 9, 1, 13, 2, 5, 1, 1, 1},
    {10, 1, 11, 1, 15, 2, 6, 1, 0, 0},
};
static const struct ig_plan_check checks[] = {{BATCH, FOUR, NAME_X}, {FOUR, EIGHT, NAME_Y}};

static const struct ig_plan small_plan = {
    .n_symbols = COUNT(symbols),
    .n_instrs = COUNT(instrs),
    .n_tensors = COUNT(tensors),
    .n_buffers = COUNT(buffers),
    .n_operands = COUNT(operands),
    .n_dims = COUNT(dim_table),
    .n_steps = COUNT(steps),
    .n_kernels = COUNT(kernels),
    .n_calls = COUNT(calls),
    .n_collectives = COUNT(collectives),
    .n_subplans = COUNT(subplans),
    .n_checks = COUNT(checks),
    .n_demand_instrs = COUNT(demand_instrs),
    .n_demands = COUNT(demands),
    .strings_size = sizeof strings,
    .symbols = symbols,
    .instrs = instrs,
    .tensors = tensors,
    .buffers = buffers,
    .operands = operands,
    .dims = dim_table,
    .steps = steps,
    .kernels = kernels,
    .calls = calls,
    .collectives = collectives,
    .subplans = subplans,
    .checks = checks,
    .demand_instrs = demand_instrs,
    .demands = demands,
    .strings = strings,
};

#endif
