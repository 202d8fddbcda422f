/* Setting the policy of batch.h, and what it has done. */
#include "runtime/context/batch.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"

void ig_batch_init(struct ig_batch *batch) {
    *batch = (struct ig_batch){
        .symbol = IG_PLAN_NONE, .by = IG_PLAN_NONE, .ran_by = IG_PLAN_NONE, .parts_symbol = IG_PLAN_NONE};
}

static size_t n_ports(const struct ig_context *context) {
    return (size_t)context->n_inputs + context->n_outputs;
}

static void release_sizes(const struct ig_context *context, int64_t *sizes, size_t n_sizes) {
    ig_release(context->env.allocator, sizes, n_sizes * sizeof *sizes);
}

void ig_batch_trim(struct ig_context *context) {
    struct ig_device *device = context->env.device;
    for (size_t i = 0; context->batch.padding && i < n_ports(context); i++) {
        struct ig_padding *padding = &context->batch.padding[i];
        if (padding->memory) device->api->release(device, padding->memory, padding->size);
        *padding = (struct ig_padding){0};
    }
}

void ig_batch_deinit(struct ig_context *context) {
    struct ig_batch *batch = &context->batch;
    ig_batch_trim(context);
    ig_release(context->env.allocator, batch->padding, n_ports(context) * sizeof *batch->padding);
    release_sizes(context, batch->sizes, batch->n_sizes);
}

/* ---- Can the rows be padded? ------------------------------------------------------------------------------------- */

static enum ingot_status find_symbol(const struct ig_plan *plan, const char *name, uint32_t *out_symbol,
                                     struct ingot_error *error) {
    char names[256] = "none";
    size_t length = 0;
    for (uint32_t i = 0; i < plan->n_symbols; i++) {
        const char *symbol = ig_plan_text(plan, plan->symbols[i].name);
        if (strcmp(symbol, name) == 0) {
            *out_symbol = i;
            return INGOT_OK;
        }
        if (length >= sizeof names) continue;
        int n = snprintf(names + length, sizeof names - length, "%s'%s'", i ? ", " : "", symbol);
        if (n > 0) length += (size_t)n;
    }
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the engine has no symbol '%s'; its symbols: %s", name, names);
}

/* Marks the slots whose values depend on the symbol. */
static void find_dependent(const struct ig_plan *plan, uint32_t symbol, bool *depends) {
    depends[symbol] = true;
    for (uint32_t i = 0; i < plan->n_instrs; i++) {
        const struct ig_shape_instr *instr = &plan->instrs[i];
        if (instr->op != IG_SHAPE_CONST) depends[plan->n_symbols + i] = depends[instr->a] || depends[instr->b];
    }
}

static enum ingot_status check_port(const struct ig_plan *plan, const struct ig_plan_tensor *tensor, bool output,
                                    uint32_t symbol, const bool *depends, struct ingot_error *error) {
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        if (!depends[tensor->dims[axis]] || (axis == 0 && tensor->dims[0] == symbol)) continue;
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "'%s' cannot be rounded up: %s '%s' has '%s' along axis %u; only the first axis can be padded, "
                      "where it is that size",
                      ig_plan_text(plan, plan->symbols[symbol].name), output ? "output" : "input",
                      ig_plan_text(plan, tensor->name), ig_plan_text(plan, tensor->symbols[axis]), axis);
    }
    return INGOT_OK;
}

static enum ingot_status check_ports(const struct ig_context *context, uint32_t symbol, struct ingot_error *error) {
    const struct ig_plan *plan = context->plan;
    bool *depends = ig_allocate(context->env.allocator, ig_shape_slots(plan), 1);
    if (!depends) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a batch policy");
    find_dependent(plan, symbol, depends);
    enum ingot_status status = INGOT_OK;
    for (uint32_t i = 0; i < context->n_inputs && status == INGOT_OK; i++)
        status = check_port(plan, ig_context_input_tensor(context, i), false, symbol, depends, error);
    for (uint32_t i = 0; i < context->n_outputs && status == INGOT_OK; i++)
        status = check_port(plan, ig_context_output_tensor(context, i), true, symbol, depends, error);
    ig_release(context->env.allocator, depends, ig_shape_slots(plan));
    return status;
}

static enum ingot_status check_symbol(const struct ig_context *context, uint32_t index, struct ingot_error *error) {
    const struct ig_plan *plan = context->plan;
    const struct ig_plan_symbol *symbol = &plan->symbols[index];
    const char *name = ig_plan_text(plan, symbol->name);
    if (symbol->axis == IG_PLAN_NONE)
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "'%s' cannot be rounded up: it is no size, but the value of element %u of input '%s'", name,
                      symbol->element,
                      ig_context_tensor_name(context, ig_context_input_tensor(context, symbol->input)));
    if (symbol->mixes != IG_PLAN_NONE)
        return IG_ERR(error, INGOT_UNSUPPORTED, "'%s' cannot be rounded up, since its rows affect each other: %s", name,
                      ig_plan_text(plan, symbol->mixes));
    return check_ports(context, index, error);
}

