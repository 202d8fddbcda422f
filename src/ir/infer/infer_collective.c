/* Type inference of collectives; see infer.h and base/collective.h. */
#include "base/collective.h"
#include "ir/infer/infer.h"

/* Of a group that can be. */
static void check_ranks(struct ig_infer *x, int64_t ranks) {
    if (ranks < 1 || ranks > (int64_t)IG_MOST_RANKS)
        ig_infer_fail(x, "%lld ranks, from 1 to %u can be", (long long)ranks, IG_MOST_RANKS);
    if (ig_infer_int(x, IG_ATTR_number) < 0) ig_infer_fail(x, "the number of a collective is negative");
}

static void check_rank(struct ig_infer *x, enum ig_attr_name name, int64_t ranks) {
    int64_t rank = ig_infer_int(x, name);
    if (rank < 0 || rank >= ranks)
        ig_infer_fail(x, "rank %lld of %lld does not exist", (long long)rank, (long long)ranks);
}

static void check_reduction(struct ig_infer *x) {
    int64_t reduction = ig_infer_int(x, IG_ATTR_reduction);
    if (reduction < 0 || reduction >= IG_REDUCTION_COUNT)
        ig_infer_fail(x, "unknown reduction %lld", (long long)reduction);
    if (ig_dtype_is_narrow(ig_infer_in(x, 0)->dtype))
        ig_infer_fail(x, "elements of type %s cannot be reduced", ingot_dtype_name(ig_infer_in(x, 0)->dtype));
}

void ig_infer_all_reduce(struct ig_infer *x) {
    check_ranks(x, ig_infer_int(x, IG_ATTR_ranks));
    check_reduction(x);
    x->out[0] = *ig_infer_in(x, 0);
}

/* Checks `parts` against the operand's axis, which has this rank's part or all of them. Returns the axis. */
static int check_parts(struct ig_infer *x, bool is_whole, ig_dim *out_part, ig_dim *out_sum) {
    const struct ig_type *in = ig_infer_in(x, 0);
    const struct ig_attr *parts = ig_infer_attr(x, IG_ATTR_parts);
    int axis = ig_infer_axis(x, IG_ATTR_axis, in->rank);
    check_ranks(x, parts->count);
    check_rank(x, IG_ATTR_rank, parts->count);
    *out_sum = ig_dim_const(x->dims, 0);
    for (int i = 0; i < parts->count; i++) {
        ig_infer_not_negative(x, parts->dims[i], "part");
        *out_sum = ig_dim_add(x->dims, *out_sum, parts->dims[i]);
    }
    *out_part = parts->dims[ig_infer_int(x, IG_ATTR_rank)];
    ig_infer_unify(x, in->dim[axis], is_whole ? *out_sum : *out_part, "dims of operand and parts");
    return axis;
}

void ig_infer_all_gather(struct ig_infer *x) {
    ig_dim part, sum;
    int axis = check_parts(x, false, &part, &sum);
    x->out[0] = *ig_infer_in(x, 0);
    x->out[0].dim[axis] = sum;
}

void ig_infer_reduce_scatter(struct ig_infer *x) {
    ig_dim part, sum;
    int axis = check_parts(x, true, &part, &sum);
    check_reduction(x);
    x->out[0] = *ig_infer_in(x, 0);
    x->out[0].dim[axis] = part;
}

void ig_infer_all_to_all(struct ig_infer *x) {
    const struct ig_type *in = ig_infer_in(x, 0);
    int64_t ranks = ig_infer_int(x, IG_ATTR_ranks);
    check_ranks(x, ranks);
    if (in->rank < 1) ig_infer_fail(x, "a scalar has no element for each rank");
    ig_infer_unify(x, in->dim[0], ig_dim_const(x->dims, ranks), "dim 0 and number of ranks");
    x->out[0] = *in;
}

void ig_infer_broadcast_from(struct ig_infer *x) {
    int64_t ranks = ig_infer_int(x, IG_ATTR_ranks);
    check_ranks(x, ranks);
    check_rank(x, IG_ATTR_root, ranks);
    x->out[0] = *ig_infer_in(x, 0);
}
