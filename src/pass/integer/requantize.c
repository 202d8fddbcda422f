/*
 * Quantisation to bytes, of what other bytes determine. With y = round(x / s) + z, saturated:
 *
 *   - x is what the same s and z dequantised: its bytes are the result.
 *   - x consists of parts or is moved: the parts are quantised, exactly.
 *   - x is a function of one byte that devices do not compute alike (a sigmoid): a table of 256 bytes.
 *   - x is a sum of integers times scales, perhaps bounded: the scales are divided by s when the engine is built, and nothing is
 *     divided when it runs. docs/quantisation.md has this arithmetic.
 *   - else the division remains, as the standard has it.
 *
 * Results are u8; of i8 with 128 more, which also makes NaN the lowest number, as saturating casts make it 0. GPUs multiply bytes of
 * both kinds alike, and what they fetch from beyond an image's edges is 0: there i8 with a zero point of 0 stay i8.
 */
#include <math.h>

#include "base/map.h"
#include "pass/integer/quantized.h"
#include "pass/match.h"
#include "pass/view/view.h"

struct target {
    struct ig_graph *g;
    ig_value scale;  /* IG_NO_VALUE: 1 */
    ig_value factor; /* the model multiplies by this reciprocal of the scale; or IG_NO_VALUE */
    int64_t zero;    /* of the u8 */
    bool is_signed;  /* the result is the i8 with 128 less */
};

static ig_value number(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

/* ---- x / s for sums of scaled integers ---- */

static ig_value over(const struct target *t, ig_value scale) {
    if (t->factor != IG_NO_VALUE) return ig_map2(t->g, IG_OP_mul, scale, t->factor);
    return t->scale == IG_NO_VALUE ? scale : ig_map2(t->g, IG_OP_div, scale, t->scale);
}

/* Is a bound at value c beyond what the byte can hold? Only behind the last operator that is not such a bound. */
static bool is_idle(const struct target *t, enum ig_op op, ig_value c) {
    double bound, scale = 1;
    if (!ig_match_scalar(t->g, c, &bound) || isnan(bound)) return false;
    ig_value quotient = over(t, number(t->g, bound));
    if (!ig_match_scalar(t->g, quotient, &scale)) return false;
    double step = nearbyint(scale) + (double)t->zero;
    return op == IG_OP_max ? step <= 0 : step >= 255;
}

static ig_value divided(const struct target *t, ig_value x, bool last, int depth);

/* a * b, where one is a constant or both are dequantised. */
static ig_value divided_product(const struct target *t, ig_value a, ig_value b) {
    struct ig_graph *g = t->g;
    struct ig_quantized p, q;
    if (ig_info(g, a)->is_const) {
        ig_value other = a;
        a = b;
        b = other;
    }
    if (ig_info(g, b)->is_const) return ig_is_of_integers(g, a) ? ig_map2(g, IG_OP_mul, a, over(t, b)) : IG_NO_VALUE;
    if (!ig_match_quantized(g, a, &p) || !ig_match_quantized(g, b, &q)) return IG_NO_VALUE;
    a = ig_build_centered(g, p.bytes, p.zero, INGOT_F32);
    b = ig_build_centered(g, q.bytes, q.zero, INGOT_F32);
    return ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_mul, a, b), over(t, ig_map2(g, IG_OP_mul, p.scale, q.scale)));
}

/* x / s, without a division when the graph runs; IG_NO_VALUE if x is something else. `last`: nothing but bounds follows. */
static ig_value divided(const struct target *t, ig_value x, bool last, int depth) {
    enum { DEEPEST = 24 };
    struct ig_graph *g = t->g;
    const struct ig_node *n = ig_def(g, x);
    if (ig_info(g, x)->is_const) return over(t, x);
    if (!n || depth == DEEPEST) return IG_NO_VALUE;
    if (ig_is_of_integers(g, x)) return ig_map2(g, IG_OP_mul, x, over(t, number(g, 1)));
    const enum ig_op op = n->op;
    const ig_value a = n->in[0], b = n->n_in > 1 ? n->in[1] : IG_NO_VALUE;
    switch (op) {
    case IG_OP_mul: return divided_product(t, a, b);
    case IG_OP_max:
    case IG_OP_min:
        if (last && ig_info(g, b)->is_const && is_idle(t, op, b)) return divided(t, a, true, depth + 1);
        break;
    case IG_OP_add:
    case IG_OP_sub: last = false; break;
    default: return IG_NO_VALUE;
    }
    ig_value left = divided(t, a, last, depth + 1);
    ig_value right = left == IG_NO_VALUE ? left : divided(t, b, false, depth + 1);
    return right == IG_NO_VALUE ? right : ig_map2(g, op, left, right);
}

