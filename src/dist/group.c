/* What does not depend on how bytes move: checks, failures, agreement; see dist.h. */
#include "dist/group.h"

#include <stdio.h>
#include <string.h>

#include "base/hash/hash.h"
#include "base/stop.h"
#include "dist/windows.h"

void ig_group_init(struct ig_group *group, const struct ig_group_api *api, uint32_t rank, uint32_t ranks,
                   const struct ig_group_options *options) {
    group->api = api;
    group->allocator = options && options->allocator ? options->allocator : &ig_libc_allocator;
    group->rank = rank;
    group->ranks = ranks;
    group->neighbours = 1;
    ig_ways_init(&group->ways);
    ig_group_set_time_limit(group, options && options->seconds > 0 ? options->seconds : IG_GROUP_SECONDS);
}

void ig_group_destroy(struct ig_group *group) {
    if (group) group->api->destroy(group);
}

uint32_t ig_group_rank(const struct ig_group *group) {
    return group->rank;
}

uint32_t ig_group_ranks(const struct ig_group *group) {
    return group->ranks;
}

uint32_t ig_group_neighbours(const struct ig_group *group) {
    return group->neighbours;
}

const char *ig_group_transport(const struct ig_group *group) {
    return group->transport;
}

void ig_group_set_time_limit(struct ig_group *group, double seconds) {
    group->limit = ig_clock_after(0, seconds);
}

size_t ig_sizes_block(const struct ig_collective_sizes *sizes) {
    return sizes->outer * sizes->inner;
}

size_t ig_sizes_before(const struct ig_collective_sizes *sizes, uint32_t rank) {
    size_t sum = 0;
    for (uint32_t r = 0; r < rank; r++)
        sum += sizes->parts[r];
    return sum;
}

