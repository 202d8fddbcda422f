/*
 * Contexts: creation, bindings and queries; see runtime.h. Runs are in context_run.c.
 */
#include "runtime/context/context.h"

#include "base/memory.h"
#include "dist/dist.h"

const struct ig_plan_tensor *ig_context_input_tensor(const struct ig_context *context, size_t index) {
    return &context->plan->tensors[context->plan->subplans[0].inputs + index];
}

const struct ig_plan_tensor *ig_context_output_tensor(const struct ig_context *context, size_t index) {
    return &context->plan->tensors[context->plan->subplans[0].outputs + index];
}

const char *ig_context_tensor_name(const struct ig_context *context, const struct ig_plan_tensor *tensor) {
    return ig_plan_text(context->plan, tensor->name);
}

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

/* Allocates one element more than asked for, since an allocator may return NULL for size 0. */
static void *new_table(const struct ig_context *context, size_t count, size_t size) {
    return ig_allocate(context->env.allocator, (count + 1) * size, 16);
}

static void release_table(const struct ig_context *context, void *table, size_t count, size_t size) {
    ig_release(context->env.allocator, table, (count + 1) * size);
}

static bool allocate_tables(struct ig_context *context, bool profile) {
    const struct ig_plan *plan = context->plan;
    context->tensors = new_table(context, context->n_inputs, sizeof *context->tensors);
    context->inputs = new_table(context, context->n_inputs, sizeof *context->inputs);
    context->outputs = new_table(context, context->n_outputs, sizeof *context->outputs);
    context->symbols = new_table(context, plan->n_symbols, sizeof *context->symbols);
    if (profile) context->times = new_table(context, plan->n_steps, sizeof *context->times);
    return context->tensors && context->inputs && context->outputs && context->symbols && (context->times || !profile);
}

static void find_updates(struct ig_context *context) {
    for (uint32_t i = 0; i < context->n_inputs; i++)
        context->inputs[i].updated_by = IG_PLAN_NONE;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        uint32_t updates = ig_context_output_tensor(context, i)->updates;
        if (updates) context->inputs[updates - 1].updated_by = i;
    }
}

static enum ingot_status make_events(struct ig_device *device, bool timed, struct ig_event **events, size_t count,
                                     struct ingot_error *error) {
    for (size_t i = 0; i < count; i++)
        IG_TRY(device->api->event_create(device, timed, &events[i], error));
    return INGOT_OK;
}

static void destroy_events(struct ig_device *device, struct ig_event **events, size_t count) {
    for (size_t i = 0; events && i < count; i++) {
        if (events[i]) device->api->event_destroy(device, events[i]);
    }
}

static size_t elements_size(const struct ig_context *context) {
    return ((size_t)context->plan->n_symbols + 1) * sizeof(int64_t);
}

static size_t n_copies(const struct ig_context *context) {
    return (size_t)context->n_inputs + context->n_outputs + 1;
}

/* What only a device with its own memory and clock needs. */
static enum ingot_status init_separate(struct ig_context *context, const struct ig_context_config *config,
                                       struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    size_t n_marks = (size_t)context->plan->n_steps + 1;
    void *elements;
    IG_TRY(device->api->allocate_host(device, elements_size(context), &elements, error));
    context->elements = elements;
    context->copies.at = new_table(context, n_copies(context), sizeof *context->copies.at);
    if (!context->copies.at) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    ig_transfer_init(&context->transfer, device, config->threads);
    IG_TRY(make_events(device, false, context->done, 2, error));
    for (int i = 0; i < 2; i++)
        context->end[i] = context->done[i];
    if (config->timing) IG_TRY(make_events(device, true, context->marks, IG_MARKS, error));
    if (!config->profile) return INGOT_OK;
    context->step_marks = new_table(context, n_marks, sizeof *context->step_marks);
    if (!context->step_marks) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    return make_events(device, true, context->step_marks, n_marks, error);
}

/* Reports a missing library at creation, not in the middle of a run. */
static enum ingot_status need_libraries(const struct ig_context *context, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    for (uint32_t i = 0; i < context->plan->n_calls; i++) {
        uint32_t library = context->plan->calls[i].library;
        enum ingot_status status = device->api->need_library(device, library, error);
        if (status == INGOT_OK) continue;
        ig_error_prefix(error, "the engine needs %s", ig_library_name(library));
        return status;
    }
    return INGOT_OK;
}

static enum ingot_status init_activations(struct ig_context *context, const struct ig_context_config *config,
                                          struct ingot_error *error) {
    const struct ig_activations_config own = {.allocator = config->allocator, .device = config->device};
    if (!config->activations) return ig_activations_create(&own, &context->activations, error);
    context->activations = config->activations;
    context->shares_activations = true;
    ig_activations_join(context->activations);
    return INGOT_OK;
}

