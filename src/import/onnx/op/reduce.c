/*
 * Reductions, argmax and argmin. f16 and bf16 are summed in f32. The axes are an attribute in old opsets and an input
 * in new ones; a core reduction keeps reduced axes with size 1, ONNX does so where keepdims.
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

struct reduction {
    int count; /* of axes; 0: nothing is reduced */
    int64_t axes[INGOT_MAX_RANK];
    bool keep;
};

/* Without axes, all are reduced, or none if noop_with_empty_axes. */
static struct reduction read_reduction(struct ig_onnx_node *n, int rank) {
    struct reduction r = {.keep = ig_onnx_flag(n, "keepdims", true)};
    r.count = ig_onnx_axes(n, 1, rank, r.axes);
    if (r.count > 0) return r;
    r.count = 0;
    if (ig_onnx_flag(n, "noop_with_empty_axes", false)) return r;
    for (int i = 0; i < rank; i++)
        r.axes[r.count++] = i;
    return r;
}

static ig_value reduce(struct ig_onnx_node *n, enum ig_op op, ig_value x, const struct reduction *r) {
    return r->count ? ig_build_reduce(n->g, op, x, r->axes, r->count) : x;
}

/* Casts back to the operand's type, and drops the reduced axes unless keepdims. */
static ig_value finish(struct ig_onnx_node *n, ig_value y, const struct reduction *r) {
    y = ig_build_cast(n->g, y, ig_onnx_type(n, n->in[0]));
    if (r->keep || r->count == 0) return y;
    int axes[INGOT_MAX_RANK];
    for (int i = 0; i < r->count; i++)
        axes[i] = (int)r->axes[i];
    return ig_build_squeeze(n->g, y, axes, r->count);
}

ig_value ig_import_reduce(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct reduction r = read_reduction(n, ig_onnx_rank(n, x));
    /* The maximum and minimum of bools are any and all. */
    if (ig_onnx_type(n, x) == INGOT_BOOL) x = ig_build_cast(n->g, x, INGOT_U8);
    return finish(n, reduce(n, (enum ig_op)n->op->arg, x, &r), &r);
}

/* The mean of integers truncates. */
ig_value ig_import_reduce_mean(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct reduction r = read_reduction(n, ig_onnx_rank(n, x));
    if (ig_dtype_is_float(ig_onnx_type(n, x))) return finish(n, reduce(n, IG_OP_reduce_mean, x, &r), &r);
    ig_dim count = ig_dim_const(n->dims, 1);
    for (int i = 0; i < r.count; i++)
        count = ig_dim_mul(n->dims, count, ig_onnx_dim(n, x, (int)r.axes[i]));
    ig_value divisor = ig_build_cast(n->g, ig_build_shape_scalar(n->g, count), ig_onnx_type(n, x));
    return finish(n, ig_div(n->g, reduce(n, IG_OP_reduce_sum, x, &r), divisor), &r);
}

/* log(sum(exp(x))), shifted by the maximum so that exp cannot overflow; not shifted if the maximum is infinite. */
static ig_value log_sum_exp(struct ig_onnx_node *n, ig_value x, const struct reduction *r) {
    struct ig_graph *g = n->g;
    if (r->count == 0) return x;
    ig_value top = reduce(n, IG_OP_reduce_max, x, r);
    ig_value shift = ig_build_where(g, ig_map1(g, IG_OP_isinf, top), ig_like(g, top, 0), top);
    ig_value sum = reduce(n, IG_OP_reduce_sum, ig_exp(g, ig_sub(g, x, shift)), r);
    return ig_add(g, ig_log(g, sum), shift);
}

ig_value ig_import_reduce_composed(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_wide(n, ig_onnx_in(n, 0));
    struct reduction r = read_reduction(n, ig_onnx_rank(n, x));
    enum ig_onnx_reduction kind = (enum ig_onnx_reduction)n->op->arg;
    bool integers = !ig_dtype_is_float(ig_onnx_type(n, x));
    /* Roots and logarithms of integers are computed in f64. */
    if (integers && kind >= IG_SUM_L2) x = ig_build_cast(g, x, INGOT_F64);
    ig_value y;
    switch (kind) {
    case IG_SUM_ABS: y = reduce(n, IG_OP_reduce_sum, ig_abs(g, x), &r); break;
    case IG_SUM_SQUARES: y = reduce(n, IG_OP_reduce_sum, ig_mul(g, x, x), &r); break;
    case IG_SUM_L2: y = ig_sqrt(g, reduce(n, IG_OP_reduce_sum, ig_mul(g, x, x), &r)); break;
    case IG_LOG_SUM: y = ig_log(g, reduce(n, IG_OP_reduce_sum, x, &r)); break;
    default: y = log_sum_exp(n, x, &r); break;
    }
    return finish(n, y, &r);
}

ig_value ig_import_arg_reduce(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x);
    ig_onnx_check_rank(n, x, 1, INGOT_MAX_RANK, "input 0");
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), rank);
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_int(ig_onnx_flag(n, "select_last_index", false))};
    ig_value y = ig_build_node(n->g, (enum ig_op)n->op->arg, &x, 1, 1, attrs, NULL);
    return ig_onnx_flag(n, "keepdims", true) ? y : ig_build_squeeze(n->g, y, &axis, 1);
}

static ig_value cumulate(struct ig_onnx_node *n, ig_value x, int axis) {
    struct ig_attr attrs[] = {
        ig_attr_of_int(axis),
        ig_attr_of_int(ig_onnx_flag(n, "exclusive", false)),
        ig_attr_of_int(ig_onnx_flag(n, "reverse", false)),
    };
    return ig_build_node(n->g, (enum ig_op)n->op->arg, &x, 1, 1, attrs, NULL);
}

/* Input 1 is the axis. If it is known only at run time, all axes are computed and one result is selected. */
ig_value ig_import_cumulate(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), given = ig_onnx_in(n, 1);
    int rank = ig_onnx_rank(n, x), count;
    int64_t axis;
    ig_onnx_check_rank(n, x, 1, INGOT_MAX_RANK, "input 0");
    if (ig_const_ints(g, given, &axis, 1, &count) && count == 1) {
        return cumulate(n, x, ig_onnx_axis(n, axis, rank));
    }
    given = ig_build_reshape(g, ig_build_cast(g, given, INGOT_I64), NULL, 0);
    given = ig_mod(g, given, ig_build_scalar_int(g, INGOT_I64, rank));
    ig_value y = cumulate(n, x, 0);
    for (int i = 1; i < rank; i++) {
        ig_value chosen = ig_eq(g, given, ig_build_scalar_int(g, INGOT_I64, i));
        y = ig_build_where(g, chosen, cumulate(n, x, i), y);
    }
    return y;
}
