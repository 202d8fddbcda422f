/*
 * Collectives: what ranks that compute together do with each other's tensors. The compiler describes them, an engine
 * stores them, a group (dist/dist.h) executes them. Tensors are dense and row-major; `parts` has the extent of the axis
 * that is divided among the ranks, by rank, whose sum is `whole`. Parts may differ, and be 0.
 *
 *     ALL_REDUCE      [outer, inner] of each rank       -> their reduction, everywhere
 *     ALL_GATHER      [outer, parts[rank], inner]       -> [outer, whole, inner], everywhere
 *     REDUCE_SCATTER  [outer, whole, inner] of each     -> [outer, parts[rank], inner], a part of their reduction
 *     ALL_TO_ALL      [ranks, outer, inner]             -> [ranks, outer, inner]: block j goes to rank j, and becomes the
 *                                                          block of the sender's number there
 *     BROADCAST       [outer, inner] of rank `peer`     -> the same, everywhere (others' sources are not read)
 *     SEND            [outer, inner]                    -> to rank `peer`
 *     RECEIVE                                           -> [outer, inner] from rank `peer`
 *
 * Reductions proceed in the order of the ranks, each rank with the same bits. Sums of f16 and bf16 are added in f32 and
 * rounded once; integers wrap around. The maximum and minimum of anything and NaN is NaN.
 */
#ifndef IG_BASE_COLLECTIVE_H
#define IG_BASE_COLLECTIVE_H

#include "base/error.h"

enum ig_collective_kind {
    IG_ALL_REDUCE,
    IG_ALL_GATHER,
    IG_REDUCE_SCATTER,
    IG_ALL_TO_ALL,
    IG_BROADCAST,
    IG_SEND,
    IG_RECEIVE,
    IG_COLLECTIVE_COUNT
};
enum ig_reduction { IG_REDUCE_SUM, IG_REDUCE_MAX, IG_REDUCE_MIN, IG_REDUCTION_COUNT };

/* The most ranks of a group. */
#define IG_MOST_RANKS 64u

/* A record of the engine file. */
struct ig_collective {
    uint32_t kind, dtype;
    uint32_t reduction; /* ALL_REDUCE and REDUCE_SCATTER; else 0 */
    uint32_t peer;      /* a rank: BROADCAST, SEND and RECEIVE; else 0 */
};

/* In elements. Which members matter is said above. */
struct ig_collective_sizes {
    size_t outer, inner;
    size_t parts[IG_MOST_RANKS]; /* ALL_GATHER and REDUCE_SCATTER; else zeros */
};

/* "all_reduce"; "sum". */
const char *ig_collective_name(uint32_t kind);
const char *ig_reduction_name(uint32_t reduction);
/* Does it reduce? Does it have parts? Is it an exchange of two ranks, which the others take no part in? */
bool ig_collective_reduces(uint32_t kind);
bool ig_collective_divides(uint32_t kind);
bool ig_collective_pairs(uint32_t kind);
/* Can elements of that type be reduced? */
bool ig_reduction_has(uint32_t dtype);

/* NULL if the description is valid for that many ranks, else what is wrong with it. */
const char *ig_collective_error(const struct ig_collective *collective, uint32_t ranks);
/* The bytes of a rank's source and destination; 0 where there is none. False if they exceed the address space. */
bool ig_collective_bytes(const struct ig_collective *collective, const struct ig_collective_sizes *sizes, uint32_t rank,
                         uint32_t ranks, size_t *out_source, size_t *out_destination);

#endif
