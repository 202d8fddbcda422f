/* The public engine: a loaded file that contexts share. Immutable except for its reference count, the result of a
 * deferred weights check, the explanation as text, and what it keeps on devices. */
#ifndef IG_API_ENGINE_H
#define IG_API_ENGINE_H

#include <stdatomic.h>

#include "runtime/resident.h"
#include "runtime/runtime.h"

struct ingot_engine {
    const struct ingot_allocator *allocator;
    struct ig_engine_file file;
    struct ig_engine_file
        *views; /* of the file, for each rank of this process (engine/plan_view.h); NULL: there are no ranks */
    uint32_t n_views;
    struct ingot_group *group; /* NULL: it has no ranks, or they are threads of this process */
    atomic_size_t references;
    atomic_int weights_state; /* an enum ig_weights_state */
    struct ig_resident_store resident;
    pthread_mutex_t refitting;            /* one at a time; guards what follows */
    bool is_refitted;                     /* else the next two are not filled yet, and may be NULL */
    struct ig_initializer_entry *entries; /* as in the file, but for the present values */
    const void **borrowed;                /* by weight: where it is read in the caller's memory; NULL: it is not */
    int borrowed_device;                  /* the GPU whose memory that is */
    _Atomic bool *is_in_place; /* by initialiser: all that is computed from it is read in place; any thread may look */
    _Atomic(struct ig_engine_text *) explanation; /* NULL: nobody has asked yet */
};

struct ig_engine_text {
    char *text;
    size_t size;
};

enum ig_weights_state { IG_WEIGHTS_TRUSTED, IG_WEIGHTS_UNCHECKED, IG_WEIGHTS_BAD };

/* Fails if the weights check has failed before. */
enum ingot_status ig_engine_refuse_bad_weights(const struct ingot_engine *engine, struct ingot_error *error);
/* The check that INGOT_VERIFY_LATER defers until after the first run. Concurrent contexts may each do it, with the same
 * result. */
enum ingot_status ig_engine_trust_weights(struct ingot_engine *engine, struct ingot_error *error);

#endif
