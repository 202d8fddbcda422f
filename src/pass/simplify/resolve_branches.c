/*
 * resolve-branches: an `if` whose condition is constant is replaced by the branch taken.
 *
 * Requires:   nothing.
 * Guarantees: no `if` has a constant condition. All later passes see the nodes of the branch.
 */
#include "ir/build.h"
#include "pass/match.h"
#include "pass/passes.h"

/* Appends a body to g with the given values for its inputs; out_values gets its outputs. */
static void inline_body(struct ig_graph *g, const struct ig_graph *body, const ig_value *inputs, ig_value *out_values) {
    ig_value *map = IG_NEW_ARRAY(g->job, ig_value, body->values.count + 1);
    for (uint32_t i = 0; i < body->inputs.count; i++)
        map[body->inputs.at[i].value] = inputs[i];
    for (ig_node_id id = 0; id < body->nodes.count; id++) {
        const struct ig_node *n = &body->nodes.at[id];
        ig_value *in = IG_NEW_ARRAY(g->job, ig_value, n->n_in + 1);
        for (uint32_t i = 0; i < n->n_in; i++)
            in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : map[n->in[i]];
        ig_build_origin(g, n->origin);
        ig_value first = ig_build_copy(g, body, n, in);
        for (uint32_t o = 0; o < n->n_out; o++)
            map[n->out + o] = first + o;
    }
    for (uint32_t i = 0; i < body->outputs.count; i++)
        out_values[i] = map[body->outputs.at[i].value];
}

static bool known_condition(struct ig_graph *g, ig_value v, bool *out_value) {
    const ig_dim *elements;
    int count;
    int64_t number;
    double scalar;
    if (ig_match_scalar(g, v, &scalar)) {
        *out_value = scalar != 0;
        return true;
    }
    if (!ig_elements(g, v, &elements, &count) || count != 1) return false;
    if (!ig_dim_is_const(g->dims, elements[0], &number)) return false;
    *out_value = number != 0;
    return true;
}

static bool resolve(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    bool condition;
    if (n->op != IG_OP_if || !known_condition(rw->out, in[0], &condition)) return false;
    const struct ig_graph *body = n->body[condition ? 0 : 1];
    if (body->outputs.count != n->n_out) return false;
    inline_body(rw->out, body, in + 1, out_values);
    return true;
}

struct ig_graph *ig_pass_resolve_branches(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite_until_stable(in, options, resolve, NULL, 16);
}
