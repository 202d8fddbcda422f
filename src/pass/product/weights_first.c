/*
 * weights-first: rows that are transposed, multiplied by weights and transposed back are multiplied by the weights from
 * the left, as they lie.
 *
 * Requires:   the final order of axes (after join-transposes); before precision, pack and fuse.
 * Guarantees: between a transpose and its inverse there is no chain of products with constant matrices and of elementwise
 *             operators with nothing but constants beside them, such as a mixer's layers over tokens (Tolstikhin et al.
 *             2021): x[batch, tokens, channels] is not transposed to [batch, channels, tokens] and back, but becomes
 *             weights[out, tokens] times x of each batch. Weights and biases are transposed as recipes. Only where lines
 *             of x are whole vector loads, on GPUs: micro-kernels of CPUs want the weights on the other side, packed.
 *
 * The chain is found from its end, the transpose back, since only that tells that the others are not wanted.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

enum { MOST_VALUES = 48, LOAD = 8 /* elements */ };

/* The values between the two transposes, in the old graph, and how often each is read there. */
struct chain {
    struct ig_rewriter *rw;
    const int64_t *perm;                               /* of the transpose back */
    int rank, count, begun, products;                  /* begun: values, or about to be */
    ig_value values[MOST_VALUES], turned[MOST_VALUES]; /* turned: in the new graph, in the order of axes behind perm */
    uint32_t reads[MOST_VALUES];
};

static int find(const struct chain *s, ig_value v) {
    int i = 0;
    while (i < s->count && s->values[i] != v)
        i++;
    return i;
}

/* Does the chain begin at v: a transpose whose inverse is the one at its end? */
static bool is_beginning(const struct chain *s, ig_value v) {
    const struct ig_node *n = ig_def_op(s->rw->in, v, IG_OP_transpose);
    if (!n || ig_type_of(s->rw->in, v)->rank != s->rank) return false;
    for (int i = 0; i < s->rank; i++) {
        if (ig_attr(s->rw->in, n, IG_ATTR_perm)->ints[s->perm[i]] != i) return false;
    }
    return true;
}

/* Is v the same in any order of axes, but for what is done ahead of time? */
static bool is_beside(const struct ig_graph *g, ig_value v) {
    return ig_info(g, v)->is_const || ig_type_is_single(g->dims, ig_type_of(g, v));
}

static bool collect(struct chain *s, ig_value v);

static bool collect_operands(struct chain *s, const struct ig_node *n) {
    struct ig_graph *g = s->rw->in;
    if (n->op == IG_OP_matmul) {
        s->products++;
        return ig_info(g, n->in[1])->is_const && ig_type_of(g, n->in[1])->rank == 2 &&
               ig_type_of(g, n->in[0])->rank == s->rank && ig_attr_int(g, n, IG_ATTR_packed) == 0 &&
               collect(s, n->in[0]);
    }
    if (ig_op_info(n->op)->family != IG_FAMILY_MAP) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (is_beside(g, n->in[i])) continue;
        if (!ig_same_dims(ig_type_of(g, n->in[i]), ig_type_of(g, n->out)) || !collect(s, n->in[i])) return false;
    }
    return true;
}

/* Lists what v is computed from, back to the beginning, operands first. False if there is anything else. */
static bool collect(struct chain *s, ig_value v) {
    const struct ig_node *n = ig_def(s->rw->in, v);
    int at = find(s, v);
    if (is_beginning(s, v)) return true;
    if (at == s->count) {
        if (!n || n->n_out != 1 || s->begun++ == MOST_VALUES || !collect_operands(s, n)) return false;
        at = s->count++;
        s->values[at] = v;
    }
    s->reads[at]++;
    return true;
}

/* The size of a line of x: the elements behind the axis that is multiplied. */
static ig_dim line_of(const struct chain *s, const struct ig_type *turned, int *out_axis) {
    int axis = 0;
    while (s->perm[axis] != s->rank - 1)
        axis++;
    *out_axis = axis;
    return ig_dim_product(s->rw->in->dims, turned->dim + axis + 1, s->rank - axis - 1);
}

/* Ends a chain of products at n, a transpose, all whose values are read within it, and does it pay? */
static bool find_chain(struct chain *s, const struct ig_node *n) {
    struct ig_graph *g = s->rw->in;
    int axis;
    s->perm = ig_attr(g, n, IG_ATTR_perm)->ints;
    s->rank = ig_type_of(g, n->out)->rank;
    if (!collect(s, n->in[0]) || s->products == 0) return false;
    for (int i = 0; i < s->count; i++) {
        if (s->reads[i] != s->rw->uses[s->values[i]]) return false;
    }
    ig_dim line = line_of(s, ig_type_of(g, n->out), &axis);
    return axis < s->rank - 1 && ig_dim_divides(g->dims, ig_dim_const(g->dims, LOAD), line);
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

/* An operand of a node of the chain in the new order of axes. */
static ig_value turned(const struct chain *s, ig_value v) {
    struct ig_graph *g = s->rw->out;
    ig_value new = s->rw->map[v];
    int at = find(s, v);
    if (at < s->count) return s->turned[at];
    if (is_beginning(s, v)) return s->rw->map[ig_def(s->rw->in, v)->in[0]];
    if (ig_type_is_single(g->dims, ig_type_of(g, new))) return new;
    struct ig_type type = *ig_type_of(g, new);
    ig_dim dims[INGOT_MAX_RANK];
    int missing = s->rank - type.rank;
    for (int i = 0; i < s->rank; i++)
        dims[i] = i < missing ? ig_dim_const(g->dims, 1) : type.dim[i - missing];
    return ig_view_transpose(g, ig_view_reshape(g, new, dims, s->rank), s->perm);
}

/* The product along an axis: [above, depth, line], each matrix multiplied by the weights. */
static ig_value multiply(const struct chain *s, const struct ig_node *n) {
    struct ig_graph *g = s->rw->out;
    ig_value x = turned(s, n->in[0]);
    struct ig_type type = *ig_type_of(g, x);
    int axis, flat = 0;
    ig_dim line = line_of(s, &type, &axis), dims[3];
    if (axis > 0) dims[flat++] = ig_dim_product(g->dims, type.dim, axis);
    dims[flat++] = type.dim[axis];
    dims[flat++] = line;
    ig_value weights = ig_view_transpose(g, s->rw->map[n->in[1]], (int64_t[]){1, 0});
    ig_value in[3] = {weights, ig_view_reshape(g, x, dims, flat), IG_NO_VALUE};
    type.dim[axis] = ig_type_of(g, weights)->dim[0];
    return ig_view_reshape(g, ig_build_copy(g, s->rw->in, n, in), type.dim, s->rank);
}

static ig_value build(const struct chain *s, const struct ig_node *n) {
    ig_value in[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    if (n->op == IG_OP_matmul) return multiply(s, n);
    IG_ASSERT(s->rw->in->job, n->n_in <= 3);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = turned(s, n->in[i]);
    return ig_build_copy(s->rw->out, s->rw->in, n, in);
}

static bool put_first(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct chain s = {.rw = rw};
    (void)in;
    if (n->op != IG_OP_transpose || ig_info(rw->in, n->out)->is_const || !find_chain(&s, n)) return false;
    for (int i = 0; i < s.count; i++)
        s.turned[i] = build(&s, ig_def(rw->in, s.values[i]));
    out_values[0] = s.turned[s.count - 1];
    return true;
}

struct ig_graph *ig_pass_weights_first(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_target_is_cuda(options->target) ? ig_rewrite(in, options, put_first, NULL) : in;
}
