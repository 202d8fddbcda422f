/*
 * Canonical index arithmetic: see affine.h. Loop bounds are symbolic, so that floor((i*w + j) / w) simplifies to i for
 * every w, given that j runs from 0 to w - 1.
 */
#include "kernel/affine.h"

#include <string.h>

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

/* The symbolic value of an expression without variables; IG_DIM_NONE for others. */
static ig_dim as_dim(struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = &k->x.at[x];
    if (n->kind == IG_X_INT) return ig_dim_const(k->dims, n->i);
    if (n->kind == IG_X_DIM) return k->dim_params.at[n->i];
    return IG_DIM_NONE;
}

static bool is_zero(struct ig_loops *k, ig_dim d) {
    int64_t value;
    return ig_dim_is_const(k->dims, d, &value) && value == 0;
}

static ig_x index_node(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b) {
    struct ig_x_node node = {.kind = IG_X_MAP, .dtype = INGOT_I64, .op = op, .args = {a, b, IG_NO_X}};
    return ig_x_node_add(k, &node);
}

static void remove_term(struct ig_affine *sum, int at) {
    sum->count--;
    memmove(&sum->term[at], &sum->term[at + 1], (size_t)(sum->count - at) * sizeof sum->term[0]);
}

/* Adds factor * atom; false if all terms are taken. */
static bool add_term(struct ig_loops *k, struct ig_affine *sum, ig_x atom, ig_dim factor) {
    int at = 0;
    while (at < sum->count && sum->term[at].atom < atom)
        at++;
    if (at < sum->count && sum->term[at].atom == atom) {
        sum->term[at].factor = ig_dim_add(k->dims, sum->term[at].factor, factor);
        if (is_zero(k, sum->term[at].factor)) remove_term(sum, at);
        return true;
    }
    if (sum->count == IG_AFFINE_TERMS) return false;
    memmove(&sum->term[at + 1], &sum->term[at], (size_t)(sum->count - at) * sizeof sum->term[0]);
    sum->term[at] = (struct ig_affine_term){atom, factor};
    sum->count++;
    return true;
}

/* Finds the terms f * (x mod d) and f * d * floor(x / d), whose sum is f * x. */
static bool find_parts(struct ig_loops *k, const struct ig_affine *sum, int *out_mod, int *out_div) {
    for (int m = 0; m < sum->count; m++) {
        const struct ig_x_node *mod = &k->x.at[sum->term[m].atom];
        if (mod->kind != IG_X_MAP || mod->op != IG_OP_mod || mod->wraps) continue;
        ig_dim by = as_dim(k, mod->args[1]);
        for (int d = 0; d < sum->count && by != IG_DIM_NONE; d++) {
            const struct ig_x_node *div = &k->x.at[sum->term[d].atom];
            if (div->kind != IG_X_MAP || div->op != IG_OP_div || div->wraps) continue;
            if (div->args[0] != mod->args[0] || div->args[1] != mod->args[1]) continue;
            if (ig_dim_mul(k->dims, sum->term[m].factor, by) != sum->term[d].factor) continue;
            *out_mod = m;
            *out_div = d;
            return true;
        }
    }
    return false;
}

/* Adds factor * x; false if all terms are taken. */
static bool add_scaled(struct ig_loops *k, struct ig_affine *sum, ig_x x, ig_dim factor) {
    ig_dim constant = as_dim(k, x);
    int mod, div;
    if (constant != IG_DIM_NONE) {
        sum->constant = ig_dim_add(k->dims, sum->constant, ig_dim_mul(k->dims, constant, factor));
        return true;
    }
    struct ig_x_node n = k->x.at[x];
    if (n.kind == IG_X_MAP && !n.wraps && n.op == IG_OP_add) {
        return add_scaled(k, sum, n.args[0], factor) && add_scaled(k, sum, n.args[1], factor);
    }
    if (n.kind == IG_X_MAP && !n.wraps && n.op == IG_OP_mul) {
        ig_dim by = as_dim(k, n.args[1]);
        if (by != IG_DIM_NONE) return add_scaled(k, sum, n.args[0], ig_dim_mul(k->dims, factor, by));
    }
    if (!add_term(k, sum, x, factor)) return false;
    bool is_part = n.kind == IG_X_MAP && (n.op == IG_OP_mod || n.op == IG_OP_div);
    if (!is_part || !find_parts(k, sum, &mod, &div)) return true;
    ig_x whole = k->x.at[sum->term[mod].atom].args[0];
    factor = sum->term[mod].factor;
    remove_term(sum, mod > div ? mod : div);
    remove_term(sum, mod > div ? div : mod);
    return add_scaled(k, sum, whole, factor);
}

