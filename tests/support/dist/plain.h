/* Collectives (base/collective.h) computed plainly, to check others against: sums in the order of the ranks, in f32 or the type
 * itself, rounded once. */
#ifndef TESTS_SUPPORT_DIST_PLAIN_H
#define TESTS_SUPPORT_DIST_PLAIN_H

#include "base/collective.h"

/* Half of them any bits, of which floats are of all magnitudes, NaN or infinite, the others small numbers, whose sums are
 * rounded. */
void plain_fill(enum ingot_dtype dtype, void *to, size_t count, uint32_t seed);
/* What `rank` gets of the ranks' sources. Reduces floats of 16 bits and more, and integers of 32 and 64. */
void plain_collective(const struct ig_collective *what, const struct ig_collective_sizes *sizes, uint32_t ranks,
                      uint32_t rank, void *const *sources, void *result);
/* Are elements of results the same bits? Of reductions of floats, any NaN is the same, and either zero in maxima and minima. */
bool plain_is_same(const struct ig_collective *what, const void *expected, const void *found);

#endif
