/*
 * Operators that a caller adds one by one (ingot/network.h) instead of a file: names and attributes, checked, become nodes.
 * The builder is the one that the ONNX importer uses.
 */
#ifndef IG_IMPORT_NETWORK_NETWORK_H
#define IG_IMPORT_NETWORK_NETWORK_H

#include "base/map.h"
#include "ingot/ingot.h"
#include "ir/graph.h"

struct ig_onnx;

/* What a network and the bodies of its control flow share. */
struct ig_network {
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_initializers *initializers;
    struct ig_onnx *onnx; /* adds ONNX's operators */
    /* Symbols by name: those that are the size of an input, or its element; and those for which one must still come. */
    struct ig_map known, awaited;
    IG_VEC(const char *) awaiting; /* the keys of `awaited` */
};

void ig_network_init(struct ig_network *network, struct ig_job *job, int onnx_opset);

/* A dim that inputs have: its symbols become known if they are a whole dim, or are awaited. Raises INGOT_INVALID_ARGUMENT for what
 * is no dim. */
ig_dim ig_network_input_dim(struct ig_network *network, const char *text);
/* The symbol of that name, which is known from now on. */
ig_dim ig_network_symbol(struct ig_network *network, const char *name);
/* A dim of known symbols; raises INGOT_INVALID_ARGUMENT for others. */
ig_dim ig_network_dim(struct ig_network *network, const char *text);
/* Raises INGOT_INVALID_ARGUMENT if a symbol is still awaited. */
void ig_network_check_symbols(struct ig_network *network);

/* Checks that a tensor can be a constant: its type, dims and data. Returns the size of its data. */
size_t ig_network_check_tensor(struct ig_network *network, const struct ingot_tensor *tensor);

/*
 * Appends the operator to `g`, whose values its inputs must be; fills out_values. `bodies` are the graphs of its attributes
 * of the kind INGOT_ATTRIBUTE_BODY, in their order. Raises as ingot_network_add fails.
 */
void ig_network_add(struct ig_network *network, struct ig_graph *g, const struct ingot_operator *op,
                    struct ig_graph *const *bodies, ig_value *out_values, size_t n_outputs);

/* A core operator (core.c). */
void ig_network_add_core(struct ig_network *network, struct ig_graph *g, const struct ingot_operator *op,
                         struct ig_graph *const *bodies, ig_value *out_values, size_t n_outputs);

#endif
