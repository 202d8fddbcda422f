/* The public group: a rank's seat that engines share. */
#ifndef IG_API_GROUP_H
#define IG_API_GROUP_H

#include <stdatomic.h>

#include "dist/dist.h"
#include "engine/engine.h"

struct ingot_group {
    const struct ingot_allocator *allocator;
    struct ig_group *seat;
    atomic_size_t references;
    bool is_tested;
};

/* An engine is loaded on the group: do all ranks have the same, and do the connections work? */
enum ingot_status ig_group_accept(struct ingot_group *group, const struct ig_engine_file *file,
                                  struct ingot_error *error);
/* From now on it connects GPUs too; `gpus`, equal on all ranks: as for ig_group_share_gpus, the first time. */
enum ingot_status ig_group_use_gpus(struct ingot_group *group, uint32_t gpus, struct ingot_error *error);

#endif
