/* Captured launches of a CPU device: an array of pool items with their buffers and dims, ready to run. */
#ifndef IG_DEVICE_CPU_LIST_H
#define IG_DEVICE_CPU_LIST_H

#include "base/memory.h"
#include "device/cpu/pool.h"

struct ig_list {
    struct ig_arena arena; /* the items' buffers and dims */
    struct ig_pool_item *items;
    uint32_t count, capacity;
};

enum ingot_status ig_list_create(const struct ingot_allocator *allocator, struct ig_list **out_list,
                                 struct ingot_error *error);
void ig_list_destroy(struct ig_list *list);
/* Appends a deep copy of `item`. */
enum ingot_status ig_list_add(struct ig_list *list, const struct ig_pool_item *item, uint32_t n_buffers,
                              uint32_t n_dims, struct ingot_error *error);

#endif
