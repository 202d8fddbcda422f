/* Shared by the row family's schedules for CPUs. */
#ifndef IG_KERNEL_CPU_ROW_H
#define IG_KERNEL_CPU_ROW_H

#include "kernel/family/row.h"

/* Float sums lose digits over many elements, so they are added up as partial sums. */
static inline bool ig_row_is_sum(const struct ig_row_step *step) {
    return step->update == IG_OP_add && ig_dtype_is_float(step->dtype);
}

/* Schedules for prepared rows; see kernel/family/row.h. */
void ig_row_lines(struct ig_row *r);
/* Blocks of `most` rows side by side, each of them in pieces of `piece` elements (1: the innermost axis is kept). */
void ig_row_columns(struct ig_row *r, int64_t most, int64_t piece);

#endif