void ig_affine_of(struct ig_loops *k, ig_x x, struct ig_affine *out_affine) {
    ig_dim one = ig_dim_const(k->dims, 1);
    *out_affine = (struct ig_affine){.constant = ig_dim_const(k->dims, 0)};
    if (add_scaled(k, out_affine, x, one)) return;
    *out_affine = (struct ig_affine){.count = 1, .term = {{x, one}}, .constant = ig_dim_const(k->dims, 0)};
}

ig_x ig_affine_x(struct ig_loops *k, const struct ig_affine *affine) {
    ig_x sum = IG_NO_X;
    ig_dim one = ig_dim_const(k->dims, 1);
    for (int i = 0; i < affine->count; i++) {
        const struct ig_affine_term *t = &affine->term[i];
        ig_x product = t->factor == one ? t->atom : index_node(k, IG_OP_mul, t->atom, ig_x_dim(k, t->factor));
        sum = sum == IG_NO_X ? product : index_node(k, IG_OP_add, sum, product);
    }
    if (sum == IG_NO_X) return ig_x_dim(k, affine->constant);
    if (is_zero(k, affine->constant)) return sum;
    return index_node(k, IG_OP_add, sum, ig_x_dim(k, affine->constant));
}

ig_dim ig_affine_factor(struct ig_loops *k, const struct ig_affine *affine, ig_x atom) {
    for (int i = 0; i < affine->count; i++) {
        if (affine->term[i].atom == atom) return affine->term[i].factor;
    }
    return ig_dim_const(k->dims, 0);
}

bool ig_affine_entangled(struct ig_loops *k, const struct ig_affine *affine, ig_x what) {
    for (int i = 0; i < affine->count; i++) {
        if (affine->term[i].atom != what && ig_x_contains(k, affine->term[i].atom, what)) return true;
    }
    return false;
}

static ig_x combine(struct ig_loops *k, ig_x a, ig_x b, int64_t sign) {
    struct ig_affine sum;
    ig_affine_of(k, a, &sum);
    if (add_scaled(k, &sum, b, ig_dim_const(k->dims, sign))) return ig_affine_x(k, &sum);
    ig_x other = sign == 1 ? b : index_node(k, IG_OP_mul, b, ig_x_index(k, sign));
    return index_node(k, IG_OP_add, a, other);
}

ig_x ig_x_add(struct ig_loops *k, ig_x a, ig_x b) {
    return combine(k, a, b, 1);
}

ig_x ig_x_sub(struct ig_loops *k, ig_x a, ig_x b) {
    return combine(k, a, b, -1);
}