/* ---- Tables ---- */

/* A function of one byte, if it is one. */
struct function {
    struct ig_graph *g;
    ig_value byte; /* u8; IG_NO_VALUE: none found yet */
    bool inexact;  /* contains what devices do not compute alike, or a table of such */
    ig_value argument;
    struct ig_map built; /* value -> the same of `argument` */
    int nodes;
};

static bool is_inexact(enum ig_op op) {
    switch (op) {
    case IG_OP_exp:
    case IG_OP_log:
    case IG_OP_log1p:
    case IG_OP_sin:
    case IG_OP_cos:
    case IG_OP_tan:
    case IG_OP_asin:
    case IG_OP_acos:
    case IG_OP_atan:
    case IG_OP_sinh:
    case IG_OP_cosh:
    case IG_OP_tanh:
    case IG_OP_asinh:
    case IG_OP_acosh:
    case IG_OP_atanh:
    case IG_OP_erf:
    case IG_OP_normcdf:
    case IG_OP_sigmoid:
    case IG_OP_pow: return true;
    default: return false;
    }
}

/* A table applied to a byte, as this file builds it: returns the byte. */
static bool match_table(struct ig_graph *g, ig_value v, ig_value *out_byte) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_gather);
    ig_value index;
    if (!n || !ig_info(g, n->in[0])->is_const || ig_type_of(g, n->in[0])->rank != 1) return false;
    index = n->in[1];
    if (!ig_match_unary(g, index, IG_OP_cast, out_byte)) return false;
    return ig_type_of(g, *out_byte)->dtype == INGOT_U8;
}

static ig_value as_unsigned(struct ig_graph *g, ig_value byte) {
    return ig_type_of(g, byte)->dtype == INGOT_I8 ? ig_build_as_u8(g, byte) : byte;
}

/* Does v depend on constants of one element and on one byte only, elementwise? */
static bool depends_on_byte(struct function *f, ig_value v) {
    enum { MOST_NODES = 64 };
    struct ig_graph *g = f->g;
    double unused;
    if (ig_info(g, v)->is_const) return ig_match_scalar(g, v, &unused);
    const struct ig_node *n = ig_def(g, v);
    ig_value byte;
    if (ig_type_of(g, v)->dtype == INGOT_U8 || ig_type_of(g, v)->dtype == INGOT_I8) {
        if (match_table(g, v, &byte)) {
            f->inexact = true;
            return depends_on_byte(f, byte);
        }
        byte = as_unsigned(g, v);
        bool same = f->byte == IG_NO_VALUE || f->byte == byte;
        f->byte = byte;
        return same;
    }
    if (!n || ++f->nodes > MOST_NODES) return false;
    if (!ig_op_info(n->op)->is_map && n->op != IG_OP_cast && n->op != IG_OP_where) return false;
    f->inexact |= is_inexact(n->op);
    const ig_value *in = n->in;
    uint32_t count = n->n_in;
    for (uint32_t i = 0; i < count; i++) {
        if (!depends_on_byte(f, in[i])) return false;
    }
    return true;
}

/* v of f->argument instead of the byte. */
static ig_value applied(struct function *f, ig_value v) {
    struct ig_graph *g = f->g;
    ig_value in[3];
    uint32_t found;
    if (v == f->byte) return f->argument;
    if (ig_type_of(g, v)->dtype == INGOT_I8 && ig_build_as_u8(g, v) == f->byte) return ig_build_as_i8(g, f->argument);
    if (ig_info(g, v)->is_const) {
        const struct ig_type *type = ig_type_of(g, v);
        return type->rank ? ig_build_reshape(g, v, NULL, 0) : v;
    }
    if (ig_map_get(&f->built, &v, sizeof v, &found)) return found;
    struct ig_node n = *ig_def(g, v);
    bool is_table = n.op == IG_OP_gather;
    for (uint32_t i = 0; i < n.n_in; i++)
        in[i] = is_table && i == 0 ? n.in[0] : applied(f, n.in[i]);
    ig_value y = ig_build_copy(g, g, &n, in);
    ig_map_put(&f->built, &v, sizeof v, y);
    return y;
}

