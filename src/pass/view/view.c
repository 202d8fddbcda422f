/*
 * Builds transposes and reshapes in their shortest form, for every pass; see view.h.
 */
#include "pass/view/view.h"

#include <string.h>

bool ig_dim_is(const struct ig_dims *dims, ig_dim dim, int64_t value) {
    int64_t v;
    return ig_dim_is_const(dims, dim, &v) && v == value;
}

bool ig_type_is_single(const struct ig_dims *dims, const struct ig_type *type) {
    for (int i = 0; i < type->rank; i++) {
        if (!ig_dim_is(dims, type->dim[i], 1)) return false;
    }
    return true;
}

void ig_perm_to_last(int rank, int64_t *out_perm) {
    for (int i = 0; i < rank; i++)
        out_perm[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
}

void ig_perm_to_first(int rank, int64_t *out_perm) {
    for (int i = 0; i < rank; i++)
        out_perm[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
}

bool ig_perm_is_to_first(const int64_t *perm, int rank) {
    int64_t expected[INGOT_MAX_RANK];
    ig_perm_to_first(rank, expected);
    return rank >= 3 && memcmp(perm, expected, (size_t)rank * sizeof *perm) == 0;
}

static bool is_identity(const int64_t *perm, int rank) {
    for (int i = 0; i < rank; i++) {
        if (perm[i] != i) return false;
    }
    return true;
}

/* The axes that are not of size 1 keep their order. */
bool ig_perm_moves_only_ones(const struct ig_dims *dims, const struct ig_type *type, const int64_t *perm) {
    int64_t last = -1;
    for (int i = 0; i < type->rank; i++) {
        if (ig_dim_is(dims, type->dim[perm[i]], 1)) continue;
        if (perm[i] < last) return false;
        last = perm[i];
    }
    return true;
}

/* transpose(broadcast(x)) as broadcast(reshape(x)), if only axes of size 1 of x move. */
static ig_value transpose_broadcast(struct ig_graph *g, ig_value v, const int64_t *perm) {
    const struct ig_node *wide = ig_def_op(g, v, IG_OP_broadcast);
    if (!wide) return IG_NO_VALUE;
    ig_value x = wide->in[0];
    struct ig_type to = *ig_type_of(g, v), from = *ig_type_of(g, x);
    ig_dim padded[INGOT_MAX_RANK], turned[INGOT_MAX_RANK], dims[INGOT_MAX_RANK];
    int missing = to.rank - from.rank;
    for (int i = 0; i < to.rank; i++)
        padded[i] = i < missing ? ig_dim_const(g->dims, 1) : from.dim[i - missing];
    struct ig_type whole = ig_type_make(from.dtype, to.rank, padded);
    if (!ig_perm_moves_only_ones(g->dims, &whole, perm)) return IG_NO_VALUE;
    for (int i = 0; i < to.rank; i++) {
        turned[i] = padded[perm[i]];
        dims[i] = to.dim[perm[i]];
    }
    return ig_build_broadcast(g, ig_view_reshape(g, x, turned, to.rank), dims, to.rank);
}

ig_value ig_view_transpose(struct ig_graph *g, ig_value v, const int64_t *perm) {
    int rank = ig_type_of(g, v)->rank;
    int64_t merged[INGOT_MAX_RANK];
    memcpy(merged, perm, (size_t)rank * sizeof *perm);
    const struct ig_node *below;
    while ((below = ig_def_op(g, v, IG_OP_transpose))) {
        const int64_t *inner = ig_attr(g, below, IG_ATTR_perm)->ints;
        for (int i = 0; i < rank; i++)
            merged[i] = inner[merged[i]];
        v = below->in[0];
    }
    if (is_identity(merged, rank)) return v;
    struct ig_type type = *ig_type_of(g, v);
    if (!ig_perm_moves_only_ones(g->dims, &type, merged)) {
        ig_value wide = transpose_broadcast(g, v, merged);
        return wide == IG_NO_VALUE ? ig_build_transpose(g, v, merged) : wide;
    }
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = type.dim[merged[i]];
    return ig_view_reshape(g, v, dims, rank);
}

ig_value ig_view_swap(struct ig_graph *g, ig_value v) {
    const int rank = ig_type_of(g, v)->rank;
    int64_t perm[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return ig_view_transpose(g, v, perm);
}

ig_value ig_view_untranspose(struct ig_graph *g, ig_value v, const int64_t *perm) {
    int64_t inverse[INGOT_MAX_RANK];
    for (int i = 0; i < ig_type_of(g, v)->rank; i++)
        inverse[perm[i]] = i;
    return ig_view_transpose(g, v, inverse);
}

ig_value ig_view_reshape(struct ig_graph *g, ig_value v, const ig_dim *dims, int rank) {
    const struct ig_node *below;
    while ((below = ig_def_op(g, v, IG_OP_reshape)))
        v = below->in[0];
    const struct ig_type *type = ig_type_of(g, v);
    if (type->rank == rank && (rank == 0 || memcmp(type->dim, dims, (size_t)rank * sizeof *dims) == 0)) return v;
    return ig_build_reshape(g, v, dims, rank);
}

ig_value ig_view_reshape_to(struct ig_graph *g, ig_value v, const int64_t *sizes, int rank) {
    ig_dim dims[INGOT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = ig_dim_const(g->dims, sizes[i]);
    return ig_view_reshape(g, v, dims, rank);
}

struct ig_attr *ig_attrs_copy(struct ig_graph *g, enum ig_op op, const struct ig_attr *attrs) {
    int count = ig_op_info(op)->n_attrs;
    struct ig_attr *copy = IG_NEW_ARRAY(g->job, struct ig_attr, (size_t)count + 1);
    if (count > 0) memcpy(copy, attrs, (size_t)count * sizeof *copy);
    return copy;
}

int ig_attr_slot(enum ig_op op, enum ig_attr_name name) {
    const struct ig_op_info *info = ig_op_info(op);
    for (int i = 0; i < info->n_attrs; i++) {
        if (info->attrs[i].name == name) return i;
    }
    return -1;
}

/* ---- Atoms ------------------------------------------------------------------------------------------------------- */

/* What is left of an axis while atoms are cut off its end. */
struct cutting {
    struct ig_dims *dims;
    const struct ig_type *type;
    int axis;
    ig_dim rest;
};

/* Moves on to the next axis to the left that is not of size 1, once the current one is used up. */
static bool advance(struct cutting *c) {
    while (c->axis >= 0 && ig_dim_is(c->dims, c->rest, 1)) {
        c->axis--;
        if (c->axis >= 0) c->rest = c->type->dim[c->axis];
    }
    return c->axis >= 0;
}

/* The largest provable common innermost factor of both rests, or IG_DIM_NONE. */
static ig_dim common_end(struct ig_dims *dims, ig_dim a, ig_dim b) {
    if (a == b) return a;
    if (ig_dim_is(dims, a, 0) || ig_dim_is(dims, b, 0)) return IG_DIM_NONE;
    if (ig_dim_divides(dims, b, a)) return b;
    if (ig_dim_divides(dims, a, b)) return a;
    return IG_DIM_NONE;
}

bool ig_atoms_find(struct ig_dims *dims, const struct ig_type *from, const struct ig_type *to,
                   struct ig_atoms *out_atoms) {
    struct cutting a = {dims, from, from->rank - 1, from->rank ? from->dim[from->rank - 1] : IG_DIM_NONE};
    struct cutting b = {dims, to, to->rank - 1, to->rank ? to->dim[to->rank - 1] : IG_DIM_NONE};
    struct ig_atoms reversed = {0};
    while (true) {
        bool more_a = advance(&a), more_b = advance(&b);
        if (!more_a && !more_b) break;
        if (!more_a || !more_b || reversed.count == IG_MAX_ATOMS) return false;
        ig_dim size = common_end(dims, a.rest, b.rest);
        if (size == IG_DIM_NONE) return false;
        reversed.size[reversed.count] = size;
        reversed.from[reversed.count] = a.axis;
        reversed.to[reversed.count++] = b.axis;
        a.rest = a.rest == size ? ig_dim_const(dims, 1) : ig_dim_div(dims, a.rest, size);
        b.rest = b.rest == size ? ig_dim_const(dims, 1) : ig_dim_div(dims, b.rest, size);
    }
    out_atoms->count = reversed.count;
    for (int i = 0; i < reversed.count; i++) {
        out_atoms->size[i] = reversed.size[reversed.count - 1 - i];
        out_atoms->from[i] = reversed.from[reversed.count - 1 - i];
        out_atoms->to[i] = reversed.to[reversed.count - 1 - i];
    }
    return true;
}
