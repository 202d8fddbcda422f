/*
 * Symbolic contents: the integer (or bool) elements of a value that are known as expressions of the model's symbols.
 * They make shape arithmetic (Shape, Gather, Concat, …) disappear: the builder computes the contents of every node that
 * it appends, and replaces a fully known one by a `shape` or `constant` node.
 */
#ifndef IG_IR_ELEMENTS_H
#define IG_IR_ELEMENTS_H

#include "ir/graph.h"

enum { IG_ELEMENTS_MAX = 1024 }; /* larger values are data, not shapes */

/* One entry per element of the result, IG_DIM_NONE if unknown. NULL if all are unknown, the type has no integer
 * elements, or there are more than IG_ELEMENTS_MAX. Never raises because of the contents: overflow makes them
 * unknown. */
const ig_dim *ig_elements_compute(struct ig_graph *graph, const struct ig_node *node, const struct ig_type *type);

/* ---- For elements*.c */

struct ig_elements {
    struct ig_graph *graph;
    struct ig_dims *dims;
    const struct ig_node *node;
    const struct ig_type *type;  /* of the result */
    int64_t dim[INGOT_MAX_RANK]; /* of the result */
    int count;
    ig_dim *result; /* initially all IG_DIM_NONE */
};

/* The known contents and the static dims of an input; false if nothing is known. */
bool ig_elements_input(struct ig_elements *e, uint32_t input, const ig_dim **out_elements,
                       int64_t out_dims[INGOT_MAX_RANK]);
const struct ig_attr *ig_elements_attr(struct ig_elements *e, enum ig_attr_name name);
/* Splits a row-major offset into an index, and the inverse. */
void ig_elements_split(int64_t position, const int64_t *dims, int rank, int64_t *out_index);
int64_t ig_elements_position(const int64_t *index, const int64_t *dims, int rank);
/* The offset, for an index of the result, in an operand of shape `dims` that is broadcast to it. */
int64_t ig_elements_broadcast(const struct ig_elements *e, const int64_t *index, const int64_t *dims, int rank);

/* Movement and reductions (elements_move.c, elements_reduce.c). */
void ig_elements_reshape(struct ig_elements *e);
void ig_elements_transpose(struct ig_elements *e);
void ig_elements_expand(struct ig_elements *e);
void ig_elements_slice(struct ig_elements *e);
void ig_elements_pad(struct ig_elements *e);
void ig_elements_concat(struct ig_elements *e);
void ig_elements_gather(struct ig_elements *e);
void ig_elements_gather_elements(struct ig_elements *e);
void ig_elements_gather_nd(struct ig_elements *e);
void ig_elements_scatter_elements(struct ig_elements *e);
void ig_elements_scatter_nd(struct ig_elements *e);
void ig_elements_reduce(struct ig_elements *e);
void ig_elements_cumsum(struct ig_elements *e);

#endif
