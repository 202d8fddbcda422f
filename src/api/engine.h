/* The public engine: a loaded file that contexts share. Immutable but for its counter, the
 * result of a late check, and the weights that GPUs were given. */
#ifndef IG_API_ENGINE_H
#define IG_API_ENGINE_H

#include <stdatomic.h>

#include "runtime/runtime.h"
#include "runtime/weights.h"

struct ingot_engine {
    const struct ingot_allocator *allocator;
    struct ig_engine_file file;
    atomic_size_t references;
    atomic_int weights_state;       /* an enum ig_weights_state */
    struct ig_weight_store weights; /* on GPUs */
};

enum ig_weights_state { IG_WEIGHTS_TRUSTED, IG_WEIGHTS_UNCHECKED, IG_WEIGHTS_BAD };

/* An error where the weights' check has failed before. */
enum ingot_status ig_engine_refuse_bad_weights(const struct ingot_engine *engine, struct ingot_error *error);
/* The check that INGOT_VERIFY_LATER put off, behind the first run. Contexts that come at the same time each do it; they
 * find the same. */
enum ingot_status ig_engine_trust_weights(struct ingot_engine *engine, struct ingot_error *error);

#endif