ig_x ig_x_mul(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim by = as_dim(k, b);
    if (by == IG_DIM_NONE) {
        by = as_dim(k, a);
        if (by == IG_DIM_NONE) return a < b ? index_node(k, IG_OP_mul, a, b) : index_node(k, IG_OP_mul, b, a);
        a = b;
    }
    if (is_zero(k, by)) return ig_x_index(k, 0);
    struct ig_affine sum = {.constant = ig_dim_const(k->dims, 0)};
    if (add_scaled(k, &sum, a, by)) return ig_affine_x(k, &sum);
    return index_node(k, IG_OP_mul, a, ig_x_dim(k, by));
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------ */

static bool at_least(struct ig_loops *k, ig_dim d, int64_t value) {
    int64_t lo, hi;
    ig_dim_range(k->dims, d, &lo, &hi);
    return lo >= value;
}

static bool at_most(struct ig_loops *k, ig_dim d, int64_t value) {
    int64_t lo, hi;
    ig_dim_range(k->dims, d, &lo, &hi);
    return hi <= value;
}

/* The tighter of two upper (or lower) bounds that both hold: the certain one, else the simpler. */
static ig_dim tighter(struct ig_loops *k, ig_dim a, ig_dim b, bool upper) {
    if (a == IG_DIM_NONE || a == b) return b;
    if (b == IG_DIM_NONE) return a;
    enum ig_answer less = ig_dim_less(k->dims, a, b);
    if (less != IG_MAYBE) return (less == IG_YES) == upper ? a : b;
    return ig_dim_is_const(k->dims, a, &(int64_t){0}) ? a : b;
}

static ig_dim both(struct ig_loops *k, ig_dim a, ig_dim b, bool larger) {
    if (a == IG_DIM_NONE || b == IG_DIM_NONE) return IG_DIM_NONE;
    return larger ? ig_dim_max(k->dims, a, b) : ig_dim_min(k->dims, a, b);
}

/* Is x a byte, perhaps as a wider integer? */
static bool is_byte(const struct ig_loops *k, ig_x x, enum ingot_dtype *out_dtype) {
    while (k->x.at[x].kind == IG_X_CAST && !ig_dtype_is_float(k->x.at[x].dtype) &&
           ingot_dtype_size(k->x.at[x].dtype) > 1)
        x = k->x.at[x].args[0];
    *out_dtype = k->x.at[x].dtype;
    return *out_dtype == INGOT_U8 || *out_dtype == INGOT_I8;
}

static void atom_bounds(struct ig_loops *k, ig_x x, ig_dim *lo, ig_dim *hi) {
    struct ig_x_node n = k->x.at[x];
    enum ingot_dtype byte;
    ig_dim one = ig_dim_const(k->dims, 1), zero = ig_dim_const(k->dims, 0);
    ig_dim a_lo, a_hi, b_lo, b_hi;
    *lo = *hi = IG_DIM_NONE;
    if (n.kind == IG_X_VAR) {
        const struct ig_loop_var *var = &k->vars.at[n.i];
        *lo = var->lo;
        if (var->hi != IG_DIM_NONE) *hi = ig_dim_sub(k->dims, var->hi, one);
    } else if (n.kind == IG_X_CAST && k->x.at[n.args[0]].dtype == INGOT_BOOL) {
        *lo = zero;
        *hi = one;
    } else if (n.kind == IG_X_CAST && is_byte(k, x, &byte)) {
        *lo = ig_dim_const(k->dims, byte == INGOT_U8 ? 0 : -128);
        *hi = ig_dim_const(k->dims, byte == INGOT_U8 ? 255 : 127);
    } else if (n.kind == IG_X_SELECT) {
        ig_x_bounds(k, n.args[1], &a_lo, &a_hi);
        ig_x_bounds(k, n.args[2], &b_lo, &b_hi);
        *lo = both(k, a_lo, b_lo, false);
        *hi = both(k, a_hi, b_hi, true);
    } else if (n.kind == IG_X_MAP && !n.wraps) {
        ig_x_bounds(k, n.args[0], &a_lo, &a_hi);
        ig_x_bounds(k, n.args[1], &b_lo, &b_hi);
        bool positive = a_lo != IG_DIM_NONE && at_least(k, a_lo, 0) && b_lo != IG_DIM_NONE && at_least(k, b_lo, 1);
        switch (n.op) {
        case IG_OP_min:
            *lo = both(k, a_lo, b_lo, false);
            *hi = tighter(k, a_hi, b_hi, true);
            break;
        case IG_OP_max:
            *lo = tighter(k, a_lo, b_lo, false);
            *hi = both(k, a_hi, b_hi, true);
            break;
        case IG_OP_div:
            if (!positive) break;
            *lo = zero;
            if (a_hi != IG_DIM_NONE) *hi = ig_dim_div(k->dims, a_hi, b_lo);
            break;
        case IG_OP_mod:
            if (!positive) break;
            *lo = zero;
            *hi = b_hi == IG_DIM_NONE ? a_hi : ig_dim_sub(k->dims, b_hi, one);
            break;
        default: break;
        }
    }
}

void ig_x_bounds(struct ig_loops *k, ig_x x, ig_dim *out_lo, ig_dim *out_hi) {
    struct ig_affine sum;
    ig_affine_of(k, x, &sum);
    *out_lo = *out_hi = sum.constant;
    for (int i = 0; i < sum.count; i++) {
        ig_dim lo, hi, factor = sum.term[i].factor;
        atom_bounds(k, sum.term[i].atom, &lo, &hi);
        bool negative = at_most(k, factor, 0);
        if (!negative && !at_least(k, factor, 0)) lo = hi = IG_DIM_NONE;
        ig_dim low = negative ? hi : lo, high = negative ? lo : hi;
        if (*out_lo != IG_DIM_NONE) {
            *out_lo = low == IG_DIM_NONE ? low : ig_dim_add(k->dims, *out_lo, ig_dim_mul(k->dims, low, factor));
        }
        if (*out_hi != IG_DIM_NONE) {
            *out_hi = high == IG_DIM_NONE ? high : ig_dim_add(k->dims, *out_hi, ig_dim_mul(k->dims, high, factor));
        }
    }
}

/* Is a < b for all values of the loop variables? The difference is bounded, more tightly than both sides would be. */
static bool surely_less(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim lo, hi;
    ig_x_bounds(k, ig_x_sub(k, a, b), &lo, &hi);
    return hi != IG_DIM_NONE && ig_dim_less(k->dims, hi, ig_dim_const(k->dims, 0)) == IG_YES;
}

static bool surely_not_less(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim lo, hi;
    ig_x_bounds(k, ig_x_sub(k, a, b), &lo, &hi);
    return lo != IG_DIM_NONE && ig_dim_less(k->dims, lo, ig_dim_const(k->dims, 0)) == IG_NO;
}

/* ---- Operators that need bounds ---------------------------------------------------------------------------------- */

/* Splits x into a multiple of `by` and a rest; false unless the rest is known to be non-negative. */
static bool split_multiples(struct ig_loops *k, ig_x x, ig_dim by, struct ig_affine *quotient, struct ig_affine *rest) {
    struct ig_affine sum;
    ig_affine_of(k, x, &sum);
    *quotient = *rest = (struct ig_affine){.constant = ig_dim_const(k->dims, 0)};
    for (int i = 0; i < sum.count; i++) {
        const struct ig_affine_term *t = &sum.term[i];
        if (ig_dim_divides(k->dims, by, t->factor)) {
            quotient->term[quotient->count++] = (struct ig_affine_term){t->atom, ig_dim_div(k->dims, t->factor, by)};
        } else {
            rest->term[rest->count++] = *t;
        }
    }
    int64_t constant, divisor;
    if (ig_dim_divides(k->dims, by, sum.constant)) {
        quotient->constant = ig_dim_div(k->dims, sum.constant, by);
    } else if (ig_dim_is_const(k->dims, sum.constant, &constant) && ig_dim_is_const(k->dims, by, &divisor)) {
        quotient->constant = ig_dim_div(k->dims, sum.constant, by);
        rest->constant = ig_dim_mod(k->dims, sum.constant, by);
    } else {
        rest->constant = sum.constant;
    }
    return surely_not_less(k, ig_affine_x(k, rest), ig_x_index(k, 0));
}

/* If x is unit * u + r with 0 <= r < unit, where unit divides `by`, its quotient is that of u by by / unit, and its
 * remainder unit times that of u, plus r: gives u, r and unit. So the parts of an axis that a reshape cuts across are
 * told apart: (32 * head + depth) mod 64. */
static bool split_units(struct ig_loops *k, const struct ig_affine *x, ig_dim by, struct ig_affine *units,
                        struct ig_affine *rest, int64_t *out_unit) {
    int64_t divisor, constant, factor;
    if (!ig_dim_is_const(k->dims, by, &divisor) || !ig_dim_is_const(k->dims, x->constant, &constant)) return false;
    for (int candidate = 0; candidate < x->count; candidate++) {
        if (!ig_dim_is_const(k->dims, x->term[candidate].factor, out_unit)) continue;
        int64_t unit = *out_unit;
        if (unit <= 1 || divisor % unit != 0 || constant < 0) continue;
        *units = (struct ig_affine){.constant = ig_dim_const(k->dims, constant / unit)};
        *rest = (struct ig_affine){.constant = ig_dim_const(k->dims, constant % unit)};
        for (int i = 0; i < x->count; i++) {
            const struct ig_affine_term *t = &x->term[i];
            bool whole = ig_dim_is_const(k->dims, t->factor, &factor) && factor % unit == 0;
            if (whole)
                units->term[units->count++] = (struct ig_affine_term){t->atom, ig_dim_const(k->dims, factor / unit)};
            else
                rest->term[rest->count++] = *t;
        }
        ig_x r = ig_affine_x(k, rest), u = ig_affine_x(k, units);
        bool fits = surely_not_less(k, r, ig_x_index(k, 0)) && surely_less(k, r, ig_x_index(k, unit));
        if (fits && surely_not_less(k, u, ig_x_index(k, 0))) return true;
    }
    return false;
}

/* Division by 0 (the size of an empty axis) gives an arbitrary result, in both functions. */
ig_x ig_x_div(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim by = as_dim(k, b);
    int64_t value = 0;
    if (by == IG_DIM_NONE || !at_least(k, by, 0)) return index_node(k, IG_OP_div, a, b);
    if (ig_dim_is_const(k->dims, by, &value) && value <= 1) return value ? a : ig_x_index(k, 0);
    struct ig_affine quotient, rest;
    if (!split_multiples(k, a, by, &quotient, &rest)) return index_node(k, IG_OP_div, a, b);
    ig_x rest_x = ig_affine_x(k, &rest);
    if (surely_less(k, rest_x, b)) return ig_affine_x(k, &quotient);
    struct ig_affine units, within;
    int64_t unit;
    ig_x of_rest = split_units(k, &rest, by, &units, &within, &unit)
                       ? ig_x_div(k, ig_affine_x(k, &units), ig_x_index(k, value / unit))
                       : index_node(k, IG_OP_div, rest_x, b);
    return ig_x_add(k, ig_affine_x(k, &quotient), of_rest);
}

ig_x ig_x_mod(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim by = as_dim(k, b);
    int64_t value = 0;
    if (by == IG_DIM_NONE || !at_least(k, by, 0)) return index_node(k, IG_OP_mod, a, b);
    if (ig_dim_is_const(k->dims, by, &value) && value <= 1) return ig_x_index(k, 0);
    struct ig_affine quotient, rest;
    if (!split_multiples(k, a, by, &quotient, &rest)) return index_node(k, IG_OP_mod, a, b);
    ig_x rest_x = ig_affine_x(k, &rest);
    if (surely_less(k, rest_x, b)) return rest_x;
    struct ig_affine units, within;
    int64_t unit;
    if (!split_units(k, &rest, by, &units, &within, &unit)) return index_node(k, IG_OP_mod, rest_x, b);
    ig_x whole = ig_x_mod(k, ig_affine_x(k, &units), ig_x_index(k, value / unit));
    return ig_x_add(k, ig_x_mul(k, whole, ig_x_index(k, unit)), ig_affine_x(k, &within));
}

ig_x ig_x_split_off(struct ig_loops *k, ig_x *number, ig_dim count) {
    ig_x by = ig_x_dim(k, at_least(k, count, 1) ? count : ig_dim_max(k->dims, count, ig_dim_const(k->dims, 1)));
    ig_x part = ig_x_mod(k, *number, by);
    *number = ig_x_div(k, *number, by);
    return part;
}

ig_x ig_x_min(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim da = as_dim(k, a), db = as_dim(k, b);
    if (da != IG_DIM_NONE && db != IG_DIM_NONE) return ig_x_dim(k, ig_dim_min(k->dims, da, db));
    if (a == b || surely_not_less(k, b, a)) return a;
    if (surely_not_less(k, a, b)) return b;
    return index_node(k, IG_OP_min, a, b);
}

ig_x ig_x_max(struct ig_loops *k, ig_x a, ig_x b) {
    ig_dim da = as_dim(k, a), db = as_dim(k, b);
    if (da != IG_DIM_NONE && db != IG_DIM_NONE) return ig_x_dim(k, ig_dim_max(k->dims, da, db));
    if (a == b || surely_not_less(k, a, b)) return a;
    if (surely_not_less(k, b, a)) return b;
    return index_node(k, IG_OP_max, a, b);
}

ig_x ig_x_less(struct ig_loops *k, ig_x a, ig_x b) {
    if (surely_less(k, a, b)) return ig_x_int(k, INGOT_BOOL, 1);
    if (surely_not_less(k, a, b)) return ig_x_int(k, INGOT_BOOL, 0);
    struct ig_x_node node = {.kind = IG_X_MAP, .dtype = INGOT_BOOL, .op = IG_OP_lt, .args = {a, b, IG_NO_X}};
    return ig_x_node_add(k, &node);
}

ig_x ig_x_and(struct ig_loops *k, ig_x a, ig_x b) {
    return ig_x_map2(k, IG_OP_and, a, b);
}

/* ---- Substitution ------------------------------------------------------------------------------------------------ */

static ig_x rebuild_index(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b) {
    switch (op) {
    case IG_OP_add: return ig_x_add(k, a, b);
    case IG_OP_mul: return ig_x_mul(k, a, b);
    case IG_OP_div: return ig_x_div(k, a, b);
    case IG_OP_mod: return ig_x_mod(k, a, b);
    case IG_OP_min: return ig_x_min(k, a, b);
    case IG_OP_max: return ig_x_max(k, a, b);
    default: return ig_x_less(k, a, b);
    }
}

struct substitution {
    struct ig_loops *k;
    const ig_x *from, *to;
    int count;
    ig_x *done; /* by expression; IG_NO_X: not done */
};

static ig_x substitute(struct substitution *s, ig_x x) {
    struct ig_loops *k = s->k;
    for (int i = 0; i < s->count; i++) {
        if (x == s->from[i]) return s->to[i];
    }
    if (s->done[x] != IG_NO_X) return s->done[x];
    struct ig_x_node n = k->x.at[x];
    ig_x args[3];
    bool changed = false;
    for (int i = 0; i < 3; i++) {
        args[i] = n.args[i] == IG_NO_X ? IG_NO_X : substitute(s, n.args[i]);
        changed |= args[i] != n.args[i];
    }
    ig_x result = x;
    if (!changed) {
        result = x;
    } else if (n.kind == IG_X_MAP && !n.wraps) {
        result = rebuild_index(k, n.op, args[0], args[1]);
    } else if (n.kind == IG_X_SELECT) {
        result = ig_x_select(k, args[0], args[1], args[2]);
    } else if (n.kind == IG_X_MAP && args[1] != IG_NO_X) {
        result = ig_x_map2(k, n.op, args[0], args[1]);
    } else if (n.kind == IG_X_MAP) {
        result = ig_x_map1(k, n.op, args[0]);
    } else {
        memcpy(n.args, args, sizeof args);
        result = ig_x_node_add(k, &n);
    }
    s->done[x] = result;
    return result;
}

ig_x ig_x_substitute(struct ig_loops *k, ig_x x, const ig_x *from, const ig_x *to, int count) {
    struct substitution s = {k, from, to, count, IG_NEW_ARRAY(k->job, ig_x, k->x.count)};
    for (uint32_t i = 0; i < k->x.count; i++)
        s.done[i] = IG_NO_X;
    return substitute(&s, x);
}
