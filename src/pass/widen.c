/*
 * widen: half-precision contractions with constant weights are computed in f32.
 *
 * Requires:   nothing.
 * Guarantees: f16 and bf16 matmul and conv whose second operand is constant read f32 (operands through casts, weights as
 *             recipes), accumulate in f32, and their results are cast back: what is stored between kernels stays half as
 *             wide, what the micro-kernels read is what they compute in, and can be packed.
 */
#include "pass/passes.h"
#include "pass/view.h"

static bool is_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16;
}

static bool widen(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    if (n->op != IG_OP_matmul && n->op != IG_OP_conv) return false;
    enum ingot_dtype dtype = ig_type_of(g, in[0])->dtype, result = ig_type_of(rw->in, n->out)->dtype;
    if (!is_half(dtype) || !ig_info(g, in[1])->is_const || ig_info(g, in[0])->is_const) return false;
    ig_value operands[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (in[i] != IG_NO_VALUE) operands[i] = ig_build_cast(g, in[i], INGOT_F32);
    }
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
