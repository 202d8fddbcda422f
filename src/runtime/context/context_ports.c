/* Decides where a run's inputs and results lie, and enqueues their copies; see context.h. */
#include "runtime/context/context.h"

#include "base/memory.h"

/* Of the memory that kernels read; the caller's may be less. */
static size_t input_bytes(const struct ig_context *context, uint32_t i) {
    return context->current->frame->inputs[i].bytes;
}

static size_t given_bytes(const struct ig_context *context, uint32_t i) {
    return ig_batch_bytes(context, ig_context_input_tensor(context, i), input_bytes(context, i));
}

size_t ig_context_output_bytes(const struct ig_context *context, uint32_t i) {
    return ig_batch_bytes(context, ig_context_output_tensor(context, i), context->current->frame->outputs[i].bytes);
}

static enum ingot_status check_given(const struct ig_context *context, uint32_t i, struct ingot_error *error) {
    const struct ig_output *output = &context->outputs[i];
    size_t bytes = ig_context_output_bytes(context, i);
    if (!output->given || output->given_size >= bytes) return INGOT_OK;
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "output '%s' has %zu bytes, the memory given for it %zu",
                  ig_context_tensor_name(context, ig_context_output_tensor(context, i)), bytes, output->given_size);
}

/* Gives out the next place in a block. */
static enum ingot_status take(size_t *end, size_t bytes, size_t *out_place, struct ingot_error *error) {
    size_t rounded;
    *out_place = *end;
    if (ig_size_add(bytes ? bytes : 1, IG_LINE - 1, &rounded) && ig_size_add(*end, rounded / IG_LINE * IG_LINE, end))
        return INGOT_OK;
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "the inputs and outputs of these shapes exceed the address space");
}

/* ---- Devices that use host memory -------------------------------------------------------------------------------- */

static enum ingot_status bind_host(struct ig_context *context, struct ingot_error *error) {
    struct ig_frame *frame = context->current->frame;
    struct ig_device *device = context->env.device;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        void *data;
        IG_TRY(ig_batch_pad_input(context, i, &data, error));
        ig_frame_bind(device, frame, &frame->inputs[i], data);
    }
    size_t end = 0;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        IG_TRY(check_given(context, i, error));
        size_t bytes = frame->outputs[i].bytes, all = ig_context_output_bytes(context, i); /* of several parts */
        if (!context->outputs[i].given)
            IG_TRY(take(&end, bytes > all ? bytes : all, &context->outputs[i].place, error));
    }
    IG_TRY(ig_context_choose_results(context, end, 0, error));
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        void *data = ig_context_result(context, i);
        if (context->outputs[i].given) IG_TRY(ig_batch_pad_output(context, i, &data, error));
        ig_frame_bind(device, frame, &frame->outputs[i], data);
    }
    return INGOT_OK;
}

/* ---- Devices with memory of their own: offsets in the transfer blocks -------------------------------------------- */

static bool kernels_can_use(enum ingot_memory memory, const void *address) {
    return memory == INGOT_CUDA && address && (uintptr_t)address % IG_KERNEL_ALIGNMENT == 0;
}

/* Memory of the caller's without the rows that are added to a batch cannot be used in place. */
static bool reads_in_place(const struct ig_context *context, uint32_t i) {
    const struct ingot_tensor *tensor = &context->tensors[i];
    return kernels_can_use(tensor->memory, tensor->data) && given_bytes(context, i) == input_bytes(context, i);
}

static bool writes_in_place(const struct ig_context *context, uint32_t i) {
    const struct ig_output *output = &context->outputs[i];
    return kernels_can_use(output->memory, output->given) &&
           output->given_size >= context->current->frame->outputs[i].bytes;
}

static bool is_timed(const struct ig_context *context) {
    return context->marks[0] || context->times;
}

/* The caller's pinned memory, copied while the last run is computed if possible. */
static bool is_direct(const struct ig_context *context, uint32_t i) {
    return context->tensors[i].memory == INGOT_PINNED && input_bytes(context, i) >= IG_TRANSFER_LARGE &&
           !is_timed(context);
}

/* Inputs that the host stages come first, so that they are contiguous; then those that the device copies to the
 * block. */
