/*
 * Runs; see runtime.h. A run reads the symbols, looks the plan instance up (or makes it, the first time), ensures
 * memory, patches changed addresses, and launches. Only making an instance and growing memory allocate; both first wait
 * for the previous run, whose memory and lists they may free.
 */
#include "runtime/context/context.h"
#include "runtime/frame/collective.h"

#include "base/memory.h"
#include "dist/dist.h"
#include "runtime/parts.h"

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */

/* Copies elements that are symbols from device memory to the host. */
static enum ingot_status fetch_elements(struct ig_context *context, struct ig_stream *stream,
                                        struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    bool any = false;
    for (uint32_t i = 0; i < context->plan->n_symbols; i++) {
        const struct ig_plan_symbol *symbol = &context->plan->symbols[i];
        const struct ingot_tensor *tensor = &context->tensors[symbol->input];
        if (symbol->axis != IG_PLAN_NONE || tensor->memory != INGOT_CUDA) continue;
        if ((int64_t)symbol->element >= ingot_tensor_elements(tensor)) continue; /* read_symbols refuses it */
        size_t size = ingot_dtype_size(tensor->dtype);
        if (context->in_graph)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "while a CUDA graph is captured, no size can be read from input '%s' in GPU memory",
                          ig_context_tensor_name(context, ig_context_input_tensor(context, symbol->input)));
        if (!any) IG_TRY(ig_context_await_ranks(context, error)); /* the host is about to wait for the stream */
        IG_TRY(device->api->copy(device, stream, &context->elements[i],
                                 (const char *)tensor->data + symbol->element * size, size, error));
        any = true;
    }
    return any ? device->api->stream_wait(device, stream, error) : INGOT_OK;
}

static enum ingot_status read_symbols(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    for (uint32_t i = 0; context->inputs_changed && i < context->n_inputs; i++) {
        if (!context->inputs[i].bound)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "input '%s' is not set",
                          ig_context_tensor_name(context, ig_context_input_tensor(context, i)));
    }
    if (!context->env.device->host_memory) IG_TRY(fetch_elements(context, stream, error));
    IG_TRY(ig_shape_read_symbols(context->plan, context->tensors, context->elements, context->symbols, error));
    ig_batch_round(context);
    return INGOT_OK;
}

/* ---- Instances and memory ---------------------------------------------------------------------------------------- */

static enum ingot_status make_instance(struct ig_context *context, struct ig_instance **out_instance,
                                       struct ingot_error *error) {
    const struct ig_frame_env *env = &context->env;
    struct ig_instance *instance;
    context->current = NULL; /* the cache may evict it */
    IG_TRY(ig_context_settle(context, error));
    IG_TRY(ig_instance_create(env, context->symbols, &instance, error));
    enum ingot_status status = ig_batch_check_inputs(context, instance, error);
    if (status != INGOT_OK) {
        ig_instance_destroy(instance, env);
        return status;
    }
    ig_instance_cache_add(&context->cache, instance, context->plan->n_symbols, env);
    *out_instance = instance;
    return INGOT_OK;
}

/* Makes the instance of the symbols current. */
static enum ingot_status find_instance(struct ig_context *context, struct ingot_error *error) {
    struct ig_instance *instance = ig_instance_cache_find(&context->cache, context->symbols, context->plan->n_symbols);
    if (!instance)
        IG_TRY(make_instance(context, &instance, error));
    else if (context->inputs_changed || instance != context->current)
        IG_TRY(ig_batch_check_inputs(context, instance, error));
    context->current = instance;
    return INGOT_OK;
}

enum ingot_status ig_context_prepare(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    IG_TRY(read_symbols(context, stream, error));
    IG_TRY(find_instance(context, error));
    if (context->current->part < 0) context->current->part = ig_parts_choose(context);
    if (context->current->part > 0) {
        ig_parts_take(context, context->current->part);
        IG_TRY(find_instance(context, error));
    }
    context->inputs_changed = false;
    return INGOT_OK;
}

