/*
 * Sinks transposes: f(transpose(x)) becomes transpose(f(x)), one rule per operator, in a table.
 *
 * v = transpose(u, perm) means that axis i of v is axis perm[i] of u.
 */
#include <string.h>

#include "pass/view/view.h"

/* A transposed value. */
struct turned {
    ig_value base;
    bool layout; /* by the layout pass */
    int rank;
    int64_t perm[INGOT_MAX_RANK];
};

static bool look_turned(const struct ig_sink *s, ig_value v, struct turned *out_turned) {
    const struct ig_graph *g = s->g;
    if (v == IG_NO_VALUE || ig_info(g, v)->is_const) return false;
    const struct ig_node *n = ig_def_op(g, v, IG_OP_transpose);
    if (!n) return false;
    out_turned->base = n->in[0];
    out_turned->layout = ig_sink_is_marked(s, v);
    out_turned->rank = ig_type_of(g, v)->rank;
    memcpy(out_turned->perm, ig_attr(g, n, IG_ATTR_perm)->ints, (size_t)out_turned->rank * sizeof(int64_t));
    return true;
}

static bool same_perm(const struct turned *a, const struct turned *b) {
    return a->rank == b->rank && memcmp(a->perm, b->perm, (size_t)a->rank * sizeof(int64_t)) == 0;
}

/* Is this the transpose that layout.c puts on [N,spatial...,C], or what it becomes when channels are split: the batch
 * first, and the spatial axes, in order, last? */
static bool is_layout(const struct turned *t) {
    int spatial = t->rank == 3 ? 1 : 2;
    if (!t->layout || t->rank < 3 || t->perm[0] != 0) return false;
    for (int first = 2; first <= t->rank - spatial; first++) {
        bool in_order = true;
        for (int i = first; i < t->rank; i++)
            in_order &= t->perm[i] == i - first + 1;
        if (in_order) return true;
    }
    return false;
}

static ig_value turn_back(struct ig_sink *s, ig_value v, const struct turned *t) {
    ig_value back = ig_view_transpose(s->g, v, t->perm);
    if (t->layout) ig_sink_mark(s, back);
    return back;
}

static ig_value sink_with_attrs(struct ig_sink *s, const struct ig_sink_args *a, ig_value first,
                                const struct ig_attr *attrs) {
    ig_value in[2] = {first, a->n_in > 1 ? a->in[1] : IG_NO_VALUE};
    return ig_sink_node(s, a->op, in, a->n_in, attrs);
}

/* ---- Several operands ------------------------------------------------------------------------------------------- */

/* v with leading axes of size 1 added up to the driver's rank, and the driver's transpose undone. *out_free: that costs
 * nothing at run time. */