static enum ingot_status place_inputs(struct ig_context *context, struct ingot_error *error) {
    struct ig_transfer_sizes *sizes = &context->sizes;
    sizes->inputs = 0;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        context->inputs[i].place = IG_NO_PLACE;
        if (context->tensors[i].memory == INGOT_HOST && input_bytes(context, i))
            IG_TRY(take(&sizes->inputs, input_bytes(context, i), &context->inputs[i].place, error));
    }
    sizes->pinned_inputs = sizes->inputs;
    sizes->inputs_at_once = sizes->inputs > 0 && sizes->inputs <= IG_TRANSFER_SMALL;
    /* Where copies are timed, they must be on the run's stream. */
    sizes->inputs_beside = sizes->inputs >= IG_TRANSFER_LARGE && !is_timed(context);
    if (sizes->inputs_beside) sizes->inputs = 0; /* they have a block of their own */
    sizes->direct_inputs = 0;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (context->tensors[i].memory == INGOT_HOST || reads_in_place(context, i)) continue;
        size_t *block = is_direct(context, i) ? &sizes->direct_inputs : &sizes->inputs;
        if (input_bytes(context, i)) IG_TRY(take(block, input_bytes(context, i), &context->inputs[i].place, error));
    }
    return INGOT_OK;
}

/* Is it copied to the pinned block of results? */
static bool is_fetched(const struct ig_output *output) {
    return output->memory == INGOT_HOST || (output->memory == INGOT_PINNED && !output->given);
}

/* Is it copied straight to the caller's pinned memory? */
static bool is_brought(const struct ig_output *output) {
    return output->memory == INGOT_PINNED && output->given;
}

/* Results for the host first, then those that stay on the device. */
static enum ingot_status place_outputs(struct ig_context *context, struct ingot_error *error) {
    const struct ig_frame *frame = context->current->frame;
    struct ig_transfer_sizes *sizes = &context->sizes;
    bool copied = false;
    size_t end = 0;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        IG_TRY(check_given(context, i, error));
        context->outputs[i].place = IG_NO_PLACE;
        if (!is_fetched(&context->outputs[i])) continue;
        IG_TRY(take(&end, frame->outputs[i].bytes, &context->outputs[i].place, error));
        copied |= context->outputs[i].given != NULL;
    }
    sizes->pinned_outputs = end;
    sizes->outputs_in_parts = copied && end >= IG_TRANSFER_LARGE;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        struct ig_output *output = &context->outputs[i];
        if (is_brought(output)) IG_TRY(take(&end, frame->outputs[i].bytes, &output->place, error));
    }
    sizes->host_outputs = end;
    sizes->outputs_beside = end >= IG_TRANSFER_LARGE && !is_timed(context);
    sizes->outputs = sizes->outputs_beside ? 0 : end;
    sizes->kept_outputs = 0;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        struct ig_output *output = &context->outputs[i];
        if (output->memory != INGOT_CUDA || writes_in_place(context, i)) continue;
        size_t *block = output->given ? &sizes->outputs : &sizes->kept_outputs;
        IG_TRY(take(block, frame->outputs[i].bytes, &output->place, error));
    }
    return INGOT_OK;
}

static void *address_of_input(const struct ig_context *context, uint32_t i) {
    const struct ig_transfer *transfer = &context->transfer;
    size_t place = context->inputs[i].place;
    if (place == IG_NO_PLACE) return input_bytes(context, i) ? context->tensors[i].data : context->env.dummy;
    if (context->tensors[i].memory == INGOT_HOST) return ig_transfer_input(transfer, &context->sizes, place);
    return is_direct(context, i) ? ig_transfer_direct(transfer, place) : transfer->inputs + place;
}

static void *address_of_output(const struct ig_context *context, uint32_t i) {
    const struct ig_output *output = &context->outputs[i];
    if (output->place == IG_NO_PLACE) return output->given;
    if (output->memory == INGOT_CUDA && !output->given) return context->results->device + output->place;
    return output->memory == INGOT_CUDA ? context->transfer.outputs + output->place
                                        : ig_transfer_output(&context->transfer, &context->sizes, output->place);
}

/* Results in flight have to arrive first, if inputs are read from where they are written to. */
static bool reads_results(const struct ig_context *context) {
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        const char *from = context->tensors[i].data;
        for (unsigned k = 0; is_direct(context, i) && k < context->n_written; k++) {
            const struct ig_range *range = &context->written[k];
            if (from < range->end && range->begin < from + given_bytes(context, i)) return true;
        }
    }
    return false;
}

