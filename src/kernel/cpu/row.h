/* Between the files of the row family's schedules for CPUs. */
#ifndef IG_KERNEL_CPU_ROW_H
#define IG_KERNEL_CPU_ROW_H

#include "kernel/row.h"

/* Of prepared rows; see row.h for which is for what. */
void ig_row_lines(struct ig_row *r);
void ig_row_columns(struct ig_row *r);

#endif
