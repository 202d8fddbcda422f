/* Captured launches; see list.h. */
#include "device/cpu/list.h"

#include <string.h>

enum ingot_status ig_list_create(const struct ingot_allocator *allocator, struct ig_list **out_list,
                                 struct ingot_error *error) {
    struct ig_list *list = ig_allocate(allocator, sizeof *list, _Alignof(struct ig_list));
    if (!list) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list of launches");
    ig_arena_init(&list->arena, allocator);
    *out_list = list;
    return INGOT_OK;
}

void ig_list_destroy(struct ig_list *list) {
    if (!list) return;
    const struct ingot_allocator *allocator = list->arena.allocator;
    ig_release(allocator, list->items, list->capacity * sizeof *list->items);
    ig_arena_deinit(&list->arena);
    ig_release(allocator, list, sizeof *list);
}

static bool grow(struct ig_list *list) {
    uint32_t capacity = list->capacity ? 2 * list->capacity : 32;
    const struct ingot_allocator *allocator = list->arena.allocator;
    struct ig_pool_item *items = ig_allocate(allocator, capacity * sizeof *items, _Alignof(struct ig_pool_item));
    if (!items) return false;
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    ig_release(allocator, list->items, list->capacity * sizeof *items);
    list->items = items;
    list->capacity = capacity;
    return true;
}

enum ingot_status ig_list_add(struct ig_list *list, const struct ig_pool_item *item, uint32_t n_buffers,
                              uint32_t n_dims, struct ingot_error *error) {
    if (list->count == UINT32_MAX / 2) return IG_ERR(error, INGOT_UNSUPPORTED, "a list of over 2^31 launches");
    void **buffers = ig_arena_alloc(&list->arena, n_buffers * sizeof *buffers);
    int64_t *dims = ig_arena_alloc(&list->arena, n_dims * sizeof *dims);
    if (!buffers || !dims || (list->count == list->capacity && !grow(list)))
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list of launches");
    if (n_buffers) memcpy(buffers, item->buffers, n_buffers * sizeof *buffers);
    if (n_dims) memcpy(dims, item->dims, n_dims * sizeof *dims);
    struct ig_pool_item *added = &list->items[list->count++];
    *added = *item;
    added->buffers = buffers;
    added->dims = dims;
    return INGOT_OK;
}
