/*
 * Pattern matching on values of a graph under construction; see match.h.
 */
#include "pass/match.h"

#include <math.h>

#include "ir/eval/eval.h"
#include "pass/view/view.h"

bool ig_match_scalar(struct ig_graph *g, ig_value v, double *out_value) {
    const struct ig_node *wide;
    while (v != IG_NO_VALUE && (wide = ig_def_op(g, v, IG_OP_broadcast)))
        v = wide->in[0];
    return v != IG_NO_VALUE && ig_info(g, v)->is_const && ig_type_is_single(g->dims, ig_type_of(g, v)) &&
           ig_const_scalar(g, v, out_value);
}

bool ig_match_value(struct ig_graph *g, ig_value v, double value) {
    double d;
    return ig_match_scalar(g, v, &d) && d == value;
}

ig_value ig_scalar_like(struct ig_graph *g, ig_value like, double value) {
    return ig_build_scalar(g, ig_type_of(g, like)->dtype, value);
}

bool ig_match_unary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x) {
    const struct ig_node *n = ig_def_op(g, v, op);
    if (n) *out_x = n->in[0];
    return n != NULL;
}

bool ig_match_binary(const struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, ig_value *out_y) {
    const struct ig_node *n = ig_def_op(g, v, op);
    if (!n) return false;
    *out_x = n->in[0];
    *out_y = n->in[1];
    return true;
}

bool ig_match_with_scalar(struct ig_graph *g, ig_value v, enum ig_op op, ig_value *out_x, double *out_scalar) {
    ig_value x, y;
    if (!ig_match_binary(g, v, op, &x, &y)) return false;
    if (ig_match_scalar(g, y, out_scalar)) {
        *out_x = x;
        return true;
    }
    *out_x = y;
    return (op == IG_OP_add || op == IG_OP_mul) && ig_match_scalar(g, x, out_scalar);
}

ig_value ig_fit_result(struct ig_rewriter *rw, const struct ig_node *node, ig_value value) {
    const struct ig_type *want = ig_type_of(rw->in, node->out);
    const struct ig_type *have = ig_type_of(rw->out, value);
    if (want->dtype != have->dtype) return IG_NO_VALUE;
    if (ig_same_dims(want, have)) return value;
    return have->rank <= want->rank ? ig_build_broadcast(rw->out, value, want->dim, want->rank) : IG_NO_VALUE;
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------ */

struct bounds {
    double lo, hi;
};
static const struct bounds anything = {-INFINITY, INFINITY};

static struct bounds find_bounds(struct ig_graph *g, ig_value v, int depth);

static struct bounds bounds_of_dtype(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_BOOL: return (struct bounds){0, 1};
    case INGOT_U8: return (struct bounds){0, UINT8_MAX};
    case INGOT_I8: return (struct bounds){INT8_MIN, INT8_MAX};
    case INGOT_U16: return (struct bounds){0, UINT16_MAX};
    case INGOT_I16: return (struct bounds){INT16_MIN, INT16_MAX};
    case INGOT_U32: return (struct bounds){0, UINT32_MAX};
    case INGOT_I32: return (struct bounds){INT32_MIN, INT32_MAX};
    case INGOT_U64: return (struct bounds){0, INFINITY};
    default: return anything;
    }
}

static struct bounds bounds_of_elements(const struct ig_graph *g, const struct ig_value_info *info) {
    int64_t count = 1, lo, hi, dim;
    struct bounds b = {INFINITY, -INFINITY};
    for (int i = 0; i < info->type.rank; i++) {
        if (!ig_dim_is_const(g->dims, info->type.dim[i], &dim)) return anything;
        count *= dim;
    }
    for (int64_t i = 0; i < count; i++) {
        if (info->elements[i] == IG_DIM_NONE) return anything;
        ig_dim_range(g->dims, info->elements[i], &lo, &hi);
        b.lo = fmin(b.lo, lo == INT64_MIN ? -INFINITY : (double)lo);
        b.hi = fmax(b.hi, hi == INT64_MAX ? INFINITY : (double)hi);
    }
    return count > 0 ? b : anything;
}

