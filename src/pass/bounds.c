/*
 * Interval analysis; see bounds.h. One function says what each operator does to the bounds of its operands. Bounds of sums
 * and of functions leave some room for rounding; all others are kept by rounding, which is monotonic.
 */
#include "pass/bounds.h"

#include <math.h>

#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/match.h"

static const struct ig_bounds anything = {-INFINITY, INFINITY};

/* What rounding may add to a bound, as a share. */
#define SLACK 1e-5

double ig_bounds_most(struct ig_bounds b) {
    return fmax(fabs(b.lo), fabs(b.hi));
}

double ig_bounds_least(struct ig_bounds b) {
    return b.lo > 0 ? b.lo : b.hi < 0 ? -b.hi : 0;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static struct ig_bounds bounds_of_dtype(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_BOOL: return (struct ig_bounds){0, 1};
    case INGOT_U8: return (struct ig_bounds){0, UINT8_MAX};
    case INGOT_I8: return (struct ig_bounds){INT8_MIN, INT8_MAX};
    case INGOT_U16: return (struct ig_bounds){0, UINT16_MAX};
    case INGOT_I16: return (struct ig_bounds){INT16_MIN, INT16_MAX};
    case INGOT_U32: return (struct ig_bounds){0, UINT32_MAX};
    case INGOT_I32: return (struct ig_bounds){INT32_MIN, INT32_MAX};
    case INGOT_U64: return (struct ig_bounds){0, INFINITY};
    default: return anything;
    }
}

static struct ig_bounds bounds_of_elements(const struct ig_graph *g, const struct ig_value_info *info) {
    int64_t count = 1, lo, hi, dim;
    struct ig_bounds b = {INFINITY, -INFINITY};
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

/* ---- Operators --------------------------------------------------------------------------------------------------- */

static struct ig_bounds widened(double lo, double hi) {
    return (struct ig_bounds){lo - SLACK * fabs(lo), hi + SLACK * fabs(hi)};
}

static struct ig_bounds join(struct ig_bounds a, struct ig_bounds b) {
    return (struct ig_bounds){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

/* Of a function that never falls. */
static struct ig_bounds rising(double (*f)(double), struct ig_bounds a) {
    return widened(f(a.lo), f(a.hi));
}

static struct ig_bounds of_sum(struct ig_bounds a, struct ig_bounds b) {
    double lo = a.lo + b.lo, hi = a.hi + b.hi;
    return (struct ig_bounds){isnan(lo) ? -INFINITY : lo, isnan(hi) ? INFINITY : hi};
}

/* A product of bounds, where an unbounded factor of zero gives zero. */
static double times(double a, double b) {
    return a == 0 || b == 0 ? 0 : a * b;
}

static struct ig_bounds of_product(struct ig_bounds a, struct ig_bounds b) {
    double p[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
    return (struct ig_bounds){fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3]))};
}

static struct ig_bounds of_square(struct ig_bounds a) {
    double least = ig_bounds_least(a), most = ig_bounds_most(a);
    return (struct ig_bounds){least * least, most * most};
}

/* A share of a sum of numbers that are not negative: a / sum(a), or a * (1 / sum(a)). */
static bool is_share(struct ig_graph *g, const struct ig_node *n, struct ig_bounds a) {
    double one;
    ig_value sum = n->in[1];
    const struct ig_node *wide;
    if (a.lo < 0) return false;
    if (n->op == IG_OP_mul) {
        const struct ig_node *reciprocal = ig_def_op(g, sum, IG_OP_broadcast);
        reciprocal = ig_def_op(g, reciprocal ? reciprocal->in[0] : sum, IG_OP_div);
        if (!reciprocal || !ig_match_scalar(g, reciprocal->in[0], &one) || one != 1) return false;
        sum = reciprocal->in[1];
    }
    if ((wide = ig_def_op(g, sum, IG_OP_broadcast))) sum = wide->in[0];
    const struct ig_node *reduce = ig_def_op(g, sum, IG_OP_reduce_sum);
    return reduce && reduce->in[0] == n->in[0];
}

static struct ig_bounds of_quotient(struct ig_bounds a, struct ig_bounds b) {
    if (ig_bounds_least(b) == 0) return a.lo >= 0 && b.lo >= 0 ? (struct ig_bounds){0, INFINITY} : anything;
    return of_product(a, (struct ig_bounds){1 / b.hi, 1 / b.lo});
}

/* How many elements make one of the result; 0: not known. */
static double reduced_elements(struct ig_graph *g, const struct ig_node *n) {
    int64_t all, kept;
    bool known = ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, n->in[0])), &all) &&
                 ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, n->out)), &kept);
    return known && kept > 0 ? (double)all / (double)kept : 0;
}

