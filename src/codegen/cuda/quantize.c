/*
 * Quantisation without conversions, which multiprocessors do a quarter as many of as sums and products, and without divisions:
 *
 *   - A number that is rounded, moved by a zero point and saturated to a byte is multiplied by the least f32, 2^-149, and so rounded to
 *     a multiple of that, which stands as an integer in its bits; what it is moved by is added before it is rounded, if that is even.
 *     The instruction also makes NaN and what is negative 0. Those that pack bytes saturate at the other end.
 *   - The same, made a number again, is one in 32 bits in between.
 *   - The quotient by a constant that is quantised then is a product with the reciprocal, corrected by its remainder.
 *
 * Results are the same, bit by bit. With y = RN(1/c) the quotient q = RN(x y) is off by at most one unit in the last place if
 * |c y - 1| <= 2^-25; so is, for every c, one that has been corrected once. Its remainder x - c q is then exact, and RN(q + y r) the
 * correctly rounded quotient (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990,
 * theorem 8.2; N. Brisebarre, J.-M. Muller and S. K. Raina, "Accelerating correctly rounded floating-point division when the
 * divisor is known in advance", 2004). That holds for numbers that are neither tiny nor huge. What is tiny here is rounded to 0, and
 * what is huge is saturated, if the divisor is neither.
 */
#include <math.h>

#include "codegen/cuda/printer.h"

/* ---- Recognising ------------------------------------------------------------------------------------------------- */

static const struct ig_x_node *look(const struct ig_loops *k, ig_x x) {
    return ig_x_look(k, x);
}

static bool is_map(const struct ig_loops *k, ig_x x, enum ig_op op) {
    return look(k, x)->kind == IG_X_MAP && look(k, x)->op == op;
}

/* A constant of at most 9 bits. */
static bool match_whole(const struct ig_loops *k, ig_x x, int *out) {
    double f = look(k, x)->f;
    if (look(k, x)->kind != IG_X_FLOAT || !(fabs(f) <= 256) || f != nearbyint(f)) return false;
    *out = (int)f;
    return true;
}

/* x = other + whole, of which the latter is a constant of at most 9 bits. */
static bool match_shifted(const struct ig_loops *k, ig_x x, ig_x *out_other, int *out_whole) {
    const struct ig_x_node *n = look(k, x);
    if (n->dtype != INGOT_F32 || (!is_map(k, x, IG_OP_add) && !is_map(k, x, IG_OP_sub))) return false;
    int constant = look(k, n->args[1])->kind == IG_X_FLOAT ? 1 : 0;
    if (!match_whole(k, n->args[constant], out_whole) || (constant == 0 && n->op == IG_OP_sub)) return false;
    if (n->op == IG_OP_sub) *out_whole = -*out_whole;
    *out_other = n->args[1 - constant];
    return true;
}

/* x = number rounded to a whole number, plus perhaps a zero point. */
static bool match_rounded(const struct ig_loops *k, ig_x x, struct ig_cuda_byte *out) {
    out->zero = 0;
    if (!is_map(k, x, IG_OP_round) && !match_shifted(k, x, &x, &out->zero)) return false;
    out->number = look(k, x)->args[0];
    return is_map(k, x, IG_OP_round) && look(k, x)->dtype == INGOT_F32;
}

/* x = low < number ? number : low, by which NaN becomes that. */
static bool match_least(const struct ig_loops *k, ig_x x, ig_x *out_number, int *out_low) {
    const struct ig_x_node *n = look(k, x);
    if (n->kind != IG_X_SELECT || !match_whole(k, n->args[2], out_low) || !is_map(k, n->args[0], IG_OP_lt))
        return false;
    const struct ig_x_node *less = look(k, n->args[0]);
    *out_number = n->args[1];
    return less->args[0] == n->args[2] && less->args[1] == n->args[1];
}

/* x = number < high ? number : high */
static bool match_most(const struct ig_loops *k, ig_x x, ig_x *out_number, int *out_high) {
    const struct ig_x_node *n = look(k, x);
    if (n->kind != IG_X_SELECT || !match_whole(k, n->args[2], out_high) || !is_map(k, n->args[0], IG_OP_lt))
        return false;
    const struct ig_x_node *less = look(k, n->args[0]);
    *out_number = n->args[1];
    return less->args[0] == n->args[1] && less->args[1] == n->args[2];
}

static void bound(struct ig_cuda_byte *b, enum ig_op op, int64_t by) {
    if (op == IG_OP_max && by > b->low) b->low = by < b->high ? (int)by : b->high;
    if (op == IG_OP_min && by < b->high) b->high = by > b->low ? (int)by : b->low;
}

/* *out_nan: what NaN becomes. */
static bool match_bounded(const struct ig_loops *k, ig_x x, struct ig_cuda_byte *out, int *out_nan) {
    const struct ig_x_node *n = look(k, x);
    bool extreme = is_map(k, x, IG_OP_max) || is_map(k, x, IG_OP_min);
    if (n->dtype != INGOT_I8 && n->dtype != INGOT_U8) return false;
    if (extreme && look(k, n->args[1])->kind == IG_X_INT) {
        int64_t by = look(k, n->args[1])->i;
        if (!match_bounded(k, n->args[0], out, out_nan)) return false;
        bound(out, n->op, by);
        bool beyond = n->op == IG_OP_max ? by > *out_nan : by < *out_nan;
        if (beyond) *out_nan = (int)by;
        return true;
    }
    ig_x number = n->args[0];
    if (n->kind != IG_X_CAST || !n->saturate || look(k, number)->dtype != INGOT_F32) return false;
    bool is_signed = n->i == INGOT_I8;
    if (!is_signed && n->i != INGOT_U8) return false;
    out->low = is_signed ? -128 : 0;
    out->high = is_signed ? 127 : 255;
    *out_nan = 0;
    int least;
    if (match_least(k, number, &number, &least)) {
        bound(out, IG_OP_max, least);
        *out_nan = out->low;
    }
    return match_rounded(k, number, out);
}

