/*
 * From graph to expressions: see lower.h. One function per view operator, in a table by operator; elementwise operators
 * map one to one. Every load built here is safe wherever the loops around its variables run: indices that are data or
 * may be out of range are clamped first, and inputs that may be empty are marked.
 */
#include "kernel/lower.h"

#include <string.h>

#include "base/map.h"
#include "ir/build.h"
#include "ir/place.h"
#include "kernel/affine.h"

/* ---- Setting up -------------------------------------------------------------------------------------------------- */

void ig_lower_init(struct ig_lower *lower, struct ig_loops *loops, struct ig_graph *graph,
                   const struct ig_region *region) {
    struct ig_job *job = loops->job;
    lower->loops = loops;
    lower->graph = graph;
    lower->region = region;
    lower->buffer_of = IG_NEW_ARRAY(job, int, graph->values.count);
    lower->is_input = IG_NEW_ARRAY(job, bool, graph->values.count);
    lower->depth = 0;
    for (uint32_t i = 0; i < graph->values.count; i++)
        lower->buffer_of[i] = -1;
    int param = 0;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        if (ig_is_literal(graph, v)) continue;
        lower->is_input[v] = true;
        lower->buffer_of[v] =
            ig_loops_param(loops, param, ig_type_of(graph, v)->dtype, false, ig_format(job, "x%d", param));
        loops->buffers.at[lower->buffer_of[v]].constant = ig_info(graph, v)->is_const;
        param++;
    }
    for (uint32_t i = 0; i < region->outputs.count; i++) {
        ig_value v = region->outputs.at[i];
        int buffer = ig_loops_param(loops, param++, ig_type_of(graph, v)->dtype, true, ig_format(job, "y%u", i));
        if (!lower->is_input[v]) lower->buffer_of[v] = buffer;
    }
}

/* ---- Positions --------------------------------------------------------------------------------------------------- */

static ig_x dim_x(struct ig_lower *l, ig_dim d) {
    return ig_x_dim(l->loops, d);
}

static ig_x index_const(struct ig_lower *l, int64_t i) {
    return ig_x_index(l->loops, i);
}

static bool is_dim(struct ig_lower *l, ig_dim d, int64_t value) {
    int64_t n;
    return ig_dim_is_const(l->graph->dims, d, &n) && n == value;
}

static ig_x linear_of(struct ig_lower *l, const ig_dim *dims, int rank, const ig_x *index) {
    struct ig_loops *k = l->loops;
    ig_x sum = index_const(l, 0);
    ig_dim stride = ig_dim_const(k->dims, 1);
    for (int i = rank - 1; i >= 0; i--) {
        if (is_dim(l, dims[i], 1)) continue;
        sum = ig_x_add(k, sum, ig_x_mul(k, index[i], dim_x(l, stride)));
        stride = ig_dim_mul(k->dims, stride, dims[i]);
    }
    return sum;
}

static void split_linear(struct ig_lower *l, const ig_dim *dims, int rank, ig_x linear, ig_x *out_index) {
    struct ig_loops *k = l->loops;
    for (int i = rank - 1; i > 0; i--) {
        if (is_dim(l, dims[i], 1)) {
            out_index[i] = index_const(l, 0);
            continue;
        }
        /* If all dims before it have size 1, this dim takes the whole index. */
        bool leading = true;
        for (int j = 0; j < i; j++)
            leading = leading && is_dim(l, dims[j], 1);
        out_index[i] = leading ? linear : ig_x_mod(k, linear, dim_x(l, dims[i]));
        linear = leading ? index_const(l, 0) : ig_x_div(k, linear, dim_x(l, dims[i]));
    }
    if (rank > 0) out_index[0] = linear;
}

ig_x ig_lower_linear(struct ig_lower *lower, const struct ig_type *type, const ig_x *index) {
    return linear_of(lower, type->dim, type->rank, index);
}

