/*
 * fold-batch-norm: folds scales and shifts by constants into adjacent weights and biases.
 *
 * Requires:   canonicalize (constants on the right, subtraction of a constant as addition, division by one as
 *             multiplication); move-views, so that no view stands in between.
 * Guarantees: if a convolution or a product with constant weights has one reader, and that multiplies by a constant per
 *             output channel (or a scalar), the weights are multiplied instead; an addition after a convolution becomes
 *             its bias. A scale per input channel before a convolution is folded into its weights too, and a shift
 *             before an unpadded one into its bias. Convolutions of one input that are added become one. Chains of constant factors, and of constant summands, become one.
 *             Scalar factors of a product's operands become one after it. The new weights are recipes over the old
 *             ones. Results agree up to the rounding of the folded operations.
 *
 * Batch normalisation arrives as x * scale + shift, whose constants the importer has computed from the four parameters.
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/product/join_branches.h"
#include "pass/view/view.h"

/* ---- Constants by channel ---------------------------------------------------------------------------------------- */

/* c as [channels], or as a scalar if it has one element. IG_NO_VALUE unless c is constant and, as an operand of that
 * rank, varies along `axis` only. */
static ig_value channel_constant(struct ig_graph *g, ig_value c, int rank, int axis, ig_dim channels) {
    struct ig_type type = *ig_type_of(g, c);
    if (!ig_info(g, c)->is_const || type.rank > rank) return IG_NO_VALUE;
    if (ig_type_is_single(g->dims, &type)) return ig_view_reshape(g, c, type.dim, 0);
    for (int i = 0; i < type.rank; i++) {
        bool along = rank - type.rank + i == axis;
        if (along ? type.dim[i] != channels : !ig_dim_is(g->dims, type.dim[i], 1)) return IG_NO_VALUE;
    }
    return ig_view_reshape(g, c, &channels, 1);
}

/* A channel constant shaped to multiply along `axis` of a weight of that rank. */
static ig_value along_axis(struct ig_graph *g, ig_value c, int rank, int axis) {
    if (ig_type_of(g, c)->rank == 0) return c;
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? ig_type_of(g, c)->dim[0] : ig_dim_const(g->dims, 1);
    return ig_view_reshape(g, c, dims, rank);
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------ */

/* A convolution of the new graph, to be rebuilt with other weights. */
struct conv {
    const struct ig_attr *attrs;
    ig_value x, w, bias; /* bias may be IG_NO_VALUE */
    int rank, channel_axis;
    ig_dim channels; /* of the result */
};

static bool look_conv(struct ig_graph *g, ig_value v, struct conv *out_conv) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_conv);
    if (!n || !ig_info(g, n->in[1])->is_const || ig_attr_int(g, n, IG_ATTR_packed) != 0) return false;
    bool has_bias = n->n_in > 2 && n->in[2] != IG_NO_VALUE;
    if (has_bias && !ig_info(g, n->in[2])->is_const) return false;
    const struct ig_type *type = ig_type_of(g, v);
    if (!ig_dtype_is_float(type->dtype) || ig_type_of(g, n->in[1])->dtype != type->dtype) return false;
    int axis = ig_attr_int(g, n, IG_ATTR_channels_last) ? type->rank - 1 : 1;
    *out_conv = (struct conv){.attrs = n->attr, .x = n->in[0], .w = n->in[1], .rank = type->rank};
    out_conv->bias = has_bias ? n->in[2] : IG_NO_VALUE;
    out_conv->channel_axis = axis;
    out_conv->channels = type->dim[axis];
    return true;
}

static ig_value build_conv(struct ig_graph *g, const struct conv *c) {
    ig_value in[3] = {c->x, c->w, c->bias};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, IG_OP_conv, in, c->bias == IG_NO_VALUE ? 2 : 3, 1, c->attrs, no_bodies);
}

static ig_value scale_conv(struct ig_graph *g, struct conv c, ig_value factor) {
    ig_value f = channel_constant(g, factor, c.rank, c.channel_axis, c.channels);
    if (f == IG_NO_VALUE) return IG_NO_VALUE;
    c.w = ig_map2(g, IG_OP_mul, c.w, along_axis(g, f, c.rank, 0));
    if (c.bias != IG_NO_VALUE) c.bias = ig_map2(g, IG_OP_mul, c.bias, f);
    return build_conv(g, &c);
}

/* `s` is [channels] or a scalar. */
static ig_value add_bias(struct ig_graph *g, struct conv c, ig_value s) {
    if (c.bias != IG_NO_VALUE)
        c.bias = ig_map2(g, IG_OP_add, c.bias, s);
    else
        c.bias = ig_build_broadcast(g, s, &c.channels, 1);
    return build_conv(g, &c);
}

