/* Matching and building quantised values; see quantized.h. */
#include "pass/integer/quantized.h"

#include <math.h>

#include "pass/match.h"
#include "pass/view/view.h"

/* ---- Signed bytes stored as unsigned ---- */

static ig_value flipped(struct ig_graph *g, ig_value u8) {
    return ig_map2(g, IG_OP_bitxor, u8, ig_build_scalar_int(g, INGOT_U8, 128));
}

static bool match_flipped(struct ig_graph *g, ig_value v, ig_value *out) {
    ig_value x, y;
    if (!ig_match_binary(g, v, IG_OP_bitxor, &x, &y) || ig_type_of(g, v)->dtype != INGOT_U8) return false;
    if (!ig_match_value(g, y, 128)) return false;
    *out = x;
    return true;
}

ig_value ig_build_as_i8(struct ig_graph *g, ig_value u8) {
    ig_value x;
    if (match_flipped(g, u8, &x) && ig_match_unary(g, x, IG_OP_cast, &x) && ig_type_of(g, x)->dtype == INGOT_I8)
        return x;
    return ig_build_cast(g, flipped(g, u8), INGOT_I8);
}

static bool match_as_i8(struct ig_graph *g, ig_value v, ig_value *out_u8) {
    ig_value x;
    return ig_type_of(g, v)->dtype == INGOT_I8 && ig_match_unary(g, v, IG_OP_cast, &x) && match_flipped(g, x, out_u8);
}

ig_value ig_build_as_u8(struct ig_graph *g, ig_value i8) {
    ig_value u8;
    return match_as_i8(g, i8, &u8) ? u8 : flipped(g, ig_build_cast(g, i8, INGOT_U8));
}

/* ---- Scales and zero points ---- */

bool ig_match_scale(struct ig_graph *g, ig_value v, double *out) {
    return ig_type_of(g, v)->dtype == INGOT_F32 && ig_match_scalar(g, v, out) && *out >= 0x1p-100 && *out <= 0x1p100;
}

bool ig_same_scale(struct ig_graph *g, ig_value a, ig_value b) {
    double x, y;
    return a == b || (ig_match_scale(g, a, &x) && ig_match_scale(g, b, &y) && x == y);
}

/* An integer of at most 9 bits. */
static bool match_zero(struct ig_graph *g, ig_value v, int64_t *out) {
    double d;
    if (!ig_match_scalar(g, v, &d) || d != nearbyint(d) || fabs(d) > 256) return false;
    *out = (int64_t)d;
    return true;
}

/* ---- bytes - zero ---- */

static bool match_wide(struct ig_graph *g, ig_value v, ig_value *out_bytes, int64_t *out_zero) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_cast);
    ig_value u8;
    if (!n || !ig_is_byte(ig_type_of(g, n->in[0])->dtype)) return false;
    *out_bytes = n->in[0];
    *out_zero = 0;
    if (match_as_i8(g, *out_bytes, &u8)) {
        *out_bytes = u8;
        *out_zero = 128;
    }
    return true;
}

bool ig_match_centered(struct ig_graph *g, ig_value v, ig_value *out_bytes, int64_t *out_zero) {
    enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
    ig_value x, y;
    int64_t zero = 0, more = 0;
    if (dtype != INGOT_F32 && dtype != INGOT_I32) return false;
    if (ig_match_binary(g, v, IG_OP_sub, &x, &y)) {
        if (!match_zero(g, y, &zero)) return false;
    } else if (ig_match_binary(g, v, IG_OP_add, &x, &y)) {
        if (!match_zero(g, y, &zero)) return false;
        zero = -zero;
    } else {
        x = v;
    }
    if (!match_wide(g, x, out_bytes, &more)) return false;
    if (!ig_same_dims(ig_type_of(g, x), ig_type_of(g, v))) return false;
    *out_zero = zero + more;
    return true;
}

bool ig_match_quantized(struct ig_graph *g, ig_value v, struct ig_quantized *out) {
    double scale;
    ig_value x = v, y;
    if (ig_type_of(g, v)->dtype != INGOT_F32 || ig_info(g, v)->is_const) return false;
    out->scale = IG_NO_VALUE;
    if (ig_match_binary(g, v, IG_OP_mul, &x, &y)) {
        if (ig_info(g, x)->is_const) {
            ig_value other = x;
            x = y;
            y = other;
        }
        if (!ig_match_scale(g, y, &scale) || !ig_same_dims(ig_type_of(g, x), ig_type_of(g, v))) return false;
        out->scale = y;
    }
    if (!ig_match_centered(g, x, &out->bytes, &out->zero)) return false;
    if (out->scale == IG_NO_VALUE) out->scale = ig_build_scalar(g, INGOT_F32, 1);
    if (ig_type_of(g, out->scale)->rank) out->scale = ig_build_reshape(g, out->scale, NULL, 0);
    return true;
}

ig_value ig_build_centered(struct ig_graph *g, ig_value bytes, int64_t zero, enum ingot_dtype wide) {
    ig_value x = ig_build_cast(g, bytes, wide);
    return zero ? ig_map2(g, IG_OP_sub, x, ig_build_scalar(g, wide, (double)zero)) : x;
}

ig_value ig_build_dequantized(struct ig_graph *g, const struct ig_quantized *q) {
    return ig_map2(g, IG_OP_mul, ig_build_centered(g, q->bytes, q->zero, INGOT_F32), q->scale);
}

/* ---- Exact arithmetic ---- */

static bool is_whole(struct ig_graph *g, ig_value v) {
    double d;
    return ig_match_scalar(g, v, &d) && d == nearbyint(d) && fabs(d) < 0x1p23;
}

bool ig_is_of_integers(struct ig_graph *g, ig_value v) {
    const struct ig_node *n = ig_def(g, v);
    if (!n || ig_info(g, v)->is_const) return false;
    switch (n->op) {
    case IG_OP_cast: return ig_dtype_is_integer(ig_type_of(g, n->in[0])->dtype);
    case IG_OP_pool_avg: return ig_is_of_integers(g, n->in[0]);
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_max:
    case IG_OP_min: return is_whole(g, n->in[1]) && ig_is_of_integers(g, n->in[0]);
    default: return false;
    }
}