/* Matches the sum of exp(x - max(x)) over a row. */
static bool is_softmax_sum(const struct ig_graph *g, ig_value v) {
    ig_value x, y, z;
    return ig_match_unary(g, v, IG_OP_reduce_sum, &x) && ig_match_unary(g, x, IG_OP_exp, &y) &&
           ig_match_binary(g, y, IG_OP_sub, &x, &z) && ig_match_unary(g, z, IG_OP_reduce_max, &y) && x == y;
}

static struct ig_bounds of_reduced_sum(struct ig_graph *g, const struct ig_node *n, struct ig_bounds a) {
    double count = reduced_elements(g, n);
    struct ig_bounds b = {a.lo >= 0 ? 0 : -INFINITY, a.hi <= 0 ? 0 : INFINITY};
    if (count > 0) b = widened(times(a.lo, count), times(a.hi, count));
    if (is_softmax_sum(g, n->out)) b.lo = fmax(b.lo, 1 - SLACK);
    return b;
}

static struct ig_bounds of_iota(struct ig_graph *g, const struct ig_node *n) {
    const struct ig_type *t = ig_type_of(g, n->out);
    int64_t lo, hi;
    ig_dim_range(g->dims, t->dim[ig_attr_int(g, n, IG_ATTR_axis)], &lo, &hi);
    return (struct ig_bounds){0, hi == INT64_MAX ? INFINITY : fmax(0, (double)hi - 1)};
}

/* Padding is zero, or a value. */
static struct ig_bounds of_pad(const struct ig_node *n, struct ig_bounds a, struct ig_bounds b) {
    bool has_value = n->n_in > 1 && n->in[1] != IG_NO_VALUE;
    return join(a, has_value ? b : (struct ig_bounds){0, 0});
}

