/*
 * Appends nodes to a graph. Every function infers the type of its result (raising INGOT_BAD_MODEL with operator and
 * shapes if they do not fit), finds the symbolic contents of integer values, and returns the value of an equal node if
 * there is one (so common subexpressions never arise). The inputs of an elementwise node must have one type.
 */
#ifndef IG_IR_BUILD_H
#define IG_IR_BUILD_H

#include "base/collective.h"
#include "ir/graph.h"

/* The position in the model, for messages and explanations; nodes appended from now on carry it. */
void ig_build_origin(struct ig_graph *g, const char *origin);

ig_value ig_build_input(struct ig_graph *g, const char *name, const struct ig_type *type);
void ig_build_output(struct ig_graph *g, const char *name, ig_value value);
/* An output that is stored in the memory of input number `input`, of the same type, when the run has read that. */
void ig_build_update(struct ig_graph *g, const char *name, ig_value value, uint32_t input);
/* An output like one of another graph with the same inputs. */
void ig_build_port(struct ig_graph *g, const struct ig_port *like, ig_value value);
void ig_build_name(struct ig_graph *g, ig_value value, const char *name); /* the first name wins */

/* Records why the value stays in f32 (ig_value_info.kept). */
void ig_build_kept(struct ig_graph *g, ig_value value, const char *reason);
/* Why a product with a quantised operand is not one of bytes but computed as the model has it, for people. */
void ig_build_as_written(struct ig_graph *g, ig_value value, const char *reason);

/* The general form: attributes in the order of the operator's row. Returns the first output; the others have the next
 * indices. */
ig_value ig_build_node(struct ig_graph *g, enum ig_op op, const ig_value *in, uint32_t n_in, uint32_t n_out,
                       const struct ig_attr *attrs, struct ig_graph *const body[2]);
/* Copies a node of this or another graph, with other inputs. */
ig_value ig_build_copy(struct ig_graph *g, const struct ig_graph *from, const struct ig_node *node, const ig_value *in);

struct ig_attr ig_attr_of_int(int64_t i);
struct ig_attr ig_attr_of_float(double f);
struct ig_attr ig_attr_of_ints(const int64_t *ints, int count);
struct ig_attr ig_attr_of_floats(const double *floats, int count);
struct ig_attr ig_attr_of_dim(ig_dim dim);
struct ig_attr ig_attr_of_dims(const ig_dim *dims, int count);
struct ig_attr ig_attr_of_dtype(enum ingot_dtype dtype);
/* Copies a node's attributes with every dim d replaced by other(user, d); absent attributes stay absent. */
struct ig_attr *ig_attrs_with_dims(struct ig_job *job, const struct ig_node *node,
                                   ig_dim (*other)(const void *user, ig_dim dim), const void *user);

/* Constants. `data` must live as long as the graph; the functions below copy. */
ig_value ig_build_constant(struct ig_graph *g, enum ingot_dtype dtype, int rank, const int64_t *dims,
                           const struct ig_data *data);
ig_value ig_build_scalar(struct ig_graph *g, enum ingot_dtype dtype, double value); /* rank 0 */
ig_value ig_build_scalar_int(struct ig_graph *g, enum ingot_dtype dtype, int64_t value);
ig_value ig_build_i64s(struct ig_graph *g, const int64_t *values, int count);
ig_value ig_build_shape(struct ig_graph *g, const ig_dim *values, int count); /* i64[count] */
ig_value ig_build_shape_scalar(struct ig_graph *g, ig_dim value);             /* i64[] */
ig_value ig_build_iota(struct ig_graph *g, const ig_dim *dims, int rank, int axis);