bool ig_cuda_match_byte(const struct ig_loops *k, ig_x x, struct ig_cuda_byte *out) {
    int nan;
    return match_bounded(k, x, out, &nan) && nan == out->low;
}

/* ---- Rewriting --------------------------------------------------------------------------------------------------- */

struct rewriting {
    struct ig_loops *k;
    IG_VEC(ig_x) from;
    IG_VEC(ig_x) to;
};

static ig_x rewritten(struct rewriting *r, ig_x x) {
    return r->from.count ? ig_x_substitute(r->k, x, r->from.at, r->to.at, (int)r->from.count) : x;
}

static void replace(struct rewriting *r, ig_x from, ig_x to) {
    IG_PUSH(r->k->job, &r->from, from);
    IG_PUSH(r->k->job, &r->to, to);
}

/* x = a quantised number as a float: a byte, cast, or what that would be (kernel/loop.c). */
static bool match_number(const struct ig_loops *k, ig_x x, struct ig_cuda_byte *out) {
    const struct ig_x_node *n = look(k, x);
    if (n->kind == IG_X_CAST && n->i == INGOT_F32) return ig_cuda_match_byte(k, n->args[0], out);
    if (!match_most(k, x, &x, &out->high) || !match_least(k, x, &x, &out->low)) return false;
    return out->low <= out->high && match_rounded(k, x, out);
}

/* The same plus `more`. */
static void replace_number(struct rewriting *r, ig_x x, const struct ig_cuda_byte *b, int more) {
    const char *name =
        ig_format(r->k->job, "ig_between<%d, %d, %d>", b->low - b->zero, b->high - b->zero, b->zero + more);
    replace(r, x, ig_x_call(r->k, INGOT_F32, name, rewritten(r, b->number), IG_NO_X, IG_NO_X));
}

/* The quotient, by a constant, of which the quantised x is made; IG_NO_X if it is not. */
static ig_x quotient_in(const struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = look(k, x);
    struct ig_cuda_byte b;
    ig_x quotient = IG_NO_X;
    if (n->kind == IG_X_CAST && n->saturate && n->i == INGOT_F8E4M3FN)
        quotient = n->args[0];
    else if (ig_cuda_match_byte(k, x, &b))
        quotient = b.number;
    if (quotient == IG_NO_X || !is_map(k, quotient, IG_OP_div) || look(k, quotient)->dtype != INGOT_F32) return IG_NO_X;
    const struct ig_x_node *by = look(k, look(k, quotient)->args[1]);
    return by->kind == IG_X_FLOAT && by->f >= 0x1p-64 && by->f <= 0x1p64 ? quotient : IG_NO_X;
}

static ig_x without_division(struct rewriting *r, ig_x quotient) {
    struct ig_x_node n = *look(r->k, quotient);
    float by = (float)look(r->k, n.args[1])->f, inverse = 1 / by;
    bool once = fabsf(fmaf(by, inverse, -1)) <= 0x1p-25f;
    ig_x y = ig_x_float(r->k, INGOT_F32, (double)inverse);
    return ig_x_call(r->k, INGOT_F32, once ? "ig_quotient" : "ig_quotient_twice", rewritten(r, n.args[0]), n.args[1],
                     y);
}

static void rewrite_all(struct rewriting *r, struct ig_stmt *s) {
    if (s->value != IG_NO_X) s->value = rewritten(r, s->value);
    for (uint32_t i = 0; i < s->body.count; i++)
        rewrite_all(r, s->body.at[i]);
}

/* Only a quotient that nothing else reads may be another number where it is huge. */
static uint32_t *count_uses(const struct ig_loops *k, uint32_t count) {
    uint32_t *uses = IG_NEW_ARRAY(k->job, uint32_t, count);
    for (ig_x x = 0; x < count; x++) {
        for (int i = 0; i < 3; i++) {
            if (look(k, x)->args[i] != IG_NO_X) uses[look(k, x)->args[i]]++;
        }
    }
    return uses;
}

void ig_cuda_quantize(struct ig_loops *k) {
    struct rewriting r = {.k = k};
    uint32_t count = k->x.count;
    uint32_t *uses = count_uses(k, count);
    for (ig_x x = 0; x < count; x++) {
        ig_x number, quotient = quotient_in(k, x);
        struct ig_cuda_byte b;
        int more;
        if (quotient != IG_NO_X && uses[quotient] == 1) replace(&r, quotient, without_division(&r, quotient));
        if (match_number(k, x, &b)) replace_number(&r, x, &b, 0);
        if (match_shifted(k, x, &number, &more) && match_number(k, number, &b)) replace_number(&r, x, &b, more);
    }
    if (r.from.count) rewrite_all(&r, k->top);
}
