/*
 * Variants: one region computed by different kernels at different sizes.
 *
 * The sizes of an engine with symbolic dims are unknown when it is built, and the kernel that is best for one image is
 * not best for 32. So the cost model is asked at sample points of the symbols' ranges which candidate is best for each
 * region, and a few of these become the region's kernels. Which one runs is an expression of the sizes, part of the
 * shape program: a decision tree fitted to the sample points.
 *
 * A further kernel must pay. Variants are added one by one for the whole network, always the one that saves most of its
 * estimated time over all sample points, until the next would save too little.
 */
#ifndef IG_COMPILE_VARIANTS_H
#define IG_COMPILE_VARIANTS_H

#include "base/map.h"
#include "kernel/kernel.h"

/* Where one of a region's kernels runs, for people: "3136 <= 3136*batch < 9408". */
struct ig_variant_range {
    int number; /* 0: the first kernel; i: the one of at[i - 1] */
    const char *where;
};

/* The kernels of a region, beside its first: the best candidate at the usual sizes, or the tuner's. */
struct ig_variants {
    IG_VEC(const struct ig_sizes *) at;     /* each is candidate 0 at these sizes */
    ig_dim choice;                          /* the number of the kernel that runs */
    IG_VEC(struct ig_variant_range) ranges; /* the same for people */
};

struct ig_variant_set {
    struct ig_map by_fingerprint; /* the regions' canonical texts */
    IG_VEC(struct ig_variants) variants;
};

/* Chooses variants for the regions of a graph, bodies included; at most `most` kernels for each. */
void ig_variants_choose(struct ig_graph *graph, const struct ig_target *target, uint32_t most,
                        struct ig_variant_set *out_set);
/* NULL: the region has one kernel. */
const struct ig_variants *ig_variants_get(const struct ig_variant_set *set, const char *fingerprint);

#endif
