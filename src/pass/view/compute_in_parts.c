/*
 * compute-in-parts: what follows a concatenation of rearranged parts of one value is computed on the parts.
 *
 * Requires:   slices of slices merged, and equal subexpressions computed once.
 * Guarantees: no elementwise operator is the only reader of a concatenation whose operands are parts of one value, unless it
 *             reads another value that would have to be stored for that. A rotary embedding (Su et al. 2021), x cos +
 *             concat(-x2, x1) sin where x1 and x2 are the halves of x, is then one kernel that stores two parts instead of
 *             two kernels with the rearranged x between them. Results are the same bit for bit.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

enum { MOST_PARTS = 4, MOST_VISITS = 32 };

struct chain {
    struct ig_rewriter *rw;
    const struct ig_node *concat; /* at the beginning, in the old graph; NULL: not found yet */
    int from_last;                /* its axis, counted from the last one */
    ig_value whole;               /* what its operands are parts of */
    int visits;
};

static bool is_elementwise(const struct ig_node *n) {
    return ig_op_info(n->op)->is_map || n->op == IG_OP_cast || n->op == IG_OP_where;
}

/* The node that computes v at run time, or NULL. */
static const struct ig_node *running(const struct ig_graph *g, ig_value v) {
    return ig_info(g, v)->is_const ? NULL : ig_def(g, v);
}

/* The only operand that is no constant; IG_NO_VALUE: there are none or several. */
static ig_value only_operand(const struct ig_graph *g, const struct ig_node *n) {
    ig_value found = IG_NO_VALUE;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (ig_info(g, n->in[i])->is_const) continue;
        if (found != IG_NO_VALUE) return IG_NO_VALUE;
        found = n->in[i];
    }
    return found;
}

/* What v is a part of: below elementwise work with constants and a slice, if there are any. */
static ig_value whole_of(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = running(g, v);
    while (n && is_elementwise(n)) {
        v = only_operand(g, n);
        if (v == IG_NO_VALUE) return v;
        n = running(g, v);
    }
    return n && n->op == IG_OP_slice ? n->in[0] : v;
}

static bool has_parts_of_one(const struct ig_graph *g, const struct ig_node *concat, ig_value *out_whole) {
    *out_whole = whole_of(g, concat->in[0]);
    if (*out_whole == IG_NO_VALUE || concat->n_in < 2 || concat->n_in > MOST_PARTS) return false;
    for (uint32_t i = 1; i < concat->n_in; i++) {
        if (whole_of(g, concat->in[i]) != *out_whole) return false;
    }
    return true;
}

/* Finds the concatenation at the beginning of what v alone is computed from. */
static void find_concat(struct chain *c, ig_value v) {
    const struct ig_graph *g = c->rw->in;
    const struct ig_node *n = running(g, v);
    if (!n || c->concat || c->rw->uses[v] != 1 || ++c->visits > MOST_VISITS) return;
    if (n->op == IG_OP_concat && has_parts_of_one(g, n, &c->whole)) {
        c->concat = n;
        c->from_last = ig_type_of(g, v)->rank - (int)ig_attr_int(g, n, IG_ATTR_axis);
        return;
    }
    for (uint32_t i = 0; is_elementwise(n) && i < n->n_in; i++)
        find_concat(c, n->in[i]);
}

/* Has v all elements along the axis, rather than the same one for all? */
static bool is_full(const struct chain *c, ig_value v) {
    const struct ig_type *type = ig_type_of(c->rw->in, v);
    int axis = type->rank - c->from_last;
    return axis >= 0 && !ig_dim_is(c->rw->in->dims, type->dim[axis], 1);
}

/* Is a slice of v no more than a view of what is in memory anyway? */
static bool is_stored(const struct chain *c, ig_value v) {
    const struct ig_graph *g = c->rw->in;
    for (;;) {
        const struct ig_node *n = running(g, v);
        if (!n || v == c->whole || c->rw->uses[v] > 1) return true;
        if (ig_op_info(n->op)->family != IG_FAMILY_VIEW || n->op == IG_OP_concat) return false;
        v = n->in[0];
    }
}

static bool is_same_division(const struct chain *c, const struct ig_node *n) {
    const struct ig_graph *g = c->rw->in;
    int axis = ig_type_of(g, n->out)->rank - c->from_last;
    if (n->n_in != c->concat->n_in || (int)ig_attr_int(g, n, IG_ATTR_axis) != axis) return false;
    int other = ig_type_of(g, c->concat->out)->rank - c->from_last;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (ig_type_of(g, n->in[i])->dim[axis] != ig_type_of(g, c->concat->in[i])->dim[other]) return false;
    }
    return true;
}

/* Can v be had in parts, with nothing stored for it? Elementwise work that v alone reads is done in parts, too. */
static bool divides(struct chain *c, ig_value v) {
    const struct ig_node *n = running(c->rw->in, v);
    if (!is_full(c, v)) return true;
    if (n && n->op == IG_OP_concat && is_same_division(c, n)) return true;
    if (!n || !is_elementwise(n) || c->rw->uses[v] != 1) return is_stored(c, v);
    if (++c->visits > MOST_VISITS) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!divides(c, n->in[i])) return false;
    }
    return true;
}

static ig_value build_node(struct chain *c, const struct ig_node *n, uint32_t part, ig_dim start);

/* Part number `part` of v, which begins at `start`, in the new graph. */
static ig_value build_part(struct chain *c, ig_value v, uint32_t part, ig_dim start) {
    struct ig_graph *g = c->rw->out;
    const struct ig_node *n = running(c->rw->in, v);
    if (!is_full(c, v)) return c->rw->map[v];
    if (n && n->op == IG_OP_concat && is_same_division(c, n)) return c->rw->map[n->in[part]];
    if (n && is_elementwise(n) && c->rw->uses[v] == 1) return build_node(c, n, part, start);
    const struct ig_type *of_concat = ig_type_of(c->rw->in, c->concat->in[part]);
    ig_dim size = of_concat->dim[of_concat->rank - c->from_last];
    return ig_build_slice_axis(g, c->rw->map[v], ig_type_of(c->rw->in, v)->rank - c->from_last, start, size, 1);
}

static ig_value build_node(struct chain *c, const struct ig_node *n, uint32_t part, ig_dim start) {
    ig_value in[3];
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = build_part(c, n->in[i], part, start);
    return ig_build_copy(c->rw->out, c->rw->in, n, in);
}

static bool compute_in_parts(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in,
                             ig_value *out_values) {
    struct chain c = {.rw = rw};
    (void)in;
    if (!is_elementwise(n) || ig_info(rw->in, n->out)->is_const) return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        find_concat(&c, n->in[i]);
    if (!c.concat) return false;
    const struct ig_type *whole = ig_type_of(rw->in, c.concat->out), *result = ig_type_of(rw->in, n->out);
    int axis = result->rank - c.from_last, of_concat = whole->rank - c.from_last;
    if (axis < 0 || result->dim[axis] != whole->dim[of_concat]) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!divides(&c, n->in[i])) return false;
    }
    ig_value parts[MOST_PARTS];
    ig_dim start = ig_dim_const(rw->out->dims, 0);
    for (uint32_t k = 0; k < c.concat->n_in; k++) {
        parts[k] = build_node(&c, n, k, start);
        start = ig_dim_add(rw->out->dims, start, ig_type_of(rw->in, c.concat->in[k])->dim[of_concat]);
    }
    out_values[0] = ig_build_concat(rw->out, parts, (int)c.concat->n_in, axis);
    return true;
}

struct ig_graph *ig_pass_compute_in_parts(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, compute_in_parts, NULL);
}
