/*
 * Sizes that a model computes in floats: int(float(height) * min(64 / float(width), 1.5)). They determine shapes, so
 * they must be symbolic integers. A small float vector is interpreted as rational functions of dims, with minima and
 * maxima on top; a cast to integers is then a floor division. Rounding in the model's floats is considered accidental:
 * a constant stands for the simplest fraction that rounds to it, and the arithmetic is exact.
 */
#include <math.h>

#include "import/onnx/importer.h"
#include "ir/eval/eval.h"

enum { MAX_ELEMENTS = IG_ONNX_MAX_RATIOS, MAX_DEPTH = 32, MAX_WORK = 4096 };

/* A fraction, or the smaller or larger of two other ratios. */
struct ratio {
    enum { FRACTION, SMALLER, LARGER } kind;
    ig_dim num, den; /* den > 0 */
    const struct ratio *a, *b;
};

struct ratios {
    int count;
    const struct ratio *at[MAX_ELEMENTS];
};

struct search {
    struct ig_graph *g;
    struct ig_dims *dims;
    int work; /* remaining steps: without a limit, shared subexpressions would be walked again and again */
};

static const struct ratio *fraction(struct search *s, ig_dim num, ig_dim den) {
    struct ratio *r = IG_NEW(s->g->job, struct ratio);
    *r = (struct ratio){.kind = FRACTION, .num = num, .den = den};
    return r;
}

static const struct ratio *choice(struct search *s, int kind, const struct ratio *a, const struct ratio *b) {
    struct ratio *r = IG_NEW(s->g->job, struct ratio);
    *r = (struct ratio){.kind = kind, .a = a, .b = b};
    return r;
}

static bool never_negative(struct search *s, ig_dim dim) {
    int64_t lo, hi;
    ig_dim_range(s->dims, dim, &lo, &hi);
    return lo >= 0;
}

/* The simplest fraction that equals `value` in float precision, by continued fractions. */
static bool simplest(double value, int64_t *out_num, int64_t *out_den) {
    double rest = fabs(value);
    int64_t n0 = 0, d0 = 1, n1 = 1, d1 = 0;
    if (!(rest < 1e9)) return false;
    for (int i = 0; i < 32; i++) {
        double whole = floor(rest);
        if (whole > 1e9) return false;
        int64_t n2 = (int64_t)whole * n1 + n0, d2 = (int64_t)whole * d1 + d0;
        if (n2 > 1 << 30 || d2 > 1 << 30) return false;
        n0 = n1;
        d0 = d1;
        n1 = n2;
        d1 = d2;
        if ((float)((double)n1 / (double)d1) == (float)fabs(value)) break;
        rest = 1 / (rest - whole);
    }
    *out_num = value < 0 ? -n1 : n1;
    *out_den = d1;
    return d1 > 0;
}

bool ig_onnx_simplest_fraction(double value, int64_t *out_num, int64_t *out_den) {
    return simplest(value, out_num, out_den) && (float)((double)*out_num / (double)*out_den) == (float)value;
}

/* ---- Arithmetic; NULL if the result is not a ratio ---- */

static const struct ratio *combine(struct search *s, enum ig_op op, const struct ratio *a, const struct ratio *b);

static const struct ratio *combine_fractions(struct search *s, enum ig_op op, const struct ratio *a,
                                             const struct ratio *b) {
    struct ig_dims *dims = s->dims;
    ig_dim cross_a, cross_b;
    switch (op) {
    case IG_OP_mul: return fraction(s, ig_dim_mul(dims, a->num, b->num), ig_dim_mul(dims, a->den, b->den));
    case IG_OP_div:
        if (!never_negative(s, b->num)) return NULL;
        return fraction(s, ig_dim_mul(dims, a->num, b->den), ig_dim_mul(dims, a->den, b->num));
    case IG_OP_add:
    case IG_OP_sub:
        cross_a = ig_dim_mul(dims, a->num, b->den);
        cross_b = ig_dim_mul(dims, b->num, a->den);
        cross_a = op == IG_OP_add ? ig_dim_add(dims, cross_a, cross_b) : ig_dim_sub(dims, cross_a, cross_b);
        return fraction(s, cross_a, ig_dim_mul(dims, a->den, b->den));
    default: return NULL;
    }
}

/* min(p, q) op b = min(p op b, q op b) if the operation increases with that operand, and the maximum if it
 * decreases. */
static const struct ratio *distribute(struct search *s, enum ig_op op, const struct ratio *a, const struct ratio *b,
                                      bool left) {
    const struct ratio *split = left ? a : b, *other = left ? b : a;
    bool scales = op == IG_OP_mul || op == IG_OP_div;
    bool shrinks = !left && (op == IG_OP_div || op == IG_OP_sub);
    if (scales && (other->kind != FRACTION || !never_negative(s, other->num))) return NULL;
    const struct ratio *p = left ? combine(s, op, split->a, b) : combine(s, op, a, split->a);
    const struct ratio *q = left ? combine(s, op, split->b, b) : combine(s, op, a, split->b);
    if (!p || !q) return NULL;
    int kind = split->kind;
    if (shrinks) kind = kind == SMALLER ? LARGER : SMALLER;
    return choice(s, kind, p, q);
}

