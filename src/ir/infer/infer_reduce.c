/* Type inference of reductions along axes. See infer.h. */
#include "ir/infer/infer.h"

static void reduce(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const struct ig_attr *axes = ig_infer_attr(x, IG_ATTR_axes);
    unsigned seen = 0;
    ig_infer_numeric(x, 0);
    x->out[0] = *in;
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->ints[i];
        if (axis < 0 || axis >= in->rank)
            ig_infer_fail(x, "axis %lld is outside of rank %d", (long long)axis, in->rank);
        if (seen >> axis & 1) ig_infer_fail(x, "axis %lld occurs twice", (long long)axis);
        seen |= 1u << axis;
        x->out[0].dim[axis] = ig_dim_const(x->dims, 1);
    }
}

void ig_infer_reduce_sum(struct ig_infer *x) {
    reduce(x);
}

void ig_infer_reduce_mean(struct ig_infer *x) {
    reduce(x);
}

void ig_infer_reduce_prod(struct ig_infer *x) {
    reduce(x);
}

void ig_infer_reduce_max(struct ig_infer *x) {
    reduce(x);
}

void ig_infer_reduce_min(struct ig_infer *x) {
    reduce(x);
}

static void arg_extreme(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    int axis = ig_infer_axis(x, IG_ATTR_axis, in->rank);
    ig_infer_numeric(x, 0);
    x->out[0] = *in;
    x->out[0].dtype = INGOT_I64;
    x->out[0].dim[axis] = ig_dim_const(x->dims, 1);
}

void ig_infer_argmax(struct ig_infer *x) {
    arg_extreme(x);
}

void ig_infer_argmin(struct ig_infer *x) {
    arg_extreme(x);
}

static void cumulate(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    ig_infer_axis(x, IG_ATTR_axis, in->rank);
    ig_infer_numeric(x, 0);
    x->out[0] = *in;
}

void ig_infer_cumsum(struct ig_infer *x) {
    cumulate(x);
}

void ig_infer_cumprod(struct ig_infer *x) {
    cumulate(x);
}

void ig_infer_topk(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    int axis = ig_infer_axis(x, IG_ATTR_axis, in->rank);
    ig_dim k = ig_infer_attr(x, IG_ATTR_k)->dim;
    ig_infer_numeric(x, 0);
    ig_infer_not_negative(x, k, "k");
    if (ig_dim_less(x->dims, in->dim[axis], k) == IG_YES)
        ig_infer_fail(x, "k = %s is more than the %s elements of axis %d", ig_infer_dim_text(x, k),
                      ig_infer_dim_text(x, in->dim[axis]), axis);
    x->out[0] = *in;
    x->out[0].dim[axis] = k;
    x->out[1] = x->out[0];
    x->out[1].dtype = INGOT_I64;
}
