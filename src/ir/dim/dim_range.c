/*
 * Bounds of symbolic integers over all values of their symbols: interval arithmetic, refined where it ignores that two
 * parts of an expression are correlated. `h - floor(h/2)` is bounded by substituting (h - [0,1]) / 2 for the quotient;
 * `n - min(n, m)` by substituting each operand for the minimum; `b*s - s` by factoring. Refinement is bounded in depth
 * and applied to short sums only.
 */
#include "ir/dim/dim_pool.h"

enum { REFINE_DEPTH = 3, REFINE_TERMS = 8 };

typedef struct ig_dim_interval interval;

static const interval everything = {INT64_MIN, INT64_MAX};

static interval range_of(struct ig_dims *dims, ig_dim dim, int depth);

/* ---- Interval arithmetic; bounds that overflow become infinite */

static int64_t clamp(__int128 x) {
    return x <= INT64_MIN ? INT64_MIN : x >= INT64_MAX ? INT64_MAX : (int64_t)x;
}

static interval add(interval a, interval b) {
    interval sum;
    sum.lo = a.lo == INT64_MIN || b.lo == INT64_MIN ? INT64_MIN : clamp((__int128)a.lo + b.lo);
    sum.hi = a.hi == INT64_MAX || b.hi == INT64_MAX ? INT64_MAX : clamp((__int128)a.hi + b.hi);
    return sum;
}

/* The product of two bounds; infinities stay infinite, and zero times anything is zero. */
static int64_t times(int64_t x, int64_t y) {
    bool infinite = x == INT64_MIN || x == INT64_MAX || y == INT64_MIN || y == INT64_MAX;
    if (x == 0 || y == 0) return 0;
    if (infinite) return (x < 0) == (y < 0) ? INT64_MAX : INT64_MIN;
    return clamp((__int128)x * y);
}