static void deinit_activations(struct ig_context *context) {
    if (context->shares_activations)
        ig_activations_leave(context->activations);
    else
        ig_activations_destroy(context->activations);
}

static enum ingot_status init(struct ig_context *context, const struct ig_context_config *config,
                              struct ingot_error *error) {
    struct ig_frame_env *env = &context->env;
    const struct ig_device_api *api = env->device->api;
    if (!allocate_tables(context, config->profile))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    find_updates(context);
    IG_TRY(ig_results_pool_create(env->device, context->n_outputs, env->allocator, &context->pool, error));
    env->device->stop = &context->stop;
    IG_TRY(ig_instance_cache_init(&context->cache, config->max_instances, config->max_bytes, env->allocator, error));
    IG_TRY(need_libraries(context, error));
    env->module = config->module;
    if (!env->module) {
        IG_TRY(api->module_create(env->device, env->file->code, env->file->code_size, &context->own_module, error));
        env->module = context->own_module;
    }
    /* Parts need two instances for a shape, which a bound on their number does not expect. */
    bool parts = !config->whole_batches && config->max_instances == 0 && !config->group;
    if (env->device->host_memory && env->device->cache_bytes && parts)
        IG_TRY(ig_batch_find_symbol(context, &context->batch.parts_symbol, error));
    IG_TRY(api->stream_create(env->device, &env->stream, error));
    IG_TRY(init_activations(context, config, error));
    IG_TRY(api->allocate(env->device, IG_LINE, &env->dummy, error));
    IG_TRY(api->allocate_host(env->device, 2 * IG_LINE, &context->scalars, error));
    return env->device->host_memory ? INGOT_OK : init_separate(context, config, error);
}

enum ingot_status ig_context_create(const struct ig_engine_file *file, const struct ig_context_config *config,
                                    struct ig_context **out_context, struct ingot_error *error) {
    struct ig_context *context = ig_allocate(config->allocator, sizeof *context, _Alignof(struct ig_context));
    if (!context) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    context->env = (struct ig_frame_env){.file = file,
                                         .device = config->device,
                                         .weights = config->weights ? config->weights : &context->file_places,
                                         .group = config->group,
                                         .stop = &context->stop,
                                         .allocator = config->allocator};
    context->file_span = (struct ig_weight_span){.end = file->section_size, .address = file->weights};
    context->file_places = (struct ig_weight_places){.n_spans = 1, .spans = &context->file_span};
    context->plan = &file->plan;
    if (config->machine) context->machine = *config->machine;
    context->inputs_changed = true;
    ig_batch_init(&context->batch);
    context->n_inputs = file->plan.subplans[0].n_inputs;
    context->n_outputs = file->plan.subplans[0].n_outputs;
    enum ingot_status status = init(context, config, error);
    if (status != INGOT_OK)
        ig_context_destroy(context);
    else
        *out_context = context;
    return status;
}

static void release_device_memory(struct ig_context *context, void *memory, size_t size) {
    if (memory) context->env.device->api->release(context->env.device, memory, size);
}

static void deinit_separate(struct ig_context *context) {
    struct ig_device *device = context->env.device;
    size_t n_marks = (size_t)context->plan->n_steps + 1;
    if (context->elements) device->api->release_host(device, context->elements, elements_size(context));
    ig_transfer_deinit(&context->transfer);
    destroy_events(device, context->done, 2);
    destroy_events(device, context->marks, IG_MARKS);
    destroy_events(device, context->step_marks, n_marks);
    release_table(context, context->step_marks, n_marks, sizeof *context->step_marks);
    release_table(context, context->copies.at, n_copies(context), sizeof *context->copies.at);
    for (int i = 0; i < IG_ADOPTED_STREAMS; i++) {
        if (context->adopted[i].stream) device->api->stream_destroy(device, context->adopted[i].stream);
    }
}

void ig_context_destroy(struct ig_context *context) {
    if (!context) return;
    struct ig_frame_env *env = &context->env;
    const struct ig_device_api *api = env->device->api;
    struct ingot_error ignored;
    ig_context_finish(context); /* so that no memory in use is freed */
    ig_context_leave_ranks(context);
    ig_preparer_stop(context->preparer);
    ig_instance_cache_deinit(&context->cache, env);
    ig_preparer_destroy(context->preparer);
    for (uint32_t i = 0; context->outputs && i < context->n_outputs; i++)
        (void)ig_context_drop_fresh(context, &context->outputs[i], &ignored);
    ig_batch_deinit(context);
    deinit_activations(context);
    release_device_memory(context, env->dummy, IG_LINE);
    if (context->scalars) api->release_host(env->device, context->scalars, 2 * IG_LINE);
    deinit_separate(context);
    api->stream_destroy(env->device, env->stream);
    api->module_destroy(env->device, context->own_module);
    env->device->stop = NULL;
    ig_results_pool_drop(context->pool); /* the last use of the device by this thread */
    release_table(context, context->tensors, context->n_inputs, sizeof *context->tensors);
    release_table(context, context->inputs, context->n_inputs, sizeof *context->inputs);
    release_table(context, context->outputs, context->n_outputs, sizeof *context->outputs);
    release_table(context, context->symbols, context->plan->n_symbols, sizeof *context->symbols);
    release_table(context, context->times, context->plan->n_steps, sizeof *context->times);
    ig_release(env->allocator, context, sizeof *context);
}

