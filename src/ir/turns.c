/* See turns.h. */
#include "ir/turns.h"

bool ig_takes_turns(const struct ig_graph *g, const struct ig_node *n, const struct ig_target *target) {
    enum { MOST_ROWS = 8, LEAST_BYTES = 1 << 20 };
    if (ig_target_is_cuda(target) || (n->op != IG_OP_lstm && n->op != IG_OP_gru && n->op != IG_OP_rnn)) return false;
    const struct ig_type *xw = ig_type_of(g, n->in[0]), *weights = ig_type_of(g, n->in[1]);
    int64_t batch, panels, hidden, gates, least, most;
    const int element = (int)ingot_dtype_size(xw->dtype);
    const uint32_t lengths = n->op == IG_OP_lstm ? 4 : 3;
    if (ig_dtype_compute(xw->dtype) != xw->dtype || weights->dtype != xw->dtype || weights->rank != 4) return false;
    if (n->n_in > lengths && n->in[lengths] != IG_NO_VALUE)
        return false; /* steps of ended sequences keep their states */
    /* A GRU that resets before its product needs two turns a step. */
    if (n->op == IG_OP_gru && ig_attr_int(g, n, IG_ATTR_linear_before_reset) == 0) return false;
    if (!ig_dim_is_const(g->dims, xw->dim[1], &batch) || !ig_dim_is_const(g->dims, weights->dim[0], &panels) ||
        !ig_dim_is_const(g->dims, weights->dim[1], &hidden) || !ig_dim_is_const(g->dims, weights->dim[2], &gates) ||
        !ig_dim_is_const(g->dims, weights->dim[3], &most))
        return false;
    bool packed = most == ig_target_units(target, (int)gates, element, hidden);
    ig_dim_range(g->dims, xw->dim[0], &least, &most);
    return packed && least >= 1 && batch >= 1 && batch <= MOST_ROWS && panels > 1 &&
           gates * hidden * hidden * element >= LEAST_BYTES;
}
