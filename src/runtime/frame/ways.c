/*
 * Collectives between GPUs that windows and NCCL do in about the same time: both are measured on this machine, before the first run
 * that has one. All ranks take part, and after each step that may fail on one of them they hear from each other, so that none waits
 * for a call that another does not make.
 */
#include "runtime/frame/collective.h"

/* Calls behind each other that are measured, behind one that connects the ranks. */
enum { CALLS = 8 };

struct trial {
    const struct ig_frame_env *env;
    struct ig_stream *stream;
    struct ig_frame_step step; /* on memory of its own */
    void *operands[3];         /* source, destination, and the seat of windows */
    size_t bytes[2];
    struct ig_event *begin, *end;
};

static enum ingot_status prepare(struct trial *t, const struct ig_frame_step *step, struct ingot_error *error) {
    struct ig_device *device = t->env->device;
    const struct ig_collective_call *call = &step->collective->call;
    t->step = *step;
    t->step.operands = t->operands;
    t->step.launch.buffers = t->operands;
    t->operands[2] = ig_group_seat(t->env->group);
    ig_collective_bytes(&call->what, call->sizes, ig_group_rank(t->env->group), ig_group_ranks(t->env->group),
                        &t->bytes[0], &t->bytes[1]);
    for (int i = 0; i < 2; i++)
        IG_TRY(device->api->allocate(device, t->bytes[i], &t->operands[i], error));
    IG_TRY(device->api->event_create(device, true, &t->begin, error));
    return device->api->event_create(device, true, &t->end, error);
}

static void clean(struct trial *t) {
    struct ig_device *device = t->env->device;
    for (int i = 0; i < 2; i++)
        if (t->operands[i]) device->api->release(device, t->operands[i], t->bytes[i]);
    if (t->begin) device->api->event_destroy(device, t->begin);
    if (t->end) device->api->event_destroy(device, t->end);
}

static enum ingot_status call(struct trial *t, bool by_nccl, int count, struct ingot_error *error) {
    struct ig_device *device = t->env->device;
    for (int i = 0; i < count; i++)
        IG_TRY(by_nccl ? ig_frame_enqueue_collective(device, t->stream, &t->step, error)
                       : device->api->launch(device, t->stream, &t->step.launch, error));
    return INGOT_OK;
}

static enum ingot_status await(struct trial *t, struct ingot_error *error) {
    const struct ig_device_api *api = t->env->device->api;
    const uint64_t begin = ig_clock();
    IG_TRY(api->event_record(t->env->device, t->stream, t->end, error));
    for (bool done;;) {
        IG_TRY(ig_frame_ask_ranks(t->env->group, t->env->device, t->end, begin, &done, error));
        if (done) return INGOT_OK;
        ig_clock_pause(begin);
    }
}

static enum ingot_status time_way(struct trial *t, bool by_nccl, uint64_t *out_nanoseconds, struct ingot_error *error) {
    struct ig_device *device = t->env->device;
    IG_TRY(call(t, by_nccl, 1, error));
    IG_TRY(await(t, error));
    IG_TRY(device->api->event_record(device, t->stream, t->begin, error));
    IG_TRY(call(t, by_nccl, CALLS, error));
    IG_TRY(await(t, error));
    IG_TRY(device->api->event_elapsed(device, t->begin, t->end, out_nanoseconds, error));
    *out_nanoseconds /= CALLS;
    return INGOT_OK;
}

/* Where a rank has no memory for it, or NCCL cannot connect it, all go on without. */
static enum ingot_status measure(const struct ig_frame_env *env, struct ig_stream *stream,
                                 const struct ig_frame_step *step, struct ingot_error *error) {
    struct trial t = {.env = env, .stream = stream};
    struct ig_way_times times = {0};
    struct ingot_error ignored;
    bool all[IG_MOST_RANKS];
    bool is_well = prepare(&t, step, &ignored) == INGOT_OK;
    enum ingot_status status = ig_group_gather(env->group, &is_well, sizeof is_well, all, "memory to measure", error);
    for (uint32_t r = 0; status == INGOT_OK && r < ig_group_ranks(env->group); r++)
        is_well = is_well && all[r];
    if (status == INGOT_OK && is_well) status = ig_group_connect(env->group, env->device, &is_well, error);
    if (status == INGOT_OK && is_well) status = time_way(&t, false, &times.windows, error);
    if (status == INGOT_OK && is_well) status = time_way(&t, true, &times.nccl, error);
    clean(&t);
    if (status != INGOT_OK) return status;
    return ig_group_choose_way(env->group, &step->collective->call, step->collective->bytes, &times, error);
}

enum ingot_status ig_frame_settle_ways(const struct ig_frame_env *env, struct ig_stream *stream,
                                       const struct ig_frame *frame, bool *out_stale, struct ingot_error *error) {
    *out_stale = false;
    for (uint32_t s = 0; s < frame->n_steps; s++) {
        const struct ig_frame_step *step = &frame->steps[s];
        if (!step->has_ways) continue;
        const struct ig_collective_call *what = &step->collective->call;
        enum ig_way way = ig_group_way(env->group, what, step->collective->bytes);
        if (way == IG_WAY_OPEN) {
            struct ingot_error own;
            enum ingot_status status = measure(env, stream, step, &own);
            if (status != INGOT_OK) ig_group_fail(env->group, status, own.message);
            if (status != INGOT_OK) return IG_ERR(error, status, "%s", own.message);
            way = ig_group_way(env->group, what, step->collective->bytes);
        }
        *out_stale = *out_stale || (way == IG_WAY_NCCL) != (step->plan->kind == IG_STEP_COLLECTIVE);
    }
    return INGOT_OK;
}
