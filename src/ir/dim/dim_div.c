/*
 * Division, modulo, minimum and maximum of symbolic integers. The rules cover the shape arithmetic of real models:
 * exact quotients (`batch*seq*768 / (seq*64)`), windows of windows (`floor((floor((h+1)/2)+1)/2)` becomes
 * `floor((h+3)/4)`), and clamps that ranges decide.
 *
 * A division by zero has no value. So cancelling a factor that could be zero (x*y / y = x) is right wherever the
 * quotient is defined, and a divisor that is never negative counts as at least 1.
 */
#include "ir/dim/dim_pool.h"

static bool is_zero(const struct ig_dims *dims, ig_dim dim) {
    return ig_sum(dims, dim)->count == 0;
}

static ig_dim add_const(struct ig_dims *dims, ig_dim a, int64_t k) {
    return k == 0 ? a : ig_dim_add(dims, a, ig_dim_const(dims, k));
}

/* ---- Division by a positive constant */

/* floor(a / c) = quotient + floor(rest / c): takes the multiples of c out. The rest's constant is in [0, c). */
static ig_dim split_by_const(struct ig_dims *dims, ig_dim a, int64_t c, ig_dim *out_rest) {
    struct ig_sum_draft quotient, rest;
    const struct ig_dim_sum *s = ig_sum(dims, a);
    ig_draft_init(&quotient, dims);
    ig_draft_init(&rest, dims);
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t coef = s->terms[i].coef, mono = (int64_t)s->terms[i].mono;
        int64_t q = mono == IG_MONO_ONE ? ig_floor_div(coef, c) : coef / c;
        ig_draft_add(&quotient, q, (uint64_t)mono);
        ig_draft_add(&rest, coef - q * c, (uint64_t)mono);
    }
    *out_rest = ig_draft_finish(&rest);
    return ig_draft_finish(&quotient);
}

static bool absorbs(const struct ig_dims *dims, const struct ig_dim_term *term, int64_t *out_divisor,
                    const struct ig_dim_atom **out_atom) {
    const struct ig_dim_mono *mono = &dims->monos.at[term->mono];
    if (term->coef != 1 || mono->degree != 1) return false;
    *out_atom = &dims->atoms.at[mono->atoms[0]];
    return (*out_atom)->kind == IG_DIM_DIV && ig_dim_is_const(dims, (*out_atom)->b, out_divisor);
}

/* floor((e + floor(x / d)) / c) = floor((e*d + x) / (d*c)). False unless exactly one term is such a quotient. */
static bool flatten(struct ig_dims *dims, ig_dim rest, int64_t c, ig_dim *out_numerator, int64_t *out_divisor) {
    const struct ig_dim_sum *s = ig_sum(dims, rest);
    const struct ig_dim_atom *atom = NULL, *candidate;
    int64_t d = 0, divisor;
    uint32_t found = 0, which = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!absorbs(dims, &s->terms[i], &divisor, &candidate)) continue;
        found++;
        which = i;
        d = divisor;
        atom = candidate;
    }
    if (found != 1 || __builtin_mul_overflow(c, d, out_divisor)) return false;
    struct ig_sum_draft draft;
    ig_dim x = atom->a;
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < s->count; i++) {
        if (i != which) ig_draft_add(&draft, ig_checked_mul(dims->job, s->terms[i].coef, d), s->terms[i].mono);
    }
    ig_draft_add_sum(&draft, 1, x);
    *out_numerator = ig_draft_finish(&draft);
    return true;
}

static ig_dim div_by_const(struct ig_dims *dims, ig_dim a, int64_t c) {
    ig_dim rest, numerator;
    int64_t divisor, lo, hi;
    if (c == 1) return a;
    ig_dim quotient = split_by_const(dims, a, c, &rest);
    if (ig_dim_is_const(dims, rest, NULL)) return quotient;
    if (ig_sum(dims, rest)->terms[0].coef < 0) { /* one form for floor(-x/c) and -ceil(x/c) */
        ig_dim mirrored = add_const(dims, ig_sum_scale(dims, rest, -1), c - 1);
        return ig_dim_sub(dims, quotient, div_by_const(dims, mirrored, c));
    }
    int64_t g = ig_gcd(ig_sum_content(dims, rest, false), c);
    if (g > 1) { /* floor((g*e + k) / (g*d)) = floor((e + floor(k/g)) / d) */
        int64_t k = ig_sum_constant(dims, rest);
        ig_dim e = add_const(dims, ig_sum_shrink(dims, add_const(dims, rest, -k), g), ig_floor_div(k, g));
        return ig_dim_add(dims, quotient, div_by_const(dims, e, c / g));
    }
    if (flatten(dims, rest, c, &numerator, &divisor))
        return ig_dim_add(dims, quotient, div_by_const(dims, numerator, divisor));
    ig_dim_range(dims, rest, &lo, &hi);
    if (lo != INT64_MIN && hi != INT64_MAX && ig_floor_div(lo, c) == ig_floor_div(hi, c))
        return add_const(dims, quotient, ig_floor_div(lo, c));
    return ig_dim_add(dims, quotient, ig_dim_of_atom(dims, IG_DIM_DIV, rest, ig_dim_const(dims, c)));
}

