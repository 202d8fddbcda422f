/* Descriptions of collectives; see collective.h. */
#include "base/collective.h"

#include "base/memory.h"

const char *ig_collective_name(uint32_t kind) {
    static const char *const names[IG_COLLECTIVE_COUNT] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                           "broadcast",  "send",       "receive"};
    return kind < IG_COLLECTIVE_COUNT ? names[kind] : "?";
}

const char *ig_reduction_name(uint32_t reduction) {
    static const char *const names[IG_REDUCTION_COUNT] = {"sum", "max", "min"};
    return reduction < IG_REDUCTION_COUNT ? names[reduction] : "?";
}

bool ig_collective_reduces(uint32_t kind) {
    return kind == IG_ALL_REDUCE || kind == IG_REDUCE_SCATTER;
}

bool ig_collective_divides(uint32_t kind) {
    return kind == IG_ALL_GATHER || kind == IG_REDUCE_SCATTER;
}

bool ig_collective_pairs(uint32_t kind) {
    return kind == IG_SEND || kind == IG_RECEIVE;
}

bool ig_reduction_has(uint32_t dtype) {
    return dtype > INGOT_DTYPE_NONE && dtype <= INGOT_BOOL;
}

const char *ig_collective_error(const struct ig_collective *c, uint32_t ranks) {
    bool named = ig_collective_pairs(c->kind) || c->kind == IG_BROADCAST;
    if (ranks < 1 || ranks > IG_MOST_RANKS) return "an impossible number of ranks";
    if (c->kind >= IG_COLLECTIVE_COUNT) return "an unknown kind";
    if (c->dtype <= INGOT_DTYPE_NONE || c->dtype >= INGOT_DTYPE_COUNT) return "an unknown type of elements";
    if (ig_collective_reduces(c->kind) ? c->reduction >= IG_REDUCTION_COUNT : c->reduction != 0)
        return "an unknown reduction";
    if (ig_collective_reduces(c->kind) && !ig_reduction_has(c->dtype)) return "elements that cannot be reduced";
    if (named ? c->peer >= ranks : c->peer != 0) return "a peer that is no rank";
    return NULL;
}

/* size *= factor */
static bool times(size_t *size, size_t factor) {
    return ig_size_mul(*size, factor, size);
}

bool ig_collective_bytes(const struct ig_collective *c, const struct ig_collective_sizes *sizes, uint32_t rank,
                         uint32_t ranks, size_t *out_source, size_t *out_destination) {
    size_t block = ingot_dtype_size((enum ingot_dtype)c->dtype), whole = 0, part, all;
    bool fits = times(&block, sizes->outer) && times(&block, sizes->inner);
    for (uint32_t r = 0; r < ranks; r++)
        fits = fits && ig_size_add(whole, sizes->parts[r], &whole);
    part = all = block;
    if (ig_collective_divides(c->kind)) fits = fits && times(&part, sizes->parts[rank]) && times(&all, whole);
    if (c->kind == IG_ALL_TO_ALL) fits = fits && times(&part, ranks) && times(&all, ranks);
    *out_source = c->kind == IG_RECEIVE ? 0 : c->kind == IG_REDUCE_SCATTER ? all : part;
    *out_destination = c->kind == IG_SEND ? 0 : c->kind == IG_REDUCE_SCATTER ? part : all;
    return fits;
}
