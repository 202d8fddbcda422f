/* Contractions: derives the problem that the schedules solve from a region. See contract.h. */
#include "kernel/family/contract_problem.h"

ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    ig_x a = c->spatial ? ig_conv_a(c, b, m, depth) : ig_matmul_a(c, b, m, depth);
    return ig_x_cast(c->k, a, ig_dtype_compute(c->operand), false);
}

ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    if (c->node.op == IG_OP_matmul_blocks) return ig_blocks_b(c, n, depth);
    if (c->node.op == IG_OP_matmul_scaled) return ig_x_cast(c->k, ig_scaled_b(c, n, depth), c->dtype, false);
    return ig_x_cast(c->k, c->spatial ? ig_conv_b(c, b, n, depth) : ig_matmul_b(c, b, n, depth), c->dtype, false);
}

ig_x ig_contract_twin_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    struct ig_node own = c->node;
    c->node = c->twin;
    ig_x x = ig_contract_b(c, b, n, depth);
    c->node = own;
    return x;
}

void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    if (c->spatial)
        ig_conv_position(c, b, m, n, out_index);
    else
        ig_matmul_position(c, b, m, n, out_index);
}

static void find_twin(struct ig_contract *c) {
    for (uint32_t i = 0; i < c->region->nodes.count; i++) {
        const struct ig_node *n = &c->graph->nodes.at[c->region->nodes.at[i]];
        if (n->op != c->node.op || n->out == c->node.out) continue;
        c->has_twin = true;
        c->twin = *n;
    }
}

bool ig_contract_computes_rows(const struct ig_graph *graph, const struct ig_region *region) {
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        if (ig_op_info(graph->nodes.at[region->nodes.at[i]].op)->family == IG_FAMILY_ROW) return true;
    }
    return false;
}

static bool is_output(const struct ig_region *region, ig_value v) {
    for (uint32_t i = 0; i < region->outputs.count; i++) {
        if (region->outputs.at[i] == v) return true;
    }
    return false;
}

/* Is v an input with one element for each column, along the last axis? */
static bool is_by_column(const struct ig_contract *c, ig_value v) {
    const struct ig_type *type = ig_type_of(c->graph, v);
    if (!c->lower.is_input[v] || ig_is_literal(c->graph, v) || type->rank == 0 || c->groups > 1) return false;
    for (int i = 0; i < type->rank - 1; i++) {
        if (ig_contract_const(c, type->dim[i], 0) != 1) return false;
    }
    return type->dim[type->rank - 1] == c->columns;
}

ig_value ig_contract_start(const struct ig_contract *c, ig_value *out_begun) {
    ig_value start = IG_NO_VALUE, sums = c->node.out;
    int uses = 0;
    *out_begun = IG_NO_VALUE;
    bool last = !c->spatial || ig_contract_attr_int(c, IG_ATTR_channels_last);
    if (c->dtype != INGOT_I32 || ig_contract_out(c)->dtype != INGOT_I32 || !last || is_output(c->region, sums))
        return start;
    if (c->spatial && c->node.n_in > 2 && c->node.in[2] != IG_NO_VALUE) return start;
    for (uint32_t i = 0; i < c->region->nodes.count; i++) {
        const struct ig_node *n = &c->graph->nodes.at[c->region->nodes.at[i]];
        for (uint32_t j = 0; j < n->n_in; j++) {
            if (n->in[j] != sums) continue;
            uses++;
            bool same = ig_same_dims(ig_type_of(c->graph, n->out), ig_contract_out(c));
            if (n->op != IG_OP_add || !same || !is_by_column(c, n->in[1 - j])) continue;
            start = n->in[1 - j];
            *out_begun = n->out;
        }
    }
    return uses == 1 ? start : IG_NO_VALUE;
}

bool ig_contract_init(struct ig_contract *c) {
    c->node = c->graph->nodes.at[c->region->anchor];
    c->k = ig_loops_create(c->graph->job, c->graph->dims);
    c->kernel->loops = c->k;
    c->kernel->scratch_bytes = ig_dim_const(c->graph->dims, 0);
    c->linear = c->sum = c->inside = IG_NO_X;
    c->begun = IG_NO_VALUE;
    ig_lower_init(&c->lower, c->k, c->graph, c->region);
    c->dtype = c->operand = ig_dtype_compute((enum ingot_dtype)ig_contract_attr_int(c, IG_ATTR_acc));
    if (c->node.op == IG_OP_conv) return ig_conv_init(c);
    const bool matmul = c->node.op == IG_OP_matmul || c->node.op == IG_OP_matmul_blocks;
    if (matmul) find_twin(c);
    c->first = ig_contract_computes_rows(c->graph, c->region);
    c->scaled = c->node.op == IG_OP_matmul_scaled;
    if (matmul || c->scaled) ig_matmul_init(c);
    return matmul || c->scaled;
}
