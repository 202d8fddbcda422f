/*
 * What all contexts of an engine on one device share, or all with the same rank there, from the first context until the engine is destroyed: the weights,
 * uploaded once if the device has memory of its own, or another process's copy there; and the loaded code. On a device
 * that is lost they go with the last user, or before the next, so that the device can be opened afresh. Refitting gives
 * each device a further set of weights (weight_set.h). Thread-safe.
 */
#ifndef IG_RUNTIME_RESIDENT_H
#define IG_RUNTIME_RESIDENT_H

#include <pthread.h>

#include <stdatomic.h>

#include "runtime/weight_set.h"

/* Opens device number `ordinal`. */
typedef enum ingot_status (*ig_device_opener)(int ordinal, const struct ingot_allocator *allocator,
                                              struct ig_device **out_device, struct ingot_error *error);

struct ig_residence; /* one device's, or one rank's there */

struct ig_resident {
    const struct ig_weight_places *weights;
    struct ig_module *module;
    struct ig_residence *residence;                 /* which has them */
    struct ig_weight_set *set;                      /* that the weights are */
    const _Atomic(struct ig_weight_set *) *current; /* the newest one there */
};

/* Are there newer weights? Costs a load. */
static inline bool ig_resident_is_old(const struct ig_resident *resident) {
    return atomic_load_explicit(resident->current, memory_order_acquire) != resident->set;
}

/* The sets of weights on one device. */
struct ig_weight_sets {
    struct ig_weight_set *first;
    _Atomic(struct ig_weight_set *) current; /* NULL: none yet */
};

struct ig_resident_store {
    pthread_mutex_t lock;
    const struct ingot_allocator *allocator;
    const struct ig_engine_file *file; /* outlives the store */
    struct ig_residence *first;
    struct ig_weight_sets host; /* in host memory: those of processors, and what other devices get theirs from */
    _Atomic uint64_t refits;
    int borrowed_ordinal; /* of the device that borrowed weights are in the memory of */
};

void ig_resident_store_init(struct ig_resident_store *store, const struct ig_engine_file *file,
                            const struct ingot_allocator *allocator);
/* Nobody uses what it gave out any more. */
void ig_resident_store_deinit(struct ig_resident_store *store);

/* What is on device `ordinal` for number `seat` of the process's ranks (0 of an engine that is not divided), which gains a user: a
 * device with memory of its own has the weights that this rank reads, and those of other ranks apart from them. Blocks while another
 * thread brings it there. */
enum ingot_status ig_resident_store_get(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                        uint32_t seat, struct ig_resident *out_resident, struct ingot_error *error);
/* Call before device `ordinal` is opened for another user. */
void ig_resident_store_drop_lost(struct ig_resident_store *store, int ordinal);
/* A user leaves, which got `resident`. */
void ig_resident_store_put(struct ig_resident_store *store, const struct ig_resident *resident);
/* The user takes the newest weights; it uses the others no more. */
void ig_resident_store_switch(struct ig_resident_store *store, struct ig_resident *inout_resident);

/* By weight. */
struct ig_weight_change {
    const bool *stale; /* made anew; not those that are borrowed, but those that are so no more */
    const void *const
        *borrowed; /* as in ig_weight_set; NULL: none is. Only weights that may lie apart (engine/refit.h) */
    int ordinal;   /* of the device whose memory that is */
};

/*
 * New weights; one refit at a time, while other threads do anything else. begin gives a set in host memory that has the present weights,
 * but for those that are stale, which the caller writes to where its places are. Then commit, which brings them to all
 * devices and makes them the newest, or on failure leaves all as it was; or abort. Each ends what begin began. begin fails
 * with INGOT_UNSUPPORTED where the weights are shared with other processes, or borrowed on one device and used on another.
 */
enum ingot_status ig_resident_store_refit_begin(struct ig_resident_store *store, const struct ig_weight_change *change,
                                                struct ig_weight_set **out_set, struct ingot_error *error);
enum ingot_status ig_resident_store_refit_commit(struct ig_resident_store *store, const struct ig_weight_change *change,
                                                 struct ig_weight_set *set, struct ingot_error *error);
void ig_resident_store_refit_abort(struct ig_resident_store *store, const struct ig_weight_change *change,
                                   struct ig_weight_set *set);

/* Might a run read a weight at this address of the caller's? */
bool ig_resident_store_borrows(struct ig_resident_store *store, const void *data);

/* Copies from the memory of device `ordinal` to the host's, and waits. */
struct ig_fetch {
    const void *from;
    void *to;
    size_t size;
};
enum ingot_status ig_resident_fetch(ig_device_opener open, int ordinal, const struct ingot_allocator *allocator,
                                    const struct ig_fetch *fetches, size_t count, struct ingot_error *error);

/* Share all weights on device `ordinal` with other processes; documented at ingot_engine_export_weights and _import_
 * in ingot.h. `out_descriptor` is the caller's to close; `descriptor` stays the caller's. */
enum ingot_status ig_resident_store_export(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int *out_descriptor, struct ingot_error *error);
enum ingot_status ig_resident_store_import(struct ig_resident_store *store, ig_device_opener open, int ordinal,
                                           int descriptor, struct ingot_error *error);

#endif
