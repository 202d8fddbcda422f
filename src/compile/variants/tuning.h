/* Tuning within a build: from options, sizes and timing caches to a choice for every region. */
#ifndef IG_COMPILE_TUNING_H
#define IG_COMPILE_TUNING_H

#include "compile/kernels.h"
#include "compile/options.h"
#include "tune/tune.h"

/* Do the options request tuning: seconds or a timing cache? */
bool ig_tuning_is_wanted(const struct ingot_build_options *options);

/*
 * NULL if the options request no tuning: neither seconds nor a timing cache, or optimisation level 0. Otherwise
 * measures within the budget, and rewrites the last timing cache if something was measured.
 */
const struct ig_tuner *ig_tuning_run(struct ig_graph *graph, const struct ingot_build_options *options,
                                     const struct ig_target_choice *target, const struct ig_kernel_compiler *compiler);

#endif
