/*
 * Products of bytes. With zero points a and b, and k elements of depth,
 *
 *     sum (A - a)(B - b)  =  sum A B  -  a sum B  -  b sum A  +  k a b
 *
 * where the second term is a constant for each column of constant weights, and the others vanish where b is 0. Weights
 * are made i8 with b = 0 wherever they can be: u8 with a zero point of 128 always, others by looking at them. Beyond the edges of
 * an image stands a, which the equation takes for granted; so the last two terms of a convolution are -b times the sum of its window of A - a.
 */
#include <math.h>

#include "ir/eval/eval.h"
#include "pass/integer/quantized.h"
#include "pass/match.h"
#include "pass/view/view.h"

/* An operand: (bytes - zero) * scale. */
struct operand {
    ig_value bytes; /* u8 or i8 */
    int64_t zero;
    ig_value
        zero_value; /* of i32, known when the graph runs, instead of `zero`: a scalar, or one for each column of the second
                            operand of a matmul; or IG_NO_VALUE */
    ig_value scale; /* f32: a scalar, or one for each column ([N] or [M]); IG_NO_VALUE: integers are multiplied */
};

struct product {
    struct ig_rewriter *rw;
    struct ig_graph *g;
    const struct ig_node *node; /* of rw->in */
    bool is_conv, of_floats;
    struct operand a, b;
    const char *why; /* it stays literal; NULL: it has no quantised operand */
};

static enum ingot_dtype dtype_of(const struct product *p, ig_value v) {
    return ig_type_of(p->g, v)->dtype;
}

/* ---- Operands ---- */

/* bytes - zero in i32, where the zero point may be a value that is known when the graph runs. */
static bool match_integers(struct product *p, ig_value v, bool second, struct operand *out) {
    struct ig_graph *g = p->g;
    ig_value x, y;
    *out = (struct operand){.zero_value = IG_NO_VALUE, .scale = IG_NO_VALUE};
    if (ig_match_centered(g, v, &out->bytes, &out->zero)) return true;
    if (!ig_match_binary(g, v, IG_OP_sub, &x, &y) || !ig_match_centered(g, x, &out->bytes, &out->zero)) return false;
    const struct ig_type type = *ig_type_of(g, y), *own = ig_type_of(g, v);
    bool single = ig_type_is_single(g->dims, &type), by_column = second && !p->is_conv && type.rank == 1;
    if ((!single && !by_column) || ig_info(g, y)->is_const || out->zero != 0) return false;
    /* Of an unknown size it is one for all columns or for each, which only the run knows. */
    const ig_dim columns = own->dim[own->rank - 1];
    out->zero_value = single                   ? ig_build_reshape(g, y, NULL, 0)
                      : type.dim[0] == columns ? y
                                               : ig_build_broadcast(g, y, &columns, 1);
    return ig_same_dims(ig_type_of(g, x), ig_type_of(g, v));
}

/* A scale for each column as [columns], or a scalar; IG_NO_VALUE if it varies otherwise. `axis` is that of the columns in the
 * weights, counted from the end. */
static ig_value by_column(struct ig_graph *g, ig_value scale, const struct ig_type *weights, int axis) {
    const struct ig_type type = *ig_type_of(g, scale);
    double unused;
    if (ig_match_scalar(g, scale, &unused)) return type.rank ? ig_build_reshape(g, scale, NULL, 0) : scale;
    ig_dim columns = weights->dim[weights->rank - axis];
    for (int i = 1; i <= type.rank; i++) {
        if (i != axis && !ig_dim_is(g->dims, type.dim[type.rank - i], 1)) return IG_NO_VALUE;
    }
    if (type.rank < axis || type.dim[type.rank - axis] != columns) return IG_NO_VALUE;
    return ig_build_reshape(g, scale, &columns, 1);
}

