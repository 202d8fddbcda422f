/*
 * Groups of GPUs: windows (windows.h) for kernels that exchange by themselves, and NCCL 2.18 to 2.x for everything else; see
 * nccl.h. NCCL is loaded at run time (nccl_library.h), and connected by the first call that needs it.
 *
 * Communicators do not block, so that every wait here is a loop with a time limit; one that fails is aborted, which ends its
 * kernels on the GPU. A communicator has at most 8 blocks, since each takes memory.
 *
 * NCCL adds up in an order of its own: all ranks get the same bits, and two ranks those of any order.
 */
#include "dist/nccl.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/stop.h"
#include "device/device.h"
#include "dist/group.h"
#include "dist/nccl_library.h"
#include "dist/windows.h"

#define MOST_BLOCKS 8
/* Lines of a part that are moved one by one. */
#define MOST_LINES 64u

struct nccl_group {
    struct ig_group base;
    struct ig_group *host;
    struct ig_nccl_library nccl;
    struct ingot_error missing; /* status INGOT_OK: NCCL is there; else what is missing, should it be needed */
    ig_nccl_comm comm;          /* NULL: not connected yet, or aborted */
    bool sought;                /* windows, on `gpu` */
    uint32_t gpu;
    bool is_everywhere;         /* NCCL, of one version */
    struct ig_windows *windows; /* NULL: none */
    unsigned looks;
    size_t taken;                       /* GPU memory that NCCL was seen to take */
    uint64_t used[IG_COLLECTIVE_COUNT]; /* bit b: a call of that kind and of 2^b bytes to less than twice that */
};

/* Seats of this process by GPU, from the first time that they look for windows. Of GPUs beyond these, nobody is alone. */
enum { COUNTED_GPUS = 64 };
static atomic_uint seats_on[COUNTED_GPUS];

