/*
 * Compiled code of kernels: from the cache, or compiled and added to it. Within a build, nothing is compiled twice.
 *
 * A key is the hash of the source without comments, in which the kernel has no name of its own, of Ingot's version,
 * and of what the compiler says that its output depends on: its version, the hashes of its programs, and its options with
 * the target among them. So equal kernels of other models are found, and nothing else is.
 */
#ifndef IG_COMPILE_OBJECTS_H
#define IG_COMPILE_OBJECTS_H

#include "base/map.h"
#include "cache/cache.h"
#include "compile/compiler.h"

struct ig_objects;

/* For one build. `session`: with a cache; NULL: there is none. It outlives the objects. */
struct ig_objects *ig_objects_create(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     struct ig_cache_session *session);

/* The code of each source; PTX if `is_portable`. Sources that others build at this moment are waited for, once the rest is
 * compiled. `out_new`: which ones this build has compiled; may be NULL. Raises INGOT_TOOLCHAIN. */
void ig_objects_get(struct ig_job *job, struct ig_objects *objects, bool is_portable, const struct ig_source *sources,
                    unsigned count, void (*progress)(void *user, unsigned done, unsigned total), void *user,
                    struct ig_object_code *out_objects, bool *out_new);

/* How many kernels' code came from the cache, and was compiled, so far. */
void ig_objects_count(const struct ig_objects *objects, unsigned *out_cached, unsigned *out_compiled);

#endif