/* Constant integers, which need not be bytes less one zero point: i8 if they fit. */
static ig_value narrowed(struct ig_graph *g, ig_value v) {
    ig_value wide = ig_build_cast(g, v, INGOT_I32);
    struct ingot_tensor t = ig_const_tensor(g, wide);
    int64_t count = ingot_tensor_elements(&t);
    bool fits = true;
    for (int64_t i = 0; i < count && fits; i++) {
        int64_t x = ig_load_i64(t.dtype, t.data, i);
        fits = x >= INT8_MIN && x <= INT8_MAX;
    }
    ig_const_release(g, wide, &t);
    return fits ? ig_build_cast(g, wide, INGOT_I8) : IG_NO_VALUE;
}

/* Are the elements of a constant all equal? */
static bool match_uniform(struct ig_graph *g, ig_value v, int64_t *out) {
    struct ingot_tensor t = ig_const_tensor(g, v);
    int64_t count = ingot_tensor_elements(&t);
    bool same = count > 0;
    *out = count > 0 ? ig_load_i64(t.dtype, t.data, 0) : 0;
    for (int64_t i = 1; i < count && same; i++)
        same = ig_load_i64(t.dtype, t.data, i) == *out;
    ig_const_release(g, v, &t);
    return same;
}

/* Constant weights less their zero points, as bytes with one zero point. */
static bool match_constant(struct product *p, ig_value v, struct operand *out) {
    struct ig_graph *g = p->g;
    ig_value x, y, wide;
    if (ig_match_centered(g, v, &out->bytes, &out->zero)) return true;
    if (!ig_match_binary(g, v, IG_OP_sub, &x, &y) || !ig_match_unary(g, x, IG_OP_cast, &wide)) return false;
    if (!ig_is_byte(dtype_of(p, wide)) || !ig_same_dims(ig_type_of(g, x), ig_type_of(g, v))) return false;
    out->bytes = wide;
    if (match_uniform(g, y, &out->zero)) return true;
    out->zero = 0;
    out->bytes = narrowed(g, v);
    return out->bytes != IG_NO_VALUE;
}

/* Weights through transposes: each is applied to the bytes, and to the scales. */
static bool match_weights(struct product *p, ig_value v, struct operand *out) {
    struct ig_graph *g = p->g;
    *out = (struct operand){.zero_value = IG_NO_VALUE, .scale = IG_NO_VALUE};
    if (!p->of_floats) return match_constant(p, v, out);
    const struct ig_type type = *ig_type_of(g, v);
    const struct ig_node *turned = ig_def_op(g, v, IG_OP_transpose);
    int64_t perm[INGOT_MAX_RANK];
    ig_value from = v, x, y;
    if (turned) {
        const struct ig_attr *attr = ig_attr(g, turned, IG_ATTR_perm);
        for (int i = 0; i < attr->count; i++)
            perm[i] = attr->ints[i];
        from = turned->in[0];
    }
    if (!ig_match_binary(g, from, IG_OP_mul, &x, &y)) return false;
    if (!ig_same_dims(ig_type_of(g, x), ig_type_of(g, from))) return false;
    if (!match_constant(p, x, out)) return false;
    struct ig_type scales = *ig_type_of(g, y);
    if (turned && !ig_type_is_single(g->dims, &scales)) {
        ig_dim dims[INGOT_MAX_RANK], one = ig_dim_const(g->dims, 1);
        for (int i = 0; i < type.rank; i++)
            dims[i] = i < type.rank - scales.rank ? one : scales.dim[i - (type.rank - scales.rank)];
        y = ig_build_transpose(g, ig_build_reshape(g, y, dims, type.rank), perm);
    }
    if (turned) out->bytes = ig_build_transpose(g, out->bytes, perm);
    out->scale = by_column(g, y, &type, p->is_conv ? type.rank : 1);
    return out->scale != IG_NO_VALUE;
}

static bool match_activation(struct product *p, ig_value v, bool second, struct operand *out) {
    struct ig_quantized q;
    if (!p->of_floats) return match_integers(p, v, second, out);
    if (!ig_match_quantized(p->g, v, &q)) return false;
    *out = (struct operand){q.bytes, q.zero, IG_NO_VALUE, q.scale};
    return true;
}

