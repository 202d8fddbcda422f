/*
 * The initialisers of a model: its weights by name. Refitting an engine replaces their values, so compiling must not
 * depend on them silently: whatever reads a value to decide something notes it here (ig_const_decides).
 */
#ifndef IG_IR_INITIALIZER_H
#define IG_IR_INITIALIZER_H

#include "base/map.h"

struct ig_initializer {
    uint32_t index; /* in the model's list */
    const char *name;
    const char *alias;  /* its name in the framework that wrote the model; NULL: unknown, or the same */
    bool is_transposed; /* against what has that name: a matrix */
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    const void *bytes; /* row-major; NULL: nothing that is computed needs it */
    size_t size;
    unsigned slot;                 /* of an adapter (compile/refit/adapters.h), from 1; 0: it is the model's */
    bool is_ambiguous;             /* another has the same name */
    const char *decided;           /* what its value decided first: "import node 'r1' (Reshape)"; NULL: nothing */
    const char *decided_by_import; /* the same, of the import alone */
};

/* Of one model, in the order of their first use, those of bodies included; then those that nothing uses. */
struct ig_initializers {
    struct ig_job *job;
    IG_VEC(struct ig_initializer *) list;
    struct ig_map by_name;
};

struct ig_initializers *ig_initializers_create(struct ig_job *job);
/* Adds one; `bytes` must live as long as the job. Of two with one name (bodies have names of their own) neither can be
 * refitted. */
struct ig_initializer *ig_initializers_add(struct ig_initializers *all, const char *name, enum ingot_dtype dtype,
                                           size_t rank, const int64_t *dims, const void *bytes, size_t size);

/* A build forgets what earlier builds of the same model have decided. */
void ig_initializers_end_import(struct ig_initializers *all);
void ig_initializers_begin_build(struct ig_initializers *all);

#endif