static ig_value shift_conv(struct ig_graph *g, struct conv c, ig_value summand) {
    ig_value s = channel_constant(g, summand, c.rank, c.channel_axis, c.channels);
    return s == IG_NO_VALUE ? IG_NO_VALUE : add_bias(g, c, s);
}

/* ---- Before a convolution ---------------------------------------------------------------------------------------- */

static bool is_unpadded(const struct ig_graph *g, const struct ig_node *conv) {
    const struct ig_attr *before = ig_attr(g, conv, IG_ATTR_before), *after = ig_attr(g, conv, IG_ATTR_after);
    for (int i = 0; i < before->count; i++) {
        if (!ig_dim_is(g->dims, before->dims[i], 0) || !ig_dim_is(g->dims, after->dims[i], 0)) return false;
    }
    return true;
}

/* conv(x * f): each weight applies to one input channel, so it can absorb the factor; zero padding stays zero. Input
 * channels are axis 1 of the weights with one group, and axis 0 of depthwise ones. */
static ig_value scale_input(struct ig_graph *g, struct conv c, ig_value x, ig_value factor, bool depthwise) {
    struct ig_type type = *ig_type_of(g, c.x);
    ig_value f = channel_constant(g, factor, c.rank, c.channel_axis, type.dim[c.channel_axis]);
    if (f == IG_NO_VALUE || !ig_same_dims(ig_type_of(g, x), &type)) return IG_NO_VALUE;
    c.w = ig_map2(g, IG_OP_mul, c.w, along_axis(g, f, c.rank, depthwise ? 0 : 1));
    c.x = x;
    return build_conv(g, &c);
}

/* conv(x + s) = conv(x) + sum over inputs and kernel of w * s. */
static ig_value shift_input(struct ig_graph *g, struct conv c, ig_value x, ig_value summand, bool depthwise) {
    struct ig_type type = *ig_type_of(g, c.x);
    ig_value s = channel_constant(g, summand, c.rank, c.channel_axis, type.dim[c.channel_axis]);
    if (s == IG_NO_VALUE || !ig_same_dims(ig_type_of(g, x), &type)) return IG_NO_VALUE;
    ig_value products = ig_map2(g, IG_OP_mul, c.w, along_axis(g, s, c.rank, depthwise ? 0 : 1));
    int64_t axes[INGOT_MAX_RANK];
    for (int i = 1; i < c.rank; i++)
        axes[i - 1] = i;
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, products, axes, c.rank - 1);
    c.x = x;
    return add_bias(g, c, ig_view_reshape(g, sum, &c.channels, 1));
}

/* Rebuilds the old convolution n on in[] with the scale or shift before it folded in; IG_NO_VALUE if there is none that
 * can be. */
static ig_value fold_before_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct conv c;
    const struct ig_node *before = ig_def(g, in[0]);
    if (!before || (before->op != IG_OP_mul && before->op != IG_OP_add) || rw->uses[n->in[0]] != 1) return IG_NO_VALUE;
    bool scales = before->op == IG_OP_mul;
    ig_value x = before->in[0], constant = before->in[1];
    if (!ig_info(g, constant)->is_const || ig_info(g, x)->is_const) return IG_NO_VALUE;
    ig_value copy = ig_build_copy(g, rw->in, n, in);
    if (!look_conv(g, copy, &c)) return IG_NO_VALUE;
    int64_t groups = ig_attr_int(rw->in, n, IG_ATTR_groups);
    bool depthwise = groups > 1;
    ig_dim inputs = ig_type_of(g, c.x)->dim[c.channel_axis];
    if (depthwise && (c.channels != inputs || !ig_dim_is(g->dims, inputs, groups))) return IG_NO_VALUE;
    if (scales) return scale_input(g, c, x, constant, depthwise);
    return is_unpadded(rw->in, n) ? shift_input(g, c, x, constant, depthwise) : IG_NO_VALUE;
}

/* ---- Products and chains ----------------------------------------------------------------------------------------- */

/* matmul(x, w) * f with w of rank 2: multiplies the columns of w by f. */
static ig_value scale_matmul(struct ig_graph *g, ig_value v, ig_value factor) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_matmul);
    if (!n || !ig_info(g, n->in[1])->is_const || ig_attr_int(g, n, IG_ATTR_packed) != 0) return IG_NO_VALUE;
    struct ig_type type = *ig_type_of(g, v), w = *ig_type_of(g, n->in[1]);
    enum ingot_dtype acc = (enum ingot_dtype)ig_attr_int(g, n, IG_ATTR_acc);
    ig_value x = n->in[0], weights = n->in[1];
    if (w.rank != 2 || w.dtype != type.dtype || !ig_dtype_is_float(type.dtype)) return IG_NO_VALUE;
    ig_value f = channel_constant(g, factor, type.rank, type.rank - 1, w.dim[1]);
    if (f == IG_NO_VALUE) return IG_NO_VALUE;
    return ig_build_matmul(g, x, ig_map2(g, IG_OP_mul, weights, f), acc);
}

