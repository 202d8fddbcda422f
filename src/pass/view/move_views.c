/*
 * move-views: moves transposes and reshapes down through the operators after them, to merge and cancel them.
 *
 * Requires:   nothing.
 * Guarantees: no transpose of a transpose, no reshape of a reshape, no view that is an identity; elementwise work
 *             directly follows its contraction or reduction, where the views between them permit. No new transpose of
 *             anything but constants is created.
 *
 * The rules are in sink.c, sink_transpose.c and sink_reshape.c.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

static bool sink(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    enum ig_family family = ig_op_info(n->op)->family;
    if (n->n_out != 1 || n->n_in == 0 || family == IG_FAMILY_CONTROL) return false;
    bool ends = ig_target_is_cuda(rw->options->target) && !ig_is_followed(rw->state, rw->in, n);
    struct ig_sink s = {.g = rw->out, .eager = false, .ends = ends};
    out_values[0] = ig_sink_node(&s, n->op, in, n->n_in, n->attr);
    return true;
}

struct ig_graph *ig_pass_move_views(struct ig_graph *in, const struct ig_pass_options *options) {
    struct ig_followed followed = {0};
    return ig_rewrite_until_stable(in, options, sink, &followed, 4);
}