/* On the caller's stream, inputs may be written by work that comes before. */
static bool may_come_ahead(const struct ig_context *context, const struct ig_stream *stream) {
    return context->sizes.direct_inputs > 0 && stream == context->env.stream && context->pending[context->turn] &&
           !reads_results(context);
}

static enum ingot_status bind_separate(struct ig_context *context, struct ig_stream *stream,
                                       struct ingot_error *error) {
    struct ig_frame *frame = context->current->frame;
    IG_TRY(place_inputs(context, error));
    IG_TRY(place_outputs(context, error));
    if (!ig_transfer_has_room(&context->transfer, &context->sizes)) {
        IG_TRY(ig_context_settle(context, error));
        context->batch.cleared = false;
        IG_TRY(ig_transfer_reserve(&context->transfer, &context->sizes, error));
    }
    IG_TRY(ig_batch_clear(context, error));
    IG_TRY(ig_context_choose_results(context, context->sizes.pinned_outputs, context->sizes.kept_outputs, error));
    if (context->sizes.pinned_outputs > context->transfer.cleared) {
        IG_TRY(ig_context_settle(context, error));
        IG_TRY(ig_transfer_clear(&context->transfer, context->env.stream, error));
    }
    /* A stream of their own costs the host several calls, which pay only if the caller does not wait for every run
     * or every other run. */
    context->results_beside = context->sizes.outputs_beside && context->pending[0] && context->pending[1];
    context->inputs_ahead = may_come_ahead(context, stream);
    bool twice = context->sizes.pinned_inputs > 0 || context->inputs_ahead || context->results_beside;
    ig_transfer_choose_half(&context->transfer, twice && context->pending[context->turn]);
    for (uint32_t i = 0; i < context->n_inputs; i++)
        ig_frame_bind(context->env.device, frame, &frame->inputs[i], address_of_input(context, i));
    for (uint32_t i = 0; i < context->n_outputs; i++)
        ig_frame_bind(context->env.device, frame, &frame->outputs[i], address_of_output(context, i));
    return INGOT_OK;
}

enum ingot_status ig_context_bind_ports(struct ig_context *context, struct ig_stream *stream,
                                        struct ingot_error *error) {
    IG_TRY(ig_context_make_fresh(context, error));
    return context->env.device->host_memory ? bind_host(context, error) : bind_separate(context, stream, error);
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

static struct ig_frame_copy input_copy(const struct ig_context *context, uint32_t i) {
    return (struct ig_frame_copy){context->tensors[i].data, address_of_input(context, i), given_bytes(context, i)};
}

static bool is_copied(const struct ig_context *context, uint32_t i) {
    return context->inputs[i].place != IG_NO_PLACE && context->tensors[i].memory != INGOT_HOST &&
           given_bytes(context, i) > 0;
}

/* The input copies that the device can make by itself. Direct ones come first: the list skips them when they come ahead. */
static void find_input_copies(struct ig_context *context) {
    const struct ig_transfer *transfer = &context->transfer;
    const struct ig_transfer_sizes *sizes = &context->sizes;
    struct ig_frame_copies *copies = &context->copies;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (is_copied(context, i) && is_direct(context, i)) copies->at[copies->n_before++] = input_copy(context, i);
    }
    copies->n_ahead = context->inputs_ahead ? copies->n_before : 0;
    if (sizes->inputs_at_once)
        copies->at[copies->n_before++] =
            (struct ig_frame_copy){ig_transfer_pinned(transfer), transfer->inputs, sizes->pinned_inputs};
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        if (is_copied(context, i) && !is_direct(context, i)) copies->at[copies->n_before++] = input_copy(context, i);
    }
}

static void add_output_copies(struct ig_context *context, enum ingot_memory memory) {
    struct ig_frame_copies *copies = &context->copies;
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        const struct ig_output *output = &context->outputs[i];
        size_t bytes = ig_context_output_bytes(context, i);
        if (output->memory != memory || output->place == IG_NO_PLACE || !output->given || !bytes) continue;
        copies->at[copies->n_before + copies->n_behind++] =
            (struct ig_frame_copy){address_of_output(context, i), output->given, bytes};
    }
}

