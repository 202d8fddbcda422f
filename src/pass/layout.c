/*
 * layout: convolutions and pooling windows run in channels-last form.
 *
 * Requires:   nothing; works best after move-views.
 * Guarantees: every conv and pool has channels_last = 1. Between two of them no transpose is left unless an operator
 *             in between really needs the other order.
 *
 * One sweep. A convolution of x becomes transpose(conv(transpose(x))) with the transposes around it, and whatever
 * follows takes the transpose with it (sink*.c): elementwise operators with per-channel constants transposed as
 * recipes, residual adds, concatenations, reductions, resizing gathers, reshapes that split or merge axes in place.
 * So the next convolution's own transpose finds its inverse and both vanish. The rule for mixed operands is that
 * channels-last wins where at least half of them have it. A network of convolutions ends up with a transpose at its
 * entry, which is part of the first convolution's addressing, and one where it leaves four dimensions.
 */
#include "pass/passes.h"
#include "pass/view.h"

static bool is_window(const struct ig_node *n) {
    return n->op == IG_OP_conv || ig_op_info(n->op)->family == IG_FAMILY_WINDOW;
}

static bool has_windows(const struct ig_graph *g) {
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (is_window(n)) return true;
        for (int b = 0; b < 2; b++) {
            if (n->body[b] && has_windows(n->body[b])) return true;
        }
    }
    return false;
}

static ig_value to_channels_last(struct ig_graph *g, const struct ig_node *n, const ig_value *in) {
    int64_t perm[INGOT_MAX_RANK];
    int rank = ig_type_of(g, in[0])->rank;
    ig_value operands[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    for (uint32_t i = 0; i < n->n_in; i++)
        operands[i] = in[i];
    ig_perm_to_last(rank, perm);
    operands[0] = ig_view_transpose(g, in[0], perm);
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_channels_last)].i = 1;
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    ig_value last = ig_build_node(g, n->op, operands, n->n_in, n->n_out, attrs, no_bodies);
    ig_perm_to_first(rank, perm);
    return ig_view_transpose(g, last, perm);
}

static bool change_layout(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    enum ig_family family = ig_op_info(n->op)->family;
    if (n->n_out != 1 || n->n_in == 0 || family == IG_FAMILY_CONTROL) return false;
    if (is_window(n) && !ig_attr_int(rw->in, n, IG_ATTR_channels_last)) {
        out_values[0] = to_channels_last(rw->out, n, in);
        return true;
    }
    struct ig_sink s = {.g = rw->out, .eager = true};
    out_values[0] = ig_sink_node(&s, n->op, in, n->n_in, n->attr);
    return true;
}

struct ig_graph *ig_pass_layout(struct ig_graph *in, const struct ig_pass_options *options) {
    if (!has_windows(in)) return in;
    return ig_pass_move_views(ig_rewrite(in, options, change_layout, NULL), options);
}
