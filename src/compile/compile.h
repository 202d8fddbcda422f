/*
 * The pipeline: compiles a graph of core operators into an engine, in a straight line (pipeline.c).
 */
#ifndef IG_COMPILE_COMPILE_H
#define IG_COMPILE_COMPILE_H

#include "compile/figures.h"
#include "engine/engine.h"
#include "ir/graph.h"

/* Builds `graph` (as imported; unchanged) with the public options and writes the engine to `sink`. Raises. */
void ig_compile(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                const struct ig_engine_sink *sink);

/* What a build would make, in numbers. */
enum { IG_COUNT_POINTS = 3 };
struct ig_count_point {
    int64_t *symbols; /* by symbol of the plan */
    struct ig_figures figures;
};
struct ig_counts {
    const char *target, *precision;
    uint32_t families[IG_FAMILY_COUNT]; /* regions by family, bodies included */
    uint32_t kernels;                   /* distinct ones, variants included */
    uint64_t weights;                   /* bytes */
    struct ig_count_point points[IG_COUNT_POINTS];
    uint32_t n_points;
};
/* Everything but compiling, for which no compiler is needed. Writes an engine to `sink` that has a plan but neither code nor
 * weights, for planning its memory. Takes no notice of caches and tuning. Raises. */
void ig_compile_count(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                      const struct ig_engine_sink *sink, struct ig_counts *out_counts);

struct ig_sharding; /* shard/shard.h */
/* How a build would divide the network, for options with one number of ranks. Raises. */
void ig_compile_divide(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                       struct ig_sharding *out_sharding);

#endif
