/*
 * Collectives out of phases, in which every rank gives something to all ranks at once. That is all that a back end has to
 * move; what is added up is added here, so that results do not depend on what moves them.
 */
#ifndef IG_DIST_PHASES_H
#define IG_DIST_PHASES_H

#include "dist/group.h"

/* What a rank gives in a phase, at most. */
#define IG_PHASE_BYTES ((size_t)256 << 10)

struct ig_phase {
    const struct ig_collective_call *call;
    uint64_t signature;
    /* Rank r is given the bytes r * stride … r * stride + size - 1 of what this rank has written, as far as these exist. */
    size_t stride, size;
};

struct ig_phases_api {
    /* Where this rank writes what it gives in the next phase. */
    char *(*next)(struct ig_group *group);
    /* The next phase: gives, and waits for all others, which must have the same signature. */
    enum ingot_status (*meet)(struct ig_group *group, const struct ig_phase *phase, struct ingot_error *error);
    /* What a rank gave in the last phase, until the next one but one is met: `at` bytes from its beginning on. Only what it
     * gave to this rank, or this rank to itself. */
    const char *(*from)(const struct ig_group *group, uint32_t rank, size_t at);
};

/* All kinds but SEND and RECEIVE. */
enum ingot_status ig_phases_call(struct ig_group *group, const struct ig_phases_api *api,
                                 const struct ig_collective_call *call, uint64_t signature, struct ingot_error *error);

#endif
