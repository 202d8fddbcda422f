/*
 * What is measured: a region at certain sizes of its symbols, taken out of its graph, with numbers to compute on.
 */
#ifndef IG_TUNE_SUBJECT_H
#define IG_TUNE_SUBJECT_H

#include "kernel/kernel.h"

/* Numbers for symbols. */
struct ig_sizes {
    struct ig_dims *dims;
    IG_VEC(ig_dim) symbols;
    IG_VEC(int64_t) values;
};

/* Sets or replaces one. */
void ig_sizes_set(struct ig_sizes *sizes, struct ig_job *job, ig_dim symbol, int64_t value);
/* The number that an expression has; raises INGOT_UNSUPPORTED where it has none. */
int64_t ig_sizes_of(const struct ig_sizes *sizes, struct ig_job *job, ig_dim dim);

struct ig_subject {
    struct ig_job *job;
    struct ig_graph *graph; /* where the region is */
    const struct ig_region *region;
    const struct ig_sizes *sizes;
    struct ig_graph *alone; /* the region as a graph of its own, without symbols */
    uint32_t n_inputs;      /* that a kernel gets: those of the region that are no literals */
    struct ingot_tensor *inputs;
    bool *is_const; /* by input: a weight */
    uint32_t n_outputs;
    struct ingot_tensor *outputs; /* types and sizes; no data */
};

/* "batch=8, seq=128": the symbols that the region depends on, by name. */
const char *ig_subject_shapes(struct ig_graph *graph, const struct ig_region *region, const struct ig_sizes *sizes);

/* Takes the region out and fills its inputs: constants of moderate size with their values; floats from a seed, weights in
 * -0.05 … 0.05 and all others in -1 … 1; what indexes something within its bounds. */
struct ig_subject *ig_subject_create(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_sizes *sizes);
/* Gives the inputs' memory back before the job ends. */
void ig_subject_destroy(struct ig_subject *subject);

/* The reference evaluator's results: to be given back by ig_eval_release, one by one. */
void ig_subject_evaluate(const struct ig_subject *subject, struct ingot_tensor *out_outputs);

/* Compares one output with what it should be: NULL where it is right, else what is wrong with it. The difference of floats
 * may be so much of the largest magnitude: f32 2e-4 (rounded products: 4e-3), f16 4e-3, bf16 3e-2, f64 1e-9; integers
 * that floats were rounded to may differ by one, all others are exact. */
const char *ig_subject_compare(const struct ig_subject *subject, uint32_t output, const void *expected,
                               const void *got);

#endif