static interval hull(interval a, interval b) {
    return (interval){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static interval meet(interval a, interval b) {
    return (interval){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static interval point(int64_t x) {
    return (interval){x, x};
}

static interval mul(interval a, interval b) {
    interval low = hull(point(times(a.lo, b.lo)), point(times(a.lo, b.hi)));
    return hull(low, hull(point(times(a.hi, b.lo)), point(times(a.hi, b.hi))));
}

static int64_t bound_div(int64_t x, int64_t y) {
    if (y == INT64_MAX) return x < 0 ? -1 : 0;
    return x == INT64_MIN || x == INT64_MAX ? x : ig_floor_div(x, y);
}

/* Bounds only for a divisor that is never negative; it is at least 1 wherever the quotient is defined. */
static interval divide(interval a, interval b) {
    if (b.lo < 0 || b.hi < 1) return everything;
    if (b.lo < 1) b.lo = 1;
    return (interval){bound_div(a.lo, a.lo < 0 ? b.lo : b.hi), bound_div(a.hi, a.hi < 0 ? b.hi : b.lo)};
}

/* ---- The plain range: parts are treated as independent */

static interval atom_range(struct ig_dims *dims, uint32_t index, int depth) {
    struct ig_dim_atom atom = dims->atoms.at[index];
    if (atom.kind == IG_DIM_SYMBOL) return (interval){atom.lo, atom.hi};
    interval a = range_of(dims, atom.a, depth), b = range_of(dims, atom.b, depth);
    switch (atom.kind) {
    case IG_DIM_DIV: return divide(a, b);
    case IG_DIM_MOD:
        if (b.lo < 0) return everything;
        return (interval){0, a.lo >= 0 && a.hi < b.hi ? a.hi : (b.hi == INT64_MAX ? b.hi : b.hi < 1 ? 0 : b.hi - 1)};
    case IG_DIM_MIN: return (interval){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    case IG_DIM_MAX: return (interval){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    default: return everything;
    }
}

static interval mono_range(struct ig_dims *dims, uint64_t mono, int depth) {
    struct ig_dim_mono m = dims->monos.at[mono];
    interval range = point(1);
    for (uint32_t i = 0; i < m.degree; i++)
        range = mul(range, atom_range(dims, m.atoms[i], depth));
    return range;
}

static interval plain_range(struct ig_dims *dims, struct ig_dim_sum sum, int depth) {
    interval range = point(0);
    for (uint32_t i = 0; i < sum.count; i++)
        range = add(range, mul(point(sum.terms[i].coef), mono_range(dims, sum.terms[i].mono, depth)));
    return range;
}

/* ---- Refinement */

/* b*s - s = s*(b - 1) */
static interval factored_range(struct ig_dims *dims, struct ig_dim_sum sum, int depth) {
    struct ig_sum_draft draft;
    uint64_t mono = sum.terms[0].mono;
    for (uint32_t i = 1; i < sum.count; i++)
        mono = ig_mono_gcd(dims, mono, sum.terms[i].mono);
    if (mono == IG_MONO_ONE) return everything;
    ig_draft_init(&draft, dims);
    for (uint32_t i = 0; i < sum.count; i++) {
        uint32_t rest = IG_MONO_ONE;
        ig_mono_div(dims, sum.terms[i].mono, mono, &rest);
        ig_draft_add(&draft, sum.terms[i].coef, rest);
    }
    return mul(mono_range(dims, mono, depth), range_of(dims, ig_draft_finish(&draft), depth));
}

/* scale * (all terms but `which`) + coef * value, where coef is that of term `which`. False on overflow. */
static bool replace_term(struct ig_dims *dims, struct ig_dim_sum sum, uint32_t which, int64_t scale, ig_dim value,
                         ig_dim *out_sum) {
    struct ig_sum_draft draft;
    const struct ig_dim_sum *v = ig_sum(dims, value);
    ig_draft_init(&draft, dims);
    if (sum.count + v->count > IG_DIM_MAX_TERMS) return false;
    /* With coefficients below 2^31 on both sides, no product or sum overflows. */
    for (uint32_t i = 0; i < sum.count; i++) {
        if (sum.terms[i].coef > INT32_MAX || sum.terms[i].coef < -INT32_MAX || scale > INT32_MAX) return false;
        if (i != which) ig_draft_add(&draft, scale * sum.terms[i].coef, sum.terms[i].mono);
    }
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->terms[i].coef > INT32_MAX || v->terms[i].coef < -INT32_MAX) return false;
        ig_draft_add(&draft, sum.terms[which].coef * v->terms[i].coef, v->terms[i].mono);
    }
    *out_sum = ig_draft_finish(&draft);
    return true;
}

/* For a term k*floor(a/c): c*sum = c*others + k*(a - [0, c-1]). */
static interval quotient_bound(struct ig_dims *dims, struct ig_dim_sum sum, uint32_t which, struct ig_dim_atom atom,
                               int depth) {
    int64_t c, k = sum.terms[which].coef;
    ig_dim scaled;
    if (!ig_dim_is_const(dims, atom.b, &c) || !replace_term(dims, sum, which, c, atom.a, &scaled)) return everything;
    interval slack = mul(point(-k), (interval){0, c - 1});
    interval range = add(range_of(dims, scaled, depth), slack);
    if (range.lo != INT64_MIN && range.lo != INT64_MAX) range.lo = -ig_floor_div(-range.lo, c); /* ceil */
    if (range.hi != INT64_MIN && range.hi != INT64_MAX) range.hi = ig_floor_div(range.hi, c);
    return range;
}

/* For a term k*min(a, b) or k*max(a, b): the sum lies between its values with a and with b instead. */
static interval extreme_bound(struct ig_dims *dims, struct ig_dim_sum sum, uint32_t which, struct ig_dim_atom atom,
                              int depth) {
    ig_dim with_a, with_b;
    if (!replace_term(dims, sum, which, 1, atom.a, &with_a) || !replace_term(dims, sum, which, 1, atom.b, &with_b))
        return everything;
    interval a = range_of(dims, with_a, depth), b = range_of(dims, with_b, depth);
    bool is_smaller = (atom.kind == IG_DIM_MIN) == (sum.terms[which].coef > 0);
    interval range = hull(a, b);
    if (is_smaller)
        range.hi = a.hi < b.hi ? a.hi : b.hi;
    else
        range.lo = a.lo > b.lo ? a.lo : b.lo;
    return range;
}

static interval refined_range(struct ig_dims *dims, struct ig_dim_sum sum, interval range, int depth) {
    if (sum.count < 2 || sum.count > REFINE_TERMS || depth == 0) return range;
    range = meet(range, factored_range(dims, sum, depth - 1));
    for (uint32_t i = 0; i < sum.count; i++) {
        struct ig_dim_mono mono = dims->monos.at[sum.terms[i].mono];
        if (mono.degree != 1) continue;
        struct ig_dim_atom atom = dims->atoms.at[mono.atoms[0]];
        if (atom.kind == IG_DIM_DIV) range = meet(range, quotient_bound(dims, sum, i, atom, depth - 1));
        if (atom.kind == IG_DIM_MIN || atom.kind == IG_DIM_MAX)
            range = meet(range, extreme_bound(dims, sum, i, atom, depth - 1));
    }
    return range;
}

/* Caches ranges found at full depth only, so that results do not depend on the order of queries. */
static interval range_of(struct ig_dims *dims, ig_dim dim, int depth) {
    struct ig_dim_sum sum = *ig_sum(dims, dim);
    if (sum.epoch == dims->epoch) return sum.range;
    interval range = refined_range(dims, sum, plain_range(dims, sum, depth), depth);
    if (depth == REFINE_DEPTH) {
        dims->sums.at[dim].epoch = dims->epoch;
        dims->sums.at[dim].range = range;
    }
    return range;
}

/* ---- Public functions */

void ig_dim_range(const struct ig_dims *dims, ig_dim dim, int64_t *out_lo, int64_t *out_hi) {
    /* Refinement interns helper expressions and caches ranges: the pool grows, but no expression changes. */
    interval range = range_of((struct ig_dims *)dims, dim, REFINE_DEPTH);
    *out_lo = range.lo;
    *out_hi = range.hi;
}

enum ig_answer ig_dim_equal(struct ig_dims *dims, ig_dim a, ig_dim b) {
    int64_t lo, hi, content;
    if (a == b) return IG_YES;
    ig_dim difference = ig_dim_sub(dims, a, b);
    ig_dim_range(dims, difference, &lo, &hi);
    if (lo == 0 && hi == 0) return IG_YES;
    if (lo > 0 || hi < 0) return IG_NO;
    content = ig_sum_content(dims, difference, false);
    if (content > 1 && ig_sum_constant(dims, difference) % content != 0) return IG_NO; /* 2*n is never odd */
    return IG_MAYBE;
}

enum ig_answer ig_dim_less(struct ig_dims *dims, ig_dim a, ig_dim b) {
    int64_t lo, hi;
    ig_dim_range(dims, ig_dim_sub(dims, b, a), &lo, &hi);
    if (lo > 0) return IG_YES;
    return hi <= 0 ? IG_NO : IG_MAYBE;
}
