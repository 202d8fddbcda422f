/*
 * single-columns: products with one column are sums of rows, on CPUs.
 *
 * Requires:   attend, which knows products by themselves; precision (final types).
 * Guarantees: no product of f32 by f32 has a second operand of one column: a micro-kernel computes as many columns as two
 *             vectors have lanes, and a row's elements lie side by side for the sum. Products are summed in another order.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

static bool is_single_column(const struct ig_rewriter *rw, const struct ig_node *n) {
    const struct ig_graph *g = rw->in;
    if (n->op != IG_OP_matmul || ig_info(g, n->out)->is_const || ig_attr_int(g, n, IG_ATTR_packed) != 0) return false;
    const struct ig_type *a = ig_type_of(g, n->in[0]), *b = ig_type_of(g, n->in[1]), *out = ig_type_of(g, n->out);
    const bool floats = a->dtype == INGOT_F32 && b->dtype == INGOT_F32 && out->dtype == INGOT_F32;
    return floats && ig_attr_int(g, n, IG_ATTR_acc) == INGOT_F32 && ig_dim_is(g->dims, out->dim[out->rank - 1], 1);
}

static bool sum_rows(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    if (!is_single_column(rw, n)) return false;
    struct ig_graph *g = rw->out;
    const int64_t last = ig_type_of(rw->in, n->out)->rank - 1;
    ig_value products = ig_map2(g, IG_OP_mul, in[0], ig_view_swap(g, in[1]));
    out_values[0] = ig_build_reduce(g, IG_OP_reduce_sum, products, &last, 1);
    return true;
}

struct ig_graph *ig_pass_single_columns(struct ig_graph *in, const struct ig_pass_options *options) {
    if (!options->target || ig_target_is_cuda(options->target)) return in;
    return ig_rewrite(in, options, sum_rows, NULL);
}