size_t ig_sizes_whole(const struct ig_collective_sizes *sizes, uint32_t ranks) {
    return ig_sizes_before(sizes, ranks);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

enum ingot_status ig_group_failure(const struct ig_group *group, struct ingot_error *error) {
    if (group->failure.status == INGOT_OK) return INGOT_OK;
    return IG_ERR(error, group->failure.status, "%s", group->failure.message);
}

void ig_group_fail(struct ig_group *group, enum ingot_status status, const char *reason) {
    if (group->failure.status != INGOT_OK) return;
    ig_error_set(&group->failure, status, "%s", reason);
    group->api->fail(group, reason);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* Equal for calls that go together: a sender's and its receiver's too. */
static uint64_t signature_of(const struct ig_group *group, const struct ig_collective_call *call) {
    const struct ig_collective *c = &call->what;
    const bool pair = ig_collective_pairs(c->kind);
    uint64_t words[4 + IG_MOST_RANKS] = {(uint64_t)c->dtype << 32 | (pair ? IG_SEND : c->kind),
                                         (uint64_t)c->reduction << 32 | (pair ? 0 : c->peer), call->sizes->outer,
                                         call->sizes->inner};
    uint32_t count = 4;
    for (uint32_t r = 0; ig_collective_divides(c->kind) && r < group->ranks; r++)
        words[count++] = call->sizes->parts[r];
    return ig_hash64(words, count * sizeof *words);
}

static enum ingot_status check(const struct ig_group *group, const struct ig_collective_call *call,
                               struct ingot_error *error) {
    size_t source, destination;
    const char *wrong = ig_collective_error(&call->what, group->ranks);
    if (!wrong && !ig_collective_bytes(&call->what, call->sizes, group->rank, group->ranks, &source, &destination))
        wrong = "sizes that exceed the address space";
    if (!wrong && ig_collective_pairs(call->what.kind) && call->what.peer == group->rank) wrong = "itself as peer";
    if (!wrong) return INGOT_OK;
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s '%s' has %s", ig_collective_name(call->what.kind), call->label,
                  wrong);
}

enum ingot_status ig_group_call(struct ig_group *group, const struct ig_collective_call *call,
                                struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = check(group, call, &failure);
    if (status == INGOT_OK) status = group->api->call(group, call, signature_of(group, call), &failure);
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

enum ingot_status ig_group_enqueue(struct ig_group *group, const struct ig_collective_call *call,
                                   struct ig_device *device, void *stream, struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = check(group, call, &failure);
    if (status == INGOT_OK && !group->api->enqueue)
        status = ig_error_set(&failure, INGOT_UNSUPPORTED, "%s '%s': %s does not connect GPUs",
                              ig_collective_name(call->what.kind), call->label, group->transport);
    if (status == INGOT_OK) status = group->api->enqueue(group, call, device, stream, &failure);
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

enum ingot_status ig_group_connect(struct ig_group *group, struct ig_device *device, bool *out_connected,
                                   struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = group->api->connect(group, device, out_connected, &failure);
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

bool ig_group_enqueues(const struct ig_group *group) {
    return group->api->enqueue;
}

enum ingot_status ig_group_look(struct ig_group *group, struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = group->api->look ? group->api->look(group, &failure) : INGOT_OK;
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

enum ingot_status ig_group_open_windows(struct ig_group *group, struct ig_device *device, struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = group->api->open_windows ? group->api->open_windows(group, device, &failure) : INGOT_OK;
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

void ig_group_share_gpus(struct ig_group *group, uint32_t gpus) {
    group->gpus = gpus;
}

bool ig_group_has_windows_alone(const struct ig_group *group) {
    return group->gpus > 0;
}

bool ig_group_splits_calls(const struct ig_group *group) {
    return group->gpus > 0 && group->gpus < group->ranks;
}

bool ig_group_may_overlap(const struct ig_group *group) {
    return !ig_group_splits_calls(group) && (!group->api->has_gpu_alone || group->api->has_gpu_alone(group));
}

void *ig_group_user(const struct ig_group *group) {
    return group->user;
}

void ig_group_set_user(struct ig_group *group, void *user) {
    group->user = user;
}

static struct ig_windows *windows_of(const struct ig_group *group) {
    return group->api->windows ? group->api->windows(group) : NULL;
}

void *ig_group_seat(const struct ig_group *group) {
    const struct ig_windows *windows = windows_of(group);
    return windows ? ig_windows_seat(windows) : NULL;
}

enum ingot_status ig_group_meet(struct ig_group *group, struct ig_stream *stream, struct ingot_error *error) {
    struct ingot_error failure;
    IG_TRY(ig_group_failure(group, error));
    enum ingot_status status = ig_windows_meet(windows_of(group), stream, &failure);
    if (status == INGOT_OK) return INGOT_OK;
    ig_group_fail(group, status, failure.message);
    return IG_ERR(error, status, "%s", failure.message);
}

enum ingot_status ig_group_name_call(struct ig_group *group, uint32_t number, const char *label,
                                     struct ingot_error *error) {
    struct ig_windows *windows = windows_of(group);
    return windows ? ig_windows_name(windows, number, label, error) : INGOT_OK;
}

size_t ig_group_bytes(const struct ig_group *group) {
    return group->api->bytes(group);
}

size_t ig_group_library_bytes(const struct ig_group *group) {
    return group->api->library_bytes ? group->api->library_bytes(group) : 0;
}

uint64_t ig_group_limit(const struct ig_group *group) {
    return group->limit;
}

enum ingot_status ig_group_barrier(struct ig_group *group, const char *label, struct ingot_error *error) {
    const struct ig_collective_sizes nothing = {0};
    return ig_group_call(
        group, &(struct ig_collective_call){.what = {IG_ALL_GATHER, INGOT_U8, 0, 0}, .sizes = &nothing, .label = label},
        error);
}

enum ingot_status ig_group_gather(struct ig_group *group, const void *mine, size_t size, void *out_all,
                                  const char *label, struct ingot_error *error) {
    struct ig_collective_sizes sizes = {.outer = 1, .inner = size};
    for (uint32_t r = 0; r < group->ranks; r++)
        sizes.parts[r] = 1;
    const struct ig_collective_call call = {.what = {IG_ALL_GATHER, INGOT_U8, 0, 0},
                                            .sizes = &sizes,
                                            .source = mine,
                                            .destination = out_all,
                                            .label = label};
    return ig_group_call(group, &call, error);
}

enum ingot_status ig_group_agree(struct ig_group *group, const void *data, size_t size, const char *what,
                                 struct ingot_error *error) {
    struct ig_hash128 mine = ig_hash128(data, size), all[IG_MOST_RANKS];
    IG_TRY(ig_group_gather(group, &mine, sizeof mine, all, what, error));
    for (uint32_t r = 1; r < group->ranks; r++) {
        if (memcmp(&all[r], &all[0], sizeof mine) == 0) continue;
        char text[INGOT_ERROR_MESSAGE_SIZE];
        snprintf(text, sizeof text, "rank %u of %u has another %s than rank 0", r, group->ranks, what);
        ig_group_fail(group, INGOT_INCOMPATIBLE, text);
        return IG_ERR(error, INGOT_INCOMPATIBLE, "%s", text);
    }
    return INGOT_OK;
}
