/* Evaluates the shape program; see shape.h and engine/plan.h. All arithmetic is checked for overflow, since shapes come
 * from callers. */
#include "runtime/frame/shape.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "runtime/runtime.h"

const char *ig_shape_describe(const struct ig_plan *plan, const int64_t *slots, char *out, size_t capacity) {
    size_t length = 0;
    snprintf(out, capacity, "fixed shapes");
    for (uint32_t i = 0; i < plan->n_symbols && length < capacity; i++) {
        int n = snprintf(out + length, capacity - length, "%s%s=%lld", i ? ", " : "",
                         ig_plan_text(plan, plan->symbols[i].name), (long long)slots[i]);
        if (n < 0) break;
        length += (size_t)n;
    }
    return out;
}

/* ---- Symbols ---------------------------------------------------------------------------------------------------- */

static int64_t read_integer(enum ingot_dtype dtype, const void *at) {
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
    } value = {.i64 = 0};
    memcpy(&value, at, ingot_dtype_size(dtype));
    switch (dtype) {
    case INGOT_I8: return value.i8;
    case INGOT_I16: return value.i16;
    case INGOT_I32: return value.i32;
    case INGOT_U8:
    case INGOT_BOOL: return value.u8;
    case INGOT_U16: return value.u16;
    case INGOT_U32: return value.u32;
    default: return value.i64; /* i64, and u64, which wraps above INT64_MAX */
    }
}

static bool is_integer(enum ingot_dtype dtype) {
    return dtype >= INGOT_I8 && dtype <= INGOT_BOOL;
}

static enum ingot_status read_symbol(const struct ig_plan *plan, const struct ig_plan_symbol *symbol,
                                     const struct ingot_tensor *inputs, const int64_t *copy, int64_t *out_value,
                                     struct ingot_error *error) {
    const struct ingot_tensor *tensor = &inputs[symbol->input];
    const char *name = ig_plan_text(plan, symbol->name);
    const char *input = ig_plan_text(plan, plan->tensors[plan->subplans[0].inputs + symbol->input].name);
    int64_t value;
    if (symbol->axis != IG_PLAN_NONE) {
        value = tensor->dims[symbol->axis];
    } else {
        if (!is_integer(tensor->dtype))
            return IG_ERR(error, INGOT_BAD_ENGINE, "'%s' is read from input '%s', whose type %s is no integer", name,
                          input, ingot_dtype_name(tensor->dtype));
        if ((int64_t)symbol->element >= ingot_tensor_elements(tensor))
            return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                          "input '%s' has %lld elements, but '%s' is read from element %u of it", input,
                          (long long)ingot_tensor_elements(tensor), name, symbol->element);
        const char *at = (const char *)(tensor->memory == INGOT_CUDA ? copy : tensor->data);
        if (!at) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s', which gives '%s', has no data", input, name);
        if (tensor->memory != INGOT_CUDA) at += symbol->element * ingot_dtype_size(tensor->dtype);
        value = read_integer(tensor->dtype, at);
    }
    if (value < symbol->lo || value > symbol->hi) {
        char place[48];
        bool is_dim = symbol->axis != IG_PLAN_NONE;
        snprintf(place, sizeof place, "%s %u", is_dim ? "dim" : "element", is_dim ? symbol->axis : symbol->element);
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "input '%s': %s ('%s') is %lld, outside the range %lld to %lld that the engine was built for",
                      input, place, name, (long long)value, (long long)symbol->lo, (long long)symbol->hi);
    }
    *out_value = value;
    return INGOT_OK;
}

