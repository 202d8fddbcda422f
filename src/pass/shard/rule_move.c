/* Sharding rules of elementwise operators, views and movements; see rule.h. */
#include "ir/build.h"
#include "pass/shard/rule.h"

/* ---- Elementwise, broadcasts */

/* The result's axis that the given operand's is aligned with. */
static int result_axis(const struct ig_rule *x) {
    if (x->slot.is_result) return x->given.axis;
    return x->given.axis + ig_rule_out(x, 0)->rank - ig_rule_in(x, x->slot.index)->rank;
}

bool ig_rule_elementwise(struct ig_rule *x) {
    const struct ig_type *result = ig_rule_out(x, 0);
    int axis = result_axis(x);
    if (!ig_rule_fits(x, result, axis)) return false;
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        if (!ig_rule_align(x, i, result->rank, axis)) return false;
    }
    x->out[0] = ig_rule_at(x, axis);
    return true;
}

bool ig_rule_iota(struct ig_rule *x) {
    if (x->given.axis == ig_attr_int(x->graph, x->node, IG_ATTR_axis)) return false;
    x->out[0] = x->given;
    return true;
}

/* ---- Reshapes */

static bool has_zero(const struct ig_rule *x, const struct ig_type *type) {
    for (int i = 0; i < type->rank; i++) {
        if (ig_rule_is(x, type->dim[i], 0)) return true;
    }
    return false;
}

/*
 * Elements lie as outer x count x inner in one piece of memory, whatever the axes. Finds the axis `at` of `to` that has the
 * count, or its leading factor where its other factor belongs to later axes: then the given count becomes that.
 */
static bool find_axis(struct ig_rule *x, const struct ig_type *to, ig_dim outer, ig_dim inner, int at,
                      struct ig_layout *out) {
    struct ig_dims *d = x->dims;
    ig_dim before = ig_dim_product(d, to->dim, at), behind = ig_dim_product(d, to->dim + at + 1, to->rank - at - 1);
    if (!ig_dim_divides(d, before, outer)) return false;
    ig_dim own_outer = ig_dim_div(d, outer, before);
    if (!ig_dim_divides(d, own_outer, to->dim[at])) return false;
    ig_dim rest = ig_dim_div(d, to->dim[at], own_outer); /* count x inner */
    if (ig_dim_divides(d, behind, inner)) {
        ig_dim own_inner = ig_dim_div(d, inner, behind);
        *out = ig_layout_split(at, own_outer, x->given.count, own_inner);
        out->grain = x->given.grain;
        return rest == ig_dim_mul(d, x->given.count, own_inner);
    }
    if (!ig_dim_divides(d, inner, behind) || ig_rule_is(x, rest, 1)) return false;
    ig_dim later = ig_dim_div(d, behind, inner);
    if (ig_dim_mul(d, rest, later) != x->given.count || x->given.grain > 1) return false;
    *out = ig_layout_split(at, own_outer, rest, ig_dim_const(d, 1));
    x->given.count = rest;
    x->given.inner = ig_dim_mul(d, x->given.inner, later);
    return true;
}

bool ig_rule_reshape(struct ig_rule *x) {
    struct ig_dims *d = x->dims;
    bool backwards = x->slot.is_result;
    const struct ig_type *from = backwards ? ig_rule_out(x, 0) : ig_rule_in(x, 0);
    const struct ig_type *to = backwards ? ig_rule_in(x, 0) : ig_rule_out(x, 0);
    int axis = x->given.axis;
    struct ig_layout other;
    if (has_zero(x, from) || has_zero(x, to)) return false;
    ig_dim outer = ig_dim_mul(d, ig_dim_product(d, from->dim, axis), x->given.outer);
    ig_dim behind = ig_dim_product(d, from->dim + axis + 1, from->rank - axis - 1);
    ig_dim inner = ig_dim_mul(d, x->given.inner, behind);
    for (int at = 0; at < to->rank; at++) {
        if (ig_rule_is(x, to->dim[at], 1) || !find_axis(x, to, outer, inner, at, &other)) continue;
        x->in[0] = backwards ? other : x->given;
        x->out[0] = backwards ? x->given : other;
        return true;
    }
    return false;
}

/* ---- Other views */

bool ig_rule_transpose(struct ig_rule *x) {
    const int64_t *perm = ig_attr(x->graph, x->node, IG_ATTR_perm)->ints;
    for (int i = 0; i < ig_rule_out(x, 0)->rank; i++) {
        int given = x->slot.is_result ? i : (int)perm[i];
        if (given != x->given.axis) continue;
        x->in[0] = ig_rule_at(x, (int)perm[i]);
        x->out[0] = ig_rule_at(x, i);
        return true;
    }
    return false;
}

static bool is_multiple(const struct ig_rule *x, ig_dim dim, ig_dim unit) {
    return ig_rule_is(x, dim, 0) || ig_dim_divides(x->dims, unit, dim);
}

