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
#include "pass/view.h"

static bool is_commutative(enum ig_op op) {
    switch (op) {
    case IG_OP_add:
    case IG_OP_mul:
    case IG_OP_and:
    case IG_OP_or:
    case IG_OP_xor:
    case IG_OP_bitand:
    case IG_OP_bitor:
    case IG_OP_bitxor:
    case IG_OP_eq: return true;
    default: return false; /* not min and max: of two zeros of different sign they pick by position */
    }
}

static bool order_operands(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    if (!is_commutative(n->op)) return false;
    bool first_const = ig_info(rw->out, in[0])->is_const, second_const = ig_info(rw->out, in[1])->is_const;
    bool swap = first_const != second_const ? first_const : in[0] > in[1];
    out_values[0] = ig_map2(rw->out, n->op, in[swap], in[!swap]);
    return true;
}

struct ig_graph *ig_pass_common_subexpressions(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite_until_stable(in, options, order_operands, NULL, 8);
}
