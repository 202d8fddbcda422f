/*
 * How the weights of an engine follow from its model's initialisers: what refitting needs, and the runtime does not.
 * Flat arrays of little-endian records as in plan.h.
 */
#ifndef IG_ENGINE_REFIT_H
#define IG_ENGINE_REFIT_H

#include "base/error.h"
#include "engine/plan.h"

/* A weight: bytes of the weights section, and the graph in text form (docs/ir.md) that computes them. Its inputs are the
 * initialisers that the range of the table of sources lists, in order; its one output is the weight. */
struct ig_weight_entry {
    uint64_t offset, size;        /* ascending, not overlapping; 64-byte aligned, or where the one before ends */
    uint32_t recipe, recipe_size; /* range of the recipes; size 0: the weight depends on no initialiser */
    uint32_t sources, n_sources;
};

struct ig_initializer_entry {
    uint32_t name, alias; /* offsets of NUL-terminated strings in the names; alias may be IG_PLAN_NONE */
    uint32_t reason;      /* of STRUCTURAL: "import node 'r1' (Reshape)"; else IG_PLAN_NONE */
    uint32_t kind;        /* an enum ingot_initializer_kind */
    uint32_t dtype, rank;
    uint32_t is_transposed; /* 1: what has the alias is its transpose, a matrix; else 0 */
    uint32_t slot;          /* of an adapter, from 1; 0: it is the model's */
    int64_t dims[INGOT_MAX_RANK];
    uint64_t
        hash[2]; /* XXH3 of the elements, 128 bits; 0 for UNUSED, and for REFITTABLE in an engine without weights */
};

struct ig_refit_tables {
    uint32_t n_weights, n_initializers, n_sources, names_size;
    uint64_t recipes_size;
    const struct ig_weight_entry *weights;
    const struct ig_initializer_entry *initializers;
    const uint32_t *sources; /* indices of refittable initialisers */
    const char *names;
    const char *recipes; /* not terminated */
};

/* Bytes of all weights, rounded up to the alignment of sections. */
uint64_t ig_refit_weights_size(const struct ig_refit_tables *tables);
/* Bytes of those that an engine without weights has nevertheless: no initialiser could bring them back. Each is aligned to
 * 64 bytes, in order. */
uint64_t ig_refit_kept_size(const struct ig_refit_tables *tables);

/* By weight: may it lie apart from the others? Only if whatever reads any of it is a buffer of that weight alone. */
void ig_refit_find_apart(const struct ig_refit_tables *tables, const struct ig_plan *plan, bool *out_apart);

/* The rules of these tables: every index is within its table, and weights lie within `weights_size` bytes. The reader
 * calls it on its input, the writer on what the compiler produced. */
enum ingot_status ig_refit_check(const struct ig_refit_tables *tables, uint64_t weights_size,
                                 struct ingot_error *error);

#endif