static const struct ratio *combine(struct search *s, enum ig_op op, const struct ratio *a, const struct ratio *b) {
    if (!a || !b || s->work-- <= 0) return NULL;
    if (op == IG_OP_min) return choice(s, SMALLER, a, b);
    if (op == IG_OP_max) return choice(s, LARGER, a, b);
    if (a->kind == FRACTION && b->kind == FRACTION) return combine_fractions(s, op, a, b);
    return distribute(s, op, a, b, a->kind != FRACTION);
}

/* Floor (or ceiling); both are monotonic, so they commute with minima and maxima. */
static ig_dim whole(struct search *s, const struct ratio *r, bool up) {
    if (!r || s->work-- <= 0) return IG_DIM_NONE;
    if (r->kind == FRACTION) return up ? ig_dim_ceil_div(s->dims, r->num, r->den) : ig_dim_div(s->dims, r->num, r->den);
    ig_dim a = whole(s, r->a, up), b = whole(s, r->b, up);
    if (a == IG_DIM_NONE || b == IG_DIM_NONE) return IG_DIM_NONE;
    return r->kind == SMALLER ? ig_dim_min(s->dims, a, b) : ig_dim_max(s->dims, a, b);
}

/* ---- Values ---- */

static bool look(struct search *s, ig_value value, int depth, struct ratios *out);

static bool look_integers(struct search *s, ig_value value, struct ratios *out) {
    const ig_dim *elements;
    int count;
    if (!ig_elements(s->g, value, &elements, &count) || count > MAX_ELEMENTS) return false;
    out->count = count;
    for (int i = 0; i < count; i++)
        out->at[i] = fraction(s, elements[i], ig_dim_const(s->dims, 1));
    return true;
}

static bool look_constant(struct search *s, ig_value value, struct ratios *out) {
    struct ingot_tensor tensor = ig_const_tensor(s->g, value);
    int64_t count = ingot_tensor_elements(&tensor), num, den;
    bool known = count <= MAX_ELEMENTS;
    out->count = known ? (int)count : 0;
    for (int i = 0; i < out->count; i++) {
        known = known && simplest(ig_load_f64(tensor.dtype, tensor.data, i), &num, &den);
        if (known) out->at[i] = fraction(s, ig_dim_const(s->dims, num), ig_dim_const(s->dims, den));
    }
    ig_const_release(s->g, value, &tensor);
    return known;
}

static bool look_binary(struct search *s, const struct ig_node *node, int depth, struct ratios *out) {
    struct ratios a, b;
    enum ig_op op = node->op;
    ig_value left = node->in[0], right = node->in[1];
    if (!look(s, left, depth, &a) || !look(s, right, depth, &b)) return false;
    out->count = a.count > b.count ? a.count : b.count;
    if ((a.count != out->count && a.count != 1) || (b.count != out->count && b.count != 1)) return false;
    for (int i = 0; i < out->count; i++) {
        out->at[i] = combine(s, op, a.at[a.count == 1 ? 0 : i], b.at[b.count == 1 ? 0 : i]);
        if (!out->at[i]) return false;
    }
    return true;
}

static bool look_rounded(struct search *s, ig_value operand, bool up, int depth, struct ratios *out) {
    if (!look(s, operand, depth, out)) return false;
    for (int i = 0; i < out->count; i++) {
        ig_dim number = whole(s, out->at[i], up);
        if (number == IG_DIM_NONE) return false;
        out->at[i] = fraction(s, number, ig_dim_const(s->dims, 1));
    }
    return true;
}

static bool look_concat(struct search *s, const struct ig_node *node, int depth, struct ratios *out) {
    struct ratios part;
    uint32_t n_in = node->n_in;
    const ig_value *in = node->in;
    out->count = 0;
    for (uint32_t i = 0; i < n_in; i++) {
        if (!look(s, in[i], depth, &part) || out->count + part.count > MAX_ELEMENTS) return false;
        for (int j = 0; j < part.count; j++)
            out->at[out->count++] = part.at[j];
    }
    return true;
}

/* A slice of a vector, at constant positions. */
static bool look_slice(struct search *s, const struct ig_node *node, int depth, struct ratios *out) {
    struct ratios whole_vector;
    int64_t start, size, step = ig_attr(s->g, node, IG_ATTR_steps)->ints[0];
    bool known = ig_dim_is_const(s->dims, ig_attr(s->g, node, IG_ATTR_starts)->dims[0], &start) &&
                 ig_dim_is_const(s->dims, ig_attr(s->g, node, IG_ATTR_sizes)->dims[0], &size);
    if (!known || size > MAX_ELEMENTS || !look(s, node->in[0], depth, &whole_vector)) return false;
    out->count = (int)size;
    for (int i = 0; i < out->count; i++) {
        int64_t at = start + i * step;
        if (at < 0 || at >= whole_vector.count) return false;
        out->at[i] = whole_vector.at[at];
    }
    return true;
}

