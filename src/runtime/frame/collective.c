/* Collectives of a plan; see collective.h. */
#include "runtime/frame/collective.h"

#include "base/window.h"

/* Are collectives no items of lists, but enqueued on the device's stream by the host between them? */
static bool enqueues_collectives(const struct ig_device *device) {
    return !device->api->call_host && device->api->stream_native;
}

static enum ingot_status read_sizes(const struct ig_frame_env *env, const struct ig_plan_step *step,
                                    struct ig_collective_sizes *out_sizes, struct ingot_error *error) {
    const ig_slot *dims = env->file->plan.dims + step->dims;
    IG_TRY(ig_frame_size(env, step, dims[0], "the outer size", &out_sizes->outer, error));
    IG_TRY(ig_frame_size(env, step, dims[1], "the inner size", &out_sizes->inner, error));
    for (uint32_t r = 0; r < step->n_dims - 2; r++)
        IG_TRY(ig_frame_size(env, step, dims[2 + r], "a rank's part", &out_sizes->parts[r], error));
    return INGOT_OK;
}

/* An operand has the bytes that its call accesses; `wanted` is 0 where it may be missing. */
static enum ingot_status check_bytes(const struct ig_frame_env *env, const struct ig_frame *frame,
                                     const struct ig_plan_step *step, uint32_t k, size_t wanted,
                                     struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    uint32_t b = ig_plan_operand(plan, step, k);
    size_t found = b == IG_PLAN_NONE ? 0 : frame->bytes[b];
    if (found == wanted) return INGOT_OK;
    return IG_ERR(error, INGOT_BAD_ENGINE, "%s: operand %u of %s has %zu bytes, wanted %zu", ig_frame_label(plan, step),
                  k, ig_collective_name(plan->collectives[step->kernel].kind), found, wanted);
}

enum ingot_status ig_frame_make_collective(struct ig_frame_env *env, const struct ig_frame *frame,
                                           struct ig_frame_step *step, struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_plan_step *p = step->plan;
    const struct ig_collective *what = &plan->collectives[p->kernel];
    const char *label = ig_frame_label(plan, p);
    const uint32_t made_for = p->n_dims - 2;
    size_t source, destination;
    if (!env->group)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "%s: the plan is for a group of %u ranks, and there is none", label,
                      made_for);
    const uint32_t ranks = ig_group_ranks(env->group);
    if (ranks != made_for)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "%s: the plan is for %u ranks, and this is a group of %u", label,
                      made_for, ranks);
    if (!env->device->api->call_host && !(enqueues_collectives(env->device) && ig_group_enqueues(env->group)))
        return IG_ERR(error, INGOT_UNSUPPORTED, "%s: ranks cannot compute together on such a device", label);
    struct ig_frame_collective *c = ig_arena_alloc(env->memory, sizeof *c);
    if (!c) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a plan instance");
    IG_TRY(read_sizes(env, p, &c->sizes, error));
    if (!ig_collective_bytes(what, &c->sizes, ig_group_rank(env->group), ranks, &source, &destination))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "%s: the operands exceed the address space", label);
    IG_TRY(check_bytes(env, frame, p, 0, source, error));
    IG_TRY(check_bytes(env, frame, p, 1, destination, error));
    if (ig_plan_operand(plan, p, 1) != IG_PLAN_NONE) IG_TRY(ig_frame_check_written(env, frame, p, 1, error));
    c->group = env->group;
    c->bytes = source > destination ? source : destination;
    c->call = (struct ig_collective_call){.what = *what, .sizes = &c->sizes, .label = label, .stop = env->stop};
    step->collective = c;
    return INGOT_OK;
}

/* Has each row a block, and each line of the message a place in the windows? */
static bool fits_rows(const struct ig_frame_env *env, const struct ig_plan_step *other) {
    const int64_t rows = env->slots[other->tiles], lines = env->slots[env->file->plan.dims[other->dims + 1]];
    return rows > 0 && rows <= IG_WINDOW_HEADERS && lines > 0 && lines <= IG_WINDOW_SHORT_LINES;
}

