/* Sets of weights; see weight_set.h. */
#include "runtime/weight_set.h"

#include <string.h>

#include "base/memory.h"

static enum ingot_status no_memory(size_t size, struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for weights of %zu bytes", size);
}

/* NULL: out of memory. */
static struct ig_weight_set *new_set(const struct ig_engine_file *file, enum ig_weight_memory kind,
                                     const struct ingot_allocator *allocator) {
    struct ig_weight_set *set = ig_allocate(allocator, sizeof *set, _Alignof(struct ig_weight_set));
    if (!set) return NULL;
    set->kind = kind;
    set->n_weights = file->refit.n_weights;
    set->made = ig_allocate(allocator, (set->n_weights + 1) * sizeof *set->made, _Alignof(uint64_t));
    if (set->made) return set;
    ig_release(allocator, set, sizeof *set);
    return NULL;
}

void ig_weight_set_destroy(struct ig_weight_set *set, struct ig_device *device,
                           const struct ingot_allocator *allocator) {
    if (!set) return;
    switch (set->kind) {
    case IG_WEIGHTS_BORROWED: break;
    case IG_WEIGHTS_MAPPED: ig_file_unmap_private(set->memory, set->size); break;
    case IG_WEIGHTS_ALLOCATED: ig_release(allocator, set->memory, set->size); break;
    case IG_WEIGHTS_DEVICE:
        if (set->memory && device) device->api->release(device, set->memory, set->size);
        break;
    }
    ig_release(allocator, set->made, (set->n_weights + 1) * sizeof *set->made);
    ig_release(allocator, set, sizeof *set);
}

enum ingot_status ig_weight_set_borrow(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                       struct ig_weight_set **out_set, struct ingot_error *error) {
    struct ig_weight_set *set = new_set(file, IG_WEIGHTS_BORROWED, allocator);
    if (!set) return no_memory(sizeof *set, error);
    set->weights = file->weights;
    *out_set = set;
    return INGOT_OK;
}

/* ---- Copies on the host ------------------------------------------------------------------------------------------ */

/* Weights of an engine that has none but these. */
static void place_kept(const struct ig_engine_file *file, unsigned char *to) {
    const unsigned char *from = file->weights;
    for (uint32_t i = 0; i < file->refit.n_weights; i++) {
        const struct ig_weight_entry *w = &file->refit.weights[i];
        if (w->recipe_size) continue;
        if (w->size) memcpy(to + w->offset, from, w->size);
        from += (w->size + 63) / 64 * 64;
    }
}

static enum ingot_status allocate_host(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                       struct ig_weight_set *set, struct ingot_error *error) {
    set->kind = IG_WEIGHTS_ALLOCATED;
    set->size = file->weights_size;
    if (set->size == 0) return INGOT_OK;
    set->memory = ig_allocate(allocator, set->size, 64);
    if (!set->memory) return no_memory(set->size, error);
    set->weights = set->memory;
    if (file->stripped)
        place_kept(file, set->memory);
    else
        memcpy(set->memory, file->weights, set->size);
    return INGOT_OK;
}

/* Pages of the file, until they are written. */
static enum ingot_status map(const struct ig_engine_file *file, struct ig_weight_set *set, struct ingot_error *error) {
    size_t offset = (size_t)(file->weights - file->data);
    set->kind = IG_WEIGHTS_MAPPED;
    set->size = file->weights_size;
    IG_TRY(ig_file_map_private(file->descriptor, offset, set->size, &set->memory, error));
    set->weights = set->memory;
    return INGOT_OK;
}

enum ingot_status ig_weight_set_copy(const struct ig_engine_file *file, const struct ig_weight_set *current,
                                     const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                     struct ingot_error *error) {
    struct ig_weight_set *set = new_set(file, IG_WEIGHTS_ALLOCATED, allocator);
    if (!set) return no_memory(sizeof *set, error);
    bool mappable = file->mapping.data && !file->stripped && file->weights_size > 0;
    enum ingot_status status = mappable ? map(file, set, error) : allocate_host(file, allocator, set, error);
    if (status != INGOT_OK) {
        ig_weight_set_destroy(set, NULL, allocator);
        return status;
    }
    if (current) ig_weight_set_follow(set, current, &file->refit, NULL);
    *out_set = set;
    return INGOT_OK;
}

void ig_weight_set_follow(struct ig_weight_set *set, const struct ig_weight_set *current,
                          const struct ig_refit_tables *tables, const bool *stale) {
    unsigned char *to = set->memory;
    const unsigned char *from = current->weights;
    for (uint32_t i = 0; i < set->n_weights; i++) {
        const struct ig_weight_entry *w = &tables->weights[i];
        if (set->made[i] == current->made[i] || (stale && stale[i])) continue;
        if (w->size) memcpy(to + w->offset, from + w->offset, w->size);
        set->made[i] = current->made[i];
    }
}

/* ---- Copies on devices ------------------------------------------------------------------------------------------- */

enum ingot_status ig_weight_set_on_device(const struct ig_engine_file *file, struct ig_device *device, bool allocate,
                                          const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                          struct ingot_error *error) {
    struct ig_weight_set *set = new_set(file, IG_WEIGHTS_DEVICE, allocator);
    if (!set) return no_memory(sizeof *set, error);
    set->size = file->weights_size ? file->weights_size : 64; /* never 0, so that there is an address */
    enum ingot_status status = allocate ? device->api->allocate(device, set->size, &set->memory, error) : INGOT_OK;
    if (status != INGOT_OK) {
        ig_error_prefix(error, "weights of %zu bytes", file->weights_size);
        ig_weight_set_destroy(set, device, allocator);
        return status;
    }
    set->weights = set->memory;
    *out_set = set;
    return INGOT_OK;
}