/* ---- Division by an expression */

/* Polynomial division by the leading term; true if nothing remains. */
static bool divide_exactly(struct ig_dims *dims, ig_dim a, ig_dim b, ig_dim *out_quotient) {
    struct ig_sum_draft quotient;
    struct ig_dim_term lead = ig_sum(dims, b)->terms[0];
    ig_draft_init(&quotient, dims);
    for (int steps = 0; !is_zero(dims, a); steps++) {
        struct ig_dim_term top = ig_sum(dims, a)->terms[0];
        uint32_t mono;
        if (steps == IG_DIM_MAX_TERMS || (lead.coef == -1 && top.coef == INT64_MIN)) return false;
        if (top.coef % lead.coef != 0 || !ig_mono_div(dims, top.mono, lead.mono, &mono)) return false;
        ig_draft_add(&quotient, top.coef / lead.coef, mono);
        ig_dim factor = ig_dim_of_term(dims, top.coef / lead.coef, mono);
        a = ig_dim_sub(dims, a, ig_dim_mul(dims, factor, b));
    }
    *out_quotient = ig_draft_finish(&quotient);
    return true;
}

/* a = quotient*b + rest, term by term, for a b of one term. */
static ig_dim split_by_term(struct ig_dims *dims, ig_dim a, struct ig_dim_term b, ig_dim *out_rest) {
    struct ig_sum_draft quotient, rest;
    ig_draft_init(&quotient, dims);
    ig_draft_init(&rest, dims);
    for (uint32_t i = 0; i < ig_sum(dims, a)->count; i++) {
        struct ig_dim_term term = ig_sum(dims, a)->terms[i];
        uint32_t mono;
        bool exact = b.coef != -1 && term.coef % b.coef == 0 && ig_mono_div(dims, term.mono, b.mono, &mono);
        if (exact)
            ig_draft_add(&quotient, term.coef / b.coef, mono);
        else
            ig_draft_add(&rest, term.coef, term.mono);
    }
    *out_rest = ig_draft_finish(&rest);
    return ig_draft_finish(&quotient);
}

static uint64_t common_mono(struct ig_dims *dims, uint64_t mono, ig_dim a, bool first) {
    for (uint32_t i = 0; i < ig_sum(dims, a)->count; i++) {
        uint64_t other = ig_sum(dims, a)->terms[i].mono;
        mono = first && i == 0 ? other : ig_mono_gcd(dims, mono, other);
    }
    return mono;
}

/* coef / g, where g divides coef. Raises if the result is 2^63. */
static int64_t quotient_of(struct ig_dims *dims, int64_t coef, int64_t g) {
    return g == -1 ? ig_checked_mul(dims->job, coef, -1) : coef / g;
}

static ig_dim shrink_by(struct ig_dims *dims, ig_dim a, int64_t g, uint64_t mono) {
    struct ig_sum_draft draft;
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < ig_sum(dims, a)->count; i++) {
        struct ig_dim_term term = ig_sum(dims, a)->terms[i];
        uint32_t rest = IG_MONO_ONE;
        ig_mono_div(dims, term.mono, mono, &rest);
        ig_draft_add(&draft, quotient_of(dims, term.coef, g), rest);
    }
    return ig_draft_finish(&draft);
}

/* Cancels common factors; true if there were any. */
static bool cancel(struct ig_dims *dims, ig_dim *inout_a, ig_dim *inout_b) {
    uint64_t mono = common_mono(dims, common_mono(dims, 0, *inout_b, true), *inout_a, false);
    int64_t g = ig_gcd(ig_sum_content(dims, *inout_a, true), ig_sum_content(dims, *inout_b, true));
    if (ig_sum(dims, *inout_b)->terms[0].coef < 0) g = -g;
    if (mono == IG_MONO_ONE && g == 1) return false;
    *inout_a = shrink_by(dims, *inout_a, g, mono);
    *inout_b = shrink_by(dims, *inout_b, g, mono);
    return true;
}

