/* Batches in parts; see parts.h. */
#include "runtime/parts.h"

/* ---- How large? -------------------------------------------------------------------------------------------------- */

/* Bytes that a run of the frame moves: of weights, and of everything else. */
struct traffic {
    double weights, others;
};

static struct traffic traffic_of(const struct ig_context *context, const struct ig_frame *frame) {
    const struct ig_plan_buffer *buffers = &context->plan->buffers[frame->sub->buffers];
    struct traffic t = {0, 0};
    IG_EACH_OPERAND(context->plan, frame, s, k, b) {
        bool weight = buffers[frame->root[b]].kind == IG_PLAN_WEIGHT;
        *(weight ? &t.weights : &t.others) += (double)frame->bytes[b];
    }
    return t;
}

/* The fewest rows that the kernels take. */
static int64_t least_rows(const struct ig_context *context) {
    const struct ig_plan_symbol *symbol = &context->plan->symbols[context->batch.parts_symbol];
    return symbol->lo == symbol->hi ? 1 : symbol->lo;
}

/* The rows whose activations fit the caches, but one for each thread: on less of them, threads mostly wait. */
static int64_t most_rows(const struct ig_context *context, int64_t rows) {
    const struct ig_device *device = context->env.device;
    double fitting = (double)rows * (double)device->cache_bytes / (double)context->current->frame->arena_bytes;
    int64_t most = (int64_t)fitting;
    most = most < (int64_t)device->threads ? (int64_t)device->threads : most;
    most = most < least_rows(context) ? least_rows(context) : most;
    return most < 1 ? 1 : most;
}

/* Of parts of more than half of `most` rows, those that compute the fewest rows twice; of these the largest. */
static int64_t divide(int64_t rows, int64_t most) {
    int64_t best = most, least = INT64_MAX;
    for (int64_t part = most; 2 * part > most && least > rows; part--) {
        int64_t computed = (rows + part - 1) / part * part;
        if (computed >= least) continue;
        least = computed;
        best = part;
    }
    return best;
}

int64_t ig_parts_choose(struct ig_context *context) {
    const struct ig_batch *batch = &context->batch;
    const struct ig_frame *frame = context->current->frame;
    size_t cache = context->env.device->cache_bytes;
    if (batch->parts_symbol == IG_PLAN_NONE || batch->symbol != IG_PLAN_NONE || cache == 0 ||
        frame->arena_bytes <= cache)
        return 0;
    int64_t rows = context->current->slots[batch->parts_symbol], most = most_rows(context, rows);
    if (most >= rows || !ig_frame_is_straight(frame)) return 0;
    int64_t part = divide(rows, most), parts = (rows + part - 1) / part;
    if (part < least_rows(context)) return 0;
    struct traffic t = traffic_of(context, frame);
    return (double)(parts - 1) * t.weights < t.others ? part : 0;
}

void ig_parts_take(struct ig_context *context, int64_t rows) {
    struct ig_batch *batch = &context->batch;
    batch->by = batch->parts_symbol;
    batch->rows = context->symbols[batch->by];
    context->symbols[batch->by] = rows;
}

/* ---- Parts in turn ----------------------------------------------------------------------------------------------- */

int64_t ig_parts_count(const struct ig_context *context) {
    const struct ig_batch *batch = &context->batch;
    if (batch->by == IG_PLAN_NONE) return 1;
    int64_t part = context->current->slots[batch->by];
    return batch->rows > part ? (batch->rows + part - 1) / part : 1;
}

static void bind(struct ig_context *context, struct ig_frame_port *port, const struct ig_plan_tensor *tensor,
                 void *address, int64_t row) {
    const struct ig_batch *batch = &context->batch;
    if (!ig_batch_has_rows(batch, tensor)) return;
    size_t each = port->bytes / (size_t)context->current->slots[batch->by];
    ig_frame_bind(context->env.device, context->current->frame, port, (char *)address + each * (size_t)row);
}

void ig_parts_bind(struct ig_context *context, int64_t part) {
    const struct ig_batch *batch = &context->batch;
    const struct ig_frame *frame = context->current->frame;
    int64_t each = context->current->slots[batch->by], row = part * each;
    if (row > batch->rows - each) row = batch->rows - each;
    for (uint32_t i = 0; i < context->n_inputs; i++)
        bind(context, &frame->inputs[i], ig_context_input_tensor(context, i), context->tensors[i].data, row);
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        void *to = context->outputs[i].given ? context->outputs[i].given : ig_context_result(context, i);
        bind(context, &frame->outputs[i], ig_context_output_tensor(context, i), to, row);
    }
}
