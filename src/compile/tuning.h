/* Tuning as part of a build: options, sizes and timing caches in, the choice for every region out. */
#ifndef IG_COMPILE_TUNING_H
#define IG_COMPILE_TUNING_H

#include "compile/kernels.h"
#include "compile/options.h"
#include "tune/tune.h"

/*
 * NULL where the options ask for no tuning: neither seconds nor a timing cache, or optimisation level 0. Else measures
 * within the budget and writes the last timing cache anew if something was measured.
 */
const struct ig_tuner *ig_tuning_run(struct ig_graph *graph, const struct ingot_build_options *options,
                                     const struct ig_target_choice *target, const struct ig_kernel_compiler *compiler);

#endif
