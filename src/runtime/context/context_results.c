/* Where a context's results are kept: sets that callers may lease, and fresh memory for each run; see context.h. */
#include "base/memory.h"
#include "runtime/context/context.h"

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

enum ingot_status ig_context_choose_results(struct ig_context *context, size_t host, size_t device,
                                            struct ingot_error *error) {
    struct ig_instance *instance = context->current;
    struct ig_results *results = NULL;
    if (host || device) {
        results = ig_results_find(context->pool, instance->results, context->results, host, device);
        if (!results) IG_TRY(ig_results_add(context->pool, &results, error));
    }
    if (results && !ig_results_have_room(results, host, device)) {
        IG_TRY(ig_context_settle(context, error));
        IG_TRY(ig_results_reserve(results, host, device, error));
    }
    if (results) results->taken = false;
    context->results = instance->results = results;
    context->transfer.pinned_outputs = results ? results->host : NULL;
    context->transfer.pinned_outputs_size = results ? results->host_size : 0;
    return INGOT_OK;
}

/* ---- Giving memory back ------------------------------------------------------------------------------------------ */

static enum ingot_status trim(struct ig_context *context, struct ingot_error *error) {
    ig_context_drop_results(context);
    for (uint32_t i = 0; i < context->n_outputs; i++)
        IG_TRY(ig_context_drop_fresh(context, &context->outputs[i], error));
    ig_results_pool_trim(context->pool);
    ig_transfer_trim(&context->transfer);
    ig_batch_trim(context);
    if (!context->shares_activations) ig_activations_trim(context->activations);
    return INGOT_OK;
}

enum ingot_status ig_context_trim(struct ig_context *context, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    IG_TRY(ig_context_wait(context, error));
    if (!device->api->enter) return trim(context, error);
    IG_TRY(device->api->enter(device, error));
    enum ingot_status status = trim(context, error);
    device->api->leave(device);
    return status;
}

/* ---- Leases ------------------------------------------------------------------------------------------------------ */

/* The shape of output i in the last run. */
static struct ingot_tensor describe(const struct ig_context *context, uint32_t i) {
    const struct ig_plan_tensor *tensor = ig_context_output_tensor(context, i);
    struct ingot_tensor result = {
        .dtype = (enum ingot_dtype)tensor->dtype, .rank = (int)tensor->rank, .memory = context->outputs[i].memory};
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        result.dims[axis] = ig_batch_dim(context, tensor->dims[axis]);
    return result;
}

static bool fill_tensors(const struct ig_context *context) {
    bool any = false;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        const struct ig_output *output = &context->outputs[i];
        bool own = output->ready && !output->given;
        context->results->tensors[i] = own ? describe(context, i) : (struct ingot_tensor){.dtype = INGOT_DTYPE_NONE};
        if (own) context->results->tensors[i].data = ig_context_result(context, i);
        any |= own;
    }
    return any;
}

enum ingot_status ig_context_lease(struct ig_context *context, struct ig_results **out_lease,
                                   struct ingot_error *error) {
    struct ig_results *results = context->results;
    struct ig_stream *stream = NULL;
    if (results && results->taken)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the results of the last run have been leased already");
    if (!results || !fill_tensors(context))
        return IG_ERR(
            error, INGOT_INVALID_ARGUMENT,
            "there is nothing to lease: no run has succeeded, or its results are not in the context's memory");
    if (context->under_way) IG_TRY(ig_context_await_ranks(context, error)); /* a lease knows no group */
    if (context->under_way && !context->env.device->host_memory)
        stream = context->results_beside ? context->transfer.away : context->last;
    IG_TRY(ig_results_lease(results, stream, ig_context_native(context, stream), error));
    *out_lease = results;
    return INGOT_OK;
}

/* ---- Memory for callers ------------------------------------------------------------------------------------------ */

/* A device whose memory is the host's allocates all kinds on the host. */
static bool is_ordinary(const struct ig_context *context, enum ingot_memory memory) {
    return memory == INGOT_HOST || context->env.device->host_memory;
}

enum ingot_status ig_context_allocate(struct ig_context *context, enum ingot_memory memory, size_t size,
                                      void **out_data, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    if ((unsigned)memory > INGOT_CUDA)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "memory is %d, which is no enum ingot_memory", (int)memory);
    if (!is_ordinary(context, memory))
        return (memory == INGOT_CUDA ? device->api->allocate : device->api->allocate_host)(device, size, out_data,
                                                                                           error);
    /* Not ig_allocate, which would touch every page before it is needed. */
    const struct ingot_allocator *allocator = context->env.allocator;
    void *data = allocator->alloc(allocator->user, size ? size : 1, 64);
    if (!data) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for %zu bytes", size);
    *out_data = data;
    return INGOT_OK;
}

void ig_context_free(struct ig_context *context, enum ingot_memory memory, void *data, size_t size) {
    struct ig_device *device = context->env.device;
    if (is_ordinary(context, memory))
        ig_release(context->env.allocator, data, size ? size : 1);
    else
        (memory == INGOT_CUDA ? device->api->release : device->api->release_host)(device, data, size);
}

/* ---- Fresh results ----------------------------------------------------------------------------------------------- */

enum ingot_status ig_context_set_output_fresh(struct ig_context *context, size_t index, enum ingot_memory memory,
                                              struct ingot_error *error) {
    IG_TRY(ig_context_set_output(context, index, memory, NULL, 0, error));
    if (ig_context_output_tensor(context, index)->updates)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' is stored in the memory of an input",
                      ig_context_tensor_name(context, ig_context_output_tensor(context, index)));
    context->outputs[index].fresh = true;
    return INGOT_OK;
}

/* The run that writes to it may be in flight, and the host may be about to deliver to it. */
enum ingot_status ig_context_drop_fresh(struct ig_context *context, struct ig_output *output,
                                        struct ingot_error *error) {
    if (!output->fresh || !output->given) return INGOT_OK;
    IG_TRY(ig_context_settle(context, error));
    ig_context_free(context, output->memory, output->given, output->given_size);
    output->given = output->deliver_to = NULL;
    output->given_size = 0;
    return INGOT_OK;
}

/* A result of the same size that nobody took is overwritten: nobody owns it yet. */
enum ingot_status ig_context_make_fresh(struct ig_context *context, struct ingot_error *error) {
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        struct ig_output *output = &context->outputs[i];
        size_t bytes = ig_context_output_bytes(context, i);
        if (!output->fresh || (output->given && output->given_size == bytes)) continue;
        IG_TRY(ig_context_drop_fresh(context, output, error));
        IG_TRY(ig_context_allocate(context, output->memory, bytes, &output->given, error));
        output->given_size = bytes;
    }
    return INGOT_OK;
}

enum ingot_status ig_context_take_output(struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                         struct ingot_error *error) {
    struct ingot_tensor tensor;
    IG_TRY(ig_context_output(context, index, &tensor, error));
    struct ig_output *output = &context->outputs[index];
    if (!output->fresh)
        return IG_ERR(
            error, INGOT_INVALID_ARGUMENT,
            "output '%s' cannot be taken: its memory is not made for each run (ingot_context_set_output_fresh)",
            ig_context_tensor_name(context, ig_context_output_tensor(context, index)));
    output->given = NULL;
    output->given_size = 0;
    output->ready = false;
    *out_tensor = tensor;
    return INGOT_OK;
}
