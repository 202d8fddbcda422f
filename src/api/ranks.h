/*
 * The ranks of a context whose engine is divided among threads of this process: a device, a seat and a context of the
 * runtime for each. Rank 0 is the caller's thread; the others have threads of their own, which enqueue, run and wait when the
 * caller does, and sleep in between. All else is done by the caller's thread, to all of them.
 */
#ifndef IG_API_RANKS_H
#define IG_API_RANKS_H

#include "runtime/runtime.h"

struct ig_ranks;

struct ig_ranks_config {
    const struct ingot_allocator *allocator;
    const struct ig_engine_file *views;      /* by rank */
    const struct ig_context_config *context; /* of rank 0, whose device is the caller's */
    /* Opens the device of another rank, which is the ranks', and changes what of the configuration depends on it. */
    enum ingot_status (*open)(void *user, uint32_t rank, struct ig_context_config *inout_context,
                              struct ingot_error *error);
    void *user;
    uint32_t count;  /* at least 2 */
    bool gpus;       /* their devices are GPUs */
    uint32_t shared; /* as for ig_group_share_gpus */
};

/* `config->context` and what it points to need not outlive the call, but for what a context borrows. */
enum ingot_status ig_ranks_create(const struct ig_ranks_config *config, struct ig_ranks **out_ranks,
                                  struct ingot_error *error);
/* Accepts NULL. Destroys the contexts. */
void ig_ranks_destroy(struct ig_ranks *ranks);
/* By rank; rank 0 is the one whose results are the run's. */
struct ig_context *ig_ranks_context(const struct ig_ranks *ranks, uint32_t rank);
/* Of all ranks at once. A failure of the group ends with nothing under way and no results, and the next run begins with a new
 * group; INGOT_CANCELLED and INGOT_TIMEOUT of GPUs are as of a context of one rank. */
enum ingot_status ig_ranks_enqueue(struct ig_ranks *ranks, struct ingot_error *error);
/* `seconds` NULL: as ig_context_wait; else as ig_context_wait_for. */
enum ingot_status ig_ranks_wait(struct ig_ranks *ranks, const double *seconds, struct ingot_error *error);
/* Returns when all ranks' GPUs have done their runs, which still need ig_ranks_wait. */
enum ingot_status ig_ranks_await(struct ig_ranks *ranks, struct ingot_error *error);
enum ingot_status ig_ranks_run(struct ig_ranks *ranks, struct ingot_error *error);

#endif
