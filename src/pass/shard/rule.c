/* The table of sharding rules, and what a rank computes of a divided node. See rule.h. */
#include "pass/shard/rule.h"

#include "ir/build.h"

static const ig_rule_fn rules[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = ig_rule_elementwise,
#define IG_OP(name, ...)
#include "ir/ops.def"
    [IG_OP_where] = ig_rule_elementwise,
    [IG_OP_cast] = ig_rule_elementwise,
    [IG_OP_broadcast] = ig_rule_elementwise,
    [IG_OP_reshape] = ig_rule_reshape,
    [IG_OP_transpose] = ig_rule_transpose,
    [IG_OP_slice] = ig_rule_slice,
    [IG_OP_pad] = ig_rule_pad,
    [IG_OP_concat] = ig_rule_concat,
    [IG_OP_iota] = ig_rule_iota,
    [IG_OP_gather] = ig_rule_gather,
    [IG_OP_gather_elements] = ig_rule_gather_elements,
    [IG_OP_gather_nd] = ig_rule_gather_nd,
    [IG_OP_scatter_elements] = ig_rule_scatter_elements,
    [IG_OP_scatter_nd] = ig_rule_scatter_nd,
    [IG_OP_reduce_sum] = ig_rule_reduce,
    [IG_OP_reduce_mean] = ig_rule_reduce,
    [IG_OP_reduce_prod] = ig_rule_reduce,
    [IG_OP_reduce_max] = ig_rule_reduce,
    [IG_OP_reduce_min] = ig_rule_reduce,
    [IG_OP_argmax] = ig_rule_beside_axis,
    [IG_OP_argmin] = ig_rule_beside_axis,
    [IG_OP_cumsum] = ig_rule_beside_axis,
    [IG_OP_cumprod] = ig_rule_beside_axis,
    [IG_OP_topk] = ig_rule_beside_axis,
    [IG_OP_matmul] = ig_rule_matmul,
    [IG_OP_matmul_blocks] = ig_rule_matmul_blocks,
    [IG_OP_matmul_scaled] = ig_rule_matmul_scaled,
    [IG_OP_conv] = ig_rule_conv,
    [IG_OP_pool_max] = ig_rule_pool,
    [IG_OP_pool_sum] = ig_rule_pool,
    [IG_OP_pool_avg] = ig_rule_pool,
    [IG_OP_lstm] = ig_rule_recurrence,
    [IG_OP_gru] = ig_rule_recurrence,
    [IG_OP_rnn] = ig_rule_recurrence,
};

/* ---- Terms of reductions ----------------------------------------------------------------------------------------- */

/* A sum times a factor that all ranks have, as the share of an expert in a mixture: each rank scales its term. */
static bool scale_terms(struct ig_rule *x) {
    if (x->node->op != IG_OP_mul || x->slot.is_result || x->given.reduction != IG_REDUCE_SUM) return false;
    if (!ig_same_dims(ig_rule_in(x, x->slot.index), ig_rule_out(x, 0))) return false;
    x->in[x->slot.index] = x->given;
    x->out[0] = x->given;
    return true;
}

/* Operators of which the reduction of results is the result of reductions: movements of any, additions of sums, sums scaled. */
static bool pass_terms(struct ig_rule *x) {
    enum ig_op op = x->node->op;
    bool moves = op == IG_OP_reshape || op == IG_OP_transpose || op == IG_OP_broadcast || op == IG_OP_slice;
    bool adds = (op == IG_OP_add || op == IG_OP_sub) && x->given.reduction == IG_REDUCE_SUM &&
                ig_same_dims(ig_rule_in(x, 0), ig_rule_in(x, 1));
    if (!moves && !adds && op != IG_OP_concat) return scale_terms(x);
    for (uint32_t i = 0; i < x->node->n_in; i++)
        x->in[i] = x->given;
    x->out[0] = x->given;
    return true;
}

/* ---- Division ---------------------------------------------------------------------------------------------------- */

