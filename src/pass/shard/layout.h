/*
 * Layouts: how the ranks of a group hold a value that one machine would hold whole.
 *
 * A split value is divided along one axis, which is taken as outer x count x inner elements, in that order: rank r has a
 * range of the count, for each outer index, with all inner elements. So the heads of a projection that gives queries, keys
 * and values side by side, [3 * 12 * 64], are divided with outer = 3, count = 12 and inner = 64. Counts need not divide: rank
 * r has the range from floor(count * r / ranks) to floor(count * (r + 1) / ranks), in sizes that sum to count symbolically.
 * Long axes of odd sizes, such as vocabularies, have a grain: ranges begin at multiples of it, where kernels' panels begin too.
 */
#ifndef IG_PASS_SHARD_LAYOUT_H
#define IG_PASS_SHARD_LAYOUT_H

#include "base/collective.h"
#include "ir/graph.h"

enum ig_layout_kind {
    IG_LAYOUT_WHOLE,   /* every rank has all of it */
    IG_LAYOUT_SPLIT,   /* each has its part */
    IG_LAYOUT_PARTIAL, /* each has a term of the reduction that gives it */
};

struct ig_layout {
    enum ig_layout_kind kind;
    int axis;                    /* SPLIT; and else 0, as the others that do not apply are */
    ig_dim outer, count, inner;  /* SPLIT */
    int64_t grain;               /* SPLIT: 1, or more of a constant count */
    enum ig_reduction reduction; /* PARTIAL */
};

struct ig_layout ig_layout_whole(void);
struct ig_layout ig_layout_split(int axis, ig_dim outer, ig_dim count, ig_dim inner);
struct ig_layout ig_layout_partial(enum ig_reduction reduction);
/* Split by single elements of an axis. */
struct ig_layout ig_layout_along(struct ig_dims *dims, const struct ig_type *type, int axis);
bool ig_layout_same(const struct ig_layout *a, const struct ig_layout *b);

/* Where rank's range of the count begins, and its size. */
ig_dim ig_layout_begin(struct ig_dims *dims, const struct ig_layout *layout, int ranks, int rank);
ig_dim ig_layout_part(struct ig_dims *dims, const struct ig_layout *layout, int ranks, int rank);
/* Has each rank a part, as far as the sizes are constant? Not all operators can be computed on nothing (a convolution of no
 * groups), and it would not pay; a batch of symbolic size may turn out smaller than the group. */
bool ig_layout_serves(const struct ig_dims *dims, const struct ig_layout *layout, int ranks);
/* The type of what that rank holds. */
struct ig_type ig_layout_type(struct ig_dims *dims, const struct ig_layout *layout, const struct ig_type *type,
                              int ranks, int rank);

/* "whole", "axis 2 by 12", "axis 2 by 3 x (12) x 64", "sums" */
const char *ig_layout_text(struct ig_job *job, const struct ig_dims *dims, const struct ig_layout *layout);

#endif
