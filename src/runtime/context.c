/*
 * Contexts; see runtime.h. A run is: read the symbols, look the plan instance up (or make it, the first time), make sure
 * of memory, patch in addresses that changed, launch, wait. Only making an instance and growing memory allocate.
 */
#include "base/memory.h"
#include "runtime/instance.h"
#include "runtime/runtime.h"
#include "runtime/shape.h"
#include "runtime/walk.h"

#define LINE 64

struct output {
    void *own, *given; /* the context's memory, the caller's */
    size_t own_size, given_size;
    bool ready; /* holds the last run's result */
};

struct ig_context {
    struct ig_frame_env env;
    const struct ig_plan *plan;
    uint32_t n_inputs, n_outputs;
    struct ingot_tensor *tensors; /* what the inputs are bound to */
    bool *bound;                  /* by input: was it ever set? */
    struct output *outputs;
    int64_t *symbols;
    struct ig_instance_cache cache;
    struct ig_instance *current; /* whose shapes were bound last; NULL: none yet, or the last binding failed */
    bool inputs_changed;         /* since shapes were bound last */
    void *arena;                 /* one for all instances: as large as the largest needs */
    size_t arena_size;
    struct ig_step_time *times; /* NULL: not profiling */
};

static const struct ig_plan_tensor *input_of(const struct ig_context *context, size_t index) {
    return &context->plan->tensors[context->plan->subplans[0].inputs + index];
}

static const struct ig_plan_tensor *output_of(const struct ig_context *context, size_t index) {
    return &context->plan->tensors[context->plan->subplans[0].outputs + index];
}

static const char *name_of(const struct ig_context *context, const struct ig_plan_tensor *tensor) {
    return ig_plan_text(context->plan, tensor->name);
}

/* ---- Life ------------------------------------------------------------------------------------------------------------- */

/* One element more than counted, since an allocator may answer NULL when asked for nothing. */
static void *new_table(const struct ig_context *context, size_t count, size_t size) {
    return ig_allocate(context->env.allocator, (count + 1) * size, 16);
}

static void release_table(const struct ig_context *context, void *table, size_t count, size_t size) {
    ig_release(context->env.allocator, table, (count + 1) * size);
}

static bool allocate_tables(struct ig_context *context, bool profile) {
    const struct ig_plan *plan = context->plan;
    context->tensors = new_table(context, context->n_inputs, sizeof *context->tensors);
    context->bound = new_table(context, context->n_inputs, sizeof *context->bound);
    context->outputs = new_table(context, context->n_outputs, sizeof *context->outputs);
    context->symbols = new_table(context, plan->n_symbols, sizeof *context->symbols);
    if (profile) context->times = new_table(context, plan->n_steps, sizeof *context->times);
    return context->tensors && context->bound && context->outputs && context->symbols && (context->times || !profile);
}

static enum ingot_status init(struct ig_context *context, const struct ig_context_config *config,
                              struct ingot_error *error) {
    struct ig_frame_env *env = &context->env;
    const struct ig_device_api *api = env->device->api;
    if (!allocate_tables(context, config->profile))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    IG_TRY(ig_instance_cache_init(&context->cache, config->max_instances, env->allocator, error));
    IG_TRY(api->module_create(env->device, env->file->code, env->file->code_size, &env->module, error));
    IG_TRY(api->stream_create(env->device, &env->stream, error));
    return api->allocate(env->device, LINE, &env->dummy, error);
}

