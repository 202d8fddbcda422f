/* Convolutions of one input whose windows lie within each other: sums of such (part of fold_batch_norm.c). */
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

/* Where the window of the convolution `small` (NULL: one position at the output's own place) lies in that of `large`: the first
 * tap of each axis; false if it does not. */
bool ig_place_window(const struct ig_graph *g, const struct ig_node *large, const struct ig_node *small,
                     int64_t *out_at);
/* Weights [M, channels, kernel...] with zeros around, so that their window is that of `large`. */
ig_value ig_window_within(struct ig_graph *g, ig_value w, const struct ig_node *large, const int64_t *at);

#endif
