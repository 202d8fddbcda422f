/* Estimates of regions, for the passes: by the kernels that they would get. */
#ifndef IG_COMPILE_ESTIMATES_H
#define IG_COMPILE_ESTIMATES_H

#include "base/map.h"
#include "kernel/kernel.h"
#include "pass/pass.h"

struct ig_estimates {
    const struct ig_target *target;
    struct ig_map by_fingerprint; /* numbers of times */
    IG_VEC(double) times;
};

/* NULL for CPUs, for whose kernels there are no estimates. Equal regions are estimated once. */
const struct ig_estimator *ig_estimates_open(struct ig_job *job, const struct ig_target *target);

#endif