enum ingot_status ig_context_create(const struct ig_engine_file *file, const struct ig_context_config *config,
                                    struct ig_context **out_context, struct ingot_error *error) {
    struct ig_context *context = ig_allocate(config->allocator, sizeof *context, _Alignof(struct ig_context));
    if (!context) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    context->env = (struct ig_frame_env){.file = file, .device = config->device, .allocator = config->allocator};
    context->plan = &file->plan;
    context->inputs_changed = true;
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

void ig_context_destroy(struct ig_context *context) {
    if (!context) return;
    struct ig_frame_env *env = &context->env;
    const struct ig_device_api *api = env->device->api;
    ig_instance_cache_deinit(&context->cache, env);
    for (uint32_t i = 0; context->outputs && i < context->n_outputs; i++)
        release_device_memory(context, context->outputs[i].own, context->outputs[i].own_size);
    release_device_memory(context, context->arena, context->arena_size);
    release_device_memory(context, env->dummy, LINE);
    api->stream_destroy(env->device, env->stream);
    api->module_destroy(env->device, env->module);
    release_table(context, context->tensors, context->n_inputs, sizeof *context->tensors);
    release_table(context, context->bound, context->n_inputs, sizeof *context->bound);
    release_table(context, context->outputs, context->n_outputs, sizeof *context->outputs);
    release_table(context, context->symbols, context->plan->n_symbols, sizeof *context->symbols);
    release_table(context, context->times, context->plan->n_steps, sizeof *context->times);
    ig_release(env->allocator, context, sizeof *context);
}

/* ---- Binding ---------------------------------------------------------------------------------------------------------- */

static enum ingot_status check_tensor(const struct ig_context *context, const struct ig_plan_tensor *wanted,
                                      const struct ingot_tensor *tensor, struct ingot_error *error) {
    const char *name = name_of(context, wanted);
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
    if (!tensor->data && ingot_tensor_elements(tensor) != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': data is NULL", name);
    if ((uintptr_t)tensor->data % ingot_dtype_size(tensor->dtype) != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s': data is not aligned to its elements of %zu bytes",
                      name, ingot_dtype_size(tensor->dtype));
    return INGOT_OK;
}

enum ingot_status ig_context_set_input(struct ig_context *context, size_t index, const struct ingot_tensor *tensor,
                                       struct ingot_error *error) {
    if (index >= context->n_inputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no input %zu: the engine has %u", index,
                      context->n_inputs);
    IG_TRY(check_tensor(context, input_of(context, index), tensor, error));
    context->tensors[index] = *tensor;
    context->bound[index] = true;
    context->inputs_changed = true;
    return INGOT_OK;
}

enum ingot_status ig_context_set_output(struct ig_context *context, size_t index, void *data, size_t size,
                                        struct ingot_error *error) {
    if (index >= context->n_outputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no output %zu: the engine has %u", index,
                      context->n_outputs);
    const struct ig_plan_tensor *output = output_of(context, index);
    size_t element = ingot_dtype_size((enum ingot_dtype)output->dtype);
    if ((uintptr_t)data % element != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s': memory is not aligned to its elements of %zu bytes",
                      name_of(context, output), element);
    context->outputs[index].given = data;
    context->outputs[index].given_size = data ? size : 0;
    context->outputs[index].ready = false;
    return INGOT_OK;
}

/* ---- Instances and memory ---------------------------------------------------------------------------------------------- */

/*
 * Makes memory at least `needed` bytes large; what was in it is lost. The first time it gets just that; when it must grow
 * again, half as much more, since shapes that grew twice (a sequence that gets longer with every run) will grow again,
 * and pages that are never touched cost nothing. Given back first, so that both need not fit.
 */
static enum ingot_status grow(struct ig_context *context, void **memory, size_t *size, size_t needed,
                              struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    if (needed <= *size) return INGOT_OK;
    size_t more = *size / 2, wanted = *size && needed - *size < more ? *size + more : needed;
    release_device_memory(context, *memory, *size);
    *memory = NULL;
    *size = 0;
    if (device->api->allocate(device, wanted, memory, NULL) != INGOT_OK) {
        wanted = needed;
        IG_TRY(device->api->allocate(device, wanted, memory, error));
    }
    *size = wanted;
    return INGOT_OK;
}

static enum ingot_status make_room(struct ig_context *context, struct ig_instance *instance,
                                   struct ingot_error *error) {
    const struct ig_frame_env *env = &context->env;
    IG_TRY(env->device->api->reserve_scratch(env->device, env->stream, instance->scratch, error));
    /* A line more, so that what is empty and placed last has an address of its own. */
    size_t needed;
    if (!ig_size_add(instance->frame->arena_bytes, LINE, &needed))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the activations of these shapes exceed the address space");
    IG_TRY(grow(context, &context->arena, &context->arena_size, needed, error));
    if (instance->frame->base != context->arena) ig_frame_place(env, instance->frame, context->arena);
    return INGOT_OK;
}

static enum ingot_status make_instance(struct ig_context *context, struct ig_instance **out_instance,
                                       struct ingot_error *error) {
    const struct ig_frame_env *env = &context->env;
    struct ig_instance *instance;
    IG_TRY(ig_instance_create(env, context->symbols, &instance, error));
    enum ingot_status status = ig_shape_check_inputs(context->plan, instance->slots, context->tensors, error);
    if (status == INGOT_OK) status = make_room(context, instance, error);
    if (status == INGOT_OK) status = ig_frame_capture(env, instance->frame, error);
    if (status != INGOT_OK) {
        ig_instance_destroy(instance, env);
        return status;
    }
    ig_instance_cache_add(&context->cache, instance, env);
    *out_instance = instance;
    return INGOT_OK;
}

/* The instance for what is bound, with its memory in place. */
static enum ingot_status prepare(struct ig_context *context, struct ingot_error *error) {
    for (uint32_t i = 0; context->inputs_changed && i < context->n_inputs; i++) {
        if (!context->bound[i])
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s' is not set",
                          name_of(context, input_of(context, i)));
    }
    IG_TRY(ig_shape_read_symbols(context->plan, context->tensors, context->symbols, error));
    struct ig_instance *instance = ig_instance_cache_find(&context->cache, context->symbols, context->plan->n_symbols);
    if (!instance) {
        context->current = NULL; /* making one may destroy another */
        IG_TRY(make_instance(context, &instance, error));
    } else {
        if (context->inputs_changed || instance != context->current)
            IG_TRY(ig_shape_check_inputs(context->plan, instance->slots, context->tensors, error));
        IG_TRY(make_room(context, instance, error));
    }
    context->current = instance;
    context->inputs_changed = false;
    return INGOT_OK;
}

/* Where output i's result goes: the caller's memory, which must suffice, or the context's, which grows to suffice. */
static enum ingot_status place_output(struct ig_context *context, uint32_t i, size_t bytes, void **out_address,
                                      struct ingot_error *error) {
    struct output *output = &context->outputs[i];
    if (output->given) {
        *out_address = output->given;
        if (output->given_size >= bytes) return INGOT_OK;
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' has %zu bytes, the memory given for it %zu",
                      name_of(context, output_of(context, i)), bytes, output->given_size);
    }
    IG_TRY(grow(context, &output->own, &output->own_size, bytes < LINE ? LINE : bytes, error));
    *out_address = output->own;
    return INGOT_OK;
}

