/*
 * Sinks reshapes: f(reshape(x)) becomes reshape(f(x)), one rule per operator, in a table.
 *
 * A reshape itself costs nothing, but elementwise work can be fused into the preceding contraction or reduction only if
 * it has the same shape. So reshapes move down until they meet their inverse or an operator that needs the new shape.
 * They stay if nothing above them computes: there is nothing to fuse with.
 */
#include <string.h>

#include "pass/view/view.h"

/* v = reshape(base): how their axes correspond. */
struct reshaped {
    ig_value base;
    struct ig_type uncut, from, to; /* from: the base's type; uncut: the same before cut_reshaped */
    struct ig_atoms atoms;
};

static bool computes(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = ig_def(g, v);
    while (n && (n->op == IG_OP_reshape || n->op == IG_OP_transpose))
        n = ig_def(g, n->in[0]);
    if (!n) return false;
    enum ig_family family = ig_op_info(n->op)->family;
    return n->op == IG_OP_concat || (family != IG_FAMILY_VIEW && family != IG_FAMILY_SOURCE);
}

static bool look_reshape(const struct ig_graph *g, ig_value v, struct reshaped *out_reshaped) {
    const struct ig_node *n = ig_info(g, v)->is_const ? NULL : ig_def_op(g, v, IG_OP_reshape);
    if (!n) return false;
    const struct ig_type *from = ig_type_of(g, n->in[0]), *to = ig_type_of(g, v);
    *out_reshaped = (struct reshaped){.base = n->in[0], .uncut = *from, .from = *from, .to = *to};
    return ig_atoms_find(g->dims, &out_reshaped->from, &out_reshaped->to, &out_reshaped->atoms);
}

/* Like look_reshape, if something above computes, so that there is something to fuse with. */
static bool look_reshaped(const struct ig_sink *s, ig_value v, struct reshaped *out_reshaped) {
    return look_reshape(s->g, v, out_reshaped) && computes(s->g, out_reshaped->base);
}

static ig_value reshape_to(struct ig_sink *s, ig_value v, const struct ig_type *to) {
    ig_dim *dims = ig_memdup(s->g->job, to->dim, sizeof to->dim);
    struct ig_attr attr = {.kind = IG_KIND_DIMS, .count = to->rank, .dims = dims};
    return ig_sink_node(s, IG_OP_reshape, &v, 1, &attr);
}

/* Reshapes the base into its atoms, for rules that need only part of one of its axes. */
static bool cut_reshaped(struct ig_sink *s, struct reshaped *r) {
    if (r->atoms.count > INGOT_MAX_RANK || r->atoms.count == 0) return false;
    struct ig_type cut = ig_type_make(r->from.dtype, r->atoms.count, r->atoms.size);
    if (ig_same_dims(&cut, &r->to)) return false; /* the reshape itself does that */
    r->from = cut;
    r->base = reshape_to(s, r->base, &r->from);
    for (int i = 0; i < r->atoms.count; i++)
        r->atoms.from[i] = i;
    return true;
}

/*
 * Translates a flag per axis of the result (has the operand this axis in full? is it reduced?) into a flag per axis of
 * the base. False if the parts of one base axis disagree.
 */
static bool map_axes(const struct reshaped *r, const bool *of_result, bool *out_of_base) {
    bool seen[INGOT_MAX_RANK] = {false};
    for (int i = 0; i < r->from.rank; i++)
        out_of_base[i] = false;
    for (int i = 0; i < r->atoms.count; i++) {
        int axis = r->atoms.from[i];
        bool value = of_result[r->atoms.to[i]];
        if (seen[axis] && out_of_base[axis] != value) return false;
        seen[axis] = true;
        out_of_base[axis] = value;
    }
    return true;
}

static struct ig_type without_ones(const struct ig_dims *dims, const struct ig_type *type) {
    struct ig_type out = {.dtype = type->dtype};
    for (int i = 0; i < type->rank; i++) {
        if (!ig_dim_is(dims, type->dim[i], 1)) out.dim[out.rank++] = type->dim[i];
    }
    return out;
}

/* Does the reshape only add axes of size 1 to what is computed later than v? */
static bool adds_ones(const struct ig_graph *g, const struct reshaped *r, ig_value v) {
    const struct ig_type before = without_ones(g->dims, &r->uncut), after = without_ones(g->dims, &r->to);
    const ig_node_id base = ig_info(g, r->base)->node, other = ig_info(g, v)->node;
    return r->uncut.rank < r->to.rank && ig_same_dims(&before, &after) && ig_same_dims(&r->uncut, &r->from) &&
           (other == IG_NO_NODE || base > other);
}

/* ---- Elementwise operators --------------------------------------------------------------------------------------- */

