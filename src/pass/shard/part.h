/* Parts of constants: what a rank would have of one, with its slices as far up in its recipe as rules lead. */
#ifndef IG_PASS_SHARD_PART_H
#define IG_PASS_SHARD_PART_H

#include "pass/shard/layout.h"

/* A concatenation along the divided axis of which each operand was divided by itself: their units, in the order of the axis. */
enum { IG_MOST_DEALT = 8 };
struct ig_shard_dealt {
    int count; /* 0: there is none */
    int64_t units[IG_MOST_DEALT];
};

/* Appends the part to the graph that has the constant. With out_dealt, concatenations may be dealt out. */
ig_value ig_shard_part(struct ig_graph *graph, ig_value constant, const struct ig_layout *layout, int ranks, int rank,
                       struct ig_shard_dealt *out_dealt);

#endif
