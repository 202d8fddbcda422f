/*
 * Sharding in a build: which strategy divides the network among so many ranks, by estimated times, and the graphs of its ranks.
 */
#ifndef IG_COMPILE_SHARD_H
#define IG_COMPILE_SHARD_H

#include "compile/plan_build.h"
#include "compile/shard/links.h"
#include "compile/shard/memory.h"
#include "import/onnx/import.h"
#include "pass/shard/stage.h"

enum { IG_STRATEGIES = 6 };

/* A way to divide the whole network, as considered. Times are in microseconds, at the usual sizes. */
struct ig_strategy {
    const char *name; /* "none", "batch", "tensor", "mixed"; "own": the model has collectives, and is not divided;
                         "pipeline": each rank has a stage; "replicas": each has samples of its own;
                         "patterns": only what is asked for, which the others do too */
    struct ig_shard_result result;
    struct ig_shard_memory memory;
    double rate; /* samples per second, of all ranks */
};

/* What was decided for a number of ranks. */
struct ig_sharding {
    int ranks;
    const struct ig_target *target;
    const struct ig_precisions *precisions;
    const struct ig_link *link;
    struct ig_strategy considered[IG_STRATEGIES];
    int n_considered, chosen;
    bool is_forced;  /* by the options */
    bool throughput; /* is the objective, instead of the time of a run */
    double memory;   /* bytes that a rank may need; 0: as many as there are */
    double samples;  /* of a run */
    struct ig_shard_asks asks;
    struct ig_graph *graph;   /* what was divided */
    struct ig_graph **graphs; /* by rank */
    uint32_t collectives;     /* of each */
    uint64_t weights;         /* bytes that the rank reads that reads most */
    double kernels;           /* microseconds of rank 0's kernels by their cost models; 0: they have none */
};

/* Raises INGOT_INVALID_ARGUMENT naming what is wrong with the options' ranks or sharding. */
void ig_sharding_check(struct ig_job *job, const struct ingot_build_options *options);

/* Raises INGOT_INTERNAL unless the ranks' graphs, which passes have changed, still meet in the collectives that they were
 * divided with. */
void ig_sharding_verify(const struct ig_sharding *sharding);

/* Raises INGOT_INVALID_ARGUMENT for a graph with collectives, of which an engine for one machine cannot be made. */
void ig_sharding_check_alone(const struct ig_graph *graph);

/* Plans and divides the graph, which has no dead nodes. One that has collectives of its own is each rank's already. `precisions`:
 * the options', parsed. */
void ig_sharding_make(struct ig_graph *graph, const struct ig_target *target, const struct ig_precisions *precisions,
                      const struct ingot_build_options *options, int ranks, struct ig_sharding *out_sharding);
/* The options with what the imported model says of nodes that `graph` still has before what they say, for so many ranks. Raises
 * INGOT_UNSUPPORTED for what is not understood. */
struct ingot_build_options ig_sharding_options(const struct ig_graph *imported, const struct ig_graph *graph,
                                               const struct ingot_build_options *options, unsigned ranks);

/* Why that strategy was chosen, or not: "hardly faster". */
const char *ig_sharding_why(const struct ig_sharding *sharding, int considered);

/* How the model's nodes are divided, for its device configurations. What these cannot say is left out: terms of sums but of products and
 * tables, and nodes of several products that are divided in different ways. Returns their number. */
uint32_t ig_sharding_divisions(const struct ig_sharding *sharding, const struct ig_onnx_division **out_divisions);

/* Appends the decision as JSON (docs/engine.md). */
void ig_sharding_explain(const struct ig_sharding *sharding, struct ig_text *text);

#endif
