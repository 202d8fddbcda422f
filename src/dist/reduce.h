/* Reductions of the ranks' contributions, in the order of the ranks: the same bits wherever they are computed. */
#ifndef IG_DIST_REDUCE_H
#define IG_DIST_REDUCE_H

#include "base/collective.h"

/* to[i] = from[0][i], reduced with from[1][i], … from[ranks - 1][i], for `count` elements of a type that can be reduced.
 * `to` may be one of `from`. */
void ig_reduce(uint32_t dtype, uint32_t reduction, const void *const *from, uint32_t ranks, void *to, size_t count);

#endif