/* Between two looks at whether the other ranks are there, others at what is cheap to see. */
enum { LOOKS = 256 };

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static enum ingot_status say(const struct nccl_group *group, const char *what, ig_nccl_result result,
                             struct ingot_error *error) {
    const char *more = group->comm ? group->nccl.GetLastError(group->comm) : NULL;
    return IG_ERR(error, INGOT_DEVICE, "%s: %s says '%s'%s%.300s", what, group->base.transport,
                  group->nccl.GetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

/* A call that has returned `result` may go on in the background, for `limit` nanoseconds. */
static enum ingot_status settle_within(struct nccl_group *group, const char *what, ig_nccl_result result,
                                       uint64_t limit, struct ingot_error *error) {
    const uint64_t begin = ig_clock();
    while (result == IG_NCCL_IN_PROGRESS) {
        ig_nccl_result asked = group->nccl.CommGetAsyncError(group->comm, &result);
        if (asked != IG_NCCL_SUCCESS) result = asked;
        if (result != IG_NCCL_IN_PROGRESS) break;
        if (ig_clock() - begin > limit)
            return IG_ERR(error, INGOT_TIMEOUT, "%s: rank %u waited %.3g s for the others in %s", what,
                          group->base.rank, (double)limit / 1e9, group->base.transport);
        ig_clock_pause(begin);
    }
    return result == IG_NCCL_SUCCESS ? INGOT_OK : say(group, what, result, error);
}

static enum ingot_status settle(struct nccl_group *group, const char *what, ig_nccl_result result,
                                struct ingot_error *error) {
    return settle_within(group, what, result, group->base.limit, error);
}

/* ---- Connecting -------------------------------------------------------------------------------------------------- */

static enum ingot_status connect_ranks(struct nccl_group *group, uint64_t limit, struct ingot_error *error) {
    struct {
        struct ig_nccl_id id;
        uint32_t is_made;
    } beginning = {.is_made = 1};
    struct ig_nccl_config config = {.size = sizeof config,
                                    .magic = 0xcafebeef,
                                    .version = IG_NCCL_OLDEST,
                                    .blocking = 0,
                                    .cga_cluster_size = INT_MIN,
                                    .min_ctas = INT_MIN,
                                    .max_ctas = MOST_BLOCKS,
                                    .split_share = INT_MIN};
    const struct ig_collective_sizes sizes = {.outer = 1, .inner = sizeof beginning};
    ig_nccl_result result = group->base.rank == 0 ? group->nccl.GetUniqueId(&beginning.id) : IG_NCCL_SUCCESS;
    if (result != IG_NCCL_SUCCESS) beginning.is_made = 0; /* the others wait for it */
    const struct ig_collective_call call = {{IG_BROADCAST, INGOT_U8, 0, 0}, &sizes, &beginning, &beginning,
                                            "the beginning of NCCL",        NULL};
    IG_TRY(ig_group_call(group->host, &call, error));
    if (result != IG_NCCL_SUCCESS) return say(group, "ncclGetUniqueId", result, error);
    if (!beginning.is_made) return IG_ERR(error, INGOT_DEVICE, "rank 0 could not begin with NCCL");
    result = group->nccl.CommInitRankConfig(&group->comm, (int)group->base.ranks, beginning.id, (int)group->base.rank,
                                            &config);
    return settle_within(group, "ncclCommInitRankConfig", result, limit, error);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* NCCL's numbers of types that it adds up; -1: none. It moves bytes of all others. */
static int type_of(uint32_t dtype) {
    static const int types[INGOT_DTYPE_COUNT] = {
        [INGOT_I8] = 1,  [INGOT_U8] = 2,  [INGOT_I32] = 3, [INGOT_U32] = 4,   [INGOT_I64] = 5, [INGOT_U64] = 6,
        [INGOT_F16] = 7, [INGOT_F32] = 8, [INGOT_F64] = 9, [INGOT_BF16] = 10, [INGOT_BOOL] = 2};
    return types[dtype] - 1;
}

/* Of booleans a sum is whether any is true. */
static int op_of(const struct ig_collective *what) {
    static const int ops[IG_REDUCTION_COUNT] = {[IG_REDUCE_SUM] = 0, [IG_REDUCE_MAX] = 2, [IG_REDUCE_MIN] = 3};
    return what->dtype == INGOT_BOOL && what->reduction == IG_REDUCE_SUM ? ops[IG_REDUCE_MAX] : ops[what->reduction];
}

enum { BYTES = 1 }; /* ncclUint8 */

struct call {
    struct nccl_group *group;
    const struct ig_collective_call *call;
    void *stream;
    size_t element; /* bytes */
    const char *source;
    char *destination;
};

static bool has_equal_parts(const struct call *c) {
    const struct ig_collective_sizes *s = c->call->sizes;
    for (uint32_t r = 1; r < c->group->base.ranks; r++)
        if (s->parts[r] != s->parts[0]) return false;
    return s->outer == 1;
}

/* Parts that differ, or lie apart: line by line, each rank's from it or to it. */
static ig_nccl_result move_parts(const struct call *c, bool reduce) {
    const struct ig_collective_sizes *s = c->call->sizes;
    const struct ig_nccl_library *nccl = &c->group->nccl;
    const uint32_t rank = c->group->base.rank, ranks = c->group->base.ranks;
    const size_t whole = ig_sizes_whole(s, ranks) * s->inner;
    ig_nccl_result result = nccl->GroupStart();
    for (size_t line = 0; line < s->outer; line++) {
        for (uint32_t r = 0; result == IG_NCCL_SUCCESS && r < ranks; r++) {
            const size_t count = s->parts[r] * s->inner, before = ig_sizes_before(s, r) * s->inner;
            const size_t in_whole = (line * whole + before) * c->element;
            const size_t in_part = line * s->parts[rank] * s->inner * c->element; /* of this rank's own */
            if (count == 0) continue;
            if (reduce)
                result =
                    nccl->Reduce(c->source + in_whole, c->destination + in_part, count, type_of(c->call->what.dtype),
                                 op_of(&c->call->what), (int)r, c->group->comm, c->stream);
            else
                result = nccl->Broadcast(r == rank ? c->source + in_part : c->destination + in_whole,
                                         c->destination + in_whole, count * c->element, BYTES, (int)r, c->group->comm,
                                         c->stream);
        }
    }
    ig_nccl_result end = nccl->GroupEnd();
    return result == IG_NCCL_SUCCESS ? end : result;
}

static ig_nccl_result all_to_all(const struct call *c) {
    const struct ig_nccl_library *nccl = &c->group->nccl;
    const size_t block = ig_sizes_block(c->call->sizes) * c->element;
    ig_nccl_result result = nccl->GroupStart();
    for (uint32_t r = 0; result == IG_NCCL_SUCCESS && r < c->group->base.ranks; r++) {
        result = nccl->Send(c->source + r * block, block, BYTES, (int)r, c->group->comm, c->stream);
        if (result == IG_NCCL_SUCCESS)
            result = nccl->Recv(c->destination + r * block, block, BYTES, (int)r, c->group->comm, c->stream);
    }
    ig_nccl_result end = nccl->GroupEnd();
    return result == IG_NCCL_SUCCESS ? end : result;
}

static ig_nccl_result enqueue_kind(const struct call *c) {
    const struct ig_collective *what = &c->call->what;
    const struct ig_nccl_library *nccl = &c->group->nccl;
    ig_nccl_comm comm = c->group->comm;
    const size_t block = ig_sizes_block(c->call->sizes), part = block * c->call->sizes->parts[0];
    switch ((enum ig_collective_kind)what->kind) {
    case IG_ALL_REDUCE:
        return nccl->AllReduce(c->source, c->destination, block, type_of(what->dtype), op_of(what), comm, c->stream);
    case IG_ALL_GATHER:
        if (!has_equal_parts(c)) return move_parts(c, false);
        return nccl->AllGather(c->source, c->destination, part * c->element, BYTES, comm, c->stream);
    case IG_REDUCE_SCATTER:
        if (!has_equal_parts(c)) return move_parts(c, true);
        return nccl->ReduceScatter(c->source, c->destination, part, type_of(what->dtype), op_of(what), comm, c->stream);
    case IG_ALL_TO_ALL: return all_to_all(c);
    case IG_BROADCAST:
        return nccl->Broadcast(c->source, c->destination, block * c->element, BYTES, (int)what->peer, comm, c->stream);
    case IG_SEND: return nccl->Send(c->source, block * c->element, BYTES, (int)what->peer, comm, c->stream);
    case IG_RECEIVE: return nccl->Recv(c->destination, block * c->element, BYTES, (int)what->peer, comm, c->stream);
    case IG_COLLECTIVE_COUNT: break;
    }
    return IG_NCCL_SUCCESS;
}

static enum ingot_status check(const struct nccl_group *group, const struct ig_collective_call *call,
                               struct ingot_error *error) {
    const struct ig_collective *what = &call->what;
    if (group->missing.status != INGOT_OK)
        return IG_ERR(error, group->missing.status, "%s '%s': %s", ig_collective_name(what->kind), call->label,
                      group->missing.message);
    if (ig_collective_reduces(what->kind) && type_of(what->dtype) < 0)
        return IG_ERR(error, INGOT_UNSUPPORTED, "%s '%s': NCCL does not reduce %s", ig_collective_name(what->kind),
                      call->label, ingot_dtype_name((enum ingot_dtype)what->dtype));
    if (ig_collective_divides(what->kind) && call->sizes->outer > MOST_LINES)
        return IG_ERR(error, INGOT_UNSUPPORTED, "%s '%s': parts of more than %u lines are not moved between GPUs",
                      ig_collective_name(what->kind), call->label, MOST_LINES);
    return INGOT_OK;
}

/* The first call of its kind and about its size, for which NCCL may take memory: it connects what it has not needed before. */
static bool is_new(const struct nccl_group *group, const struct call *c, uint64_t *out_bit) {
    size_t source, destination;
    ig_collective_bytes(&c->call->what, c->call->sizes, group->base.rank, group->base.ranks, &source, &destination);
    *out_bit = UINT64_C(1) << (63 - __builtin_clzll((source > destination ? source : destination) | 1));
    return !(group->used[c->call->what.kind] & *out_bit);
}

static enum ingot_status connect_and_call(struct nccl_group *group, const struct call *c, struct ingot_error *error) {
    if (!group->comm) IG_TRY(connect_ranks(group, group->base.limit, error));
    return settle(group, c->call->label, enqueue_kind(c), error);
}

static size_t free_bytes(struct ig_device *device) {
    return device && device->api->free_bytes ? device->api->free_bytes(device) : 0;
}

static void count_taken(struct nccl_group *group, size_t before, struct ig_device *device) {
    const size_t behind = free_bytes(device);
    if (behind > 0 && behind < before) group->taken += before - behind;
}

static enum ingot_status enqueue(struct ig_group *base, const struct ig_collective_call *call, struct ig_device *device,
                                 void *stream, struct ingot_error *error) {
    struct nccl_group *group = (struct nccl_group *)base;
    if (ig_group_has_windows_alone(base))
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "%s '%s' of %s has no kernel that exchanges through windows, as ranks on %u GPUs do",
                      ig_collective_name(call->what.kind), call->label,
                      ingot_dtype_name((enum ingot_dtype)call->what.dtype), base->gpus);
    IG_TRY(check(group, call, error));
    const struct call c = {
        group, call, stream, ingot_dtype_size((enum ingot_dtype)call->what.dtype), call->source, call->destination};
    uint64_t bit;
    if (!is_new(group, &c, &bit)) return connect_and_call(group, &c, error);
    const size_t before = free_bytes(device);
    IG_TRY(connect_and_call(group, &c, error));
    group->used[call->what.kind] |= bit;
    count_taken(group, before, device);
    return INGOT_OK;
}

static void disconnect(struct nccl_group *group) {
    if (group->comm) group->nccl.CommAbort(group->comm);
    group->comm = NULL;
    group->taken = 0;
    memset(group->used, 0, sizeof group->used);
}

static enum ingot_status connect(struct ig_group *base, struct ig_device *device, bool *out_connected,
                                 struct ingot_error *error) {
    struct nccl_group *group = (struct nccl_group *)base;
    bool all[IG_MOST_RANKS];
    if (!group->comm) {
        const size_t before = free_bytes(device);
        /* Less than the others wait to hear of it. */
        if (connect_ranks(group, base->limit / 2, NULL) == INGOT_OK)
            count_taken(group, before, device);
        else
            disconnect(group);
    }
    *out_connected = group->comm;
    IG_TRY(ig_group_gather(group->host, out_connected, sizeof *all, all, "whether NCCL is connected", error));
    for (uint32_t r = 0; r < base->ranks; r++)
        *out_connected = *out_connected && all[r];
    if (*out_connected) return INGOT_OK;
    group->is_everywhere = false;
    disconnect(group);
    return INGOT_OK;
}

/* What went wrong on the GPU since. */
static enum ingot_status look(struct ig_group *base, struct ingot_error *error) {
    struct nccl_group *group = (struct nccl_group *)base;
    ig_nccl_result result = IG_NCCL_SUCCESS;
    if (group->windows) IG_TRY(ig_windows_look(group->windows, error));
    if (++group->looks % LOOKS == 0) IG_TRY(ig_group_look(group->host, error));
    if (!group->comm) return INGOT_OK;
    ig_nccl_result asked = group->nccl.CommGetAsyncError(group->comm, &result);
    if (asked != IG_NCCL_SUCCESS) result = asked;
    if (result == IG_NCCL_SUCCESS || result == IG_NCCL_IN_PROGRESS) return INGOT_OK;
    return say(group, "a collective", result, error);
}

/* ---- Seats ------------------------------------------------------------------------------------------------------- */

static enum ingot_status call(struct ig_group *base, const struct ig_collective_call *call, uint64_t signature,
                              struct ingot_error *error) {
    return ig_group_call(((struct nccl_group *)base)->host, call, error);
}

static void fail(struct ig_group *base, const char *reason) {
    struct nccl_group *group = (struct nccl_group *)base;
    if (group->windows) ig_windows_stop(group->windows);
    disconnect(group);
    ig_group_fail(group->host, base->failure.status, reason);
}

static void destroy(struct ig_group *base) {
    struct nccl_group *group = (struct nccl_group *)base;
    struct ingot_error ignored;
    if (group->comm && settle(group, "ncclCommFinalize", group->nccl.CommFinalize(group->comm), &ignored) == INGOT_OK)
        group->nccl.CommDestroy(group->comm);
    else if (group->comm)
        group->nccl.CommAbort(group->comm);
    ig_windows_close(group->windows);
    if (group->sought && group->gpu < COUNTED_GPUS) atomic_fetch_sub(&seats_on[group->gpu], 1);
    ig_group_destroy(group->host);
    ig_nccl_unload(&group->nccl);
    ig_release(base->allocator, group, sizeof *group);
}

static void say_transport(struct nccl_group *group, const char *without) {
    if (ig_group_has_windows_alone(&group->base) && group->windows) {
        snprintf(group->base.transport, sizeof group->base.transport, "windows, %u ranks on %u GPUs", group->base.ranks,
                 group->base.gpus);
        return;
    }
    char nccl[32] = "no NCCL";
    if (group->missing.status == INGOT_OK)
        snprintf(nccl, sizeof nccl, "NCCL %d.%d.%d", group->nccl.version / 10000, group->nccl.version / 100 % 100,
                 group->nccl.version % 100);
    const char *windows = group->windows ? "windows, " : "";
    snprintf(group->base.transport, sizeof group->base.transport, "%s%s%s%.40s", windows, nccl,
             *without ? "; no windows: " : "", without);
}

static enum ingot_status compare_libraries(struct nccl_group *group, struct ingot_error *error) {
    const int mine = group->missing.status == INGOT_OK ? group->nccl.version : 0;
    int all[IG_MOST_RANKS];
    IG_TRY(ig_group_gather(group->host, &mine, sizeof mine, all, "versions of NCCL", error));
    group->is_everywhere = mine > 0;
    for (uint32_t r = 0; r < group->base.ranks; r++)
        group->is_everywhere = group->is_everywhere && all[r] == mine;
    return INGOT_OK;
}

static bool has_both_ways(const struct ig_group *base, const struct ig_collective_call *call) {
    const struct nccl_group *group = (const struct nccl_group *)base;
    return group->is_everywhere && check(group, call, NULL) == INGOT_OK;
}

static enum ingot_status open_windows(struct ig_group *base, struct ig_device *device, struct ingot_error *error) {
    struct nccl_group *group = (struct nccl_group *)base;
    char reason[IG_WINDOWS_REASON_SIZE] = "";
    if (group->sought) return INGOT_OK;
    group->sought = true;
    group->gpu = device->ordinal;
    if (group->gpu < COUNTED_GPUS) atomic_fetch_add(&seats_on[group->gpu], 1);
    IG_TRY(ig_windows_open(group->host, device, ig_group_splits_calls(base), &group->windows, reason, error));
    say_transport(group, reason);
    if (group->windows) IG_TRY(compare_libraries(group, error));
    if (group->windows || !ig_group_has_windows_alone(base)) return INGOT_OK;
    return IG_ERR(error, INGOT_UNSUPPORTED, "%u ranks on %u GPUs exchange through windows, and there are none: %s",
                  base->ranks, base->gpus, reason);
}

static bool has_gpu_alone(const struct ig_group *base) {
    const struct nccl_group *group = (const struct nccl_group *)base;
    return !group->sought || (group->gpu < COUNTED_GPUS && atomic_load(&seats_on[group->gpu]) == 1);
}

static struct ig_windows *windows_of(const struct ig_group *base) {
    return ((const struct nccl_group *)base)->windows;
}

static size_t bytes_of(const struct ig_group *base) {
    const struct nccl_group *group = (const struct nccl_group *)base;
    return group->windows || !group->sought ? ig_windows_bytes(base->ranks) : 0;
}

static size_t library_bytes_of(const struct ig_group *base) {
    return ((const struct nccl_group *)base)->taken;
}

static const struct ig_group_api api = {.destroy = destroy,
                                        .call = call,
                                        .fail = fail,
                                        .connect = connect,
                                        .enqueue = enqueue,
                                        .look = look,
                                        .open_windows = open_windows,
                                        .windows = windows_of,
                                        .has_gpu_alone = has_gpu_alone,
                                        .has_both_ways = has_both_ways,
                                        .bytes = bytes_of,
                                        .library_bytes = library_bytes_of};

enum ingot_status ig_nccl_create(struct ig_group *host, const char *library, struct ig_group **out_seat,
                                 struct ingot_error *error) {
    const struct ig_group_options options = {.allocator = host->allocator, .seconds = (double)host->limit / 1e9};
    struct nccl_group *group = ig_allocate(host->allocator, sizeof *group, _Alignof(struct nccl_group));
    if (!group) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group of GPUs");
    ig_group_init(&group->base, &api, host->rank, host->ranks, &options);
    group->base.neighbours = host->neighbours;
    group->missing.status = ig_nccl_load(library, &group->nccl, &group->missing);
    group->host = host;
    say_transport(group, "");
    *out_seat = &group->base;
    return INGOT_OK;
}

enum ingot_status ig_nccl_renew(struct ig_group *seat, struct ig_group **out_host, struct ingot_error *error) {
    struct nccl_group *group = (struct nccl_group *)seat;
    *out_host = seat;
    if (seat->api != &api) return INGOT_OK;
    *out_host = group->host;
    if (group->windows) IG_TRY(ig_windows_renew(group->windows, error));
    seat->failure.status = INGOT_OK;
    return INGOT_OK;
}
