/*
 * Shapes prepared before a run needs them; see runtime.h. All but the capture happens on the caller's thread: the plan
 * instance is made, memory grows, and the frame is bound as a run would bind it, so that the run finds the same copies in
 * the list. The preparer, if asked for, then captures the instance in the background.
 */
#include "base/memory.h"
#include "runtime/context/context.h"
#include "runtime/parts.h"

/* ---- Taking over what is done ------------------------------------------------------------------------------------ */

/* The least recently used instances may go, also the current one; the last run may use their lists. */
static enum ingot_status adopt(struct ig_context *context, struct ig_instance *instance, struct ingot_error *error) {
    struct ig_instance_cache *cache = &context->cache;
    if (ig_instance_cache_peek(cache, instance->slots, context->plan->n_symbols)) {
        ig_instance_destroy(instance, &context->env); /* a run has made its own in the meantime */
        return INGOT_OK;
    }
    enum ingot_status status = INGOT_OK;
    if (ig_instance_cache_is_full(cache, instance)) {
        context->current = NULL;
        status = ig_context_settle(context, error);
    }
    cache->info.captures += instance->captured;
    ig_instance_cache_add(cache, instance, context->plan->n_symbols, &context->env);
    return status;
}

enum ingot_status ig_context_adopt(struct ig_context *context, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    if (!context->preparer) return INGOT_OK;
    for (struct ig_instance *at = ig_preparer_take(context->preparer), *chain; at; at = chain) {
        chain = at->chain;
        enum ingot_status adopted = adopt(context, at, status == INGOT_OK ? error : NULL);
        if (status == INGOT_OK) status = adopted;
    }
    return status;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

static bool holds_symbols(const struct ig_plan *plan, uint32_t input) {
    for (uint32_t i = 0; i < plan->n_symbols; i++) {
        if (plan->symbols[i].input == input && plan->symbols[i].axis == IG_PLAN_NONE) return true;
    }
    return false;
}

static enum ingot_status check(const struct ig_context *context, const struct ingot_tensor *inputs, size_t n_inputs,
                               struct ingot_error *error) {
    if (n_inputs != context->n_inputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "shapes of %zu inputs are given, the engine has %u", n_inputs,
                      context->n_inputs);
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        const struct ig_plan_tensor *wanted = ig_context_input_tensor(context, i);
        IG_TRY(ig_context_check_shape(context, wanted, &inputs[i], error));
        if (holds_symbols(context->plan, i) && (inputs[i].memory == INGOT_CUDA || !inputs[i].data))
            return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                          "input '%s' holds sizes: to prepare them its data are needed, in memory of the host",
                          ig_context_tensor_name(context, wanted));
    }
    return INGOT_OK;
}

/* Can the copies be captured before their data are known? Those that are no part of a list can, and those of staged
 * data. */
static bool knows_copies(const struct ig_context *context) {
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (context->tensors[i].memory == INGOT_PINNED && !context->tensors[i].data) return false;
    }
    return true;
}

/* Where kernels take any address, these stand in for the callers'. */
static void bind_to_dummy(struct ig_context *context) {
    struct ig_frame *frame = context->current->frame;
    for (uint32_t i = 0; i < context->n_inputs + context->n_outputs; i++)
        ig_frame_bind(context->env.device, frame, &frame->ports[i], context->env.dummy);
}

/* Binds the current instance as a run would. `out_known`: it can be captured now. */
static enum ingot_status bind(struct ig_context *context, bool *out_known, struct ingot_error *error) {
    *out_known = true;
    IG_TRY(ig_context_make_room(context, error));
    if (context->env.device->host_memory) {
        bind_to_dummy(context);
        return INGOT_OK;
    }
    *out_known = ig_batch_copies_vary(context) || knows_copies(context);
    IG_TRY(ig_context_bind_ports(context, context->env.stream, error));
    return ig_context_bind_copies(context, error);
}

static enum ingot_status prepare_here(struct ig_context *context, struct ingot_error *error) {
    bool known;
    IG_TRY(ig_context_prepare(context, context->env.stream, error));
    if (context->current->ready) return INGOT_OK;
    IG_TRY(bind(context, &known, error));
    if (!known) return INGOT_OK;
    IG_TRY(ig_context_capture(context, error));
    return ig_instance_make_ready(context->current, context->env.device, context->env.stream, error);
}