static ig_value all_bytes(struct ig_graph *g) {
    uint8_t *bytes = ig_alloc(g->job, 256);
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    struct ig_data data = {.bytes = bytes, .size = 256};
    return ig_build_constant(g, INGOT_U8, 1, (const int64_t[]){256}, &data);
}

static ig_value literal(const struct target *t, ig_value x);

/* The quantised x as a table of a byte; IG_NO_VALUE if it is no such function, or one that is computed exactly. */
static ig_value looked_up(const struct target *t, ig_value x) {
    struct ig_graph *g = t->g;
    struct function f = {.g = g, .byte = IG_NO_VALUE};
    if (!depends_on_byte(&f, x) || !f.inexact || f.byte == IG_NO_VALUE) return IG_NO_VALUE;
    if (!ig_same_dims(ig_type_of(g, f.byte), ig_type_of(g, x))) return IG_NO_VALUE;
    f.argument = all_bytes(g);
    ig_map_init(&f.built, g->job);
    ig_value table = literal(t, applied(&f, x));
    return ig_build_gather(g, table, ig_build_cast(g, f.byte, INGOT_I32), 0);
}

/* ---- Quantising ---- */

/* x / s is given: rounded, moved and saturated. */
static ig_value finished(const struct target *t, ig_value quotient) {
    struct ig_graph *g = t->g;
    ig_value y = ig_map1(g, IG_OP_round, quotient), lowest = number(g, -128);
    int64_t zero = t->is_signed ? t->zero - 128 : t->zero;
    if (zero) y = ig_map2(g, IG_OP_add, y, number(g, (double)zero));
    if (!t->is_signed) return ig_build_cast_saturating(g, y, INGOT_U8);
    y = ig_build_where(g, ig_map2(g, IG_OP_lt, lowest, y), y, lowest); /* NaN, too */
    return ig_build_cast_saturating(g, y, INGOT_I8);
}

static ig_value literal(const struct target *t, ig_value x) {
    if (t->factor != IG_NO_VALUE) return finished(t, ig_map2(t->g, IG_OP_mul, x, t->factor));
    return finished(t, t->scale == IG_NO_VALUE ? x : ig_map2(t->g, IG_OP_div, x, t->scale));
}

/* Was x dequantised by the same scale and zero point? */
static bool match_same(const struct target *t, ig_value x, ig_value *out) {
    struct ig_quantized q;
    double scale, factor;
    if (!ig_match_quantized(t->g, x, &q)) return false;
    int64_t zero = q.zero + (ig_type_of(t->g, q.bytes)->dtype == INGOT_I8 ? 128 : 0);
    if (zero != t->zero || !ig_match_scale(t->g, q.scale, &scale)) return false;
    if (t->factor != IG_NO_VALUE) {
        if (!ig_match_scalar(t->g, t->factor, &factor) || (float)(1 / scale) != (float)factor) return false;
    } else if (t->scale == IG_NO_VALUE ? scale != 1 : !ig_same_scale(t->g, q.scale, t->scale)) {
        return false;
    }
    bool is_signed = ig_type_of(t->g, q.bytes)->dtype == INGOT_I8;
    *out = is_signed == t->is_signed ? q.bytes
           : is_signed               ? ig_build_as_u8(t->g, q.bytes)
                                     : ig_build_as_i8(t->g, q.bytes);
    return true;
}

static bool is_movement(enum ig_op op) {
    return op == IG_OP_reshape || op == IG_OP_transpose || op == IG_OP_slice;
}

static ig_value quantized(const struct target *t, ig_value x, int depth);

static ig_value quantized_parts(const struct target *t, const struct ig_node *n, int depth) {
    struct ig_graph *g = t->g;
    ig_value *parts = IG_NEW_ARRAY(g->job, ig_value, n->n_in);
    const ig_value *in = n->in;
    uint32_t count = n->n_in;
    int axis = (int)ig_attr_int(g, n, IG_ATTR_axis);
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = quantized(t, in[i], depth + 1);
        if (parts[i] == IG_NO_VALUE) parts[i] = literal(t, in[i]);
    }
    return ig_build_concat(g, parts, (int)count, axis);
}

