/*
 * Rules of canonicalize for minima, maxima, conditions, comparisons and casts.
 */
#include <math.h>

#include "pass/bounds.h"
#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

/* Drops a bound that always holds. NaN needs no care: min and max propagate it. */
ig_value ig_canonical_clamp(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    double c, inner;
    ig_value x;
    if (in[0] == in[1]) return in[0];
    if (ig_info(g, in[0])->is_const && !ig_info(g, in[1])->is_const) return ig_map2(g, n->op, in[1], in[0]);
    if (!ig_match_scalar(g, in[1], &c) || isnan(c)) return IG_NO_VALUE;
    struct ig_bounds b = ig_bounds_of(g, in[0]);
    if (n->op == IG_OP_max ? b.lo >= c : b.hi <= c) return in[0];
    if (!ig_match_with_scalar(g, in[0], n->op, &x, &inner) || isnan(inner)) return IG_NO_VALUE;
    bool outer_wins = n->op == IG_OP_max ? c >= inner : c <= inner;
    return outer_wins ? ig_map2(g, n->op, x, in[1]) : in[0];
}

/* A choice that is the same everywhere, as that of a mask which hides nothing. */
ig_value ig_canonical_where(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    bool condition;
    ig_value x;
    if (in[1] == in[2]) return in[1];
    if (ig_match_flag(g, in[0], &condition)) return condition ? in[1] : in[2];
    if (ig_match_unary(g, in[0], IG_OP_not, &x)) return ig_build_where(g, x, in[2], in[1]);
    return ig_choose_by_band(g, in[0], in[1], in[2]);
}

ig_value ig_canonical_logic(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    if (in[0] == in[1]) return in[0];
    for (int i = 0; i < 2; i++) {
        bool flag;
        if (!ig_match_flag(g, in[i], &flag)) continue;
        bool neutral = flag == (n->op == IG_OP_and);
        return neutral ? in[1 - i] : in[i];
    }
    return IG_NO_VALUE;
}

/* Decides comparisons by the operands' bounds. Integers only: floats may be NaN, which compares false. */
ig_value ig_canonical_compare(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    if (ig_dtype_is_float(ig_type_of(g, in[0])->dtype)) return IG_NO_VALUE;
    struct ig_bounds a = ig_bounds_of(g, in[0]), b = ig_bounds_of(g, in[1]);
    bool strict = n->op == IG_OP_lt;
    if (fabs(a.lo) > 0x1p52 && isfinite(a.lo)) return IG_NO_VALUE; /* bounds are exact only below that */
    if (strict ? a.hi < b.lo : a.hi <= b.lo) return ig_build_scalar_int(g, INGOT_BOOL, 1);
    if (strict ? a.lo >= b.hi : a.lo > b.hi) return ig_build_scalar_int(g, INGOT_BOOL, 0);
    return IG_NO_VALUE;
}

/* The width in bits, sign excluded, of the integers that a type represents exactly. */
static int exact_bits(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_BOOL: return 1;
    case INGOT_I8: return 7;
    case INGOT_U8: return 8;
    case INGOT_BF16: return 8;
    case INGOT_F16: return 11;
    case INGOT_I16: return 15;
    case INGOT_U16: return 16;
    case INGOT_F32: return 24;
    case INGOT_I32: return 31;
    case INGOT_U32: return 32;
    case INGOT_F64: return 53;
    case INGOT_I64: return 63;
    case INGOT_U64: return 64;
    default: return 0;
    }
}

/* Does `to` represent every value of `from`? */
static bool is_lossless(enum ingot_dtype from, enum ingot_dtype to) {
    if (from == to || from == INGOT_BOOL) return true;
    if (to == INGOT_BOOL) return false;
    bool from_float = ig_dtype_is_float(from), to_float = ig_dtype_is_float(to);
    if (from_float) {
        if (!to_float) return false;
        if (to == INGOT_F64) return true;
        return to == INGOT_F32 && (from == INGOT_F16 || from == INGOT_BF16);
    }
    if (to == INGOT_F16) return exact_bits(from) <= 11; /* this also excludes what would overflow, from 2^16 on */
    bool signs = !ig_dtype_is_signed(from) || to_float || ig_dtype_is_signed(to);
    return signs && exact_bits(from) <= exact_bits(to);
}

ig_value ig_canonical_cast(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    enum ingot_dtype to = (enum ingot_dtype)ig_attr_int(rw->in, n, IG_ATTR_to);
    const struct ig_node *inner = ig_def_op(g, in[0], IG_OP_cast);
    if (ig_type_of(g, in[0])->dtype == to) return in[0];
    if (!inner) return IG_NO_VALUE;
    ig_value x = inner->in[0];
    if (!is_lossless(ig_type_of(g, x)->dtype, ig_type_of(g, in[0])->dtype)) return IG_NO_VALUE;
    bool saturate = ig_attr_int(rw->in, n, IG_ATTR_saturate);
    return saturate ? ig_build_cast_saturating(g, x, to) : ig_build_cast(g, x, to);
}
