/* Sharding rules of reductions, contractions, windows and recurrences; see rule.h. */
#include "ir/build.h"
#include "pass/shard/rule.h"

/* ---- Along axes */

bool ig_rule_reduce(struct ig_rule *x) {
    const struct ig_attr *axes = ig_attr(x->graph, x->node, IG_ATTR_axes);
    bool reduced = false;
    enum ig_op op = x->node->op;
    for (int i = 0; i < axes->count; i++)
        reduced |= axes->ints[i] == x->given.axis;
    x->in[0] = x->out[0] = x->given;
    if (!reduced) return true;
    bool has = op == IG_OP_reduce_sum || op == IG_OP_reduce_max || op == IG_OP_reduce_min;
    x->out[0] = ig_layout_partial(op == IG_OP_reduce_max   ? IG_REDUCE_MAX
                                  : op == IG_OP_reduce_min ? IG_REDUCE_MIN
                                                           : IG_REDUCE_SUM);
    return has && !x->slot.is_result;
}

/* Operators that go along one axis treat all others alike. */
bool ig_rule_beside_axis(struct ig_rule *x) {
    if (x->given.axis == ig_attr_int(x->graph, x->node, IG_ATTR_axis)) return false;
    x->in[0] = x->given;
    for (uint32_t i = 0; i < x->node->n_out; i++)
        x->out[i] = x->given;
    return true;
}

/* ---- Products: batch, m, n, k of [..., m, k] x [..., k, n] */

static bool divide_depth(struct ig_rule *x) {
    int depth = ig_rule_in(x, 0)->rank - 1, rows = ig_rule_in(x, 1)->rank - 2;
    x->in[0] = ig_rule_at(x, depth);
    x->in[1] = ig_rule_at(x, rows);
    x->out[0] = ig_layout_partial(IG_REDUCE_SUM);
    return ig_rule_fits(x, ig_rule_in(x, 0), depth) && ig_rule_fits(x, ig_rule_in(x, 1), rows);
}

bool ig_rule_matmul(struct ig_rule *x) {
    const struct ig_type *result = ig_rule_out(x, 0);
    int rank = result->rank, axis = x->given.axis;
    if (ig_attr_int(x->graph, x->node, IG_ATTR_packed)) return false;
    if (!x->slot.is_result) {
        axis += rank - ig_rule_in(x, x->slot.index)->rank;
        if (axis == rank - (x->slot.index == 0 ? 1 : 2)) return divide_depth(x);
    }
    if (!ig_rule_fits(x, result, axis)) return false;
    bool fits = true;
    if (axis != rank - 1) fits &= ig_rule_align(x, 0, rank, axis);
    if (axis != rank - 2) fits &= ig_rule_align(x, 1, rank, axis);
    x->out[0] = ig_rule_at(x, axis);
    return fits;
}

/* The given layout with units of whole blocks of the depth; false: it has none. */
static bool take_blocks(struct ig_rule *x, int64_t block) {
    int64_t inner, count;
    if (x->given.grain > 1 || !ig_dim_is_const(x->dims, x->given.inner, &inner) ||
        !ig_dim_is_const(x->dims, x->given.count, &count))
        return false;
    if (inner % block == 0) return true;
    if (block % inner != 0 || count % (block / inner) != 0) return false;
    x->given.count = ig_dim_const(x->dims, count / (block / inner));
    x->given.inner = ig_dim_const(x->dims, block);
    return true;
}

/* Codes are [n, k], scales and zero points [n, blocks of k]. */
static bool divide_codes(struct ig_rule *x, int axis, int64_t block) {
    x->in[1] = x->in[2] = ig_rule_at(x, axis);
    ig_dim blocks = ig_dim_div(x->dims, x->given.inner, ig_dim_const(x->dims, block));
    if (axis == 1) x->in[2] = ig_layout_split(1, x->given.outer, x->given.count, blocks);
    if (ig_rule_has(x, 3)) x->in[3] = x->in[2];
    return ig_rule_fits(x, ig_rule_in(x, 1), axis);
}

bool ig_rule_matmul_blocks(struct ig_rule *x) {
    int rank = ig_rule_out(x, 0)->rank, axis = x->given.axis;
    int64_t block = ig_attr_int(x->graph, x->node, IG_ATTR_block), depth;
    bool is_weight = !x->slot.is_result && x->slot.index > 0;
    bool columns = x->slot.is_result ? axis == rank - 1 : is_weight && axis == 0;
    if (ig_attr_int(x->graph, x->node, IG_ATTR_packed) || (is_weight && x->slot.index > 1)) return false;
    if (columns) {
        x->out[0] = ig_rule_at(x, rank - 1);
        return divide_codes(x, 0, block);
    }
    if (!is_weight && axis < rank - 1) {
        x->in[0] = x->out[0] = x->given;
        return true;
    }
    bool whole = ig_dim_is_const(x->dims, ig_rule_in(x, 0)->dim[rank - 1], &depth) && depth % block == 0;
    if (!whole || !take_blocks(x, block)) return false;
    x->in[0] = ig_rule_at(x, rank - 1);
    x->out[0] = ig_layout_partial(IG_REDUCE_SUM);
    return divide_codes(x, 1, block);
}

