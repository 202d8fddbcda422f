/*
 * Precisions: the request of the build options, and the decision of the precision pass (precision.c) for each value.
 */
#ifndef IG_PASS_PRECISION_H
#define IG_PASS_PRECISION_H

#include "ir/graph.h"

/* The values of `ingot build --precision`. */
enum ig_precision {
    IG_PRECISION_FP32, /* as in the model */
    IG_PRECISION_TF32, /* as in the model, but products of contractions may be rounded (IG_MATH_TF32) */
    IG_PRECISION_FP16,
    IG_PRECISION_BF16,
    IG_PRECISION_COUNT
};
extern const char *const ig_precision_names[IG_PRECISION_COUNT]; /* "fp32", … */

/* Precision for nodes whose name or operator matches the pattern. */
struct ig_precision_rule {
    const char *pattern; /* may contain * and ? */
    size_t length;       /* of the pattern; an equals sign follows it */
    enum ig_precision precision;
};
struct ig_precisions {
    enum ig_precision base;
    const struct ig_precision_rule *rules; /* the last match wins */
    size_t n_rules;
};

/* Parses the build options; NULL means fp32. Raises INGOT_INVALID_ARGUMENT. `graph` is the imported graph: a pattern
 * that matches none of its nodes is an error. */
void ig_precisions_parse(struct ig_graph *graph, const char *base, const char *const *of, size_t n_of,
                         struct ig_precisions *out_precisions);
/* "fp16, Softmax=fp32" */
const char *ig_precisions_text(struct ig_job *job, const struct ig_precisions *precisions);
/* The precision of a node, by its origin ("Conv 'conv1'", or NULL). */
enum ig_precision ig_precision_of(const struct ig_precisions *precisions, const char *origin);
/* The storage type of a precision. */
enum ingot_dtype ig_precision_dtype(enum ig_precision precision);

/* Facts about the numbers in a value (precision_range.c). */
struct ig_range {
    bool large;      /* may exceed the range of f16, or is an integer that must stay exact */
    bool statistic;  /* computed from sums or means of others */
    bool reciprocal; /* reciprocal of a statistic */
    bool quantized;  /* elementwise function of integers */
    bool rounded;    /* will be rounded to an integer: rounding earlier could change that by a whole step */
};
/* By value; only f32 values have facts. */
struct ig_range *ig_precision_ranges(struct ig_graph *graph);

/* How a value is stored: narrow, or wide for a reason. */
struct ig_storage {
    enum ingot_dtype dtype; /* INGOT_F16, INGOT_BF16; INGOT_DTYPE_NONE: unchanged */
    const char *reason;     /* why it is not narrow although the precision requests it; may be NULL */
};
/* By value, for a graph whose regions have been formed (precision_storage.c). */
struct ig_storage *ig_precision_storage(struct ig_graph *graph, const struct ig_precisions *precisions,
                                        const struct ig_range *ranges);

#endif