static bool look_gather(struct search *s, const struct ig_node *node, int depth, struct ratios *out) {
    struct ratios vector;
    int64_t index[MAX_ELEMENTS];
    if (!ig_const_ints(s->g, node->in[1], index, MAX_ELEMENTS, &out->count)) return false;
    if (!look(s, node->in[0], depth, &vector)) return false;
    for (int i = 0; i < out->count; i++) {
        int64_t at = index[i] < 0 ? index[i] + vector.count : index[i];
        if (at < 0 || at >= vector.count) return false;
        out->at[i] = vector.at[at];
    }
    return true;
}

static bool look(struct search *s, ig_value value, int depth, struct ratios *out) {
    const struct ig_value_info *info = ig_info(s->g, value);
    if (depth <= 0 || s->work-- <= 0 || info->type.rank > 1) return false;
    if (!ig_dtype_is_float(info->type.dtype)) return look_integers(s, value, out);
    if (info->is_const) return look_constant(s, value, out);
    const struct ig_node *node = ig_def(s->g, value);
    if (!node) return false;
    switch (node->op) {
    case IG_OP_cast:
    case IG_OP_reshape: return look(s, node->in[0], depth - 1, out);
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_div:
    case IG_OP_min:
    case IG_OP_max: return look_binary(s, node, depth - 1, out);
    case IG_OP_floor: return look_rounded(s, node->in[0], false, depth - 1, out);
    case IG_OP_ceil: return look_rounded(s, node->in[0], true, depth - 1, out);
    case IG_OP_concat: return look_concat(s, node, depth - 1, out);
    case IG_OP_slice: return look_slice(s, node, depth - 1, out);
    case IG_OP_gather: return look_gather(s, node, depth - 1, out);
    default: return false;
    }
}

/* ---- Entry points ---- */

/* If nothing is negative, truncation equals floor. */
static bool all_positive(struct search *s, const struct ratio *r) {
    if (s->work-- <= 0) return false;
    if (r->kind == FRACTION) return never_negative(s, r->num);
    return all_positive(s, r->a) && all_positive(s, r->b);
}

bool ig_onnx_truncate(struct ig_onnx_node *n, ig_value value, ig_dim *out_elements, int *out_count) {
    struct search s = {.g = n->g, .dims = n->dims, .work = MAX_WORK};
    struct ratios ratios;
    if (ig_info(n->g, value)->is_const || !look(&s, value, MAX_DEPTH, &ratios)) return false;
    for (int i = 0; i < ratios.count; i++) {
        if (!all_positive(&s, ratios.at[i])) return false;
        out_elements[i] = whole(&s, ratios.at[i], false);
        if (out_elements[i] == IG_DIM_NONE) return false;
    }
    *out_count = ratios.count;
    return true;
}

bool ig_onnx_scale_dims(struct ig_onnx_node *n, ig_value scales, const ig_dim *dims, int count, ig_dim *out_dims) {
    struct search s = {.g = n->g, .dims = n->dims, .work = MAX_WORK};
    struct ratios ratios;
    if (!look(&s, scales, MAX_DEPTH, &ratios) || ratios.count != count) return false;
    for (int i = 0; i < count; i++) {
        const struct ratio *size = fraction(&s, dims[i], ig_dim_const(n->dims, 1));
        out_dims[i] = whole(&s, combine(&s, IG_OP_mul, ratios.at[i], size), false);
        if (out_dims[i] == IG_DIM_NONE) return false;
    }
    return true;
}

bool ig_onnx_range_size(struct ig_onnx_node *n, ig_value start, ig_value limit, ig_value delta, ig_dim *out_size) {
    struct search s = {.g = n->g, .dims = n->dims, .work = MAX_WORK};
    struct ratios first, end, step;
    const ig_value scalars[] = {start, limit, delta};
    bool all_const = true;
    for (int i = 0; i < 3; i++)
        all_const = all_const && ig_info(n->g, scalars[i])->is_const;
    if (all_const || !look(&s, start, MAX_DEPTH, &first) || !look(&s, limit, MAX_DEPTH, &end) ||
        !look(&s, delta, MAX_DEPTH, &step) || first.count != 1 || end.count != 1 || step.count != 1)
        return false;
    int64_t lo, hi;
    if (step.at[0]->kind != FRACTION) return false;
    ig_dim_range(n->dims, step.at[0]->num, &lo, &hi);
    if (lo <= 0) return false;
    const struct ratio *span = combine(&s, IG_OP_sub, end.at[0], first.at[0]);
    *out_size = whole(&s, combine(&s, IG_OP_div, span, step.at[0]), true);
    return *out_size != IG_DIM_NONE;
}