/* The operand reshaped to fit the base's shape, or IG_NO_VALUE. */
static ig_value base_operand(struct ig_sink *s, ig_value v, const struct reshaped *driver) {
    struct ig_graph *g = s->g;
    struct ig_type type = *ig_type_of(g, v);
    /* Beside a reshape of one element, a reshape made here would drive the next step, back to where this one began. */
    bool is_const = ig_info(g, v)->is_const;
    if (ig_type_is_single(g->dims, &type) && (is_const || !ig_type_is_single(g->dims, &driver->to))) {
        /* With as many axes as the base, so that the result of a reduction keeps its shape. */
        ig_dim ones[INGOT_MAX_RANK];
        for (int i = 0; i < driver->from.rank; i++)
            ones[i] = ig_dim_const(g->dims, 1);
        return ig_view_reshape(g, v, ones, is_const ? 0 : driver->from.rank);
    }
    if (!is_const && ig_same_dims(&type, &driver->to)) {
        const struct ig_node *n = ig_def_op(g, v, IG_OP_reshape);
        if (n && ig_same_dims(ig_type_of(g, n->in[0]), &driver->uncut)) return reshape_to(s, n->in[0], &driver->from);
        /* Else sinking would only move a reshape to the operand: as from a product of one sample's rows to its residual, which is older, so
         * that the sum can join the product. Axes of size 1 go in one direction only, so that this comes to an end. */
        return adds_ones(g, driver, v) ? reshape_to(s, v, &driver->from) : IG_NO_VALUE;
    }
    bool present[INGOT_MAX_RANK] = {false}, in_base[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++)
        present[driver->to.rank - type.rank + i] = !ig_dim_is(g->dims, type.dim[i], 1);
    if (!map_axes(driver, present, in_base)) return IG_NO_VALUE;
    ig_dim dims[INGOT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < driver->from.rank; i++) {
        if (rank > 0 || in_base[i]) dims[rank++] = in_base[i] ? driver->from.dim[i] : ig_dim_const(g->dims, 1);
    }
    return ig_view_reshape(g, v, dims, rank);
}

static bool base_operands(struct ig_sink *s, const struct ig_sink_args *a, uint32_t self, const struct reshaped *driver,
                          ig_value *out_in) {
    for (uint32_t i = 0; i < a->n_in; i++) {
        out_in[i] = i == self ? driver->base : base_operand(s, a->in[i], driver);
        if (out_in[i] == IG_NO_VALUE) return false;
    }
    return true;
}