/* Weights may be replaced, whatever they are now. Indices and flags belong to the model's logic. */
static bool decides_bounds(const struct ig_value_info *info) {
    return !info->is_refittable || info->type.dtype == INGOT_I64 || info->type.dtype == INGOT_BOOL;
}

static struct bounds bounds_of_node(struct ig_graph *g, const struct ig_node *n, int depth) {
    struct bounds a = anything, b = anything;
    ig_value in[2] = {n->n_in > 0 ? n->in[0] : IG_NO_VALUE, n->n_in > 1 ? n->in[1] : IG_NO_VALUE};
    if (in[0] != IG_NO_VALUE) a = find_bounds(g, in[0], depth - 1);
    if (in[1] != IG_NO_VALUE) b = find_bounds(g, in[1], depth - 1);
    switch (n->op) {
    case IG_OP_normcdf:
    case IG_OP_sigmoid: return (struct bounds){0, 1};
    case IG_OP_tanh:
    case IG_OP_sin:
    case IG_OP_cos:
    case IG_OP_erf:
    case IG_OP_sign: return (struct bounds){-1, 1};
    case IG_OP_exp:
    case IG_OP_iota: return (struct bounds){0, INFINITY};
    case IG_OP_sqrt: return (struct bounds){a.lo > 0 ? sqrt(a.lo) : 0, INFINITY};
    case IG_OP_abs: return (struct bounds){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, INFINITY};
    case IG_OP_add: return (struct bounds){a.lo + b.lo, a.hi + b.hi};
    case IG_OP_reduce_sum:
    case IG_OP_reduce_mean: return a.lo >= 0 ? (struct bounds){0, INFINITY} : anything;
    case IG_OP_mul: return in[0] == in[1] || (a.lo >= 0 && b.lo >= 0) ? (struct bounds){0, INFINITY} : anything;
    case IG_OP_max: return (struct bounds){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case IG_OP_min: return (struct bounds){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    case IG_OP_round: return (struct bounds){nearbyint(a.lo), nearbyint(a.hi)};
    case IG_OP_reshape:
    case IG_OP_transpose:
    case IG_OP_broadcast:
    case IG_OP_slice:
    case IG_OP_gather: return a;
    default: return anything;
    }
}

static struct bounds find_bounds(struct ig_graph *g, ig_value v, int depth) {
    struct ig_value_info info = *ig_info(g, v);
    double scalar;
    if (ig_match_scalar(g, v, &scalar)) return isnan(scalar) ? anything : (struct bounds){scalar, scalar};
    if (info.elements && decides_bounds(&info)) {
        ig_const_decides(g, v);
        return bounds_of_elements(g, &info);
    }
    const struct ig_node *n = ig_def(g, v);
    struct bounds b = n && depth > 0 ? bounds_of_node(g, n, depth) : anything;
    bool is_float = ig_dtype_is_float(info.type.dtype);
    if (n && is_float && n->op == IG_OP_cast) b = bounds_of_dtype(ig_type_of(g, n->in[0])->dtype);
    /* Integer arithmetic may wrap. */
    bool wraps = n && ig_op_info(n->op)->is_map && n->op != IG_OP_min && n->op != IG_OP_max && n->op != IG_OP_iota;
    if (wraps && !is_float) b = anything;
    if (n && !is_float && n->op == IG_OP_reduce_sum) b = anything;
    struct bounds type = bounds_of_dtype(info.type.dtype);
    return (struct bounds){fmax(b.lo, type.lo), fmin(b.hi, type.hi)};
}

void ig_value_bounds(struct ig_graph *g, ig_value v, double *out_lo, double *out_hi) {
    struct bounds b = find_bounds(g, v, 8);
    *out_lo = b.lo;
    *out_hi = b.hi;
}
