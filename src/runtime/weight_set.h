/*
 * Sets of weights: refitting an engine that is loaded makes the weights anew beside those in use. Contexts go on with the
 * set that they are bound to and take the newest one at their next run, so that no run sees a mixture; a set that nobody
 * is bound to any more is where the next refit writes. Then only what differs is written: on the processor pages of the
 * file that did not change stay shared.
 */
#ifndef IG_RUNTIME_WEIGHT_SET_H
#define IG_RUNTIME_WEIGHT_SET_H

#include "device/device.h"
#include "engine/engine.h"

enum ig_weight_memory {
    IG_WEIGHTS_BORROWED,  /* the engine's file */
    IG_WEIGHTS_MAPPED,    /* a private mapping of it */
    IG_WEIGHTS_ALLOCATED, /* by the allocator */
    IG_WEIGHTS_DEVICE,
};

struct ig_weight_set {
    const void *weights; /* as kernels see them */
    enum ig_weight_memory kind;
    void *memory; /* of a mapping, its first page */
    size_t size;
    size_t users;   /* contexts that are bound to it */
    uint64_t *made; /* by weight: the number of the refit that made it; 0: it is the file's */
    uint32_t n_weights;
    struct ig_weight_set *next;
};

/* The weights that the file has. */
enum ingot_status ig_weight_set_borrow(const struct ig_engine_file *file, const struct ingot_allocator *allocator,
                                       struct ig_weight_set **out_set, struct ingot_error *error);
/* A set in host memory that may be written, with the weights of `current` (NULL, for a file without weights: only those
 * that need no initialiser). */
enum ingot_status ig_weight_set_copy(const struct ig_engine_file *file, const struct ig_weight_set *current,
                                     const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                     struct ingot_error *error);
/* Memory of a device, uninitialised; with `allocate` false the caller sets it, and frees it. */
enum ingot_status ig_weight_set_on_device(const struct ig_engine_file *file, struct ig_device *device, bool allocate,
                                          const struct ingot_allocator *allocator, struct ig_weight_set **out_set,
                                          struct ingot_error *error);
/* `device` is that of a set on a device, else NULL. */
void ig_weight_set_destroy(struct ig_weight_set *set, struct ig_device *device,
                           const struct ingot_allocator *allocator);

/* Brings a host set up to date with another, but for the weights that are stale anyway. */
void ig_weight_set_follow(struct ig_weight_set *set, const struct ig_weight_set *current,
                          const struct ig_refit_tables *tables, const bool *stale);

#endif
