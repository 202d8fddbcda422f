/*
 * Sets of weights: refitting an engine that is loaded makes the weights anew beside those in use. Contexts go on with the
 * set that they are bound to and take the newest one at their next run, so that no run sees a mixture; a set that nobody
 * is bound to any more is where the next refit writes. Then only what differs is written: on the processor pages of the
 * file that did not change stay shared.
 *
 * Weights that are read in the caller's memory are in no set's memory; a set knows where they are.
 */
#ifndef IG_RUNTIME_WEIGHT_SET_H
#define IG_RUNTIME_WEIGHT_SET_H

#include "device/device.h"
#include "engine/engine.h"
#include "runtime/weight_places.h"

enum ig_weight_memory {
    IG_WEIGHTS_FILE,      /* the engine's file */
    IG_WEIGHTS_MAPPED,    /* a private mapping of it */
    IG_WEIGHTS_ALLOCATED, /* by the allocator */
    IG_WEIGHTS_DEVICE,
};

struct ig_weight_set {
    struct ig_weight_places places;
    enum ig_weight_memory kind;
    void *memory; /* its own; of a mapping, the weights' first page */
    size_t size;
    void *copies; /* of a file or a mapping: memory for what is put together, which else is in `memory` too */
    size_t copies_size;
    size_t users;                 /* contexts that are bound to it */
    uint64_t *made;               /* by weight: the number of the refit that made it; 0: it is the file's */
    const void **borrowed;        /* by weight: where it is in the caller's memory; NULL: in the set's own */
    const bool *used;             /* by copy of the plan: is it needed? */
    struct ig_weight_span *spans; /* room for most_spans */
    uint32_t n_weights, n_copies, most_spans;
    struct ig_weight_set *next;
};

/* `borrowed`, below: as in the set; NULL: nothing is. */

/* The weights that the file has. */
enum ingot_status ig_weight_set_of_file(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                        struct ig_weight_set **out_set, struct ingot_error *error);
/* A set in host memory that may be written, with the weights of `current` (NULL, for a file without weights: only those
 * that need no initialiser). */
enum ingot_status ig_weight_set_copy(const struct ig_engine_file *file, const struct ig_weight_set *current,
                                     const void *const *borrowed, const struct ingot_allocator *allocator,
                                     struct ig_weight_set **out_set, struct ingot_error *error);
/* Memory of a device, uninitialised, for what these ranks read; `seats` NULL: for all weights, and no memory before
 * ig_weight_set_use. */
enum ingot_status ig_weight_set_on_device(const struct ig_engine_file *file, const void *const *borrowed,
                                          struct ig_device *device, const struct ig_plan_seats *seats,
                                          const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                          struct ingot_error *error);
/* `device` is that of a set on a device, else NULL. */
void ig_weight_set_destroy(struct ig_weight_set *set, struct ig_device *device,
                           const struct ingot_allocator *allocator);

/* Gives the set memory of `set->size` bytes. */
void ig_weight_set_use(struct ig_weight_set *set, void *memory);
/* Does the set borrow the same weights, wherever they are? */
bool ig_weight_set_has_layout(const struct ig_weight_set *set, const void *const *borrowed);
/* Reads borrowed weights, of a set with that layout, in other places from now on. */
void ig_weight_set_borrow(struct ig_weight_set *set, const struct ig_refit_tables *tables, const void *const *borrowed);

/* Puts together, in a host set, what is made of several pieces of its weights. */
void ig_weight_set_put_together(struct ig_weight_set *set, const struct ig_plan *plan);

/* Brings a host set up to date with another, but for the weights that are stale anyway. */
void ig_weight_set_follow(struct ig_weight_set *set, const struct ig_weight_set *current,
                          const struct ig_refit_tables *tables, const bool *stale);

#endif