/* Makes an instance that is in no cache, if none of these symbols is in it; sets `current` to NULL then. */
static enum ingot_status make_apart(struct ig_context *context, struct ingot_error *error) {
    context->current = NULL;
    if (ig_instance_cache_peek(&context->cache, context->symbols, context->plan->n_symbols)) return INGOT_OK;
    return ig_instance_create(&context->env, context->symbols, &context->current, error);
}

/* The same for what runs: where batches are computed in parts, the whole one's instance only says so. */
static enum ingot_status make_parts_apart(struct ig_context *context, struct ingot_error *error) {
    struct ig_instance_cache *cache = &context->cache;
    IG_TRY(make_apart(context, error));
    struct ig_instance *made = context->current;
    if (!made) context->current = ig_instance_cache_peek(cache, context->symbols, context->plan->n_symbols);
    int64_t part = context->current->part = ig_parts_choose(context);
    context->current = made;
    if (part == 0) return INGOT_OK;
    if (made) IG_TRY(adopt(context, made, error));
    ig_parts_take(context, part);
    return make_apart(context, error);
}

/* The instance is in no cache until it is captured, so that no run captures it at the same time. */
static enum ingot_status prepare_apart(struct ig_context *context, struct ingot_error *error) {
    bool known = false;
    IG_TRY(ig_shape_read_symbols(context->plan, context->tensors, context->elements, context->symbols, error));
    ig_batch_round(context);
    IG_TRY(make_parts_apart(context, error));
    if (!context->current) return INGOT_OK;
    enum ingot_status status = ig_batch_check_inputs(context, context->current, error);
    if (status == INGOT_OK) status = bind(context, &known, error);
    if (status != INGOT_OK)
        ig_instance_destroy(context->current, &context->env);
    else if (known)
        ig_preparer_add(context->preparer, context->current);
    else
        status = adopt(context, context->current, error);
    return status;
}

/* Only addresses of GPU memory matter: they decide whether kernels use it in place. */
static void fill_in(const struct ig_context *context, struct ingot_tensor *tensors) {
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (!tensors[i].data && tensors[i].memory == INGOT_CUDA) tensors[i].data = context->env.dummy;
    }
}

/* With these shapes in the place of the bound inputs. */
static enum ingot_status prepare(struct ig_context *context, struct ingot_tensor *tensors, bool apart,
                                 struct ingot_error *error) {
    struct ingot_tensor *bound = context->tensors;
    context->tensors = tensors;
    context->current = NULL;
    context->inputs_changed = false; /* whether inputs are bound does not matter */
    enum ingot_status status = apart ? prepare_apart(context, error) : prepare_here(context, error);
    context->tensors = bound;
    context->current = NULL;
    context->inputs_changed = true;
    return status;
}

enum ingot_status ig_context_prepare_shapes(struct ig_context *context, const struct ingot_tensor *inputs,
                                            size_t n_inputs, bool background, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    size_t bytes = (n_inputs + 1) * sizeof *inputs;
    IG_TRY(check(context, inputs, n_inputs, error));
    IG_TRY(ig_context_wait(context, error));
    struct ingot_tensor *tensors = ig_allocate(context->env.allocator, bytes, _Alignof(struct ingot_tensor));
    if (!tensors) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for preparing shapes");
    for (size_t i = 0; i < n_inputs; i++)
        tensors[i] = inputs[i];
    fill_in(context, tensors);
    ig_context_drop_results(context); /* what follows decides anew where results lie */
    enum ingot_status status = device->api->enter ? device->api->enter(device, error) : INGOT_OK;
    if (status == INGOT_OK) {
        status = ig_context_adopt(context, error);
        if (status == INGOT_OK) status = prepare(context, tensors, background, error);
        if (device->api->enter) device->api->leave(device);
    }
    ig_release(context->env.allocator, tensors, bytes);
    return status;
}

bool ig_context_has_preparer(const struct ig_context *context) {
    return context->preparer;
}

enum ingot_status ig_context_use_preparer(struct ig_context *context, struct ig_device *device,
                                          struct ingot_error *error) {
    return ig_preparer_create(&context->env, device, &context->preparer, error);
}

enum ingot_status ig_context_prepared(struct ig_context *context, struct ingot_error *error) {
    if (!context->preparer) return INGOT_OK;
    enum ingot_status status = ig_preparer_wait(context->preparer, error);
    enum ingot_status adopted = ig_context_adopt(context, status == INGOT_OK ? error : NULL);
    return status == INGOT_OK ? adopted : status;
}
