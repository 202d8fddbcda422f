/*
 * What the kernels of one region take at sample points.
 *
 * The cost model tells for all kernels that it knows, at any sizes. Where the tuner has times, the model is corrected by
 * them: a factor for each kernel and each size that was measured, and between these sizes a mean of the factors, in which
 * the nearest count most. A kernel that was not measured at a size where others were has their mean factor there. So
 * measured and estimated times can be compared. Library calls, which have no model, are taken for the best that has one,
 * times their factor.
 */
#ifndef IG_COMPILE_COSTS_H
#define IG_COMPILE_COSTS_H

#include "compile/variants/samples.h"
#include "tune/tune.h"

/* One at which the tuner has times. */
struct ig_measured_size {
    const struct ig_tuned *tuned;
    int64_t values[IG_MODEL_SIZES];
    double least; /* of the modelled candidates there */
    double mean;  /* logarithm of the mean factor of those with a time; 0 if there are none */
    double *far;  /* by point: the square of its distance, in logarithms of sizes */
};

struct ig_costs {
    struct ig_job *job;
    const struct ig_samples *samples;
    struct ig_kernel_model model; /* sizes and cost are those of all kernels of the region that have a model */
    int64_t *values;              /* of the model's sizes: IG_MODEL_SIZES by point */
    double *least;                /* by point: of all kernels modelled so far */
    IG_VEC(struct ig_measured_size) measured;
};

void ig_costs_init(struct ig_costs *costs, struct ig_job *job, const struct ig_samples *samples,
                   const struct ig_kernel_model *model);
/* Is the kernel's model the region's? */
bool ig_costs_has_model(const struct ig_costs *costs, const struct ig_kernel *kernel);
/* Notes a kernel that has: it is one of the best. */
void ig_costs_note(struct ig_costs *costs, const struct ig_kernel *kernel);
/* Adds the tuner's times, after the best kernels were noted. */
void ig_costs_measure(struct ig_costs *costs, const struct ig_tuned *tuned);
/* Microseconds by point; NULL if nothing tells, or the kernel was rejected at some size. */
double *ig_costs_of(const struct ig_costs *costs, const struct ig_kernel *kernel);

#endif
