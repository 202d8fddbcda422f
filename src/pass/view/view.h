/*
 * Views in their shortest form, and what the passes on views share (view.c, sink*.c).
 */
#ifndef IG_PASS_VIEW_H
#define IG_PASS_VIEW_H

#include "ir/build.h"
#include "pass/pass.h"

/* Builds a transpose, merged with one that v already is: nothing if they cancel, a reshape if only axes of size 1
 * move. */
ig_value ig_view_transpose(struct ig_graph *g, ig_value v, const int64_t *perm);
/* Builds a reshape, merged with those that v already is; nothing if v has that shape. */
ig_value ig_view_reshape(struct ig_graph *g, ig_value v, const ig_dim *dims, int rank);
/* The same, to known sizes. */
ig_value ig_view_reshape_to(struct ig_graph *g, ig_value v, const int64_t *sizes, int rank);
/* The inverse of ig_view_transpose(…, perm). */
ig_value ig_view_untranspose(struct ig_graph *g, ig_value v, const int64_t *perm);

/* Exchanges the last two axes of v, as of a product's operand. */
ig_value ig_view_swap(struct ig_graph *g, ig_value v);

/* The permutations between [N,C,spatial...] and [N,spatial...,C]. */
void ig_perm_to_last(int rank, int64_t *out_perm);
void ig_perm_to_first(int rank, int64_t *out_perm);
/* Is perm ig_perm_to_first of a rank of at least 3? */
bool ig_perm_is_to_first(const int64_t *perm, int rank);

/* Does perm move only axes of size 1 of a value of that type, so that the transpose is a reshape? */
bool ig_perm_moves_only_ones(const struct ig_dims *dims, const struct ig_type *type, const int64_t *perm);

bool ig_dim_is(const struct ig_dims *dims, ig_dim dim, int64_t value);
/* Do the dims prove that there is exactly one element? */
bool ig_type_is_single(const struct ig_dims *dims, const struct ig_type *type);

/* A mutable copy of a node's attributes; ig_attr_slot gives the index of an attribute in it. */
struct ig_attr *ig_attrs_copy(struct ig_graph *g, enum ig_op op, const struct ig_attr *attrs);
int ig_attr_slot(enum ig_op op, enum ig_attr_name name);

/*
 * Relates the axes of two shapes with the same elements in the same order. Both are factored into atoms, the coarsest
 * common refinement: [2,12] and [8,3] have the atoms 2, 4, 3. Axes of size 1 have no atom.
 */
enum { IG_MAX_ATOMS = 2 * INGOT_MAX_RANK };
struct ig_atoms {
    int count;
    ig_dim size[IG_MAX_ATOMS];
    int from[IG_MAX_ATOMS]; /* axis of the first shape that the atom belongs to */
    int to[IG_MAX_ATOMS];   /* axis of the second shape */
};
/* False if the symbolic sizes cannot be matched. */
bool ig_atoms_find(struct ig_dims *dims, const struct ig_type *from, const struct ig_type *to,
                   struct ig_atoms *out_atoms);

/*
 * Appends a node with the transposes and reshapes of its operands moved behind it: f(transpose(x)) becomes
 * transpose(f(x)). If that would need new transposes, the views stay, unless they are the layout's: then the result is
 * channels-last if at least half of the operands are (layout.c). Only for nodes with one result.
 */
struct ig_sink {
    struct ig_graph *g;
    bool eager;
    struct ig_map *layouts; /* with ig_sink_mark; NULL: none are */
    /* Nothing that follows the node asks for an order of axes: what makes values larger is not moved in front of a transpose. CPUs
     * enlarge pictures faster channels-last. */
    bool ends;
};
/* By value of a graph: does a window (channels-last) or another transpose follow? */
struct ig_followed {
    const struct ig_graph *g;
    bool *by_order;
};
/* Of the node's first result. The answers are kept for one graph at a time; begin with zeros. */
bool ig_is_followed(struct ig_followed *f, const struct ig_graph *g, const struct ig_node *n);
/* Marks a value that the layout pass has transposed, and what becomes of it: a model's own transposes, such as those of
 * tokens and channels in a mixer, look the same but say which axis should be innermost. */
void ig_sink_mark(struct ig_sink *s, ig_value v);
bool ig_sink_is_marked(const struct ig_sink *s, ig_value v);
ig_value ig_sink_node(struct ig_sink *s, enum ig_op op, const ig_value *in, uint32_t n_in, const struct ig_attr *attrs);

/* The sinking rule of one operator: the result, or IG_NO_VALUE if no view can be moved. */
struct ig_sink_args {
    enum ig_op op;
    const ig_value *in;
    uint32_t n_in;
    const struct ig_attr *attrs;
};
ig_value ig_sink_transpose(struct ig_sink *s, const struct ig_sink_args *a);
ig_value ig_sink_reshape(struct ig_sink *s, const struct ig_sink_args *a);

/* The shape of an elementwise node's result: the operands broadcast. The dtype is not set. */
struct ig_type ig_map_result(struct ig_graph *g, const ig_value *in, uint32_t n_in);

#endif
