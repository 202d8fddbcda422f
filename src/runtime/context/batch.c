/* Batches rounded up: the copies and the accounting; see batch.h. The policy itself is in batch_policy.c. */
#include "runtime/context/batch.h"

#include <string.h>

#include "base/memory.h"
#include "runtime/context/context.h"

void ig_batch_round(struct ig_context *context) {
    struct ig_batch *batch = &context->batch;
    batch->by = batch->symbol;
    if (batch->symbol == IG_PLAN_NONE) return;
    int64_t *rows = &context->symbols[batch->symbol];
    batch->rows = *rows;
    size_t from = 0, to = batch->n_sizes; /* the first size that is large enough is in [from, to] */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (batch->sizes[middle] < *rows)
            from = middle + 1;
        else
            to = middle;
    }
    if (from < batch->n_sizes) *rows = batch->sizes[from];
}

/* The message names the caller's number of rows, so the slot has that for the time of the check. */
enum ingot_status ig_batch_check_inputs(struct ig_context *context, const struct ig_instance *instance,
                                        struct ingot_error *error) {
    const struct ig_batch *batch = &context->batch;
    if (batch->by == IG_PLAN_NONE)
        return ig_shape_check_inputs(context->plan, instance->slots, context->tensors, error);
    int64_t *slot = &instance->slots[batch->by], own = *slot;
    *slot = batch->rows;
    enum ingot_status status = ig_shape_check_inputs(context->plan, instance->slots, context->tensors, error);
    *slot = own;
    return status;
}

bool ig_batch_has_rows(const struct ig_batch *batch, const struct ig_plan_tensor *tensor) {
    return batch->by != IG_PLAN_NONE && tensor->rank > 0 && tensor->dims[0] == batch->by;
}

size_t ig_batch_bytes(const struct ig_context *context, const struct ig_plan_tensor *tensor, size_t bytes) {
    const struct ig_batch *batch = &context->batch;
    if (!ig_batch_has_rows(batch, tensor) || bytes == 0) return bytes;
    return bytes / (size_t)context->current->slots[batch->by] * (size_t)batch->rows;
}

int64_t ig_batch_dim(const struct ig_context *context, ig_slot slot) {
    const struct ig_batch *batch = &context->batch;
    return slot == batch->ran_by ? batch->ran_rows : context->current->slots[slot];
}

bool ig_batch_copies_vary(const struct ig_context *context) {
    const struct ig_batch *batch = &context->batch;
    if (batch->symbol == IG_PLAN_NONE) return false;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (context->tensors[i].memory != INGOT_HOST && ig_batch_has_rows(batch, ig_context_input_tensor(context, i)))
            return true;
    }
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        const struct ig_output *output = &context->outputs[i];
        if (output->given && output->memory != INGOT_HOST &&
            ig_batch_has_rows(batch, ig_context_output_tensor(context, i)))
            return true;
    }
    return false;
}

void ig_batch_count(struct ig_context *context, bool captured) {
    struct ig_batch *batch = &context->batch;
    batch->ran_by = batch->by;
    batch->ran_rows = batch->rows;
    if (batch->symbol == IG_PLAN_NONE) return;
    batch->info.runs++;
    batch->info.hits += !captured;
    batch->info.captures += captured;
    batch->info.rows += (uint64_t)batch->rows;
    batch->info.computed_rows += (uint64_t)context->current->slots[batch->symbol];
}

/* ---- Devices with memory of their own ---------------------------------------------------------------------------- */

/* The zeros come from pinned memory, in pieces. */
#define PIECE ((size_t)1 << 20)

static enum ingot_status clear(struct ig_context *context, const void *zeros, size_t n_zeros, char *block, size_t size,
                               struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    for (size_t at = 0, part; at < size; at += part) {
        part = size - at < n_zeros ? size - at : n_zeros;
        IG_TRY(device->api->copy(device, context->env.stream, block + at, zeros, part, error));
    }
    return INGOT_OK;
}

