/* Sharding rules of gathers, by what is not indexed, by the indices, or by ranges of what is indexed; see rule.h. */
#include "ir/build.h"
#include "pass/shard/rule.h"

/* The data's axis, or the indices', which the given axis is: the other is WHOLE. */
static bool divide_gather(struct ig_rule *x, int data_axis, int index_axis, int result_axis) {
    if (data_axis >= 0) x->in[0] = ig_rule_at(x, data_axis);
    if (index_axis >= 0) x->in[1] = ig_rule_at(x, index_axis);
    x->out[0] = ig_rule_at(x, result_axis);
    return (data_axis < 0 || ig_rule_fits(x, ig_rule_in(x, 0), data_axis)) &&
           (index_axis < 0 || ig_rule_fits(x, ig_rule_in(x, 1), index_axis)) &&
           ig_rule_fits(x, ig_rule_out(x, 0), result_axis);
}

/* The gathered axis: each rank has what its range of it gives. Ranges must be known, and none be empty, so that there is something
 * to read; booleans are not summed. */
static bool divide_table(struct ig_rule *x) {
    const enum ingot_dtype dtype = ig_rule_in(x, 0)->dtype;
    if (!ig_reduction_has(dtype) || dtype == INGOT_BOOL) return false;
    if (!ig_rule_is(x, x->given.outer, 1) || !ig_dim_is_const(x->dims, x->given.count, NULL) ||
        !ig_dim_is_const(x->dims, x->given.inner, NULL))
        return false;
    x->in[0] = x->given;
    x->out[0] = ig_layout_partial(IG_REDUCE_SUM);
    return true;
}

bool ig_rule_gather(struct ig_rule *x) {
    int axis = (int)ig_attr_int(x->graph, x->node, IG_ATTR_axis), more = ig_rule_in(x, 1)->rank - 1;
    int at = x->given.axis;
    if (ig_rule_is_in(x, 1)) return divide_gather(x, -1, at, axis + at);
    if (ig_rule_is_in(x, 0) && at == axis) return divide_table(x);
    if (ig_rule_is_in(x, 0)) return divide_gather(x, at, -1, at < axis ? at : at + more);
    if (at < axis) return divide_gather(x, at, -1, at);
    if (at <= axis + more) return divide_gather(x, -1, at - axis, at);
    return divide_gather(x, at - more, -1, at);
}

/* index op a number of its type */
static ig_value with_number(struct ig_graph *g, enum ig_op op, ig_value index, int64_t number) {
    return ig_map2(g, op, index, ig_build_scalar_int(g, ig_type_of(g, index)->dtype, number));
}

/* Indices are resolved in the whole axis, as a gather does, before they become the range's. What is added to an element elsewhere is
 * -0, which leaves all its bits. */
ig_value ig_shard_gather_range(struct ig_graph *to, ig_value range, ig_value index, int axis, int64_t whole,
                               int64_t begin) {
    const struct ig_type part = *ig_type_of(to, range);
    const int after = part.rank - 1 - axis;
    int64_t size;
    IG_ASSERT(to->job, ig_dim_is_const(to->dims, part.dim[axis], &size) && size > 0);
    ig_value is_negative = with_number(to, IG_OP_lt, index, 0);
    index = ig_build_where(to, is_negative, with_number(to, IG_OP_add, index, whole), index);
    index = with_number(to, IG_OP_min, with_number(to, IG_OP_max, index, 0), whole - 1);
    index = with_number(to, IG_OP_sub, index, begin);
    ig_value from = ig_map1(to, IG_OP_not, with_number(to, IG_OP_lt, index, 0));
    ig_value has = ig_map2(to, IG_OP_and, from, with_number(to, IG_OP_lt, index, size));
    const struct ig_type of_index = *ig_type_of(to, index);
    ig_dim dims[INGOT_MAX_RANK + 1];
    for (int i = 0; i < of_index.rank; i++)
        dims[i] = of_index.dim[i];
    for (int i = 0; i < after; i++)
        dims[of_index.rank + i] = ig_dim_const(to->dims, 1);
    has = ig_build_reshape(to, has, dims, of_index.rank + after);
    return ig_build_where(to, has, ig_build_gather(to, range, index, axis), ig_build_scalar(to, part.dtype, -0.0));
}

/* Beside its axis, elements are taken from the data at the indices' own places. */
bool ig_rule_gather_elements(struct ig_rule *x) {
    int axis = (int)ig_attr_int(x->graph, x->node, IG_ATTR_axis), at = x->given.axis;
    if (at == axis) return !ig_rule_is_in(x, 0) && divide_gather(x, -1, at, at);
    return divide_gather(x, at, at, at);
}

bool ig_rule_gather_nd(struct ig_rule *x) {
    int batch = (int)ig_attr_int(x->graph, x->node, IG_ATTR_batch_dims), at = x->given.axis;
    const struct ig_type *index = ig_rule_in(x, 1);
    int64_t length;
    if (!ig_dim_is_const(x->dims, index->dim[index->rank - 1], &length)) return false;
    int first = batch + (int)length, result_first = index->rank - 1; /* of what is not indexed */
    if (at < batch) return divide_gather(x, at, at, at);
    if (ig_rule_is_in(x, 0)) return at >= first && divide_gather(x, at, -1, at - first + result_first);
    if (at < result_first) return divide_gather(x, -1, at, at);
    return x->slot.is_result && divide_gather(x, at - result_first + first, -1, at);
}
