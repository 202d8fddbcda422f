/* What operators do to the ranges of numbers: one row for each, for both sweeps of the analysis (precision_range.c,
 * precision_small.c). */
#ifndef IG_PASS_PRECISION_TABLE_H
#define IG_PASS_PRECISION_TABLE_H

#include "ir/graph.h"

/* From operands to results. */
enum ig_range_effect {
    IG_RANGE_WIDENS = 0, /* may leave the range of half precision; the default for operators not listed */
    IG_RANGE_FOLLOWS,    /* no larger than its operands */
    IG_RANGE_BOUNDS,     /* in range whatever the operands */
};

/* From results whose small numbers matter back to operands. */
enum ig_small_effect {
    IG_SMALL_STOPS = 0, /* an error of an operand is no larger than itself in the result: a sigmoid, an exponential */
    IG_SMALL_CLAMPS,    /* chooses: small results are small operands, but a network may begin here (a ReLU) */
    IG_SMALL_LINEAR,    /* sums, products, roots, powers, movements: small results come from operands alike */
};

struct ig_range_rule {
    enum ig_range_effect range;
    enum ig_small_effect small;
};
extern const struct ig_range_rule ig_range_rules[IG_OP_COUNT];

#endif