/* The first operand u8, on CPUs. */
static void unsign_first(struct product *p) {
    if (dtype_of(p, p->a.bytes) != INGOT_I8 || ig_target_is_cuda(p->rw->options->target)) return;
    if (p->a.zero_value != IG_NO_VALUE) {
        ig_value more = ig_build_scalar_int(p->g, INGOT_I32, 128);
        p->a.zero_value = ig_map2(p->g, IG_OP_add, p->a.zero_value, more);
    }
    p->a.bytes = ig_build_as_u8(p->g, p->a.bytes);
    p->a.zero += 128;
}

/* The second operand i8, with a zero point of 0 if it can be. */
static void sign_second(struct product *p) {
    struct ig_graph *g = p->g;
    if (dtype_of(p, p->b.bytes) == INGOT_U8) {
        p->b.bytes = ig_build_as_i8(g, p->b.bytes);
        p->b.zero -= 128;
        if (p->b.zero_value != IG_NO_VALUE) {
            ig_value less = ig_build_scalar_int(g, INGOT_I32, 128);
            p->b.zero_value = ig_map2(g, IG_OP_sub, p->b.zero_value, less);
        }
    }
    if (p->b.zero == 0 || p->b.zero_value != IG_NO_VALUE || !ig_info(g, p->b.bytes)->is_const) return;
    ig_value less = narrowed(g, ig_build_centered(g, p->b.bytes, p->b.zero, INGOT_I32));
    if (less == IG_NO_VALUE) return;
    p->b.bytes = less;
    p->b.zero = 0;
}

/* ---- Sums of operands ---- */

static bool has_zero(const struct operand *o) {
    return o->zero_value != IG_NO_VALUE || o->zero != 0;
}

/* -zero, i32 */
static ig_value negative_zero(struct ig_graph *g, const struct operand *o) {
    if (o->zero_value != IG_NO_VALUE) return ig_map1(g, IG_OP_neg, o->zero_value);
    return ig_build_scalar_int(g, INGOT_I32, -o->zero);
}

static ig_value sum_along(struct ig_graph *g, ig_value bytes, int first, int count) {
    int64_t axes[INGOT_MAX_RANK];
    for (int i = 0; i < count; i++)
        axes[i] = first + i;
    return ig_build_reduce(g, IG_OP_reduce_sum, ig_build_cast(g, bytes, INGOT_I32), axes, count);
}

/* [channels] as [channels, 1, ...], to be added to the result. */
static ig_value as_channels(const struct product *p, ig_value v) {
    ig_dim dims[INGOT_MAX_RANK];
    int rank = ig_type_of(p->rw->in, p->node->out)->rank - 1;
    if (!p->is_conv || ig_type_of(p->g, v)->rank == 0) return v;
    dims[0] = ig_type_of(p->g, v)->dim[0];
    for (int i = 1; i < rank; i++)
        dims[i] = ig_dim_const(p->g->dims, 1);
    return ig_build_reshape(p->g, v, dims, rank);
}

/* The sum of each column of B. */
static ig_value column_sums(const struct product *p) {
    struct ig_graph *g = p->g;
    const struct ig_type type = *ig_type_of(g, p->b.bytes);
    if (!p->is_conv) {
        ig_value sums = sum_along(g, p->b.bytes, type.rank - 2, 1);
        return type.rank == 2 ? ig_build_reshape(g, sums, &type.dim[1], 1) : sums;
    }
    return as_channels(p, ig_build_reshape(g, sum_along(g, p->b.bytes, 1, type.rank - 1), type.dim, 1));
}

static ig_value plus(struct ig_graph *g, ig_value sum, ig_value term) {
    return sum == IG_NO_VALUE ? term : ig_map2(g, IG_OP_add, sum, term);
}

/* Of depthwise convolutions, each channel has windows of its own. */
static bool is_depthwise(const struct product *p) {
    const int64_t groups = ig_attr_int(p->rw->in, p->node, IG_ATTR_groups);
    const struct ig_type *a = ig_type_of(p->g, p->a.bytes), *b = ig_type_of(p->g, p->b.bytes);
    return ig_dim_is(p->g->dims, a->dim[1], groups) && ig_dim_is(p->g->dims, b->dim[0], groups);
}

