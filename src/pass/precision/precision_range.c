/*
 * Which numbers may be too large, too small or too exact for a narrow type: one sweep from operands to results, and one
 * back from what is rounded to integers.
 *
 * The classes follow from the mathematics of the operators and summarise the mixed-precision training of Micikevicius
 * et al. (2018) and the lists of "autocast" tools: exponentials, squares, sums and quotients of activations may leave
 * the range of f16; bounded functions and products with weights bring values back into it, and so does dividing a row
 * by its own statistic (softmax, normalisations). Integers in floats (positions, token numbers) must stay exact, which
 * bf16 cannot do beyond 256. In a quantised network, a rounding before the next quantisation changes results by whole
 * steps. The values of weights are never inspected, since refitting may change them; single numbers are literals of the
 * engine, not weights.
 */
#include <math.h>

#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/match.h"
#include "pass/precision/precision.h"

/* What an operator does to the range of its operands. */
enum effect {
    WIDENS = 0, /* may leave the range; the default for operators not listed */
    FOLLOWS,    /* no larger than its operands */
    BOUNDS,     /* in range whatever the operands */
};

static const enum effect effects[IG_OP_COUNT] = {
    [IG_OP_neg] = FOLLOWS,
    [IG_OP_abs] = FOLLOWS,
    [IG_OP_floor] = FOLLOWS,
    [IG_OP_ceil] = FOLLOWS,
    [IG_OP_round] = FOLLOWS,
    [IG_OP_sqrt] = FOLLOWS,
    [IG_OP_add] = FOLLOWS,
    [IG_OP_sub] = FOLLOWS,
    [IG_OP_mul] = FOLLOWS,
    [IG_OP_min] = FOLLOWS,
    [IG_OP_max] = FOLLOWS,
    [IG_OP_mod] = FOLLOWS,
    [IG_OP_fmod] = FOLLOWS,
    [IG_OP_where] = FOLLOWS,
    [IG_OP_reshape] = FOLLOWS,
    [IG_OP_transpose] = FOLLOWS,
    [IG_OP_broadcast] = FOLLOWS,
    [IG_OP_slice] = FOLLOWS,
    [IG_OP_pad] = FOLLOWS,
    [IG_OP_concat] = FOLLOWS,
    [IG_OP_gather] = FOLLOWS,
    [IG_OP_gather_nd] = FOLLOWS,
    [IG_OP_gather_elements] = FOLLOWS,
    [IG_OP_scatter_nd] = FOLLOWS,
    [IG_OP_scatter_elements] = FOLLOWS,
    [IG_OP_topk] = FOLLOWS,
    [IG_OP_reduce_mean] = FOLLOWS,
    [IG_OP_reduce_max] = FOLLOWS,
    [IG_OP_reduce_min] = FOLLOWS,
    [IG_OP_pool_max] = FOLLOWS,
    [IG_OP_pool_avg] = FOLLOWS,
    [IG_OP_sign] = BOUNDS,
    [IG_OP_sin] = BOUNDS,
    [IG_OP_cos] = BOUNDS,
    [IG_OP_asin] = BOUNDS,
    [IG_OP_acos] = BOUNDS,
    [IG_OP_atan] = BOUNDS,
    [IG_OP_tanh] = BOUNDS,
    [IG_OP_erf] = BOUNDS,
    [IG_OP_normcdf] = BOUNDS,
    [IG_OP_sigmoid] = BOUNDS,
    [IG_OP_log] = BOUNDS,
    [IG_OP_log1p] = BOUNDS,
    [IG_OP_asinh] = BOUNDS,
    [IG_OP_acosh] = BOUNDS,
    [IG_OP_atanh] = BOUNDS,
    [IG_OP_matmul] = BOUNDS,
    [IG_OP_conv] = BOUNDS,
    [IG_OP_lstm] = BOUNDS,
    [IG_OP_gru] = BOUNDS,
    [IG_OP_rnn] = BOUNDS,
};

/* About half of the largest f16, and the smallest normal one. */
#define MOST 32768.0
#define LEAST 0x1p-14

static bool is_float(const struct ig_graph *g, ig_value v) {
    return ig_dtype_is_float(ig_type_of(g, v)->dtype);
}

/* ---- Constants --------------------------------------------------------------------------------------------------- */

/* Infinities are representable in every type. */
static bool is_large(double x) {
    return isfinite(x) && x != 0 && (fabs(x) > MOST || fabs(x) < LEAST);
}