static ig_value undo_turn(struct ig_graph *g, ig_value v, const struct turned *t, bool *out_free) {
    struct ig_type type = *ig_type_of(g, v);
    ig_dim dims[INGOT_MAX_RANK];
    int missing = t->rank - type.rank;
    for (int i = 0; i < t->rank; i++)
        dims[i] = i < missing ? ig_dim_const(g->dims, 1) : type.dim[i - missing];
    struct ig_type padded = ig_type_make(type.dtype, t->rank, dims);
    int64_t inverse[INGOT_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        inverse[t->perm[i]] = i;
    *out_free = ig_info(g, v)->is_const || ig_perm_moves_only_ones(g->dims, &padded, inverse);
    return ig_view_transpose(g, ig_view_reshape(g, v, dims, t->rank), inverse);
}

/* Undoes the driver's transpose on all operands. False if that would not pay. *out_costs: how many operands need a new
 * transpose, which must not then be sunk behind the operator in turn (build_undone). */
static bool undo_turns(struct ig_sink *s, const struct ig_sink_args *a, const struct turned *driver, bool elementwise,
                       ig_value *out_in, int *out_costs) {
    struct ig_graph *g = s->g;
    int gains = 0, costs = 0;
    for (uint32_t i = 0; i < a->n_in; i++) {
        struct turned t;
        ig_value v = a->in[i];
        out_in[i] = v;
        if (elementwise && ig_type_is_single(g->dims, ig_type_of(g, v))) continue;
        if (look_turned(s, v, &t) && same_perm(&t, driver)) {
            out_in[i] = t.base;
            gains++;
            continue;
        }
        bool free;
        out_in[i] = undo_turn(g, v, driver, &free);
        if (!free) costs++;
        /* A reduction over the innermost axis, such as a softmax's, would stay behind and no longer fuse. */
        bool rows_move = driver->perm[driver->rank - 1] == driver->rank - 1;
        if (!driver->layout && !ig_info(g, v)->is_const && !(free && rows_move)) return false;
    }
    *out_costs = costs;
    return costs == 0 || (is_layout(driver) && gains >= costs);
}

static ig_value build_undone(struct ig_sink *s, const struct ig_sink_args *a, const ig_value *in,
                             const struct ig_attr *attrs, int costs) {
    struct ig_sink careful = {.g = s->g, .eager = s->eager && costs == 0, .layouts = costs == 0 ? s->layouts : NULL};
    return ig_sink_node(&careful, a->op, in, a->n_in, attrs);
}

static ig_value turn_map(struct ig_sink *s, const struct ig_sink_args *a) {
    struct ig_type result = ig_map_result(s->g, a->in, a->n_in);
    ig_value in[3];
    int costs;
    for (uint32_t i = 0; i < a->n_in; i++) {
        struct turned driver;
        if (!look_turned(s, a->in[i], &driver) || !ig_same_dims(ig_type_of(s->g, a->in[i]), &result)) continue;
        if (!undo_turns(s, a, &driver, true, in, &costs)) continue;
        return turn_back(s, build_undone(s, a, in, a->attrs, costs), &driver);
    }
    return IG_NO_VALUE;
}

static ig_value turn_concat(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned driver;
    uint32_t i = 0;
    while (i < a->n_in && !look_turned(s, a->in[i], &driver))
        i++;
    if (i == a->n_in) return IG_NO_VALUE;
    ig_value *in = IG_NEW_ARRAY(s->g->job, ig_value, a->n_in);
    int costs;
    if (!undo_turns(s, a, &driver, false, in, &costs)) return IG_NO_VALUE;
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[0].i = driver.perm[attrs[0].i];
    return turn_back(s, build_undone(s, a, in, attrs, costs), &driver);
}

/* A product's rows are independent, so a transpose of row axes moves behind it; if both operands have batches, both
 * must be transposed the same way. */
static ig_value turn_matmul(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned x, y;
    if (!look_turned(s, a->in[0], &x) || x.perm[x.rank - 1] != x.rank - 1) return IG_NO_VALUE;
    ig_value in[2] = {x.base, a->in[1]};
    if (ig_type_of(s->g, a->in[1])->rank > 2) {
        if (!look_turned(s, a->in[1], &y) || !same_perm(&x, &y)) return IG_NO_VALUE;
        if (x.perm[x.rank - 2] != x.rank - 2) return IG_NO_VALUE;
        in[1] = y.base;
    }
    return turn_back(s, ig_sink_node(s, a->op, in, 2, a->attrs), &x);
}

/* ---- One operand ------------------------------------------------------------------------------------------------- */

static const ig_dim *turn_dims(struct ig_graph *g, const ig_dim *dims, const struct turned *t) {
    ig_dim *turned = IG_NEW_ARRAY(g->job, ig_dim, INGOT_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        turned[t->perm[i]] = dims[i];
    return turned;
}

static const int64_t *turn_ints(struct ig_graph *g, const int64_t *ints, const struct turned *t) {
    int64_t *turned = IG_NEW_ARRAY(g->job, int64_t, INGOT_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        turned[t->perm[i]] = ints[i];
    return turned;
}

/* Slices and pads: their attributes have one entry per axis. */
static ig_value turn_axes(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t;
    if (!look_turned(s, a->in[0], &t)) return IG_NO_VALUE;
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    for (int i = 0; i < ig_op_info(a->op)->n_attrs; i++) {
        if (attrs[i].kind == IG_KIND_DIMS) attrs[i].dims = turn_dims(s->g, attrs[i].dims, &t);
        if (attrs[i].kind == IG_KIND_INTS) attrs[i].ints = turn_ints(s->g, attrs[i].ints, &t);
    }
    return turn_back(s, sink_with_attrs(s, a, t.base, attrs), &t);
}

/* A transpose is cheaper before a broadcast enlarges the tensor, so only the layout of convolutions moves behind it. */
static ig_value turn_broadcast(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t;
    if (!look_turned(s, a->in[0], &t) || !is_layout(&t) || a->attrs[0].count != t.rank) return IG_NO_VALUE;
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[0].dims = turn_dims(s->g, attrs[0].dims, &t);
    return turn_back(s, sink_with_attrs(s, a, t.base, attrs), &t);
}

/* Are the axes the innermost ones? */
static bool is_trailing(const bool *axes, int rank) {
    bool inside = false;
    for (int i = 0; i < rank; i++) {
        if (inside && !axes[i]) return false;
        inside |= axes[i];
    }
    return true;
}

/* Reductions over the innermost axes are the fast ones and must stay such. */
static ig_value turn_reduction(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t;
    if (!look_turned(s, a->in[0], &t)) return IG_NO_VALUE;
    bool before[INGOT_MAX_RANK] = {false}, after[INGOT_MAX_RANK] = {false};
    for (int i = 0; i < a->attrs[0].count; i++) {
        before[a->attrs[0].ints[i]] = true;
        after[t.perm[a->attrs[0].ints[i]]] = true;
    }
    if (is_trailing(before, t.rank) && !is_trailing(after, t.rank) && !is_layout(&t)) return IG_NO_VALUE;
    int64_t *axes = IG_NEW_ARRAY(s->g->job, int64_t, INGOT_MAX_RANK);
    int count = 0;
    for (int i = 0; i < t.rank; i++) {
        if (after[i]) axes[count++] = i;
    }
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[0] = ig_attr_of_ints(axes, count);
    return turn_back(s, sink_with_attrs(s, a, t.base, attrs), &t);
}

/* Operators along one axis whose results have the operand's shape, or 1 along that axis. */
static ig_value turn_axis(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t;
    if (!look_turned(s, a->in[0], &t)) return IG_NO_VALUE;
    int slot = ig_attr_slot(a->op, IG_ATTR_axis);
    bool innermost = a->attrs[slot].i == t.rank - 1 && t.perm[t.rank - 1] != t.rank - 1;
    if (innermost && !is_layout(&t)) return IG_NO_VALUE;
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[slot].i = t.perm[attrs[slot].i];
    return turn_back(s, sink_with_attrs(s, a, t.base, attrs), &t);
}

/* Are there more indices than elements along the axis, as where a picture becomes larger? */
static bool enlarges(const struct ig_sink *s, const struct ig_sink_args *a) {
    ig_dim count = ig_type_elements(s->g->dims, ig_type_of(s->g, a->in[1]));
    return ig_dim_less(s->g->dims, ig_type_of(s->g, a->in[0])->dim[a->attrs[0].i], count) == IG_YES;
}

/* In the result and in its base, the index's axes replace the axis that is gathered along. */
static ig_value turn_gather(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t, result;
    int added = ig_type_of(s->g, a->in[1])->rank, axis = (int)a->attrs[0].i;
    if (s->ends && enlarges(s, a)) return IG_NO_VALUE;
    if (!look_turned(s, a->in[0], &t) || t.rank - 1 + added > INGOT_MAX_RANK) return IG_NO_VALUE;
    int64_t base_axis = t.perm[axis];
    result.rank = 0;
    result.layout = t.layout;
    for (int i = 0; i < t.rank; i++) {
        for (int k = 0; i == axis && k < added; k++)
            result.perm[result.rank++] = base_axis + k;
        if (i != axis) result.perm[result.rank++] = t.perm[i] < base_axis ? t.perm[i] : t.perm[i] + added - 1;
    }
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[0].i = base_axis;
    return turn_back(s, sink_with_attrs(s, a, t.base, attrs), &result);
}

/* ---- Reshapes ---------------------------------------------------------------------------------------------------- */

/* The atoms of a reshape of a transposed value, in the order in which they lie in the base. */
struct turned_atoms {
    struct ig_atoms atoms;   /* in row-major order of the reshape's operand and result */
    int order[IG_MAX_ATOMS]; /* indices of the atoms, in the order of the base */
};

static void order_atoms(struct turned_atoms *ta, const struct turned *t) {
    int count = 0;
    for (int j = 0; j < t->rank; j++) {
        for (int i = 0; i < ta->atoms.count; i++) {
            if (t->perm[ta->atoms.from[i]] == j) ta->order[count++] = i;
        }
    }
}

/* Sorts the atoms within each axis of the result. False if an axis's atoms are not adjacent in the base, or are out of
 * order and may not move. *out_moved: some were out of order. */
static bool gather_axes(struct turned_atoms *ta, bool may_move, bool *out_moved) {
    const struct ig_atoms *atoms = &ta->atoms;
    *out_moved = false;
    for (int start = 0, end; start < atoms->count; start = end) {
        int axis = atoms->to[ta->order[start]], smallest = ta->order[start], size = 0;
        for (end = start; end < atoms->count && atoms->to[ta->order[end]] == axis; end++) {
            if (end > start && ta->order[end] < ta->order[end - 1]) *out_moved = true;
            if (ta->order[end] < smallest) smallest = ta->order[end];
        }
        for (int i = 0; i < atoms->count; i++)
            size += atoms->to[i] == axis;
        if (size != end - start || (*out_moved && !may_move)) return false;
        for (int i = start; i < end; i++)
            ta->order[i] = smallest + i - start;
    }
    return true;
}

/* Lists the axes of the result in the base's order: axes with atoms in the atoms' order, an axis of size 1 before the
 * axis that follows it, or after the last one; leading ones stay in front. */
static void place_axes(const struct turned_atoms *ta, int rank, int *out_axes) {
    const struct ig_atoms *atoms = &ta->atoms;
    bool has_atoms[INGOT_MAX_RANK] = {false};
    int first = rank, last = 0, count = 0;
    for (int i = 0; i < atoms->count; i++)
        has_atoms[atoms->to[i]] = true;
    for (int i = rank - 1; i >= 0; i--) {
        if (has_atoms[i]) first = i;
    }
    for (int i = 0; i < rank; i++) {
        if (has_atoms[i]) last = i;
    }
    for (int i = 0; i < first; i++)
        out_axes[count++] = i;
    for (int k = 0; k < atoms->count; k++) {
        int axis = atoms->to[ta->order[k]];
        if (k > 0 && atoms->to[ta->order[k - 1]] == axis) continue;
        int start = axis;
        while (start > first && !has_atoms[start - 1])
            start--;
        for (int i = start; i <= axis; i++)
            out_axes[count++] = i;
        for (int i = axis + 1; axis == last && i < rank; i++)
            out_axes[count++] = i;
    }
}

/* The base reshaped to one axis per atom, in the given order. */
static ig_value cut_base(struct ig_sink *s, ig_value base, const struct ig_atoms *atoms, const int *order) {
    struct ig_attr dims = {.kind = IG_KIND_DIMS, .count = atoms->count};
    ig_dim *sizes = IG_NEW_ARRAY(s->g->job, ig_dim, IG_MAX_ATOMS);
    for (int i = 0; i < atoms->count; i++)
        sizes[i] = atoms->size[order[i]];
    dims.dims = sizes;
    return ig_sink_node(s, IG_OP_reshape, &base, 1, &dims);
}

/*
 * If an axis of the result consists of scattered atoms, part of the transpose must happen before the reshape. The rest,
 * a permutation of whole axes of the result, can still go behind it: [B, H, S, D] -> [S, B, H*D] is a transpose to [B,
 * S, H, D], the reshape, and an exchange of B and S. Groups the atoms by axis of the result: axis `last` at the end,
 * the others in the order in which they begin in the base.
 */
static void gather_scattered(struct turned_atoms *ta, int last) {
    const struct ig_atoms *atoms = &ta->atoms;
    int order[IG_MAX_ATOMS], count = 0;
    bool placed[INGOT_MAX_RANK] = {false};
    placed[last] = true;
    for (int k = 0; k <= atoms->count; k++) {
        int axis = k < atoms->count ? atoms->to[ta->order[k]] : last;
        if (placed[axis] && k < atoms->count) continue;
        placed[axis] = true;
        for (int i = 0; i < atoms->count; i++) {
            if (atoms->to[i] == axis) order[count++] = i;
        }
    }
    memcpy(ta->order, order, sizeof order);
}

/* Is what is innermost in the result innermost in the base, too? */
static bool ends_alike(const struct turned_atoms *ta) {
    int last = ta->atoms.count - 1;
    for (int i = last; i >= 0 && ta->atoms.to[i] == ta->atoms.to[last]; i--) {
        if (ta->order[i] != i) return false;
    }
    return true;
}

/* Groups the atoms with the channels (axis 1) last. False if the other axes would not be in order, so that the result
 * would not be channels-last, or if rows would be torn apart that lie in one piece (windows of a channels-last picture).
 * Depth-to-space between convolutions takes this form. */
static bool gather_channels_last(struct turned_atoms *ta, int rank) {
    struct turned_atoms tried = *ta;
    bool has_channels = false;
    int previous = -1;
    for (int i = 0; i < ta->atoms.count; i++)
        has_channels |= ta->atoms.to[i] == 1;
    if (rank < 3 || !has_channels || ends_alike(ta)) return false;
    gather_scattered(&tried, 1);
    for (int k = 0; k < tried.atoms.count; k++) {
        int axis = tried.atoms.to[tried.order[k]];
        if (axis == 1) continue;
        if (axis < previous) return false;
        previous = axis;
    }
    *ta = tried;
    return true;
}

/* Transposes the base from the atoms' order in `before` to that in `ta`. */
static ig_value reorder_atoms(struct ig_sink *s, ig_value base, const struct turned_atoms *before,
                              const struct turned_atoms *ta) {
    int64_t perm[IG_MAX_ATOMS];
    for (int i = 0; i < ta->atoms.count; i++) {
        for (int k = 0; k < ta->atoms.count; k++) {
            if (before->order[k] == ta->order[i]) perm[i] = k;
        }
    }
    return ig_view_transpose(s->g, cut_base(s, base, &ta->atoms, before->order), perm);
}

static ig_value turn_reshape(struct ig_sink *s, const struct ig_sink_args *a) {
    struct turned t;
    struct turned_atoms ta, before;
    if (!look_turned(s, a->in[0], &t)) return IG_NO_VALUE;
    struct ig_type from = *ig_type_of(s->g, a->in[0]);
    struct ig_type to = ig_type_make(from.dtype, a->attrs[0].count, a->attrs[0].dims);
    if (!ig_atoms_find(s->g->dims, &from, &to, &ta.atoms)) return IG_NO_VALUE;
    if (ta.atoms.count == 0 || ta.atoms.count > INGOT_MAX_RANK) return IG_NO_VALUE;
    order_atoms(&ta, &t);
    before = ta;
    bool moved;
    if (!gather_axes(&ta, is_layout(&t), &moved)) {
        bool last = t.layout && gather_channels_last(&ta, to.rank);
        if (!last) gather_scattered(&ta, ta.atoms.to[ta.atoms.count - 1]);
    }
    ig_value base = reorder_atoms(s, t.base, &before, &ta);
    if (t.layout) ig_sink_mark(s, base);
    int axes[INGOT_MAX_RANK] = {0};
    int64_t perm[INGOT_MAX_RANK];
    ig_dim dims[INGOT_MAX_RANK];
    place_axes(&ta, to.rank, axes);
    for (int i = 0; i < to.rank; i++) {
        perm[axes[i]] = i;
        dims[i] = to.dim[axes[i]];
    }
    struct turned result = {.layout = t.layout, .rank = to.rank};
    memcpy(result.perm, perm, sizeof perm);
    return turn_back(s, ig_view_reshape(s->g, base, dims, to.rank), &result);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

typedef ig_value (*turn_rule)(struct ig_sink *s, const struct ig_sink_args *a);

static const turn_rule rules[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = turn_map,
#include "ir/ops.def"
    [IG_OP_where] = turn_map,
    [IG_OP_cast] = turn_map,
    [IG_OP_concat] = turn_concat,
    [IG_OP_matmul] = turn_matmul,
    [IG_OP_slice] = turn_axes,
    [IG_OP_pad] = turn_axes,
    [IG_OP_broadcast] = turn_broadcast,
    [IG_OP_reshape] = turn_reshape,
    [IG_OP_gather] = turn_gather,
    [IG_OP_reduce_sum] = turn_reduction,
    [IG_OP_reduce_mean] = turn_reduction,
    [IG_OP_reduce_prod] = turn_reduction,
    [IG_OP_reduce_max] = turn_reduction,
    [IG_OP_reduce_min] = turn_reduction,
    [IG_OP_argmax] = turn_axis,
    [IG_OP_argmin] = turn_axis,
    [IG_OP_cumsum] = turn_axis,
    [IG_OP_cumprod] = turn_axis,
};

ig_value ig_sink_transpose(struct ig_sink *s, const struct ig_sink_args *a) {
    return rules[a->op] ? rules[a->op](s, a) : IG_NO_VALUE;
}
