/* Where the weights are, as kernels see them: in one piece, but for those that are read in the caller's memory. */
#ifndef IG_RUNTIME_WEIGHT_PLACES_H
#define IG_RUNTIME_WEIGHT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Weights that lie in memory as they do in the weights section. */
struct ig_weight_span {
    uint64_t begin, end; /* in the section */
    const void *address;
    bool is_borrowed; /* one weight, in the caller's memory */
    bool is_copied;   /* behind the section: put together from weights of it (engine/plan.h) */
    bool is_absent;   /* no rank reads it that the places are for; there is no address */
};

struct ig_weight_places {
    uint64_t number; /* another one where addresses are others: frames notice by it that they have to be placed again */
    uint32_t n_spans;
    const struct ig_weight_span *spans; /* ascending, without gaps, from 0 to the section's end; at least one */
};

/* The number of the span that a byte of the weights section is in. */
static inline uint32_t ig_weight_span_of(const struct ig_weight_places *places, uint64_t offset) {
    uint32_t low = 0, high = places->n_spans; /* spans[low] begins at or before it, spans[high] behind it */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (places->spans[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The address of a byte of the weights section that is not absent. */
static inline void *ig_weight_address(const struct ig_weight_places *places, uint64_t offset) {
    const struct ig_weight_span *span = &places->spans[ig_weight_span_of(places, offset)];
    return (void *)((uintptr_t)span->address + (size_t)(offset - span->begin));
}

/* Without what is borrowed, and what is absent. */
static inline uint64_t ig_weight_own_bytes(const struct ig_weight_places *places) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < places->n_spans; i++) {
        if (!places->spans[i].is_borrowed && !places->spans[i].is_absent)
            bytes += places->spans[i].end - places->spans[i].begin;
    }
    return bytes;
}

#endif
