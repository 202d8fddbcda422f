/* Rules of views and movement: spread to scatter; see rows_rule.h. */
#include "ir/rows/rows_rule.h"

/* iota and broadcast: whatever has no rows yet is the same in all of them, or is their number. */
bool ig_rows_spread(struct ig_rows *x) {
    const struct ig_type *to = ig_type_of(x->graph, x->node->out);
    x->out[0] = ig_rows_numbered(x, to);
    if (x->node->n_in == 0 || x->out[0].axis == IG_ROWS_NONE) return x->out[0].axis != IG_ROWS_NONE;
    const struct ig_type *from = ig_rows_type(x, 0);
    int own = x->out[0].axis - (to->rank - from->rank);
    if (x->in[0].axis == IG_ROWS_NONE) return own < 0 || ig_rows_is(x, from->dim[own], 1);
    x->out[0].inner = x->in[0].inner;
    return x->in[0].axis == own && ig_rows_same_size(x);
}

/* ---- Reshapes ---------------------------------------------------------------------------------------------------- */

static bool divides(const struct ig_rows *x, ig_dim b, ig_dim a) {
    return !ig_rows_is(x, b, 0) && (ig_rows_is(x, b, 1) || a == b || ig_dim_divides(x->graph->dims, b, a));
}

/* How often all rows are repeated: the elements of the axes before them times those before them in their own axis. */
static ig_dim repeats(const struct ig_rows *x, const struct ig_type *type, const struct ig_rows_at *at) {
    struct ig_dims *dims = x->graph->dims;
    ig_dim outer = ig_dim_div(dims, ig_rows_multiple(x, type->dim[at->axis]), at->inner);
    return ig_dim_mul(dims, ig_dim_product(dims, type->dim, at->axis), outer);
}

/* Rows stay what they are if they are repeated as often as before. Then each has as many elements as before, because
 * all together do. */
bool ig_rows_reshape(struct ig_rows *x) {
    const struct ig_type *from = ig_rows_type(x, 0), *to = ig_type_of(x->graph, x->node->out);
    struct ig_dims *dims = x->graph->dims;
    struct ig_rows_at result = ig_rows_numbered(x, to);
    if (x->in[0].axis == IG_ROWS_NONE || result.axis == IG_ROWS_NONE || result.inner == IG_DIM_NONE) return false;
    ig_dim wanted = repeats(x, from, &x->in[0]), before = ig_dim_product(dims, to->dim, result.axis), k = result.inner;
    if (!divides(x, before, wanted)) return false;
    ig_dim outer = ig_dim_div(dims, wanted, before);
    if (!divides(x, outer, k)) return false;
    result.inner = ig_dim_div(dims, k, outer);
    x->out[0] = result;
    return ig_dim_mul(dims, outer, result.inner) == k && repeats(x, to, &result) == wanted;
}

/* ---- Other views ------------------------------------------------------------------------------------------------- */

bool ig_rows_transpose(struct ig_rows *x) {
    const int64_t *perm = ig_attr(x->graph, x->node, IG_ATTR_perm)->ints;
    x->out[0].inner = x->in[0].inner;
    for (int i = 0; i < ig_rows_type(x, 0)->rank; i++) {
        if (perm[i] == x->in[0].axis) x->out[0].axis = i;
    }
    return true;
}

/* All rows in their order, and anything of the other axes; or as many elements of a table as there are rows. */
bool ig_rows_slice(struct ig_rows *x) {
    int axis = x->in[0].axis;
    x->out[0] = axis == IG_ROWS_NONE ? ig_rows_numbered(x, ig_type_of(x->graph, x->node->out)) : x->in[0];
    return axis == IG_ROWS_NONE || (ig_rows_is(x, ig_attr(x->graph, x->node, IG_ATTR_starts)->dims[axis], 0) &&
                                    ig_attr(x->graph, x->node, IG_ATTR_steps)->ints[axis] == 1 && ig_rows_same_size(x));
}

bool ig_rows_pad(struct ig_rows *x) {
    int axis = x->in[0].axis;
    x->out[0] = x->in[0];
    return axis != IG_ROWS_NONE && ig_rows_is(x, ig_attr(x->graph, x->node, IG_ATTR_before)->dims[axis], 0) &&
           ig_rows_is(x, ig_attr(x->graph, x->node, IG_ATTR_after)->dims[axis], 0);
}

bool ig_rows_concat(struct ig_rows *x) {
    x->out[0] = x->in[0];
    for (uint32_t i = 1; i < x->node->n_in; i++) {
        if (x->in[i].axis != x->in[0].axis) return false;
    }
    return x->in[0].axis != ig_attr_int(x->graph, x->node, IG_ATTR_axis) && ig_rows_same_size(x);
}

