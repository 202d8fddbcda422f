/*
 * Losses. Both pick the log-probability of the right class: SoftmaxCrossEntropyLoss takes the log-softmax first.
 * The class axis is 1; a class may be ignored, and classes may have weights, by which a mean is weighted too.
 */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

/* -log_p at the target: [N, C, d...], [N, d...] -> [N, d...]. Indices are in range, since ignored ones were
 * replaced. */
static ig_value pick(struct ig_onnx_node *n, ig_value log_p, ig_value target) {
    int axis = 1;
    ig_value in[] = {log_p, ig_build_unsqueeze(n->g, target, &axis, 1)};
    struct ig_attr attr = ig_attr_of_int(1);
    ig_value picked = ig_build_node(n->g, IG_OP_gather_elements, in, 2, 1, &attr, NULL);
    return ig_neg(n->g, ig_build_squeeze(n->g, picked, &axis, 1));
}

static ig_value sum_all(struct ig_onnx_node *n, ig_value x) {
    int64_t axes[INGOT_MAX_RANK];
    int rank = ig_onnx_rank(n, x);
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    if (rank) x = ig_build_reduce(n->g, IG_OP_reduce_sum, x, axes, rank);
    return ig_build_reshape(n->g, x, NULL, 0);
}

static ig_value loss_of(struct ig_onnx_node *n, ig_value log_p, ig_value target) {
    static const char *const reductions[] = {"none", "sum", "mean"};
    struct ig_graph *g = n->g;
    int reduction = ig_onnx_choice(n, "reduction", reductions, 3, 2), rank = ig_onnx_rank(n, log_p);
    ig_onnx_check_rank(n, log_p, 2, INGOT_MAX_RANK, "the scores");
    ig_onnx_check_rank(n, target, rank - 1, rank - 1, "the target");
    struct ig_type type = *ig_type_of(g, target);
    target = ig_build_cast(g, target, INGOT_I64);
    ig_value ignored = IG_NO_VALUE, zero = ig_like(g, log_p, 0);
    if (ig_onnx_attr(n, "ignore_index")) {
        ignored = ig_eq(g, target, ig_build_scalar_int(g, INGOT_I64, ig_onnx_int(n, "ignore_index", 0)));
        target = ig_build_where(g, ignored, ig_build_scalar_int(g, INGOT_I64, 0), target);
    }
    ig_value loss = pick(n, log_p, target), weight;
    if (ig_onnx_has(n, 2)) {
        weight = ig_build_gather(g, ig_build_cast(g, n->in[2], ig_onnx_type(n, log_p)), target, 0);
    } else {
        weight = ig_onnx_full(n, ig_onnx_type(n, log_p), 1, type.dim, type.rank);
    }
    if (ignored != IG_NO_VALUE) weight = ig_build_where(g, ignored, zero, weight);
    /* Ignored losses are replaced, since an infinite one times the weight 0 would be NaN. */
    if (ignored != IG_NO_VALUE) loss = ig_build_where(g, ignored, zero, loss);
    loss = ig_mul(g, loss, weight);
    if (reduction == 0) return loss;
    ig_value sum = sum_all(n, loss);
    return reduction == 1 ? sum : ig_div(g, sum, sum_all(n, weight));
}

ig_value ig_import_nll_loss(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    return ig_build_cast(n->g, loss_of(n, ig_onnx_wide(n, x), ig_onnx_in(n, 1)), ig_onnx_type(n, x));
}

ig_value ig_import_softmax_cross_entropy(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    int64_t classes = 1;
    ig_value scores = ig_onnx_in(n, 0), x = ig_onnx_wide(n, scores);
    enum ingot_dtype type = ig_onnx_type(n, scores);
    ig_onnx_check_rank(n, x, 2, INGOT_MAX_RANK, "the scores");
    ig_value shifted = ig_sub(g, x, ig_build_reduce(g, IG_OP_reduce_max, x, &classes, 1));
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, ig_exp(g, shifted), &classes, 1);
    ig_value log_p = ig_sub(g, shifted, ig_log(g, sum));
    if (n->n_out > 1) n->out[1] = ig_build_cast(g, log_p, type);
    return ig_build_cast(g, loss_of(n, log_p, ig_onnx_in(n, 1)), type);
}
