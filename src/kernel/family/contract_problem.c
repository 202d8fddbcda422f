/* Contractions: derives the problem that the schedules solve from a region. See contract.h. */
#include "kernel/family/contract_problem.h"

ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? ig_conv_a(c, b, m, depth) : ig_matmul_a(c, b, m, depth), c->dtype, false);
}

ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? ig_conv_b(c, b, n, depth) : ig_matmul_b(c, b, n, depth), c->dtype, false);
}

void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    if (c->spatial)
        ig_conv_position(c, b, m, n, out_index);
    else
        ig_matmul_position(c, b, m, n, out_index);
}

bool ig_contract_init(struct ig_contract *c) {
    c->node = c->graph->nodes.at[c->region->anchor];
    c->k = ig_loops_create(c->graph->job, c->graph->dims);
    c->kernel->loops = c->k;
    c->kernel->scratch_bytes = ig_dim_const(c->graph->dims, 0);
    c->linear = c->sum = c->inside = IG_NO_X;
    ig_lower_init(&c->lower, c->k, c->graph, c->region);
    c->dtype = ig_dtype_compute((enum ingot_dtype)ig_contract_attr_int(c, IG_ATTR_acc));
    if (c->node.op == IG_OP_conv) return ig_conv_init(c);
    if (c->node.op == IG_OP_matmul) ig_matmul_init(c);
    return c->node.op == IG_OP_matmul;
}
