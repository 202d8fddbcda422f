/* Windows along one spatial axis: which of their positions (taps) lie inside the input. */
#ifndef IG_KERNEL_TAPS_H
#define IG_KERNEL_TAPS_H

#include "kernel/loop.h"

/* Output o reads the input at o * stride - before + tap * dilation, tap < taps. */
struct ig_axis {
    ig_dim in, out, before;
    int64_t taps, stride, dilation;
};

/* `count` taps from `first` on are inside; the first one reads the input at `from`. */
struct ig_taps {
    ig_x first, count, from;
};

/* The taps of output o that read inside 0 … end-1; `end` is usually axis->in. */
struct ig_taps ig_taps_inside(struct ig_loops *k, const struct ig_axis *axis, ig_x o, ig_dim end);
/* The range of outputs, first … end-1, whose taps are all inside. */
void ig_taps_inner(struct ig_loops *k, const struct ig_axis *axis, ig_dim *out_first, ig_dim *out_end);

#endif
