/*
 * Variants: one region computed by different kernels at different sizes.
 *
 * The sizes of an engine with symbolic dims are unknown when it is built, and the kernel that is best for one image is
 * not best for 32. So the cost model is asked at sample points of the symbols' ranges (samples.h) which candidate is
 * best for each region, and a few of these become the region's kernels. Where the tuner has times, they count instead
 * (costs.h). Which kernel runs is an expression of the sizes, part of the shape program (decision.h).
 *
 * A further kernel must pay. Variants are added one by one for the whole network, always the one that mends most of what
 * the network loses at the sample points, until it is close to its best everywhere or compiling them would take too
 * long.
 */
#ifndef IG_COMPILE_VARIANTS_H
#define IG_COMPILE_VARIANTS_H

#include "base/map.h"
#include "compile/variants/decision.h"
#include "tune/tune.h"

/* A further kernel of a region: a candidate at some sizes. */
struct ig_variant {
    const struct ig_sizes *at;
    int choice;
};

/* The further kernels of a region. Its first is the best candidate at the usual sizes, or the tuner's. */
struct ig_variants {
    IG_VEC(struct ig_variant) list;
    struct ig_decision decision; /* kernel 0: the first; i: list.at[i - 1] */
};

struct ig_variant_set {
    struct ig_map by_fingerprint; /* the regions' canonical texts */
    IG_VEC(struct ig_variants) variants;
};

/* Chooses variants for the regions of a graph, bodies included; at most `most` kernels for each. The tuner has run; NULL:
 * there are no times. */
void ig_variants_choose(struct ig_graph *graph, const struct ig_target *target, const struct ig_tuner *tuner,
                        uint32_t most, struct ig_variant_set *out_set);
/* NULL: the region has one kernel. */
const struct ig_variants *ig_variants_get(const struct ig_variant_set *set, const char *fingerprint);

#endif
