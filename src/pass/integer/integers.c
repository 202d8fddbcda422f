/*
 * integers: computes what a model says by quantising and dequantising in integers.
 *
 * Requires:   the graph as the importer writes it: constants not folded, so that dequantised weights are seen as such.
 * Guarantees: a product of dequantised operands is one of bytes with sums in i32; what zero points contribute is a constant for
 *             each column, and a dequantised bias of the product's scale is added in i32. A quantisation whose operand
 *             follows from such sums and from other bytes multiplies by the quotient of scales instead of dividing: that is the
 *             arithmetic of docs/quantisation.md, with the same bytes on all devices. Data movements, maxima, and means of
 *             dequantised bytes are those of the bytes. Quantising again what was dequantised by the same scale does
 *             nothing, and functions of one byte that are not computed exactly become tables. Results otherwise stay
 *             as they were. Whatever is not recognised stays literal.
 *
 * Bytes that are quantised to i8 become u8 (quantized.h).
 */
#include "pass/integer/quantized.h"
#include "pass/match.h"
#include "pass/passes.h"

static const ig_rule rules[IG_OP_COUNT] = {
    [IG_OP_matmul] = ig_integer_product, [IG_OP_conv] = ig_integer_product,     [IG_OP_add] = ig_integer_bias,
    [IG_OP_cast] = ig_integer_quantize,  [IG_OP_reduce_mean] = ig_integer_mean, [IG_OP_reduce_sum] = ig_integer_mean,
    [IG_OP_pool_avg] = ig_integer_mean,  [IG_OP_pool_sum] = ig_integer_mean,    [IG_OP_pool_max] = ig_integer_move,
    [IG_OP_reshape] = ig_integer_move,   [IG_OP_transpose] = ig_integer_move,   [IG_OP_broadcast] = ig_integer_move,
    [IG_OP_slice] = ig_integer_move,     [IG_OP_pad] = ig_integer_move,         [IG_OP_concat] = ig_integer_move,
    [IG_OP_gather] = ig_integer_move,    [IG_OP_reduce_max] = ig_integer_move,  [IG_OP_reduce_min] = ig_integer_move,
    [IG_OP_max] = ig_integer_move,       [IG_OP_min] = ig_integer_move,         [IG_OP_mul] = ig_integer_move,
};

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    out_values[0] = rules[n->op] ? rules[n->op](rw, n, in) : IG_NO_VALUE;
    return out_values[0] != IG_NO_VALUE;
}

/* Does any value have a byte? Else there is nothing to do. */
static bool has_bytes(const struct ig_graph *g) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        if (ig_is_byte(ig_type_of(g, g->inputs.at[i].value)->dtype)) return true;
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_is_byte(ig_type_of(g, n->out)->dtype) || n->op == IG_OP_round) return true;
        for (int b = 0; b < 2; b++) {
            if (n->body[b] && has_bytes(n->body[b])) return true;
        }
    }
    return false;
}

struct ig_graph *ig_pass_integers(struct ig_graph *in, const struct ig_pass_options *options) {
    return has_bytes(in) ? ig_rewrite(in, options, rewrite, NULL) : in;
}
