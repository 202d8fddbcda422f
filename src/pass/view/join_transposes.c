/*
 * join-transposes: two transposes with a reshape between them that only merges axes become one, before the reshape.
 *
 * Requires:   layout, which looks for the transposes of its convolutions in their original places.
 * Guarantees: the matrices of such chains (the heads of an attention, say, before the projection that follows) have
 *             rows that are contiguous pieces in memory, which contractions can copy.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

/* The order of the axes of `from` that merges them into the axes of `to` in the order of perm. False if an axis of
 * `from` would be split. */
static bool find_order(struct ig_graph *g, const struct ig_type *from, const struct ig_type *to, const int64_t *perm,
                       int64_t *out_order) {
    struct ig_atoms atoms;
    int parts[INGOT_MAX_RANK] = {0}, count = 0;
    if (!ig_atoms_find(g->dims, from, to, &atoms)) return false;
    for (int i = 0; i < atoms.count; i++)
        if (++parts[atoms.from[i]] > 1) return false;
    for (int axis = 0; axis < from->rank; axis++)
        if (parts[axis] == 0) out_order[count++] = axis; /* of size 1: its position is arbitrary */
    for (int axis = 0; axis < to->rank; axis++) {
        for (int i = 0; i < atoms.count; i++)
            if (atoms.to[i] == perm[axis]) out_order[count++] = atoms.from[i];
    }
    return true;
}

static bool join(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    const struct ig_node *reshape = n->op == IG_OP_transpose ? ig_def_op(g, in[0], IG_OP_reshape) : NULL;
    if (!reshape || !ig_def_op(g, reshape->in[0], IG_OP_transpose)) return false;
    struct ig_type from = *ig_type_of(g, reshape->in[0]), to = *ig_type_of(g, in[0]);
    const int64_t *perm = ig_attr(rw->in, n, IG_ATTR_perm)->ints;
    int64_t order[INGOT_MAX_RANK];
    ig_dim dims[INGOT_MAX_RANK];
    if (!find_order(g, &from, &to, perm, order)) return false;
    for (int axis = 0; axis < to.rank; axis++)
        dims[axis] = to.dim[perm[axis]];
    out_values[0] = ig_view_reshape(g, ig_view_transpose(g, reshape->in[0], order), dims, to.rank);
    return true;
}

struct ig_graph *ig_pass_join_transposes(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, join, NULL);
}
