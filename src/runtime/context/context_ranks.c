/*
 * Runs of several ranks on GPUs, see context.h. Their kernels wait for each other, and NCCL's wait for ever if a rank is gone. So the
 * host never just waits for such a run: it asks, looks at the group in between, and gives up after the group's time limit.
 *
 * Two of them may be under way: the host enqueues a run while the GPU computes the one before, and not until the run before that has
 * ended well. On this GPU they follow each other on streams, like all runs of a context. Between GPUs nothing depends on when a host
 * enqueues: who is ahead waits within a kernel for the number of a call, and does so behind nothing that the other ranks wait for.
 */
#include "runtime/context/context.h"
#include "runtime/frame/collective.h"

bool ig_context_is_joint(const struct ig_context *context) {
    return context->env.group && !context->env.device->host_memory;
}

/* A first run may make the driver wait for the GPU, by what it loads, allocates or connects, while another rank's thread needs the
 * driver; and with control flow or profiles the host waits within the run. */
bool ig_context_may_overlap(const struct ig_context *context) {
    const struct ig_instance *instance = context->current;
    if (!ig_context_is_joint(context)) return true;
    return instance->ready && ig_frame_is_straight(instance->frame) && !context->times &&
           ig_group_may_overlap(context->env.group);
}

void ig_context_note_joint(struct ig_context *context) {
    if (!ig_context_is_joint(context)) return;
    if (!context->unseen[context->turn ^ 1]) context->since = ig_clock();
    context->unseen[context->turn] = true;
}

static enum ingot_status ask_for(struct ig_context *context, unsigned turn, bool *out_done, struct ingot_error *error) {
    struct ig_group *group = context->env.group;
    struct ingot_error own;
    *out_done = true;
    if (!context->unseen[turn]) return INGOT_OK;
    enum ingot_status status =
        ig_frame_ask_ranks(group, context->env.device, context->end[turn], context->since, out_done, &own);
    if (status != INGOT_OK) {
        ig_group_fail(group, status, own.message);
        return IG_ERR(error, status, "%s", own.message);
    }
    if (*out_done) {
        context->unseen[turn] = false;
        context->since = ig_clock(); /* from now on the run behind it has the GPU */
    }
    return INGOT_OK;
}

enum ingot_status ig_context_ask_ranks(struct ig_context *context, bool all, bool *out_done,
                                       struct ingot_error *error) {
    IG_TRY(ask_for(context, context->turn ^ 1, out_done, error));
    return *out_done && all ? ask_for(context, context->turn, out_done, error) : INGOT_OK;
}

static enum ingot_status await(struct ig_context *context, bool all, struct ingot_error *error) {
    const uint64_t begin = ig_clock();
    for (bool done;;) {
        IG_TRY(ig_context_ask_ranks(context, all, &done, error));
        if (done) return INGOT_OK;
        ig_clock_pause(begin);
    }
}

enum ingot_status ig_context_await_ranks(struct ig_context *context, struct ingot_error *error) {
    return await(context, true, error);
}

/* Two contexts of a seat would use its windows at once. */
enum ingot_status ig_context_begin_joint(struct ig_context *context, struct ingot_error *error) {
    struct ig_group *group = context->env.group;
    if (!ig_context_is_joint(context)) return INGOT_OK;
    IG_TRY(ig_group_failure(group, error));
    struct ig_context *last = ig_group_user(group);
    if (last && last != context) IG_TRY(ig_context_await_ranks(last, error));
    ig_group_set_user(group, context);
    return await(context, false, error);
}

void ig_context_forget_ranks(struct ig_context *context) {
    context->unseen[0] = context->unseen[1] = false;
}

void ig_context_leave_ranks(struct ig_context *context) {
    struct ig_group *group = context->env.group;
    if (group && ig_group_user(group) == context) ig_group_set_user(group, NULL);
}
