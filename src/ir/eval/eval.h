/*
 * The reference evaluator: plain C, double accumulation, no optimisation. The oracle for constants, for the tests of
 * every kernel, and for `ingot verify`.
 */
#ifndef IG_IR_EVAL_H
#define IG_IR_EVAL_H

#include "ir/graph.h"

/*
 * Evaluates the whole graph. Inputs are in the graph's order and borrowed; their shapes give the symbols their values
 * (raises INGOT_INVALID_ARGUMENT if they contradict). A symbol named "INPUT[k]" is element k of the integer input
 * INPUT. Outputs are allocated with the job's allocator, one block each; the caller frees them (ig_eval_release).
 */
void ig_eval_graph(struct ig_job *job, struct ig_graph *graph, const struct ingot_tensor *inputs,
                   struct ingot_tensor *out_outputs);
void ig_eval_release(struct ig_job *job, struct ingot_tensor *tensor);
/*
 * The same for the graphs of all ranks of a group, in lockstep: each up to its next collective, then that one of all of them.
 * Every rank has a graph of its own and the same inputs. out_outputs: those of rank 0, then of rank 1, … Raises INGOT_INTERNAL if the ranks do not
 * come to the same collectives in the same order.
 */
void ig_eval_ranks(struct ig_job *job, struct ig_graph *const *graphs, uint32_t ranks,
                   const struct ingot_tensor *inputs, struct ingot_tensor *out_outputs);

/*
 * The contents of a constant value, on which the caller decides something: the initialisers that it is computed from
 * become structural (ig_const_decides). ig_const_weight is for contents that are stored and decide nothing.
 *
 * Small ones are cached. A large one is evaluated anew and belongs to the caller
 * until ig_const_release (harmless for a cached one) or the end of the job. A plain `constant` node gives its own data
 * without a copy, unless they are not aligned to their element size.
 */
struct ingot_tensor ig_const_tensor(struct ig_graph *graph, ig_value value);
struct ingot_tensor ig_const_weight(struct ig_graph *graph, ig_value value);
void ig_const_release(struct ig_graph *graph, ig_value value, struct ingot_tensor *tensor);
/* Notes at the initialisers that `value` is computed from that something depends on their values, and where: with others,
 * the graph, a kernel's code or the plan could be different. Harmless for values that are not constant. */
void ig_const_decides(struct ig_graph *graph, ig_value value);

/* Element access with conversion, for evaluators, folding and tests. */
double ig_load_f64(enum ingot_dtype dtype, const void *data, int64_t index);
int64_t ig_load_i64(enum ingot_dtype dtype, const void *data, int64_t index); /* u64 reinterpreted; floats truncated */
void ig_store_f64(enum ingot_dtype dtype, void *data, int64_t index, double value);  /* rounds to nearest even */
void ig_store_i64(enum ingot_dtype dtype, void *data, int64_t index, int64_t value); /* wraps */

#endif