static enum ingot_status clear_blocks(struct ig_context *context, void *zeros, size_t n_zeros,
                                      struct ingot_error *error) {
    struct ig_transfer *transfer = &context->transfer;
    struct ig_device *device = context->env.device;
    memset(zeros, 0, n_zeros);
    if (transfer->pinned_inputs_size) memset(transfer->pinned_inputs, 0, transfer->pinned_inputs_size);
    IG_TRY(clear(context, zeros, n_zeros, transfer->inputs, transfer->inputs_size, error));
    IG_TRY(clear(context, zeros, n_zeros, transfer->inputs_twice, transfer->inputs_twice_size, error));
    IG_TRY(clear(context, zeros, n_zeros, transfer->direct_twice, transfer->direct_twice_size, error));
    return device->api->stream_wait(device, context->env.stream, error);
}

enum ingot_status ig_batch_clear(struct ig_context *context, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    const struct ig_transfer *transfer = &context->transfer;
    size_t most =
        transfer->inputs_size > transfer->inputs_twice_size ? transfer->inputs_size : transfer->inputs_twice_size;
    if (transfer->direct_twice_size > most) most = transfer->direct_twice_size;
    size_t n_zeros = most < PIECE ? most : PIECE;
    void *zeros;
    if (context->batch.symbol == IG_PLAN_NONE || context->batch.cleared) return INGOT_OK;
    IG_TRY(ig_context_settle(context, error));
    if (n_zeros > 0) {
        IG_TRY(device->api->allocate_host(device, n_zeros, &zeros, error));
        enum ingot_status status = clear_blocks(context, zeros, n_zeros, error);
        if (status != INGOT_OK) {
            struct ingot_error ignored;
            (void)device->api->stream_wait(device, context->env.stream, &ignored);
        }
        device->api->release_host(device, zeros, n_zeros);
        IG_TRY(status);
    }
    context->batch.cleared = true;
    return INGOT_OK;
}

/* ---- Devices that use host memory -------------------------------------------------------------------------------- */

static struct ig_padding *padding_of(const struct ig_context *context, uint32_t i, bool output) {
    return &context->batch.padding[output ? context->n_inputs + i : i];
}

static enum ingot_status make_room(struct ig_context *context, struct ig_padding *padding, size_t bytes,
                                   struct ingot_error *error) {
    size_t before = padding->size;
    IG_TRY(ig_device_grow(context->env.device, false, bytes, &padding->memory, &padding->size, error));
    if (padding->size != before) memset(padding->memory, 0, padding->size);
    return INGOT_OK;
}

enum ingot_status ig_batch_pad_input(struct ig_context *context, uint32_t i, void **out_data,
                                     struct ingot_error *error) {
    const struct ingot_tensor *tensor = &context->tensors[i];
    size_t bytes = context->current->frame->inputs[i].bytes;
    size_t given = ig_batch_bytes(context, ig_context_input_tensor(context, i), bytes);
    *out_data = bytes ? tensor->data : context->env.dummy;
    if (given >= bytes) return INGOT_OK;
    struct ig_padding *padding = padding_of(context, i, false);
    IG_TRY(make_room(context, padding, bytes, error));
    if (given) memcpy(padding->memory, tensor->data, given);
    *out_data = padding->memory;
    return INGOT_OK;
}

/* Has the caller's memory too little room for the rows behind the caller's? */
static bool is_padded(const struct ig_context *context, uint32_t i) {
    const struct ig_output *output = &context->outputs[i];
    return output->given && output->given_size < context->current->frame->outputs[i].bytes;
}

enum ingot_status ig_batch_pad_output(struct ig_context *context, uint32_t i, void **out_data,
                                      struct ingot_error *error) {
    *out_data = context->outputs[i].given;
    if (!is_padded(context, i)) return INGOT_OK;
    struct ig_padding *padding = padding_of(context, i, true);
    IG_TRY(make_room(context, padding, context->current->frame->outputs[i].bytes, error));
    *out_data = padding->memory;
    return INGOT_OK;
}

void ig_batch_deliver(const struct ig_context *context) {
    for (uint32_t i = 0; context->batch.symbol != IG_PLAN_NONE && i < context->n_outputs; i++) {
        const struct ig_output *output = &context->outputs[i];
        if (is_padded(context, i) && output->bytes)
            memcpy(output->given, padding_of(context, i, true)->memory, output->bytes);
    }
}
