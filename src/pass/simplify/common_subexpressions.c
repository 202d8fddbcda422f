/*
 * common-subexpressions: equal computations become one.
 *
 * Requires:   nothing.
 * Guarantees: no two nodes have the same operator, attributes and operands, commutative operands taken in any order.
 *
 * The builder never appends a node twice (ir/build.h), whatever the switches say; what this pass adds is one order for
 * the operands of commutative operators: constants last, else the older value first.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

static bool order_operands(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    if (!ig_op_commutes(n->op)) return false;
    bool first_const = ig_info(rw->out, in[0])->is_const, second_const = ig_info(rw->out, in[1])->is_const;
    bool swap = first_const != second_const ? first_const : in[0] > in[1];
    out_values[0] = ig_map2(rw->out, n->op, in[swap], in[!swap]);
    return true;
}

struct ig_graph *ig_pass_common_subexpressions(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite_until_stable(in, options, order_operands, NULL, 8);
}
