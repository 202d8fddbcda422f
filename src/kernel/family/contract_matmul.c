/* Matrix products as contractions: see contract_problem.h. */
#include <string.h>

#include "kernel/family/contract_problem.h"

static bool has_batch(const struct ig_contract *c, int operand) {
    const struct ig_type *t = ig_contract_in(c, operand);
    for (int i = 0; i < t->rank - 2; i++) {
        if (!ig_contract_is_one(c, t->dim[i])) return true;
    }
    return false;
}

/* The number of axes from `first` on whose product is `size`; 0: no such axes. */
static int axes_of(struct ig_contract *c, const struct ig_type *type, int first, ig_dim size) {
    ig_dim product = ig_contract_as_dim(c, 1);
    int axes = 0;
    while (first + axes < type->rank && axes < IG_CONTRACT_DEPTH && product != size)
        product = ig_dim_mul(c->graph->dims, product, type->dim[first + axes++]);
    return product == size ? axes : 0;
}

/* Looks through a reshape that merges axes into A's depth, so that copies walk the original axes: the heads of an
 * attention, say, each of which has contiguous channels while the heads themselves are not adjacent. The reshape may be
 * under a transpose. */
static void split_depth(struct ig_contract *c) {
    ig_value a = c->node.in[0];
    const struct ig_node *turn = c->lower.is_input[a] ? NULL : ig_def_op(c->graph, a, IG_OP_transpose);
    int axis = ig_type_of(c->graph, a)->rank - 1;
    if (turn) {
        axis = (int)ig_attr(c->graph, turn, IG_ATTR_perm)->ints[axis];
        a = turn->in[0];
    }
    const struct ig_node *n = c->lower.is_input[a] ? NULL : ig_def_op(c->graph, a, IG_OP_reshape);
    c->depth_rank = 1;
    c->depth_dim[0] = c->depth;
    if (!n) return;
    const struct ig_type *from = ig_type_of(c->graph, n->in[0]);
    ig_dim above = ig_dim_product(c->graph->dims, ig_type_of(c->graph, a)->dim, axis),
           product = ig_contract_as_dim(c, 1);
    int first = 0;
    while (first < from->rank && product != above)
        product = ig_dim_mul(c->graph->dims, product, from->dim[first++]);
    int axes = product == above ? axes_of(c, from, first, c->depth) : 0;
    if (axes < 2) return;
    c->depth_rank = axes;
    memcpy(c->depth_dim, from->dim + first, (size_t)axes * sizeof *c->depth_dim);
}

/* On CPUs, products of narrow activations with each other: dot products want steps of the depth together, so that B is copied so. */
static void interleave(struct ig_contract *c) {
    const struct ig_type *a = ig_contract_in(c, 0), *b = ig_contract_in(c, 1);
    int together = ig_target_together(c->target, a->dtype, b->dtype);
    bool bytes = b->dtype == INGOT_I8;
    if (ig_target_is_cuda(c->target) || together == 1 || c->dtype != (bytes ? INGOT_I32 : INGOT_F32)) return;
    c->interleaves = true;
    c->together = together;
    c->operand = bytes && together == 2 ? INGOT_I16 : a->dtype;
}

void ig_matmul_init(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    const struct ig_type *a = ig_contract_in(c, 0), *out = ig_contract_out(c);
    c->together = 1;
    if (c->node.op == IG_OP_matmul) ig_contract_read_packing(c, 3);
    if (c->node.op == IG_OP_matmul && ig_contract_attr_int(c, IG_ATTR_packed) == 0 && !c->has_twin) interleave(c);
    c->merged = (!c->scaled && ig_contract_attr_int(c, IG_ATTR_packed) > 0) || !has_batch(c, 1);
    c->depth = ig_dim_sub(dims, a->dim[a->rank - 1], ig_contract_as_dim(c, ig_contract_filled(c)));
    c->padded = ig_contract_rounded(c, c->depth);
    c->columns = out->dim[out->rank - 1];
    int outer = out->rank - 2;
    c->batch = c->merged ? ig_contract_as_dim(c, 1) : ig_dim_product(dims, out->dim, outer);
    c->rows = c->merged ? ig_dim_product(dims, out->dim, outer + 1) : out->dim[outer];
    c->groups = 1;
    split_depth(c);
}

/* The output index of row m, without the column. */
static void matmul_row(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_index) {
    struct ig_type rows = *ig_contract_out(c);
    rows.rank -= c->merged ? 1 : 2;
    ig_lower_split(&c->lower, &rows, c->merged ? m : b, out_index);
    if (!c->merged) out_index[rows.rank] = m;
}

/* The index of an operand for the output's batch index, by NumPy's broadcasting rule. */
static void batch_index(struct ig_contract *c, const struct ig_type *operand, const ig_x *index, ig_x *out_index) {
    const struct ig_type *out = ig_contract_out(c);
    for (int i = 0; i < operand->rank - 2; i++) {
        bool one = ig_contract_is_one(c, operand->dim[i]);
        out_index[i] = one ? ig_contract_int(c, 0) : index[i + out->rank - operand->rank];
        if (one || operand->dim[i] == out->dim[i + out->rank - operand->rank]) continue;
        /* The dim may be 1 at run time. */
        ig_x last = ig_contract_dim(c, ig_dim_sub(c->graph->dims, operand->dim[i], ig_contract_as_dim(c, 1)));
        out_index[i] = ig_x_min(c->k, out_index[i], last);
    }
}

/* Is A dense, with merged rows? Then row m begins at m times the elements of a line, whatever the axes. */
static bool is_dense(const struct ig_contract *c) {
    const struct ig_type *a = ig_contract_in(c, 0), *out = ig_contract_out(c);
    if (!c->lower.is_input[c->node.in[0]] || !c->merged) return false;
    ig_dim rows = ig_dim_product(c->graph->dims, a->dim, a->rank - 1);
    return a->rank <= out->rank && rows == c->rows;
}

