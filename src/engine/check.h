/*
 * The rules of a plan. A plan that passes can be followed without further checks: every index is within its table,
 * values are defined before use, and bodies of control flow nest without cycles. What depends on shapes (sizes of
 * buffers) is checked when shapes are bound.
 */
#ifndef IG_ENGINE_CHECK_H
#define IG_ENGINE_CHECK_H

#include "base/error.h"
#include "engine/plan.h"

#define IG_PLAN_MAX_SUBPLANS 4096 /* control-flow bodies per engine */
#define IG_PLAN_MAX_DEPTH 32      /* nesting depth of bodies; bounds the recursion of everything that follows a plan */
/* Per plan. Memory planning takes time proportional to their product. Far more than networks have. */
#define IG_PLAN_MAX_STEPS (1u << 16)
#define IG_PLAN_MAX_BUFFERS (1u << 17)
/* Per step. */
#define IG_PLAN_MAX_OPERANDS (1u << 16)
#define IG_PLAN_MAX_DIMS (1u << 16)

/* The reader calls it on its input, the writer on what the compiler produced. */
enum ingot_status ig_plan_check(const struct ig_plan *plan, uint64_t code_size, uint64_t weights_size,
                                struct ingot_error *error);

#endif
