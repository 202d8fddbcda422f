/* The shape program: computes every size that the plan needs from the values of the symbols. */
#ifndef IG_RUNTIME_SHAPE_H
#define IG_RUNTIME_SHAPE_H

#include "engine/plan.h"

static inline uint32_t ig_shape_slots(const struct ig_plan *plan) {
    return plan->n_symbols + plan->n_instrs;
}

/* "batch=3, seq=7", truncated to fit, or "fixed shapes"; for messages. Returns `out`. */
const char *ig_shape_describe(const struct ig_plan *plan, const int64_t *slots, char *out, size_t capacity);
#define IG_SHAPE_DESCRIPTION_SIZE 256

/* Reads the symbols from the bound inputs into out_values and checks their ranges. `elements`, by symbol, holds host
 * copies of those symbols that are elements of inputs in GPU memory. */
enum ingot_status ig_shape_read_symbols(const struct ig_plan *plan, const struct ingot_tensor *inputs,
                                        const int64_t *elements, int64_t *out_values, struct ingot_error *error);

/* Evaluates the program: slots[0 … n_symbols-1] are its inputs, the rest its results. */
enum ingot_status ig_shape_evaluate(const struct ig_plan *plan, int64_t *slots, struct ingot_error *error);

/* The same, and the demand program, whose results follow; false if something does not exist or does not fit. */
bool ig_shape_evaluate_demands(const struct ig_plan *plan, int64_t *slots);

/* The first check of `sub` that these slots fail, or NULL. */
const struct ig_plan_check *ig_shape_failed_check(const struct ig_plan *plan, const struct ig_subplan *sub,
                                                  const int64_t *slots);
/* Returns the error that describes a failed check. */
enum ingot_status ig_shape_refuse(const struct ig_plan *plan, const struct ig_plan_check *check, const int64_t *slots,
                                  struct ingot_error *error);

/* Checks the dims of the bound inputs against the slots. */
enum ingot_status ig_shape_check_inputs(const struct ig_plan *plan, const int64_t *slots,
                                        const struct ingot_tensor *inputs, struct ingot_error *error);

/* The size of a plan tensor, in bytes. */
enum ingot_status ig_shape_tensor_bytes(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                                        const int64_t *slots, size_t *out_bytes, struct ingot_error *error);

/* The value of a slot that does not depend on symbols; false if it does. */
bool ig_shape_constant(const struct ig_plan *plan, ig_slot slot, int64_t *out_value);

static inline const char *ig_plan_text(const struct ig_plan *plan, ig_plan_string string) {
    return plan->strings + string;
}

#endif