/* The axis stays as it is, or whole outer indices of it are taken. */
bool ig_rule_slice(struct ig_rule *x) {
    struct ig_dims *d = x->dims;
    int axis = x->given.axis;
    ig_dim start = ig_attr(x->graph, x->node, IG_ATTR_starts)->dims[axis];
    ig_dim whole = ig_rule_in(x, 0)->dim[axis], size = ig_rule_out(x, 0)->dim[axis];
    ig_dim unit = ig_dim_mul(d, x->given.count, x->given.inner);
    if (ig_attr(x->graph, x->node, IG_ATTR_steps)->ints[axis] != 1) return false;
    if (ig_rule_is(x, unit, 0) || ig_rule_is(x, size, 0)) return false;
    if (!is_multiple(x, start, unit) || !is_multiple(x, size, unit) || !is_multiple(x, whole, unit)) return false;
    x->in[0] = x->out[0] = x->given;
    x->in[0].outer = ig_dim_div(d, whole, unit);
    x->out[0].outer = ig_dim_div(d, size, unit);
    return true;
}

/* Behind the divided axis: the last rank has the padding, if ranges begin at the same places with and without it. */
static bool pad_last(struct ig_rule *x, int axis) {
    struct ig_layout *in = &x->in[0];
    int64_t size, count, inner;
    if (!x->slot.is_result || !ig_rule_is(x, x->given.outer, 1)) return false;
    if (!ig_dim_is_const(x->dims, ig_rule_in(x, 0)->dim[axis], &size) ||
        !ig_dim_is_const(x->dims, x->given.count, &count) || !ig_dim_is_const(x->dims, x->given.inner, &inner))
        return false;
    *in = ig_layout_along(x->dims, ig_rule_in(x, 0), axis);
    in->grain = x->given.grain * inner;
    x->out[0] = x->given;
    return (size + in->grain - 1) / in->grain == (count + x->given.grain - 1) / x->given.grain;
}

bool ig_rule_pad(struct ig_rule *x) {
    int axis = x->given.axis;
    if (!x->slot.is_result && x->slot.index > 0) return false;
    if (!ig_rule_is(x, ig_attr(x->graph, x->node, IG_ATTR_before)->dims[axis], 0)) return false;
    if (!ig_rule_is(x, ig_attr(x->graph, x->node, IG_ATTR_after)->dims[axis], 0)) return pad_last(x, axis);
    x->in[0] = x->out[0] = x->given;
    return true;
}

/* Along its own axis, the operands are outer indices of the result. */
bool ig_rule_concat(struct ig_rule *x) {
    struct ig_dims *d = x->dims;
    int axis = x->given.axis;
    bool along = axis == ig_attr_int(x->graph, x->node, IG_ATTR_axis);
    ig_dim unit = ig_dim_mul(d, x->given.count, x->given.inner);
    if (ig_rule_is(x, unit, 0)) return false;
    for (uint32_t i = 0; i < x->node->n_in; i++) {
        ig_dim size = ig_rule_in(x, i)->dim[axis];
        x->in[i] = x->given;
        if (along && !is_multiple(x, size, unit)) return false;
        if (!along && !ig_rule_fits(x, ig_rule_in(x, i), axis)) return false;
        if (along) x->in[i].outer = ig_dim_div(d, size, unit);
    }
    x->out[0] = x->given;
    if (along) x->out[0].outer = ig_dim_div(d, ig_rule_out(x, 0)->dim[axis], unit);
    return true;
}

/* ---- Scatters */

static bool divide_scatter(struct ig_rule *x, int axis, int index_axis, int updates_axis) {
    x->in[0] = x->out[0] = ig_rule_at(x, axis);
    if (index_axis >= 0) x->in[1] = ig_rule_at(x, index_axis);
    x->in[2] = ig_rule_at(x, updates_axis);
    return ig_rule_fits(x, ig_rule_in(x, 0), axis) && ig_rule_fits(x, ig_rule_in(x, 2), updates_axis) &&
           (index_axis < 0 || ig_rule_fits(x, ig_rule_in(x, 1), index_axis));
}

bool ig_rule_scatter_elements(struct ig_rule *x) {
    int at = x->given.axis;
    return at != ig_attr_int(x->graph, x->node, IG_ATTR_axis) && divide_scatter(x, at, at, at);
}

bool ig_rule_scatter_nd(struct ig_rule *x) {
    const struct ig_type *index = ig_rule_in(x, 1);
    int64_t length;
    if (!ig_dim_is_const(x->dims, index->dim[index->rank - 1], &length) || ig_rule_is_in(x, 1)) return false;
    int more = index->rank - 1 - (int)length; /* axes of updates, less axes of data, in front of what is not indexed */
    int axis = ig_rule_is_in(x, 2) ? x->given.axis - more : x->given.axis;
    return axis >= (int)length && divide_scatter(x, axis, -1, axis + more);
}