void ig_lower_split(struct ig_lower *lower, const struct ig_type *type, ig_x linear, ig_x *out_index) {
    split_linear(lower, type->dim, type->rank, linear, out_index);
}

void ig_lower_reindex(struct ig_lower *l, const struct ig_type *from, const ig_x *index, const struct ig_type *to,
                      ig_x *out_index) {
    struct ig_dims *dims = l->graph->dims;
    int i = 0, j = 0;
    while (i < from->rank || j < to->rank) {
        int i0 = i, j0 = j;
        ig_dim a = ig_dim_const(dims, 1), b = a;
        if (i < from->rank) a = from->dim[i++];
        if (j < to->rank) b = to->dim[j++];
        while (a != b && (i < from->rank || j < to->rank)) {
            /* Extend the side whose product divides the other's; if neither does, both. */
            bool a_less = ig_dim_divides(dims, a, b), b_less = !a_less && ig_dim_divides(dims, b, a);
            bool grow_a = i < from->rank && (!b_less || j == to->rank);
            bool grow_b = j < to->rank && (!a_less || !grow_a);
            if (grow_a) a = ig_dim_mul(dims, a, from->dim[i++]);
            if (grow_b) b = ig_dim_mul(dims, b, to->dim[j++]);
        }
        ig_x linear = linear_of(l, from->dim + i0, i - i0, index + i0);
        split_linear(l, to->dim + j0, j - j0, linear, out_index + j0);
    }
}

/* Clamps an index to 0 … n-1. */
static ig_x clamped(struct ig_lower *l, ig_x index, ig_dim n) {
    struct ig_loops *k = l->loops;
    ig_x last = dim_x(l, ig_dim_sub(k->dims, n, ig_dim_const(k->dims, 1)));
    return ig_x_max(k, ig_x_min(k, index, last), index_const(l, 0));
}

/* ---- Leaves ------------------------------------------------------------------------------------------------------ */

static ig_x literal(struct ig_lower *l, ig_value v) {
    const struct ig_value_info *info = ig_info(l->graph, v);
    enum ingot_dtype dtype = info->type.dtype;
    if (!info->is_const) return dim_x(l, info->elements[0]);
    struct ingot_tensor t = ig_const_tensor(l->graph, v);
    ig_x x = ig_dtype_is_float(dtype) ? ig_x_float(l->loops, dtype, ig_load_f64(dtype, t.data, 0))
                                      : ig_x_int(l->loops, dtype, ig_load_i64(dtype, t.data, 0));
    ig_const_release(l->graph, v, &t);
    return x;
}

/* An element of a small value whose contents are known symbolically: a chain of selects. */
static ig_x known_element(struct ig_lower *l, ig_value v, const ig_x *index) {
    const struct ig_value_info *info = ig_info(l->graph, v);
    struct ig_loops *k = l->loops;
    ig_x at = ig_lower_linear(l, &info->type, index);
    int64_t n = 1;
    for (int i = 0; i < info->type.rank; i++) {
        int64_t d;
        IG_ASSERT(k->job, ig_dim_is_const(k->dims, info->type.dim[i], &d));
        n *= d;
    }
    ig_x x = n > 0 ? dim_x(l, info->elements[n - 1]) : index_const(l, 0);
    for (int64_t i = n - 2; i >= 0; i--)
        x = ig_x_select(k, ig_x_less(k, at, index_const(l, i + 1)), dim_x(l, info->elements[i]), x);
    return ig_x_cast(k, x, info->type.dtype, false);
}

static ig_x load_input(struct ig_lower *l, ig_value v, const ig_x *index) {
    return ig_x_load(l->loops, l->buffer_of[v], ig_lower_linear(l, ig_type_of(l->graph, v), index));
}