static enum ingot_status say_shapes(const struct ig_context *context, enum ingot_status status,
                                    struct ingot_error *error) {
    char shapes[IG_SHAPE_DESCRIPTION_SIZE];
    if (status == INGOT_OUT_OF_MEMORY)
        ig_error_prefix(error, "activations with %s",
                        ig_shape_describe(context->plan, context->current->slots, shapes, sizeof shapes));
    return status;
}

/* Points the current instance to its memory, unless it is there already. */
static void place(struct ig_context *context, char *base) {
    struct ig_frame *frame = context->current->frame;
    if (frame->base != base || frame->weights != context->env.weights->number)
        ig_frame_place(&context->env, frame, base);
}

enum ingot_status ig_context_make_room(struct ig_context *context, struct ingot_error *error) {
    const struct ig_frame_env *env = &context->env;
    const struct ig_instance *instance = context->current;
    char *base = env->dummy;
    IG_TRY(env->device->api->reserve_scratch(env->device, env->stream, instance->scratch, error));
    if (instance->captured) return INGOT_OK; /* placed again when it runs, if the memory has moved */
    if (instance->frame->arena_bytes) {
        enum ingot_status status =
            ig_activations_reserve(context->activations, instance->frame->arena_bytes, &base, error);
        IG_TRY(say_shapes(context, status, error));
    }
    place(context, base);
    return INGOT_OK;
}