/* The sum of A - a over each window of a convolution, of all channels or of each: [N, 1 or C, ...]. */
static ig_value window_sums(const struct product *p) {
    static const int64_t channels[] = {1};
    const struct ig_graph *old = p->rw->in;
    const struct ig_node *n = p->node;
    const struct ig_type *out = ig_type_of(old, n->out);
    ig_value x = ig_build_centered(p->g, p->a.bytes, p->a.zero, INGOT_I32);
    if (p->a.zero_value != IG_NO_VALUE) x = ig_map2(p->g, IG_OP_sub, x, p->a.zero_value);
    if (!is_depthwise(p)) x = ig_build_reduce(p->g, IG_OP_reduce_sum, x, channels, 1);
    const struct ig_attr attrs[] = {*ig_attr(old, n, IG_ATTR_kernel),
                                    *ig_attr(old, n, IG_ATTR_strides),
                                    *ig_attr(old, n, IG_ATTR_dilations),
                                    *ig_attr(old, n, IG_ATTR_before),
                                    ig_attr_of_dims(out->dim + 2, out->rank - 2),
                                    ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_build_node(p->g, IG_OP_pool_sum, &x, 1, 1, attrs, none);
}

/* What the zero points add to the products of bytes; IG_NO_VALUE: nothing. */
static ig_value correction(const struct product *p, ig_dim depth) {
    struct ig_graph *g = p->g;
    ig_value sum = IG_NO_VALUE;
    if (has_zero(&p->a)) sum = ig_map2(g, IG_OP_mul, column_sums(p), negative_zero(g, &p->a));
    if (!has_zero(&p->b)) return sum;
    if (p->is_conv) return plus(g, sum, ig_map2(g, IG_OP_mul, window_sums(p), negative_zero(g, &p->b)));
    ig_value rows = sum_along(g, p->a.bytes, ig_type_of(g, p->a.bytes)->rank - 1, 1);
    sum = plus(g, sum, ig_map2(g, IG_OP_mul, rows, negative_zero(g, &p->b)));
    if (!has_zero(&p->a)) return sum;
    ig_value both = ig_map2(g, IG_OP_mul, negative_zero(g, &p->a), negative_zero(g, &p->b));
    ig_value elements = ig_build_cast(g, ig_build_shape_scalar(g, depth), INGOT_I32);
    return plus(g, sum, ig_map2(g, IG_OP_mul, both, elements));
}

/* ---- The product ---- */

static bool is_padded(const struct product *p) {
    const struct ig_attr *before = ig_attr(p->rw->in, p->node, IG_ATTR_before);
    const struct ig_attr *after = ig_attr(p->rw->in, p->node, IG_ATTR_after);
    for (int i = 0; i < before->count; i++) {
        if (!ig_dim_is(p->g->dims, before->dims[i], 0) || !ig_dim_is(p->g->dims, after->dims[i], 0)) return true;
    }
    return false;
}

static ig_value multiply(const struct product *p) {
    struct ig_graph *g = p->g;
    if (!p->is_conv) return ig_build_matmul(g, p->a.bytes, p->b.bytes, INGOT_I32);
    struct ig_attr *attrs = ig_attrs_copy(g, IG_OP_conv, p->node->attr);
    attrs[ig_attr_slot(IG_OP_conv, IG_ATTR_acc)] = ig_attr_of_dtype(INGOT_I32);
    attrs[ig_attr_slot(IG_OP_conv, IG_ATTR_border)].i = is_padded(p) ? p->a.zero : 0;
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_build_node(g, IG_OP_conv, (ig_value[]){p->a.bytes, p->b.bytes}, 2, 1, attrs, none);
}

/* The number of products in a sum. */
static ig_dim depth_of(const struct product *p) {
    struct ig_dims *d = p->g->dims;
    const struct ig_type *a = ig_type_of(p->g, p->a.bytes), *b = ig_type_of(p->g, p->b.bytes);
    if (!p->is_conv) return a->dim[a->rank - 1];
    return ig_dim_product(d, b->dim + 1, b->rank - 1);
}

/* NULL: it can be computed in integers. Sums of floats do not wrap, so those of their bytes must not: they stay below 2^30,
 * and a bias below that, too. */
static const char *obstacle(const struct product *p, ig_dim depth) {
    int64_t lo, hi, least = dtype_of(p, p->a.bytes) == INGOT_I8 ? -128 : 0;
    ig_dim_range(p->g->dims, depth, &lo, &hi);
    if (p->of_floats && (hi > (1 << 30) / (255 * 255) && (has_zero(&p->b) || hi > (1 << 30) / (255 * 128))))
        return "its sums may exceed 30 bits";
    if (!p->is_conv) return NULL;
    if (has_zero(&p->b) && ig_attr_int(p->rw->in, p->node, IG_ATTR_groups) != 1 && !is_depthwise(p))
        return "its weights less their zero point do not fit i8, and it has groups";
    if (ig_attr_int(p->rw->in, p->node, IG_ATTR_channels_last)) return "it is channels-last";
    if (is_padded(p) && p->a.zero_value != IG_NO_VALUE) return "its edges have a zero point that is not known";
    if (p->a.zero < least || p->a.zero > least + 255) return "its zero point is no byte";
    return NULL;
}

/* scale of A times scale of B, to be multiplied with the result */
static ig_value scale_of(const struct product *p) {
    return as_channels(p, ig_map2(p->g, IG_OP_mul, p->a.scale, p->b.scale));
}

static bool match_operands(struct product *p, const ig_value *in) {
    bool constant = ig_info(p->g, in[1])->is_const;
    bool a = !ig_info(p->g, in[0])->is_const && match_activation(p, in[0], false, &p->a);
    bool b = constant ? match_weights(p, in[1], &p->b) : match_activation(p, in[1], true, &p->b);
    if (a && !b) p->why = constant ? "its weights are not quantised by column" : "its second operand is not quantised";
    if (!a && b) p->why = "its first operand is not quantised";
    return a && b;
}

/* The product as it was, with the reason. */
static ig_value kept_literal(const struct product *p, const ig_value *in, const char *why) {
    ig_value y = ig_build_copy(p->g, p->rw->in, p->node, in);
    ig_build_as_written(p->g, y, why);
    return y;
}

/* The bias of a convolution, added as a node of its own. */
static ig_value plus_bias(struct product *p, ig_value value, ig_value bias);

ig_value ig_integer_product(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct product p = {.rw = rw, .g = g, .node = n, .is_conv = n->op == IG_OP_conv};
    enum ingot_dtype dtype = ig_type_of(rw->in, n->out)->dtype;
    p.of_floats = dtype == INGOT_F32;
    bool packed = ig_attr_int(rw->in, n, IG_ATTR_packed) != 0;
    if ((dtype != INGOT_F32 && dtype != INGOT_I32) || packed || ig_info(rw->in, n->out)->is_const) return IG_NO_VALUE;
    if (dtype_of(&p, in[0]) != dtype) return IG_NO_VALUE;
    if (!match_operands(&p, in)) return p.why ? kept_literal(&p, in, p.why) : IG_NO_VALUE;
    unsign_first(&p);
    sign_second(&p);
    ig_dim depth = depth_of(&p);
    const char *why = obstacle(&p, depth);
    if (why) return kept_literal(&p, in, why);
    ig_value sum = multiply(&p), more = correction(&p, depth);
    bool biased = n->n_in > 2 && in[2] != IG_NO_VALUE;
    if (biased && !p.of_floats) more = plus(g, more, as_channels(&p, in[2]));
    if (more != IG_NO_VALUE) sum = ig_map2(g, IG_OP_add, sum, more);
    if (!p.of_floats) return sum;
    ig_value value = ig_map2(g, IG_OP_mul, ig_build_cast(g, sum, INGOT_F32), scale_of(&p));
    return biased ? plus_bias(&p, value, as_channels(&p, in[2])) : value;
}

/* ---- Biases ---- */

/* Are two constant scales, one of which may be a scalar, equal? */
static bool equal_scales(struct ig_graph *g, ig_value a, ig_value b) {
    if (a == b) return true;
    struct ingot_tensor x = ig_const_tensor(g, a), y = ig_const_tensor(g, b);
    int64_t n = ingot_tensor_elements(&x), m = ingot_tensor_elements(&y), count = n > m ? n : m;
    bool same = n == m || n == 1 || m == 1;
    for (int64_t i = 0; i < count && same; i++)
        same = ig_load_f64(x.dtype, x.data, n == 1 ? 0 : i) == ig_load_f64(y.dtype, y.data, m == 1 ? 0 : i);
    ig_const_release(g, a, &x);
    ig_const_release(g, b, &y);
    return same;
}

/* bias = (an i32 constant) * scale; through reshapes. */
static bool match_bias(struct ig_graph *g, ig_value bias, ig_value *out_integers, ig_value *out_scale) {
    const struct ig_type type = *ig_type_of(g, bias);
    const struct ig_node *view = ig_def_op(g, bias, IG_OP_reshape);
    ig_value x = bias, y, inner;
    if (view) x = view->in[0];
    const struct ig_type own = *ig_type_of(g, x);
    if (!ig_info(g, bias)->is_const || !ig_match_binary(g, x, IG_OP_mul, &x, &y)) return false;
    if (!ig_match_unary(g, x, IG_OP_cast, &inner) || ig_type_of(g, inner)->dtype != INGOT_I32) return false;
    if (!ig_same_dims(ig_type_of(g, inner), &own)) return false;
    *out_integers = ig_build_reshape(g, inner, type.dim, type.rank);
    *out_scale = y;
    return true;
}

/* value + bias in i32, if value = f32(sum) * scale and the bias has that scale; else IG_NO_VALUE. */
static ig_value folded_bias(struct ig_graph *g, ig_value value, ig_value bias) {
    ig_value x, scale, sum, integers, own, constant;
    if (!ig_match_binary(g, value, IG_OP_mul, &x, &scale) || !ig_info(g, scale)->is_const) return IG_NO_VALUE;
    if (!ig_match_unary(g, x, IG_OP_cast, &sum) || ig_type_of(g, sum)->dtype != INGOT_I32) return IG_NO_VALUE;
    if (!match_bias(g, bias, &integers, &own)) return IG_NO_VALUE;
    bool aligned = ig_type_is_single(g->dims, ig_type_of(g, scale)) || ig_type_is_single(g->dims, ig_type_of(g, own)) ||
                   ig_same_dims(ig_type_of(g, scale), ig_type_of(g, bias));
    if (!aligned || !equal_scales(g, own, scale)) return IG_NO_VALUE;
    ig_value most = ig_build_scalar_int(g, INGOT_I32, 1 << 30), least = ig_build_scalar_int(g, INGOT_I32, -(1 << 30));
    integers = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_min, integers, most), least);
    if (ig_match_binary(g, sum, IG_OP_add, &x, &constant) && ig_info(g, constant)->is_const) {
        sum = x;
        integers = ig_map2(g, IG_OP_add, constant, integers);
    }
    sum = ig_map2(g, IG_OP_add, sum, integers);
    return ig_map2(g, IG_OP_mul, ig_build_cast(g, sum, INGOT_F32), scale);
}

static ig_value plus_bias(struct product *p, ig_value value, ig_value bias) {
    ig_value sum = folded_bias(p->g, value, bias);
    return sum == IG_NO_VALUE ? ig_map2(p->g, IG_OP_add, value, bias) : sum;
}

ig_value ig_integer_bias(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    if (ig_type_of(rw->in, n->out)->dtype != INGOT_F32) return IG_NO_VALUE;
    for (int i = 0; i < 2; i++) {
        ig_value sum = IG_NO_VALUE;
        if (ig_info(rw->out, in[1 - i])->is_const && !ig_info(rw->out, in[i])->is_const)
            sum = folded_bias(rw->out, in[i], in[1 - i]);
        if (sum != IG_NO_VALUE && ig_same_dims(ig_type_of(rw->out, sum), ig_type_of(rw->in, n->out))) return sum;
    }
    return IG_NO_VALUE;
}
