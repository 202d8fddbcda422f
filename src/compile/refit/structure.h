/*
 * Structures in the cache: what a build has made but for the weights, which is an engine without them. A later build of
 * the same model, with these weights or others, computes the weights and has its engine: no pass, no kernel, no compiler.
 *
 * A build's key (structure_key.h) covers everything that it depends on but the values of initialisers. Which of those
 * decide anything is known only when it is done, and may depend on their values in turn. So the structure says which ones
 * did, and by which values; a build with others goes on to the key that follows from the first key and from its
 * own values of these, and so on. Each step compares initialisers that no step before has compared; the last one finds
 * a structure that fits, or none.
 */
#ifndef IG_COMPILE_STRUCTURE_H
#define IG_COMPILE_STRUCTURE_H

#include "cache/cache.h"
#include "compile/refit/structure_key.h"
#include "engine/engine.h"

struct ig_structures;

/* For one build, and its session with the cache, which may be NULL. NULL: it takes no structure and leaves none. Those that tune don't, since the outcome depends on measured
 * times; nor those whose passes are to be seen. `graph` as imported. */
struct ig_structures *ig_structures_open(struct ig_graph *graph, const struct ingot_build_options *options,
                                         const struct ig_target_choice *target,
                                         const struct ig_kernel_compiler *compiler, struct ig_cache_session *session);
/* Waits if somebody else builds the same. NULL: the structure is to be built, which others then wait for. */
const struct ig_engine_file *ig_structures_find(struct ig_structures *structures);
/* Stores what was built. */
void ig_structures_keep(struct ig_structures *structures, const char *label, const struct ig_engine_memory *engine);
/*
 * Engines, if the cache keeps them: the present structure with the weights of this build. False: there is none, or it does not
 * keep one with so many bytes of weights.
 */
bool ig_structures_keeps_engine(const struct ig_structures *structures, uint64_t weights_size);
bool ig_structures_copy_engine(struct ig_structures *structures, const struct ig_engine_sink *sink);
void ig_structures_keep_engine(struct ig_structures *structures, const char *label,
                               const struct ig_engine_memory *engine);

/* Also closes what was found, and ends the waiting of others. */
void ig_structures_close(struct ig_structures *structures);

#endif