/* floor(rest / b), if ranges prove it to be 0 or -1. */
static bool decided(struct ig_dims *dims, ig_dim rest, ig_dim b, int64_t *out_quotient) {
    int64_t lo, hi, b_lo, b_hi;
    ig_dim_range(dims, rest, &lo, &hi);
    ig_dim_range(dims, b, &b_lo, &b_hi);
    if (b_lo < 0) return false;
    if (b_lo == 0) b_lo = 1;
    if (lo >= 0 && (hi < b_lo || ig_dim_less(dims, rest, b) == IG_YES)) {
        *out_quotient = 0;
        return true;
    }
    *out_quotient = -1;
    return hi < 0 && lo >= -b_lo;
}

ig_dim ig_dim_div(struct ig_dims *dims, ig_dim a, ig_dim b) {
    int64_t c, decision;
    ig_dim exact, rest;
    if (ig_dim_is_const(dims, b, &c)) {
        if (c == 0) ig_raise(dims->job, INGOT_BAD_MODEL, "division of dimension %s by zero", ig_dim_text(dims, a));
        if (c < 0) return div_by_const(dims, ig_sum_scale(dims, a, -1), ig_checked_mul(dims->job, c, -1));
        return div_by_const(dims, a, c);
    }
    if (divide_exactly(dims, a, b, &exact)) return exact;
    if (cancel(dims, &a, &b)) return ig_dim_div(dims, a, b);
    if (ig_sum(dims, b)->count == 1) {
        ig_dim quotient = split_by_term(dims, a, ig_sum(dims, b)->terms[0], &rest);
        if (!is_zero(dims, quotient)) return ig_dim_add(dims, quotient, ig_dim_div(dims, rest, b));
    }
    if (decided(dims, a, b, &decision)) return ig_dim_const(dims, decision);
    return ig_dim_of_atom(dims, IG_DIM_DIV, a, b);
}

ig_dim ig_dim_ceil_div(struct ig_dims *dims, ig_dim a, ig_dim b) {
    return ig_dim_div(dims, add_const(dims, ig_dim_add(dims, a, b), -1), b);
}

bool ig_dim_divides(struct ig_dims *dims, ig_dim b, ig_dim a) {
    int64_t c;
    ig_dim quotient;
    if (!ig_dim_is_const(dims, b, &c)) return divide_exactly(dims, a, b, &quotient);
    if (c == 0) return false;
    return ig_sum_content(dims, a, true) % c == 0;
}

/* ---- Modulo */

/* Removes multiples of c from `a mod c`: coefficients are reduced to [0, c), nested mods by multiples of c are
 * opened. */
static ig_dim reduce_by_const(struct ig_dims *dims, ig_dim a, int64_t c) {
    struct ig_sum_draft draft;
    bool opened = false;
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < ig_sum(dims, a)->count; i++) {
        struct ig_dim_term term = ig_sum(dims, a)->terms[i];
        const struct ig_dim_mono *mono = &dims->monos.at[term.mono];
        int64_t coef = term.coef - ig_floor_div(term.coef, c) * c, inner;
        const struct ig_dim_atom *atom = mono->degree == 1 ? &dims->atoms.at[mono->atoms[0]] : NULL;
        if (atom != NULL && atom->kind == IG_DIM_MOD && ig_dim_is_const(dims, atom->b, &inner) && inner % c == 0) {
            ig_draft_add_sum(&draft, coef, atom->a);
            opened = true;
        } else {
            ig_draft_add(&draft, coef, term.mono);
        }
    }
    ig_dim reduced = ig_draft_finish(&draft);
    return opened ? reduce_by_const(dims, reduced, c) : reduced;
}

static ig_dim mod_by_const(struct ig_dims *dims, ig_dim a, int64_t c) {
    int64_t lo, hi;
    ig_dim_range(dims, a, &lo, &hi);
    if (lo >= 0 && hi < c) return a;
    a = reduce_by_const(dims, a, c);
    ig_dim_range(dims, a, &lo, &hi);
    if (lo >= 0 && hi < c) return a;
    int64_t g = ig_gcd(ig_sum_content(dims, a, false), c);
    if (g > 1) { /* (g*e + k) mod (g*d) = g*((e + floor(k/g)) mod d) + k mod g */
        int64_t k = ig_sum_constant(dims, a), k1 = ig_floor_div(k, g);
        ig_dim e = add_const(dims, ig_sum_shrink(dims, add_const(dims, a, -k), g), k1);
        return add_const(dims, ig_sum_scale(dims, mod_by_const(dims, e, c / g), g), k - k1 * g);
    }
    return ig_dim_of_atom(dims, IG_DIM_MOD, a, ig_dim_const(dims, c));
}

