/*
 * The rules of a plan. A plan that keeps them can be followed without looking again: every index is in its table, values
 * exist before they are used, bodies of control flow nest without cycles. What depends on shapes (sizes of buffers) is
 * checked when shapes are bound.
 */
#ifndef IG_ENGINE_CHECK_H
#define IG_ENGINE_CHECK_H

#include "base/error.h"
#include "engine/plan.h"

#define IG_PLAN_MAX_SUBPLANS 4096 /* bodies of control flow in one engine */
#define IG_PLAN_MAX_DEPTH 32      /* bodies within bodies: what follows a plan may recurse */
/* Of one plan: what memory they take is found in a time that grows with their product. Far more than networks have. */
#define IG_PLAN_MAX_STEPS (1u << 16)
#define IG_PLAN_MAX_BUFFERS (1u << 17)
/* Of one step each. */
#define IG_PLAN_MAX_OPERANDS (1u << 16)
#define IG_PLAN_MAX_DIMS (1u << 16)

/* The reader calls it for what it was given, the writer for what the compiler made. */
enum ingot_status ig_plan_check(const struct ig_plan *plan, uint64_t code_size, uint64_t weights_size,
                                struct ingot_error *error);

#endif