ig_x ig_matmul_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    struct ig_loops *k = c->k;
    const struct ig_type *a = ig_contract_in(c, 0);
    ig_x at = ig_contract_depth_at(c, depth);
    if (is_dense(c)) {
        ig_x position = ig_x_add(k, ig_x_mul(k, m, ig_contract_dim(c, a->dim[a->rank - 1])), at);
        return ig_x_load(k, c->lower.buffer_of[c->node.in[0]], position);
    }
    ig_x row[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    matmul_row(c, b, m, row);
    batch_index(c, a, row, index);
    index[a->rank - 2] = row[ig_contract_out(c)->rank - 2];
    index[a->rank - 1] = at;
    return ig_lower_value(&c->lower, c->node.in[0], index);
}

ig_x ig_matmul_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    const struct ig_type *type = ig_contract_in(c, 1);
    if (ig_contract_attr_int(c, IG_ATTR_packed) > 0) return ig_contract_packed_b(c, ig_contract_int(c, 0), n, depth);
    ig_x row[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    matmul_row(c, b, ig_contract_int(c, 0), row);
    batch_index(c, type, row, index);
    index[type->rank - 2] = ig_contract_depth_at(c, depth);
    index[type->rank - 1] = n;
    return ig_lower_value(&c->lower, c->node.in[1], index);
}

ig_x ig_scaled_b(struct ig_contract *c, ig_x n, const ig_x *depth) {
    return ig_lower_value(&c->lower, c->node.in[1], (const ig_x[]){n, ig_contract_depth_at(c, depth)});
}

ig_x ig_contract_row_scale(struct ig_contract *c, ig_x m, ig_x t) {
    ig_x index[INGOT_MAX_RANK];
    matmul_row(c, ig_contract_int(c, 0), m, index);
    index[ig_contract_in(c, 2)->rank - 1] = t;
    return ig_lower_value(&c->lower, c->node.in[2], index);
}

ig_x ig_contract_column_scale(struct ig_contract *c, ig_x n, ig_x t) {
    ig_x shared = ig_x_div(c->k, n, ig_contract_int(c, ig_contract_attr_int(c, IG_ATTR_columns)));
    return ig_lower_value(&c->lower, c->node.in[3], (const ig_x[]){t, shared});
}

void ig_matmul_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    matmul_row(c, b, m, out_index);
    out_index[ig_contract_out(c)->rank - 1] = n;
}

/* ---- Shared with convolutions ------------------------------------------------------------------------------------ */

ig_x ig_contract_depth_at(struct ig_contract *c, const ig_x *depth) {
    ig_x at = depth[0];
    for (int i = 1; i < c->depth_rank; i++)
        at = ig_x_add(c->k, ig_x_mul(c->k, at, ig_contract_dim(c, c->depth_dim[i])), depth[i]);
    return at;
}

ig_x ig_contract_packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth) {
    struct ig_loops *k = c->k;
    int64_t nr = ig_contract_attr_int(c, IG_ATTR_packed);
    ig_x width = ig_contract_int(c, nr), together = ig_contract_int(c, c->together);
    ig_dim panels = ig_dim_ceil_div(c->graph->dims, c->columns, ig_dim_const(c->graph->dims, nr));
    ig_x panel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, panels)), ig_x_div(k, n, width));
    ig_x row = ig_x_add(k, ig_x_mul(k, panel, ig_contract_dim(c, c->padded)), ig_contract_padded_at(c, depth));
    ig_x first = ig_x_mul(k, ig_x_div(k, row, together), width);
    ig_x at = ig_x_mul(k, ig_x_add(k, first, ig_x_mod(k, n, width)), together);
    at = ig_x_add(k, at, ig_x_mod(k, row, together));
    return ig_x_load(k, c->lower.buffer_of[c->node.in[1]], at);
}

ig_x ig_contract_padded_at(struct ig_contract *c, const ig_x *depth) {
    ig_x at = depth[0];
    for (int i = 1; i < c->depth_rank; i++) {
        bool channels = c->spatial && i == c->spatial;
        ig_dim size = channels ? ig_contract_rounded(c, c->depth_dim[i]) : c->depth_dim[i];
        at = ig_x_add(c->k, ig_x_mul(c->k, at, ig_contract_dim(c, size)), depth[i]);
    }
    return at;
}

ig_dim ig_contract_rounded(struct ig_contract *c, ig_dim size) {
    ig_dim together = ig_contract_as_dim(c, c->together);
    return ig_dim_mul(c->graph->dims, ig_dim_ceil_div(c->graph->dims, size, together), together);
}

void ig_contract_read_packing(struct ig_contract *c, int rank) {
    const struct ig_type *a = ig_contract_in(c, 0), *b = ig_contract_in(c, 1);
    int64_t width = ig_contract_attr_int(c, IG_ATTR_packed), lanes = ig_micro_lanes(c->target, c->dtype);
    c->together = width > 0 && b->rank == rank + 1 ? (int)ig_contract_const(c, b->dim[rank], 1) : 1;
    c->packed = width > 0 && width % lanes == 0 && width <= 4 * lanes;
    if (c->together == 1) return;
    bool suits = ig_target_together(c->target, a->dtype, b->dtype) == c->together,
         bytes = b->dtype == INGOT_I8 || b->dtype == INGOT_I16;
    c->packed &= suits && c->dtype == (bytes ? INGOT_I32 : INGOT_F32);
    if (c->packed) c->operand = bytes && c->together == 2 ? INGOT_I16 : a->dtype;
}
