/*
 * Ranges: which numbers may be too large, too small or too exact for a narrow type. One sweep from operands to results
 * here, by the table of operators (precision_table.c) and by intervals (pass/bounds.h): what intervals show to be in the
 * range is, whatever the operators, and what they show to leave it is not; for the rest, which is most of a network whose
 * inputs are floats, operators decide. Two sweeps back: from what is rounded to integers (here), and from where small
 * numbers matter (precision_small.c).
 *
 * Integers in floats (positions, token numbers) must stay exact, which bf16 cannot do beyond 256. In a quantised network, a
 * rounding before the next quantisation changes results by whole steps. The values of weights are never inspected, since
 * refitting may change them; single numbers are literals of the engine, not weights. Where an interval goes through a
 * product with weights, these count as numbers of at most one.
 */
#include <math.h>

#include "base/narrow.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/match.h"
#include "pass/precision/precision.h"
#include "pass/precision/precision_table.h"

/* About half of the largest f16, and the smallest normal one. */
#define MOST 32768.0
#define LEAST 0x1p-14

/* What one rank has for all is not known to the others. */
static enum ig_range_effect effect_of(const struct ig_graph *g, const struct ig_node *n) {
    return ig_gathers_from_one(g, n) ? IG_RANGE_WIDENS : ig_range_rules[n->op].range;
}

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
    const struct ig_bounds *bounds;
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

/* Are some operands large, or powers? */
static void follow_operands(const struct sweep *s, const struct ig_node *n, struct ig_range *out) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE || !is_float(s->g, n->in[i])) continue;
        out->large = out->large || s->ranges[n->in[i]].large;
        out->power = out->power || s->ranges[n->in[i]].power;
    }
}

/* Multiplying by the reciprocal of a statistic normalises; squaring may leave the range. */
static struct ig_range range_of_mul(const struct sweep *s, const struct ig_node *n) {
    const struct ig_range *a = &s->ranges[n->in[0]], *b = &s->ranges[n->in[1]];
    struct ig_range r = {.statistic = keeps_statistic(s, n)};
    r.reciprocal = r.statistic && (a->reciprocal || b->reciprocal);
    if (!r.statistic && (a->reciprocal || b->reciprocal)) return r;
    follow_operands(s, n, &r);
    r.power = r.power || n->in[0] == n->in[1];
    r.large = r.large || r.power;
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
    bool large = !is_negative(s, n->in[0]);
    return (struct ig_range){.large = large, .power = large, .statistic = keeps_statistic(s, n)};
}