enum ingot_status ig_context_set_weights(struct ig_context *context, const struct ig_weight_places *weights,
                                         struct ingot_error *error) {
    IG_TRY(ig_context_settle(context, error));
    context->env.weights = weights;
    return INGOT_OK;
}

/* ---- Binding ----------------------------------------------------------------------------------------------------- */

enum ingot_status ig_context_check_memory(const struct ig_context *context, const char *what, const char *name,
                                          enum ingot_memory memory, struct ingot_error *error) {
    if (memory == INGOT_HOST || memory == INGOT_PINNED) return INGOT_OK;
    if (memory != INGOT_CUDA)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s '%s': memory is %d, which is no enum ingot_memory", what, name,
                      (int)memory);
    if (!context->env.device->host_memory) return INGOT_OK;
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s '%s' lies in GPU memory, but the engine runs on the CPU", what,
                  name);
}

enum ingot_status ig_context_check_shape(const struct ig_context *context, const struct ig_plan_tensor *wanted,
                                         const struct ingot_tensor *tensor, struct ingot_error *error) {
    const char *name = ig_context_tensor_name(context, wanted);
    if (tensor->dtype != (enum ingot_dtype)wanted->dtype)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': type is %s, wanted %s", name,
                      ingot_dtype_name(tensor->dtype), ingot_dtype_name((enum ingot_dtype)wanted->dtype));
    if (tensor->rank < 0 || (uint32_t)tensor->rank != wanted->rank)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': rank is %d, wanted %u", name, tensor->rank,
                      wanted->rank);
    for (uint32_t axis = 0; axis < wanted->rank; axis++) {
        int64_t dim;
        if (tensor->dims[axis] < 0)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': dim %u is %lld", name, axis,
                          (long long)tensor->dims[axis]);
        if (ig_shape_constant(context->plan, wanted->dims[axis], &dim) && tensor->dims[axis] != dim)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': dim %u is %lld, wanted %lld", name, axis,
                          (long long)tensor->dims[axis], (long long)dim);
    }
    return ig_context_check_memory(context, "input", name, tensor->memory, error);
}

static enum ingot_status check_tensor(const struct ig_context *context, const struct ig_plan_tensor *wanted,
                                      const struct ingot_tensor *tensor, struct ingot_error *error) {
    const char *name = ig_context_tensor_name(context, wanted);
    IG_TRY(ig_context_check_shape(context, wanted, tensor, error));
    if (!tensor->data && ingot_tensor_elements(tensor) != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': data is NULL", name);
    if ((uintptr_t)tensor->data % ingot_dtype_size(tensor->dtype) != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': data is not aligned to its elements of %zu bytes",
                      name, ingot_dtype_size(tensor->dtype));
    return INGOT_OK;
}

/* Binds the output that updates the input to its memory. */
static void store_in_input(struct ig_context *context, size_t index) {
    const struct ingot_tensor *tensor = &context->tensors[index];
    struct ig_output *output = &context->outputs[context->inputs[index].updated_by];
    output->given = tensor->data;
    output->given_size = SIZE_MAX; /* as large as the input, whatever the shapes */
    output->memory = tensor->memory;
    output->ready = false;
    if (tensor->memory != INGOT_CUDA) context->updates_host = true;
}

enum ingot_status ig_context_set_input(struct ig_context *context, size_t index, const struct ingot_tensor *tensor,
                                       struct ingot_error *error) {
    if (index >= context->n_inputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no input %zu: the engine has %u", index,
                      context->n_inputs);
    IG_TRY(check_tensor(context, ig_context_input_tensor(context, index), tensor, error));
    context->tensors[index] = *tensor;
    context->inputs[index].bound = true;
    context->inputs_changed = true;
    if (context->inputs[index].updated_by != IG_PLAN_NONE) store_in_input(context, index);
    return INGOT_OK;
}

enum ingot_status ig_context_set_output(struct ig_context *context, size_t index, enum ingot_memory memory, void *data,
                                        size_t size, struct ingot_error *error) {
    if (index >= context->n_outputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no output %zu: the engine has %u", index,
                      context->n_outputs);
    const struct ig_plan_tensor *tensor = ig_context_output_tensor(context, index);
    const char *name = ig_context_tensor_name(context, tensor);
    size_t element = ingot_dtype_size((enum ingot_dtype)tensor->dtype);
    if (tensor->updates && !data) return INGOT_OK; /* it has its place */
    if (tensor->updates)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' is stored in the memory of input '%s'", name,
                      ig_context_tensor_name(context, ig_context_input_tensor(context, tensor->updates - 1)));
    IG_TRY(ig_context_check_memory(context, "output", name, memory, error));
    if ((uintptr_t)data % element != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s': memory is not aligned to its elements of %zu bytes",
                      name, element);
    struct ig_output *output = &context->outputs[index];
    IG_TRY(ig_context_drop_fresh(context, output, error));
    output->fresh = false;
    output->given = data;
    output->given_size = data ? size : 0;
    output->memory = memory;
    output->ready = false;
    return INGOT_OK;
}

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

