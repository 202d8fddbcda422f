/*
 * The pipeline: compiles a graph of core operators into an engine, in a straight line (pipeline.c).
 */
#ifndef IG_COMPILE_COMPILE_H
#define IG_COMPILE_COMPILE_H

#include "engine/engine.h"
#include "ir/graph.h"

/* Builds `graph` (as imported; unchanged) with the public options and writes the engine to `sink`. Raises. */
void ig_compile(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                const struct ig_engine_sink *sink);

#endif