enum ingot_status ig_batch_find_symbol(const struct ig_context *context, uint32_t *out_symbol,
                                       struct ingot_error *error) {
    enum ingot_status status = INGOT_UNSUPPORTED;
    *out_symbol = IG_PLAN_NONE;
    for (uint32_t i = 0; i < context->plan->n_symbols && status == INGOT_UNSUPPORTED; i++) {
        status = check_symbol(context, i, error);
        if (status == INGOT_OK) *out_symbol = i;
    }
    return status == INGOT_UNSUPPORTED ? INGOT_OK : status;
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

static enum ingot_status check_sizes(const struct ig_plan *plan, const struct ig_plan_symbol *symbol,
                                     const struct ingot_batch_options *options, struct ingot_error *error) {
    const char *name = ig_plan_text(plan, symbol->name);
    if (options->n_sizes && !options->sizes)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%zu sizes of '%s' are wanted, but sizes is NULL",
                      options->n_sizes, name);
    for (size_t i = 0; i < options->n_sizes; i++) {
        int64_t size = options->sizes[i];
        if (size < symbol->lo || size > symbol->hi)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                          "size %lld of '%s' is outside the range %lld to %lld that the engine was built for",
                          (long long)size, name, (long long)symbol->lo, (long long)symbol->hi);
        if (i > 0 && size <= options->sizes[i - 1])
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the sizes of '%s' must ascend, but %lld follows %lld", name,
                          (long long)size, (long long)options->sizes[i - 1]);
    }
    return INGOT_OK;
}

/* The powers of two of the range, then its end. Returns how many; out_sizes may be NULL. */
static size_t powers_of_two(const struct ig_plan_symbol *symbol, int64_t *out_sizes) {
    size_t n = 0;
    for (int64_t size = 1; size < symbol->hi; size *= 2) {
        if (size >= symbol->lo && out_sizes) out_sizes[n] = size;
        n += size >= symbol->lo;
        if (size > INT64_MAX / 2) break;
    }
    if (out_sizes) out_sizes[n] = symbol->hi;
    return n + 1;
}

static enum ingot_status copy_sizes(const struct ig_context *context, const struct ig_plan_symbol *symbol,
                                    const struct ingot_batch_options *options, int64_t **out_sizes, size_t *out_n_sizes,
                                    struct ingot_error *error) {
    size_t n = options->n_sizes ? options->n_sizes : powers_of_two(symbol, NULL), bytes;
    int64_t *sizes = NULL;
    if (ig_size_mul(n, sizeof *sizes, &bytes)) sizes = ig_allocate(context->env.allocator, bytes, _Alignof(int64_t));
    if (!sizes) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a batch policy");
    if (options->n_sizes)
        memcpy(sizes, options->sizes, n * sizeof *sizes);
    else
        powers_of_two(symbol, sizes);
    *out_sizes = sizes;
    *out_n_sizes = n;
    return INGOT_OK;
}

/* ---- Setting it -------------------------------------------------------------------------------------------------- */

static enum ingot_status make_padding(struct ig_context *context, struct ingot_error *error) {
    struct ig_batch *batch = &context->batch;
    if (!context->env.device->host_memory || n_ports(context) == 0 || batch->padding) return INGOT_OK;
    batch->padding =
        ig_allocate(context->env.allocator, n_ports(context) * sizeof *batch->padding, _Alignof(struct ig_padding));
    return batch->padding ? INGOT_OK : IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a batch policy");
}

enum ingot_status ig_context_set_batch(struct ig_context *context, const struct ingot_batch_options *options,
                                       struct ingot_error *error) {
    struct ig_batch *batch = &context->batch;
    int64_t *sizes = NULL;
    size_t n_sizes = 0;
    uint32_t symbol = IG_PLAN_NONE;
    if (options) {
        IG_TRY(find_symbol(context->plan, options->symbol, &symbol, error));
        IG_TRY(check_symbol(context, symbol, error));
        IG_TRY(check_sizes(context->plan, &context->plan->symbols[symbol], options, error));
        IG_TRY(make_padding(context, error));
        IG_TRY(copy_sizes(context, &context->plan->symbols[symbol], options, &sizes, &n_sizes, error));
    }
    release_sizes(context, batch->sizes, batch->n_sizes);
    batch->symbol = symbol;
    batch->sizes = sizes;
    batch->n_sizes = n_sizes;
    batch->cleared = false;
    batch->info = (struct ingot_batch_info){0};
    context->inputs_changed = true;
    return INGOT_OK;
}

void ig_context_batch(const struct ig_context *context, struct ingot_batch_info *out_info) {
    const struct ig_batch *batch = &context->batch;
    *out_info = batch->info;
    if (batch->symbol != IG_PLAN_NONE)
        out_info->symbol = ig_plan_text(context->plan, context->plan->symbols[batch->symbol].name);
    out_info->sizes = batch->sizes;
    out_info->n_sizes = batch->n_sizes;
    out_info->plan_bytes = context->cache.info.bytes;
    for (size_t i = 0; batch->padding && i < n_ports(context); i++)
        out_info->padding_bytes += batch->padding[i].size;
}
