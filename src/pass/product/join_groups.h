/* Part of pack.c: grouped convolutions of few channels on GPUs. */
#ifndef IG_PASS_JOIN_GROUPS_H
#define IG_PASS_JOIN_GROUPS_H

#include "ir/build.h"

/* Makes several groups of a convolution one, where tensor cores are faster so: returns the weights [M, joined channels,
 * kernel...] and sets the number of groups; or returns `w`, [M, channels, kernel...], a constant of static shape. `patches`: the
 * target has kernels that multiply patches of images. */
ig_value ig_join_groups(struct ig_graph *g, ig_value w, int64_t *groups, bool patches);

/* [rows, n, each], of known sizes, to [rows, n, n, each], zero but where both indices of n are equal. */
ig_value ig_spread_diagonal(struct ig_graph *g, ig_value v, int64_t rows, int64_t n, int64_t each);

#endif