bool ig_shard_divide(struct ig_graph *graph, const struct ig_node *node, struct ig_slot_of slot,
                     const struct ig_layout *given, struct ig_division *division) {
    struct ig_rule x = {.graph = graph,
                        .dims = graph->dims,
                        .node = node,
                        .slot = slot,
                        .given = *given,
                        .in = division->in,
                        .out = division->out};
    for (uint32_t i = 0; i < node->n_in; i++)
        x.in[i] = ig_layout_whole();
    for (uint32_t i = 0; i < node->n_out; i++)
        x.out[i] = ig_layout_whole();
    if (given->kind == IG_LAYOUT_PARTIAL) return pass_terms(&x);
    if (given->kind == IG_LAYOUT_WHOLE || !rules[node->op]) return false;
    const struct ig_type *type = slot.is_result ? ig_rule_out(&x, slot.index) : ig_rule_in(&x, slot.index);
    return ig_rule_fits(&x, type, given->axis) && rules[node->op](&x);
}

const struct ig_type *ig_rule_in(const struct ig_rule *x, uint32_t operand) {
    return ig_type_of(x->graph, x->node->in[operand]);
}

const struct ig_type *ig_rule_out(const struct ig_rule *x, uint32_t result) {
    return ig_type_of(x->graph, x->node->out + result);
}

bool ig_rule_has(const struct ig_rule *x, uint32_t operand) {
    return operand < x->node->n_in && x->node->in[operand] != IG_NO_VALUE;
}

bool ig_rule_is_in(const struct ig_rule *x, uint32_t operand) {
    return !x->slot.is_result && x->slot.index == operand;
}

bool ig_rule_is_out(const struct ig_rule *x, uint32_t result) {
    return x->slot.is_result && x->slot.index == result;
}

bool ig_rule_is(const struct ig_rule *x, ig_dim dim, int64_t value) {
    int64_t found;
    return ig_dim_is_const(x->dims, dim, &found) && found == value;
}

struct ig_layout ig_rule_at(const struct ig_rule *x, int axis) {
    struct ig_layout layout = x->given;
    layout.axis = axis;
    return layout;
}

bool ig_rule_fits(const struct ig_rule *x, const struct ig_type *type, int axis) {
    const struct ig_layout *l = &x->given;
    ig_dim factors[] = {l->outer, l->count, l->inner};
    return l->kind == IG_LAYOUT_SPLIT && axis >= 0 && axis < type->rank &&
           ig_dim_product(x->dims, factors, 3) == type->dim[axis];
}

bool ig_rule_align(struct ig_rule *x, uint32_t operand, int result_rank, int axis) {
    const struct ig_type *type = ig_rule_in(x, operand);
    int own = axis - (result_rank - type->rank);
    if (own < 0 || ig_rule_is(x, type->dim[own], 1)) return !ig_rule_is_in(x, operand);
    if (!ig_rule_fits(x, type, own)) return false;
    x->in[operand] = ig_rule_at(x, own);
    return true;
}

/* ---- What a rank computes ---------------------------------------------------------------------------------------- */

/* The rank's attributes of a slice: along the axis that is divided, whole outer indices are taken. */
static void cut_slice(struct ig_graph *from, const struct ig_node *node, const struct ig_division *d,
                      const struct ig_type *local, ig_dim *starts, ig_dim *sizes, int ranks, int rank) {
    struct ig_dims *dims = from->dims;
    const struct ig_layout *in = &d->in[0];
    for (int i = 0; i < local->rank; i++) {
        starts[i] = ig_attr(from, node, IG_ATTR_starts)->dims[i];
        sizes[i] = local->dim[i];
    }
    if (in->kind != IG_LAYOUT_SPLIT) return;
    ig_dim unit = ig_dim_mul(dims, in->count, in->inner);
    ig_dim part = ig_dim_mul(dims, ig_layout_part(dims, in, ranks, rank), in->inner);
    starts[in->axis] = ig_dim_mul(dims, ig_dim_div(dims, starts[in->axis], unit), part);
}

static void set_attr(struct ig_attr *attrs, enum ig_op op, enum ig_attr_name name, struct ig_attr value) {
    const struct ig_op_info *info = ig_op_info(op);
    for (int i = 0; i < info->n_attrs; i++) {
        if (info->attrs[i].name == name) attrs[i] = value;
    }
}