/* With constants c and f: x * c * f becomes x * (c * f), x + c + f becomes x + (c + f), and (x + c) * f becomes x * f +
 * c * f. The last only if x is a product whose weights absorb f. */
static ig_value fold_chain(struct ig_graph *g, enum ig_op op, ig_value v, ig_value constant, bool deeper) {
    const struct ig_node *n = ig_def(g, v);
    if (!n || (n->op != IG_OP_mul && n->op != IG_OP_add) || !ig_info(g, n->in[1])->is_const) return IG_NO_VALUE;
    ig_value x = n->in[0], inner = n->in[1];
    if (!ig_dtype_is_float(ig_type_of(g, v)->dtype) || !ig_same_dims(ig_type_of(g, x), ig_type_of(g, v)))
        return IG_NO_VALUE;
    if (n->op == op) return ig_map2(g, op, x, ig_map2(g, op, inner, constant));
    if (op == IG_OP_add || !deeper) return IG_NO_VALUE;
    ig_value scaled = scale_matmul(g, x, constant);
    if (scaled == IG_NO_VALUE) return IG_NO_VALUE;
    return ig_map2(g, IG_OP_add, scaled, ig_map2(g, IG_OP_mul, inner, constant));
}

/* Is `old` a sum whose first operand nothing else reads? */
static bool only_use_below(const struct ig_rewriter *rw, ig_value old) {
    const struct ig_node *n = ig_def_op(rw->in, old, IG_OP_add);
    return n && rw->uses[n->in[0]] == 1;
}

/* If v is x * scalar, possibly behind a transpose or reshape, multiplies *scale by the scalar and returns x with that
 * view; otherwise returns v. */
static ig_value strip_scale(struct ig_graph *g, ig_value v, double *scale) {
    const struct ig_node *view = ig_def(g, v);
    if (!view || ig_info(g, v)->is_const) return v;
    bool turned = view->op == IG_OP_transpose, reshaped = view->op == IG_OP_reshape;
    ig_value x, product = turned || reshaped ? view->in[0] : v;
    double factor;
    if (!ig_match_with_scalar(g, product, IG_OP_mul, &x, &factor)) return v;
    if (!ig_same_dims(ig_type_of(g, x), ig_type_of(g, product))) return v;
    *scale *= factor;
    if (turned) return ig_view_transpose(g, x, ig_attr(g, view, IG_ATTR_perm)->ints);
    struct ig_type type = *ig_type_of(g, v);
    return reshaped ? ig_view_reshape(g, x, type.dim, type.rank) : x;
}

/* matmul(x * s, y * t) = matmul(x, y) * (s * t): one multiplication, in the epilogue, where results are in
 * registers. */
static ig_value scale_after_matmul(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    double scale = 1;
    enum ingot_dtype dtype = ig_type_of(g, in[0])->dtype, acc = (enum ingot_dtype)ig_attr_int(rw->in, n, IG_ATTR_acc);
    if (dtype != INGOT_F32 || acc != INGOT_F32 || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0) return IG_NO_VALUE;
    ig_value x = strip_scale(g, in[0], &scale), y = strip_scale(g, in[1], &scale);
    if (x == in[0] && y == in[1]) return IG_NO_VALUE;
    return ig_map2(g, IG_OP_mul, ig_build_matmul(g, x, y, acc), ig_build_scalar(g, INGOT_F32, scale));
}

static bool fold(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct conv c;
    ig_value v = IG_NO_VALUE;
    if (n->op == IG_OP_conv) {
        v = fold_before_conv(rw, n, in);
    } else if (n->op == IG_OP_matmul) {
        v = scale_after_matmul(rw, n, in);
    } else if (n->op == IG_OP_add && rw->uses[n->in[0]] == 1 && rw->uses[n->in[1]] == 1 &&
               !ig_info(g, in[1])->is_const) {
        v = ig_join_branches(g, in[0], in[1]);
    } else if ((n->op == IG_OP_mul || n->op == IG_OP_add) && ig_info(g, in[1])->is_const &&
               !ig_info(g, in[0])->is_const && rw->uses[n->in[0]] == 1 &&
               ig_same_dims(ig_type_of(g, in[0]), ig_type_of(rw->in, n->out))) {
        if (look_conv(g, in[0], &c)) v = n->op == IG_OP_mul ? scale_conv(g, c, in[1]) : shift_conv(g, c, in[1]);
        if (v == IG_NO_VALUE && n->op == IG_OP_mul) v = scale_matmul(g, in[0], in[1]);
        if (v == IG_NO_VALUE) v = fold_chain(g, n->op, in[0], in[1], only_use_below(rw, n->in[0]));
    }
    out_values[0] = v;
    return v != IG_NO_VALUE;
}

struct ig_graph *ig_pass_fold_batch_norm(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite_until_stable(in, options, fold, NULL, 8);
}
