/* Convolution with transformed filters, for the evaluator of conv. */
#ifndef IG_IR_EVAL_CONV_H
#define IG_IR_EVAL_CONV_H

#include "ir/eval/eval_op.h"

/* Where windows lie, and how their weights do. */
struct ig_eval_window {
    int64_t before[2], dilation; /* one for both axes */
    double border;               /* an element beyond the edges */
    int64_t packed, together;    /* NR and G of ops.def */
};

/* Fills out, [N, H, W, columns], by Winograd's F(m x m, 3 x 3). x is [N, H, W, C] and dense; bias may be NULL. */
void ig_eval_winograd(struct ig_eval *ev, int m, const struct ig_view *x, const struct ig_view *w,
                      const struct ig_eval_window *window, const struct ig_view *bias, struct ig_view *out);

#endif