enum ingot_status ig_context_capture(struct ig_context *context, struct ingot_error *error) {
    if (context->current->captured) return INGOT_OK;
    IG_TRY(ig_instance_capture(context->current, &context->env, error));
    context->cache.info.captures++;
    ig_instance_cache_trim(&context->cache, &context->env);
    return INGOT_OK;
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

static struct ig_adopted *evict_stream(struct ig_context *context) {
    struct ig_device *device = context->env.device;
    struct ig_adopted *slot = &context->adopted[context->next_adopted++ % IG_ADOPTED_STREAMS];
    if (context->last == slot->stream) context->last = NULL;
    device->api->stream_destroy(device, slot->stream);
    *slot = (struct ig_adopted){0};
    return slot;
}

/* The caller's stream; the context's own if `native` is NULL. */
static enum ingot_status find_stream(struct ig_context *context, void *native, struct ig_stream **out_stream,
                                     struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    struct ig_adopted *slot = NULL;
    *out_stream = context->env.stream;
    if (!native) return INGOT_OK;
    for (int i = IG_ADOPTED_STREAMS - 1; i >= 0; i--) {
        struct ig_adopted *adopted = &context->adopted[i];
        *out_stream = adopted->stream;
        if (adopted->native == native) return INGOT_OK;
        if (!adopted->native) slot = adopted;
    }
    if (!slot) slot = evict_stream(context);
    IG_TRY(device->api->stream_adopt(device, native, &slot->stream, error));
    slot->native = native;
    *out_stream = slot->stream;
    return INGOT_OK;
}

void ig_context_let_streams_go(struct ig_context *context) {
    struct ig_device *device = context->env.device;
    for (int i = 0; i < IG_ADOPTED_STREAMS; i++) {
        if (context->adopted[i].native) device->api->stream_let_go(device, context->adopted[i].stream);
        context->adopted[i].native = NULL;
    }
    ig_results_pool_let_go(context->pool);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static enum ingot_status mark(struct ig_context *context, struct ig_stream *stream, int which,
                              struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    return context->marks[which] ? device->api->event_record(device, stream, context->marks[which], error) : INGOT_OK;
}

static enum ingot_status walk(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_walk walk = {.plan = context->plan,
                           .slots = context->current->slots,
                           .device = context->env.device,
                           .stream = stream,
                           .scalars = context->scalars,
                           .times = context->times,
                           .marks = context->step_marks,
                           .stop = &context->stop};
    enum ingot_status status = ig_frame_run(&walk, context->current->frame, error);
    if (!context->env.device->host_memory && status != INGOT_CANCELLED) return status;
    /* Where the device skipped steps, a later one may have failed on what it found. */
    enum ingot_status stopped = ig_context_refuse_stopped(context, error);
    return stopped != INGOT_OK ? stopped : status;
}

/* A failure of one rank is the other ranks' too, who wait for it. */
static enum ingot_status walk_together(struct ig_context *context, struct ig_stream *stream,
                                       struct ingot_error *error) {
    struct ig_group *group = context->env.group;
    struct ingot_error own;
    if (!group) return walk(context, stream, error);
    enum ingot_status status = walk(context, stream, &own);
    if (status == INGOT_OK) return ig_group_failure(group, error);
    ig_group_fail(group, status, own.message);
    return IG_ERR(error, status, "%s", own.message);
}

void *ig_context_native(const struct ig_context *context, const struct ig_stream *stream) {
    for (int i = 0; i < IG_ADOPTED_STREAMS; i++) {
        const struct ig_adopted *adopted = &context->adopted[i];
        if (adopted->native && adopted->stream == stream) return adopted->native;
    }
    return NULL;
}

/* What the device orders anyway: the caller's stream may be adopted by several contexts. */
static const void *order_of(const struct ig_context *context, const struct ig_stream *stream) {
    const void *native = ig_context_native(context, stream);
    return native ? native : stream;
}

static enum ingot_status walk_parts(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    int64_t count = ig_parts_count(context);
    IG_TRY(walk_together(context, stream, error));
    for (int64_t part = 1; part < count; part++) {
        ig_parts_bind(context, part);
        IG_TRY(walk(context, stream, error));
    }
    return INGOT_OK;
}

/* Runs the steps while the activations are this run's alone. */
static enum ingot_status compute(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_frame *frame = context->current->frame;
    if (frame->arena_bytes == 0) {
        place(context, frame->base);
        return walk_parts(context, stream, error);
    }
    const struct ig_execution execution = {context, context->env.device, stream, order_of(context, stream)};
    char *base = NULL;
    enum ingot_status status = ig_activations_begin(context->activations, &execution, frame->arena_bytes, &base, error);
    IG_TRY(say_shapes(context, status, error));
    place(context, base);
    status = walk_parts(context, stream, error);
    enum ingot_status ended = ig_activations_end(context->activations, &execution, status == INGOT_OK ? error : NULL);
    return status == INGOT_OK ? ended : status;
}

/* ---- Runs in a caller's graph ------------------------------------------------------------------------------------ */

/* Refuses runs that cannot be part of a graph that the caller captures. */
static enum ingot_status check_graph(const struct ig_context *context, struct ingot_error *error) {
    if (atomic_load(&context->stop.run) > 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "a run that becomes part of a CUDA graph must be its context's first: use another context");
    if (ig_context_is_joint(context))
        return IG_ERR(error, INGOT_UNSUPPORTED, "a run of several ranks cannot become part of a CUDA graph");
    if (context->shares_activations || context->times || context->marks[IG_MARK_BEGIN])
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "a run that becomes part of a CUDA graph has neither a shared arena nor a profile nor times");
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        if (context->outputs[i].memory != INGOT_CUDA)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "output '%s' of a run that becomes part of a CUDA graph must be in GPU memory",
                          ig_context_tensor_name(context, ig_context_output_tensor(context, i)));
    }
    return INGOT_OK;
}

/* Once the plan is known, and where its inputs come from. */
static enum ingot_status check_plan(const struct ig_context *context, struct ingot_error *error) {
    if (!ig_frame_is_straight(context->current->frame))
        return IG_ERR(error, INGOT_UNSUPPORTED, "a run with control flow cannot become part of a CUDA graph");
    if (context->sizes.inputs_beside) /* staged on a stream that is not captured */
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "a run that becomes part of a CUDA graph has less than %zu bytes of inputs in host memory: pin "
                      "them, or copy them to GPU memory",
                      IG_TRANSFER_LARGE);
    return INGOT_OK;
}

/* No graph has a run of this context, and it has no use for the stream. */
static enum ingot_status refuse_graph(struct ig_context *context, enum ingot_status status) {
    context->in_graph = false;
    if (!context->under_way) ig_context_let_streams_go(context);
    return status;
}