/* Finds numbers that belong to the model's logic, such as the -1e9 of an attention mask. */
static bool has_large_element(struct ig_graph *g, ig_value v) {
    int64_t count;
    bool large = false;
    double scalar;
    if (ig_match_scalar(g, v, &scalar)) return is_large(scalar);
    if (ig_info(g, v)->is_refittable || !ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, v)), &count))
        return false;
    struct ingot_tensor t = ig_const_tensor(g, v);
    for (int64_t i = 0; i < count && !large; i++) {
        double x = fabs(ig_load_f64(t.dtype, t.data, i));
        large = isfinite(x) && x > MOST;
    }
    ig_const_release(g, v, &t);
    return large;
}

/* ---- Operators --------------------------------------------------------------------------------------------------- */

struct sweep {
    struct ig_graph *g;
    struct ig_range *ranges;
};

static bool is_const(const struct sweep *s, ig_value v) {
    return ig_info(s->g, v)->is_const;
}

/* The number of different elements of a value. */
static ig_dim spread_elements(const struct sweep *s, ig_value v) {
    const struct ig_node *broadcast = ig_def_op(s->g, v, IG_OP_broadcast);
    return ig_type_elements(s->g->dims, ig_type_of(s->g, broadcast ? broadcast->in[0] : v));
}

/* Is the result a statistic: are all its non-constant operands statistics? Those that meet along different axes, such as
 * sums of queries and of keys in an additive attention, make activations again. */
static bool keeps_statistic(const struct sweep *s, const struct ig_node *n) {
    ig_dim elements = ig_type_elements(s->g->dims, ig_type_of(s->g, n->out));
    int some = 0;
    bool whole = false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE || is_const(s, n->in[i]) || !is_float(s->g, n->in[i])) continue;
        if (!s->ranges[n->in[i]].statistic) return false;
        whole = whole || spread_elements(s, n->in[i]) == elements;
        some++;
    }
    return some == 1 || (some > 1 && whole);
}

static bool some_operand_large(const struct sweep *s, const struct ig_node *n) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE && is_float(s->g, n->in[i]) && s->ranges[n->in[i]].large) return true;
    }
    return false;
}

/* Multiplying by the reciprocal of a statistic normalises; squaring may leave the range. */
static struct ig_range range_of_mul(const struct sweep *s, const struct ig_node *n) {
    const struct ig_range *a = &s->ranges[n->in[0]], *b = &s->ranges[n->in[1]];
    struct ig_range r = {.large = a->large || b->large || n->in[0] == n->in[1], .statistic = keeps_statistic(s, n)};
    r.reciprocal = r.statistic && (a->reciprocal || b->reciprocal);
    if (!r.statistic && (a->reciprocal || b->reciprocal)) r.large = false;
    return r;
}

static struct ig_range range_of_div(const struct sweep *s, const struct ig_node *n) {
    const struct ig_range *a = &s->ranges[n->in[0]], *b = &s->ranges[n->in[1]];
    struct ig_range r = {.statistic = keeps_statistic(s, n)};
    r.reciprocal = r.statistic && b->statistic;
    r.large = is_const(s, n->in[1]) ? a->large || b->large : !b->statistic || r.statistic;
    return r;
}

/* Is v at most zero because it is the smaller of something and zero, perhaps scaled by a positive number (as in an ELU)? */
static bool is_negative(const struct sweep *s, ig_value v) {
    double by;
    const struct ig_node *n = ig_def(s->g, v);
    while (n && (n->op == IG_OP_div || n->op == IG_OP_mul) && ig_match_scalar(s->g, n->in[1], &by) && by > 0)
        n = ig_def(s->g, n->in[0]);
    if (!n || n->op != IG_OP_min) return false;
    return ig_match_scalar(s->g, n->in[!is_const(s, n->in[0])], &by) && by <= 0;
}

/* The exponential of a number that is not positive is at most one. */
static struct ig_range range_of_exp(const struct sweep *s, const struct ig_node *n) {
    return (struct ig_range){.large = !is_negative(s, n->in[0]), .statistic = keeps_statistic(s, n)};
}

static struct ig_range range_of_pow(const struct sweep *s, const struct ig_node *n) {
    double exponent;
    bool known = ig_match_scalar(s->g, n->in[1], &exponent);
    struct ig_range r = {.statistic = keeps_statistic(s, n)};
    r.reciprocal = r.statistic && known && exponent < 0;
    r.large = !known || exponent < 0 || exponent > 1 || s->ranges[n->in[0]].large;
    return r;
}