static struct ig_range range_of_pow(const struct sweep *s, const struct ig_node *n) {
    double exponent;
    bool known = ig_match_scalar(s->g, n->in[1], &exponent);
    struct ig_range r = {.statistic = keeps_statistic(s, n)};
    r.reciprocal = r.statistic && known && exponent < 0;
    r.large = !known || exponent < 0 || exponent > 1 || s->ranges[n->in[0]].large;
    r.power = !known || exponent < 0 || exponent > 1 || s->ranges[n->in[0]].power;
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
    return family == IG_FAMILY_MAP || family == IG_FAMILY_VIEW || family == IG_FAMILY_WINDOW ||
           family == IG_FAMILY_COLLECTIVE;
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
static void follow_clamped(const struct sweep *s, const struct ig_node *n, struct ig_range *out) {
    struct ig_node one = *n;
    one.n_in = 1;
    if (is_const(s, n->in[0])) one.in = n->in + 1;
    follow_operands(s, is_const(s, n->in[0]) || is_const(s, n->in[1]) ? &one : n, out);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* How many products a sum of a contraction has; 0: not known. */
static double depth_of(const struct sweep *s, const struct ig_node *n) {
    const struct ig_type *a = ig_type_of(s->g, n->in[0]), *w = ig_type_of(s->g, n->in[1]);
    int64_t all, columns;
    if (n->op == IG_OP_matmul) return ig_dim_is_const(s->g->dims, a->dim[a->rank - 1], &all) ? (double)all : 0;
    bool known = ig_dim_is_const(s->g->dims, ig_type_elements(s->g->dims, w), &all) &&
                 ig_dim_is_const(s->g->dims, w->dim[0], &columns);
    return known && columns > 0 ? (double)all / (double)columns : 0;
}

/* The largest that an operand can be; weights, and what is not known, count as ordinary numbers. */
static double most_of_operand(const struct sweep *s, ig_value v) {
    double most = ig_bounds_most(s->bounds[v]);
    return isfinite(most) ? most : 1;
}

/* Products with weights bring activations back into the range, but not powers of activations: a sum of squares is as large
 * as they are. What a product makes of powers is an activation to the next one. */
static struct ig_range range_of_contraction(const struct sweep *s, const struct ig_node *n) {
    struct ig_range r = {0};
    for (int i = 0; i < 2; i++)
        r.large = r.large || s->ranges[n->in[i]].power;
    bool bounded = isfinite(ig_bounds_most(s->bounds[n->in[0]]));
    double most = most_of_operand(s, n->in[0]) * most_of_operand(s, n->in[1]) * depth_of(s, n);
    r.large = r.large || (bounded && most > MOST);
    return r;
}

/* ---- All operators ----------------------------------------------------------------------------------------------- */

/* Does a statistic gather more than the parts of one number, such as real and imaginary ones? */
static bool averages(const struct sweep *s, const struct ig_node *n) {
    enum { PARTS = 4 };
    int64_t all, kept;
    if (ig_op_info(n->op)->family == IG_FAMILY_ROW) {
        bool known = ig_dim_is_const(s->g->dims, ig_type_elements(s->g->dims, ig_type_of(s->g, n->in[0])), &all) &&
                     ig_dim_is_const(s->g->dims, ig_type_elements(s->g->dims, ig_type_of(s->g, n->out)), &kept);
        if (!known || all > kept * PARTS) return true;
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE && s->ranges[n->in[i]].average) return true;
    }
    return false;
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
    case IG_OP_max: follow_clamped(s, n, &r); return r;
    case IG_OP_matmul:
    case IG_OP_conv: return range_of_contraction(s, n);
    case IG_OP_matmul_blocks:
    case IG_OP_matmul_scaled: return (struct ig_range){0};
    default: break;
    }
    if (effect_of(s->g, n) != IG_RANGE_BOUNDS) follow_operands(s, n, &r);
    r.large = r.large || effect_of(s->g, n) == IG_RANGE_WIDENS;
    bool carries = n->op == IG_OP_sqrt || ig_op_info(n->op)->family == IG_FAMILY_VIEW;
    r.reciprocal = carries && r.statistic && s->ranges[n->in[0]].reciprocal;
    return r;
}

/* ---- Backwards from roundings ------------------------------------------------------------------------------------ */

/* Floats of 8 bits are no integers: their products are summed in any order, so that nobody relies on each bit of them. */
static bool rounds(const struct sweep *s, const struct ig_node *n) {
    enum ingot_dtype to = ig_type_of(s->g, n->out)->dtype;
    if (n->op == IG_OP_floor || n->op == IG_OP_ceil || n->op == IG_OP_round) return true;
    return n->op == IG_OP_cast && is_float(s->g, n->in[0]) && !ig_dtype_is_float(to) && !ig_narrow_is_float(to) &&
           to != INGOT_BOOL;
}

/* A later rounding matters back through elementwise operators, and through a contraction of quantised operands. */
static bool passes_back(const struct sweep *s, const struct ig_node *n) {
    if (!is_float(s->g, n->out) || !s->ranges[n->out].rounded) return false;
    if (is_elementwise(n)) return true;
    return ig_op_info(n->op)->family == IG_FAMILY_CONTRACT && s->ranges[n->in[0]].quantized;
}

static void mark_rounded(const struct sweep *s, uint32_t nodes) {
    for (ig_node_id id = nodes; id-- > 0;) {
        const struct ig_node *n = &s->g->nodes.at[id];
        if (!rounds(s, n) && !passes_back(s, n)) continue;
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) s->ranges[n->in[i]].rounded = true;
        }
    }
}

/* What the interval says, where it says something: the numbers of integers and of unknown inputs are left to the rules. */
static void apply_bounds(const struct sweep *s, ig_value v, struct ig_range *r) {
    double most = ig_bounds_most(s->bounds[v]);
    if (!isfinite(most)) return;
    if (most > MOST) r->large = true;
    if (most <= MOST && most >= LEAST && !r->quantized) r->large = r->power = false;
}

struct ig_range *ig_precision_ranges(struct ig_graph *g) {
    struct sweep s = {.g = g, .bounds = ig_bounds_of_all(g)};
    s.ranges = IG_NEW_ARRAY(g->job, struct ig_range, g->values.count + 1);
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
                r->average = r->statistic && averages(&s, &n);
                apply_bounds(&s, n.out + o, r);
            }
        }
    }
    mark_rounded(&s, nodes);
    ig_precision_mark_small(g, nodes, s.bounds, s.ranges);
    return s.ranges;
}
