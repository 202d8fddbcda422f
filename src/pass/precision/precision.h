/*
 * Precisions: the request of the build options, and the decision of the precision pass (precision.c) for each value.
 */
#ifndef IG_PASS_PRECISION_H
#define IG_PASS_PRECISION_H

#include "ir/target.h"
#include "pass/bounds.h"

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
    bool everywhere; /* the base too where the target gains nothing from it, as the rules do: for tests of kernels */
};

/* Parses the build options; NULL means fp32. Raises INGOT_INVALID_ARGUMENT. `graph` is the imported graph: a pattern
 * that matches none of its nodes is an error. */
void ig_precisions_parse(struct ig_graph *graph, const char *base, const char *const *of, size_t n_of,
                         struct ig_precisions *out_precisions);
/* "fp16, Softmax=fp32" */
const char *ig_precisions_text(struct ig_job *job, const struct ig_precisions *precisions);
/* The precision of a node, by its origin ("Conv 'conv1'", or NULL). */
enum ig_precision ig_precision_of(const struct ig_precisions *precisions, const char *origin);
/* The type that the node's operand of `dtype` will have; no precisions are asked for if NULL. */
enum ingot_dtype ig_precision_of_operand(const struct ig_precisions *precisions, const struct ig_node *node,
                                         enum ingot_dtype dtype);
/* Has that type 16 bits? */
bool ig_precision_is_half(const struct ig_precisions *precisions, const struct ig_node *node, enum ingot_dtype dtype);
/* Is it to be taken even where it gains nothing, because a rule says so? */
bool ig_precision_is_ordered(const struct ig_precisions *precisions, const char *origin);
/* The storage type of a precision. */
enum ingot_dtype ig_precision_dtype(enum ig_precision precision);

/* What a contraction gains from a narrow type on a target (precision_gain.c); `weights` are all of the graph. */
enum ig_gain {
    IG_GAIN_NOTHING,  /* f32 is as fast, or faster */
    IG_GAIN_WEIGHTS,  /* time to read its weights; it computes in f32 from an f32 operand */
    IG_GAIN_OPERANDS, /* both are read and multiplied faster */
};
enum ig_gain ig_precision_gain(const struct ig_target *target, struct ig_graph *graph,
                               const struct ig_node *contraction, enum ingot_dtype dtype, int64_t weights);
/* The weights of all products of a graph, in elements. */
int64_t ig_precision_weights(struct ig_graph *graph);
/* Does a target gain from narrow values between kernels? */
bool ig_precision_gains_stored(const struct ig_target *target, enum ingot_dtype dtype);

/* Facts about the numbers in a value (precision_range.c). */
struct ig_range {
    bool large;      /* may exceed the range of f16, or is an integer that must stay exact */
    bool power;      /* so because it is a power, an exponential or a square of activations */
    bool statistic;  /* computed from sums or means of others */
    bool average;    /* a statistic of many numbers */
    bool reciprocal; /* reciprocal of a statistic */
    bool quantized;  /* elementwise function of integers */
    bool rounded;    /* will be rounded to an integer: rounding earlier could change that by a whole step */
    uint8_t small;   /* not 0: small ones must be as exact as large ones, and so through this many products, less one */
};
/* By value; only f32 values have facts. */
struct ig_range *ig_precision_ranges(struct ig_graph *graph);
/* Finds `small` in the first `nodes`, from the other facts (precision_small.c). */
void ig_precision_mark_small(struct ig_graph *graph, uint32_t nodes, const struct ig_bounds *bounds,
                             struct ig_range *inout_ranges);

/* How a value is stored: narrow, or wide for a reason. */
struct ig_storage {
    enum ingot_dtype dtype; /* INGOT_F16, INGOT_BF16; INGOT_DTYPE_NONE: unchanged */
    const char *reason;     /* why it is not narrow although the precision requests it; may be NULL */
};
/* By value, for a graph whose regions have been formed (precision_storage.c). */
struct ig_storage *ig_precision_storage(struct ig_graph *graph, const struct ig_target *target,
                                        const struct ig_precisions *precisions, const struct ig_range *ranges);
/* By value, for any graph: the type in which one kernel might store it for another, as far as ranges and readers go.
 * INGOT_DTYPE_NONE: its own. */
enum ingot_dtype *ig_precision_sent(struct ig_graph *graph, const struct ig_target *target,
                                    const struct ig_precisions *precisions, const struct ig_range *ranges);

#endif
