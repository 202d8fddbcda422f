/*
 * float8: multiplies floats of 8 bits as such, on GPUs whose tensor cores do (sm_89 and up).
 *
 * Requires:   the graph as the importer writes it: constants not folded, so that dequantised weights are seen as such.
 * Guarantees: a product or convolution of dequantised f8e4m3fn or f8e5m2 (in any mix; cast(x) * scale, perhaps rounded to f16 or
 *             bf16) by constant weights of these types is one of the floats of 8 bits with sums in f32, times both scales: that
 *             of the first operand is one number, that of the weights one, or one for each column. The sums are exact up to
 *             the order and f32's rounding; scaled products were rounded one by one.
 *
 * fast-float8, which runs only where it is switched on, lets sums of such products have the bits of the tensor cores' own
 * (IG_MATH_FAST).
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

/* floats * scale; IG_NO_VALUE: unscaled */
struct operand {
    ig_value floats, scale;
};

static bool is_f8(const struct ig_graph *g, ig_value v) {
    enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
    return dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2;
}

/* Is v the cast of floats of 8 bits to f32? */
static bool match_wide(const struct ig_graph *g, ig_value v, ig_value *out_floats) {
    return ig_type_of(g, v)->dtype == INGOT_F32 && ig_match_unary(g, v, IG_OP_cast, out_floats) &&
           is_f8(g, *out_floats);
}

static bool match_dequantized(const struct ig_graph *g, ig_value v, struct operand *out) {
    ig_value x = v, y;
    if (ig_type_of(g, v)->dtype != INGOT_F32 && !ig_match_unary(g, v, IG_OP_cast, &x)) return false; /* rounded */
    out->scale = IG_NO_VALUE;
    if (match_wide(g, x, &out->floats)) return true;
    if (!ig_match_binary(g, x, IG_OP_mul, &x, &y)) return false;
    bool second = match_wide(g, x, &out->floats);
    if (!second && !match_wide(g, y, &out->floats)) return false;
    out->scale = second ? y : x;
    return ig_same_dims(ig_type_of(g, out->floats), ig_type_of(g, v));
}

static bool is_number(struct ig_graph *g, ig_value v) {
    return v == IG_NO_VALUE || ig_type_is_single(g->dims, ig_type_of(g, v));
}

static ig_value as_scalar(struct ig_graph *g, ig_value v) {
    return ig_type_of(g, v)->rank ? ig_build_reshape(g, v, NULL, 0) : v;
}

/* The scale of weights as a scalar or by column, in the shape that the result is multiplied by; IG_NO_VALUE if it varies
 * otherwise. `axis`: that of the columns in `type`; `rank`: of the result. */
static ig_value by_column(struct ig_graph *g, ig_value scale, const struct ig_type *type, int axis, bool is_conv) {
    const struct ig_type own = *ig_type_of(g, scale);
    int before = type->rank - own.rank;
    ig_dim dims[INGOT_MAX_RANK];
    if (is_number(g, scale)) return as_scalar(g, scale);
    if (axis < before || own.dim[axis - before] != type->dim[axis]) return IG_NO_VALUE;
    for (int i = 0; i < own.rank; i++) {
        if (i != axis - before && !ig_dim_is(g->dims, own.dim[i], 1)) return IG_NO_VALUE;
    }
    int rank = is_conv ? type->rank - 1 : 1;
    dims[0] = type->dim[axis];
    for (int i = 1; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, 1);
    return ig_build_reshape(g, scale, dims, rank);
}

/* Weights, perhaps transposed. */
static bool match_weights(struct ig_graph *g, ig_value v, bool is_conv, struct operand *out) {
    int64_t perm[INGOT_MAX_RANK];
    if (!ig_info(g, v)->is_const) return false;
    if (ig_type_of(g, v)->dtype != INGOT_F32) ig_match_unary(g, v, IG_OP_cast, &v); /* rounded */
    const struct ig_node *turned = ig_def_op(g, v, IG_OP_transpose);
    for (int i = 0; turned && i < ig_type_of(g, v)->rank; i++)
        perm[i] = ig_attr(g, turned, IG_ATTR_perm)->ints[i];
    if (!match_dequantized(g, turned ? turned->in[0] : v, out)) return false;
    const struct ig_type type = *ig_type_of(g, out->floats);
    int columns = is_conv ? 0 : type.rank - 1;
    if (out->scale != IG_NO_VALUE) {
        out->scale = by_column(g, out->scale, &type, turned ? (int)perm[columns] : columns, is_conv);
        if (out->scale == IG_NO_VALUE) return false;
    }
    if (turned) out->floats = ig_build_transpose(g, out->floats, perm);
    return true;
}

static ig_value times(struct ig_graph *g, ig_value a, ig_value b) {
    if (a == IG_NO_VALUE || b == IG_NO_VALUE) return a == IG_NO_VALUE ? b : a;
    return ig_map2(g, IG_OP_mul, a, b);
}

static ig_value multiply(struct ig_rewriter *rw, const struct ig_node *n, ig_value a, ig_value b) {
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_build_node(rw->out, n->op, (ig_value[]){a, b}, 2, 1, n->attr, none);
}

/* The bias of a convolution, which is added behind the scales. */
static ig_value plus_bias(struct ig_graph *g, ig_value value, ig_value bias) {
    ig_dim dims[INGOT_MAX_RANK];
    int rank = ig_type_of(g, value)->rank - 1;
    dims[0] = ig_type_of(g, bias)->dim[0];
    for (int i = 1; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, 1);
    return ig_map2(g, IG_OP_add, value, ig_build_reshape(g, ig_build_cast(g, bias, INGOT_F32), dims, rank));
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct operand a, b;
    bool is_conv = n->op == IG_OP_conv;
    if ((n->op != IG_OP_matmul && !is_conv) || ig_type_of(rw->in, n->out)->dtype != INGOT_F32) return false;
    if (ig_info(rw->in, n->out)->is_const || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0) return false;
    if (is_conv && ig_attr_int(rw->in, n, IG_ATTR_channels_last)) return false;
    if (!match_dequantized(g, in[0], &a) || !is_number(g, a.scale) || !match_weights(g, in[1], is_conv, &b))
        return false;
    if (a.scale != IG_NO_VALUE) a.scale = as_scalar(g, a.scale);
    ig_value y = multiply(rw, n, a.floats, b.floats), scale = times(g, a.scale, b.scale);
    if (scale != IG_NO_VALUE) y = ig_map2(g, IG_OP_mul, y, scale);
    if (n->n_in > 2 && in[2] != IG_NO_VALUE) y = plus_bias(g, y, in[2]);
    out_values[0] = y;
    return true;
}

struct ig_graph *ig_pass_float8(struct ig_graph *in, const struct ig_pass_options *options) {
    enum { FIRST_SM = 89 };
    const struct ig_target *target = options->target;
    bool has = target && ig_target_is_cuda(target) && target->sm >= FIRST_SM;
    return has ? ig_rewrite(in, options, rewrite, NULL) : in;
}

/* ---- fast-float8 ------------------------------------------------------------------------------------------------- */

static bool hurry(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *const none[2] = {NULL, NULL};
    if ((n->op != IG_OP_matmul && n->op != IG_OP_conv) || !is_f8(rw->in, n->in[0])) return false;
    struct ig_attr *attrs = ig_attrs_copy(rw->out, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_math)].i = IG_MATH_FAST;
    out_values[0] = ig_build_node(rw->out, n->op, in, n->n_in, 1, attrs, none);
    return true;
}

struct ig_graph *ig_pass_fast_float8(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, hurry, NULL);
}
