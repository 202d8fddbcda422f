/* Where buffers lie in an arena: buffers that live at the same time do not overlap. */
#ifndef IG_RUNTIME_MEMORY_PLAN_H
#define IG_RUNTIME_MEMORY_PLAN_H

#include "base/error.h"

struct ig_lifetime {
    size_t size;          /* 0: gets an offset all the same, but may share it */
    size_t floor;         /* of `size`, what no plan could save: equal to it but for nested work space */
    uint32_t first, last; /* steps, both included */
};

#define IG_ARENA_ALIGNMENT 64

/*
 * Fills out_offsets (multiples of IG_ARENA_ALIGNMENT), the bytes needed, and the lower bound: the largest sum of `floor`
 * over the buffers alive at one step. Temporary memory comes from `allocator`. Deterministic.
 */
enum ingot_status ig_memory_plan(const struct ig_lifetime *lifetimes, uint32_t count,
                                 const struct ingot_allocator *allocator, size_t *out_offsets, size_t *out_total,
                                 size_t *out_lower_bound, struct ingot_error *error);

#endif
