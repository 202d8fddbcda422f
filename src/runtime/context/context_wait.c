/* Waiting for runs: to the end, for a limited time, or until another thread gives them up; see runtime.h. */
#include "runtime/context/context.h"

static enum ingot_status settle(struct ig_context *context, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    if (device->host_memory || context->unmarked)
        IG_TRY(device->api->stream_wait(device, context->env.stream, error));
    else
        IG_TRY(device->api->event_sync(device, context->end[context->turn], error));
    context->pending[0] = context->pending[1] = context->unmarked = false;
    context->n_written = 0;
    ig_transfer_has_left(&context->transfer);
    return INGOT_OK;
}

enum ingot_status ig_context_settle(struct ig_context *context, struct ingot_error *error) {
    if (!context->under_way) return INGOT_OK;
    enum ingot_status awaited = ig_context_await_ranks(context, error);
    enum ingot_status status = settle(context, awaited == INGOT_OK ? error : NULL);
    return awaited == INGOT_OK ? status : awaited;
}

/* ---- Giving results up ------------------------------------------------------------------------------------------- */

void ig_context_cancel(struct ig_context *context) {
    atomic_store(&context->stop.cancelled, atomic_load(&context->stop.run));
}

/* Was the last run cancelled, and has nobody been told yet? */
static bool is_cancelled(const struct ig_context *context) {
    return !context->dropped && ig_stop_is_cancelled(&context->stop);
}

void ig_context_drop_results(struct ig_context *context) {
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        context->outputs[i].ready = false;
        context->outputs[i].deliver_to = NULL;
    }
}

/* The run may still be in flight: whoever changes what it uses settles first, and the next wait waits for it. */
static enum ingot_status give_up(struct ig_context *context, struct ingot_error *error) {
    ig_context_drop_results(context);
    context->dropped = true;
    return IG_ERR(error, INGOT_CANCELLED, "the run was cancelled");
}

enum ingot_status ig_context_refuse_stopped(const struct ig_context *context, struct ingot_error *error) {
    if (!ig_stop_asked(&context->stop)) return INGOT_OK;
    if (ig_stop_is_cancelled(&context->stop)) return IG_ERR(error, INGOT_CANCELLED, "the run was cancelled");
    return IG_ERR(error, INGOT_TIMEOUT, "the run was stopped after its limit of %g seconds", context->time_limit);
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

/* The event that the last run ends with, recorded now if the run left it out. */
static enum ingot_status find_end(struct ig_context *context, struct ig_event **out_end, struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    *out_end = context->end[context->turn];
    if (!context->unmarked) return INGOT_OK;
    IG_TRY(device->api->event_record(device, context->env.stream, *out_end, error));
    context->unmarked = false;
    return INGOT_OK;
}

/* Returns when the last run is done or was cancelled, or the time has passed. A driver can be asked, or be waited for without limit:
 * this asks. */
static enum ingot_status ask_until(struct ig_context *context, double seconds, bool *out_done,
                                   struct ingot_error *error) {
    struct ig_device *device = context->env.device;
    struct ig_event *end;
    uint64_t begin = ig_clock(), deadline = ig_clock_after(begin, seconds);
    IG_TRY(find_end(context, &end, error));
    for (;;) {
        IG_TRY(ig_context_ask_ranks(context, true, out_done, error));
        if (*out_done) IG_TRY(device->api->event_await(device, end, false, out_done, error));
        if (*out_done || is_cancelled(context) || ig_clock() >= deadline) return INGOT_OK;
        ig_clock_pause(begin);
    }
}

/* ---- Waits ------------------------------------------------------------------------------------------------------- */

/* Results in parts are delivered while later parts are in flight. */
static enum ingot_status receive(struct ig_context *context, struct ingot_error *error) {
    bool early = context->transfer.part_bytes > 0;
    if (early) IG_TRY(ig_context_deliver(context, error));
    IG_TRY(ig_context_settle(context, error));
    return early ? INGOT_OK : ig_context_deliver(context, error);
}

/* `asked`: what the device has answered so far; a failure is in `error`. */
static enum ingot_status finish(struct ig_context *context, enum ingot_status asked, struct ingot_error *error) {
    enum ingot_status status = asked == INGOT_OK ? ig_context_await_ranks(context, error) : asked;
    if (status == INGOT_OK)
        status = receive(context, error);
    else
        (void)ig_context_settle(context, NULL);
    ig_context_forget_ranks(context);
    context->under_way = false;
    ig_context_let_streams_go(context);
    ig_results_pool_settle(context->pool, status == INGOT_OK);
    if (status == INGOT_OK && is_cancelled(context)) status = give_up(context, error);
    if (status != INGOT_OK) ig_context_drop_results(context);
    context->timed = status == INGOT_OK && !context->dropped;
    return status;
}

void ig_context_finish(struct ig_context *context) {
    struct ingot_error ignored;
    if (context->under_way) (void)finish(context, INGOT_OK, &ignored);
}

/* A run that failed while it was enqueued has been waited for. */
static enum ingot_status find_nothing(struct ig_context *context) {
    ig_context_let_streams_go(context);
    return INGOT_OK;
}

enum ingot_status ig_context_wait_for(struct ig_context *context, double seconds, struct ingot_error *error) {
    if (!(seconds >= 0))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a wait for %g seconds: at least 0 wanted", seconds);
    if (!context->under_way) return find_nothing(context);
    if (is_cancelled(context)) return give_up(context, error);
    bool done = true;
    enum ingot_status asked = context->env.device->host_memory ? INGOT_OK : ask_until(context, seconds, &done, error);
    if (asked == INGOT_OK && is_cancelled(context)) return give_up(context, error);
    if (asked == INGOT_OK && !done)
        return IG_ERR(error, INGOT_TIMEOUT, "the run is not done after %g seconds", seconds);
    return finish(context, asked, error);
}

enum ingot_status ig_context_wait(struct ig_context *context, struct ingot_error *error) {
    if (context->time_limit > 0) return ig_context_wait_for(context, context->time_limit, error);
    if (!context->under_way) return find_nothing(context);
    return is_cancelled(context) ? give_up(context, error) : finish(context, INGOT_OK, error);
}

enum ingot_status ig_context_set_time_limit(struct ig_context *context, double seconds, struct ingot_error *error) {
    if (!(seconds >= 0))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a time limit of %g seconds: at least 0 wanted", seconds);
    context->time_limit = seconds;
    return INGOT_OK;
}
