/*
 * use-reciprocals: division by a loop invariant becomes multiplication by its reciprocal.
 *
 * Requires:   nothing.
 * Guarantees: f32 and f64 are divided neither by a constant nor by a broadcast value (the sum of a softmax, the
 *             deviation of a normalisation), where the bounds show that the reciprocal does not overflow. Results
 *             differ by one rounding. A quotient that is then rounded to an integer (quantisation) is left alone: there
 *             one rounding can become a whole step.
 */
#include <math.h>

#include "pass/bounds.h"
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

/* Beyond these bounds a divisor's reciprocal may overflow, or lose bits that the quotient would keep. */
static const double smallest_divisor = 1e-30, largest_divisor = 1e30;

static bool is_rounding(const struct ig_graph *g, const struct ig_node *n) {
    switch (n->op) {
    case IG_OP_round:
    case IG_OP_floor:
    case IG_OP_ceil:
    case IG_OP_eq:
    case IG_OP_lt:
    case IG_OP_le: return true;
    case IG_OP_cast: return !ig_dtype_is_float(ig_type_of(g, n->out)->dtype);
    default: return false;
    }
}

/* By value: is it rounded to an integer or compared, directly or through views, casts, additions, minima and maxima? */
static bool *find_rounded(const struct ig_graph *g) {
    bool *rounded = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        bool through = ig_op_info(n->op)->family == IG_FAMILY_VIEW || n->op == IG_OP_add || n->op == IG_OP_min ||
                       n->op == IG_OP_max || n->op == IG_OP_cast;
        bool marks = is_rounding(g, n) || (through && rounded[n->out]);
        for (uint32_t i = 0; marks && i < n->n_in; i++) {
            if (n->in[i] != IG_NO_VALUE) rounded[n->in[i]] = true;
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
    const bool *rounded;
};

static const bool *rounded_values(struct ig_rewriter *rw) {
    struct divisions *d = rw->state;
    if (d->graph != rw->in) *d = (struct divisions){rw->in, find_rounded(rw->in)};
    return d->rounded;
}

static bool multiply(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    enum ingot_dtype dtype = ig_type_of(rw->in, n->out)->dtype;
    if (n->op != IG_OP_div || (dtype != INGOT_F32 && dtype != INGOT_F64) || ig_info(g, in[0])->is_const) return false;
    if (rounded_values(rw)[n->out]) return false;
    if (!is_safe_constant(g, in[1]) && !is_safe_broadcast(g, in[1], ig_type_of(rw->in, n->out))) return false;
    ig_value reciprocal = ig_map2(g, IG_OP_div, ig_scalar_like(g, in[1], 1), in[1]);
    out_values[0] = ig_map2(g, IG_OP_mul, in[0], reciprocal);
    return true;
}

struct ig_graph *ig_pass_use_reciprocals(struct ig_graph *in, const struct ig_pass_options *options) {
    struct divisions d = {NULL, NULL};
    return ig_rewrite(in, options, multiply, &d);
}
