/*
 * widen: half-precision contractions return their sums in f32.
 *
 * Requires:   nothing.
 * Guarantees: no f16 or bf16 matmul or conv rounds its result: it becomes an f32 one, followed by a cast to the
 *             original type. Sums are kept in f32 in any case, so a result with its bias is rounded once instead of
 *             twice, and kernels see one kind of half-precision contraction.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

static bool is_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16;
}

static bool widen(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    if (n->op != IG_OP_matmul && n->op != IG_OP_matmul_blocks && n->op != IG_OP_conv) return false;
    enum ingot_dtype result = ig_type_of(rw->in, n->out)->dtype;
    if (!is_half(result) || ig_info(rw->in, n->out)->is_const) return false;
    ig_value operands[5];
    for (uint32_t i = 0; i < n->n_in; i++)
        operands[i] = in[i];
    bool biased = n->op == IG_OP_conv && n->n_in > 2 && in[2] != IG_NO_VALUE;
    if (biased) operands[2] = ig_build_cast(g, in[2], INGOT_F32);
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_acc)] = ig_attr_of_dtype(INGOT_F32);
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    ig_value wide = ig_build_node(g, n->op, operands, n->n_in, 1, attrs, no_bodies);
    out_values[0] = ig_build_cast(g, wide, result);
    return true;
}

struct ig_graph *ig_pass_widen(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, widen, NULL);
}