/* Marks the inputs of v that may be empty: they are read at a clamped index even then, and the result is unused. */
static void mark_empty(struct ig_lower *l, ig_value v) {
    struct ig_loops *k = l->loops;
    if (l->is_input[v]) {
        ig_dim n = ig_type_elements(k->dims, ig_type_of(l->graph, v));
        int64_t lo, hi;
        ig_dim_range(k->dims, n, &lo, &hi);
        if (lo <= 0) k->buffers.at[l->buffer_of[v]].nothing = ig_x_less(k, dim_x(l, n), index_const(l, 1));
        return;
    }
    const struct ig_node *node = ig_info(l->graph, v)->is_const ? NULL : ig_def(l->graph, v);
    for (uint32_t i = 0; node && i < node->n_in; i++) {
        if (node->in[i] != IG_NO_VALUE) mark_empty(l, node->in[i]);
    }
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

typedef ig_x (*lower_fn)(struct ig_lower *l, const struct ig_node *n, const ig_x *index);

/* The index of an operand of type `from` that is broadcast to `to`, by NumPy's rule. */
static void broadcast_index(struct ig_lower *l, const struct ig_type *from, const struct ig_type *to, const ig_x *index,
                            ig_x *out_index) {
    for (int i = 0; i < from->rank; i++) {
        int j = i + to->rank - from->rank;
        out_index[i] = index[j];
        if (is_dim(l, from->dim[i], 1)) {
            out_index[i] = index_const(l, 0);
        } else if (ig_dim_equal(l->graph->dims, from->dim[i], to->dim[j]) != IG_YES) {
            out_index[i] = clamped(l, index[j], from->dim[i]); /* the dim may be 1 at run time */
        }
    }
}

static ig_x lower_broadcasting(struct ig_lower *l, const struct ig_type *to, ig_value v, const ig_x *index) {
    ig_x at[INGOT_MAX_RANK] = {0};
    broadcast_index(l, ig_type_of(l->graph, v), to, index, at);
    return ig_lower_value(l, v, at);
}

static ig_x lower_broadcast(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    return lower_broadcasting(l, ig_type_of(l->graph, n->out), n->in[0], index);
}

static ig_x lower_reshape(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    ig_x at[INGOT_MAX_RANK];
    ig_lower_reindex(l, ig_type_of(l->graph, n->out), index, ig_type_of(l->graph, n->in[0]), at);
    return ig_lower_value(l, n->in[0], at);
}

static ig_x lower_transpose(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    const struct ig_attr *perm = ig_attr(l->graph, n, IG_ATTR_perm);
    ig_x at[INGOT_MAX_RANK];
    for (int i = 0; i < perm->count; i++)
        at[perm->ints[i]] = index[i];
    return ig_lower_value(l, n->in[0], at);
}

static ig_x lower_slice(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    const struct ig_attr *starts = ig_attr(l->graph, n, IG_ATTR_starts), *steps = ig_attr(l->graph, n, IG_ATTR_steps);
    ig_x at[INGOT_MAX_RANK];
    for (int i = 0; i < starts->count; i++) {
        ig_x step = ig_x_mul(l->loops, index[i], index_const(l, steps->ints[i]));
        at[i] = ig_x_add(l->loops, dim_x(l, starts->dims[i]), step);
    }
    return ig_lower_value(l, n->in[0], at);
}

/* The position that padding by reflection reads: -1 -> 1, n -> n-2, reflected repeatedly if necessary. */
static ig_x reflected(struct ig_lower *l, ig_x at, ig_dim n, ig_dim before, ig_dim after) {
    struct ig_loops *k = l->loops;
    struct ig_dims *dims = k->dims;
    ig_dim one = ig_dim_const(dims, 1), two = ig_dim_const(dims, 2);
    ig_dim last = ig_dim_sub(dims, n, one);
    ig_x turned;
    if (ig_dim_less(dims, before, n) == IG_YES && ig_dim_less(dims, after, n) == IG_YES) {
        ig_x positive = ig_x_max(k, at, ig_x_sub(k, index_const(l, 0), at));
        turned = ig_x_min(k, positive, ig_x_sub(k, dim_x(l, ig_dim_mul(dims, two, last)), positive));
    } else {
        ig_dim period = ig_dim_max(dims, ig_dim_mul(dims, two, last), one);
        ig_dim shift = ig_dim_mul(dims, ig_dim_ceil_div(dims, before, period), period);
        ig_x phase = ig_x_mod(k, ig_x_add(k, at, dim_x(l, shift)), dim_x(l, period));
        turned = ig_x_min(k, phase, ig_x_sub(k, dim_x(l, period), phase));
    }
    return clamped(l, turned, n);
}

static ig_x wrapped_around(struct ig_lower *l, ig_x at, ig_dim n, ig_dim before) {
    struct ig_loops *k = l->loops;
    ig_dim size = ig_dim_max(k->dims, n, ig_dim_const(k->dims, 1));
    ig_dim shift = ig_dim_mul(k->dims, ig_dim_ceil_div(k->dims, before, size), size);
    return ig_x_mod(k, ig_x_add(k, at, dim_x(l, shift)), dim_x(l, size));
}

static ig_x pad_value(struct ig_lower *l, const struct ig_node *n) {
    ig_x zeros[INGOT_MAX_RANK];
    for (int i = 0; i < INGOT_MAX_RANK; i++)
        zeros[i] = index_const(l, 0);
    if (n->n_in > 1 && n->in[1] != IG_NO_VALUE) return ig_lower_value(l, n->in[1], zeros);
    enum ingot_dtype dtype = ig_type_of(l->graph, n->out)->dtype;
    return ig_dtype_is_float(dtype) ? ig_x_float(l->loops, dtype, 0) : ig_x_int(l->loops, dtype, 0);
}

static ig_x lower_pad(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    struct ig_loops *k = l->loops;
    const struct ig_attr *before = ig_attr(l->graph, n, IG_ATTR_before), *after = ig_attr(l->graph, n, IG_ATTR_after);
    const struct ig_type type = *ig_type_of(l->graph, n->in[0]);
    int64_t mode = ig_attr_int(l->graph, n, IG_ATTR_mode);
    ig_x inside = ig_x_int(k, INGOT_BOOL, 1), at[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        at[i] = ig_x_sub(k, index[i], dim_x(l, before->dims[i]));
        if (is_dim(l, before->dims[i], 0) && is_dim(l, after->dims[i], 0)) continue;
        if (mode == IG_PAD_CONSTANT) {
            ig_x not_before = ig_x_less(k, index_const(l, -1), at[i]);
            ig_x not_after = ig_x_less(k, at[i], dim_x(l, type.dim[i]));
            inside = ig_x_and(k, inside, ig_x_and(k, not_before, not_after));
        }
        if (mode == IG_PAD_REFLECT) {
            at[i] = reflected(l, at[i], type.dim[i], before->dims[i], after->dims[i]);
        } else if (mode == IG_PAD_WRAP) {
            at[i] = wrapped_around(l, at[i], type.dim[i], before->dims[i]);
        } else {
            at[i] = clamped(l, at[i], type.dim[i]);
        }
    }
    mark_empty(l, n->in[0]);
    ig_x value = ig_lower_value(l, n->in[0], at);
    return mode == IG_PAD_CONSTANT ? ig_x_select(k, inside, value, pad_value(l, n)) : value;
}

static ig_x lower_concat(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    struct ig_loops *k = l->loops;
    int64_t axis = ig_attr_int(l->graph, n, IG_ATTR_axis);
    ig_dim start = ig_type_of(l->graph, n->out)->dim[axis];
    ig_x result = IG_NO_X, at[INGOT_MAX_RANK];
    memcpy(at, index, (size_t)ig_type_of(l->graph, n->out)->rank * sizeof *at);
    for (int p = (int)n->n_in - 1; p >= 0; p--) {
        ig_dim size = ig_type_of(l->graph, n->in[p])->dim[axis], end = start;
        start = ig_dim_sub(k->dims, start, size);
        if (is_dim(l, size, 0)) continue;
        at[axis] = clamped(l, ig_x_sub(k, index[axis], dim_x(l, start)), size);
        mark_empty(l, n->in[p]);
        ig_x part = ig_lower_value(l, n->in[p], at);
        result = result == IG_NO_X ? part : ig_x_select(k, ig_x_less(k, index[axis], dim_x(l, end)), part, result);
    }
    if (result != IG_NO_X) return result;
    at[axis] = index_const(l, 0); /* all operands are empty: no element is ever read */
    return ig_lower_value(l, n->in[0], at);
}

/* An element of an index tensor as a safe position on an axis of size n: counted from the end if negative, and
 * clamped. */
static ig_x loaded_index(struct ig_lower *l, ig_value v, const ig_x *at, ig_dim n) {
    struct ig_loops *k = l->loops;
    ig_x i = ig_x_cast(k, ig_lower_value(l, v, at), INGOT_I64, false);
    ig_dim lo, hi;
    ig_x_bounds(k, i, &lo, &hi);
    bool negative = lo == IG_DIM_NONE || ig_dim_less(k->dims, lo, ig_dim_const(k->dims, 0)) != IG_NO;
    if (negative) i = ig_x_select(k, ig_x_less(k, i, index_const(l, 0)), ig_x_add(k, i, dim_x(l, n)), i);
    return clamped(l, i, n);
}

static ig_x lower_gather(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    int64_t axis = ig_attr_int(l->graph, n, IG_ATTR_axis);
    const struct ig_type data = *ig_type_of(l->graph, n->in[0]);
    int ranks = ig_type_of(l->graph, n->in[1])->rank;
    ig_x at[INGOT_MAX_RANK];
    for (int i = 0; i < axis; i++)
        at[i] = index[i];
    for (int i = (int)axis + 1; i < data.rank; i++)
        at[i] = index[i + ranks - 1];
    at[axis] = loaded_index(l, n->in[1], index + axis, data.dim[axis]);
    mark_empty(l, n->in[0]);
    return ig_lower_value(l, n->in[0], at);
}

static ig_x lower_gather_elements(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    int64_t axis = ig_attr_int(l->graph, n, IG_ATTR_axis);
    const struct ig_type data = *ig_type_of(l->graph, n->in[0]);
    ig_x at[INGOT_MAX_RANK];
    memcpy(at, index, (size_t)data.rank * sizeof *at);
    at[axis] = loaded_index(l, n->in[1], index, data.dim[axis]);
    mark_empty(l, n->in[0]);
    return ig_lower_value(l, n->in[0], at);
}

static ig_x lower_gather_nd(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    int64_t batch = ig_attr_int(l->graph, n, IG_ATTR_batch_dims), tuple = 0;
    const struct ig_type data = *ig_type_of(l->graph, n->in[0]), where = *ig_type_of(l->graph, n->in[1]);
    IG_ASSERT(l->loops->job, ig_dim_is_const(l->graph->dims, where.dim[where.rank - 1], &tuple));
    ig_x at[INGOT_MAX_RANK], from[INGOT_MAX_RANK];
    memcpy(from, index, (size_t)(where.rank - 1) * sizeof *from);
    for (int i = 0; i < data.rank; i++) {
        if (i < batch) {
            at[i] = index[i];
        } else if (i < batch + tuple) {
            from[where.rank - 1] = index_const(l, i - batch);
            at[i] = loaded_index(l, n->in[1], from, data.dim[i]);
        } else {
            at[i] = index[where.rank - 1 + i - batch - tuple];
        }
    }
    mark_empty(l, n->in[0]);
    return ig_lower_value(l, n->in[0], at);
}

/* ---- Elementwise ------------------------------------------------------------------------------------------------- */

static ig_x lower_where(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    const struct ig_type type = *ig_type_of(l->graph, n->out);
    ig_x condition = lower_broadcasting(l, &type, n->in[0], index);
    ig_x a = lower_broadcasting(l, &type, n->in[1], index);
    ig_x b = lower_broadcasting(l, &type, n->in[2], index);
    return ig_x_select(l->loops, condition, a, b);
}

static ig_x lower_cast(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    enum ingot_dtype to = (enum ingot_dtype)ig_attr_int(l->graph, n, IG_ATTR_to);
    ig_x a = ig_lower_value(l, n->in[0], index);
    if (to == ig_type_of(l->graph, n->in[0])->dtype) return a;
    return ig_x_cast(l->loops, a, to, ig_attr_int(l->graph, n, IG_ATTR_saturate) != 0);
}

static ig_x lower_iota(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    return index[ig_attr_int(l->graph, n, IG_ATTR_axis)];
}

/* One that is no input of the kernel, because its elements follow from their place. */
static ig_x lower_constant(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    int64_t first;
    int axis = ig_counted_axis(l->graph, n->out, &first);
    IG_ASSERT(l->loops->job, axis >= 0);
    ig_x counted = ig_x_add(l->loops, index[axis], ig_x_index(l->loops, first));
    return ig_x_cast(l->loops, counted, ig_type_of(l->graph, n->out)->dtype, false);
}

static ig_x lower_map(struct ig_lower *l, const struct ig_node *n, const ig_x *index) {
    const struct ig_type type = *ig_type_of(l->graph, n->out);
    ig_x a = lower_broadcasting(l, &type, n->in[0], index);
    if (n->n_in == 1) return ig_x_map1(l->loops, n->op, a);
    return ig_x_map2(l->loops, n->op, a, lower_broadcasting(l, &type, n->in[1], index));
}

static const lower_fn lowerings[IG_OP_COUNT] = {
    [IG_OP_broadcast] = lower_broadcast, [IG_OP_cast] = lower_cast,     [IG_OP_concat] = lower_concat,
    [IG_OP_constant] = lower_constant,   [IG_OP_gather] = lower_gather, [IG_OP_gather_elements] = lower_gather_elements,
    [IG_OP_gather_nd] = lower_gather_nd, [IG_OP_iota] = lower_iota,     [IG_OP_pad] = lower_pad,
    [IG_OP_reshape] = lower_reshape,     [IG_OP_slice] = lower_slice,   [IG_OP_transpose] = lower_transpose,
    [IG_OP_where] = lower_where,
};

/* ---- The recursion ----------------------------------------------------------------------------------------------- */

static ig_x lower_new(struct ig_lower *l, ig_value v, const ig_x *index) {
    if (ig_is_literal(l->graph, v)) return literal(l, v);
    if (l->is_input[v]) return load_input(l, v, index);
    const struct ig_node *n = ig_def(l->graph, v);
    IG_ASSERT(l->loops->job, n != NULL);
    if (n->op == IG_OP_shape) return known_element(l, v, index);
    const struct ig_node copy = *n; /* a copy: evaluating constants may append nodes */
    lower_fn fn = ig_op_info(n->op)->is_map ? lower_map : lowerings[n->op];
    if (!fn) {
        ig_raise(l->loops->job, INGOT_INTERNAL, "%s inside a kernel that has not computed it", ig_op_info(n->op)->name);
    }
    return fn(l, &copy, index);
}

ig_x ig_lower_value(struct ig_lower *l, ig_value v, const ig_x *index) {
    if (l->known) {
        ig_x x = l->known(l->user, v, index);
        if (x != IG_NO_X) return x;
    }
    /* Within one call a value at an index is lowered once, however many paths of the graph lead to it. */
    uint32_t key[1 + INGOT_MAX_RANK] = {v}, found;
    int rank = ig_type_of(l->graph, v)->rank;
    memcpy(key + 1, index, (size_t)rank * sizeof *index);
    size_t size = (size_t)(1 + rank) * sizeof *key;
    if (l->depth == 0) ig_map_init(&l->memo, l->loops->job);
    if (ig_map_get(&l->memo, key, size, &found)) return found;
    l->depth++;
    ig_x x = lower_new(l, v, index);
    l->depth--;
    ig_map_put(&l->memo, key, size, x);
    return x;
}