enum ingot_status ig_shape_read_symbols(const struct ig_plan *plan, const struct ingot_tensor *inputs,
                                        const int64_t *elements, int64_t *out_values, struct ingot_error *error) {
    for (uint32_t i = 0; i < plan->n_symbols; i++)
        IG_TRY(read_symbol(plan, &plan->symbols[i], inputs, elements ? &elements[i] : NULL, &out_values[i], error));
    return INGOT_OK;
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

/* Division rounds down; the remainder has the sign of the divisor. False if there is no result. */
static bool divide(int64_t a, int64_t b, int64_t *out_quotient, int64_t *out_remainder) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t quotient = a / b, remainder = a % b;
    bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
    *out_quotient = quotient - adjust;
    *out_remainder = remainder + (adjust ? b : 0);
    return true;
}

static bool compute(const struct ig_shape_instr *instr, const int64_t *slots, int64_t *out) {
    if (instr->op == IG_SHAPE_CONST) {
        *out = instr->value;
        return true;
    }
    int64_t a = slots[instr->a], b = slots[instr->b], other;
    switch ((enum ig_shape_op)instr->op) {
    case IG_SHAPE_ADD: return !__builtin_add_overflow(a, b, out);
    case IG_SHAPE_MUL: return !__builtin_mul_overflow(a, b, out);
    case IG_SHAPE_DIV: return divide(a, b, out, &other);
    case IG_SHAPE_MOD: return divide(a, b, &other, out);
    case IG_SHAPE_MIN: *out = a < b ? a : b; return true;
    case IG_SHAPE_MAX: *out = a > b ? a : b; return true;
    case IG_SHAPE_CONST: break;
    }
    return false;
}

static enum ingot_status refuse_instr(const struct ig_plan *plan, const struct ig_shape_instr *instr,
                                      const int64_t *slots, struct ingot_error *error) {
    static const char *const names[] = {"constant", "sum", "product", "quotient", "remainder", "minimum", "maximum"};
    char symbols[IG_SHAPE_DESCRIPTION_SIZE];
    const char *name = instr->op < sizeof names / sizeof *names ? names[instr->op] : "value";
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "these shapes cannot be used (%s): the %s of %lld and %lld %s",
                  ig_shape_describe(plan, slots, symbols, sizeof symbols), name, (long long)slots[instr->a],
                  (long long)slots[instr->b],
                  instr->op >= IG_SHAPE_DIV && slots[instr->b] == 0 ? "does not exist" : "does not fit in 64 bits");
}

enum ingot_status ig_shape_evaluate(const struct ig_plan *plan, int64_t *slots, struct ingot_error *error) {
    for (uint32_t i = 0; i < plan->n_instrs; i++) {
        if (!compute(&plan->instrs[i], slots, &slots[plan->n_symbols + i]))
            return refuse_instr(plan, &plan->instrs[i], slots, error);
    }
    return INGOT_OK;
}

bool ig_shape_evaluate_demands(const struct ig_plan *plan, int64_t *slots) {
    struct ingot_error ignored;
    if (ig_shape_evaluate(plan, slots, &ignored) != INGOT_OK) return false;
    for (uint32_t i = 0; i < plan->n_demand_instrs; i++) {
        if (!compute(&plan->demand_instrs[i], slots, &slots[ig_shape_slots(plan) + i])) return false;
    }
    return true;
}

const struct ig_plan_check *ig_shape_failed_check(const struct ig_plan *plan, const struct ig_subplan *sub,
                                                  const int64_t *slots) {
    for (uint32_t i = 0; i < sub->n_checks; i++) {
        const struct ig_plan_check *check = &plan->checks[sub->checks + i];
        if (slots[check->a] != slots[check->b]) return check;
    }
    return NULL;
}

enum ingot_status ig_shape_refuse(const struct ig_plan *plan, const struct ig_plan_check *check, const int64_t *slots,
                                  struct ingot_error *error) {
    char symbols[IG_SHAPE_DESCRIPTION_SIZE];
    return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                  "these shapes cannot be used (%s): the model needs %s, which are %lld and %lld",
                  ig_shape_describe(plan, slots, symbols, sizeof symbols), ig_plan_text(plan, check->text),
                  (long long)slots[check->a], (long long)slots[check->b]);
}