/* The size of the channels of one group is the same for all ranks; they differ in the number of groups, or of results. */
static void set_conv(struct ig_graph *from, const struct ig_node *node, const struct ig_division *d,
                     const struct ig_type *local, struct ig_attr *attrs) {
    bool last = ig_attr_int(from, node, IG_ATTR_channels_last) != 0;
    int channel = last ? local->rank - 1 : 1;
    int64_t n = ig_attr_int(from, node, IG_ATTR_n), groups = ig_attr_int(from, node, IG_ATTR_groups), own;
    if (d->out[0].kind != IG_LAYOUT_SPLIT || d->out[0].axis != channel) return;
    IG_ASSERT(from->job, ig_dim_is_const(from->dims, local->dim[channel], &own));
    set_attr(attrs, node->op, IG_ATTR_n, ig_attr_of_int(own));
    if (groups > 1) set_attr(attrs, node->op, IG_ATTR_groups, ig_attr_of_int(own * groups / n));
}

/* A rank's term of a gather from an axis that is divided. */
static ig_value gather_terms(struct ig_graph *to, struct ig_graph *from, const struct ig_node *node,
                             const struct ig_layout *table, const ig_value *in, int ranks, int rank) {
    const ig_dim first = ig_dim_mul(from->dims, ig_layout_begin(from->dims, table, ranks, rank), table->inner);
    int64_t whole, begin;
    IG_ASSERT(from->job, ig_dim_is_const(from->dims, ig_type_of(from, node->in[0])->dim[table->axis], &whole));
    IG_ASSERT(from->job, ig_dim_is_const(from->dims, first, &begin));
    return ig_shard_gather_range(to, in[0], in[1], table->axis, whole, begin);
}

ig_value ig_shard_build(struct ig_graph *to, struct ig_graph *from, const struct ig_node *node,
                        const struct ig_division *d, const ig_value *in, int ranks, int rank) {
    const struct ig_op_info *info = ig_op_info(node->op);
    struct ig_attr attrs[IG_MAX_ATTRS];
    ig_dim starts[INGOT_MAX_RANK], sizes[INGOT_MAX_RANK];
    uint32_t n_in = node->n_in;
    struct ig_type local = ig_layout_type(from->dims, &d->out[0], ig_type_of(from, node->out), ranks, rank), own;
    if (node->op == IG_OP_gather && d->in[0].kind == IG_LAYOUT_SPLIT && d->out[0].kind == IG_LAYOUT_PARTIAL)
        return gather_terms(to, from, node, &d->in[0], in, ranks, rank);
    for (int i = 0; i < info->n_attrs; i++)
        attrs[i] = node->attr[i];
    switch (node->op) {
    case IG_OP_reshape:
    case IG_OP_broadcast:
    case IG_OP_iota: set_attr(attrs, node->op, IG_ATTR_dims, ig_attr_of_dims(local.dim, local.rank)); break;
    case IG_OP_slice:
        cut_slice(from, node, d, &local, starts, sizes, ranks, rank);
        set_attr(attrs, node->op, IG_ATTR_starts, ig_attr_of_dims(starts, local.rank));
        set_attr(attrs, node->op, IG_ATTR_sizes, ig_attr_of_dims(sizes, local.rank));
        break;
    case IG_OP_pad: /* the last rank may have all of it */
        if (d->out[0].kind != IG_LAYOUT_SPLIT) break;
        for (int i = 0; i < local.rank; i++)
            sizes[i] = ig_attr(from, node, IG_ATTR_after)->dims[i];
        own = ig_layout_type(from->dims, &d->in[0], ig_type_of(from, node->in[0]), ranks, rank);
        sizes[d->out[0].axis] = ig_dim_sub(from->dims, local.dim[d->out[0].axis], own.dim[d->out[0].axis]);
        set_attr(attrs, node->op, IG_ATTR_after, ig_attr_of_dims(sizes, local.rank));
        break;
    case IG_OP_conv:
        set_conv(from, node, d, &local, attrs);
        if (d->out[0].kind == IG_LAYOUT_PARTIAL && rank > 0 && n_in > 2) n_in = 2; /* the bias is added once */
        break;
    default: break;
    }
    return ig_build_node(to, node->op, in, n_in, node->n_out, attrs, NULL);
}
