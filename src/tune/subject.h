/*
 * The subject of a measurement: a region extracted from its graph, at certain values of its symbols, with input data.
 */
#ifndef IG_TUNE_SUBJECT_H
#define IG_TUNE_SUBJECT_H

#include "kernel/kernel.h"
#include "kernel/sizes.h"

struct ig_subject {
    struct ig_job *job;
    struct ig_graph *graph; /* the graph of the region */
    const struct ig_region *region;
    const struct ig_sizes *sizes;
    struct ig_graph *alone; /* the region as a separate graph, without symbols */
    uint32_t n_inputs;      /* inputs of the kernel: those of the region that are not literals */
    struct ingot_tensor *inputs;
    bool *is_const; /* by input: it is a weight */
    uint32_t n_outputs;
    struct ingot_tensor *outputs; /* types and sizes; no data */
};

/* "batch=8, seq=128": the symbols that the region depends on, sorted by name. */
const char *ig_subject_shapes(struct ig_graph *graph, const struct ig_region *region, const struct ig_sizes *sizes);

/* Extracts the region and fills its inputs: constants of moderate size with their values; floats from a seed, weights
 * in -0.05 … 0.05 and all others in -1 … 1; those of 8 and 4 bits in -4 … 4; indices within their bounds. */
struct ig_subject *ig_subject_create(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_sizes *sizes);
/* Frees the inputs before the job ends. */
void ig_subject_destroy(struct ig_subject *subject);

/* The reference evaluator's results; free each with ig_eval_release. */
void ig_subject_evaluate(const struct ig_subject *subject, struct ingot_tensor *out_outputs);

/* Compares one output with the expected one: NULL if it is right, else a description of the error. Tolerances, relative
 * to the largest magnitude: f32 2e-4 (rounded products: 4e-3, fast sums: 2e-2), f16 4e-3, bf16 3e-2, f64 1e-9; floats of 8
 * and 4 bits may also be neighbours; integers rounded from floats may differ by one, all others must be equal. */
const char *ig_subject_compare(const struct ig_subject *subject, uint32_t output, const void *expected,
                               const void *got);

#endif
