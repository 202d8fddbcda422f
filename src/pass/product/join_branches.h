/* Part of fold_batch_norm.c: sums of convolutions of one input. */
#ifndef IG_PASS_JOIN_BRANCHES_H
#define IG_PASS_JOIN_BRANCHES_H

#include "ir/build.h"

/*
 * The sum of two branches of one input as one convolution, whose weights are the sum of theirs: convolutions that differ in
 * their kernels at most, the smaller of which lies within the larger; one of them may be the input itself, times a
 * constant per channel, plus another. Networks are trained so and run without the branches (Ding et al., "RepVGG: making
 * VGG-style ConvNets great again", 2021). IG_NO_VALUE if they are something else.
 */
ig_value ig_join_branches(struct ig_graph *g, ig_value a, ig_value b);

#endif
