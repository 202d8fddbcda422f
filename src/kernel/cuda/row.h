/* Shared by the files of the row family's schedule for GPUs. */
#ifndef IG_KERNEL_CUDA_ROW_H
#define IG_KERNEL_CUDA_ROW_H

#include "kernel/family/row.h"

/* Rows whose innermost axis is kept; false if the region turns out not to be regular. */
bool ig_row_columns_cuda(struct ig_row *r);

#endif
