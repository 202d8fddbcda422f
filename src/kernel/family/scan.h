/* Schedules of the scan family that have a file of their own. */
#ifndef IG_KERNEL_SCAN_H
#define IG_KERNEL_SCAN_H

#include "kernel/kernel.h"

/* lstm, gru and rnn (scan_recurrent.c) */
struct ig_kernel *ig_kernel_recurrent(struct ig_graph *graph, const struct ig_region *region,
                                      const struct ig_target *target, const struct ig_sizes *at);

#endif