/* Of an elementwise operator, from the bounds of its operands. */
static struct ig_bounds of_map(struct ig_graph *g, const struct ig_node *n, struct ig_bounds a, struct ig_bounds b) {
    switch (n->op) {
    case IG_OP_normcdf:
    case IG_OP_sigmoid: return (struct ig_bounds){0, 1};
    case IG_OP_tanh:
    case IG_OP_sin:
    case IG_OP_cos:
    case IG_OP_erf:
    case IG_OP_sign: return (struct ig_bounds){-1, 1};
    case IG_OP_atan:
    case IG_OP_asin: return (struct ig_bounds){-2, 2};
    case IG_OP_exp: return a.hi <= 0 ? (struct ig_bounds){0, 1} : rising(exp, a);
    case IG_OP_log: return a.lo > 0 ? rising(log, a) : anything;
    case IG_OP_log1p: return a.lo > -1 ? rising(log1p, a) : anything;
    case IG_OP_sqrt: return rising(sqrt, (struct ig_bounds){fmax(a.lo, 0), fmax(a.hi, 0)});
    case IG_OP_abs: return (struct ig_bounds){ig_bounds_least(a), ig_bounds_most(a)};
    case IG_OP_neg: return (struct ig_bounds){-a.hi, -a.lo};
    case IG_OP_add: return of_sum(a, b);
    case IG_OP_sub: return of_sum(a, (struct ig_bounds){-b.hi, -b.lo});
    case IG_OP_mul:
        if (n->in[0] == n->in[1]) return of_square(a);
        return is_share(g, n, a) ? widened(0, 1) : of_product(a, b);
    case IG_OP_div: return is_share(g, n, a) ? widened(0, 1) : of_quotient(a, b);
    case IG_OP_pow: return b.lo == 2 && b.hi == 2 ? widened(of_square(a).lo, of_square(a).hi) : anything;
    case IG_OP_max: return (struct ig_bounds){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case IG_OP_min: return (struct ig_bounds){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    case IG_OP_round: return (struct ig_bounds){nearbyint(a.lo), nearbyint(a.hi)};
    case IG_OP_floor: return (struct ig_bounds){floor(a.lo), floor(a.hi)};
    case IG_OP_ceil: return (struct ig_bounds){ceil(a.lo), ceil(a.hi)};
    default: return anything;
    }
}

/* Of any operator, from the bounds of its operands: those of the first two, or of all that a result may be taken from. */
static struct ig_bounds of_node(struct ig_graph *g, const struct ig_node *n, const struct ig_bounds *in) {
    struct ig_bounds a = n->n_in > 0 ? in[0] : anything, b = n->n_in > 1 ? in[1] : anything;
    switch (n->op) {
    case IG_OP_iota: return of_iota(g, n);
    case IG_OP_where: return join(in[1], in[2]);
    case IG_OP_pad: return of_pad(n, a, b);
    case IG_OP_concat:
        for (uint32_t i = 1; i < n->n_in; i++)
            a = join(a, in[i]);
        return a;
    case IG_OP_reshape:
    case IG_OP_transpose:
    case IG_OP_broadcast:
    case IG_OP_slice:
    case IG_OP_gather:
    case IG_OP_gather_nd:
    case IG_OP_gather_elements:
    case IG_OP_pool_max: return a;
    case IG_OP_pool_avg: return widened(fmin(a.lo, 0), fmax(a.hi, 0));
    case IG_OP_reduce_mean: return widened(a.lo, a.hi);
    case IG_OP_reduce_max:
    case IG_OP_reduce_min: return reduced_elements(g, n) > 0 ? a : anything; /* of no elements they are infinite */
    case IG_OP_reduce_sum: return of_reduced_sum(g, n, a);
    default: return of_map(g, n, a, b);
    }
}

/* Integer arithmetic may wrap. */
static bool may_wrap(struct ig_graph *g, const struct ig_node *n) {
    if (ig_dtype_is_float(ig_type_of(g, n->out)->dtype)) return false;
    if (n->op == IG_OP_reduce_sum || n->op == IG_OP_pool_avg) return true;
    return ig_op_info(n->op)->is_map && n->op != IG_OP_min && n->op != IG_OP_max;
}

static struct ig_bounds of_cast(struct ig_graph *g, const struct ig_node *n, struct ig_bounds a) {
    bool to_float = ig_dtype_is_float(ig_type_of(g, n->out)->dtype);
    struct ig_bounds from = bounds_of_dtype(ig_type_of(g, n->in[0])->dtype);
    if (!to_float) return anything;
    return (struct ig_bounds){fmax(a.lo, from.lo), fmin(a.hi, from.hi)};
}

/* Of a value that is known without its operands. */
static bool are_known(struct ig_graph *g, ig_value v, struct ig_bounds *out_bounds) {
    struct ig_value_info info = *ig_info(g, v);
    double scalar;
    if (ig_match_scalar(g, v, &scalar)) {
        *out_bounds = isnan(scalar) ? anything : (struct ig_bounds){scalar, scalar};
        return true;
    }
    if (!info.elements || !decides_bounds(&info)) return false;
    ig_const_decides(g, v);
    *out_bounds = bounds_of_elements(g, &info);
    return true;
}

static struct ig_bounds of_result(struct ig_graph *g, const struct ig_node *n, ig_value v, const struct ig_bounds *in) {
    struct ig_bounds type = bounds_of_dtype(ig_type_of(g, v)->dtype), b = anything;
    if (n && v == n->out && !may_wrap(g, n)) b = n->op == IG_OP_cast ? of_cast(g, n, in[0]) : of_node(g, n, in);
    return (struct ig_bounds){fmax(b.lo, type.lo), fmin(b.hi, type.hi)};
}

/* ---- One value, all values --------------------------------------------------------------------------------------- */

/* Operands of more are not looked at, since that would take too long for one value. */
enum { MOST_OPERANDS = 3 };

static struct ig_bounds find(struct ig_graph *g, ig_value v, int depth) {
    struct ig_bounds b;
    if (are_known(g, v, &b)) return b;
    const struct ig_node *n = ig_def(g, v);
    if (!n || depth == 0 || n->n_in > MOST_OPERANDS) return of_result(g, NULL, v, NULL);
    const struct ig_node node = *n; /* evaluating constants may append nodes */
    struct ig_bounds *in = IG_NEW_ARRAY(g->job, struct ig_bounds, node.n_in + 1);
    for (uint32_t i = 0; i < node.n_in; i++)
        in[i] = node.in[i] == IG_NO_VALUE ? anything : find(g, node.in[i], depth - 1);
    return of_result(g, &node, v, in);
}

struct ig_bounds ig_bounds_of(struct ig_graph *g, ig_value v) {
    return find(g, v, 8);
}

struct ig_bounds *ig_bounds_of_all(struct ig_graph *g) {
    uint32_t nodes = g->nodes.count, values = g->values.count; /* evaluating constants may append nodes */
    struct ig_bounds *all = IG_NEW_ARRAY(g->job, struct ig_bounds, values + 1);
    for (ig_value v = 0; v < values; v++)
        all[v] = bounds_of_dtype(ig_type_of(g, v)->dtype);
    for (ig_node_id id = 0; id < nodes; id++) {
        const struct ig_node n = g->nodes.at[id];
        struct ig_bounds *in = IG_NEW_ARRAY(g->job, struct ig_bounds, n.n_in + 1);
        for (uint32_t i = 0; i < n.n_in; i++)
            in[i] = n.in[i] == IG_NO_VALUE ? anything : all[n.in[i]];
        for (uint32_t o = 0; o < n.n_out && n.out + o < values; o++) {
            if (!are_known(g, n.out + o, &all[n.out + o])) all[n.out + o] = of_result(g, &n, n.out + o, in);
        }
    }
    return all;
}
