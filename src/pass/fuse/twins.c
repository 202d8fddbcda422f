/* See twins.h. */
#include "pass/fuse/twins.h"

/* Is it a product of so few rows by a weight that a kernel reads the weight straight from memory, or streams its columns? Those
 * of twins must lie in the same way: [depth, columns], or packed as [columns, depth, 1]. */
static bool is_of_few_rows(struct ig_graph *g, const struct ig_node *n) {
    enum { MOST_ROWS = 16, ALIGNED = 8 /* elements */ };
    struct ig_dims *dims = g->dims;
    const struct ig_type *out = ig_type_of(g, n->out), *b = ig_type_of(g, n->in[1]);
    int64_t lo, most, depth, columns;
    bool along = ig_attr_int(g, n, IG_ATTR_packed) == 1;
    if (!ig_info(g, n->in[1])->is_const || b->rank != (along ? 3 : 2)) return false;
    if (!along && ig_attr_int(g, n, IG_ATTR_packed) != 0) return false;
    if (b->dtype != INGOT_F16 && b->dtype != INGOT_BF16) return false;
    ig_dim_range(dims, ig_dim_product(dims, out->dim, out->rank - 1), &lo, &most);
    return most <= MOST_ROWS && ig_dim_is_const(dims, b->dim[along], &depth) && depth % ALIGNED == 0 &&
           ig_dim_is_const(dims, b->dim[!along], &columns) && columns % ALIGNED == 0;
}

bool ig_are_twins(struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    return a->op == b->op && a->in[0] == b->in[0] && ig_type_same(ig_type_of(g, a->in[1]), ig_type_of(g, b->in[1])) &&
           ig_attr_int(g, a, IG_ATTR_acc) == ig_attr_int(g, b, IG_ATTR_acc) &&
           ig_attr_int(g, a, IG_ATTR_math) == ig_attr_int(g, b, IG_ATTR_math) && is_of_few_rows(g, a) &&
           is_of_few_rows(g, b);
}

bool ig_are_alike_recurrences(const struct ig_graph *g, const struct ig_node *a, const struct ig_node *b) {
    if (a->op != b->op || (a->op != IG_OP_lstm && a->op != IG_OP_gru && a->op != IG_OP_rnn)) return false;
    for (int i = 0; i < 2; i++) {
        if (!ig_type_same(ig_type_of(g, a->in[i]), ig_type_of(g, b->in[i]))) return false;
    }
    return a->op != IG_OP_gru ||
           ig_attr_int(g, a, IG_ATTR_linear_before_reset) == ig_attr_int(g, b, IG_ATTR_linear_before_reset);
}
