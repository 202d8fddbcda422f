/* What a rank needs of its memory, by an estimate: the constants that its nodes read, and what is held between nodes. */
#ifndef IG_COMPILE_SHARD_MEMORY_H
#define IG_COMPILE_SHARD_MEMORY_H

#include "pass/shard/search.h"

struct ig_shard_memory {
    double weights, values; /* bytes of the rank that needs most; of values, the most at once, at the usual sizes */
};

/* Values are counted as if nothing were fused. `narrow`: floats are stored in 16 bits. */
struct ig_shard_memory ig_shard_memory_of(struct ig_graph *graph, const struct ig_shard_plan *plan, bool narrow);

#endif