/* ---- Indices -----------------------------------------------------------------------------------------------------
 *
 * Either the data have rows, along an axis that is not indexed, or the indices, or both: then data and indices lie in
 * the same row, because they have it along a common axis, or because the indices say so.
 */

bool ig_rows_gather(struct ig_rows *x) {
    int axis = (int)ig_attr_int(x->graph, x->node, IG_ATTR_axis), data = x->in[0].axis;
    if (x->in[1].axis != IG_ROWS_NONE) {
        x->out[0] = x->in[1];
        x->out[0].axis += axis;
        return data == IG_ROWS_NONE || (data == axis && ig_rows_stays(x, &x->in[1], ig_rows_type(x, 0), &x->in[0]));
    }
    x->out[0] = x->in[0];
    if (data > axis) x->out[0].axis += ig_rows_type(x, 1)->rank - 1;
    return data != axis;
}

bool ig_rows_gather_elements(struct ig_rows *x) {
    int axis = (int)ig_attr_int(x->graph, x->node, IG_ATTR_axis), data = x->in[0].axis, index = x->in[1].axis;
    x->out[0] = x->in[1];
    if (data == IG_ROWS_NONE) return index == axis;
    return data == index && data != axis && ig_rows_same_size(x);
}

/* The length of the index tuples, operand 1; a number, says inference. */
static int tuple_length(const struct ig_rows *x) {
    const struct ig_type *tuples = ig_rows_type(x, 1);
    int64_t length = 0;
    ig_dim_is_const(x->graph->dims, tuples->dim[tuples->rank - 1], &length);
    return (int)length;
}

/* Do the tuples stay in their rows by their number `place`, which indexes the axis of operand 0 that has the rows? That
 * is known of tuples put together from numbers. */
static bool tuples_stay(const struct ig_rows *x, int place) {
    const struct ig_node *tuples = ig_def_op(x->graph, x->node->in[1], IG_OP_concat);
    const struct ig_type *type = ig_rows_type(x, 1);
    if (!tuples || ig_attr_int(x->graph, tuples, IG_ATTR_axis) != type->rank - 1) return false;
    for (uint32_t i = 0; i < tuples->n_in; i++) {
        const struct ig_type *part = ig_type_of(x->graph, tuples->in[i]);
        int64_t width = 0;
        ig_dim_is_const(x->graph->dims, part->dim[part->rank - 1], &width);
        if (place < width) return ig_rows_stays(x, &x->at[tuples->in[i]], ig_rows_type(x, 0), &x->in[0]);
        place -= (int)width;
    }
    return false;
}

bool ig_rows_gather_nd(struct ig_rows *x) {
    int batch = (int)ig_attr_int(x->graph, x->node, IG_ATTR_batch_dims), length = tuple_length(x);
    int data = x->in[0].axis, index = x->in[1].axis, rank = ig_rows_type(x, 1)->rank;
    if (index == IG_ROWS_NONE) {
        x->out[0] = x->in[0];
        x->out[0].axis += rank - 1 - batch - length;
        return data >= batch + length;
    }
    x->out[0] = x->in[1];
    if (index == rank - 1) return false;
    if (index < batch) return data == index && ig_rows_same_size(x);
    return data == IG_ROWS_NONE || (data >= batch && data < batch + length && tuples_stay(x, data - batch));
}

bool ig_rows_scatter_elements(struct ig_rows *x) {
    int axis = x->in[0].axis;
    x->out[0] = x->in[0];
    return axis != IG_ROWS_NONE && axis != ig_attr_int(x->graph, x->node, IG_ATTR_axis) && x->in[1].axis == axis &&
           x->in[2].axis == axis && ig_rows_same_size(x);
}

/* Each tuple writes to all rows, where the axis that has them is not indexed; else to its own. */
bool ig_rows_scatter_nd(struct ig_rows *x) {
    int length = tuple_length(x), rank = ig_rows_type(x, 1)->rank;
    struct ig_rows_at data = x->in[0], index = x->in[1], updates = x->in[2];
    x->out[0] = data;
    if (data.axis == IG_ROWS_NONE) return false;
    if (data.axis >= length)
        return index.axis == IG_ROWS_NONE && updates.axis == rank - 1 + data.axis - length && ig_rows_same_size(x);
    return index.axis != IG_ROWS_NONE && index.axis != rank - 1 && index.axis == updates.axis &&
           index.inner == updates.inner && ig_rows_type(x, 1)->dim[index.axis] == ig_rows_type(x, 2)->dim[index.axis] &&
           tuples_stay(x, data.axis);
}