/* Orders `stream` after the context's last run, which was on another stream. */
static enum ingot_status follow(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    struct ig_event *end = context->end[context->turn];
    if (context->unmarked) IG_TRY(device->api->event_record(device, context->env.stream, end, error));
    context->unmarked = false;
    return device->api->event_wait(device, stream, end, error);
}

/* Recording an event costs a driver call. It can be left out on the context's own stream, which can be waited for as
 * a whole, unless this run has double-buffered inputs: a later run that reuses their half waits for this one alone; or unless it is
 * several ranks', whose ends are asked for. */
static enum ingot_status mark_end(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    unsigned turn = context->turn;
    bool beside = context->results_beside; /* their copies end with an event already */
    bool buffered = context->sizes.pinned_inputs > 0 || context->sizes.direct_inputs > 0;
    bool covers = context->unmarked;
    context->pending[turn] = true;
    context->unmarked = !beside && stream == context->env.stream && !buffered && !ig_context_is_joint(context);
    context->end[turn] = beside ? context->transfer.left[context->transfer.half] : context->done[turn];
    if (covers && !context->unmarked) context->end[turn ^ 1] = context->end[turn];
    return beside || context->unmarked ? INGOT_OK
                                       : device->api->event_record(device, stream, context->end[turn], error);
}

/* A run with transfers, ordered after the context's last run even if that was on another stream. */
static enum ingot_status walk_separate(struct ig_context *context, struct ig_stream *stream,
                                       struct ingot_error *error) {
    if (context->last != stream && !context->in_graph) IG_TRY(follow(context, stream, error));
    context->last = stream;
    context->turn ^= 1;
    IG_TRY(mark(context, stream, IG_MARK_BEGIN, error));
    IG_TRY(ig_context_send_inputs(context, stream, error));
    IG_TRY(mark(context, stream, IG_MARK_COMPUTE, error));
    IG_TRY(compute(context, stream, error));
    IG_TRY(mark(context, stream, IG_MARK_OUTPUT, error));
    IG_TRY(ig_context_fetch_outputs(context, stream, error));
    IG_TRY(mark(context, stream, IG_MARK_END, error));
    if (context->in_graph) return INGOT_OK;
    IG_TRY(mark_end(context, stream, error));
    ig_context_note_joint(context);
    return INGOT_OK;
}

/* The first run of an instance enqueues its work item by item, and its list is made ready while the device computes; or
 * before, if control flow may launch lists many times. */
static enum ingot_status run_current(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_instance *instance = context->current;
    struct ig_device *device = context->env.device;
    if (context->in_graph) return walk_separate(context, stream, error);
    const bool may_overlap = ig_context_may_overlap(context);
    if (!ig_frame_is_straight(instance->frame)) IG_TRY(ig_instance_make_ready(instance, device, stream, error));
    IG_TRY(device->host_memory ? compute(context, stream, error) : walk_separate(context, stream, error));
    if (!may_overlap) IG_TRY(ig_context_await_ranks(context, error));
    return ig_instance_make_ready(instance, device, stream, error);
}

/* What was prepared before the ranks knew which way is faster is made anew. */
static enum ingot_status settle_ways(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_instance *instance = context->current;
    bool stale = false;
    if (!ig_context_is_joint(context)) return INGOT_OK;
    IG_TRY(ig_frame_settle_ways(&context->env, stream, instance->frame, &stale, error));
    if (!stale) return INGOT_OK;
    context->current = NULL;
    IG_TRY(ig_context_settle(context, error));
    ig_instance_cache_drop(&context->cache, instance, &context->env);
    return ig_context_prepare(context, stream, error);
}

