/* Estimates for the search (pass/shard/search.h), from what nodes read, write and compute, and the rates of the machine that
 * each rank has. */
#ifndef IG_COMPILE_SHARD_COSTS_H
#define IG_COMPILE_SHARD_COSTS_H

#include "ir/target.h"
#include "pass/shard/search.h"

/* `narrow`: floats are stored in 16 bits. */
struct ig_shard_costs ig_shard_costs_open(struct ig_graph *graph, const struct ig_target *target, bool narrow);

#endif
