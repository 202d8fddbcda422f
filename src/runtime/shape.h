/* The shape program: from the symbols' values to every number that the plan needs. */
#ifndef IG_RUNTIME_SHAPE_H
#define IG_RUNTIME_SHAPE_H

#include "engine/plan.h"

static inline uint32_t ig_shape_slots(const struct ig_plan *plan) {
    return plan->n_symbols + plan->n_instrs;
}

/* "batch=3, seq=7", cut to fit, or "fixed shapes": what the caller chose, for messages. Returns `out`. */
const char *ig_shape_describe(const struct ig_plan *plan, const int64_t *slots, char *out, size_t capacity);
#define IG_SHAPE_DESCRIPTION_SIZE 256

/* Reads the symbols from the bound inputs into out_values, checking ranges. Where an element of an input in GPU memory is
 * wanted, `elements`, by symbol, holds a copy of it. */
enum ingot_status ig_shape_read_symbols(const struct ig_plan *plan, const struct ingot_tensor *inputs,
                                        const int64_t *elements, int64_t *out_values, struct ingot_error *error);

/* slots[0 … n_symbols-1] are set; fills the rest. */
enum ingot_status ig_shape_evaluate(const struct ig_plan *plan, int64_t *slots, struct ingot_error *error);

/* The first of the plan's checks that these slots do not pass; NULL where they pass all. */
const struct ig_plan_check *ig_shape_failed_check(const struct ig_plan *plan, const struct ig_subplan *sub,
                                                  const int64_t *slots);
/* Fails, and says which check these shapes do not pass. */
enum ingot_status ig_shape_refuse(const struct ig_plan *plan, const struct ig_plan_check *check, const int64_t *slots,
                                  struct ingot_error *error);

/* Checks the bound inputs' dims against the numbers that the symbols imply. */
enum ingot_status ig_shape_check_inputs(const struct ig_plan *plan, const int64_t *slots,
                                        const struct ingot_tensor *inputs, struct ingot_error *error);

/* The bytes of a tensor of the plan. */
enum ingot_status ig_shape_tensor_bytes(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                                        const int64_t *slots, size_t *out_bytes, struct ingot_error *error);

/* The value of a slot that is the same for all shapes; false where it depends on symbols. */
bool ig_shape_constant(const struct ig_plan *plan, ig_slot slot, int64_t *out_value);

static inline const char *ig_plan_text(const struct ig_plan *plan, ig_plan_string string) {
    return plan->strings + string;
}

#endif
