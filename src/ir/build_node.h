/* Internals of the builder, for build*.c and the parser. */
#ifndef IG_IR_BUILD_NODE_H
#define IG_IR_BUILD_NODE_H

#include "ir/build.h"

/* A node's contents as words: the hash key by which equal nodes are found. */
struct ig_key {
    struct ig_job *job;
    uint64_t *at; /* `local`, or memory in the arena */
    size_t count, capacity;
    uint64_t local[96];
};
void ig_key_make(struct ig_key *key, struct ig_graph *g, const struct ig_node *node, const struct ig_type *type);
void ig_key_add(struct ig_key *key, uint64_t word);

/* The value that replaces a node whose contents are known; IG_NO_VALUE if they are not, or the node stays. */
ig_value ig_build_known(struct ig_graph *g, const struct ig_node *node, const struct ig_type *type,
                        const struct ig_value_info *facts);

/* A constant of that type, whose dims must be constant. */
ig_value ig_build_typed_constant(struct ig_graph *g, const struct ig_type *type, const struct ig_data *data);
/* Appends a node of one output without simplification: it is neither elided nor replaced by its known contents. */
ig_value ig_build_plain(struct ig_graph *g, enum ig_op op, const ig_value *in, uint32_t n_in,
                        const struct ig_attr *attrs);
/* Appends the node even if an equal one exists, for the parser. Types are inferred; those of constants are given. */
ig_value ig_build_verbatim(struct ig_graph *g, const struct ig_node *node, struct ig_type *types);

#endif
