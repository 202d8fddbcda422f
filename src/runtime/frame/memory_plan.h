/* Assigns arena offsets to buffers: buffers live at the same time do not overlap. */
#ifndef IG_RUNTIME_MEMORY_PLAN_H
#define IG_RUNTIME_MEMORY_PLAN_H

#include "base/error.h"

struct ig_lifetime {
    size_t size;          /* 0: gets an offset, possibly shared */
    size_t floor;         /* the part of `size` that no plan could save: less than `size` for nested work space only */
    uint32_t first, last; /* first and last live step, inclusive */
};

#define IG_ARENA_ALIGNMENT 64

/*
 * Computes out_offsets (multiples of IG_ARENA_ALIGNMENT), the total size, and a lower bound: the largest sum of `floor`
 * over the buffers live at one step. Temporary memory comes from `allocator`. Deterministic.
 */
enum ingot_status ig_memory_plan(const struct ig_lifetime *lifetimes, uint32_t count,
                                 const struct ingot_allocator *allocator, size_t *out_offsets, size_t *out_total,
                                 size_t *out_lower_bound, struct ingot_error *error);

#endif
