/* Recognises attention from its last product backwards; see attend.h. */
#include "ir/attend.h"

#include <math.h>

#include "ir/build.h"

enum { MOST_VISITS = 200 }; /* node visits between the two products; more is no attention */

struct match {
    struct ig_graph *g;
    struct ig_attend *a;
    struct ig_type space; /* of the scores */
    int visits;
};

static ig_node_id id_of(const struct match *m, ig_value v) {
    return ig_info(m->g, v)->is_const ? IG_NO_NODE : ig_info(m->g, v)->node;
}

/* The node that computes v at run time (not a constant), if it is of that operator, else NULL. */
static const struct ig_node *running(const struct match *m, ig_value v, enum ig_op op) {
    return id_of(m, v) == IG_NO_NODE ? NULL : ig_def_op(m->g, v, op);
}

static void take(struct match *m, ig_value v) {
    ig_node_id id = id_of(m, v);
    for (uint32_t i = 0; i < m->a->nodes.count; i++) {
        if (m->a->nodes.at[i] == id) return;
    }
    IG_PUSH(m->g->job, &m->a->nodes, id);
}

static bool is_scalar(const struct match *m, ig_value v, double value) {
    double x;
    return ig_info(m->g, v)->is_const && ig_const_scalar(m->g, v, &x) && x == value;
}

static bool is_narrow_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16;
}

/* Matches a reduction over the last axis alone; gives its operand. */
static bool match_reduction(const struct match *m, ig_value v, enum ig_op op, ig_value *out_operand) {
    const struct ig_node *n = running(m, v, op);
    if (!n) return false;
    const struct ig_attr *axes = ig_attr(m->g, n, IG_ATTR_axes);
    *out_operand = n->in[0];
    return axes->count == 1 && axes->ints[0] == ig_type_of(m->g, n->in[0])->rank - 1;
}

/* If v is where(x == never, instead, x), returns x; otherwise v. */
static ig_value match_guard(struct match *m, ig_value v, double never, double instead, bool *out_guarded) {
    const struct ig_node *n = running(m, v, IG_OP_where);
    const struct ig_node *test = n ? running(m, n->in[0], IG_OP_eq) : NULL;
    *out_guarded = test && is_scalar(m, n->in[1], instead) &&
                   ((test->in[0] == n->in[2] && is_scalar(m, test->in[1], never)) ||
                    (test->in[1] == n->in[2] && is_scalar(m, test->in[0], never)));
    if (!*out_guarded) return v;
    take(m, v);
    take(m, n->in[0]);
    return n->in[2];
}

/* Matches exp(z - max(z)); gives z. */
static bool match_exponentials(struct match *m, ig_value e, ig_value *out_z, bool *out_guarded) {
    const struct ig_node *power = running(m, e, IG_OP_exp);
    const struct ig_node *difference = power ? running(m, power->in[0], IG_OP_sub) : NULL;
    ig_value operand;
    if (!difference) return false;
    ig_value most = match_guard(m, difference->in[1], -INFINITY, 0, out_guarded);
    if (!match_reduction(m, most, IG_OP_reduce_max, &operand)) return false;
    *out_z = difference->in[0];
    take(m, e);
    take(m, power->in[0]);
    take(m, most);
    return operand == *out_z;
}

/* Matches sum(e), possibly guarded against 0; gives e. */
static bool match_sum(struct match *m, ig_value v, ig_value *out_e, bool *out_guarded) {
    ig_value sum = match_guard(m, v, 0, 1, out_guarded);
    take(m, sum);
    return match_reduction(m, sum, IG_OP_reduce_sum, out_e);
}

/* Matches e / sum(e) or e * (1 / sum(e)); gives e. */
static bool match_quotient(struct match *m, ig_value v, ig_value *out_e, bool *out_guarded) {
    const struct ig_node *n = running(m, v, IG_OP_div);
    take(m, v);
    if (n) return match_sum(m, n->in[1], out_e, out_guarded) && *out_e == n->in[0];
    n = running(m, v, IG_OP_mul);
    for (int i = 0; n && i < 2; i++) {
        const struct ig_node *inverse = running(m, n->in[i], IG_OP_div);
        if (!inverse || !is_scalar(m, inverse->in[0], 1)) continue;
        take(m, n->in[i]);
        return match_sum(m, inverse->in[1], out_e, out_guarded) && *out_e == n->in[1 - i];
    }
    return false;
}

/* If v is a reshape of batches of matrices that leaves the matrices as they are (it tells the windows of each picture
 * apart, say), returns its operand; otherwise v. */