/* Elementwise; scalars of the right type for constants: ig_map2(g, IG_OP_mul, x, ig_build_scalar(g, dtype, 0.5)). */
ig_value ig_map1(struct ig_graph *g, enum ig_op op, ig_value a);
ig_value ig_map2(struct ig_graph *g, enum ig_op op, ig_value a, ig_value b);
ig_value ig_build_where(struct ig_graph *g, ig_value condition, ig_value a, ig_value b);
ig_value ig_build_cast(struct ig_graph *g, ig_value a, enum ingot_dtype to); /* no node if it already has that type */
ig_value ig_build_cast_saturating(struct ig_graph *g, ig_value a, enum ingot_dtype to);

/* Views and movement; no node if the result would be the operand itself. */
ig_value ig_build_reshape(struct ig_graph *g, ig_value a, const ig_dim *dims, int rank);
ig_value ig_build_transpose(struct ig_graph *g, ig_value a, const int64_t *perm);
ig_value ig_build_broadcast(struct ig_graph *g, ig_value a, const ig_dim *dims, int rank);
ig_value ig_build_slice(struct ig_graph *g, ig_value a, const ig_dim *starts, const ig_dim *sizes,
                        const int64_t *steps);
/* One axis only. */
ig_value ig_build_slice_axis(struct ig_graph *g, ig_value a, int axis, ig_dim start, ig_dim size, int64_t step);
ig_value ig_build_pad(struct ig_graph *g, ig_value a, const ig_dim *before, const ig_dim *after, enum ig_pad_mode mode,
                      ig_value value);
/* Appends so many zeros to an axis. */
ig_value ig_build_pad_end(struct ig_graph *g, ig_value a, int axis, int64_t count);
ig_value ig_build_concat(struct ig_graph *g, const ig_value *parts, int count, int axis);
ig_value ig_build_gather(struct ig_graph *g, ig_value a, ig_value index, int axis);
/* Inserts axes of size 1 before the given positions of the result / removes axes of size 1. */
ig_value ig_build_unsqueeze(struct ig_graph *g, ig_value a, const int *axes, int count);
ig_value ig_build_squeeze(struct ig_graph *g, ig_value a, const int *axes, int count);

ig_value ig_build_reduce(struct ig_graph *g, enum ig_op op, ig_value a, const int64_t *axes, int count);
ig_value ig_build_matmul(struct ig_graph *g, ig_value a, ig_value b, enum ingot_dtype acc);
/* With scales for each `block` of the depth; `columns` share one (ops.def). */
ig_value ig_build_matmul_scaled(struct ig_graph *g, ig_value a, ig_value b, ig_value row_scales, ig_value column_scales,
                                int64_t block, int64_t columns);

/* Collectives of a rank's graph, by number (ops.def); `parts` of the axis, one for each of `ranks` ranks. */
ig_value ig_build_all_reduce(struct ig_graph *g, ig_value a, int64_t number, int ranks, enum ig_reduction reduction);
ig_value ig_build_all_gather(struct ig_graph *g, ig_value a, int64_t number, int rank, int axis, const ig_dim *parts,
                             int ranks);
ig_value ig_build_all_to_all(struct ig_graph *g, ig_value a, int64_t number, int ranks);
ig_value ig_build_reduce_scatter(struct ig_graph *g, ig_value a, int64_t number, int rank, int axis,
                                 const ig_dim *parts, int ranks, enum ig_reduction reduction);

/* Symbolic contents: true and out_elements (in the arena) if every element of an integer value is known. */
bool ig_elements(struct ig_graph *g, ig_value value, const ig_dim **out_elements, int *out_count);
/* Contents as numbers: true if the value is a constant of integers with at most `capacity` elements. */
bool ig_const_ints(struct ig_graph *g, ig_value value, int64_t *out, int capacity, int *out_count);
/* The element of a one-element constant, as double. */
bool ig_const_scalar(struct ig_graph *g, ig_value value, double *out);

/* Broadcasts two shapes by NumPy's rules; raises with `what` if they do not fit. */
void ig_broadcast_dims(struct ig_graph *g, const char *what, const struct ig_type *a, const struct ig_type *b,
                       struct ig_type *inout_type);

#endif