static ig_value reshaped_map(struct ig_sink *s, const struct ig_sink_args *a) {
    struct ig_type result = ig_map_result(s->g, a->in, a->n_in);
    ig_value in[3];
    for (uint32_t i = 0; i < a->n_in; i++) {
        struct reshaped driver;
        if (!ig_same_dims(ig_type_of(s->g, a->in[i]), &result) || !look_reshaped(s, a->in[i], &driver)) continue;
        bool fits = base_operands(s, a, i, &driver, in);
        if (!fits && s->eager && cut_reshaped(s, &driver)) fits = base_operands(s, a, i, &driver, in);
        if (fits) return reshape_to(s, ig_sink_node(s, a->op, in, a->n_in, a->attrs), &result);
    }
    return IG_NO_VALUE;
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

/*
 * A reduction over part of an axis of the base (the mean square of each head): the reshape stays, but above elementwise work on
 * one value, a square, so that the reduction's region computes it from what is stored anyway. IG_NO_VALUE: there is none.
 */
static ig_value reduction_of_heads(struct ig_sink *s, const struct ig_sink_args *a, const struct reshaped *r) {
    struct ig_graph *g = s->g;
    const struct ig_node *n = ig_def(g, r->base);
    if (!n || !ig_op_info(n->op)->is_map) return IG_NO_VALUE;
    ig_value in[3], of = IG_NO_VALUE;
    for (uint32_t i = 0; i < n->n_in; i++) {
        bool is_scalar = ig_info(g, n->in[i])->is_const && ig_type_is_single(g->dims, ig_type_of(g, n->in[i]));
        if (!is_scalar && of != IG_NO_VALUE && of != n->in[i]) return IG_NO_VALUE;
        if (!is_scalar) of = n->in[i];
        in[i] = n->in[i];
    }
    if (of == IG_NO_VALUE || !ig_same_dims(ig_type_of(g, of), &r->uncut)) return IG_NO_VALUE;
    ig_value heads = ig_view_reshape(g, of, r->to.dim, r->to.rank);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = in[i] == of ? heads : in[i];
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    ig_value operand = ig_build_node(g, n->op, in, n->n_in, 1, n->attr, no_bodies);
    return ig_build_node(g, a->op, &operand, 1, 1, a->attrs, no_bodies);
}

static ig_value reshaped_reduction(struct ig_sink *s, const struct ig_sink_args *a) {
    struct reshaped r;
    if (!look_reshaped(s, a->in[0], &r)) return IG_NO_VALUE;
    bool reduced[INGOT_MAX_RANK] = {false}, in_base[INGOT_MAX_RANK];
    struct ig_type result = r.to;
    for (int i = 0; i < a->attrs[0].count; i++) {
        reduced[a->attrs[0].ints[i]] = true;
        result.dim[a->attrs[0].ints[i]] = ig_dim_const(s->g->dims, 1);
    }
    if (!map_axes(&r, reduced, in_base)) {
        struct reshaped cut = r;
        if (!s->eager || !cut_reshaped(s, &cut) || !map_axes(&cut, reduced, in_base))
            return reduction_of_heads(s, a, &r);
        r = cut;
    }
    int64_t *axes = IG_NEW_ARRAY(s->g->job, int64_t, INGOT_MAX_RANK);
    int count = 0;
    for (int i = 0; i < r.from.rank; i++) {
        if (in_base[i]) axes[count++] = i;
    }
    if (count == 0) return IG_NO_VALUE;
    struct ig_attr *attrs = ig_attrs_copy(s->g, a->op, a->attrs);
    attrs[0] = ig_attr_of_ints(axes, count);
    return reshape_to(s, ig_sink_node(s, a->op, &r.base, 1, attrs), &result);
}

/* ---- Contractions ------------------------------------------------------------------------------------------------ */

/* How many trailing axes of the base make up the last axis of the result; 0 if they are not whole axes. */
static int axes_in_last(const struct reshaped *r) {
    int axes = 0;
    for (int i = r->atoms.count - 1; i >= 0 && r->atoms.to[i] == r->to.rank - 1; i--) {
        if (i > 0 && r->atoms.from[i - 1] == r->atoms.from[i] && r->atoms.to[i - 1] != r->to.rank - 1) return 0;
        axes = r->from.rank - r->atoms.from[i];
    }
    return axes;
}

/* The first operand of a product whose second has no batches: all leading axes are rows, in whatever shape. So [S, B,
 * H, D] -> [S*B, H*D] is split into [S, B, H*D] before the product and [S*B, n] after it. But not for axes of size 1 alone: a
 * reshape behind the product would keep the sum with a residual of the old shape from the product's region. */
static bool split_rows(struct ig_sink *s, const struct reshaped *r, ig_value *out_first) {
    int merged = axes_in_last(r), leading = r->from.rank - merged;
    if (merged == 0 || leading < 1) return false;
    struct ig_type rows = r->from;
    rows.rank = leading + 1;
    rows.dim[leading] = r->to.dim[r->to.rank - 1];
    const struct ig_type split = without_ones(s->g->dims, &rows), whole = without_ones(s->g->dims, &r->to);
    if (ig_same_dims(&split, &whole)) return false;
    *out_first = reshape_to(s, r->base, &rows);
    return true;
}

/* Do both operands have batches, reshaped in the same way? */
static bool same_batches(const struct reshaped *x, const struct reshaped *y) {
    if (x->from.rank != y->from.rank || x->to.rank != y->to.rank || x->from.rank < 2 || x->to.rank < 2) return false;
    for (int i = 0; i < x->from.rank - 2; i++) {
        if (x->from.dim[i] != y->from.dim[i]) return false;
    }
    for (int i = 0; i < x->to.rank - 2; i++) {
        if (x->to.dim[i] != y->to.dim[i]) return false;
    }
    for (int i = 1; i <= 2; i++) {
        if (x->from.dim[x->from.rank - i] != x->to.dim[x->to.rank - i]) return false;
        if (y->from.dim[y->from.rank - i] != y->to.dim[y->to.rank - i]) return false;
    }
    return true;
}

static ig_value reshaped_matmul(struct ig_sink *s, const struct ig_sink_args *a) {
    struct reshaped x, y;
    if (!look_reshape(s->g, a->in[0], &x)) return IG_NO_VALUE;
    ig_value in[2] = {x.base, a->in[1]};
    struct ig_type second = *ig_type_of(s->g, a->in[1]);
    if (second.rank == 2) {
        if (!split_rows(s, &x, &in[0])) return IG_NO_VALUE;
    } else {
        if (!look_reshape(s->g, a->in[1], &y) || !same_batches(&x, &y)) return IG_NO_VALUE;
        in[1] = y.base;
    }
    struct ig_type result = x.to;
    result.dim[result.rank - 1] = second.dim[second.rank - 1];
    return reshape_to(s, ig_sink_node(s, a->op, in, 2, a->attrs), &result);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

typedef ig_value (*reshape_rule)(struct ig_sink *s, const struct ig_sink_args *a);

static const reshape_rule rules[IG_OP_COUNT] = {
#define IG_MAP(name, ...) [IG_OP_##name] = reshaped_map,
#include "ir/ops.def"
    [IG_OP_where] = reshaped_map,
    [IG_OP_cast] = reshaped_map,
    [IG_OP_matmul] = reshaped_matmul,
    [IG_OP_reduce_sum] = reshaped_reduction,
    [IG_OP_reduce_mean] = reshaped_reduction,
    [IG_OP_reduce_prod] = reshaped_reduction,
    [IG_OP_reduce_max] = reshaped_reduction,
    [IG_OP_reduce_min] = reshaped_reduction,
};

ig_value ig_sink_reshape(struct ig_sink *s, const struct ig_sink_args *a) {
    return rules[a->op] ? rules[a->op](s, a) : IG_NO_VALUE;
}