static enum ingot_status begin_run(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    IG_TRY(ig_context_begin_joint(context, error));
    IG_TRY(ig_context_prepare(context, stream, error));
    if (!ig_context_may_overlap(context)) IG_TRY(ig_context_await_ranks(context, error));
    IG_TRY(settle_ways(context, stream, error));
    IG_TRY(ig_context_make_room(context, error));
    IG_TRY(ig_context_bind_ports(context, stream, error));
    if (context->in_graph) IG_TRY(check_plan(context, error));
    IG_TRY(ig_context_bind_copies(context, error));
    bool captured = !context->current->captured;
    IG_TRY(ig_context_capture(context, error));
    ig_batch_count(context, captured);
    for (uint32_t i = 0; i < context->n_outputs; i++)
        context->outputs[i].bytes = ig_context_output_bytes(context, i);
    struct ig_device *device = context->env.device;
    enum ingot_status status = run_current(context, stream, error);
    if (status == INGOT_OK && device->host_memory) ig_batch_deliver(context);
    if (status == INGOT_OK || context->in_graph) return status;
    /* Work enqueued before the failure, and the run before, must end before their memory is used again. */
    struct ingot_error ignored;
    (void)ig_context_settle(context, &ignored);
    (void)device->api->stream_wait(device, stream, &ignored);
    ig_transfer_settle(&context->transfer);
    ig_context_forget_ranks(context);
    context->under_way = false;
    return status;
}

/* Only runs that compute within the call can be stopped in time. */
static void begin_number(struct ig_context *context) {
    bool limited = context->env.device->host_memory && context->time_limit > 0;
    context->stop.deadline = limited ? ig_clock_after(ig_clock(), context->time_limit) : 0;
    atomic_fetch_add(&context->stop.run, 1);
}

static enum ingot_status enqueue(struct ig_context *context, void *native, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    struct ig_stream *stream;
    if (context->in_graph)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "the context's run is part of a CUDA graph: other runs need another context");
    IG_TRY(find_stream(context, native, &stream, error));
    bool in_graph = native && device->api->stream_is_captured && device->api->stream_is_captured(device, stream);
    enum ingot_status status = in_graph ? check_graph(context, error) : INGOT_OK;
    if (status != INGOT_OK) return refuse_graph(context, status);
    context->in_graph = in_graph;
    ig_context_drop_results(context);
    begin_number(context);
    context->timed = context->dropped = false;
    IG_TRY(ig_context_adopt(context, error));
    status = begin_run(context, stream, error);
    if (status != INGOT_OK) return in_graph ? refuse_graph(context, status) : status;
    for (uint32_t i = 0; i < context->n_outputs; i++)
        context->outputs[i].ready = true;
    context->under_way = !in_graph;
    if (in_graph) ig_context_let_streams_go(context);
    return INGOT_OK;
}

enum ingot_status ig_context_enqueue(struct ig_context *context, void *native, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    /* What the last run made of an input that this one reads arrives there when it is waited for. */
    if (context->updates_host && context->under_way) IG_TRY(ig_context_wait(context, error));
    if (device->api->enter) IG_TRY(device->api->enter(device, error));
    enum ingot_status status = enqueue(context, native, error);
    if (device->api->leave) device->api->leave(device);
    /* While the run before can still end well: what the others are told stops it. */
    if (status != INGOT_OK && ig_context_is_joint(context)) ig_context_finish(context);
    return status;
}

enum ingot_status ig_context_run(struct ig_context *context, struct ingot_error *error) {
    IG_TRY(ig_context_enqueue(context, NULL, error));
    return ig_context_wait(context, error);
}

enum ingot_status ig_context_output(struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error) {
    if (index >= context->n_outputs)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "there is no output %zu: the engine has %u", index,
                      context->n_outputs);
    const struct ig_plan_tensor *tensor = ig_context_output_tensor(context, index);
    const struct ig_output *output = &context->outputs[index];
    if (!output->ready)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' has no result: no run has succeeded since it was set",
                      ig_context_tensor_name(context, tensor));
    if (context->under_way && output->memory != INGOT_CUDA)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' is under way: ingot_context_wait comes first",
                      ig_context_tensor_name(context, tensor));
    if (context->under_way) IG_TRY(ig_context_await_ranks(context, error)); /* nothing that a lost rank has spoilt */
    *out_tensor = (struct ingot_tensor){.dtype = (enum ingot_dtype)tensor->dtype,
                                        .rank = (int)tensor->rank,
                                        .data = ig_context_result(context, index),
                                        .memory = output->memory};
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        out_tensor->dims[axis] = ig_batch_dim(context, tensor->dims[axis]);
    return INGOT_OK;
}
