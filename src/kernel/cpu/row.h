/* Between the files of the row family's schedules for CPUs. */
#ifndef IG_KERNEL_CPU_ROW_H
#define IG_KERNEL_CPU_ROW_H

#include "kernel/row.h"

/* What loses digits over many elements, and is therefore added up in parts. */
static inline bool ig_row_is_sum(const struct ig_row_step *step) {
    return step->update == IG_OP_add && ig_dtype_is_float(step->dtype);
}

/* Of prepared rows; see row.h for which is for what. */
void ig_row_lines(struct ig_row *r);
void ig_row_columns(struct ig_row *r);

#endif
