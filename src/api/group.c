/* ingot_group_*: seats of processes, with a count of references. */
#include "api/group.h"

#include "api/options.h"
#include "base/memory.h"
#include "dist/nccl.h"
#include "engine/format.h"

static enum ingot_status read_options(const struct ingot_group_options *given, struct ig_join_options *out_options,
                                      struct ingot_error *error) {
    struct ingot_group_options options = INGOT_GROUP_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    IG_TRY(ig_options_read("ingot_group_options", given, sizeof options, &options, error));
    IG_TRY(ig_options_allocator(options.allocator, &ig_libc_allocator, &allocator, error));
    if (!(options.seconds >= 0))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_group_join: seconds is %g, at least 0 is wanted",
                      options.seconds);
    static const enum ig_transport transports[] = {[INGOT_TRANSPORT_BEST] = IG_TRANSPORT_BEST,
                                                   [INGOT_TRANSPORT_SHARED_MEMORY] = IG_TRANSPORT_SHARED,
                                                   [INGOT_TRANSPORT_MPI] = IG_TRANSPORT_MPI};
    if ((unsigned)options.transport > INGOT_TRANSPORT_MPI)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "transport is %d, which is no enum ingot_transport",
                      (int)options.transport);
    *out_options = (struct ig_join_options){.group = {.allocator = allocator, .seconds = options.seconds},
                                            .environment = options.environment,
                                            .transport = transports[options.transport],
                                            .mpi_library = options.mpi_library};
    return INGOT_OK;
}

enum ingot_status ingot_group_join(const struct ingot_group_options *given, struct ingot_group **out_group,
                                   struct ingot_error *error) {
    struct ig_join_options options = {0};
    if (!out_group) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_group_join: out_group is NULL");
    IG_TRY(read_options(given, &options, error));
    const struct ingot_allocator *allocator = options.group.allocator;
    struct ingot_group *group = ig_allocate(allocator, sizeof *group, _Alignof(struct ingot_group));
    if (!group) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a group");
    group->allocator = allocator;
    atomic_init(&group->references, 1);
    enum ingot_status status = ig_group_join(&options, &group->seat, error);
    if (status == INGOT_OK)
        *out_group = group;
    else
        ig_release(allocator, group, sizeof *group);
    return status;
}

void ingot_group_retain(struct ingot_group *group) {
    if (group) atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
}

void ingot_group_release(struct ingot_group *group) {
    if (!group || atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) != 1) return;
    ig_group_destroy(group->seat);
    ig_release(group->allocator, group, sizeof *group);
}

unsigned ingot_group_rank(const struct ingot_group *group) {
    return group ? ig_group_rank(group->seat) : 0;
}

unsigned ingot_group_ranks(const struct ingot_group *group) {
    return group ? ig_group_ranks(group->seat) : 1;
}

const char *ingot_group_transport(const struct ingot_group *group) {
    return group ? ig_group_transport(group->seat) : "none";
}

enum ingot_status ingot_group_failure(const struct ingot_group *group, struct ingot_error *error) {
    return group ? ig_group_failure(group->seat, error) : INGOT_OK;
}

enum ingot_status ingot_group_set_time_limit(struct ingot_group *group, double seconds, struct ingot_error *error) {
    if (!group) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_group_set_time_limit: group is NULL");
    if (!(seconds > 0))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_group_set_time_limit: seconds is %g, wanted more than 0",
                      seconds);
    ig_group_set_time_limit(group->seat, seconds);
    return INGOT_OK;
}

/* The header has the checksums of everything else, but for the weights, which have a table of their own. */
enum ingot_status ig_group_accept(struct ingot_group *group, const struct ig_engine_file *file,
                                  struct ingot_error *error) {
    IG_TRY(ig_group_agree(group->seat, file->data, sizeof(struct ig_engine_header), "engine", error));
    if (group->is_tested) return INGOT_OK;
    IG_TRY(ig_group_test(group->seat, error));
    group->is_tested = true;
    return INGOT_OK;
}

enum ingot_status ig_group_use_gpus(struct ingot_group *group, uint32_t gpus, struct ingot_error *error) {
    if (ig_group_enqueues(group->seat)) return INGOT_OK;
    IG_TRY(ig_group_agree(group->seat, &gpus, sizeof gpus, "number of GPUs", error));
    IG_TRY(ig_nccl_create(group->seat, NULL, &group->seat, error));
    ig_group_share_gpus(group->seat, gpus);
    return INGOT_OK;
}
