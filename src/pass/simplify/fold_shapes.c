/*
 * fold-shapes: replaces integers computed from shapes by their symbolic expressions.
 *
 * Requires:   nothing. The builder has found the expressions (ir/build.h) while appending the nodes.
 * Guarantees: an i64 or i32 value whose elements are all known expressions is a constant if all are numbers, and
 *             otherwise a `shape` node, cast and reshaped as needed; the arithmetic that led to it is dead. Recipes of
 *             weights stay (see fold-constants).
 */
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/match.h"
#include "pass/passes.h"

enum { MAX_ELEMENTS = 4096 };

/* The number of elements of a value if all of them are known, else -1. */
static int known_elements(const struct ig_graph *g, const struct ig_value_info *info) {
    int64_t count = 1, dim;
    if (!info->elements || info->is_refittable) return -1;
    for (int i = 0; i < info->type.rank; i++) {
        if (!ig_dim_is_const(g->dims, info->type.dim[i], &dim) || dim > MAX_ELEMENTS) return -1;
        count *= dim;
        if (count > MAX_ELEMENTS) return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        if (info->elements[i] == IG_DIM_NONE) return -1;
    }
    return (int)count;
}

/* A constant of the value's elements, or IG_NO_VALUE if one of them is not a number. */
static ig_value numbers(struct ig_graph *g, const struct ig_value_info *info, int count) {
    size_t size = ingot_dtype_size(info->type.dtype);
    struct ig_data *data = IG_NEW(g->job, struct ig_data);
    void *bytes = ig_alloc(g->job, (size_t)count * size + 1);
    for (int i = 0; i < count; i++) {
        int64_t number;
        if (!ig_dim_is_const(g->dims, info->elements[i], &number)) return IG_NO_VALUE;
        ig_store_i64(info->type.dtype, bytes, i, number);
    }
    data->bytes = bytes;
    data->size = (size_t)count * size;
    int64_t dims[INGOT_MAX_RANK];
    ig_type_is_static(g->dims, &info->type, dims);
    return ig_build_constant(g, info->type.dtype, info->type.rank, dims, data);
}

static bool fold_node(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    const struct ig_value_info *info = ig_info(rw->in, n->out);
    int count = n->n_out == 1 && n->op != IG_OP_constant ? known_elements(rw->in, info) : -1;
    if (count < 0) return false;
    ig_value v = numbers(g, info, count);
    bool integer = info->type.dtype == INGOT_I64 || info->type.dtype == INGOT_I32;
    if (v == IG_NO_VALUE && (!integer || n->op == IG_OP_shape)) return false;
    if (v == IG_NO_VALUE && info->type.rank == 0) v = ig_build_shape_scalar(g, info->elements[0]);
    if (v == IG_NO_VALUE) v = ig_build_shape(g, info->elements, count);
    if (info->type.rank > 1) v = ig_build_reshape(g, v, info->type.dim, info->type.rank);
    out_values[0] = ig_build_cast(g, v, info->type.dtype);
    return true;
}

struct ig_graph *ig_pass_fold_shapes(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, fold_node, NULL);
}