/* Rows, with their scales. */
bool ig_rule_matmul_scaled(struct ig_rule *x) {
    bool of_rows = x->slot.is_result || x->slot.index == 0 || x->slot.index == 2;
    if (!of_rows || x->given.axis >= ig_rule_out(x, 0)->rank - 1) return false;
    x->in[0] = x->in[2] = x->out[0] = x->given;
    return true;
}

/* ---- Convolutions: batch, output channels, input channels, groups */

/* Channels of whole groups, of which the given value has `own` each: the given layout in units of them. */
static bool take_groups(struct ig_rule *x, int64_t own, int64_t *out_groups) {
    int64_t count, inner;
    if (x->given.grain > 1 || !ig_rule_is(x, x->given.outer, 1) || !ig_dim_is_const(x->dims, x->given.count, &count) ||
        !ig_dim_is_const(x->dims, x->given.inner, &inner))
        return false;
    if (inner % own != 0) {
        if (own % inner != 0 || count % (own / inner) != 0) return false;
        count /= own / inner;
        inner = own;
        x->given.count = ig_dim_const(x->dims, count);
        x->given.inner = ig_dim_const(x->dims, inner);
    }
    *out_groups = inner / own;
    return count > 1;
}

/* Split in units of so many groups, of `own` elements each. */
static struct ig_layout by_groups(const struct ig_rule *x, int axis, int64_t groups, int64_t own) {
    return ig_layout_split(axis, x->given.outer, x->given.count, ig_dim_const(x->dims, groups * own));
}

static bool divide_groups(struct ig_rule *x, int channel, int64_t groups) {
    int64_t in, out = ig_attr_int(x->graph, x->node, IG_ATTR_n), of_unit;
    bool is_weight = ig_rule_is_in(x, 1) || ig_rule_is_in(x, 2);
    if (!ig_dim_is_const(x->dims, ig_rule_in(x, 0)->dim[channel], &in)) return false;
    if (x->given.axis != (is_weight ? 0 : channel)) return false;
    if (!take_groups(x, (ig_rule_is_in(x, 0) ? in : out) / groups, &of_unit)) return false;
    x->in[0] = by_groups(x, channel, of_unit, in / groups);
    x->in[1] = by_groups(x, 0, of_unit, out / groups);
    if (ig_rule_has(x, 2)) x->in[2] = x->in[1];
    x->out[0] = by_groups(x, channel, of_unit, out / groups);
    return true;
}

bool ig_rule_conv(struct ig_rule *x) {
    bool last = ig_attr_int(x->graph, x->node, IG_ATTR_channels_last) != 0;
    int channel = last ? ig_rule_out(x, 0)->rank - 1 : 1, axis = x->given.axis;
    int64_t groups = ig_attr_int(x->graph, x->node, IG_ATTR_groups);
    bool is_image = ig_rule_is_in(x, 0) || ig_rule_is_out(x, 0);
    if (ig_attr_int(x->graph, x->node, IG_ATTR_packed)) return false;
    if (is_image && axis == 0) {
        x->in[0] = x->out[0] = x->given;
        return true;
    }
    if (groups > 1) return divide_groups(x, channel, groups);
    if (is_image && axis != channel) return false;
    if (!is_image && axis > 1) return false;
    if (ig_rule_is_in(x, 0) || (ig_rule_is_in(x, 1) && axis == 1)) {
        x->in[0] = ig_rule_at(x, channel);
        x->in[1] = ig_rule_at(x, 1);
        x->out[0] = ig_layout_partial(IG_REDUCE_SUM);
        return true;
    }
    x->in[1] = ig_rule_at(x, 0);
    if (ig_rule_has(x, 2)) x->in[2] = ig_rule_at(x, 0);
    x->out[0] = ig_rule_at(x, channel);
    return true;
}

bool ig_rule_pool(struct ig_rule *x) {
    bool last = ig_attr_int(x->graph, x->node, IG_ATTR_channels_last) != 0;
    if (x->given.axis != 0 && x->given.axis != (last ? ig_rule_out(x, 0)->rank - 1 : 1)) return false;
    x->in[0] = x->out[0] = x->given;
    return true;
}

/* ---- Recurrences: the batch */

/* Which axis of operand or result i counts sequences; -1: none. */
static int batch_axis(const struct ig_rule *x, bool is_result, uint32_t i) {
    bool lstm = x->node->op == IG_OP_lstm;
    if (i == 0) return 1; /* [time, batch, ...] */
    if (is_result) return 0;
    return i == 1 || i > (lstm ? 4 : 3) ? -1 : 0; /* of weights there is none */
}

bool ig_rule_recurrence(struct ig_rule *x) {
    if (x->given.axis != batch_axis(x, x->slot.is_result, x->slot.index)) return false;
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        int axis = batch_axis(x, false, i);
        if (!ig_rule_has(x, i) || axis < 0) continue;
        if (!ig_rule_fits(x, ig_rule_in(x, i), axis)) return false;
        x->in[i] = ig_rule_at(x, axis);
    }
    for (uint32_t i = 0; i < x->node->n_out; i++)
        x->out[i] = ig_rule_at(x, batch_axis(x, true, i));
    return true;
}
