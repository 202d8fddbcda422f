/* The inside of the builder, for build*.c and the parser. */
#ifndef IG_IR_BUILD_NODE_H
#define IG_IR_BUILD_NODE_H

#include "ir/build.h"

/* A node's contents, by which equal nodes are found. */
struct ig_key {
    struct ig_job *job;
    uint64_t *at; /* `local`, or the arena's */
    size_t count, capacity;
    uint64_t local[96];
};
void ig_key_make(struct ig_key *key, struct ig_graph *g, const struct ig_node *node, const struct ig_type *type);
void ig_key_add(struct ig_key *key, uint64_t word);

/* The value that a node gives way to, its contents being known; IG_NO_VALUE where they are not, or it stays. */
ig_value ig_build_known(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type,
                        const struct ig_value_info *facts);

/* A constant of that type (whose dims are constant). */
ig_value ig_build_typed_constant(struct ig_graph *g, const struct ig_type *type, const struct ig_data *data);
/* A node of one output just as it is said: it neither vanishes nor gives way to its known contents. */
ig_value ig_build_plain(struct ig_graph *g, enum ig_op op, const ig_value *in, uint32_t n_in,
                        const struct ig_attr *attrs);
/* Appends the node even where an equal one exists, for texts: types inferred (of a constant, given). */
ig_value ig_build_verbatim(struct ig_graph *g, const struct ig_node *node, struct ig_type *types);

#endif
