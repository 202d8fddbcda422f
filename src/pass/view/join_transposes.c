/*
 * join-transposes: a transpose behind a reshape moves before it, where axes stay whole: two transposes become one, and
 * what a product computes is transposed before it is reshaped.
 *
 * Requires:   layout, which looks for the transposes of its convolutions in their original places.
 * Guarantees: the matrices of such chains (the heads of an attention, say, before the projection that follows) have
 *             rows that are contiguous pieces in memory, which contractions can copy, and attentions store their results
 *             in the order in which the projection reads them.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

/* The order of the axes of `from` in which they lie as the axes of `to` do in the order of perm. False if the parts of an
 * axis of `from` would come apart. */
static bool find_order(struct ig_graph *g, const struct ig_type *from, const struct ig_type *to, const int64_t *perm,
                       int64_t *out_order) {
    struct ig_atoms atoms;
    bool placed[INGOT_MAX_RANK] = {false};
    bool has_parts[INGOT_MAX_RANK] = {false};
    int count = 0, last = -1;
    if (!ig_atoms_find(g->dims, from, to, &atoms)) return false;
    for (int i = 0; i < atoms.count; i++)
        has_parts[atoms.from[i]] = true;
    for (int axis = 0; axis < from->rank; axis++)
        if (!has_parts[axis]) out_order[count++] = axis; /* of size 1: its position is arbitrary */
    for (int axis = 0; axis < to->rank; axis++) {
        for (int i = 0; i < atoms.count; i++) {
            if (atoms.to[i] != perm[axis]) continue;
            bool goes_on = last >= 0 && i == last + 1 && atoms.from[i] == atoms.from[last];
            if (!goes_on && placed[atoms.from[i]]) return false;
            if (!goes_on) out_order[count++] = atoms.from[i];
            placed[atoms.from[i]] = true;
            last = i;
        }
    }
    return true;
}

static bool join(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    const struct ig_node *reshape = n->op == IG_OP_transpose ? ig_def_op(g, in[0], IG_OP_reshape) : NULL;
    if (!reshape) return false;
    if (!ig_def_op(g, reshape->in[0], IG_OP_transpose) && !ig_def_op(g, reshape->in[0], IG_OP_matmul)) return false;
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
