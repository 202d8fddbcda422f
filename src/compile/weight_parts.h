/*
 * Weights of ranks that are parts of weights that are stored already: as the weight's bytes lie, ranges of equal size at equal
 * distances. Found by dividing the stored weights' recipes (pass/shard/part.h) and comparing the parts' with the ranks'
 * own, not by comparing bytes.
 */
#ifndef IG_COMPILE_WEIGHT_PARTS_H
#define IG_COMPILE_WEIGHT_PARTS_H

#include "compile/plan_build.h"
#include "compile/same_weights.h"

/* A part: copies, whose bytes follow each other. */
struct ig_weight_part {
    uint32_t first, count;
};

struct ig_weight_parts {
    struct ig_job *job;
    struct ig_same_weights *same;
    IG_VEC(struct ig_weight_copy) copies; /* `to` is not set */
    IG_VEC(struct ig_weight_part) list;
    struct ig_map of; /* class -> index in the list */
};

void ig_weight_parts_init(struct ig_weight_parts *parts, struct ig_job *job, struct ig_same_weights *same);
/* Finds the parts that rank `rank` of `ranks` would have of a stored constant. Appends to its graph. */
void ig_weight_parts_add(struct ig_weight_parts *parts, const struct ig_weight *stored, int ranks, int rank);
/* NULL: no such part is known. */
const struct ig_weight_part *ig_weight_parts_find(const struct ig_weight_parts *parts, uint32_t class);

#endif
