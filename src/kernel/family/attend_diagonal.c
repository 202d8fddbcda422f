/*
 * Causal masks: splits the change of a score into the mask beyond a diagonal and the rest, so that schedules can skip
 * keys that none of their queries sees.
 */
#include <math.h>

#include "kernel/affine.h"
#include "kernel/family/attend.h"

enum { LEFT_OUT = 100 }; /* binary exponent: scores are smaller than 2^100 */

static bool is_masked(struct ig_loops *k, ig_x x, double most) {
    const struct ig_x_node *n = ig_x_look(k, x);
    return n->kind == IG_X_FLOAT && n->f <= most;
}

static bool has_loads(struct ig_loops *k, ig_x x, ig_x score) {
    const struct ig_x_node n = *ig_x_look(k, x);
    if (x == score) return false;
    bool found = n.kind == IG_X_LOAD;
    for (int i = 0; i < 3 && !found; i++)
        found = n.args[i] != IG_NO_X && has_loads(k, n.args[i], score);
    return found;
}

/* Does a <= b (strict: a < b) mean key <= query + *out_offset, with a non-negative offset? */
static bool is_diagonal(struct ig_loops *k, ig_x a, ig_x b, bool strict, ig_x query, ig_x key, ig_dim *out_offset) {
    struct ig_affine sum;
    int64_t lo, hi;
    ig_affine_of(k, ig_x_sub(k, b, strict ? ig_x_add(k, a, ig_x_index(k, 1)) : a), &sum);
    if (sum.count != 2 || ig_affine_factor(k, &sum, query) != ig_dim_const(k->dims, 1)) return false;
    if (ig_affine_factor(k, &sum, key) != ig_dim_const(k->dims, -1)) return false;
    *out_offset = sum.constant;
    ig_dim_range(k->dims, sum.constant, &lo, &hi);
    return lo >= 0;
}

static bool is_comparison(struct ig_loops *k, const struct ig_x_node *n) {
    if (n->kind != IG_X_MAP || (n->op != IG_OP_le && n->op != IG_OP_lt)) return false;
    return ig_x_look(k, n->args[0])->dtype == INGOT_I64;
}

/* Does a comparison of indices, or (`inverse`) that it does not hold, mean key <= query + *out_offset? */
static bool compares(struct ig_loops *k, ig_x x, bool inverse, ig_x query, ig_x key, ig_dim *out_offset) {
    const struct ig_x_node n = *ig_x_look(k, x);
    if (!is_comparison(k, &n)) return false;
    bool strict = (n.op == IG_OP_lt) != inverse;
    return is_diagonal(k, n.args[inverse], n.args[!inverse], strict, query, key, out_offset);
}

/* Does a comparison of indices let each query see the key on the diagonal? Then it is the lower end of a band: query + c <= key. */
static bool lets_diagonal_through(struct ig_attention *a, ig_x x, ig_x query, ig_x key, ig_dim offset) {
    struct ig_loops *k = a->k;
    const struct ig_x_node n = *ig_x_look(k, x);
    struct ig_affine sum;
    int64_t lo, hi;
    if (!is_comparison(k, &n)) return false;
    if (ig_dim_add(k->dims, offset, a->queries) != a->keys) return false; /* there is such a key */
    ig_affine_of(k, ig_x_sub(k, n.args[1], n.args[0]), &sum);             /* key - query - c */
    if (sum.count != 2 || ig_affine_factor(k, &sum, key) != ig_dim_const(k->dims, 1)) return false;
    if (ig_affine_factor(k, &sum, query) != ig_dim_const(k->dims, -1)) return false;
    ig_dim_range(k->dims, ig_dim_add(k->dims, sum.constant, offset), &lo, &hi);
    return lo >= (n.op == IG_OP_lt);
}

/* Is x a select, by such a comparison, between a value and a number of at most `most`? *out_seen: the value, which
 * visible keys get. Of a band, the comparison by which it ends; *out_seen keeps the other. */
static bool is_mask(struct ig_attention *a, ig_x x, double most, ig_x query, ig_x key, ig_x *out_seen,
                    ig_dim *out_offset) {
    struct ig_loops *k = a->k;
    const struct ig_x_node choice = *ig_x_look(k, x);
    if (choice.kind != IG_X_SELECT) return false;
    const struct ig_x_node by = *ig_x_look(k, choice.args[0]);
    const bool inverse = !is_masked(k, choice.args[2], most);
    if (inverse && !is_masked(k, choice.args[1], most)) return false;
    *out_seen = choice.args[inverse ? 2 : 1];
    if (compares(k, choice.args[0], inverse, query, key, out_offset)) return true;
    for (int i = 0; i < 2 && by.kind == IG_X_MAP && by.op == IG_OP_and && !inverse; i++) {
        if (!compares(k, by.args[i], false, query, key, out_offset)) continue;
        if (!lets_diagonal_through(a, by.args[1 - i], query, key, *out_offset)) continue;
        *out_seen = ig_x_select(k, by.args[1 - i], choice.args[1], choice.args[2]);
        return true;
    }
    return false;
}

bool ig_attention_diagonal(struct ig_attention *a, ig_x changed, ig_x score, ig_x query, ig_x key, ig_x *out_rest,
                           ig_dim *out_offset) {
    struct ig_loops *k = a->k;
    const struct ig_x_node n = *ig_x_look(k, changed);
    ig_x candidates[3] = {changed, IG_NO_X, IG_NO_X}, seen;
    if (n.kind == IG_X_MAP && n.op == IG_OP_add) candidates[1] = n.args[0], candidates[2] = n.args[1];
    /* If another mask is loaded and hides all other keys, one that is masked by a finite number still has weight: then
     * only -infinity counts as masked. */
    double most = has_loads(k, changed, score) ? -INFINITY : -ldexp(1, LEFT_OUT);
    for (int i = 0; i < 3; i++) {
        if (candidates[i] == IG_NO_X) continue;
        if (!is_mask(a, candidates[i], most, query, key, &seen, out_offset)) continue;
        const struct ig_x_node *added = ig_x_look(k, seen);
        bool nothing = i > 0 && added->kind == IG_X_FLOAT && added->f == 0;
        if (nothing) seen = candidates[3 - i];
        *out_rest = i == 0 || nothing ? seen : ig_x_substitute(k, changed, &candidates[i], &seen, 1);
        return true;
    }
    return false;
}
