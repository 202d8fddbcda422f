/* The key of a structure: a hash of everything that a build depends on, but for the values of initialisers. */
#ifndef IG_COMPILE_STRUCTURE_KEY_H
#define IG_COMPILE_STRUCTURE_KEY_H

#include "base/hash/hash.h"
#include "compile/compiler.h"
#include "compile/options.h"
#include "engine/refit.h"
#include "ir/graph.h"

/* Of the sources that this library was built from (generated). */
extern const char ig_sources_hash[];

/* `graph` as imported, with what options add to it. Values that the import depended on are part of the key. */
struct ig_hash128 ig_structure_key(struct ig_graph *graph, const struct ingot_build_options *options,
                                   const struct ig_target_choice *target, const struct ig_kernel_compiler *compiler);

/* The key of what was built from the same with these values of the structural initialisers that `tables` list. */
struct ig_hash128 ig_structure_next_key(struct ig_hash128 key, const struct ig_refit_tables *tables,
                                        const struct ig_initializers *all);

/* The key of the engine that a structure becomes with these weights. */
struct ig_hash128 ig_structure_engine_key(struct ig_hash128 key, const struct ig_initializers *all);

#endif
