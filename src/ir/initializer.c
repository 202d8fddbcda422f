/* See initializer.h. */
#include "ir/initializer.h"

struct ig_initializers *ig_initializers_create(struct ig_job *job) {
    struct ig_initializers *all = IG_NEW(job, struct ig_initializers);
    all->job = job;
    ig_map_init(&all->by_name, job);
    return all;
}

struct ig_initializer *ig_initializers_add(struct ig_initializers *all, const char *name, enum ingot_dtype dtype,
                                           size_t rank, const int64_t *dims, const void *bytes, size_t size) {
    struct ig_initializer *one = IG_NEW(all->job, struct ig_initializer);
    uint32_t there;
    *one = (struct ig_initializer){
        .index = all->list.count, .name = name, .dtype = dtype, .rank = (int)rank, .bytes = bytes, .size = size};
    for (size_t i = 0; i < rank && i < INGOT_MAX_RANK; i++)
        one->dims[i] = dims[i];
    if (ig_map_get_name(&all->by_name, name, &there)) {
        one->is_ambiguous = all->list.at[there]->is_ambiguous = true;
        one->decided = all->list.at[there]->decided = "tell apart two initialisers of that name";
    } else {
        ig_map_put_name(&all->by_name, name, all->list.count);
    }
    IG_PUSH(all->job, &all->list, one);
    return one;
}

void ig_initializers_end_import(struct ig_initializers *all) {
    for (uint32_t i = 0; i < all->list.count; i++)
        all->list.at[i]->decided_by_import = all->list.at[i]->decided;
}

void ig_initializers_begin_build(struct ig_initializers *all) {
    for (uint32_t i = 0; i < all->list.count; i++)
        all->list.at[i]->decided = all->list.at[i]->decided_by_import;
}