static enum ingot_status milliseconds(const struct ig_context *context, int from, double *out_ms,
                                      struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    uint64_t nanoseconds;
    IG_TRY(device->api->event_elapsed(device, context->marks[from], context->marks[from + 1], &nanoseconds, error));
    *out_ms = (double)nanoseconds / 1e6;
    return INGOT_OK;
}

enum ingot_status ig_context_timing(const struct ig_context *context, struct ingot_timing *out_timing,
                                    struct ingot_error *error) {
    struct ingot_timing timing;
    if (!context->marks[0])
        return IG_ERR(error, INGOT_UNSUPPORTED, "%s",
                      context->env.device->host_memory ? "only GPUs have a clock of their own to time runs by"
                                                       : "the context was made without the option 'timing'");
    if (!context->timed || context->under_way)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "no run has succeeded and been waited for");
    IG_TRY(milliseconds(context, IG_MARK_BEGIN, &timing.input_ms, error));
    IG_TRY(milliseconds(context, IG_MARK_COMPUTE, &timing.compute_ms, error));
    IG_TRY(milliseconds(context, IG_MARK_OUTPUT, &timing.output_ms, error));
    *out_timing = timing;
    return INGOT_OK;
}

void ig_context_plans(const struct ig_context *context, struct ingot_plans_info *out_info) {
    *out_info = context->cache.info;
}

/* Do ranks exchange anything in a run? */
static bool exchanges(const struct ig_context *context, const struct ig_frame *frame) {
    const struct ig_plan_step *steps = &context->plan->steps[frame->sub->steps];
    for (uint32_t i = 0; context->env.group && i < frame->sub->n_steps; i++)
        if (steps[i].kind == IG_STEP_COLLECTIVE) return true;
    return false;
}

size_t ig_context_exchanges(const struct ig_context *context, struct ingot_exchange_row *rows, size_t capacity) {
    struct ig_way_measured measured[IG_MOST_WAYS];
    const size_t count = context->env.group ? ig_group_ways(context->env.group, measured, IG_MOST_WAYS) : 0;
    for (size_t i = 0; i < count && i < capacity; i++)
        rows[i] = (struct ingot_exchange_row){.collective = ig_collective_name(measured[i].kind),
                                              .bytes = measured[i].bytes,
                                              .kernel_us = (double)measured[i].slowest.windows / 1e3,
                                              .nccl_us = (double)measured[i].slowest.nccl / 1e3,
                                              .by_nccl = measured[i].by_nccl};
    return count;
}

enum ingot_status ig_context_memory(struct ig_context *context, struct ingot_memory_info *out_info,
                                    struct ingot_error *error) {
    const struct ig_instance *before = context->current;
    enum ingot_status status = ig_context_prepare(context, context->env.stream, error);
    /* The shapes of the last run's results are read from its instance: they are lost when another becomes current. */
    for (uint32_t i = 0; context->current != before && i < context->n_outputs; i++)
        context->outputs[i].ready = false;
    IG_TRY(status);
    const struct ig_frame *frame = context->current->frame;
    struct ig_device *device = context->env.device;
    *out_info = (struct ingot_memory_info){
        .weights_bytes = (size_t)ig_weight_own_bytes(context->env.weights),
        .arena_bytes = frame->arena_bytes,
        .lower_bound_bytes = frame->lower_bound,
        .scratch_bytes = device->api->scratch_bytes(device, context->current->scratch),
        .transfer_bytes =
            device->host_memory ? 0 : ig_transfer_bytes(&context->transfer) + ig_results_pool_bytes(context->pool),
        .parallel_steps = frame->branches.steps,
        .parallel_bytes = frame->branches.bytes,
        .parallel_gain = frame->branches.gain,
        .exchange_bytes = exchanges(context, frame) ? ig_group_bytes(context->env.group) : 0,
        .nccl_bytes = context->env.group ? ig_group_library_bytes(context->env.group) : 0};
    return INGOT_OK;
}
