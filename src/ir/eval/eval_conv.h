/* Convolution with transformed filters, for the evaluator of conv. */
#ifndef IG_IR_EVAL_CONV_H
#define IG_IR_EVAL_CONV_H

#include "ir/eval/eval_op.h"

/* Fills out, [N, H, W, columns], by Winograd's F(m x m, 3 x 3), with one dilation for both axes. x is [N, H, W, C] and
 * dense, w as `packed` says (ops.def); bias may be NULL. */
void ig_eval_winograd(struct ig_eval *ev, int m, const struct ig_view *x, const struct ig_view *w, int64_t packed,
                      const int64_t *before, int64_t dilation, const struct ig_view *bias, struct ig_view *out);

#endif