ig_dim ig_dim_mod(struct ig_dims *dims, ig_dim a, ig_dim b) {
    int64_t c, decision;
    ig_dim quotient;
    if (ig_dim_is_const(dims, b, &c)) {
        if (c == 0) ig_raise(dims->job, INGOT_BAD_MODEL, "modulo of dimension %s by zero", ig_dim_text(dims, a));
        if (c > 0) return mod_by_const(dims, a, c);
        ig_dim mirrored = mod_by_const(dims, ig_sum_scale(dims, a, -1), ig_checked_mul(dims->job, c, -1));
        return ig_sum_scale(dims, mirrored, -1);
    }
    if (divide_exactly(dims, a, b, &quotient)) return ig_dim_const(dims, 0);
    if (ig_sum(dims, b)->count == 1) split_by_term(dims, a, ig_sum(dims, b)->terms[0], &a);
    if (decided(dims, a, b, &decision)) return decision == 0 ? a : ig_dim_add(dims, a, b);
    return ig_dim_of_atom(dims, IG_DIM_MOD, a, b);
}

/* ---- Minimum and maximum */

/* max(max(a, b), a) = max(a, b); max(min(a, b), a) = a; and the same with min and max exchanged. */
static bool absorb(const struct ig_dims *dims, enum ig_dim_kind kind, ig_dim nested, ig_dim other, ig_dim *out_result) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, nested);
    if (atom == NULL || (atom->kind != IG_DIM_MIN && atom->kind != IG_DIM_MAX)) return false;
    if (atom->a != other && atom->b != other) return false;
    *out_result = atom->kind == kind ? nested : other;
    return true;
}

static ig_dim extreme(struct ig_dims *dims, enum ig_dim_kind kind, ig_dim a, ig_dim b);

/* min(min(x, 9), 5) = min(x, 5), and the same with max. The constant is an atom's second operand, being the smaller. */
static bool merge_constants(struct ig_dims *dims, enum ig_dim_kind kind, ig_dim nested, ig_dim other,
                            ig_dim *out_result) {
    const struct ig_dim_atom *atom = ig_sum_atom(dims, nested);
    if (atom == NULL || atom->kind != kind || !ig_dim_is_const(dims, other, NULL)) return false;
    ig_dim x = atom->a, constant = atom->b;
    if (!ig_dim_is_const(dims, constant, NULL)) return false;
    *out_result = extreme(dims, kind, x, extreme(dims, kind, constant, other));
    return true;
}

static ig_dim extreme(struct ig_dims *dims, enum ig_dim_kind kind, ig_dim a, ig_dim b) {
    int64_t lo, hi;
    ig_dim result;
    if (a == b) return a;
    ig_dim_range(dims, ig_dim_sub(dims, b, a), &lo, &hi);
    if (lo >= 0) return kind == IG_DIM_MIN ? a : b;
    if (hi <= 0) return kind == IG_DIM_MIN ? b : a;
    if (absorb(dims, kind, a, b, &result) || absorb(dims, kind, b, a, &result)) return result;
    if (merge_constants(dims, kind, a, b, &result) || merge_constants(dims, kind, b, a, &result)) return result;
    int64_t g = ig_gcd(ig_sum_content(dims, a, true), ig_sum_content(dims, b, true));
    if (g > 1) {
        result = extreme(dims, kind, ig_sum_shrink(dims, a, g), ig_sum_shrink(dims, b, g));
        return ig_sum_scale(dims, result, g);
    }
    if (ig_sum_compare(dims, a, b) < 0) return ig_dim_of_atom(dims, kind, a, b);
    return ig_dim_of_atom(dims, kind, b, a);
}

ig_dim ig_dim_min(struct ig_dims *dims, ig_dim a, ig_dim b) {
    return extreme(dims, IG_DIM_MIN, a, b);
}

ig_dim ig_dim_max(struct ig_dims *dims, ig_dim a, ig_dim b) {
    return extreme(dims, IG_DIM_MAX, a, b);
}