/* A byte; IG_NO_VALUE: only the division as the model has it will do. */
static ig_value quantized(const struct target *t, ig_value x, int depth) {
    enum { DEEPEST = 8 };
    struct ig_graph *g = t->g;
    const struct ig_node *n = ig_def(g, x);
    ig_value y;
    if (match_same(t, x, &y)) return y;
    if (n && n->op == IG_OP_concat && depth < DEEPEST) return quantized_parts(t, n, depth);
    if (n && is_movement(n->op) && depth < DEEPEST) {
        struct ig_node move = *n;
        y = quantized(t, n->in[0], depth + 1);
        return y == IG_NO_VALUE ? y : ig_build_copy(g, g, &move, &y);
    }
    y = looked_up(t, x);
    if (y != IG_NO_VALUE) return y;
    y = divided(t, x, true, 0);
    return y == IG_NO_VALUE ? y : finished(t, y);
}

/* ---- Recognising ---- */

/* v = where(lowest < x, x, lowest), by which NaN becomes the lowest number of i8. */
static bool match_lowest(struct ig_graph *g, ig_value v, ig_value *out_x) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_where);
    ig_value low, x;
    if (!n || !ig_match_value(g, n->in[2], -128)) return false;
    ig_value kept = n->in[1];
    if (!ig_match_binary(g, n->in[0], IG_OP_lt, &low, &x) || x != kept || !ig_match_value(g, low, -128)) return false;
    *out_x = kept;
    return true;
}

/* v = round(quotient) + zero */
static bool match_rounded(struct ig_graph *g, ig_value v, ig_value *out_quotient, int64_t *out_zero) {
    ig_value x;
    double zero = 0;
    if (!ig_match_unary(g, v, IG_OP_round, out_quotient)) {
        if (!ig_match_with_scalar(g, v, IG_OP_add, &x, &zero)) {
            if (!ig_match_with_scalar(g, v, IG_OP_sub, &x, &zero)) return false;
            zero = -zero;
        }
        if (!ig_match_unary(g, x, IG_OP_round, out_quotient)) return false;
    }
    *out_zero = (int64_t)zero;
    return zero == nearbyint(zero) && fabs(zero) <= 256 && ig_same_dims(ig_type_of(g, *out_quotient), ig_type_of(g, v));
}

/* quotient = x / s, or x * factor; else x = quotient. */
static ig_value match_quotient(struct target *t, ig_value quotient) {
    struct ig_graph *g = t->g;
    ig_value x, y;
    double unused;
    t->scale = t->factor = IG_NO_VALUE;
    if (ig_match_binary(g, quotient, IG_OP_div, &x, &y)) {
        if (!ig_match_scale(g, y, &unused)) return IG_NO_VALUE;
        t->scale = ig_type_of(g, y)->rank ? ig_build_reshape(g, y, NULL, 0) : y;
    } else if (ig_match_binary(g, quotient, IG_OP_mul, &x, &y) && !ig_is_of_integers(g, x)) {
        if (!ig_match_scale(g, y, &unused)) return IG_NO_VALUE;
        t->factor = ig_type_of(g, y)->rank ? ig_build_reshape(g, y, NULL, 0) : y;
    } else {
        return quotient;
    }
    return ig_same_dims(ig_type_of(g, x), ig_type_of(g, quotient)) ? x : IG_NO_VALUE;
}

/* round(quotient) + zero, plus `offset`, as u8; or the i8 with 128 less. If `literally` is false, IG_NO_VALUE where only the
 * division would do. */
static ig_value requantized(struct ig_rewriter *rw, ig_value rounded, int64_t offset, bool literally) {
    struct target t = {.g = rw->out};
    ig_value quotient;
    if (!match_rounded(t.g, rounded, &quotient, &t.zero)) return IG_NO_VALUE;
    t.zero += offset;
    t.is_signed = offset == 128 && t.zero == 128 && ig_target_is_cuda(rw->options->target);
    ig_value x = match_quotient(&t, quotient);
    if (x == IG_NO_VALUE) return x;
    ig_value y = quantized(&t, x, 0);
    return y == IG_NO_VALUE && literally ? literal(&t, x) : y;
}

