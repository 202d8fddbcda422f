/*
 * Views in their shortest form, and what the passes about them have in common (view.c, sink*.c).
 */
#ifndef IG_PASS_VIEW_H
#define IG_PASS_VIEW_H

#include "ir/build.h"
#include "pass/pass.h"

/* A transpose merged with the one below it: nothing where they cancel, a reshape where only axes of size 1 move. */
ig_value ig_view_transpose(struct ig_graph *g, ig_value v, const int64_t *perm);
/* A reshape merged with the ones below it; nothing where the shape is that already. */
ig_value ig_view_reshape(struct ig_graph *g, ig_value v, const ig_dim *dims, int rank);
/* Undoes ig_view_transpose(…, perm). */
ig_value ig_view_untranspose(struct ig_graph *g, ig_value v, const int64_t *perm);

/* The permutations between [N,C,spatial...] and [N,spatial...,C]. */
void ig_perm_to_last(int rank, int64_t *out_perm);
void ig_perm_to_first(int rank, int64_t *out_perm);
/* True for ig_perm_to_first of a rank of 3 and more. */
bool ig_perm_is_to_first(const int64_t *perm, int rank);

/* True where perm only moves axes of size 1 of a value of that type, so that the transpose is a reshape. */
bool ig_perm_moves_only_ones(const struct ig_dims *dims, const struct ig_type *type, const int64_t *perm);

bool ig_dim_is(const struct ig_dims *dims, ig_dim dim, int64_t value);
/* One element, by its dims. */
bool ig_type_is_single(const struct ig_dims *dims, const struct ig_type *type);

/* A copy of a node's attributes that may be changed: ig_attr_slot gives the one of that name. */
struct ig_attr *ig_attrs_copy(struct ig_graph *g, enum ig_op op, const struct ig_attr *attrs);
int ig_attr_slot(enum ig_op op, enum ig_attr_name name);

/*
 * Axes of one shape against axes of another with the same elements in the same order. Both are cut into atoms, the
 * smallest common refinement: [2,12] and [8,3] have the atoms 2, 4, 3. Axes of size 1 have no atom.
 */
enum { IG_MAX_ATOMS = 2 * INGOT_MAX_RANK };
struct ig_atoms {
    int count;
    ig_dim size[IG_MAX_ATOMS];
    int from[IG_MAX_ATOMS]; /* the axis of the first shape that the atom is a part of */
    int to[IG_MAX_ATOMS];   /* … of the second */
};
/* False where the sizes cannot be matched by their symbolic form. */
bool ig_atoms_find(struct ig_dims *dims, const struct ig_type *from, const struct ig_type *to,
                   struct ig_atoms *out_atoms);

/*
 * Appends the node, with the transposes and reshapes of its operands moved behind it: f(transpose(x)) becomes
 * transpose(f(x)). Where that would need new transposes, it is left alone, unless `eager`: then channels-last is
 * preferred wherever at least half of the operands have it (layout.c). Nodes of one result only.
 */
struct ig_sink {
    struct ig_graph *g;
    bool eager;
};
ig_value ig_sink_node(struct ig_sink *s, enum ig_op op, const ig_value *in, uint32_t n_in, const struct ig_attr *attrs);

/* A rule of sinking for one operator: the result, or IG_NO_VALUE where nothing can be moved. */
struct ig_sink_args {
    enum ig_op op;
    const ig_value *in;
    uint32_t n_in;
    const struct ig_attr *attrs;
};
ig_value ig_sink_transpose(struct ig_sink *s, const struct ig_sink_args *a);
ig_value ig_sink_reshape(struct ig_sink *s, const struct ig_sink_args *a);

/* The type of an elementwise node's result but for its dtype: the operands broadcast. */
struct ig_type ig_map_result(struct ig_graph *g, const ig_value *in, uint32_t n_in);

#endif