bool ig_shape_constant(const struct ig_plan *plan, ig_slot slot, int64_t *out_value) {
    if (slot < plan->n_symbols || slot >= ig_shape_slots(plan)) return false;
    const struct ig_shape_instr *instr = &plan->instrs[slot - plan->n_symbols];
    if (instr->op != IG_SHAPE_CONST) return false;
    *out_value = instr->value;
    return true;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static enum ingot_status refuse_dim(const struct ig_plan *plan, const struct ig_plan_tensor *wanted, uint32_t axis,
                                    const int64_t *slots, int64_t found, struct ingot_error *error) {
    char symbols[IG_SHAPE_DESCRIPTION_SIZE];
    const char *name = ig_plan_text(plan, wanted->name), *symbol = ig_plan_text(plan, wanted->symbols[axis]);
    long long number = (long long)slots[wanted->dims[axis]];
    int64_t fixed;
    if (ig_shape_constant(plan, wanted->dims[axis], &fixed))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': dim %u is %lld, wanted %lld", name, axis,
                      (long long)found, number);
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': dim %u is %lld, wanted %lld ('%s' with %s)", name, axis,
                  (long long)found, number, symbol, ig_shape_describe(plan, slots, symbols, sizeof symbols));
}

enum ingot_status ig_shape_check_inputs(const struct ig_plan *plan, const int64_t *slots,
                                        const struct ingot_tensor *inputs, struct ingot_error *error) {
    const struct ig_subplan *main = &plan->subplans[0];
    for (uint32_t i = 0; i < main->n_inputs; i++) {
        const struct ig_plan_tensor *wanted = &plan->tensors[main->inputs + i];
        for (uint32_t axis = 0; axis < wanted->rank; axis++) {
            if (inputs[i].dims[axis] != slots[wanted->dims[axis]])
                return refuse_dim(plan, wanted, axis, slots, inputs[i].dims[axis], error);
        }
    }
    return INGOT_OK;
}

enum ingot_status ig_shape_tensor_bytes(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                                        const int64_t *slots, size_t *out_bytes, struct ingot_error *error) {
    char symbols[IG_SHAPE_DESCRIPTION_SIZE];
    const char *name = ig_plan_text(plan, tensor->name);
    int64_t bytes = (int64_t)ingot_dtype_size((enum ingot_dtype)tensor->dtype);
    bool overflow = false, empty = false;
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        int64_t dim = slots[tensor->dims[axis]];
        if (dim < 0)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "'%s': dim %u ('%s') would be %lld with %s", name, axis,
                          ig_plan_text(plan, tensor->symbols[axis]), (long long)dim,
                          ig_shape_describe(plan, slots, symbols, sizeof symbols));
        empty |= dim == 0;
        overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
    }
    if (empty)
        bytes = 0;
    else if (overflow)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "'%s' would have over 2^63 bytes with %s", name,
                      ig_shape_describe(plan, slots, symbols, sizeof symbols));
    *out_bytes = (size_t)bytes;
    return INGOT_OK;
}

/* Is a dim the same in every run? */
static bool is_fixed(const struct ig_plan *plan, ig_slot slot, int64_t *out_dim) {
    if (slot >= plan->n_symbols) return ig_shape_constant(plan, slot, out_dim);
    *out_dim = plan->symbols[slot].hi;
    return plan->symbols[slot].lo == *out_dim;
}

void ig_plan_tensor_info(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                         struct ingot_tensor_info *out_info) {
    *out_info = (struct ingot_tensor_info){
        .name = ig_plan_text(plan, tensor->name), .dtype = (enum ingot_dtype)tensor->dtype, .rank = (int)tensor->rank};
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        int64_t dim;
        out_info->dims[axis] = is_fixed(plan, tensor->dims[axis], &dim) ? dim : -1;
        out_info->symbols[axis] = ig_plan_text(plan, tensor->symbols[axis]);
    }
}
