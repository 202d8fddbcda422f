/*
 * Precisions: what the builder was asked for, and what the precision pass (precision.c) decides for each value.
 */
#ifndef IG_PASS_PRECISION_H
#define IG_PASS_PRECISION_H

#include "ir/graph.h"

/* Numbers of `ingot build --precision`. */
enum ig_precision {
    IG_PRECISION_FP32, /* as the model says */
    IG_PRECISION_TF32, /* the same, but products of contractions may be rounded (IG_MATH_TF32) */
    IG_PRECISION_FP16,
    IG_PRECISION_BF16,
    IG_PRECISION_COUNT
};
extern const char *const ig_precision_names[IG_PRECISION_COUNT]; /* "fp32", … */

/* Nodes whose name or operator fits the pattern have a precision of their own. */
struct ig_precision_rule {
    const char *pattern; /* with * and ? */
    size_t length;       /* of the pattern: an equals sign follows */
    enum ig_precision precision;
};
struct ig_precisions {
    enum ig_precision base;
    const struct ig_precision_rule *rules; /* the last that fits counts */
    size_t n_rules;
};

/* Reads the build options, with NULL for fp32; raises INGOT_INVALID_ARGUMENT. `graph`, as imported, has the nodes: a
 * pattern that fits none is a mistake. */
void ig_precisions_parse(struct ig_graph *graph, const char *base, const char *const *of, size_t n_of,
                         struct ig_precisions *out_precisions);
/* "fp16, Softmax=fp32" */
const char *ig_precisions_text(struct ig_job *job, const struct ig_precisions *precisions);
/* Of a node, by its origin ("Conv 'conv1'", or NULL). */
enum ig_precision ig_precision_of(const struct ig_precisions *precisions, const char *origin);
/* The type that values of that precision are stored in. */
enum ingot_dtype ig_precision_dtype(enum ig_precision precision);

/* What is known of a value's numbers (precision_range.c). */
struct ig_range {
    bool large;      /* may lie outside of what f16 holds, or is an integer that must stay exact */
    bool statistic;  /* computed from sums or means of others */
    bool reciprocal; /* of a statistic */
    bool quantized;  /* computed from integers, elementwise */
    bool rounded;    /* becomes an integer: rounding it before may move that by a whole step */
};
/* By value; f32 ones only. */
struct ig_range *ig_precision_ranges(struct ig_graph *graph);

/* What a value is stored in: a narrow type, or wide for a reason. */
struct ig_storage {
    enum ingot_dtype dtype; /* INGOT_F16, INGOT_BF16; INGOT_DTYPE_NONE: as it is */
    const char *reason;     /* why it is not narrow, though the precision asks for it; may be NULL */
};
/* By value of a graph whose regions have been formed (precision_storage.c). */
struct ig_storage *ig_precision_storage(struct ig_graph *graph, const struct ig_precisions *precisions,
                                        const struct ig_range *ranges);

#endif