/* Weights of i8 by way of u8, too: the comparison that makes NaN the lowest number is made of flags, which are folded and would
 * make the weights a part of the network's structure. */
static ig_value quantized_weights(struct ig_graph *g, ig_value v) {
    ig_value rounded;
    if (ig_type_of(g, v)->dtype != INGOT_F32 || !match_lowest(g, v, &rounded)) return IG_NO_VALUE;
    ig_value y = ig_map2(g, IG_OP_add, rounded, number(g, 128));
    return ig_build_as_i8(g, ig_build_cast_saturating(g, y, INGOT_U8));
}

ig_value ig_integer_quantize(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    enum ingot_dtype dtype = ig_type_of(rw->in, n->out)->dtype;
    ig_value rounded = in[0];
    bool is_signed = dtype == INGOT_I8, saturates = ig_attr_int(rw->in, n, IG_ATTR_saturate) != 0;
    if (!saturates || (dtype != INGOT_U8 && !is_signed)) return IG_NO_VALUE;
    if (ig_info(rw->in, n->out)->is_const) return is_signed ? quantized_weights(g, in[0]) : IG_NO_VALUE;
    if (ig_type_of(g, in[0])->dtype != INGOT_F32) return IG_NO_VALUE;
    bool lowest = is_signed && match_lowest(g, in[0], &rounded);
    ig_value y = requantized(rw, rounded, is_signed ? 128 : 0, lowest);
    if (y == IG_NO_VALUE || ig_type_of(g, y)->dtype == dtype) return y;
    return ig_build_as_i8(g, y);
}

/* ---- Fake quantisation ---- */

/* v = min(max(rounded, lo), hi), in any order. */
static bool match_bounded(struct ig_graph *g, ig_value v, ig_value *out_rounded, double *out_lo, double *out_hi) {
    double bound;
    *out_lo = -INFINITY;
    *out_hi = INFINITY;
    for (;;) {
        const struct ig_node *n = ig_def(g, v);
        if (!n || (n->op != IG_OP_min && n->op != IG_OP_max) || !ig_match_scalar(g, n->in[1], &bound)) break;
        bool lower = n->op == IG_OP_max;
        if (bound != nearbyint(bound) || (lower ? bound > *out_hi : bound < *out_lo)) return false;
        if (lower && bound > *out_lo) *out_lo = bound;
        if (!lower && bound < *out_hi) *out_hi = bound;
        v = n->in[0];
    }
    *out_rounded = v;
    return fabs(*out_lo) <= 256 && *out_hi - *out_lo <= 255;
}

ig_value ig_integer_fake(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    ig_value x = in[0], rounded;
    double scale, lo, hi, zero = 0;
    if (!ig_match_scale(g, in[1], &scale)) return IG_NO_VALUE;
    if (ig_match_with_scalar(g, x, IG_OP_sub, &x, &zero)) {
    } else if (ig_match_with_scalar(g, x, IG_OP_add, &x, &zero)) {
        zero = -zero;
    }
    if (zero != nearbyint(zero) || fabs(zero) > 256 || !match_bounded(g, x, &rounded, &lo, &hi)) return IG_NO_VALUE;
    int64_t offset = lo >= 0 && hi <= 255 ? 0 : lo >= -128 && hi <= 127 ? 128 : (int64_t)-lo;
    ig_value byte = requantized(rw, rounded, offset, true);
    if (byte == IG_NO_VALUE) return byte;
    enum ingot_dtype dtype = ig_type_of(g, byte)->dtype;
    if (dtype == INGOT_I8) offset = 0;
    int64_t least = (int64_t)lo + offset, most = (int64_t)hi + offset, first = dtype == INGOT_I8 ? -128 : 0;
    if (least > first) byte = ig_map2(g, IG_OP_max, byte, ig_build_scalar_int(g, dtype, least));
    if (most < first + 255) byte = ig_map2(g, IG_OP_min, byte, ig_build_scalar_int(g, dtype, most));
    const struct ig_quantized q = {byte, (int64_t)zero + offset, ig_build_reshape(g, in[1], NULL, 0)};
    ig_value y = ig_build_dequantized(g, &q);
    return ig_same_dims(ig_type_of(g, y), ig_type_of(rw->in, n->out)) ? y : IG_NO_VALUE;
}