/* How often the kernel of this plan step is launched for a split call of the collective. */
static size_t count_launches(const struct ig_frame_env *env, const struct ig_frame_collective *c,
                             const struct ig_plan_step *kernel) {
    const struct ig_collective *what = &c->call.what;
    size_t longest = ig_collective_divides(what->kind) ? 0 : 1;
    for (uint32_t r = 0; r < ig_group_ranks(env->group); r++)
        if (c->sizes.parts[r] > longest) longest = c->sizes.parts[r];
    return ig_window_launches(c->sizes.outer * longest * c->sizes.inner,
                              ingot_dtype_size((enum ingot_dtype)what->dtype), (size_t)env->slots[kernel->tiles]);
}

enum ingot_status ig_frame_choose_exchange(struct ig_frame_env *env, struct ig_frame_step *step, uint32_t *out_choice,
                                           struct ingot_error *error) {
    const struct ig_plan *plan = &env->file->plan;
    const struct ig_plan_step *other = &plan->steps[step->plan->alternatives];
    *out_choice = 0;
    IG_TRY(ig_group_open_windows(env->group, env->device, error));
    if (!ig_group_seat(env->group) || other->n_dims == 0) return INGOT_OK;
    *out_choice = step->plan->n_alternatives > 1 && fits_rows(env, other + 1) ? 2 : 1;
    step->has_ways = *out_choice == 1;
    if (step->has_ways && ig_group_way(env->group, &step->collective->call, step->collective->bytes) == IG_WAY_NCCL) {
        *out_choice = 0;
        return INGOT_OK;
    }
    if (ig_group_splits_calls(env->group))
        step->launches = count_launches(env, step->collective, other + *out_choice - 1);
    return ig_group_name_call(env->group, (uint32_t)env->slots[plan->dims[other->dims]],
                              ig_frame_label(plan, step->plan), error);
}

bool ig_frame_is_between_lists(const struct ig_device *device, const struct ig_frame_step *step) {
    return step->launches > 0 || (step->plan->kind == IG_STEP_COLLECTIVE && enqueues_collectives(device));
}

enum ingot_status ig_frame_launch_split(struct ig_device *device, struct ig_stream *stream,
                                        const struct ig_frame_step *step, struct ingot_error *error) {
    for (size_t i = 0; i < step->launches; i++) {
        if (i % 2 == 1) IG_TRY(ig_group_meet(step->collective->group, stream, error));
        IG_TRY(device->api->launch(device, stream, &step->launch, error));
    }
    return INGOT_OK;
}

enum ingot_status ig_frame_enqueue_collective(struct ig_device *device, struct ig_stream *stream,
                                              const struct ig_frame_step *step, struct ingot_error *error) {
    struct ig_collective_call now = step->collective->call;
    now.source = step->operands[0];
    now.destination = step->operands[1];
    return ig_group_enqueue(step->collective->group, &now, device, device->api->stream_native(device, stream), error);
}

enum ingot_status ig_frame_ask_ranks(struct ig_group *group, struct ig_device *device, struct ig_event *event,
                                     uint64_t since, bool *out_done, struct ingot_error *error) {
    IG_TRY(device->api->event_await(device, event, false, out_done, error));
    IG_TRY(ig_group_look(group, error));
    if (*out_done || ig_clock() - since <= ig_group_limit(group)) return INGOT_OK;
    return IG_ERR(error, INGOT_TIMEOUT, "a run of rank %u of %u did not end within %.3g s: a rank is missing",
                  ig_group_rank(group), ig_group_ranks(group), (double)ig_group_limit(group) / 1e9);
}

static void call(void *user, void *const *buffers) {
    const struct ig_frame_collective *c = user;
    struct ig_collective_call now = c->call;
    now.source = buffers[0];
    now.destination = buffers[1];
    (void)ig_group_call(c->group, &now, NULL);
}

enum ingot_status ig_frame_submit_collective(struct ig_device *device, struct ig_stream *stream,
                                             const struct ig_frame_step *step, struct ingot_error *error) {
    const struct ig_host_call host = {call, step->collective, step->operands, step->plan->n_operands};
    return device->api->call_host(device, stream, &host, error);
}