/* Copies to the host come first: the list skips them when results leave on a stream of their own. */
static void find_output_copies(struct ig_context *context) {
    const struct ig_transfer *transfer = &context->transfer;
    const struct ig_transfer_sizes *sizes = &context->sizes;
    struct ig_frame_copies *copies = &context->copies;
    if (sizes->pinned_outputs && !sizes->outputs_in_parts)
        copies->at[copies->n_before + copies->n_behind++] = (struct ig_frame_copy){
            ig_transfer_output(transfer, sizes, 0), transfer->pinned_outputs, sizes->pinned_outputs};
    add_output_copies(context, INGOT_PINNED);
    copies->n_skipped = context->results_beside ? copies->n_behind : 0;
    add_output_copies(context, INGOT_CUDA);
}

enum ingot_status ig_context_bind_copies(struct ig_context *context, struct ingot_error *error) {
    static const struct ig_frame_copies none = {0};
    struct ig_instance *instance = context->current;
    if (context->env.device->host_memory) return INGOT_OK;
    context->copies.n_before = context->copies.n_behind = context->copies.n_skipped = 0;
    find_input_copies(context);
    find_output_copies(context);
    if (!ig_frame_takes_copies(instance->frame)) return INGOT_OK;
    const struct ig_frame_copies *copies =
        is_timed(context) || ig_batch_copies_vary(context) ? &none : &context->copies;
    if (ig_frame_patch_copies(instance->frame, context->env.device, copies)) return INGOT_OK;
    IG_TRY(ig_context_settle(context, error));
    ig_frame_replace_copies(instance->frame, context->env.device, copies);
    ig_instance_forget(instance);
    return INGOT_OK;
}

static enum ingot_status copy_apart(struct ig_context *context, struct ig_stream *stream, uint32_t first,
                                    uint32_t count, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    const struct ig_frame *frame = context->current->frame;
    if (frame->copies.n_before + frame->copies.n_behind > 0) return INGOT_OK; /* they are in the list */
    for (uint32_t i = first; i < first + count; i++) {
        const struct ig_frame_copy *copy = &context->copies.at[i];
        IG_TRY(device->api->copy(device, stream, copy->to, copy->from, copy->bytes, error));
    }
    return INGOT_OK;
}

static enum ingot_status send_from_host(struct ig_context *context, struct ig_stream *stream,
                                        struct ingot_error *error) {
    struct ig_transfer *transfer = &context->transfer;
    struct ig_device *device = context->env.device;
    /* The run before the last has the same turn; once it has ended, only the last run may be in flight. */
    unsigned turn = context->turn;
    if (context->unmarked) IG_TRY(ig_context_settle(context, error)); /* the last one recorded no event */
    if (context->pending[turn]) IG_TRY(device->api->event_sync(device, context->end[turn], error));
    context->pending[turn] = false;
    ig_transfer_begin(transfer);
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        const struct ingot_tensor *tensor = &context->tensors[i];
        size_t place = context->inputs[i].place;
        if (place != IG_NO_PLACE && tensor->memory == INGOT_HOST)
            IG_TRY(ig_transfer_put(transfer, &context->sizes, stream, place, tensor->data, given_bytes(context, i),
                                   error));
    }
    return ig_transfer_end(transfer, &context->sizes, stream, error);
}

/* Direct inputs overwrite those of the run before the last, while the last one is computed. */
static enum ingot_status send_ahead(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_transfer *transfer = &context->transfer;
    struct ig_device *device = context->env.device;
    struct ig_event *after = context->pending[context->turn] ? context->end[context->turn] : NULL;
    if (after && context->unmarked) { /* nor has the run before the last recorded an event, perhaps */
        after = context->end[context->turn ^ 1];
        IG_TRY(device->api->event_record(device, context->env.stream, after, error));
        context->unmarked = false;
    }
    IG_TRY(ig_transfer_begin_direct(transfer, after, error));
    for (uint32_t i = 0; i < context->copies.n_ahead; i++) {
        const struct ig_frame_copy *copy = &context->copies.at[i];
        IG_TRY(ig_transfer_send_direct(transfer, copy->to, copy->from, copy->bytes, error));
    }
    return ig_transfer_end_direct(transfer, stream, error);
}

/* Results of earlier runs may be leaving. This run waits for those in the half that it will overwrite; for all of
 * them if an input is the memory that they are written to, or if this run's end event must cover them too. */