static ig_value match_regrouping(const struct match *m, ig_value v) {
    const struct ig_node *n = running(m, v, IG_OP_reshape);
    if (!n) return v;
    const struct ig_type *from = ig_type_of(m->g, n->in[0]), *to = ig_type_of(m->g, v);
    if (from->rank < 3 || to->rank < 3 || from->dim[from->rank - 1] != to->dim[to->rank - 1]) return v;
    return from->dim[from->rank - 2] == to->dim[to->rank - 2] ? n->in[0] : v;
}

/* Strips what may lie between the softmax and the second product: rounding, other groups of batches, and
 * where(isnan(w), 0, w). */
static ig_value match_repairs(struct match *m, ig_value v) {
    for (;;) {
        const struct ig_node *n = running(m, v, IG_OP_cast);
        if (n && is_narrow_float(ig_type_of(m->g, n->in[0])->dtype) && is_narrow_float(ig_type_of(m->g, v)->dtype)) {
            take(m, v);
            v = n->in[0];
            continue;
        }
        ig_value before = match_regrouping(m, v);
        if (before != v) {
            take(m, v);
            v = before;
            continue;
        }
        n = running(m, v, IG_OP_where);
        const struct ig_node *test = n ? running(m, n->in[0], IG_OP_isnan) : NULL;
        if (!test || test->in[0] != n->in[2] || !is_scalar(m, n->in[1], 0)) return v;
        m->a->repaired = true;
        take(m, v);
        take(m, n->in[0]);
        v = n->in[2];
    }
}

static bool find_scores(struct match *m, ig_value v);

/* The same above a reshape of the batches, in the shape of its operand. */
static bool find_regrouped_scores(struct match *m, ig_value v, ig_value before) {
    struct ig_type below = m->space;
    m->space = *ig_type_of(m->g, before);
    bool found = find_scores(m, before);
    m->space = below;
    if (found) take(m, v);
    return found;
}

/* Takes all elementwise nodes on the paths from the first product to v. False if no path leads to a product. The first
 * product found counts; results of other products are ordinary operands. */
static bool find_scores(struct match *m, ig_value v) {
    ig_node_id id = id_of(m, v);
    if (id == IG_NO_NODE || !ig_same_dims(ig_type_of(m->g, v), &m->space) || ++m->visits > MOST_VISITS) return false;
    const struct ig_node *n = &m->g->nodes.at[id];
    ig_value before = match_regrouping(m, v);
    if (before != v) return find_regrouped_scores(m, v, before);
    if (n->op == IG_OP_matmul && (m->a->scores == IG_NO_NODE || m->a->scores == id)) {
        m->a->scores = id;
        take(m, v);
        return true;
    }
    if (!ig_op_info(n->op)->is_map && n->op != IG_OP_cast && n->op != IG_OP_where) return false;
    bool found = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        found |= find_scores(m, n->in[i]);
    if (found) take(m, v);
    return found;
}

static uint32_t readings(const struct match *m, ig_value v, ig_node_id id) {
    const struct ig_node *n = &m->g->nodes.at[id];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        count += n->in[i] == v;
    return count;
}

/* Are all intermediate values of the attention read only by the attention? */
static bool is_closed(const struct match *m, const uint32_t *uses) {
    for (uint32_t i = 0; i < m->a->nodes.count; i++) {
        ig_value v = m->g->nodes.at[m->a->nodes.at[i]].out;
        uint32_t own = readings(m, v, m->a->product);
        for (uint32_t r = 0; r < m->a->nodes.count; r++)
            own += readings(m, v, m->a->nodes.at[r]);
        if (own != uses[v]) return false;
    }
    return true;
}

bool ig_attend_match(struct ig_graph *graph, const uint32_t *uses, ig_node_id product, struct ig_attend *out) {
    struct match m = {.g = graph, .a = out};
    const struct ig_node *n = &graph->nodes.at[product];
    ig_value e;
    *out = (struct ig_attend){.scores = IG_NO_NODE, .product = product};
    if (n->op != IG_OP_matmul || ig_info(graph, n->out)->is_const) return false;
    ig_value weights = match_repairs(&m, n->in[0]);
    if (id_of(&m, weights) == IG_NO_NODE || !is_narrow_float(ig_type_of(graph, weights)->dtype)) return false;
    bool sum_guarded = false, most_guarded = false;
    if (!match_quotient(&m, weights, &e, &sum_guarded)) return false;
    if (!match_exponentials(&m, e, &out->changed, &most_guarded)) return false;
    out->guarded = sum_guarded && most_guarded; /* one alone leaves NaN: 0 / 0, or -infinity less itself */
    m.space = *ig_type_of(graph, out->changed);
    if (!find_scores(&m, out->changed)) return false;
    /* Both products have the same heads, in the same axes. */
    const struct ig_type *scores = ig_type_of(graph, graph->nodes.at[out->scores].out),
                         *result = ig_type_of(graph, n->out);
    if (scores->rank != result->rank) return false;
    return !uses || is_closed(&m, uses);
}
