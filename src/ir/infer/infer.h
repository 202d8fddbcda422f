/*
 * Type inference: one function per row of ops.def, ig_infer_NAME, called by the builder and the verifier. It checks the
 * node's inputs and attributes and fills the types of its outputs. Messages read "matmul(f32[2,3], f32[4,5]): …".
 */
#ifndef IG_IR_INFER_H
#define IG_IR_INFER_H

#include "ir/graph.h"

struct ig_infer {
    struct ig_graph *graph;
    struct ig_dims *dims;
    const struct ig_node *node; /* complete except for `out` */
    struct ig_type *out;        /* one per output; the caller fills that of `constant` */
};

/* Checks arity and the kinds of attributes, then calls the row's function. */
void ig_infer_node(struct ig_graph *graph, const struct ig_node *node, struct ig_type *out_types);

#define IG_MAP(name, ...)
#define IG_OP(name, ...) void ig_infer_##name(struct ig_infer *x);
#include "ir/ops.def"
void ig_infer_map(struct ig_infer *x); /* all elementwise rows */

/* ---- For the inference rules */

_Noreturn void ig_infer_fail(struct ig_infer *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool ig_infer_has(const struct ig_infer *x, uint32_t input);
const struct ig_type *ig_infer_in(struct ig_infer *x, uint32_t input);
const struct ig_attr *ig_infer_attr(struct ig_infer *x, enum ig_attr_name name);
int64_t ig_infer_int(struct ig_infer *x, enum ig_attr_name name);
/* An axis attribute, checked against the rank. */
int ig_infer_axis(struct ig_infer *x, enum ig_attr_name name, int rank);
/* An attribute with exactly `count` elements. */
const int64_t *ig_infer_ints(struct ig_infer *x, enum ig_attr_name name, int count);
const ig_dim *ig_infer_dims(struct ig_infer *x, enum ig_attr_name name, int count);
/* Fails unless the input has that rank (or type). */
void ig_infer_rank(struct ig_infer *x, uint32_t input, int rank);
void ig_infer_dtype(struct ig_infer *x, uint32_t input, enum ingot_dtype dtype);
void ig_infer_index_dtype(struct ig_infer *x, uint32_t input); /* i32 or i64 */
void ig_infer_numeric(struct ig_infer *x, uint32_t input);
/* The common value of two dims that must be equal; fails if they cannot be, naming them with `what`. */
ig_dim ig_infer_unify(struct ig_infer *x, ig_dim a, ig_dim b, const char *what);
/* Fails if the dim is certainly negative. */
void ig_infer_not_negative(struct ig_infer *x, ig_dim dim, const char *what);
const char *ig_infer_dim_text(struct ig_infer *x, ig_dim dim);

/* Equal, or assumed to be (ig_graph_assume_equal); false if they cannot be. *out_dim is the constant one, if any. */
bool ig_dims_unify(struct ig_graph *graph, ig_dim a, ig_dim b, ig_dim *out_dim);
/* Broadcasts two dims by NumPy's rule. A dim that is at most 1 is assumed to be 1. */
bool ig_dims_broadcast(struct ig_graph *graph, ig_dim a, ig_dim b, ig_dim *out_dim);

#endif