static enum ingot_status bind_ports(struct ig_context *context, struct ingot_error *error) {
    struct ig_frame *frame = context->current->frame;
    struct ig_device *device = context->env.device;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        void *data = context->tensors[i].data;
        ig_frame_bind(device, frame, &frame->inputs[i], frame->inputs[i].bytes ? data : context->env.dummy);
    }
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        void *address;
        IG_TRY(place_output(context, i, frame->outputs[i].bytes, &address, error));
        ig_frame_bind(device, frame, &frame->outputs[i], address);
    }
    return INGOT_OK;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------ */

enum ingot_status ig_context_run(struct ig_context *context, struct ingot_error *error) {
    const struct ig_frame_env *env = &context->env;
    for (uint32_t i = 0; i < context->n_outputs; i++)
        context->outputs[i].ready = false;
    IG_TRY(prepare(context, error));
    IG_TRY(bind_ports(context, error));
    struct ig_walk walk = {.plan = context->plan,
                           .slots = context->current->slots,
                           .device = env->device,
                           .stream = env->stream,
                           .times = context->times};
    enum ingot_status status = ig_frame_run(&walk, context->current->frame, error);
    /* Whatever was enqueued before a failure must end before its memory is touched again. */
    struct ingot_error ignored;
    enum ingot_status waited = env->device->api->stream_wait(env->device, env->stream, status ? &ignored : error);
    if (status != INGOT_OK || waited != INGOT_OK) return status != INGOT_OK ? status : waited;
    for (uint32_t i = 0; i < context->n_outputs; i++)
        context->outputs[i].ready = true;
    return INGOT_OK;
}

enum ingot_status ig_context_output(const struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error) {
    if (index >= context->n_outputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no output %zu: the engine has %u", index,
                      context->n_outputs);
    const struct ig_plan_tensor *tensor = output_of(context, index);
    const struct output *output = &context->outputs[index];
    if (!output->ready)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' has no result: no run has succeeded since it was set",
                      name_of(context, tensor));
    *out_tensor = (struct ingot_tensor){.dtype = (enum ingot_dtype)tensor->dtype,
                                        .rank = (int)tensor->rank,
                                        .data = output->given ? output->given : output->own};
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        out_tensor->dims[axis] = context->current->slots[tensor->dims[axis]];
    return INGOT_OK;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------------- */

static const char *step_name(const struct ig_plan *plan, const struct ig_plan_step *step) {
    switch ((enum ig_plan_step_kind)step->kind) {
    case IG_STEP_KERNEL: return ig_plan_text(plan, plan->kernels[step->kernel].name);
    case IG_STEP_COPY: return "copy";
    case IG_STEP_IF: return "if";
    case IG_STEP_LOOP: return "loop";
    }
    return "unknown";
}

size_t ig_context_profile(const struct ig_context *context, struct ingot_profile_row *rows, size_t capacity) {
    if (!context->times) return 0;
    const struct ig_plan *plan = context->plan;
    for (uint32_t s = 0; s < plan->n_steps && s < capacity; s++) {
        rows[s] = (struct ingot_profile_row){.kernel = step_name(plan, &plan->steps[s]),
                                             .origin = ig_plan_text(plan, plan->steps[s].label),
                                             .calls = context->times[s].calls,
                                             .total_ms = (double)context->times[s].nanoseconds / 1e6};
    }
    return plan->n_steps;
}

enum ingot_status ig_context_memory(struct ig_context *context, struct ingot_memory_info *out_info,
                                    struct ingot_error *error) {
    const struct ig_instance *before = context->current;
    enum ingot_status status = prepare(context, error);
    /* The results of the last run keep their shapes only as long as its instance is the current one. */
    for (uint32_t i = 0; context->current != before && i < context->n_outputs; i++)
        context->outputs[i].ready = false;
    IG_TRY(status);
    const struct ig_frame *frame = context->current->frame;
    struct ig_device *device = context->env.device;
    *out_info = (struct ingot_memory_info){.weights_bytes = context->env.file->weights_size,
                                           .arena_bytes = frame->arena_bytes,
                                           .lower_bound_bytes = frame->lower_bound,
                                           .scratch_bytes = context->current->scratch * device->api->workers(device)};
    return INGOT_OK;
}
