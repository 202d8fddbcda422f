/*
 * use-reciprocals: division by a loop invariant becomes multiplication by its reciprocal.
 *
 * Requires:   nothing.
 * Guarantees: f32 and f64 are divided neither by a constant nor by a broadcast value (the sum of a softmax, the
 *             deviation of a normalisation), where the bounds show that the reciprocal does not overflow. Results
 *             differ by one rounding. A quotient that is then rounded to an integer is left alone: there one rounding can
 *             become a whole step. But what is quantised to 8 bits takes that step of its own where 16 bits may hold what is
 *             divided (precision fp16 or bf16), whose own rounding moves far more numbers by one.
 */
#include <math.h>

#include "pass/bounds.h"
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "pass/view/view.h"

/* Beyond these bounds a divisor's reciprocal may overflow, or lose bits that the quotient would keep. */
static const double smallest_divisor = 1e-30, largest_divisor = 1e30;

/* What becomes of a value, directly or through views, casts, additions, minima and maxima. */
enum {
    ROUNDED = 1, /* an integer, or it is compared */
    BYTE = 2,    /* a saturated integer of 8 bits, without its fraction */
    NEAREST = 4  /* the nearest number of 8 bits */
};

static unsigned rounding_of(const struct ig_graph *g, const struct ig_node *n, unsigned out) {
    enum ingot_dtype to = ig_type_of(g, n->out)->dtype;
    switch (n->op) {
    case IG_OP_round: return out == BYTE ? NEAREST : ROUNDED;
    case IG_OP_floor:
    case IG_OP_ceil:
    case IG_OP_eq:
    case IG_OP_lt:
    case IG_OP_le: return ROUNDED;
    case IG_OP_cast:
        if (ingot_dtype_size(to) > 1 || !ig_attr_int(g, n, IG_ATTR_saturate))
            return ig_dtype_is_float(to) ? out : ROUNDED;
        return to == INGOT_I8 || to == INGOT_U8 ? BYTE : NEAREST;
    case IG_OP_add:
    case IG_OP_min:
    case IG_OP_max: return out;
    default: return ig_op_info(n->op)->family == IG_FAMILY_VIEW ? out : 0;
    }
}

/* By value. */
static unsigned char *find_rounded(const struct ig_graph *g) {
    unsigned char *rounded = IG_NEW_ARRAY(g->job, unsigned char, g->values.count + 1);
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        unsigned marks = rounding_of(g, n, rounded[n->out]);
        for (uint32_t i = 0; marks && i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) rounded[n->in[i]] |= (unsigned char)marks;
        }
    }
    return rounded;
}

/* Is the divisor broadcast, and large enough that its reciprocal is safe? */
static bool is_safe_broadcast(struct ig_graph *g, ig_value divisor, const struct ig_type *result) {
    if (ig_same_dims(ig_type_of(g, divisor), result)) return false;
    return ig_bounds_of(g, divisor).lo >= smallest_divisor;
}

static bool is_safe_constant(struct ig_graph *g, ig_value divisor) {
    double c;
    if (!ig_info(g, divisor)->is_const) return false;
    if (!ig_match_scalar(g, divisor, &c)) return true;
    return fabs(c) >= smallest_divisor && fabs(c) <= largest_divisor;
}

/* What was found in the graph being read, once per graph (bodies of control flow are graphs of their own). */
struct divisions {
    const struct ig_graph *graph;
    const unsigned char *rounded;
};

static const unsigned char *rounded_values(struct ig_rewriter *rw) {
    struct divisions *d = rw->state;
    if (d->graph != rw->in) *d = (struct divisions){rw->in, find_rounded(rw->in)};
    return d->rounded;
}

/* May 16 bits hold what it computes? */
static bool is_narrow(const struct ig_precisions *precisions, const struct ig_node *n) {
    return precisions && ig_precision_dtype(ig_precision_of(precisions, n->origin)) != INGOT_F32;
}

static bool multiply(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    enum ingot_dtype dtype = ig_type_of(rw->in, n->out)->dtype;
    if (n->op != IG_OP_div || (dtype != INGOT_F32 && dtype != INGOT_F64) || ig_info(g, in[0])->is_const) return false;
    unsigned rounded = rounded_values(rw)[n->out];
    if (rounded && (rounded != NEAREST || !is_narrow(rw->options->precisions, n))) return false;
    if (!is_safe_constant(g, in[1]) && !is_safe_broadcast(g, in[1], ig_type_of(rw->in, n->out))) return false;
    ig_value reciprocal = ig_map2(g, IG_OP_div, ig_scalar_like(g, in[1], 1), in[1]);
    out_values[0] = ig_map2(g, IG_OP_mul, in[0], reciprocal);
    return true;
}

struct ig_graph *ig_pass_use_reciprocals(struct ig_graph *in, const struct ig_pass_options *options) {
    struct divisions d = {NULL, NULL};
    return ig_rewrite(in, options, multiply, &d);
}