static enum ingot_status follow_results(struct ig_context *context, struct ig_stream *stream,
                                        struct ingot_error *error) {
    bool all = !context->results_beside;
    for (uint32_t i = 0; i < context->n_inputs; i++) {
        const struct ingot_tensor *tensor = &context->tensors[i];
        all |= tensor->memory == INGOT_PINNED &&
               ig_transfer_leaves_to(&context->transfer, tensor->data, given_bytes(context, i));
    }
    return ig_transfer_follow(&context->transfer, stream, all, error);
}

enum ingot_status ig_context_send_inputs(struct ig_context *context, struct ig_stream *stream,
                                         struct ingot_error *error) {
    IG_TRY(follow_results(context, stream, error));
    const void *native = ig_context_native(context, stream);
    if (context->results) IG_TRY(ig_results_follow_readers(context->results, stream, native, error));
    if (context->inputs_ahead) IG_TRY(send_ahead(context, stream, error));
    if (context->sizes.pinned_inputs > 0) IG_TRY(send_from_host(context, stream, error));
    const struct ig_frame_copies *copies = &context->copies;
    return copy_apart(context, stream, copies->n_ahead, copies->n_before - copies->n_ahead, error);
}

static enum ingot_status send_results(struct ig_context *context, struct ig_stream *stream, struct ingot_error *error) {
    struct ig_transfer *transfer = &context->transfer;
    IG_TRY(ig_transfer_begin_leaving(transfer, stream, error));
    if (context->sizes.outputs_in_parts)
        IG_TRY(ig_transfer_fetch_parts(transfer, &context->sizes, transfer->away, error));
    for (uint32_t i = 0; i < context->copies.n_skipped; i++) {
        const struct ig_frame_copy *copy = &context->copies.at[context->copies.n_before + i];
        IG_TRY(ig_transfer_leave(transfer, copy->to, copy->from, copy->bytes, error));
    }
    return ig_transfer_end_leaving(transfer, error);
}

static void note_range(struct ig_context *context, const char *begin, size_t bytes) {
    struct ig_range *last = &context->written[IG_RANGES - 1];
    for (unsigned i = 0; i < context->n_written; i++) {
        if (context->written[i].begin <= begin && begin + bytes <= context->written[i].end) return;
    }
    if (context->n_written < IG_RANGES) {
        context->written[context->n_written++] = (struct ig_range){begin, begin + bytes};
        return;
    }
    if (begin < last->begin) last->begin = begin;
    if (begin + bytes > last->end) last->end = begin + bytes;
}

static void note_written(struct ig_context *context) {
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        if (is_brought(&context->outputs[i]))
            note_range(context, context->outputs[i].given, ig_context_output_bytes(context, i));
    }
    if (context->sizes.pinned_outputs) note_range(context, context->results->host, context->sizes.pinned_outputs);
}

enum ingot_status ig_context_fetch_outputs(struct ig_context *context, struct ig_stream *stream,
                                           struct ingot_error *error) {
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        struct ig_output *output = &context->outputs[i];
        output->deliver_to = is_fetched(output) ? output->given : NULL;
    }
    note_written(context);
    context->transfer.part_bytes = 0;
    /* Copies on this run's stream come first: results on a stream of their own end with the event that ends the run. */
    const struct ig_frame_copies *copies = &context->copies;
    IG_TRY(
        copy_apart(context, stream, copies->n_before + copies->n_skipped, copies->n_behind - copies->n_skipped, error));
    if (context->results_beside) return send_results(context, stream, error);
    return context->sizes.outputs_in_parts ? ig_transfer_fetch_parts(&context->transfer, &context->sizes, stream, error)
                                           : INGOT_OK;
}

enum ingot_status ig_context_deliver(struct ig_context *context, struct ingot_error *error) {
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        struct ig_output *output = &context->outputs[i];
        if (!output->deliver_to) continue;
        IG_TRY(ig_transfer_deliver(&context->transfer, output->place, output->deliver_to, output->bytes, error));
        output->deliver_to = NULL;
    }
    return INGOT_OK;
}

void *ig_context_result(const struct ig_context *context, size_t index) {
    const struct ig_output *output = &context->outputs[index];
    if (output->given) return output->given;
    return (output->memory == INGOT_CUDA ? context->results->device : context->results->host) + output->place;
}