/* Integers of more than eight bits must stay exact; powers of two are beyond half precision's range. */
static struct ig_range range_of_cast(const struct sweep *s, const struct ig_node *n) {
    enum ingot_dtype from = ig_type_of(s->g, n->in[0])->dtype;
    if (ig_dtype_is_float(from)) return s->ranges[n->in[0]];
    bool large = ingot_dtype_size(from) > 1 || from == INGOT_F8E8M0;
    return (struct ig_range){.large = large, .quantized = from != INGOT_BOOL};
}

static bool is_elementwise(const struct ig_node *n) {
    enum ig_family family = ig_op_info(n->op)->family;
    return family == IG_FAMILY_MAP || family == IG_FAMILY_VIEW || family == IG_FAMILY_WINDOW;
}

/* Do all non-constant operands come from integers? */
static bool keeps_quantized(const struct sweep *s, const struct ig_node *n) {
    bool some = false;
    for (uint32_t i = 0; is_elementwise(n) && i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE || is_const(s, n->in[i]) || !is_float(s->g, n->in[i])) continue;
        if (!s->ranges[n->in[i]].quantized) return false;
        some = true;
    }
    return some;
}

/* A clamp: the smaller of a value and a huge constant is no larger than the value. */
static bool clamped_large(const struct sweep *s, const struct ig_node *n) {
    if (is_const(s, n->in[0])) return s->ranges[n->in[1]].large;
    if (is_const(s, n->in[1])) return s->ranges[n->in[0]].large;
    return some_operand_large(s, n);
}

static struct ig_range range_of_node(const struct sweep *s, const struct ig_node *n) {
    bool reduction = ig_op_info(n->op)->family == IG_FAMILY_ROW;
    struct ig_range r = {.statistic = reduction || keeps_statistic(s, n)};
    switch (n->op) {
    case IG_OP_mul: return range_of_mul(s, n);
    case IG_OP_div: return range_of_div(s, n);
    case IG_OP_pow: return range_of_pow(s, n);
    case IG_OP_exp: return range_of_exp(s, n);
    case IG_OP_cast: return range_of_cast(s, n);
    case IG_OP_min:
    case IG_OP_max: r.large = clamped_large(s, n); return r;
    case IG_OP_matmul:
    case IG_OP_conv: return (struct ig_range){0};
    default: break;
    }
    r.large = effects[n->op] == WIDENS || (effects[n->op] == FOLLOWS && some_operand_large(s, n));
    bool carries = n->op == IG_OP_sqrt || ig_op_info(n->op)->family == IG_FAMILY_VIEW;
    r.reciprocal = carries && r.statistic && s->ranges[n->in[0]].reciprocal;
    return r;
}

/* ---- Backwards from roundings ------------------------------------------------------------------------------------ */

static bool rounds(const struct sweep *s, const struct ig_node *n) {
    if (n->op == IG_OP_floor || n->op == IG_OP_ceil || n->op == IG_OP_round) return true;
    return n->op == IG_OP_cast && is_float(s->g, n->in[0]) && !is_float(s->g, n->out) &&
           ig_type_of(s->g, n->out)->dtype != INGOT_BOOL;
}

/* A later rounding matters back through elementwise operators, and through a contraction of quantised operands. */
static bool passes_back(const struct sweep *s, const struct ig_node *n) {
    if (!is_float(s->g, n->out) || !s->ranges[n->out].rounded) return false;
    if (is_elementwise(n)) return true;
    return ig_op_info(n->op)->family == IG_FAMILY_CONTRACT && s->ranges[n->in[0]].quantized;
}

static void mark_rounded(const struct sweep *s) {
    for (ig_node_id id = s->g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &s->g->nodes.at[id];
        if (!rounds(s, n) && !passes_back(s, n)) continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) s->ranges[n->in[i]].rounded = true;
        }
    }
}

struct ig_range *ig_precision_ranges(struct ig_graph *g) {
    struct sweep s = {.g = g, .ranges = IG_NEW_ARRAY(g->job, struct ig_range, g->values.count + 1)};
    uint32_t nodes = g->nodes.count, values = g->values.count; /* evaluating constants may append nodes */
    for (ig_node_id id = 0; id < nodes; id++) {
        const struct ig_node n = g->nodes.at[id];
        for (uint32_t o = 0; o < n.n_out && n.out + o < values; o++) {
            if (!is_float(g, n.out + o)) continue;
            struct ig_range *r = &s.ranges[n.out + o];
            if (ig_info(g, n.out + o)->is_const) {
                r->large = has_large_element(g, n.out + o);
            } else {
                *r = range_of_node(&s, &n);
                r->quantized = r->quantized || keeps_quantized(&s, &n);
            }
        }
    }
    mark_rounded(&s);
    return s.ranges;
}
