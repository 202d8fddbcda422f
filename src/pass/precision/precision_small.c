/*
 * Where small numbers matter: the sweep back from logarithms, divisors and small powers to the values and products that
 * must be exact for them. See precision.h.
 *
 * A product's result has errors like the last bit of its largest term, whatever its own size: fine for an activation, but the
 * logarithm of a spectrum's quiet band, or the reciprocal of its magnitude, shows nothing else then. (In f16, what is below
 * 6e-8 becomes zero, too, and its reciprocal infinite.) So the products and values that a front end consists of, between its
 * input and such an operator, stay wide as a group: through sums, products, roots and powers, and through at most LEVELS
 * products with weights. The group ends at activations, normalisations and exponentials, whose results do not depend so on
 * small numbers. Divisors of normalisations need it only if nothing keeps them from zero, and others not where their bounds
 * do.
 */
#include <math.h>

#include "ir/build.h"
#include "pass/match.h"
#include "pass/precision/precision.h"
#include "pass/precision/precision_table.h"

/* From this size on, numbers have errors that are small beside them. */
#define ORDINARY 0x1p-10

/* A filter that emphasises, a transform to a spectrum, one to bands. */
enum { LEVELS = 3 };

struct sweep {
    struct ig_graph *g;
    const struct ig_bounds *bounds;
    struct ig_range *ranges;
};

static void mark(const struct sweep *s, ig_value v, uint8_t level) {
    if (v == IG_NO_VALUE || ig_info(s->g, v)->is_const || ig_type_of(s->g, v)->dtype != INGOT_F32) return;
    if (level > s->ranges[v].small) s->ranges[v].small = level;
}

/* ---- Where small numbers matter ---------------------------------------------------------------------------------- */

/* The operand of a logarithm, or of a power below that of a root. */
static void mark_steep(const struct sweep *s, ig_value v) {
    if (ig_bounds_least(s->bounds[v]) < ORDINARY) mark(s, v, LEVELS + 1);
}

/* May this divisor be near zero? What divides many numbers by a statistic of them is a normalisation. */
static bool is_steep_divisor(const struct sweep *s, ig_value v) {
    double least = ig_bounds_least(s->bounds[v]);
    return !ig_info(s->g, v)->is_const && (s->ranges[v].average ? least == 0 : least < ORDINARY);
}

/* A quotient: the dividend may be as small as the divisor. */
static void mark_quotient(const struct sweep *s, ig_value dividend, ig_value divisor) {
    if (!is_steep_divisor(s, divisor)) return;
    mark(s, dividend, LEVELS + 1);
    mark(s, divisor, LEVELS + 1);
}

/* A quotient as a product with a reciprocal. */
static void mark_reciprocal(const struct sweep *s, const struct ig_node *n, int which) {
    ig_value v = n->in[which];
    const struct ig_node *wide = ig_def_op(s->g, v, IG_OP_broadcast);
    const struct ig_node *quotient = ig_def_op(s->g, wide ? wide->in[0] : v, IG_OP_div);
    if (quotient) mark_quotient(s, n->in[!which], quotient->in[1]);
}

static void mark_own(const struct sweep *s, const struct ig_node *n) {
    double exponent;
    switch (n->op) {
    case IG_OP_log: mark_steep(s, n->in[0]); break;
    case IG_OP_div: mark_quotient(s, n->in[0], n->in[1]); break;
    case IG_OP_mul:
        mark_reciprocal(s, n, 0);
        mark_reciprocal(s, n, 1);
        break;
    case IG_OP_pow:
        if (!ig_match_scalar(s->g, n->in[1], &exponent)) exponent = 1;
        if (exponent < 0) mark_quotient(s, n->in[0], n->in[0]);
        if (exponent > 0 && exponent < 0.5) mark_steep(s, n->in[0]);
        break;
    default: break;
    }
}

/* ---- Back to the operands ---------------------------------------------------------------------------------------- */

static bool is_bounded(const struct sweep *s, ig_value v) {
    const struct ig_node *n = ig_def(s->g, v);
    return n && ig_op_info(n->op)->family == IG_FAMILY_MAP && ig_range_rules[n->op].range == IG_RANGE_BOUNDS;
}

/* Do networks have this where one part ends and the next begins: a normalisation, or an activation that is a product with
 * a bounded function? */
static bool is_seam(const struct sweep *s, const struct ig_node *n) {
    if (ig_range_rules[n->op].small == IG_SMALL_CLAMPS) return true;
    if (n->op != IG_OP_mul && n->op != IG_OP_div) return false;
    for (int i = 0; i < 2; i++) {
        if (is_bounded(s, n->in[i]) || s->ranges[n->in[i]].average) return true;
    }
    return false;
}

static void mark_operands(const struct sweep *s, const struct ig_node *n) {
    uint8_t level = 0;
    for (uint32_t o = 0; o < n->n_out; o++) {
        if (s->ranges[n->out + o].small > level) level = s->ranges[n->out + o].small;
    }
    bool product = ig_op_info(n->op)->family == IG_FAMILY_CONTRACT;
    if (level == 0 || ig_range_rules[n->op].small == IG_SMALL_STOPS) return;
    if (level <= LEVELS && is_seam(s, n)) return;
    for (uint32_t i = 0; i < n->n_in && level > product; i++)
        mark(s, n->in[i], (uint8_t)(level - product));
}

void ig_precision_mark_small(struct ig_graph *g, uint32_t nodes, const struct ig_bounds *bounds,
                             struct ig_range *ranges) {
    struct sweep s = {.g = g, .bounds = bounds, .ranges = ranges};
    for (ig_node_id id = nodes; id-- > 0;) {
        const struct ig_node n = g->nodes.at[id]; /* matching may append nodes */
        if (ig_info(g, n.out)->is_const) continue;
        mark_operands(&s, &n);
        mark_own(&s, &n);
    }
}
